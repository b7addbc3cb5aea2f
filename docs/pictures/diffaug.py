"""Rows and views generated from them, and the map of new rows."""

from __future__ import annotations

from matplotlib.figure import Figure
from saving import bare, save
from sklearn.datasets import load_digits

from viewsmith import DiffAug

digits = load_digits()
X, X_new = digits.data[:1500], digits.data[1500:]
model = DiffAug(epochs=100, random_state=0).fit(X)
samples = X_new[:6]
V = model.views(samples, n_views=4)
Z = model.transform(X_new, output="map")

figure = Figure(figsize=(8, 3.6))
left, right = figure.subfigures(1, 2, width_ratios=(1, 1.1))
axes = left.subplots(len(samples), 5)
for line, sample, views in zip(axes, samples, V, strict=True):
    for axis, row in zip(line, (sample, *views), strict=True):
        bare(axis).imshow(row.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
axes[0, 0].set_title("new row", fontsize=9)
axes[0, 2].set_title("generated views", fontsize=9, loc="left")
bare(right.subplots(), "map of 297 new rows").scatter(Z[:, 0], Z[:, 1], c=digits.target[1500:], cmap="tab10", s=8)
save(figure, "diffaug")
