"""Objects in clutter: a digit among fragments of other digits, and P(T|x) before and after training."""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.figure import Figure
from saving import bare, save
from sklearn.datasets import load_digits

from viewsmith import CRLTAC

SIDE, GLYPH, COLUMNS = 84, 28, 8  # sides of an image and of a digit in pixels; images in the picture
FRAGMENTS, PIECE = 8, 9  # fragments in each image; side of a fragment in pixels


def images(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Images, uint8 (n, SIDE, SIDE), and the corner of the digit in each, (n, 2)."""
    digits = torch.from_numpy(load_digits().images)[:, None] / 16
    glyphs = torch.nn.functional.interpolate(digits, size=(GLYPH, GLYPH), mode="bilinear")[:, 0].numpy() * 255
    corners = rng.integers(0, SIDE - GLYPH + 1, (len(glyphs), 2))
    made = np.zeros((len(glyphs), SIDE, SIDE))
    for image, glyph, (top, left) in zip(made, glyphs, corners, strict=True):
        for other in glyphs[rng.integers(0, len(glyphs), FRAGMENTS)]:
            y, x = rng.integers(4, GLYPH - 4 - PIECE + 1, 2)
            at = rng.integers(0, SIDE - PIECE + 1, 2)
            image[at[0] : at[0] + PIECE, at[1] : at[1] + PIECE] = other[y : y + PIECE, x : x + PIECE]
        image[top : top + GLYPH, left : left + GLYPH] = glyph
    return made.round().astype(np.uint8), corners


def covered(model: CRLTAC, p: np.ndarray) -> np.ndarray:
    """Probability that a pixel is in a view, (n, SIDE, SIDE), from P(T|x)."""
    family = model.method_.channel.family
    (rows, columns), size, stride = family.grids[0], family.crop, family.stride
    heat = np.zeros((len(p), SIDE, SIDE))
    for number in range(rows * columns):
        top, left = (position * stride for position in divmod(number, columns))
        heat[:, top : top + size, left : left + size] += p[:, number, None, None]
    return heat


X, corners = images(np.random.default_rng(0))
model = CRLTAC(epochs=100, random_state=0).fit(X)
some = X[:400]
heats = [covered(model, each.distribution(some)) for each in (model.untrained(X), model)]
inside = np.zeros(heats[0].shape, bool)
for mask, (top, left) in zip(inside, corners, strict=False):
    mask[top : top + GLYPH, left : left + GLYPH] = True
for name, heat in zip(("before", "after"), heats, strict=True):
    fraction = (heat * inside).sum(axis=(1, 2)) / heat.sum(axis=(1, 2))
    print(f"{name} training, a fraction of {fraction.mean():.2f} of the pixels of a view is in the digit's square")

p, family = model.distribution(some), model.method_.channel.family
centers = np.stack(np.divmod(p.argmax(1), family.grids[0][1]), 1) * family.stride + family.crop / 2
found = (np.abs(centers - corners[: len(p)] - GLYPH / 2) < GLYPH / 2).all(1)
print(f"the center of the most probable crop is in the digit's square in {found.sum()} of {len(found)} images")

figure = Figure(figsize=(8, 3.2))
axes = figure.subplots(3, COLUMNS)
for column, number in enumerate(range(COLUMNS)):
    bare(axes[0, column]).imshow(some[number], cmap="gray", vmin=0, vmax=255)
    for line, heat in zip(axes[1:], heats, strict=True):
        bare(line[column]).imshow(some[number], cmap="gray", vmin=0, vmax=255)
        line[column].imshow(heat[number], cmap="inferno", alpha=0.65, vmin=0, vmax=1)
for line, name in zip(axes, ("image", "before", "after"), strict=True):
    line[0].set_ylabel(name)
figure.subplots_adjust(wspace=0.05, hspace=0.05)
save(figure, "crl_tac")
