"""Samples beside their views: lines for vectors and recordings, a grid of images, aligned letters for DNA."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Literal

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.modalities.dna.letters import NUCLEOTIDES
from viewsmith.modalities.images.channels import WHITE, is_photograph, to_pixels
from viewsmith.reports.figure import INK, PALETTE, Figure, Picture, new_axes

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
) -> Figure:
    """Draw the first few samples, (n, ...), with their first few views, (n, k, ...)."""
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
    note, pictures = {"curve": _vectors, "pixels": _images, "traces": _recordings}[kind](samples, views)
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


def _recordings(samples: np.ndarray, views: np.ndarray) -> tuple[str, list[Picture]]:
    """Channels below each other; a view that covers a part of its sample is NaN elsewhere."""
    samples, views = np.asarray(samples, dtype=np.float64), np.asarray(views, dtype=np.float64)[:, :_MAX_VIEWS]
    shown = min(samples.shape[1], _CHANNELS)
    note = f"Dark lines: the sample. Colored lines: {views.shape[1]} of its views. One line for each channel."
    if shown < samples.shape[1]:
        note += f" Shown: the first {shown} of {samples.shape[1]} channels."
    center, spread = np.nanmean(samples, axis=(0, 2)), np.nanstd(samples, axis=(0, 2))
    scale = np.where(spread > 0, spread, 1)
    offset = -5.0 * np.arange(shown)[:, None] - (center / scale)[:shown, None]
    pictures = []
    for i in range(min(len(samples), _VECTOR_SAMPLES)):
        with new_axes(4.6, 0.9 + 0.5 * shown) as (figure, axes):
            for j, view in enumerate([*views[i], samples[i]]):
                color, width = (PALETTE[(j + 1) % len(PALETTE)], 0.7) if j < len(views[i]) else (INK, 1.1)
                axes.plot((view[:shown] / scale[:shown, None] + offset).T, color=color, linewidth=width, alpha=0.8)
            axes.margins(x=0.01)
            axes.set_yticks([])
            axes.set_xlabel("time")
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
        length = int(
            np.append(0, np.flatnonzero(rows.any(axis=0)) + 1).max()
        )  # of the longest row, without its padding
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
    return note + (f" Shown: the {_LETTERS} letters of each sample with the most changes." if cut else ""), Markup(
        "\n".join(found)
    )


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
