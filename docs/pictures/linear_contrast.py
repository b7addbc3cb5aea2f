"""The columns of the closed-form contrast of images of digits: how much two views share, and a map of new images."""

from __future__ import annotations

from matplotlib.figure import Figure
from saving import bare, save
from sklearn.datasets import load_digits
from sklearn.manifold import TSNE

from viewsmith import LinearContrast

digits = load_digits()
images = (digits.images * 15).astype("uint8")
model = LinearContrast(random_state=0).fit(images[:1000])
encoder = model.method_.framework.encoder
correlation = encoder.correlation[: int(encoder.kept)].numpy()

figure = Figure(figsize=(8, 3.6))
left, right = figure.subplots(1, 2)
left.plot(range(1, len(correlation) + 1), correlation, color="tab:blue")
left.set_xlabel("column", fontsize=9)
left.set_ylim(0, 1)
left.set_title("correlation of two views of an image", fontsize=9)
Z = TSNE(random_state=0).fit_transform(model.transform(images[1000:]))
bare(right, "797 new images").scatter(Z[:, 0], Z[:, 1], c=digits.target[1000:], cmap="tab10", s=5)
save(figure, "linear_contrast")
