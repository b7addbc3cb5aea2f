"""Learned noise: images, where their noise lies (sigma), a draw of it, and the noisy image."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from saving import bare, save
from sklearn.datasets import load_digits

from viewsmith import PiNDA

images = (load_digits().images * 15).astype("uint8")
model = PiNDA(epochs=60, random_state=0).fit(images)
shown = images[:8]
parts = model.noise_parts(shown)

figure = Figure(figsize=(8, 4.2))
axes = figure.subplots(4, len(shown))
lines = (
    ("image", shown, "gray", None),
    (r"$\sigma(x)$", parts["sigma"][:, 0], "viridis", (parts["sigma"].min(), parts["sigma"].max())),
    ("noise", parts["noise"][:, 0], "RdBu", (-1, 1)),
    ("view", parts["view"], "gray", (0, 255)),
)
for line, (name, tiles, colors, limits) in enumerate(lines):
    for axis, tile in zip(axes[line], np.asarray(tiles, dtype=float), strict=True):
        low, high = limits or (None, None)
        bare(axis).imshow(tile, cmap=colors, vmin=low, vmax=high)
    axes[line, 0].set_ylabel(name)
print("sigma from", parts["sigma"].min(), "to", parts["sigma"].max())
save(figure, "pinda")
