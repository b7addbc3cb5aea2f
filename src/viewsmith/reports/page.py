"""Templates of pages: the environment, and the filters that write values and pictures into them."""

from __future__ import annotations

from importlib import resources
from typing import Any

from viewsmith.reports.drawing import Picture
from viewsmith.reports.verdict import score

_MAX_LIST = 12

_DASH = "–"


def render(template: str, **values: Any) -> str:
    """Render a template of this package as an HTML document; all values are escaped."""
    import jinja2

    def read(name: str) -> str:
        return resources.files("viewsmith.reports").joinpath(name).read_text(encoding="utf-8")

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(read),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=format_number, score=_score, cosine=_cosine, signed=_signed, picture=_picture)
    page = environment.get_template(template).render(values)
    # A lone surrogate (possible in file names) cannot be encoded: it becomes a question mark.
    return page.encode("utf-8", "replace").decode("utf-8")


def plain_value(value: Any) -> Any:
    """A number or array as plain Python values."""
    return value.tolist() if hasattr(value, "tolist") else value


def format_number(value: Any) -> str:
    """Any value as text: four significant digits, grouped integers, a dash for missing values, long lists cut."""
    value = plain_value(value)
    if isinstance(value, list | tuple):
        text = ", ".join(format_number(item) for item in value[:_MAX_LIST])
        return f"{text}, … ({len(value):,} values)" if len(value) > _MAX_LIST else text or _DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if value is None or (isinstance(value, float) and score(value) is None):
        return _DASH
    return f"{value:.4g}".replace("-", "−", 1) if isinstance(value, float) else str(value)


def _score(value: Any) -> str:
    number = score(value)
    return _DASH if number is None else f"{number:.3f}"


def _cosine(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _signed(value: float) -> str:
    return f"{round(value, 3) + 0.0:+.3f}".replace("-", "−")  # + 0.0: no minus sign before zero


def _picture(picture: Picture) -> Any:
    """The picture as markup; its alternative text is escaped here, its SVG was escaped when it was drawn."""
    from markupsafe import Markup

    if picture.svg:
        return Markup('<div role="img" aria-label="{}">{}</div>').format(picture.alt, Markup(picture.svg))
    kind = "pixels" if picture.pixelated else "plot"
    return Markup('<img class="{}" src="{}" alt="{}">').format(kind, picture.uri, picture.alt)
