"""Charts of a report: violins, profiles of features, similarities of samples and views, and samples beside their views:
lines for vectors and recordings, a grid of images, aligned letters for DNA."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.modalities.dna.letters import NUCLEOTIDES
from viewsmith.modalities.images.channels import WHITE, is_photograph, to_pixels
from viewsmith.reports.figure import (
    BLUE,
    INK,
    MUTED,
    PALETTE,
    RULE,
    VERMILION,
    Figure,
    Picture,
    new_axes,
    number_text,
    shorten,
)

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
    shape: Any = {"widths": 0.8, "points": _POINTS, "side": side, "bw_method": float(bandwidth / kept.std(ddof=1))}
    marks: Any = {"showextrema": False, "quantiles": [0.25, 0.5, 0.75]}
    parts: Any = axes.violinplot(kept, [position + 0.02 * sign], **shape, **marks)
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
    above: Any = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2, "borderpad": 0}
    axes.legend(handles=handles, ncols=2, frameon=False, handlelength=1, handleheight=0.9, labelcolor=INK, **above)
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


_VECTOR_SAMPLES, _IMAGE_SAMPLES, _DNA_SAMPLES = 4, 8, 6
_MAX_VIEWS = 6
_MAX_FEATURES = 200
_CHANNELS = 6
_TILE = 96
_LETTERS = 90
LOWER = np.arange(ord("a"), ord("z") + 1)
OUTSIDE = ord(".")  # marks a position of a sample that its view does not cover


def draw_gallery(
    title: str,
    samples: np.ndarray,
    views: np.ndarray,
    kind: Literal["curve", "pixels", "letters", "traces"],
    caption: str = "",
    tables: Mapping[str, Sequence[Sequence[str]]] | None = None,
    along: tuple[Sequence[float] | None, str] = (None, "time"),
) -> Figure:
    """Draw the first few samples, (n, ...), with their first few views, (n, k, ...); traces at points `along` the
    horizontal axis, and its name."""
    dimensions = {"curve": (2,), "pixels": (3, 4), "letters": (2,), "traces": (3,)}
    if kind not in dimensions:
        raise InputError(f"gallery {title!r}: kind {kind!r}; use one of {', '.join(dimensions)}")
    sample, view = np.shape(samples), np.shape(views)
    if len(sample) not in dimensions[kind] or view[:1] + view[2:] != sample or len(view) != len(sample) + 1:
        raise InputError(
            f"gallery {title!r}: samples of shape {sample} with views of shape {view}; "
            f"give (n, ...) samples and (n, k, ...) views for kind {kind!r}"
        )
    figure = Figure(title, caption, tables=tables or {}, data={"samples": samples, "views": views})
    if not len(samples):
        return replace(figure, note="No samples.")
    if kind == "letters":
        # Samples may be in lower case, views are not.
        note, html = _alignments(*(np.where(np.isin(x, LOWER), x - 32, x) for x in (samples, views)))
        return replace(figure, note=note, html=html)
    draw: dict[str, Callable[..., tuple[str, list[Picture]]]] = {
        "curve": _vectors,
        "pixels": _images,
        "traces": partial(_recordings, along),
    }
    note, pictures = draw[kind](samples, views)
    return replace(figure, note=note, pictures=pictures)


def _vectors(samples: np.ndarray, views: np.ndarray) -> tuple[str, list[Picture]]:
    samples, views = np.asarray(samples, dtype=np.float64), np.asarray(views, dtype=np.float64)[:, :_MAX_VIEWS]
    note = f"Dark line: the sample. Colored lines: {views.shape[1]} of its views."
    spread = np.nanstd(np.concatenate([samples[:, None], views], axis=1), axis=(0, 1))
    selected, label, axis = np.arange(samples.shape[1]), "value", "feature"
    if len(selected) > _MAX_FEATURES:
        selected = np.sort(np.argsort(-spread, kind="stable")[: _MAX_FEATURES // 2])
        note += f" Shown: the {len(selected)} of {samples.shape[1]} features with the largest variance, in their order."
        axis = f"{len(selected)} features, in their order"
    # A single feature with large values would flatten all others.
    if np.median(spread[selected]) < 0.05 * spread[selected].max():
        center, scale = np.nanmean(samples, axis=0), np.where(spread > 0, spread, 1)
        samples, views, label = (samples - center) / scale, (views - center) / scale, "standardized value"
    pictures = []
    for i in range(min(len(samples), _VECTOR_SAMPLES)):
        with new_axes(4.6, 1.9) as (figure, axes):
            for j, view in enumerate(views[i]):
                axes.plot(view[selected], color=PALETTE[(j + 1) % len(PALETTE)], linewidth=0.9, alpha=0.8)
            axes.plot(samples[i][selected], color=INK, linewidth=1.4)
            axes.margins(x=0.01)
            axes.set_xlabel(axis)
            axes.set_ylabel(label)
        change = np.nanmean(np.abs(views[i] - samples[i])) if views.size else 0.0
        seen = f"Sample {i + 1} and {views.shape[1]} views, {len(selected)} features"
        pictures.append(Picture(f"{seen}; mean absolute change {change:.3g}.", figure))
    return note, pictures


def _recordings(
    along: tuple[Sequence[float] | None, str], samples: np.ndarray, views: np.ndarray
) -> tuple[str, list[Picture]]:
    """Channels below each other; a view that covers a part of its sample is NaN elsewhere."""
    samples, views = np.asarray(samples, dtype=np.float64), np.asarray(views, dtype=np.float64)[:, :_MAX_VIEWS]
    shown = min(samples.shape[1], _CHANNELS)
    note = f"Dark lines: the sample. Colored lines: {views.shape[1]} of its views. One line for each channel."
    if shown < samples.shape[1]:
        note += f" Shown: the first {shown} of {samples.shape[1]} channels."
    drawn = np.where(np.isnan(samples).all(axis=(0, 2))[:, None], 0.0, samples)  # of which a channel may have no value
    center, spread = np.nanmean(drawn, axis=(0, 2)), np.nanstd(drawn, axis=(0, 2))
    scale = np.where(spread > 0, spread, 1)
    offset = -5.0 * np.arange(shown)[:, None] - (center / scale)[:shown, None]
    points, name = along
    x = np.arange(samples.shape[2]) if points is None or len(points) != samples.shape[2] else np.asarray(points)
    pictures = []
    for i in range(min(len(samples), _VECTOR_SAMPLES)):
        with new_axes(4.6, 0.9 + 0.5 * shown) as (figure, axes):
            for j, view in enumerate([*views[i], samples[i]]):
                color, width = (PALETTE[(j + 1) % len(PALETTE)], 0.7) if j < len(views[i]) else (INK, 1.1)
                axes.plot(x, (view[:shown] / scale[:shown, None] + offset).T, color=color, linewidth=width, alpha=0.8)
            axes.margins(x=0.01)
            axes.set_yticks([])
            if x[0] > x[-1]:
                axes.invert_xaxis()
            axes.set_xlabel(name)
        pictures.append(Picture(f"Sample {i + 1} and {views.shape[1]} views, {shown} channels.", figure))
    return note, pictures


def _images(samples: np.ndarray, views: np.ndarray) -> tuple[str, list[Picture]]:
    tiles = image_tiles(samples[:_IMAGE_SAMPLES], views[:_IMAGE_SAMPLES, :_MAX_VIEWS])
    n, k, height, width, _ = tiles.shape
    gap, first = max(1, height // 16), max(2, height // 6)  # a wider gap separates the samples from their views
    page = np.full((n * (height + gap) - gap, k * (width + gap) - gap + first, 3), WHITE, tiles.dtype)
    for i, j in np.ndindex(n, k):
        top, left = i * (height + gap), j * (width + gap) + (first if j else 0)
        page[top : top + height, left : left + width] = tiles[i, j]
    alt = f"{n} images, one per row: the sample on the left, then {k - 1} of its views."
    return "Left: the sample. Right: its views.", [Picture(alt, page)]


def image_tiles(samples: np.ndarray, views: np.ndarray) -> np.ndarray:
    """Images (n, ...) and k views of each as tiles of at most 96 x 96 pixels: uint8 (n, 1 + k, h, w, 3)."""
    rows = np.concatenate([np.asarray(samples)[:, None], np.asarray(views)], axis=1)
    rows = rows[..., None] if rows.ndim == 4 else rows
    n, k, height, width, channels = rows.shape
    b = -(-max(height, width) // _TILE)  # means over blocks
    tiles = rows[:, :, : height - height % b, : width - width % b].astype(np.float64)
    tiles = tiles.reshape(n, k, height // b, b, width // b, b, channels).mean(axis=(3, 5))
    low, high = 0.0, float(WHITE)
    if not is_photograph(rows.shape[2:], rows.dtype):
        # Scaled by the samples alone: an outlier pixel of a generated view must not make all pictures pale.
        low, high = np.nanmin(samples), np.nanmax(samples)
        low, high = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
    tiles = np.nan_to_num((tiles - low) / ((high - low) or 1.0))
    return np.broadcast_to(to_pixels(tiles), (*tiles.shape[:-1], 3))


def _alignments(samples: np.ndarray, views: np.ndarray) -> tuple[str, str]:
    """Letters of samples, (n, L), with those of their views below them, (n, k, L), as a note and the markup of both."""
    from markupsafe import Markup

    found, cut = [], False
    for i, sample in enumerate(samples[:_DNA_SAMPLES]):
        rows = np.concatenate([sample[None], views[i, :_MAX_VIEWS]])
        differs = (rows != sample) & (rows != OUTSIDE)  # letters that a view does not cover do not count
        # That of the longest row, without its padding.
        length = int(np.append(0, np.flatnonzero(rows.any(axis=0)) + 1).max())
        total = np.append(0, np.cumsum(differs[:, :length].sum(axis=0)))
        start = int(np.argmax(total[_LETTERS:] - total[:-_LETTERS])) if length > _LETTERS else 0  # most changes
        end = min(start + _LETTERS, length)
        cut |= end - start < length
        names = ["sample", *(f"view {j}, {each.sum() / max(length, 1):.0%}" for j, each in enumerate(differs) if j)]
        lines = [
            _strand(name, row[start:end].tolist(), marks[start:end].tolist())
            for name, row, marks in zip(names, rows, differs, strict=True)
        ]
        heading = f"Sample {i + 1}, letters {start + 1:,} to {end:,} of {length:,}"
        found.append(f'<figure class="alignment" tabindex="0"><p class="note">{heading}</p>{"".join(lines)}</figure>')
    note = (
        "Letters of a view that differ from the sample have a filled background; equal letters are pale. "
        "Beside a view: the percentage of all its letters that differ."
    )
    if (views == OUTSIDE).any():
        note += " Dots: letters that a view does not cover."
    note += f" Shown: the {_LETTERS} letters of each sample with the most changes." if cut else ""
    return note, Markup("\n".join(found))


def _strand(name: str, codes: list[int], differs: list[bool]) -> str:
    """A row of an alignment; "-" is after the end of a sequence."""
    cells = []
    for code, marked in zip(codes, differs, strict=True):
        letter = chr(code) if code else "-"
        kind = letter.upper() if letter.upper() in NUCLEOTIDES.letters else NUCLEOTIDES.unknown
        cells.append(f'<i class="{"d " if marked else ""}{kind}">{escape(letter)}</i>')
    return f'<div class="strand{"" if name == "sample" else " view"}"><b>{name}</b>{"".join(cells)}</div>'


GRAY = 128


def match_sample_shape(views: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Bring views to the shape of their samples: smaller images centered on gray, larger ones subsampled, recordings
    centered on NaN, windows of sequences where they are found, `OUTSIDE` around them."""
    if views.shape[2:] == samples.shape[1:]:
        return views
    if samples.ndim == 2:
        pairs = zip(views, samples, strict=True)
        return np.stack([np.stack([_align(view, sample) for view in of_sample]) for of_sample, sample in pairs])
    for axis, size in enumerate(samples.shape[1:3], start=2):
        if (given := views.shape[axis]) > size:
            views = views.take(np.arange(size) * given // size, axis=axis)
    missing = [large - small for large, small in zip(samples.shape[1:], views.shape[2:], strict=True)]
    padding = [(part // 2, part - part // 2) for part in missing]
    outside = np.nan if views.dtype.kind == "f" else GRAY
    return np.pad(views, [(0, 0), (0, 0), *padding], constant_values=outside)


def _align(view: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """A view, (L',), aligned to its sample, (L,); both are letters with zeros after their end."""
    window, sequence = view.tobytes().rstrip(b"\0"), sample.tobytes().rstrip(b"\0").upper()
    start = sequence.find(window)
    aligned = np.zeros_like(sample)
    if start < 0 or not window:
        length = min(len(view), len(sample))
        aligned[:length] = view[:length]
        return aligned
    aligned[: len(sequence)] = OUTSIDE
    aligned[start : start + len(window)] = np.frombuffer(window, sample.dtype)
    return aligned
