"""Matplotlib figures, drawn without its global state, as pictures to embed in an HTML page; t-SNE of any features."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from viewsmith.core.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
    rows = x[index].reshape(len(index), -1).astype(np.float64)
    if not np.isfinite(rows).all():
        raise InputError("the map was given values that are not finite; remove or impute them first")
    if rows.shape[1] <= 2:
        return _padded(rows), index
    return _layout(rows, seed), index


def _layout(rows: np.ndarray, seed: int) -> np.ndarray:
    from sklearn.decomposition import PCA

    rows = rows - rows.mean(axis=0)
    scale = np.abs(rows).max()
    # Collapsed features must not raise an error: the initialization of t-SNE would divide by their spread of zero.
    if scale < 1e-12:
        return np.zeros((len(rows), 2))
    width = _PCA_WIDTH if len(rows) >= _TSNE_ROWS else 2
    narrow = PCA(n_components=min(width, *rows.shape), random_state=seed).fit_transform(rows / scale)
    if len(rows) < _TSNE_ROWS:
        return _padded(narrow * scale)

    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(rows) - 1) / 3)
    return np.asarray(
        TSNE(init="pca", perplexity=perplexity, random_state=seed).fit_transform(narrow), dtype=np.float64
    )


def _padded(rows: np.ndarray) -> np.ndarray:
    return np.pad(rows, ((0, 0), (0, 2 - rows.shape[1])))


INK, MUTED, RULE = "#1f2933", "#616e7c", "#e4e7eb"

BLUE, VERMILION = "#0072b2", "#d55e00"

#: Color-blind safe (Paul Tol's "muted" scheme and a gray).
PALETTE = (
    *("#332288", "#cc6677", "#44aa99", "#ddaa33", "#882255"),
    *("#88ccee", "#117733", "#aa4499", "#999933", "#666666"),
)

_STYLE = {
    "svg.fonttype": "none",  # text stays text: it can be searched, and the browser supplies letters DejaVu lacks
    "svg.hashsalt": "viewsmith",
    "text.parse_math": False,  # a dollar sign in a name must not start a formula
    "font.family": ["DejaVu Sans"],
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

_RASTER: ContextVar[bool] = ContextVar("raster", default=False)

_NO_METADATA: dict[str, Any] = {"Software": None}  # no program version: equal pictures give equal bytes


@dataclass(frozen=True)
class Picture:
    """A picture for the page: either `svg` markup or `uri`, a data URI; `alt` is the alternative text."""

    alt: str
    svg: str = ""
    uri: str = ""
    pixelated: bool = False

    def __repr__(self) -> str:
        return f"Picture({self.alt!r})"

    def _repr_html_(self) -> str:
        return self.svg or f'<img src="{self.uri}" alt="{escape(self.alt)}">'


@contextmanager
def style() -> Iterator[None]:
    """Apply the style of the report, independent of the user's matplotlib settings, and restore these on exit."""
    import matplotlib.style

    with warnings.catch_warnings(), matplotlib.style.context(_STYLE, after_reset=True):
        # The font used for measuring may lack letters that the browser has.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield


def new_axes(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty figure of `width` x `height` inches and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


@contextmanager
def rasterized() -> Iterator[None]:
    """Within the context, all pictures are PNG."""
    token = _RASTER.set(True)
    try:
        yield
    finally:
        _RASTER.reset(token)


def as_svg(figure: Figure, alt: str) -> Picture:
    """The figure as SVG markup for HTML; as PNG within `rasterized`."""
    if _RASTER.get():
        return as_png(figure, alt)
    buffer = io.BytesIO()
    metadata: dict[str, Any] = {"Date": None}
    figure.savefig(buffer, format="svg", dpi=144, metadata=metadata)
    return Picture(alt=alt, svg=_inline_svg(buffer.getvalue(), figure.get_figwidth()))


def as_png(figure: Figure, alt: str) -> Picture:
    """The figure as a PNG data URI, with enough pixels for high-resolution screens."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=160, metadata=_NO_METADATA)
    return Picture(alt=alt, uri=_data_uri(buffer.getvalue()))


def pixels_as_png(pixels: np.ndarray, alt: str) -> Picture:
    """(H, W, 3) uint8 pixels as a PNG data URI, without resampling."""
    from matplotlib.image import imsave

    buffer = io.BytesIO()
    imsave(buffer, pixels, format="png", metadata=_NO_METADATA)
    return Picture(alt=alt, uri=_data_uri(buffer.getvalue()), pixelated=True)


def shorten(text: Any, length: int = 32) -> str:
    """`text` on one line, cut to `length` characters with an ellipsis; control characters (illegal in SVG) replaced."""
    line = " ".join(str(text).split())
    line = "".join(letter if letter.isprintable() else "\ufffd" for letter in line)
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def _data_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _inline_svg(document: bytes, inches: float) -> str:
    """Convert matplotlib's SVG document to an HTML element: no namespaces, no style element, ids unique in the page."""
    root = ElementTree.fromstring(document)
    prefix = "s" + hashlib.sha256(document).hexdigest()[:8] + "-"
    used = set(re.findall(rb'(?:url\(#|href="#)([^)"]+)', document))
    for element in root.iter():
        for child in list(element):
            if _local(child.tag) in ("metadata", "style"):
                element.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        attributes = {_local(name): value for name, value in element.attrib.items()}
        if "id" in attributes:
            if attributes["id"].encode() in used:
                attributes["id"] = prefix + attributes["id"]
            else:
                del attributes["id"]
        for name in attributes.keys() & {"clip-path", "href", "style", "fill"}:
            attributes[name] = _prefixed(name, attributes[name], prefix)
        element.attrib.clear()
        element.attrib.update(attributes)
        element.tail = (element.tail or "").strip() or None
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "class": "plot",
        "style": f"max-width:{inches * 125:.0f}px",
        "aria-hidden": "true",
    }
    return ElementTree.tostring(root, encoding="unicode")


def _prefixed(name: str, value: str, prefix: str) -> str:
    if name == "href":
        if value.startswith("data:image/png;base64,"):
            return value  # an embedded raster image
        return f"#{prefix}{value[1:]}" if value.startswith("#") else value
    return value.replace("url(#", f"url(#{prefix}")


def _local(name: str) -> str:
    return name.rpartition("}")[2]
