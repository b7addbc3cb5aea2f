"""Maps of rows in two dimensions: points colored by label, and projections by several models side by side.

Projections as in figures 6 and 7 of CRL-TAC's paper (Koyama et al. 2021): those in two dimensions are drawn as points,
wider ones as one curve per row over the number of the coordinate.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.core.files import atomic_path
from viewsmith.evaluation.baselines import pca, umap
from viewsmith.reports.content import EmbeddingMap, Projections
from viewsmith.reports.drawing import (
    BLUE,
    PALETTE,
    RULE,
    Picture,
    as_png,
    new_axes,
    sample_of_rows,
    shorten,
    style,
    two_dimensional_map,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MAX_CLASSES = 20

LAYOUTS = {"tsne": "t-SNE", "umap": "UMAP", "pca": "Principal components", "map": "Learned map"}

_GLYPHS, _MARKERS = ("●", "▲"), ("o", "^")

_UNLABELED = "#c3c9d0"


@dataclass(frozen=True)
class Entry:
    """A class in the legend: its marker, color, short and full name, and number of rows."""

    glyph: str
    color: str
    text: str
    full: str
    count: int


@dataclass(frozen=True)
class Legend:
    """Either `entries` for classes, or the two ends of a color `scale` with a `note`."""

    entries: tuple[Entry, ...] = ()
    scale: tuple[str, str] | None = None
    note: str = ""


@dataclass(frozen=True)
class DrawnMap:
    """A map ready for the page."""

    name: str
    caption: str
    picture: Picture
    legend: Legend


@dataclass(frozen=True)
class Coloring:
    """A color and a marker (index) for each row, and the legend that explains them."""

    colors: np.ndarray
    markers: np.ndarray
    legend: Legend


def draw_map(item: EmbeddingMap) -> DrawnMap:
    """Draw a map as a scatter plot; a class has the same color and marker in all maps with the same labels."""
    coloring = color_by(item.labels, len(item.xy))
    with style():
        figure, axes = new_axes(4.2, 4.2)
        n = _scatter(axes, item.xy, coloring)
        by = f", colored by label ({_described(coloring.legend)})" if item.labels is not None else ""
        picture = as_png(figure, f"Map of {shorten(item.name, 60)} in two dimensions, {n} rows{by}.")
    return DrawnMap(item.name, item.caption, picture, coloring.legend)


@dataclass(frozen=True, eq=False)
class MapPlot:
    """A map with its legend: a notebook shows it, `save` writes it.

    Attributes
    ----------
    xy : ndarray, shape (m, 2)
        Positions.
    index : ndarray of int, shape (m,)
        The rows that they are of.
    figure : matplotlib.figure.Figure
    """

    xy: np.ndarray
    index: np.ndarray
    figure: Any

    def __repr__(self) -> str:
        return f"MapPlot of {len(self.index):,} rows"

    @classmethod
    def of(cls, item: EmbeddingMap, index: np.ndarray, legend_title: str = "") -> MapPlot:
        """Draw a map of the rows at `index`."""
        coloring = color_by(item.labels, len(item.xy))
        with style():
            figure, axes = new_axes(6.2 if item.labels is not None else 4.6, 4.6)
            _scatter(axes, item.xy, coloring)
            axes.set_title(item.caption, fontsize=8)
            _draw_legend(figure, axes, coloring.legend, legend_title)
        return cls(item.xy, index, figure)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture: .png, .svg or .pdf by the ending of the name; atomically."""
        kind = os.fspath(path).rpartition(".")[2].lower()
        if kind not in ("png", "svg", "pdf"):
            raise InputError(f"the picture is {os.fspath(path)!r}, expected a name that ends in .png, .svg or .pdf")
        with style(), atomic_path(Path(path)) as temporary, temporary.open("wb") as file:
            metadata: dict[str, Any] = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
            self.figure.savefig(file, format=kind, dpi=200, metadata=metadata[kind])

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        with style():
            self.figure.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()


def plot_map(h: np.ndarray, color: Any = None, by: str = "tsne", title: str = "") -> MapPlot:
    """Draw a map of representations, (n, d); see `viewsmith.estimator.base.ViewsmithEstimator.plot`."""
    if color is not None and len(color) != len(h):
        raise InputError(f"color has {len(color)} values, expected one for each of the {len(h)} samples")
    index = sample_of_rows(len(h))
    rows = h[index]
    if by in ("umap", "pca"):
        rows = (umap if by == "umap" else pca)(rows, rows[:1], 2)[0]
    xy, _ = two_dimensional_map(rows)
    color = None if color is None else np.asarray(color, dtype=object)
    labels = None if color is None else [None if color[i] == "" else color[i] for i in index]
    return MapPlot.of(EmbeddingMap("representation", xy, labels, f"{LAYOUTS[by]} of {len(index):,} rows"), index, title)


def _scatter(axes: Any, xy: np.ndarray, coloring: Coloring) -> int:
    """Draw the rows with finite positions; returns their number."""
    xy = np.asarray(xy, dtype=np.float64)
    finite = np.isfinite(xy).all(axis=1)
    xy, colors, markers = xy[finite], coloring.colors[finite], coloring.markers[finite]
    # Drawn in random order: rows are often sorted by class, and the last class would hide the others.
    order = np.random.default_rng(0).permutation(len(xy))
    axes.set_axis_off()
    axes.set_aspect("equal", adjustable="datalim")
    for code, marker in enumerate(_MARKERS):
        rows = order[markers[order] == code]
        axes.scatter(
            xy[rows, 0],
            xy[rows, 1],
            s=float(np.clip(9000 / max(len(xy), 1), 5, 36)),
            c=colors[rows],
            marker=marker,
            alpha=0.8,
            linewidths=0,
        )
    return len(xy)


def _draw_legend(figure: Any, axes: Any, legend: Legend, title: str) -> None:
    from matplotlib.lines import Line2D

    if legend.entries:
        handles = [
            Line2D([], [], marker=_MARKERS[_GLYPHS.index(each.glyph)], color=each.color, linewidth=0, markersize=5)
            for each in legend.entries
        ]
        names = [f"{each.text} ({each.count:,})" for each in legend.entries]
        figure.legend(handles, names, loc="outside right upper", frameon=False, title=shorten(title, 40))
    elif legend.scale is not None:
        import matplotlib
        from matplotlib.cm import ScalarMappable

        bar = figure.colorbar(ScalarMappable(cmap=matplotlib.colormaps["viridis"]), ax=axes, shrink=0.6)
        bar.set_ticks([0, 1], labels=legend.scale)
        bar.set_label(" ".join(part for part in (shorten(title, 40), legend.note) if part))


def color_by(labels: Sequence[Any] | np.ndarray | None, n: int) -> Coloring:
    """Colors for `n` rows: one color per class for up to 20 classes; a continuous color map for more, or for floats."""
    if labels is None:
        return Coloring(np.full(n, BLUE, dtype=object), np.zeros(n, dtype=int), Legend())
    values = [_plain(label) for label in labels]
    known = [value for value in values if value is not None]
    if all(isinstance(value, int | float) for value in known) and any(isinstance(value, float) for value in known):
        return _scale(values, [float(value) for value in known], _number)
    classes = _sorted(set(known))
    if len(classes) > MAX_CLASSES:
        rank = {value: float(i) for i, value in enumerate(classes)}
        colored = _scale([None if v is None else rank[v] for v in values], list(rank.values()), lambda i: "")
        ends = (shorten(classes[0], 24), shorten(classes[-1], 24))
        note = f"{len(classes)} labels in sorted order"
        return Coloring(colored.colors, colored.markers, Legend(scale=ends, note=note))
    return _classes(values, classes)


def _classes(values: list[Any], classes: list[Any]) -> Coloring:
    code = {value: i for i, value in enumerate(classes)}
    colors, markers, entries = [], [], []
    for value in values:
        i = code.get(value)
        colors.append(_UNLABELED if i is None else PALETTE[i % len(PALETTE)])
        markers.append(0 if i is None else i // len(PALETTE))
    for value, i in code.items():
        glyph, color = _GLYPHS[i // len(PALETTE)], PALETTE[i % len(PALETTE)]
        entries.append(Entry(glyph, color, shorten(value, 28), str(value), values.count(value)))
    if missing := values.count(None):
        entries.append(Entry(_GLYPHS[0], _UNLABELED, "unlabeled", "no label", missing))
    return Coloring(np.array(colors, dtype=object), np.array(markers, dtype=int), Legend(tuple(entries)))


def _scale(values: list[Any], known: list[float], end: Any) -> Coloring:
    import matplotlib
    from matplotlib.colors import to_hex

    low, high = min(known), max(known)
    width = high - low or 1.0
    viridis = matplotlib.colormaps["viridis"]
    colors = [_UNLABELED if v is None else to_hex(viridis((float(v) - low) / width)) for v in values]
    note = f"Gray: no label ({values.count(None)})." if None in values else ""
    legend = Legend(scale=(end(low), end(high)), note=note)
    return Coloring(np.array(colors, dtype=object), np.zeros(len(values), dtype=int), legend)


def _plain(label: Any) -> Any:
    """A label as None, int, float or str, so that equal numbers of different types are one class."""
    label = label.item() if hasattr(label, "item") else label
    if label is None or (isinstance(label, float) and not math.isfinite(label)):
        return None
    if isinstance(label, bool):
        return str(label)
    if isinstance(label, float) and label.is_integer():
        return int(label)
    return label if isinstance(label, int | float) else str(label)


def _sorted(classes: set[Any]) -> list[Any]:
    """Numbers and numbers written as text first, by value; then the other labels in alphabetical order."""

    def key(value: Any) -> tuple[bool, float, str]:
        text = str(value)
        number = not isinstance(value, str) or text.isdecimal()
        return not number, float(text) if number else 0.0, text

    return sorted(classes, key=key)


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−", 1)


def _described(legend: Legend) -> str:
    return f"{len(legend.entries)} classes" if legend.entries else legend.note or "a continuous scale"


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
