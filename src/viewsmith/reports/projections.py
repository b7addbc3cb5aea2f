"""Projections of rows by several models: points on the circle, or superimposed curves.

Figures 6 and 7 of CRL-TAC's paper (Koyama et al. 2021). Two-dimensional projections are drawn as points, wider ones as
one curve per row over the number of the coordinate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from viewsmith.reports.content import Projections
from viewsmith.reports.drawing import PALETTE, RULE, Picture, as_png, shorten, style
from viewsmith.reports.maps import Legend, color_by

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVES = 200  # rows that are drawn as curves, as in the paper


@dataclass(frozen=True)
class DrawnProjections:
    """Panels ready for the page."""

    name: str
    caption: str
    note: str
    picture: Picture
    legend: Legend


def draw_projections(item: Projections) -> DrawnProjections:
    """Draw the projections by each model in a panel of its own, with common axes."""
    from matplotlib.figure import Figure

    kinds = {kind: np.asarray(z, dtype=np.float64) for kind, z in item.projections.items()}
    n = len(next(iter(kinds.values())))
    coloring = color_by(item.labels, n)
    colors = np.resize(np.array(PALETTE, dtype=object), n) if item.labels is None else coloring.colors
    flat = all(z.shape[1] == 2 for z in kinds.values())
    with style():
        figure = Figure(figsize=(8.6, 3.9 if flat else 2.6), layout="constrained")
        for axes, (kind, z) in zip(figure.subplots(1, len(kinds), squeeze=False)[0], kinds.items(), strict=True):
            draw_panel(axes, z, colors)
            axes.set_title(shorten(kind, 40), fontsize=9)
        spreads = "; ".join(f"{shorten(kind)} {spread(z):.2f}" for kind, z in kinds.items())
        picture = as_png(figure, f"Projections of {n} rows; standard deviation over rows, by kind: {spreads}.")
    drawn = "Each point is a row" if flat else f"Each curve is a row ({-(-n // -(-n // CURVES))} of {n})"
    note = f"{drawn}. All alike: the projections have collapsed. Standard deviation over rows: {spreads}."
    return DrawnProjections(item.name, item.caption, note, picture, coloring.legend)


def draw_panel(axes: Axes, z: np.ndarray, colors: np.ndarray) -> None:
    """Draw unit vectors (n, d) with a color for each: points and the unit circle if d is 2, otherwise curves."""
    if z.shape[1] == 2:
        from matplotlib.patches import Circle

        axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=RULE, linewidth=1))
        axes.scatter(z[:, 0], z[:, 1], c=list(colors), s=9, alpha=0.7, linewidths=0)
        axes.set_xlim(-1.15, 1.15)
        axes.set_ylim(-1.15, 1.15)
        axes.set_aspect("equal")
        return
    every = -(-len(z) // CURVES)
    for row, color in zip(z[::every], colors[::every], strict=True):
        axes.plot(row, color=color, linewidth=0.5, alpha=0.6)
    axes.set_xlim(0, z.shape[1] - 1)
    axes.set_ylim(-1, 1)
    axes.set_xlabel("coordinate of the projection")


def spread(z: np.ndarray) -> float:
    """Root mean squared distance of rows (n, d) from their mean: 0 for equal rows, near 1 for a covered sphere."""
    return float(np.sqrt(((z - z.mean(axis=0)) ** 2).sum(axis=1).mean()))
