"""The figure, of which a report is made, and its pictures: drawn by matplotlib, without its global state; and
two-dimensional maps colored by label, t-SNE of any features, in a report or as a picture of its own."""

from __future__ import annotations

import base64
import io
import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.core.files import atomic_path, target_of
from viewsmith.data.places import check_picture_path
from viewsmith.evaluation.baselines import pca, umap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

INK, MUTED, RULE = "#1f2933", "#616e7c", "#e4e7eb"
BLUE, VERMILION = "#0072b2", "#d55e00"

#: Color-blind safe (Paul Tol's "muted" scheme and a gray).
PALETTE = (
    *("#332288", "#cc6677", "#44aa99", "#ddaa33", "#882255"),
    *("#88ccee", "#117733", "#aa4499", "#999933", "#666666"),
)

_STYLE = {
    "svg.fonttype": "none",  # text stays text: the browser supplies letters that DejaVu lacks
    "svg.hashsalt": "viewsmith",
    "text.parse_math": False,  # a dollar sign in a name must not start a formula
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8,
    "text.color": INK,
    "axes.edgecolor": "#9aa5b1",
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": "#9aa5b1",
    "ytick.color": "#9aa5b1",
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}

# No date and no program version: equal pictures give equal bytes.
_METADATA: dict[str, dict[str, Any]] = {
    "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    "png": {"Software": None},
    "pdf": {"CreationDate": None},
}


@dataclass(frozen=True, eq=False)
class Picture:
    """A matplotlib figure, or pixels as uint8 (H, W, 3); `alt` says in words what it shows. A notebook shows it."""

    alt: str
    drawn: Any = field(repr=False)
    caption: str = ""

    @cached_property
    def svg(self) -> str:
        """The SVG document; empty for pixels."""
        return "" if self.inches is None else saved(self.drawn, "svg", dpi=144).decode()

    @property
    def png(self) -> bytes:
        """A PNG file: pixels without resampling, others with enough of them for high-resolution screens."""
        if self.inches is not None:
            return saved(self.drawn, "png", dpi=160)
        from matplotlib.image import imsave

        buffer = io.BytesIO()
        imsave(buffer, self.drawn, format="png", metadata=_METADATA["png"], pil_kwargs={"compress_level": 4})
        return buffer.getvalue()

    @property
    def uri(self) -> str:
        """The picture as a data URI."""
        kind, data = ("png", self.png) if self.inches is None else ("svg+xml", self.svg.encode())
        return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"

    @property
    def inches(self) -> float | None:
        """Width of a matplotlib figure; None for pixels."""
        return self.drawn.get_figwidth() if hasattr(self.drawn, "get_figwidth") else None

    @property
    def is_wide(self) -> bool:
        """Whether it takes a row of its own."""
        return self.inches > 5 if self.inches is not None else bool(self.drawn.shape[1] > 600)

    def _repr_html_(self) -> str:
        return f'<img src="{self.uri}" alt="{escape(self.alt)}">'


@dataclass(frozen=True)
class Entry:
    """A class in a legend: its marker, color, short and full name, and number of rows."""

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


@dataclass(frozen=True, eq=False)
class Figure:
    """A figure of a report."""

    title: str
    caption: str = ""  #: one sentence: what it shows
    pictures: Sequence[Picture] = ()
    note: str = ""  #: how to read it
    section: Literal["maps", "training", "diagnostics", "features", "views"] = "views"  #: of the page
    #: rows of text, their header first, by heading
    tables: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    legend: Legend = Legend()
    html: str = ""  #: further text of the page, escaped unless it is `markupsafe.Markup`
    value: float | None = None  #: beside the title
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)  #: what is drawn, by name


@contextmanager
def style() -> Iterator[None]:
    """Apply the style of the report, independent of the user's matplotlib settings, and restore these on exit."""
    import matplotlib.style

    with warnings.catch_warnings(), matplotlib.style.context(_STYLE, after_reset=True):
        # The font used for measuring may lack letters that the browser has.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield


@contextmanager
def new_axes(width: float, height: float) -> Iterator[tuple[Drawing, Axes]]:
    """An empty matplotlib figure of `width` x `height` inches and its axes, in the style of the report."""
    from matplotlib.figure import Figure as Drawing

    with style():
        drawing = Drawing(figsize=(width, height), layout="constrained")
        yield drawing, drawing.add_subplot()


def saved(drawing: Drawing, kind: str, dpi: int) -> bytes:
    """The bytes of a file of a matplotlib figure: svg, png or pdf."""
    buffer = io.BytesIO()
    with style():
        drawing.savefig(buffer, format=kind, dpi=dpi, metadata=_METADATA[kind])
    return buffer.getvalue()


def shorten(text: Any, length: int = 32) -> str:
    """`text` on one line, cut to `length` characters with an ellipsis; control characters (illegal in SVG) replaced."""
    line = " ".join(str(text).split())
    line = "".join(letter if letter.isprintable() else "\ufffd" for letter in line)
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def score(value: Any) -> float | None:
    """`value` as a float; None for anything that is not a finite number."""
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def number_text(value: Any) -> str:
    """Any value as text: four significant digits, grouped integers, a dash for missing values, long lists cut."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list | tuple):
        text = ", ".join(number_text(item) for item in value[:12])
        return f"{text}, … ({len(value):,} values)" if len(value) > 12 else text or "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if value is None or (isinstance(value, float) and score(value) is None):
        return "–"
    return f"{value:.4g}".replace("-", "−", 1) if isinstance(value, float) else str(value)


_TSNE_ROWS = 10  # for fewer rows the neighborhoods of t-SNE are meaningless
_PCA_WIDTH = 50
MOST_ROWS = 1500


def sample_of_rows(n: int, max_rows: int = MOST_ROWS, seed: int = 0) -> np.ndarray:
    """At most so many random rows of n, increasing."""
    if n <= max_rows:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, size=max_rows, replace=False))


def two_dimensional_map(x: np.ndarray, *, seed: int = 0, max_rows: int = MOST_ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Map the rows of `x` to two dimensions by t-SNE, after PCA to 50 dimensions and initialized by PCA."""
    x = np.asarray(x)
    if x.ndim == 0 or x.size == 0:
        raise InputError(f"the map was given an array of shape {x.shape}; give at least one row and one feature")
    if max_rows < 1:
        raise InputError(f"max_rows is {max_rows}; give at least 1")
    index = sample_of_rows(len(x), max_rows, seed)
    rows = x[index].reshape(len(index), -1)
    if not np.isfinite(rows).all():
        raise InputError("the map was given values that are not finite; remove or impute them first")
    return _padded(rows.astype(np.float64)) if rows.shape[1] <= 2 else _layout(rows, seed), index


_STEPS = 500  # of t-SNE: 1,000 take twice as long, and keep as many neighbors but for .001 of them
_COLUMNS = 2048  # that are in memory in float64


def _layout(rows: np.ndarray, seed: int) -> np.ndarray:
    mean = rows.mean(axis=0, dtype=np.float64)
    scale = max(float(np.abs(part).max()) for part in _centered(rows, mean))
    # Collapsed features must not raise an error: the initialization of t-SNE would divide by their spread of zero.
    if scale < 1e-12:
        return np.zeros((len(rows), 2))
    narrow = _principal(rows, mean, scale, _PCA_WIDTH if len(rows) >= _TSNE_ROWS else 2, seed)
    if len(rows) < _TSNE_ROWS:
        return _padded(narrow * scale)

    from sklearn.manifold import TSNE

    tsne = TSNE(init="pca", perplexity=min(30.0, (len(rows) - 1) / 3), random_state=seed, max_iter=_STEPS)
    return np.asarray(tsne.fit_transform(narrow), dtype=np.float64)


def _centered(rows: np.ndarray, mean: np.ndarray) -> Iterator[np.ndarray]:
    """Rows less their mean, in blocks of columns, float64."""
    for start in range(0, rows.shape[1], _COLUMNS):
        part = slice(start, start + _COLUMNS)
        yield rows[:, part] - mean[part]


def _principal(rows: np.ndarray, mean: np.ndarray, scale: float, width: int, seed: int) -> np.ndarray:
    """Principal coordinates of rows, at most `width`; of wide ones by the products of rows, which need less memory."""
    width = min(width, *rows.shape)
    if rows.shape[1] <= max(len(rows), _COLUMNS):
        from sklearn.decomposition import PCA

        return np.asarray(PCA(n_components=width, random_state=seed).fit_transform((rows - mean) / scale))
    products = sum(part @ part.T for part in _centered(rows, mean)) / scale**2
    values, vectors = np.linalg.eigh(products)
    found = vectors[:, ::-1][:, :width] * np.sqrt(values[::-1][:width].clip(0))
    return found * np.sign(found[np.abs(found).argmax(axis=0), np.arange(width)])


def _padded(rows: np.ndarray) -> np.ndarray:
    return np.pad(rows, ((0, 0), (0, 2 - rows.shape[1])))


MAX_CLASSES = 20
LAYOUTS = {"tsne": "t-SNE", "umap": "UMAP", "pca": "Principal components", "map": "Learned map"}
#: A color for each class: beside those of other charts ten that are as far from these, and from each other, as can be.
CLASS_COLORS = (
    *PALETTE,
    *("#ff0000", "#0000ff", "#00dd00", "#ff11ff", "#8899ff"),
    *("#663300", "#ff0088", "#8855ff", "#00dd88", "#dd6633"),
)
_GLYPHS, _MARKERS = ("●", "▲"), ("o", "^")
_UNLABELED = "#c3c9d0"


@dataclass(frozen=True)
class Coloring:
    """A color and a marker (index) for each row, and the legend that explains them."""

    colors: np.ndarray
    markers: np.ndarray
    legend: Legend


def draw_map(title: str, xy: np.ndarray, labels: Sequence[Any] | np.ndarray | None = None, caption: str = "") -> Figure:
    """Draw a map (n, 2) as a scatter plot; a class has the same color and marker in all maps with the same labels."""
    if np.ndim(xy) != 2 or np.shape(xy)[1] != 2:
        raise InputError(f"map {title!r}: xy has shape {np.shape(xy)}; give an (n, 2) array")
    if labels is not None and len(labels) != len(xy):
        raise InputError(f"map {title!r}: {len(labels)} labels for {len(xy)} rows; give one for each")
    coloring = color_by(labels, len(xy))
    legend = coloring.legend
    with new_axes(4.2, 4.2) as (figure, axes):
        n = _scatter(axes, xy, coloring)
        axes.set_rasterization_zorder(2)  # many points: pixels are smaller than their SVG
    by = f"{len(legend.entries)} classes" if legend.entries else legend.note or "a continuous scale"
    by = f", colored by label ({by})" if labels is not None else ""
    picture = Picture(f"Map of {shorten(title, 60)} in two dimensions, {n} rows{by}.", figure)
    return Figure(title, caption, [picture], section="maps", legend=legend, data={"xy": xy, "labels": labels})


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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture: .png, .svg or .pdf by the ending of the name; atomically."""
        check_picture_path(Path(path))
        with atomic_path(target_of(path)) as temporary:
            temporary.write_bytes(saved(self.figure, Path(path).suffix[1:].lower(), dpi=200))

    def _repr_png_(self) -> bytes:
        return saved(self.figure, "png", dpi=110)


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
    coloring = color_by(labels, len(xy))
    with new_axes(4.6 if labels is None else 6.2, 4.6) as (figure, axes):
        _scatter(axes, xy, coloring)
        axes.set_title(f"{LAYOUTS[by]} of {len(index):,} rows", fontsize=8)
        _draw_legend(figure, axes, coloring.legend, title)
    return MapPlot(xy, index, figure)


def _scatter(axes: Any, xy: np.ndarray, coloring: Coloring) -> int:
    """Draw the rows with finite positions; returns their number."""
    xy = np.asarray(xy, dtype=np.float64)
    finite = np.isfinite(xy).all(axis=1)
    xy, colors, markers = xy[finite], coloring.colors[finite], coloring.markers[finite]
    # Drawn in random order: rows are often sorted by class, and the last class would hide the others.
    order = np.random.default_rng(0).permutation(len(xy))
    axes.set_axis_off()
    axes.set_aspect("equal", adjustable="datalim")
    size = float(np.clip(9000 / max(len(xy), 1), 5, 36))
    for code, marker in enumerate(_MARKERS):
        rows = order[markers[order] == code]
        axes.scatter(xy[rows, 0], xy[rows, 1], s=size, c=colors[rows], marker=marker, alpha=0.8, linewidths=0)
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
    """Colors for `n` rows: one color per class for up to 20 classes; a continuous color map for more, or for floats, by
    value, or of text by its order."""
    if labels is None:
        return Coloring(np.full(n, BLUE, dtype=object), np.zeros(n, dtype=int), Legend())
    values = [_plain(label) for label in labels]
    # Numbers and numbers written as text first, by value; then the other labels in alphabetical order.
    classes = sorted({value for value in values if value is not None}, key=_place)
    numbers, many = all(isinstance(each, int | float) for each in classes), len(classes) > MAX_CLASSES
    if many or (numbers and any(isinstance(each, float) for each in classes)):
        return _scale(values, classes, numbers)
    code = {value: i for i, value in enumerate(classes)}
    entries = [
        Entry(_GLYPHS[i // len(PALETTE)], CLASS_COLORS[i], shorten(each, 28), str(each), values.count(each))
        for each, i in code.items()
    ]
    if missing := values.count(None):
        entries.append(Entry(_GLYPHS[0], _UNLABELED, "unlabeled", "no label", missing))
    colors = [_UNLABELED if each is None else CLASS_COLORS[code[each]] for each in values]
    markers = np.array([code.get(each, 0) // len(PALETTE) for each in values], dtype=int)
    return Coloring(np.array(colors, dtype=object), markers, Legend(tuple(entries)))


def _scale(values: list[Any], classes: list[Any], numbers: bool) -> Coloring:
    """Colors by value, or by the place among the sorted classes."""
    import matplotlib
    from matplotlib.colors import Normalize

    place = {each: float(each) if numbers else i for i, each in enumerate(classes)}
    scaled = Normalize(min(place.values()), max(place.values()))(np.array([place.get(each, np.nan) for each in values]))
    colors = matplotlib.colormaps["viridis"].with_extremes(bad=_UNLABELED)(np.ma.masked_invalid(scaled))
    ends = [f"{each:.3g}".replace("-", "−", 1) if numbers else shorten(each, 24) for each in (classes[0], classes[-1])]
    note = "" if numbers else f"{len(classes)} labels in sorted order"
    if numbers and None in values:
        note = f"Gray: no label ({values.count(None)})."
    codes = np.array([matplotlib.colors.to_hex(color) for color in colors], dtype=object)
    return Coloring(codes, np.zeros(len(values), dtype=int), Legend(scale=(ends[0], ends[1]), note=note))


def _plain(label: Any) -> Any:
    """A label as None, int, float or str, so that equal numbers of different types are one class."""
    label = label.item() if hasattr(label, "item") else label
    if label is None or (isinstance(label, float) and not math.isfinite(label)):
        return None
    if isinstance(label, float) and label.is_integer():
        return int(label)
    return label if isinstance(label, int | float) and not isinstance(label, bool) else str(label)


def _place(label: Any) -> tuple[bool, float, str]:
    text = str(label)
    number = not isinstance(label, str) or text.isdecimal()
    return not number, float(text) if number else 0.0, text
