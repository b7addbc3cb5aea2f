"""Common functions of the picture scripts: saving a file of limited size, and axes without ticks."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

STATIC = Path(__file__).parents[1] / "_static"
MAX_BYTES = 60_000


def save(figure: Figure, name: str) -> None:
    """Write docs/_static/NAME.png in 128 colors or fewer.

    Raises
    ------
    ValueError
        The file is larger than 60 kB: use a smaller figure or fewer points.
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=110, facecolor="white", bbox_inches="tight", pad_inches=0.06)
    for colors in (128, 64, 32):
        out = io.BytesIO()
        Image.open(buffer).convert("RGB").quantize(colors, dither=Image.Dither.NONE).save(out, "png", optimize=True)
        if out.tell() <= MAX_BYTES:
            STATIC.mkdir(exist_ok=True)
            (STATIC / f"{name}.png").write_bytes(out.getvalue())
            print(f"{name}.png: {out.tell():,} bytes")
            return
    raise ValueError(f"{name}.png has {out.tell():,} bytes, expected at most {MAX_BYTES:,}")


def bare(axis: Axes, title: str = "") -> Axes:
    """Remove the ticks of an axis and set a small title; return the axis."""
    axis.set_xticks([])
    axis.set_yticks([])
    if title:
        axis.set_title(title, fontsize=9)
    return axis
