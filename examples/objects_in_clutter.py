"""Objects in clutter: find them without labels, and draw where the model looks before and after training.

Images are made of scikit-learn's handwritten digits: one whole digit at a random place, among fragments of others.

python objects_in_clutter.py [--out objects.png]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from sklearn.datasets import load_digits

from viewsmith import CRLTAC

SIDE, GLYPH = 64, 28  # pixels: side of an image, side of the square of a digit
FRAGMENTS, PIECE = 6, 9  # fragments in each image, and their side in pixels
COLUMNS = 8  # images in the picture


def scenes(count: int = 1000, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images, uint8 (count, SIDE, SIDE); the top left corner of the digit in each, (count, 2); and its class."""
    rng, digits = np.random.default_rng(seed), load_digits()
    small = torch.from_numpy(digits.images)[:, None] / 16
    glyphs = torch.nn.functional.interpolate(small, size=(GLYPH, GLYPH), mode="bilinear")[:, 0].numpy() * 255
    chosen = rng.permutation(len(glyphs))[:count]
    corners = rng.integers(0, SIDE - GLYPH + 1, (count, 2))
    images = np.zeros((count, SIDE, SIDE))
    for image, number, (top, left) in zip(images, chosen, corners, strict=True):
        for other in glyphs[rng.integers(0, len(glyphs), FRAGMENTS)]:
            row, column = rng.integers(4, GLYPH - 4 - PIECE + 1, 2)
            y, x = rng.integers(0, SIDE - PIECE + 1, 2)
            image[y : y + PIECE, x : x + PIECE] = other[row : row + PIECE, column : column + PIECE]
        image[top : top + GLYPH, left : left + GLYPH] = glyphs[number]
    return images.round().astype(np.uint8), corners, digits.target[chosen]


def places(model: CRLTAC, images: np.ndarray) -> np.ndarray:
    """One box for each image, (n, 4): top, left, height, width. The box that `locate` finds, or else a random view.

    An untrained model prefers no place, so `locate` returns no boxes, and all boxes are random.
    """
    family, rng = model.method_.channel.family, np.random.default_rng(0)
    views = family.boxes(torch.empty(1))[0].numpy()
    made = views[rng.integers(0, len(views), len(images))]
    found = model.locate(images)
    made[found["sample"]] = np.stack([found[name] for name in ("top", "left", "height", "width")], axis=1)
    return made


def is_found(boxes: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Whether the center of each box is in the square of the digit: bool (n,)."""
    centers = boxes[:, :2] + boxes[:, 2:] / 2
    return (np.abs(centers - corners - GLYPH / 2) < GLYPH / 2).all(axis=1)


def heat(model: CRLTAC, images: np.ndarray) -> np.ndarray:
    """Probability that a pixel is in a view drawn from P(T|x), (n, SIDE, SIDE)."""
    made = np.zeros(images.shape)
    boxes = model.method_.channel.family.boxes(torch.empty(1))[0].round().long().tolist()
    for p, (top, left, height, width) in zip(model.distribution(images).T, boxes, strict=True):
        made[:, top : top + height, left : left + width] += p[:, None, None]
    return made


def draw(model: CRLTAC, images: np.ndarray, corners: np.ndarray) -> Figure:
    """The picture: images; heat and box before training; heat and box after training."""
    models = {"before": model.untrained(images), "after": model}
    boxes = {name: places(each, images) for name, each in models.items()}
    shares = {name: is_found(box, corners).mean() for name, box in boxes.items()}
    figure = Figure(figsize=(8, 3.4))
    rows = figure.subplots(3, COLUMNS)
    for row, name in zip(rows, ("image", *models), strict=True):
        row[0].set_ylabel(name)
        hot = None if name == "image" else heat(models[name], images[:COLUMNS])
        for number, axis in enumerate(row):
            axis.set(xticks=[], yticks=[])
            axis.imshow(images[number], cmap="gray", vmin=0, vmax=255)
            if hot is not None:
                axis.imshow(hot[number], cmap="inferno", alpha=0.6, vmin=0, vmax=1)
                top, left, height, width = boxes[name][number]
                axis.add_patch(Rectangle((left, top), width, height, fill=False, color="cyan", linewidth=1.5))
    figure.suptitle(
        f"Digit found in {shares['before']:.0%} of {len(images):,} images before training (random places), "
        f"in {shares['after']:.0%} after",
        fontsize=10,
    )
    figure.subplots_adjust(wspace=0.05, hspace=0.05, top=0.92)
    return figure


def main(count: int = 1000, epochs: int = 30) -> Figure:
    """Train on images without labels and draw the picture."""
    images, corners, _ = scenes(count)
    model = CRLTAC(epochs=epochs, batch_size=128, random_state=0).fit(images)
    return draw(model, images, corners)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("objects.png"), help="default objects.png")
    out = parser.parse_args().out
    main().savefig(out, dpi=150, bbox_inches="tight")
    print(out)
