"""Similarities, the first kind in color: histograms of samples and views, and pairs of samples in descending order."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from viewsmith.reports.content import SimilarityHistogram, SortedSimilarities
from viewsmith.reports.drawing import INK, RULE, VERMILION, Picture, as_svg, new_axes, shorten, style

_BINS = 40
_OTHER_KINDS = "#8e9aa6"
_STRIP_HEIGHT = 0.72
_POINTS = 200


@dataclass(frozen=True)
class SimilarityRow:
    """Quantiles (5%, 50%, 95%) and number of the similarities of one kind of view."""

    kind: str
    low: float
    median: float
    high: float
    count: int


@dataclass(frozen=True)
class DrawnHistogram:
    """A histogram ready for the page."""

    name: str
    caption: str
    note: str
    picture: Picture
    rows: tuple[SimilarityRow, ...]


@dataclass(frozen=True)
class DrawnSorted:
    """Curves ready for the page."""

    name: str
    caption: str
    note: str
    picture: Picture


def draw_histogram(item: SimilarityHistogram) -> DrawnHistogram:
    """Draw each kind as a separate strip, the first in color, with a line at its median."""
    kinds = {kind: np.asarray(values, dtype=np.float64).clip(-1, 1) for kind, values in item.similarities.items()}
    rows = tuple(_row(kind, values) for kind, values in kinds.items())
    edges = common_bins(np.concatenate(list(kinds.values())))
    with style():
        figure, axes = new_axes(4.8, 0.5 + 0.56 * len(kinds))
        for i, (values, row) in enumerate(zip(kinds.values(), rows, strict=True)):
            base, color = len(kinds) - 1 - i, _OTHER_KINDS if i else VERMILION
            counts, _ = np.histogram(values.clip(edges[0], edges[-1]), bins=edges)  # clip: the edges are rounded
            heights = base + _STRIP_HEIGHT * counts / counts.max()
            axes.stairs(heights, edges, baseline=base, fill=True, color=color, alpha=0.85, linewidth=0)
            axes.plot([row.median] * 2, [base, base + _STRIP_HEIGHT], color=INK, linewidth=1.2, solid_capstyle="butt")
        axes.set_yticks(np.arange(len(kinds))[::-1] + 0.4 * _STRIP_HEIGHT, labels=[shorten(kind, 24) for kind in kinds])
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.spines["left"].set_visible(False)
        axes.grid(visible=False, axis="y")
        for base in range(1, len(kinds)):
            axes.axhline(base, color=RULE, linewidth=0.6, zorder=0)
        axes.set_ylim(0, len(kinds) - 1 + 1.15 * _STRIP_HEIGHT)
        margin = 0.01 * (edges[-1] - edges[0])
        axes.set_xlim(edges[0] - margin, edges[-1] + margin)
        axes.set_xlabel(f"cosine similarity of {item.of}")
        medians = "; ".join(
            f"{shorten(row.kind)} {row.median:.2f} (5% {row.low:.2f}, 95% {row.high:.2f})" for row in rows
        )
        picture = as_svg(figure, f"Cosine similarity of {item.of}, median by kind: {medians}.")
    note = "The line is the median."
    if len(rows) > 1:
        note = "Each strip is scaled to its own maximum; its line is the median."
    return DrawnHistogram(item.name, item.caption, note, picture, rows)


def draw_sorted(item: SortedSimilarities) -> DrawnSorted:
    """Draw each kind as a curve over the fraction of pairs (Koyama et al. 2021, figure 8)."""
    medians = []
    with style():
        figure, axes = new_axes(4.8, 2.6)
        for i, (kind, values) in enumerate(item.similarities.items()):
            ordered = np.sort(np.asarray(values, dtype=np.float64))[::-1]
            fraction = np.linspace(0, 1, min(len(ordered), _POINTS))
            heights = np.quantile(ordered, 1 - fraction)
            axes.plot(fraction, heights, color=_OTHER_KINDS if i else VERMILION, label=shorten(kind, 24), linewidth=1.4)
            medians.append(f"{shorten(kind)} {np.median(ordered):.2f} (95% {np.quantile(ordered, 0.95):.2f})")
        axes.set_xlabel("fraction of pairs, the most similar first")
        axes.set_ylabel("absolute cosine")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
        if len(item.similarities) > 1:
            axes.legend(frameon=False)
        alt = f"Absolute cosine of pairs of different samples, median by kind: {'; '.join(medians)}."
        picture = as_svg(figure, alt)
    note = "Near zero for most pairs: the projections cover the sphere. High for all pairs: they have collapsed."
    return DrawnSorted(item.name, item.caption, note, picture)


def common_bins(values: np.ndarray) -> np.ndarray:
    """Bin edges for (n,) cosines of all kinds, from their minimum to their maximum, rounded outwards to tenths."""
    low, high = math.floor(10 * values.min()), math.ceil(10 * values.max())
    if low == high:
        low, high = max(low - 1, -10), min(low + 1, 10)
    return np.linspace(low / 10, high / 10, _BINS + 1)


def _row(kind: str, values: np.ndarray) -> SimilarityRow:
    low, median, high = (float(value) for value in np.quantile(values, [0.05, 0.5, 0.95]))
    return SimilarityRow(str(kind), low, median, high, len(values))
