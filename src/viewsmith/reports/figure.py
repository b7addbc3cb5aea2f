"""The figure, of which a report is made, and its pictures: drawn by matplotlib, without its global state."""

from __future__ import annotations

import base64
import io
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, Literal

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
