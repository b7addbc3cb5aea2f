"""Learned noise of vectors: rows, the standard deviation of their noise, a draw of the noise, and the noisy rows.

The 64 features are pixels, so rows can be drawn as images; the model treats them as vectors.
"""

from __future__ import annotations

from matplotlib.figure import Figure
from saving import bare, save
from sklearn.datasets import load_digits

from viewsmith import PiNDA

X = load_digits().data
model = PiNDA(random_state=0).fit(X)
rows = X[:8]
parts = model.noise_parts(rows)
sigma = parts["sigma"]

figure = Figure(figsize=(8, 4.2))
axes = figure.subplots(4, len(rows))
lines = (
    ("row", rows, "gray", (0, 16)),
    (r"$\sigma(x)$", sigma, "viridis", (sigma.min(), sigma.max())),
    ("noise", parts["noise"], "RdBu", (-1, 1)),
    ("view", parts["view"], "gray", (0, 16)),
)
for line, (name, tiles, colors, (low, high)) in zip(axes, lines, strict=True):
    for axis, tile in zip(line, tiles, strict=True):
        bare(axis).imshow(tile.reshape(8, 8), cmap=colors, vmin=low, vmax=high)
    line[0].set_ylabel(name)
print(f"sigma from {sigma.min():.3f} to {sigma.max():.3f}")
save(figure, "pinda")
