"""Charts of a report: violins, profiles of features, and similarities of samples and views."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.reports.figure import BLUE, INK, MUTED, RULE, VERMILION, Figure, Picture, new_axes, number_text, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_FEATURES = 12
_FEW = 10  # fewer values are drawn as dots, because their density would depend mainly on the kernel
_ENDS = 0.005  # quantile left out at either end
_POINTS = 100
_FLATTENED = 0.04  # a feature whose spread is below this fraction of the axis would look flat
_SLOT_LETTERS = 100  # number of letters that fit under all violins together if the labels are not slanted


def draw_violins(
    title: str, originals: np.ndarray, views: np.ndarray, names: Sequence[str] | None = None, caption: str = ""
) -> Figure:
    """Draw features of originals (n, d) on the left, of views (m, d) on the right, of the largest variance first."""
    data = {"originals": originals, "views": views}
    originals, views = np.asarray(originals, dtype=np.float64), np.asarray(views, dtype=np.float64)
    shapes = originals.shape + views.shape
    if originals.ndim != 2 or views.ndim != 2 or originals.shape[1] != views.shape[1] or 0 in shapes:
        raise InputError(
            f"violins {title!r}: originals of shape {originals.shape} with views of shape {views.shape}; "
            "give (n, d) and (m, d) arrays with at least one row and one feature"
        )
    names = _checked_names(f"violins {title!r}", names, views.shape[1])
    if not (np.isfinite(originals).all() and np.isfinite(views).all()):
        raise InputError(f"violins {title!r}: originals or views have values that are not finite; leave them out")
    selected = np.argsort(-originals.std(axis=0), kind="stable")[:MAX_FEATURES]
    originals, views, labels = originals[:, selected], views[:, selected], [str(names[i]) for i in selected]
    summary = "" if min(len(originals), len(views)) < _FEW else _summary(originals, views, labels)
    note = f"Left: {len(originals):,} originals. Right: {len(views):,} generated views. "
    if max(len(originals), len(views)) >= _FEW:
        note += "White lines: median and quartiles; the outermost 0.5% at either end are left out. "
    if len(selected) < len(names):
        note += f"Shown: the {len(selected)} of {len(names):,} features that vary most in the originals. "
    spread, unit = originals.std(axis=0), "value"
    width = max(originals.max(), views.max()) - min(originals.min(), views.min())
    if (spread[spread > 0] < _FLATTENED * width).any():  # it would look flat on a common axis
        center, scale = originals.mean(axis=0), np.where(spread > 0, spread, 1)
        originals, views = (originals - center) / scale, (views - center) / scale
        unit = "standard deviations of the originals"
    short = [shorten(label, 22) for label in labels]
    longest = max(map(len, short))
    slanted = longest > _SLOT_LETTERS / len(short)
    size = min(8.6, max(3.2, 1.0 + 0.64 * len(short))), 2.9 + (0.036 * longest if slanted else 0)
    with new_axes(*size) as (figure, axes):
        for i in range(len(short)):
            _half(axes, originals[:, i], i, "low", BLUE)
            _half(axes, views[:, i], i, "high", VERMILION)
        _label(axes, short, unit, slanted=slanted)
    alt = f"Violins of {len(selected)} features, originals left and generated views right. {summary}".strip()
    return Figure(title, caption, [Picture(alt, figure)], (note + summary).strip(), data=data)


def _checked_names(source_name: str, names: Sequence[str] | None, d: int) -> Sequence[str]:
    if names is not None and len(names) != d:
        raise InputError(f"{source_name}: {len(names)} names for {d} features; give one for each")
    return [f"feature {i}" for i in range(d)] if names is None else names


def _summary(originals: np.ndarray, views: np.ndarray, labels: list[str]) -> str:
    """Shift and spread of the views in words, in standard deviations of the originals."""
    spread = originals.std(axis=0)
    varied = np.flatnonzero(spread > 0)
    if not len(varied):
        return ""
    ratio = np.median(views.std(axis=0)[varied] / spread[varied])
    shift = np.abs(np.median(views, axis=0) - np.median(originals, axis=0))[varied] / spread[varied]
    most = int(shift.argmax())
    return (
        f"The standard deviation of the views is {ratio:.2f} times that of the originals (median of these features); "
        f"the largest shift of a median is that of {shorten(labels[varied[most]])}, {shift[most]:.2f} standard "
        "deviations."
    )


def _half(axes: Axes, values: np.ndarray, position: int, side: Literal["low", "high"], color: str) -> None:
    """One half of a violin, left ("low") or right of `position`; few or equal values, without a density, are dots."""
    low, high = np.quantile(values, [_ENDS, 1 - _ENDS])
    kept = values[(values >= low) & (values <= high)]
    sign = 1 if side == "high" else -1
    if len(values) < _FEW or low == high:
        dots = values if len(values) < _FEW else kept[:1]
        axes.scatter(np.full(len(dots), position + 0.16 * sign), dots, s=14, color=color, alpha=0.8, linewidths=0)
        return
    # Silverman's bandwidth (1986, equation 3.31), at least the distance of the points of the outline.
    quarter, three = np.quantile(kept, [0.25, 0.75])
    spread = min(kept.std(), (three - quarter) / 1.34 or np.inf)
    bandwidth = max(0.9 * spread * len(kept) ** -0.2, (high - low) / _POINTS)
    parts: Any = axes.violinplot(
        kept,
        [position + 0.02 * sign],
        widths=0.8,
        points=_POINTS,
        side=side,
        showextrema=False,
        quantiles=[0.25, 0.5, 0.75],
        bw_method=float(bandwidth / kept.std(ddof=1)),
    )
    for body in parts["bodies"]:
        body.set(facecolor=color, edgecolor=color, alpha=0.8, linewidth=0.6)  # the edge keeps long tails visible
    parts["cquantiles"].set(color="white", linewidth=[0.7, 1.6, 0.7])


def _label(axes: Axes, labels: list[str], unit: str, *, slanted: bool) -> None:
    from matplotlib.patches import Patch

    axes.set_xticks(range(len(labels)), labels=labels)
    if slanted:
        for text in axes.get_xticklabels():
            text.set(rotation=35, ha="right", rotation_mode="anchor")
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    axes.set_xlim(-0.6, len(labels) - 0.4)
    axes.set_ylabel(unit)
    handles = [Patch(color=BLUE, alpha=0.8, label="originals"), Patch(color=VERMILION, alpha=0.8, label="generated")]
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=2,
        frameon=False,
        borderaxespad=0.2,
        borderpad=0,
        handlelength=1,
        handleheight=0.9,
        labelcolor=INK,
    )
    if unit != "value":
        axes.axhline(0, color=MUTED, linewidth=0.6, zorder=0)


MAX_BARS = 60
ENDS = 15


def draw_profile(
    title: str, values: np.ndarray, names: Sequence[str] | None = None, caption: str = "", unit: str = ""
) -> Figure:
    """Draw one number per feature, (d,), in descending order; equal values keep the order of the features."""
    if np.ndim(values) != 1:
        raise InputError(f"profile {title!r}: values have shape {np.shape(values)}; give a (d,) array")
    values = np.asarray(values, dtype=np.float64)
    names = _checked_names(f"profile {title!r}", names, len(values))
    order = [int(i) for i in np.argsort(-values, kind="stable") if np.isfinite(values[i])]
    ranked = [(str(names[i]), float(values[i])) for i in order]
    left_out, data = len(values) - len(ranked), {"values": values}
    if not ranked:
        return Figure(title, caption, (), "No finite values to show.", "features", data=data)
    heights, n = values[order], len(order)
    if n <= MAX_BARS:
        with new_axes(8.6, 0.55 + 0.17 * n) as (figure, axes):
            draw_bars(axes, heights, [name for name, _ in ranked])
            axes.margins(x=0.02)
            axes.set_xlabel(shorten(unit, 80) or "value")
    else:
        with new_axes(8.6, 2.6) as (figure, axes):
            place = np.arange(1, n + 1)
            axes.plot(place, heights, color=BLUE, linewidth=1.5)
            axes.fill_between(place, heights, min(0.0, heights.min()), color=BLUE, alpha=0.12, linewidth=0)
            axes.set_xlim(1, n)
            axes.set_xlabel("features, sorted by descending value")
            axes.set_ylabel(shorten(unit, 40) or "value")
    (first, largest), (last, smallest) = ranked[0], ranked[-1]
    alt = (
        f"{shorten(title, 60)} of {n} features: from {largest:.3g} ({shorten(first)}) "
        f"down to {smallest:.3g} ({shorten(last)})."
    )
    header, rows = ("feature", unit or "value"), [(name, number_text(value)) for name, value in ranked]
    tables = {"Largest": [header, *rows[:ENDS]], "Smallest": [header, *rows[-ENDS:]]} if n > MAX_BARS else {}
    note = f"Left out because they are not finite: {left_out:,}." if left_out else ""
    return Figure(title, caption, [Picture(alt, figure)], note, "features", tables, data=data)


def draw_bars(axes: Axes, values: np.ndarray, names: Sequence[str]) -> None:
    """Draw horizontal bars, the first at the top."""
    axes.barh(np.arange(len(values)), values, color=BLUE, height=0.7)
    axes.set_yticks(np.arange(len(values)), labels=[shorten(name, 30) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_ylim(len(values) - 0.4, -0.6)


_BINS = 40
OTHER_KINDS = "#8e9aa6"
_STRIP_HEIGHT = 0.72


def draw_similarities(
    title: str, similarities: Mapping[str, np.ndarray], caption: str = "", of: str = "sample and view"
) -> Figure:
    """Draw cosine similarities by kind, (n,) each: a strip for each kind, the first in color, with its median."""
    if not similarities:
        raise InputError(f"histogram {title!r}: no similarities; give at least one kind of view")
    for kind, values in similarities.items():
        # NaN compares as False. By rounding, a cosine in float16 may be a little above 1.
        if np.ndim(values) != 1 or not len(values) or not (np.abs(values) <= 1 + 2e-3).all():
            raise InputError(
                f"histogram {title!r}: similarities of {kind!r} have shape {np.shape(values)} or are not all cosines "
                "in [-1, 1]; give an (n,) array of at least one"
            )
    kinds = {kind: np.asarray(values, dtype=np.float64).clip(-1, 1) for kind, values in similarities.items()}
    quantiles = {kind: np.quantile(values, [0.05, 0.5, 0.95]) for kind, values in kinds.items()}
    edges = common_bins(np.concatenate(list(kinds.values())))
    with new_axes(4.8, 0.5 + 0.56 * len(kinds)) as (figure, axes):
        for i, (kind, values) in enumerate(kinds.items()):
            base, color = len(kinds) - 1 - i, OTHER_KINDS if i else VERMILION
            counts, _ = np.histogram(values.clip(edges[0], edges[-1]), bins=edges)  # clip: the edges are rounded
            heights, median = base + _STRIP_HEIGHT * counts / counts.max(), quantiles[kind][1]
            axes.stairs(heights, edges, baseline=base, fill=True, color=color, alpha=0.85, linewidth=0)
            axes.plot([median] * 2, [base, base + _STRIP_HEIGHT], color=INK, linewidth=1.2, solid_capstyle="butt")
        axes.set_yticks(np.arange(len(kinds))[::-1] + 0.4 * _STRIP_HEIGHT, labels=[shorten(kind, 24) for kind in kinds])
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.spines["left"].set_visible(False)
        axes.grid(visible=False, axis="y")
        for base in range(1, len(kinds)):
            axes.axhline(base, color=RULE, linewidth=0.6, zorder=0)
        axes.set_ylim(0, len(kinds) - 1 + 1.15 * _STRIP_HEIGHT)
        margin = 0.01 * (edges[-1] - edges[0])
        axes.set_xlim(edges[0] - margin, edges[-1] + margin)
        axes.set_xlabel(f"cosine similarity of {of}")
    medians = "; ".join(
        f"{shorten(kind)} {median:.2f} (5% {low:.2f}, 95% {high:.2f})"
        for kind, (low, median, high) in quantiles.items()
    )
    table = [("views", "5%", "median", "95%", "number")]
    for kind, values in quantiles.items():
        low, median, high = (f"{value:.2f}".replace("-", "−") for value in values)
        table.append((str(kind), low, median, high, f"{len(kinds[kind]):,}"))
    picture = Picture(f"Cosine similarity of {of}, median by kind: {medians}.", figure)
    note = "Each strip is scaled to its own maximum; its line is the median."
    note, tables = note if len(kinds) > 1 else "The line is the median.", {"Quantiles by kind of view": table}
    return Figure(title, caption, [picture], note, tables=tables, data={"similarities": similarities})


def common_bins(values: np.ndarray) -> np.ndarray:
    """Bin edges for (n,) cosines of all kinds, from their minimum to their maximum, rounded outwards to tenths."""
    low, high = math.floor(10 * values.min()), math.ceil(10 * values.max())
    if low == high:
        low, high = max(low - 1, -10), min(low + 1, 10)
    return np.linspace(low / 10, high / 10, _BINS + 1)
