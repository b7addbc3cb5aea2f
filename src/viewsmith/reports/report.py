"""The report of a run as one self-contained HTML file."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from viewsmith.core.files import write_text_atomic
from viewsmith.reports.charts import (
    draw_histogram,
    draw_profile,
    draw_sorted,
    draw_transform_probabilities,
    draw_violins,
)
from viewsmith.reports.content import ReportContent
from viewsmith.reports.curves import DIAGNOSTICS, collapse_warnings, draw_curves, drift_warnings
from viewsmith.reports.drawing import rasterized
from viewsmith.reports.galleries import draw_gallery
from viewsmith.reports.maps import draw_map, draw_projections
from viewsmith.reports.page import format_number, plain_value, render
from viewsmith.reports.verdict import caveat, comparison, named_rows, protocol_title, verdict

#: Parts of the page with pictures of the model.
_PICTURED = (
    *("curves", "maps", "galleries", "transform_probabilities", "profiles", "violins"),
    *("histograms", "projections", "sorted_similarities"),
)

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
    """Render the report as one HTML document with embedded pictures, without scripts or external files.

    Equal content gives equal text. All names, labels and values are escaped.
    """
    return render("report.html.j2", **_page(content))


def png_files(content: ReportContent) -> dict[str, bytes]:
    """The pictures of a report as PNG files by name; views of DNA are text, and are left out."""
    with rasterized():
        page, found = _page(content), {}
    for kind in _PICTURED:
        for item in page[kind]:
            title = getattr(item, "title", None) or item.name
            pictures = [each for each in (*getattr(item, "pictures", ()), getattr(item, "picture", None)) if each]
            for number, picture in enumerate(pictures, start=1):
                name = re.sub(r"[^a-z0-9]+", "_", f"{kind} {title}".lower()).strip("_")
                found[name if len(pictures) == 1 else f"{name}_{number}"] = base64.b64decode(
                    picture.uri.partition(",")[2]
                )
    return found


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
        # A run may report the drift of its views in the same words: dict.fromkeys removes the duplicate.
        "warnings": list(dict.fromkeys([*collapse, *drift, *content.warnings])),
        "collapse": collapse,
        "drift": drift,
        "comparison": _comparison(evaluation) if evaluation and evaluation.get("embeddings") else None,
        "maps": maps,
        "shared_legend": shared,
        "curves": [curve for curve in curves if curve.key not in DIAGNOSTICS],
        "split": len({curve.key for curve in curves}) < len(curves),
        "readings": _readings(curves),
        "label_free": _label_free(evaluation),
        "profiles": [draw_profile(profile) for profile in content.profiles],
        "galleries": [draw_gallery(gallery) for gallery in content.galleries],
        "transform_probabilities": [draw_transform_probabilities(item) for item in content.transform_probabilities],
        "violins": [draw_violins(violins) for violins in content.violins],
        "histograms": [draw_histogram(histogram) for histogram in content.histograms],
        "projections": [draw_projections(item) for item in content.projections],
        "sorted_similarities": [draw_sorted(item) for item in content.sorted_similarities],
        "config": "\n".join(_config_lines(content.config)),
        "summary": _groups(content.summary),
    }


def _comparison(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    rows = evaluation.get("rows") or {}
    test_rows, embeddings = rows.get("test"), named_rows(evaluation)
    numbers = evaluation.get("target") == "number"
    return {
        "verdict": verdict(embeddings, test_rows),
        "caveat": caveat(None if numbers else test_rows),
        "numbers": numbers,
        "table": comparison(embeddings, test_rows),
        "unit_table": comparison(embeddings, test_rows, unit_rows=True),
        "protocols": [(protocol_title(key), text) for key, text in (evaluation.get("protocols") or {}).items()],
        "rows": {key: rows[key] for key in ("train", "test", "classes") if rows.get(key) is not None},
        "seconds": list(_flat(evaluation.get("seconds") or {})),
    }


def _readings(curves: Iterable[Any]) -> list[dict[str, Any]]:
    logged = {curve.key: curve for curve in curves}
    return [{"title": title, "text": text, "curve": logged.get(key)} for key, (title, text) in DIAGNOSTICS.items()]


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
        f"{key} = {json.dumps(plain_value(value), ensure_ascii=False, default=str)}" for key, value in plain.items()
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
            yield name, format_number(value)
