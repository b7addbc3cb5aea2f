"""Probabilities of an augmentation channel's transformations as bars, beside samples and their most probable views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from viewsmith.reports.content import TransformProbabilities
from viewsmith.reports.drawing import BLUE, MUTED, Picture, as_svg, shorten, style
from viewsmith.reports.galleries import image_tiles

#: Up to this number of transformations, each has a bar; with more, only the MOST_SHOWN most probable have one.
ALL_SHOWN = 16
MOST_SHOWN = 12


@dataclass(frozen=True)
class DrawnTransformProbabilities:
    """Bars ready for the page: the mean over all rows first, then single samples."""

    title: str
    caption: str
    note: str
    pictures: tuple[Picture, ...]
    with_images: bool  # whether images are next to the bars; such pictures take the full width


def draw_transform_probabilities(item: TransformProbabilities) -> DrawnTransformProbabilities:
    """Draw the mean probabilities, then those of each sample."""
    m = len(item.names)
    note = f"Dotted line: equal probabilities, {1 / m:.2g}."
    if m > ALL_SHOWN:
        note += f" Shown: the {MOST_SHOWN} most probable of {m} transformations."
    tiles = None
    if item.samples is not None and item.views is not None:
        tiles = image_tiles(item.samples, item.views)
        note += f" Images: the sample, then its {item.views.shape[1]} most probable views, the most probable first."
    with style():
        pictures = [_bars("Mean of the rows", item.names, item.mean)]
        for i, p in enumerate(item.probabilities):
            pictures.append(_bars(f"Sample {i + 1}", item.names, p, None if tiles is None else tiles[i]))
    return DrawnTransformProbabilities(item.title, item.caption, note, tuple(pictures), tiles is not None)


def _bars(what: str, names: Sequence[str], p: np.ndarray, tiles: np.ndarray | None = None) -> Picture:
    from matplotlib.figure import Figure

    p = np.asarray(p, dtype=np.float64)
    ranked = [int(k) for k in np.argsort(-p, kind="stable")]
    selected = list(range(len(p))) if len(p) <= ALL_SHOWN else ranked[:MOST_SHOWN]
    images = 0 if tiles is None else len(tiles)
    size = (8.6, max(0.5 + 0.19 * len(selected), 1.7)) if images else (4.6, 0.5 + 0.19 * len(selected))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.add_gridspec(1, 1 + images, width_ratios=[3.2, *[1] * images])
    axes = figure.add_subplot(grid[0])
    axes.barh(np.arange(len(selected)), p[selected], color=BLUE, height=0.7)
    axes.set_yticks(np.arange(len(selected)), labels=[shorten(names[k], 30) for k in selected])
    axes.axvline(1 / len(p), color=MUTED, linestyle=":", linewidth=1)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_ylim(len(selected) - 0.4, -0.6)
    axes.set_xlim(0, 1.05 * max(p.max(), 1 / len(p)))
    rest = f"; sum of the {len(p) - len(selected)} others {1 - p[selected].sum():.2f}" if len(selected) < len(p) else ""
    axes.set_xlabel(f"{what}: probability{rest}")
    for j in range(images):
        assert tiles is not None
        panel = figure.add_subplot(grid[1 + j])
        panel.imshow(tiles[j], interpolation="none")
        panel.set_axis_off()
        panel.set_title("sample" if j == 0 else shorten(names[ranked[j - 1]], 14), fontsize=7)
    largest = ", ".join(f"{shorten(names[k])} {p[k]:.2f}" for k in ranked[:3])
    effective = np.exp(-(p * np.log(np.maximum(p, 1e-300))).sum())
    return as_svg(figure, f"{what}: effectively {effective:.3g} of {len(p)} transformations; most probable {largest}.")
