"""Images ordered by their noise level, and generated views with their quality."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from saving import bare, save
from sklearn.datasets import load_digits

from viewsmith import GenView

COLUMNS = 8
images = (load_digits().images * 15).astype("uint8")
model = GenView(epochs=40, random_state=0).fit(images)
rows = images[:200]
found = model.generated_views(rows, n_views=3)
if found is None:
    raise SystemExit("no generator was trained")
level, quality = found["level"][:, 0], found["quality"]
chosen = np.argsort(level, kind="stable")[np.linspace(0, len(rows) - 1, COLUMNS).astype(int)]

figure = Figure(figsize=(8, 4.6))
axes = figure.subplots(4, COLUMNS)
for column, row in zip(axes.T, chosen, strict=True):
    bare(column[0], f"level {level[row]}").imshow(rows[row], cmap="gray", vmin=0, vmax=255)
    for axis, view, q in zip(column[1:], found["views"][row], quality[row], strict=True):
        bare(axis).imshow(view, cmap="gray", vmin=0, vmax=255)
        axis.set_xlabel(f"q {q:.2f}", fontsize=8, labelpad=2)
axes[0, 0].set_ylabel("sample", fontsize=9)
axes[2, 0].set_ylabel("generated views", fontsize=9)
save(figure, "genview")
