"""Training curves as small multiples: one panel per logged number, nothing smoothed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewsmith.reports.diagnostics import READINGS
from viewsmith.reports.drawing import BLUE, INK, RULE, Picture, as_svg, new_axes, shorten, style
from viewsmith.reports.verdict import score

_NOT_CURVES = ("phase", "epoch", "step", "seconds")
_TITLES = {
    "loss": "Loss",
    "learning_rate": "Learning rate",
    "noise_level": "Noise level",
    "noise_spread": "Noise spread over features",
    **{key: title for key, (title, _) in READINGS.items()},
}
_LINEAR = ("learning_rate",)  # warm-up and cosine are read as shapes
_LOG_RATIO = 100.0
_RASTER_POINTS = 3000
_STEPS = (1, 2, 5, 10)


@dataclass(frozen=True)
class Curve:
    """A panel: its key in the metrics, a title and the last value beside the picture."""

    key: str
    title: str
    last: float
    picture: Picture


@dataclass(frozen=True)
class Axis:
    """The shared horizontal axis: a position per row, its name, and the stretch of rows of each phase."""

    x: np.ndarray
    name: str
    phases: tuple[tuple[str, float, float], ...]


def draw_curves(metrics: Sequence[Mapping[str, Any]]) -> list[Curve]:
    """One panel for every key of the rows that holds at least one finite number, in the order they first appear."""
    axis = training_axis(metrics)
    keys = dict.fromkeys(key for row in metrics for key in row if key not in _NOT_CURVES)
    ordered = sorted(keys, key=lambda key: list(_TITLES).index(key) if key in _TITLES else len(_TITLES))
    curves = []
    with style():
        for key in ordered:
            values = [score(row.get(key)) for row in metrics]
            y = np.array([np.nan if value is None else value for value in values])
            kept = np.isfinite(y)
            if kept.any():
                # Rows that do not log a key are no gap in its curve; a value that is logged but not finite is.
                kept = np.array([key in row and row[key] is not None for row in metrics])
                curves.append(_curve(key, axis, axis.x[kept], y[kept]))
    return curves


def training_axis(metrics: Sequence[Mapping[str, Any]]) -> Axis:
    """Where each row lies along the run: its epoch if every row has its own, else its step, else its number.

    Counters that start again with a phase are carried on from the end of the phase before.
    """
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


def _curve(key: str, axis: Axis, x: np.ndarray, y: np.ndarray) -> Curve:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    words = shorten(key.replace("/", ": ", 1).replace("_", " "), 40)
    title = _TITLES.get(key, words[:1].upper() + words[1:])
    figure, axes = new_axes(3.1, 1.9)
    _mark_phases(axes, axis)
    finite = y[np.isfinite(y)]
    if key not in _LINEAR and finite.min() > 0 and finite.max() > _LOG_RATIO * finite.min():
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axes.yaxis.set_major_locator(MaxNLocator(4, steps=_STEPS))
    lone = len(x) < 3
    axes.plot(
        x, y, color=BLUE, linewidth=1.3, marker="o" if lone else None, markersize=3, rasterized=len(x) > _RASTER_POINTS
    )
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=_STEPS, integer=True, min_n_ticks=1))
    margin = 0.02 * float(np.ptp(axis.x)) or 0.5
    axes.set_xlim(
        axis.x.min() - margin, axis.x.max() + margin
    )  # one scale for all panels: they are read one above the other
    axes.set_xlabel(axis.name)
    alt = (
        f"{title} over the run: {finite[0]:.4g} at the start, {finite[-1]:.4g} at the end, "
        f"lowest {finite.min():.4g}, highest {finite.max():.4g}."
    )
    return Curve(key, title, float(finite[-1]), as_svg(figure, alt))


def _mark_phases(axes: Any, axis: Axis) -> None:
    if len(axis.phases) < 2:
        return
    for i, (name, start, end) in enumerate(axis.phases):
        if i % 2:
            axes.axvspan(start, end, color=RULE, alpha=0.55, linewidth=0)
        if len(axis.phases) <= 4:
            middle = (start + end) / 2
            axes.annotate(
                shorten(name, 12),
                (middle, 1),
                xycoords=axes.get_xaxis_transform(),
                xytext=(0, 1),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=6.5,
                color=INK,
                annotation_clip=False,
            )
