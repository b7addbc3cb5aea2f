"""Split violins of the features of samples and of their generated views, for the features with the largest variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from viewsmith.reports.content import FeatureViolins
from viewsmith.reports.drawing import BLUE, INK, MUTED, VERMILION, Picture, as_svg, new_axes, shorten, style

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

    Parameters
    ----------
    values : (n,) array
    grid : (g,) array
        Evenly spaced points.

    Returns
    -------
    (g,) array
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
