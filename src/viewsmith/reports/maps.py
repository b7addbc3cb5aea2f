"""Two-dimensional maps colored by label."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewsmith.reports.content import EmbeddingMap
from viewsmith.reports.drawing import BLUE, PALETTE, Picture, as_png, new_axes, shorten, style

MAX_CLASSES = 20
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
    xy = np.asarray(item.xy, dtype=np.float64)
    coloring = color_by(item.labels, len(xy))
    finite = np.isfinite(xy).all(axis=1)
    xy = xy[finite]
    colors, markers = coloring.colors[finite], coloring.markers[finite]
    # Drawn in random order: rows are often sorted by class, and the last class would hide the others.
    order = np.random.default_rng(0).permutation(len(xy))
    with style():
        figure, axes = new_axes(4.2, 4.2)
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
        by = f", colored by label ({_described(coloring.legend)})" if item.labels is not None else ""
        picture = as_png(figure, f"Map of {shorten(item.name, 60)} in two dimensions, {len(xy)} rows{by}.")
    return DrawnMap(item.name, item.caption, picture, coloring.legend)


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
