"""One number per feature: a bar chart for few features, or a sorted curve and tables of the extremes for many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from viewsmith.reports.content import FeatureProfile
from viewsmith.reports.drawing import BLUE, Picture, as_svg, new_axes, shorten, style

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
