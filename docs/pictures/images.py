"""Views of two photographs that scikit-learn ships, by four recipes."""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.figure import Figure
from saving import bare, save
from sklearn.datasets import load_sample_images

from viewsmith.modalities.images.views import image_recipe

SIDE = 96
photos = [photo[:420:4, 100:520:4][:SIDE, :SIDE] for photo in load_sample_images().images]
x = torch.from_numpy(np.stack(photos)).permute(0, 3, 1, 2) / 255

figure = Figure(figsize=(8, 2.5))
axes = figure.subplots(2, 7)
views = [("sample", x)]
for number, name in enumerate(("simclr", "moco", "byol")):
    maker = image_recipe(name, size=SIDE)
    views += [(name, maker(x, generator=torch.Generator().manual_seed(2 * number + i))) for i in (0, 1)]
for column, (name, made) in zip(axes.T, views, strict=True):
    for axis, image in zip(column, made, strict=True):
        bare(axis).imshow(image.permute(1, 2, 0).clamp(0, 1).numpy())
    column[0].set_title(name, fontsize=9)
figure.subplots_adjust(wspace=0.04, hspace=0.04)
save(figure, "images")
