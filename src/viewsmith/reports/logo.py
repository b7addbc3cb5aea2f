"""Sequence logos (Schneider and Stephens 1990): letters as high as their share of the information of a position."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from viewsmith.core.files import write_text_atomic
from viewsmith.reports.drawing import Picture, as_svg, new_axes, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LETTERS = "ACGT"
COLORS = ("#117733", "#332288", "#ddaa33", "#cc3311")


def letter_heights(probabilities: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Heights in bits, (w, 4): the information of each position against the background, shared by probability.

    Parameters
    ----------
    probabilities : ndarray, shape (w, 4)
    background : ndarray, shape (4,)
    """
    ratio = np.where(probabilities > 0, probabilities / background, 1.0)
    bits = (probabilities * np.log2(ratio)).sum(1, keepdims=True)
    return np.asarray(probabilities * np.maximum(bits, 0))


def draw_logo(probabilities: np.ndarray, background: np.ndarray, name: str) -> Picture:
    """The logo of a motif, as SVG for a page."""
    with style():
        return as_svg(_figure(probabilities, background), f"Sequence logo of {name}")


def save_logo(path: Path, probabilities: np.ndarray, background: np.ndarray) -> None:
    """Write the logo of a motif as an SVG file."""
    buffer = io.BytesIO()
    metadata: dict[str, Any] = {"Date": None}
    with style():
        _figure(probabilities, background).savefig(buffer, format="svg", metadata=metadata)
    write_text_atomic(path, buffer.getvalue().decode())


def _figure(probabilities: np.ndarray, background: np.ndarray) -> Figure:
    """The letters of each position on each other, the smallest at the bottom."""
    from matplotlib.patches import PathPatch
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    heights = letter_heights(probabilities, background)
    outlines = []
    for letter in LETTERS:
        path = TextPath((0, 0), letter, size=1)
        outlines.append((path, path.get_extents()))
    figure, axes = new_axes(0.8 + 0.3 * len(heights), 1.8)
    for position, row in enumerate(heights):
        bottom = 0.0
        for i in np.argsort(row):
            path, box = outlines[i]
            if row[i] > 1e-3:
                place = Affine2D().translate(-box.x0, -box.y0).scale(0.9 / box.width, row[i] / box.height)
                place = place.translate(position + 0.55, bottom)
                axes.add_patch(PathPatch(path.transformed(place), color=COLORS[i], linewidth=0))
            bottom += float(row[i])
    axes.set_xlim(0.5, len(heights) + 0.5)
    axes.set_ylim(0, max(2.0, float(heights.sum(1).max())))
    axes.set_xticks(range(1, len(heights) + 1))
    axes.set_ylabel("bits")
    axes.grid(visible=False)
    return figure
