"""Features and the augmented features made from them, in two principal axes; histograms of their similarity."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from saving import bare, save
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from viewsmith import MetAug

digits = load_digits()
X, X_new, y_new = digits.data[:1500], digits.data[1500:], digits.target[1500:]
model = MetAug(epochs=60, random_state=0).fit(X)
parts = model.feature_views(X_new, n_views=1)
features, made = parts["features"][:, 0, :32], parts["augmented"][:, 0, :32]
features, made = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (features, made))
pca = PCA(2).fit(features)
a, b = pca.transform(features), pca.transform(made)
cosine = (features * made).sum(axis=1)
others = (features @ features.T)[np.triu_indices(len(features), 1)]

figure = Figure(figsize=(8, 3.6))
left, right = figure.subplots(1, 2)
bare(left, "features (dots) and augmented features (line ends)")
left.scatter(a[:, 0], a[:, 1], c=y_new, cmap="tab10", s=6)
left.plot(*np.stack([a, b], axis=1)[::3].T, color="gray", linewidth=0.6, zorder=0)
right.hist(others, bins=50, range=(-1, 1), density=True, color="lightgray", label="two different rows")
right.hist(cosine, bins=50, range=(-1, 1), density=True, color="tab:blue", label="feature and augmented feature")
right.set_yticks([])
right.set_xlabel("cosine", fontsize=9)
right.legend(fontsize=8, loc="upper left")
save(figure, "metaug")
