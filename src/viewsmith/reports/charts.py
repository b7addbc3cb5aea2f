"""Charts of a report: violins, profiles of features, similarities, and probabilities of transformations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from viewsmith.reports.content import (
    FeatureProfile,
    FeatureViolins,
    SimilarityHistogram,
    SortedSimilarities,
    TransformProbabilities,
)
from viewsmith.reports.drawing import BLUE, INK, MUTED, RULE, VERMILION, Picture, as_svg, new_axes, shorten, style
from viewsmith.reports.galleries import image_tiles

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MAX_FEATURES = 12

_FEW = 10  # fewer values are drawn as dots, because their density would depend mainly on the kernel

_ENDS = 0.005  # quantile left out at either end

_POINTS = 100

_HALF_WIDTH, _MIN_WIDTH = 0.4, 0.012

_FLATTENED = 0.04  # a feature whose spread is below this fraction of the axis would look flat

_SLOT_LETTERS = 100  # number of letters that fit under all violins together if the labels are not slanted


@dataclass(frozen=True)
class DrawnViolins:
    """Violins ready for the page."""

    name: str
    caption: str
    note: str
    picture: Picture


def draw_violins(item: FeatureViolins) -> DrawnViolins:
    """Draw the features with the largest variance in the originals, in that order: originals left, views right."""
    originals, views = np.asarray(item.originals, dtype=np.float64), np.asarray(item.views, dtype=np.float64)
    names = item.feature_names if item.feature_names is not None else [f"feature {i}" for i in range(views.shape[1])]
    selected = np.argsort(-originals.std(axis=0), kind="stable")[:MAX_FEATURES]
    originals, views, labels = originals[:, selected], views[:, selected], [str(names[i]) for i in selected]
    few = min(len(originals), len(views)) < _FEW
    summary = "" if few else _summary(originals, views, labels)
    note = f"Left: {len(originals):,} originals. Right: {len(views):,} generated views. "
    if max(len(originals), len(views)) >= _FEW:
        note += "White lines: median and quartiles; the outermost 0.5% at either end are left out. "
    if len(selected) < len(names):
        note += f"Shown: the {len(selected)} of {len(names):,} features that vary most in the originals. "
    originals, views, unit = _on_one_scale(originals, views)
    with style():
        short = [shorten(label, 22) for label in labels]
        longest = max(map(len, short))
        slanted = longest > _SLOT_LETTERS / len(short)
        figure, axes = new_axes(min(8.6, max(3.2, 1.0 + 0.64 * len(short))), 2.9 + (0.036 * longest if slanted else 0))
        for i in range(len(short)):
            _half(axes, originals[:, i], i, -1, BLUE)
            _half(axes, views[:, i], i, 1, VERMILION)
        _label(axes, short, unit, slanted=slanted)
        alt = f"Violins of {len(selected)} features, originals left and generated views right. {summary}".strip()
        picture = as_svg(figure, alt)
    return DrawnViolins(item.name, item.caption, (note + summary).strip(), picture)


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


def _on_one_scale(originals: np.ndarray, views: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
    """Both arrays and their unit; standardized by the originals if a feature would look flat on a common axis."""
    spread = originals.std(axis=0)
    width = max(originals.max(), views.max()) - min(originals.min(), views.min())
    if not (spread[spread > 0] < _FLATTENED * width).any():
        return originals, views, "value"
    center, scale = originals.mean(axis=0), np.where(spread > 0, spread, 1)
    return (originals - center) / scale, (views - center) / scale, "standard deviations of the originals"


def _half(axes: Axes, values: np.ndarray, position: int, side: int, color: str) -> None:
    """One half of a violin, left (-1) or right (1) of `position`."""
    inner = position + 0.02 * side
    low, high = np.quantile(values, [_ENDS, 1 - _ENDS])
    if low == high:  # a constant has no density
        axes.plot([inner, inner + side * _HALF_WIDTH], [low, low], color=color, linewidth=1.8, solid_capstyle="butt")
        return
    if len(values) < _FEW:
        axes.scatter(np.full(len(values), inner + 0.14 * side), values, s=14, color=color, alpha=0.8, linewidths=0)
        return
    grid = np.linspace(low, high, _POINTS)
    density = kernel_density(values, grid)
    # All halves have the same maximal width: a narrow distribution must not flatten the others. Tails keep a thin line.
    width = np.maximum(_HALF_WIDTH * density / density.max(), _MIN_WIDTH)
    axes.fill_betweenx(grid, inner, inner + side * width, color=color, alpha=0.8, linewidth=0)
    for quantile, line in ((0.25, 0.7), (0.5, 1.6), (0.75, 0.7)):
        at = np.quantile(values, quantile)
        end = inner + side * np.interp(at, grid, width)
        axes.plot([inner, end], [at, at], color="white", linewidth=line, solid_capstyle="butt")


def kernel_density(values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Gaussian kernel density estimate, not normalized.

    Silverman's bandwidth (1986, equation 3.31), at least one step of the grid. Values are first binned to the nearest
    point of the grid, which is fast for many values; values outside the grid are left out.
    """
    step = grid[1] - grid[0]
    quarter, three = np.quantile(values, [0.25, 0.75])
    spread = values.std()
    if three > quarter:
        spread = min(spread, (three - quarter) / 1.34)
    bandwidth = max(0.9 * spread * len(values) ** -0.2, step)
    counts, _ = np.histogram(values, bins=np.append(grid - step / 2, grid[-1] + step / 2))
    return np.exp(-0.5 * np.square((grid[:, None] - grid) / bandwidth)) @ counts


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


@dataclass(frozen=True)
class DrawnProfile:
    """A profile ready for the page; `top` and `bottom` are (name, value) rows, empty for a bar chart."""

    name: str
    caption: str
    unit: str
    picture: Picture | None
    top: tuple[tuple[str, float], ...] = ()
    bottom: tuple[tuple[str, float], ...] = ()
    left_out: int = 0


def draw_profile(profile: FeatureProfile) -> DrawnProfile:
    """Draw a profile sorted in descending order; equal values keep the order of the features."""
    values = np.asarray(profile.values, dtype=np.float64)
    names = profile.names if profile.names is not None else [f"feature {i}" for i in range(len(values))]
    order = [int(i) for i in np.argsort(-values, kind="stable") if np.isfinite(values[i])]
    ranked = [(str(names[i]), float(values[i])) for i in order]
    left_out = len(values) - len(ranked)
    if not ranked:
        return DrawnProfile(profile.name, profile.caption, profile.unit, None, left_out=left_out)
    with style():
        draw = _bars if len(ranked) <= MAX_BARS else _sorted_curve
        picture = draw(profile, ranked)
    if len(ranked) <= MAX_BARS:
        return DrawnProfile(profile.name, profile.caption, profile.unit, picture, left_out=left_out)
    top, bottom = tuple(ranked[:ENDS]), tuple(ranked[-ENDS:])
    return DrawnProfile(profile.name, profile.caption, profile.unit, picture, top, bottom, left_out)


def _bars(profile: FeatureProfile, ranked: list[tuple[str, float]]) -> Picture:
    figure, axes = new_axes(8.6, 0.55 + 0.17 * len(ranked))
    positions = np.arange(len(ranked))
    axes.barh(positions, [value for _, value in ranked], color=BLUE, height=0.7)
    axes.set_yticks(positions, labels=[shorten(name, 30) for name, _ in ranked])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_ylim(len(ranked) - 0.4, -0.6)
    axes.margins(x=0.02)
    axes.set_xlabel(shorten(profile.unit, 80) or "value")
    return as_svg(figure, _described(profile, ranked))


def _sorted_curve(profile: FeatureProfile, ranked: list[tuple[str, float]]) -> Picture:
    values = np.array([value for _, value in ranked])
    figure, axes = new_axes(8.6, 2.6)
    axes.plot(np.arange(1, len(values) + 1), values, color=BLUE, linewidth=1.5)
    axes.fill_between(
        np.arange(1, len(values) + 1), values, min(0.0, values.min()), color=BLUE, alpha=0.12, linewidth=0
    )
    axes.set_xlim(1, len(values))
    axes.set_xlabel("features, sorted by descending value")
    axes.set_ylabel(shorten(profile.unit, 40) or "value")
    return as_svg(figure, _described(profile, ranked))


def _described(profile: FeatureProfile, ranked: list[tuple[str, float]]) -> str:
    (first, largest), (last, smallest) = ranked[0], ranked[-1]
    return (
        f"{shorten(profile.name, 60)} of {len(ranked)} features: from {largest:.3g} ({shorten(first)}) "
        f"down to {smallest:.3g} ({shorten(last)})."
    )


_BINS = 40

_OTHER_KINDS = "#8e9aa6"

_STRIP_HEIGHT = 0.72

_QUANTILES = 200


@dataclass(frozen=True)
class SimilarityRow:
    """Quantiles (5%, 50%, 95%) and number of the similarities of one kind of view."""

    kind: str
    low: float
    median: float
    high: float
    count: int


@dataclass(frozen=True)
class DrawnHistogram:
    """A histogram ready for the page."""

    name: str
    caption: str
    note: str
    picture: Picture
    rows: tuple[SimilarityRow, ...]


@dataclass(frozen=True)
class DrawnSorted:
    """Curves ready for the page."""

    name: str
    caption: str
    note: str
    picture: Picture


def draw_histogram(item: SimilarityHistogram) -> DrawnHistogram:
    """Draw each kind as a separate strip, the first in color, with a line at its median."""
    kinds = {kind: np.asarray(values, dtype=np.float64).clip(-1, 1) for kind, values in item.similarities.items()}
    rows = tuple(_row(kind, values) for kind, values in kinds.items())
    edges = common_bins(np.concatenate(list(kinds.values())))
    with style():
        figure, axes = new_axes(4.8, 0.5 + 0.56 * len(kinds))
        for i, (values, row) in enumerate(zip(kinds.values(), rows, strict=True)):
            base, color = len(kinds) - 1 - i, _OTHER_KINDS if i else VERMILION
            counts, _ = np.histogram(values.clip(edges[0], edges[-1]), bins=edges)  # clip: the edges are rounded
            heights = base + _STRIP_HEIGHT * counts / counts.max()
            axes.stairs(heights, edges, baseline=base, fill=True, color=color, alpha=0.85, linewidth=0)
            axes.plot([row.median] * 2, [base, base + _STRIP_HEIGHT], color=INK, linewidth=1.2, solid_capstyle="butt")
        axes.set_yticks(np.arange(len(kinds))[::-1] + 0.4 * _STRIP_HEIGHT, labels=[shorten(kind, 24) for kind in kinds])
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.spines["left"].set_visible(False)
        axes.grid(visible=False, axis="y")
        for base in range(1, len(kinds)):
            axes.axhline(base, color=RULE, linewidth=0.6, zorder=0)
        axes.set_ylim(0, len(kinds) - 1 + 1.15 * _STRIP_HEIGHT)
        margin = 0.01 * (edges[-1] - edges[0])
        axes.set_xlim(edges[0] - margin, edges[-1] + margin)
        axes.set_xlabel(f"cosine similarity of {item.of}")
        medians = "; ".join(
            f"{shorten(row.kind)} {row.median:.2f} (5% {row.low:.2f}, 95% {row.high:.2f})" for row in rows
        )
        picture = as_svg(figure, f"Cosine similarity of {item.of}, median by kind: {medians}.")
    note = "The line is the median."
    if len(rows) > 1:
        note = "Each strip is scaled to its own maximum; its line is the median."
    return DrawnHistogram(item.name, item.caption, note, picture, rows)


def draw_sorted(item: SortedSimilarities) -> DrawnSorted:
    """Draw each kind as a curve over the fraction of pairs (Koyama et al. 2021, figure 8)."""
    medians = []
    with style():
        figure, axes = new_axes(4.8, 2.6)
        for i, (kind, values) in enumerate(item.similarities.items()):
            ordered = np.sort(np.asarray(values, dtype=np.float64))[::-1]
            fraction = np.linspace(0, 1, min(len(ordered), _QUANTILES))
            heights = np.quantile(ordered, 1 - fraction)
            axes.plot(fraction, heights, color=_OTHER_KINDS if i else VERMILION, label=shorten(kind, 24), linewidth=1.4)
            medians.append(f"{shorten(kind)} {np.median(ordered):.2f} (95% {np.quantile(ordered, 0.95):.2f})")
        axes.set_xlabel("fraction of pairs, the most similar first")
        axes.set_ylabel("absolute cosine")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
        if len(item.similarities) > 1:
            axes.legend(frameon=False)
        alt = f"Absolute cosine of pairs of different samples, median by kind: {'; '.join(medians)}."
        picture = as_svg(figure, alt)
    note = "Near zero for most pairs: the projections cover the sphere. High for all pairs: they have collapsed."
    return DrawnSorted(item.name, item.caption, note, picture)


def common_bins(values: np.ndarray) -> np.ndarray:
    """Bin edges for (n,) cosines of all kinds, from their minimum to their maximum, rounded outwards to tenths."""
    low, high = math.floor(10 * values.min()), math.ceil(10 * values.max())
    if low == high:
        low, high = max(low - 1, -10), min(low + 1, 10)
    return np.linspace(low / 10, high / 10, _BINS + 1)


def _row(kind: str, values: np.ndarray) -> SimilarityRow:
    low, median, high = (float(value) for value in np.quantile(values, [0.05, 0.5, 0.95]))
    return SimilarityRow(str(kind), low, median, high, len(values))


#: Up to this number of transformations, each has a bar; with more, only the MOST_SHOWN most probable have one.
ALL_SHOWN = 16

MOST_SHOWN = 12


@dataclass(frozen=True)
class DrawnTransformProbabilities:
    """Bars ready for the page: the mean over all rows first, then single samples."""

    title: str
    caption: str
    note: str
    pictures: tuple[Picture, ...]
    with_images: bool  # whether images are next to the bars; such pictures take the full width


def draw_transform_probabilities(item: TransformProbabilities) -> DrawnTransformProbabilities:
    """Draw the mean probabilities, then those of each sample."""
    m = len(item.names)
    note = f"Dotted line: equal probabilities, {1 / m:.2g}."
    if m > ALL_SHOWN:
        note += f" Shown: the {MOST_SHOWN} most probable of {m} transformations."
    tiles = None
    if item.samples is not None and item.views is not None:
        tiles = image_tiles(item.samples, item.views)
        note += f" Images: the sample, then its {item.views.shape[1]} most probable views, the most probable first."
    with style():
        pictures = [_probability_bars("Mean of the rows", item.names, item.mean)]
        for i, p in enumerate(item.probabilities):
            pictures.append(_probability_bars(f"Sample {i + 1}", item.names, p, None if tiles is None else tiles[i]))
    return DrawnTransformProbabilities(item.title, item.caption, note, tuple(pictures), tiles is not None)


def _probability_bars(
    source_name: str, names: Sequence[str], p: np.ndarray, tiles: np.ndarray | None = None
) -> Picture:
    from matplotlib.figure import Figure

    p = np.asarray(p, dtype=np.float64)
    ranked = [int(k) for k in np.argsort(-p, kind="stable")]
    selected = list(range(len(p))) if len(p) <= ALL_SHOWN else ranked[:MOST_SHOWN]
    images = 0 if tiles is None else len(tiles)
    size = (8.6, max(0.5 + 0.19 * len(selected), 1.7)) if images else (4.6, 0.5 + 0.19 * len(selected))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.add_gridspec(1, 1 + images, width_ratios=[3.2, *[1] * images])
    axes = figure.add_subplot(grid[0])
    axes.barh(np.arange(len(selected)), p[selected], color=BLUE, height=0.7)
    axes.set_yticks(np.arange(len(selected)), labels=[shorten(names[k], 30) for k in selected])
    axes.axvline(1 / len(p), color=MUTED, linestyle=":", linewidth=1)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_ylim(len(selected) - 0.4, -0.6)
    axes.set_xlim(0, 1.05 * max(p.max(), 1 / len(p)))
    rest = f"; sum of the {len(p) - len(selected)} others {1 - p[selected].sum():.2f}" if len(selected) < len(p) else ""
    axes.set_xlabel(f"{source_name}: probability{rest}")
    for j in range(images):
        assert tiles is not None
        panel = figure.add_subplot(grid[1 + j])
        panel.imshow(tiles[j], interpolation="none")
        panel.set_axis_off()
        panel.set_title("sample" if j == 0 else shorten(names[ranked[j - 1]], 14), fontsize=7)
    largest = ", ".join(f"{shorten(names[k])} {p[k]:.2f}" for k in ranked[:3])
    effective = np.exp(-(p * np.log(np.maximum(p, 1e-300))).sum())
    return as_svg(
        figure, f"{source_name}: effectively {effective:.3g} of {len(p)} transformations; most probable {largest}."
    )
