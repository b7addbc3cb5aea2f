"""The report of a run as one self-contained HTML file."""

import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from viewsmith.core.files import write_text_atomic
from viewsmith.reports.figure import BLUE, INK, RULE, Figure, Picture, new_axes, number_text, score, shorten
from viewsmith.reports.verdict import caveat, comparison, protocol_title, verdict

if TYPE_CHECKING:
    import jinja2


#: Title of each label-free diagnostic and one sentence that explains its values.
DIAGNOSTICS: dict[str, tuple[str, str]] = {
    "feature_std": (
        "Feature spread",
        "Mean standard deviation of the features of rows normalized to length 1, times the square root of the width: "
        "near 1 the rows point in all directions, near 0 they all point in the same direction (collapse).",
    ),
    "effective_rank": (
        "Effective rank",
        "Effective number of dimensions of the representation: at most its width; below 2 the rows lie near a line.",
    ),
    "alignment": (
        "Alignment",
        "Mean squared distance between two views of a sample, 0 to 4: lower means that the views agree, "
        "which is meaningful only if uniformity is well below 0.",
    ),
    "uniformity": ("Uniformity", "How evenly the rows cover the sphere: 0 if all rows are equal, about −4 at best."),
    "view_distance": (
        "Distance of views from the data",
        "Median distance of a view to the nearest other sample, over that of samples: about 1 where views lie among "
        "the samples; learned views far above it have left the data.",
    ),
    "told_apart": (
        "Views told apart",
        "Held-out accuracy of a classifier of views against samples: at 0.5 they look the same, at 1 each view is "
        "recognized, which is no harm by itself: crops are recognized, too.",
    ),
    "drift": (
        "Drift of generated views",
        "Fraction of the generated views whose nearest real row is neither their sample nor one of its neighbors: "
        "near 0 the views stay close to their samples, above 1/2 most of them do not.",
    ),
    "generated_similarity": (
        "Similarity of generated views",
        "Mean cosine similarity of the representations of samples and of their generated views: "
        "at 1 the encoder does not distinguish them; lower values mean that the views differ more from their samples.",
    ),
    "feature_cosine": (
        "Cosine of augmented features",
        "Mean cosine similarity of features and the augmented features that the generators make from them: at 1 the "
        "augmented features are copies and add nothing, near 0 they are unrelated to their sample.",
    ),
    "features_told_apart": (
        "Augmented features told apart",
        "Held-out accuracy of a classifier of augmented features against projections of samples: at 0.5 they look the "
        "same, at 1 each is recognized.",
    ),
    "denoising": (
        "Denoising error",
        "Error of the generator on rows held out from its training: lower is better; when it rises again, "
        "the generator overfits its training rows.",
    ),
}

MINIMUM_RANK = 2.0
MINIMUM_STD = 0.05
MAXIMUM_DRIFT = 0.5


def latest(metrics: Sequence[Mapping[str, Any]], key: str) -> float | None:
    """The last finite value of `key` in the rows; None if there is none."""
    values = (score(row.get(key)) for row in reversed(metrics))
    return next((value for value in values if value is not None), None)


def collapse_warnings(
    metrics: Sequence[Mapping[str, Any]], evaluation: Mapping[str, Any] | None, rows: int | None = None
) -> list[str]:
    """One line for each sign of collapse at the end of training or in the evaluated representation."""
    evaluated = ((evaluation or {}).get("label_free") or {}).get("representation") or {}
    tested = ((evaluation or {}).get("rows") or {}).get("test")
    lines = []
    for where, count, find in (
        ("at the end of training", rows, lambda key: latest(metrics, key)),
        ("of the evaluated representation", tested, lambda key: score(evaluated.get(key))),
    ):
        rank, std, known = find("effective_rank"), find("feature_std"), score(count)
        # n rows span at most n - 1 dimensions.
        least = MINIMUM_RANK if known is None else min(MINIMUM_RANK, (known - 1) / 2)
        if rank is not None and rank < least:
            lines.append(f"Collapse: the effective rank {where} is {rank:.2f}, below {least:g}.")
        if std is not None and std < MINIMUM_STD:
            lines.append(f"Collapse: the feature spread {where} is {std:.2g}, nearly 0.")
    return lines


def drift_warnings(metrics: Sequence[Mapping[str, Any]]) -> list[str]:
    """A list of one line if most generated views are outside their sample's neighborhood at the end; else empty."""
    drift = latest(metrics, "drift")
    if drift is None or drift <= MAXIMUM_DRIFT:
        return []
    return [
        f"generated views drift from their samples: the nearest row of {drift:.0%} of them is not in the sample's "
        "neighborhood; use a smaller strength, or keep_outliers=False"
    ]


_NOT_CURVES = ("phase", "epoch", "step", "seconds")

_TITLES = {
    "loss": "Loss",
    "learning_rate": "Learning rate",
    "noise_level": "Noise level",
    "noise_spread": "Noise spread over features",
    "effective": "Effective number of transformations",
    "largest_p": "Largest probability",
    "nonempty_mass": "Probability of nonempty views",
    **{key: title for key, (title, _) in DIAGNOSTICS.items()},
}

_LINEAR = ("learning_rate",)  # always on a linear scale, so that warm-up and cosine keep their shape
_PROBABILITIES = ("drift", "largest_p", "nonempty_mass")
_LOG_RATIO = 100.0
_RASTER_POINTS = 3000
_STEPS = (1, 2, 5, 10)
_LETTER, _PANEL_WIDTH = 4.5, 180.0  # in points: width of a letter in the name of a phase, smallest width of a panel


@dataclass(frozen=True)
class Axis:
    """The common horizontal axis: a position per row, its name, and the (name, start, end) of each phase."""

    x: np.ndarray
    name: str
    phases: tuple[tuple[str, float, float], ...]


def draw_curves(metrics: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """One panel for each key with a finite number, in order of appearance; but for label-free diagnostics, one per kind
    of phase (`phase_kind`), whose losses are different quantities."""
    axis = training_axis(metrics)
    keys = dict.fromkeys(key for row in metrics for key in row if key not in _NOT_CURVES)
    ordered = sorted(keys, key=lambda key: list(_TITLES).index(key) if key in _TITLES else len(_TITLES))
    return [curve for key in ordered for curve in _curves_of(key, metrics, axis)]


def _curves_of(key: str, metrics: Sequence[Mapping[str, Any]], axis: Axis) -> Iterator[Figure]:
    """The panels of a key: one for each kind of phase in which it has a finite number."""
    values = [score(row.get(key)) for row in metrics]
    y = np.array([np.nan if value is None else value for value in values])
    # A row without the key leaves no gap in the curve; a logged value that is not finite does.
    logged = np.array([key in row and row[key] is not None for row in metrics])
    names = np.array([str(row.get("phase", "")) for row in metrics])
    kinds = np.array(["" if key in DIAGNOSTICS else phase_kind(name) for name in names])
    groups = [logged & (kinds == kind) for kind in dict.fromkeys(kinds.tolist())]
    groups = [rows for rows in groups if np.isfinite(y[rows]).any()]
    for rows in groups:
        words = shorten(key.replace("/", ": ", 1).replace("_", " "), 40)
        title = _TITLES.get(key, words[:1].upper() + words[1:])
        if len(groups) > 1:
            phases = [shorten(name, 12) for name in dict.fromkeys(names[rows].tolist())]
            phases = phases if len(phases) <= 3 else [phases[0], f"{phases[1]} … {phases[-1]}"]
            title += f" ({', '.join(phases)})"
        # Before these of the selected rows there were phases of another kind.
        gaps = np.flatnonzero(np.diff(np.cumsum(np.append(0, kinds[1:] != kinds[:-1]))[rows])) + 1
        yield _curve(key, title, axis, np.insert(axis.x[rows], gaps, np.nan), np.insert(y[rows], gaps, np.nan))


def phase_kind(name: str) -> str:
    """The kind of a phase: its name without the trailing number, such as A for A1 and A2."""
    return name.rstrip("0123456789") or name


def training_axis(metrics: Sequence[Mapping[str, Any]]) -> Axis:
    """Position of each row in the run: its epoch if all have different ones, else its step (counters that restart
    continue), else its number."""
    phases = [str(row.get("phase", "")) for row in metrics]
    x, name = np.arange(1.0, len(metrics) + 1), "record"
    for key in ("epoch", "step"):
        counts = [score(row.get(key)) for row in metrics]
        joined = _joined([np.nan if count is None else count for count in counts], phases)
        if None not in counts and (key == "step" or np.all(np.diff(joined) > 0)):
            x, name = joined, key
            break
    starts = [i for i in range(len(phases)) if i == 0 or phases[i] != phases[i - 1]]
    spans = []
    for start, end in zip(starts, [*starts, len(phases)][1:], strict=True):
        spans.append((phases[start], float(x[start - 1] if start else x[0]), float(x[end - 1])))
    return Axis(x, name, tuple(spans))


def _joined(counts: Sequence[float], phases: Sequence[str]) -> np.ndarray:
    x, offset = np.array(counts, dtype=np.float64), 0.0
    for i in range(1, len(x)):
        if phases[i] != phases[i - 1] and x[i] + offset <= x[i - 1]:
            offset = x[i - 1]
        x[i] += offset
    return x


def _curve(key: str, title: str, axis: Axis, x: np.ndarray, y: np.ndarray) -> Figure:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    finite = y[np.isfinite(y)]
    with new_axes(3.1, 1.9) as (figure, axes):
        _mark_phases(axes, axis)
        if key not in _LINEAR and finite.min() > 0 and finite.max() > _LOG_RATIO * finite.min():
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        else:
            axes.yaxis.set_major_locator(MaxNLocator(4, steps=_STEPS))
        if key in _PROBABILITIES:
            axes.set_ylim(-0.03, 1.03)
        axes.plot(x, y, color=BLUE, linewidth=1.3, rasterized=len(x) > _RASTER_POINTS)
        dots = _without_line(y) if len(finite) > 2 else np.isfinite(y)
        axes.plot(x[dots], y[dots], color=BLUE, linestyle="", marker="o", markersize=3)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=_STEPS, integer=True, min_n_ticks=1))
        margin = 0.02 * float(np.ptp(axis.x)) or 0.5
        # All panels have the same horizontal scale, so that they can be compared.
        axes.set_xlim(axis.x.min() - margin, axis.x.max() + margin)
        axes.set_xlabel(axis.name)
    alt = (
        f"{title} over the run: {finite[0]:.4g} at the start, {finite[-1]:.4g} at the end, "
        f"lowest {finite.min():.4g}, highest {finite.max():.4g}."
    )
    return Figure(
        title,
        DIAGNOSTICS[key][1] if key in DIAGNOSTICS else "",
        [Picture(alt, figure)],
        section="diagnostics" if key in DIAGNOSTICS else "training",
        value=float(finite[-1]),
        data={"key": key, "x": x, "y": y},
    )


def _without_line(y: np.ndarray) -> np.ndarray:
    """Which finite values have no finite neighbor, so that they need a dot to be visible."""
    finite = np.pad(np.isfinite(y), 1)
    return finite[1:-1] & ~finite[:-2] & ~finite[2:]


def _mark_phases(axes: Any, axis: Axis) -> None:
    if len(axis.phases) < 2:
        return
    run = float(np.ptp(axis.x)) or 1.0
    for i, (name, start, end) in enumerate(axis.phases):
        if i % 2:
            axes.axvspan(start, end, color=RULE, alpha=0.55, linewidth=0)
        label = shorten(name, 12)
        if len(label) * _LETTER < (end - start) / run * _PANEL_WIDTH:
            above = {"xycoords": axes.get_xaxis_transform(), "xytext": (0, 1), "textcoords": "offset points"}
            above |= {"ha": "center", "va": "bottom", "annotation_clip": False}
            axes.annotate(label, ((start + end) / 2, 1), fontsize=6.5, color=INK, **above)


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
