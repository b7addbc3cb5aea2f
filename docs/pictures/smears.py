"""White cells in blood smears, found without labels: the picture of the README (needs VIEWSMITH_DATA).

The smears are of BCCD (github.com/Shenggan/BCCD_Dataset, MIT).
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from saving import save

from viewsmith import Discovery
from viewsmith.data.any_size import read_samples

SHOWN, WIDTH, CROPS = 4, 132, 12

images, *_ = read_samples(str(Path(os.environ["VIEWSMITH_DATA"]) / "objects" / "bccd" / "images"))
model = Discovery().fit(images)
crops, found = model.crops(images, 44)
shown = np.linspace(0, len(found) - 1, SHOWN + 2).astype(int)[1:-1]

figure = Figure(figsize=(7.2, 2.15), layout="constrained")
parts = figure.subfigures(2, 1, height_ratios=(3, 1))
for axes, part in zip(parts[0].subplots(1, SHOWN), found[shown], strict=True):
    height, width = images.shapes[int(part["sample"])]
    scale = WIDTH / width
    axes.imshow(images.read(int(part["sample"]), (round(height * scale), WIDTH)))
    corner, size = (part["left"], part["top"]), (part["right"] - part["left"], part["bottom"] - part["top"])
    axes.add_patch(
        Rectangle([v * scale for v in corner], *(v * scale for v in size), fill=False, color="#0072b2", lw=1.4)
    )
    axes.axis("off")
best = np.argsort(-found["score"])[np.linspace(0, len(found) - 1, CROPS).astype(int)]
for axes, crop in zip(parts[1].subplots(1, CROPS), crops[best], strict=True):
    axes.imshow(crop)
    axes.axis("off")
save(figure, "smears")
