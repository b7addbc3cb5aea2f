"""Similarities of pairs of samples in descending order (Koyama et al. 2021, figure 8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from viewsmith.reports.content import SortedSimilarities
from viewsmith.reports.drawing import VERMILION, Picture, as_svg, new_axes, shorten, style

_OTHER_KINDS = "#8e9aa6"
_POINTS = 200


@dataclass(frozen=True)
class DrawnSorted:
    """Curves ready for the page."""

    name: str
    caption: str
    note: str
    picture: Picture


def draw_sorted(item: SortedSimilarities) -> DrawnSorted:
    """Draw each kind as a curve over the fraction of pairs, the first in color."""
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
