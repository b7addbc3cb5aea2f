"""Learned noise of vectors: rows, where the noise of each lies (sigma), a draw of it, and the noisy row.

The 64 features are pixels, so that rows can be drawn as images; the model knows nothing of that.
"""

from __future__ import annotations

from matplotlib.figure import Figure
from saving import bare, save
from sklearn.datasets import load_digits

from viewsmith import PiNDA

X = load_digits().data
model = PiNDA(random_state=0).fit(X)
shown = X[:8]
parts = model.noise_parts(shown)
sigma = parts["sigma"]

figure = Figure(figsize=(8, 4.2))
axes = figure.subplots(4, len(shown))
lines = (
    ("row", shown, "gray", (0, 16)),
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
