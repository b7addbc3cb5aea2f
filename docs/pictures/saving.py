"""Common functions of the picture scripts: saving a file of limited size, and axes without ticks."""

from __future__ import annotations

import io
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

STATIC = Path(__file__).parents[1] / "_static"
MAX_BYTES = 60_000
SCREENSHOT = 130_000


def save(figure: Figure, name: str, limit: int = MAX_BYTES) -> None:
    """Write docs/_static/NAME.png in 128 colors or fewer.

    Raises
    ------
    ValueError
        The file is larger than `limit`: use a smaller figure or fewer points.
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=110, facecolor="white", bbox_inches="tight", pad_inches=0.06)
    for colors in (128, 64, 32):
        out = io.BytesIO()
        Image.open(buffer).convert("RGB").quantize(colors, dither=Image.Dither.NONE).save(out, "png", optimize=True)
        if out.tell() <= limit:
            STATIC.mkdir(exist_ok=True)
            (STATIC / f"{name}.png").write_bytes(out.getvalue())
            print(f"{name}.png: {out.tell():,} bytes")
            return
    raise ValueError(f"{name}.png has {out.tell():,} bytes, expected at most {limit:,}")


def bare(axis: Axes, title: str = "") -> Axes:
    """Remove the ticks of an axis and set a small title; return the axis."""
    axis.set_xticks([])
    axis.set_yticks([])
    if title:
        axis.set_title(title, fontsize=9)
    return axis


def screenshot(page: Path, width: int, height: int) -> np.ndarray:
    """The top of an HTML file in a window of a headless Chromium, uint8 (height, width, 3)."""
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder) / "shot.png"
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        options += [f"--window-size={width},{height}", f"--screenshot={shot}"]
        subprocess.run(["chromium", *options, page.resolve().as_uri()], check=True, capture_output=True)
        return np.asarray(Image.open(shot).convert("RGB"))


def beside(pictures: list[np.ndarray], width: float) -> Figure:
    """Pictures of one height beside each other, on a figure of this width in inches."""
    total = sum(picture.shape[1] for picture in pictures)
    figure = Figure(figsize=(width, width * pictures[0].shape[0] / total))
    ratios = [picture.shape[1] for picture in pictures]
    axes = figure.subplots(1, len(pictures), squeeze=False, width_ratios=ratios)[0]
    for axis, picture in zip(axes, pictures, strict=True):
        bare(axis).imshow(picture, interpolation="lanczos")
    figure.subplots_adjust(0, 0, 1, 1, wspace=0.02)
    return figure
