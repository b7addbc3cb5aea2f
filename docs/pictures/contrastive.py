"""A two-dimensional map by the neighbor recipe: training rows, and new rows on the same map."""

from __future__ import annotations

from matplotlib.figure import Figure
from saving import bare, save
from sklearn.datasets import load_digits

from viewsmith import Contrastive

digits = load_digits()
X, X_new = digits.data[:1500], digits.data[1500:]
model = Contrastive(projector_dims=(2,), random_state=0).fit(X)

figure = Figure(figsize=(8, 3.8))
axes = figure.subplots(1, 2, sharex=True, sharey=True)
for axis, rows, labels, title in (
    (axes[0], X, digits.target[:1500], "1,500 rows that fit was given"),
    (axes[1], X_new, digits.target[1500:], "297 new rows on the same map"),
):
    Z = model.transform(rows, output="projection")
    bare(axis, title).scatter(Z[:, 0], Z[:, 1], c=labels, cmap="tab10", s=5)
save(figure, "contrastive")
