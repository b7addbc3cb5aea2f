"""Similarities of pairs of samples in order, from the most alike to the least (Koyama et al. 2021, figure 8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from viewsmith.reports.content import SortedSimilarities
from viewsmith.reports.drawing import VERMILION, Picture, as_svg, new_axes, shorten, style

_OTHERS = "#8e9aa6"
_POINTS = 200


@dataclass(frozen=True)
class DrawnSorted:
    """Curves ready for the page."""

    name: str
    caption: str
    note: str
    picture: Picture


def draw_sorted(item: SortedSimilarities) -> DrawnSorted:
    """Draw each kind as a curve over the share of pairs, the first in color."""
    told = []
    with style():
        figure, axes = new_axes(4.8, 2.6)
        for i, (kind, values) in enumerate(item.similarities.items()):
            ordered = np.sort(np.asarray(values, dtype=np.float64))[::-1]
            share = np.linspace(0, 1, min(len(ordered), _POINTS))
            heights = np.quantile(ordered, 1 - share)
            axes.plot(share, heights, color=_OTHERS if i else VERMILION, label=shorten(kind, 24), linewidth=1.4)
            told.append(f"{shorten(kind)} {np.median(ordered):.2f} (95% {np.quantile(ordered, 0.95):.2f})")
        axes.set_xlabel("share of pairs, the most alike first")
        axes.set_ylabel("absolute cosine")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
        if len(item.similarities) > 1:
            axes.legend(frameon=False)
        picture = as_svg(figure, f"Absolute cosine of pairs of different samples, median by kind: {'; '.join(told)}.")
    note = "Near zero for most pairs: embeddings fill the sphere. High for all: they lie in one direction."
    return DrawnSorted(item.name, item.caption, note, picture)
