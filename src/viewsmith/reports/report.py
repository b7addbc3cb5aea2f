"""The report of a run as one self-contained HTML file."""

import functools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewsmith.core.files import write_text_atomic
from viewsmith.reports.curves import DIAGNOSTICS, collapse_warnings, draw_curves, drift_warnings
from viewsmith.reports.figure import Figure, number_text, score
from viewsmith.reports.verdict import caveat, comparison, protocol_title, verdict

if TYPE_CHECKING:
    import jinja2


@dataclass(frozen=True, eq=False)
class ReportContent:
    """The content of a report; all parts except title and method may be empty."""

    title: str
    method: str
    config: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    metrics: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[str] = ()
    evaluation: Mapping[str, Any] | None = None
    figures: Sequence[Figure] = ()


@functools.cache
def _environment() -> "jinja2.Environment":
    """Templates of this package, each of which is compiled once; all values are escaped."""
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
    environment.filters.update(number=number_text, score=_score, signed=_signed, p=_p)
    return environment


def render(template: str, **values: Any) -> str:
    """Render a template of this package as an HTML document; all values are escaped."""
    page = _environment().get_template(template).render(values)
    # A lone surrogate (possible in file names) cannot be encoded: it becomes a question mark.
    return page.encode("utf-8", "replace").decode("utf-8")


def _score(value: Any) -> str:
    number = score(value)
    return "–" if number is None else f"{number:.3f}"


def _p(value: Any) -> str:
    """A p value; three decimals of a smaller one would be 0."""
    return "< 0.001" if (number := score(value)) is not None and number < 5e-4 else _score(value)


def _signed(value: float) -> str:
    return f"{round(value, 3) + 0.0:+.3f}".replace("-", "−")  # + 0.0: no minus sign before zero


#: CSS class and explanation of each status of a run.
_STATES = {
    "finished": ("good", ""),
    "time limit": ("fair", "Training reached its time limit; viewsmith fit with --resume and more minutes continues."),
    "interrupted": (
        "fair",
        "Training was interrupted; viewsmith fit with --resume continues from the last checkpoint.",
    ),
}


def write_report(path: str | Path, content: ReportContent) -> None:
    """Render `content` and write it to `path`, atomically."""
    write_text_atomic(path, render_report(content))


def render_report(content: ReportContent) -> str:
    """Render the report as one HTML document without scripts or other files; equal content gives equal text."""
    return render("report.html.j2", **_page(content))


def png_files(content: ReportContent) -> dict[str, bytes]:
    """The pictures of a report as PNG files by name; views of DNA are text, and are left out."""
    found = {}
    for figure in [*draw_curves(content.metrics), *content.figures]:
        name = re.sub(r"[^a-z0-9]+", "_", f"{figure.section} {figure.title}".lower()).strip("_")
        for number, picture in enumerate(figure.pictures, start=1):
            found[name if len(figure.pictures) == 1 else f"{name}_{number}"] = picture.png
    return found


def _page(content: ReportContent) -> dict[str, Any]:
    curves = draw_curves(content.metrics)
    evaluation = content.evaluation
    status = str(content.summary.get("status") or "unknown")
    tone, meaning = _STATES.get(status, ("plain", ""))
    collapse = collapse_warnings(content.metrics, evaluation, content.summary.get("rows"))
    drift = drift_warnings(content.metrics)
    return {
        "title": content.title,
        "method": content.method,
        "status": status,
        "tone": tone,
        "meaning": meaning,
        # A run may report the drift of its views in the same words: dict.fromkeys removes the duplicate.
        "warnings": list(dict.fromkeys([*collapse, *drift, *content.warnings])),
        "collapse": collapse,
        "drift": drift,
        "comparison": _comparison(evaluation) if evaluation and evaluation.get("embeddings") else None,
        "figures": {
            section: [figure for figure in [*curves, *content.figures] if figure.section == section]
            for section in ("maps", "training", "diagnostics", "features", "views")
        },
        "split": len({curve.data["key"] for curve in curves}) < len(curves),
        "explained": dict(DIAGNOSTICS.values()),
        "label_free": _label_free(evaluation),
        "config": "\n".join(_config_lines(content.config)),
        "summary": _groups(content.summary),
    }


def _comparison(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    rows = evaluation.get("rows") or {}
    numbers = evaluation.get("target") == "number"
    return {
        "verdict": verdict(evaluation),
        "caveat": caveat(None if numbers else rows.get("test")),
        "numbers": numbers,
        "table": comparison(evaluation),
        "unit_table": comparison(evaluation, unit_rows=True),
        "protocols": [(protocol_title(key), text) for key, text in (evaluation.get("protocols") or {}).items()],
        "rows": {key: rows[key] for key in ("train", "test", "classes") if rows.get(key) is not None},
    }


def _label_free(evaluation: Mapping[str, Any] | None) -> dict[str, Any] | None:
    table = (evaluation or {}).get("label_free") or {}
    present = {key for row in table.values() for key in row}
    if not present:
        return None
    keys = [*(key for key in DIAGNOSTICS if key in present), *sorted(present - DIAGNOSTICS.keys())]
    return {
        "columns": [DIAGNOSTICS[key][0] if key in DIAGNOSTICS else key for key in keys],
        "rows": [(name, [row.get(key) for key in keys]) for name, row in table.items()],
    }


def _config_lines(config: Mapping[str, Any], path: str = "") -> list[str]:
    """The nested values as the lines of a TOML file; values that TOML lacks (None) are written as in JSON."""
    plain = {key: value for key, value in config.items() if not isinstance(value, Mapping)}
    lines = [f"[{path}]"] if path and (plain or not config) else []
    lines += [
        f"{key} = {json.dumps(value.tolist() if hasattr(value, 'tolist') else value, ensure_ascii=False, default=str)}"
        for key, value in plain.items()
    ]
    for key, value in config.items():
        if isinstance(value, Mapping):
            inner = _config_lines(value, f"{path}.{key}" if path else str(key))
            lines += ["", *inner] if lines and inner[:1] != [""] else inner
    return lines


def _groups(summary: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The summary as tables: plain values first, then one table per group of values."""
    plain = {key: value for key, value in summary.items() if not isinstance(value, Mapping)}
    groups = [("run", list(_flat(plain)))] if plain else []
    return groups + [(str(key), list(_flat(value))) for key, value in summary.items() if isinstance(value, Mapping)]


def _flat(values: Mapping[str, Any], path: str = "") -> Iterable[tuple[str, str]]:
    for key, value in values.items():
        name = f"{path}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        else:
            yield name, number_text(value)
