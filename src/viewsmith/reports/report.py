"""The report of a run as one HTML file that needs nothing but a browser."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from viewsmith.core.files import write_text_atomic
from viewsmith.reports.choices import draw_choices
from viewsmith.reports.content import ReportContent
from viewsmith.reports.curves import draw_curves
from viewsmith.reports.diagnostics import READINGS, collapse_warnings, drift_warnings
from viewsmith.reports.drawing import Picture
from viewsmith.reports.galleries import draw_gallery
from viewsmith.reports.maps import draw_map
from viewsmith.reports.profiles import draw_profile
from viewsmith.reports.similarities import draw_histogram
from viewsmith.reports.sorted_similarities import draw_sorted
from viewsmith.reports.verdict import caveat, comparison, protocol_title, score, verdict
from viewsmith.reports.violins import draw_violins

__all__ = ["ReportContent", "render_report", "write_report"]

#: Tone and meaning of the states a run can be left in.
_STATES = {
    "finished": ("good", ""),
    "time limit": ("fair", "Training reached its time limit; viewsmith fit with --resume and more minutes goes on."),
    "interrupted": ("fair", "Training was interrupted; viewsmith fit with --resume goes on from the last checkpoint."),
}
_LIST_SHOWN = 12
_DASH = "–"


def write_report(path: str | Path, content: ReportContent) -> None:
    """Render `content` and write it to `path`, which holds either the old or the whole new report at any time.

    Raises
    ------
    OSError
        The file cannot be written; an old report stays as it was.
    """
    write_text_atomic(path, render_report(content))


def render_report(content: ReportContent) -> str:
    """The report as one HTML document: pictures inside, no scripts, nothing fetched.

    Equal content gives equal text. All names, labels and values are escaped.
    """
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(number=_number, score=_score, cosine=_cosine, signed=_signed, picture=_picture)
    template = resources.files("viewsmith.reports").joinpath("report.html.j2").read_text(encoding="utf-8")
    page = environment.from_string(template).render(_page(content))
    # Half a surrogate pair, as in the name of a damaged file, cannot be written: it becomes a question mark.
    return page.encode("utf-8", "replace").decode("utf-8")


def _page(content: ReportContent) -> dict[str, Any]:
    curves = draw_curves(content.metrics)
    evaluation = content.evaluation
    status = str(content.summary.get("status") or "unknown")
    tone, meaning = _STATES.get(status, ("plain", ""))
    maps = [draw_map(item) for item in content.maps]
    shared = bool(maps) and all(drawn.legend == maps[0].legend for drawn in maps)
    collapse = collapse_warnings(content.metrics, evaluation, content.summary.get("rows"))
    drift = drift_warnings(content.metrics)
    return {
        "title": content.title,
        "method": content.method,
        "status": status,
        "tone": tone,
        "meaning": meaning,
        # A run says itself that its views drift, in the same words.
        "warnings": list(dict.fromkeys([*collapse, *drift, *content.warnings])),
        "collapse": collapse,
        "drift": drift,
        "comparison": _comparison(evaluation) if evaluation and evaluation.get("embeddings") else None,
        "maps": maps,
        "shared_legend": shared,
        "curves": [curve for curve in curves if curve.key not in READINGS],
        "split": len({curve.key for curve in curves}) < len(curves),
        "readings": _readings(curves),
        "label_free": _label_free(evaluation),
        "profiles": [draw_profile(profile) for profile in content.profiles],
        "galleries": [draw_gallery(gallery) for gallery in content.galleries],
        "choices": [draw_choices(item) for item in content.choices],
        "violins": [draw_violins(violins) for violins in content.violins],
        "histograms": [draw_histogram(histogram) for histogram in content.histograms],
        "orders": [draw_sorted(item) for item in content.orders],
        "config": "\n".join(_config_lines(content.config)),
        "summary": _groups(content.summary),
    }


def _comparison(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    rows = evaluation.get("rows") or {}
    test_rows = rows.get("test")
    return {
        "verdict": verdict(evaluation["embeddings"], test_rows),
        "caveat": caveat(test_rows),
        "table": comparison(evaluation["embeddings"], test_rows),
        "unit_table": comparison(evaluation["embeddings"], test_rows, unit_rows=True),
        "protocols": [(protocol_title(key), text) for key, text in (evaluation.get("protocols") or {}).items()],
        "rows": {key: rows[key] for key in ("train", "test", "classes") if rows.get(key) is not None},
        "seconds": list(_flat(evaluation.get("seconds") or {})),
    }


def _readings(curves: Iterable[Any]) -> list[dict[str, Any]]:
    logged = {curve.key: curve for curve in curves}
    return [{"title": title, "text": text, "curve": logged.get(key)} for key, (title, text) in READINGS.items()]


def _label_free(evaluation: Mapping[str, Any] | None) -> dict[str, Any] | None:
    table = (evaluation or {}).get("label_free") or {}
    present = {key for row in table.values() for key in row}
    if not present:
        return None
    keys = [*(key for key in READINGS if key in present), *sorted(present - READINGS.keys())]
    return {
        "columns": [READINGS[key][0] if key in READINGS else key for key in keys],
        "rows": [(name, [row.get(key) for key in keys]) for name, row in table.items()],
    }


def _config_lines(config: Mapping[str, Any], path: str = "") -> list[str]:
    """The nested values as the lines of a TOML file; what TOML cannot hold (None) is shown as JSON shows it."""
    plain = {key: value for key, value in config.items() if not isinstance(value, Mapping)}
    lines = [f"[{path}]"] if path and (plain or not config) else []
    lines += [f"{key} = {json.dumps(_native(value), ensure_ascii=False, default=str)}" for key, value in plain.items()]
    for key, value in config.items():
        if isinstance(value, Mapping):
            inner = _config_lines(value, f"{path}.{key}" if path else str(key))
            lines += ["", *inner] if lines and inner[:1] != [""] else inner
    return lines


def _groups(summary: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The summary as tables: the plain values first, then one table for each group of values."""
    plain = {key: value for key, value in summary.items() if not isinstance(value, Mapping)}
    groups = [("run", list(_flat(plain)))] if plain else []
    return groups + [(str(key), list(_flat(value))) for key, value in summary.items() if isinstance(value, Mapping)]


def _flat(values: Mapping[str, Any], path: str = "") -> Iterable[tuple[str, str]]:
    for key, value in values.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        else:
            yield name, _number(value)


def _native(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def _number(value: Any) -> str:
    """Any value as text: numbers to four digits, whole numbers grouped, missing ones as a dash, long lists cut."""
    value = _native(value)
    if isinstance(value, list | tuple):
        shown = ", ".join(_number(item) for item in value[:_LIST_SHOWN])
        return f"{shown}, … ({len(value):,} values)" if len(value) > _LIST_SHOWN else shown or _DASH
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
    return f"{value:+.3f}".replace("-", "−")


def _picture(picture: Picture) -> Any:
    """The picture as markup; its words are escaped here, its SVG was escaped when it was drawn."""
    from markupsafe import Markup

    if picture.svg:
        return Markup('<div role="img" aria-label="{}">{}</div>').format(picture.alt, Markup(picture.svg))
    kind = "pixels" if picture.pixelated else "plot"
    return Markup('<img class="{}" src="{}" alt="{}">').format(kind, picture.uri, picture.alt)
