"""Samples beside their views: lines for vectors and recordings, a grid of images, aligned letters for DNA."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from viewsmith.reports.content import Gallery
from viewsmith.reports.drawing import INK, PALETTE, Picture, as_svg, new_axes, pixels_as_png, style

_VECTOR_SAMPLES, _IMAGE_SAMPLES, _DNA_SAMPLES = 4, 8, 6

_MAX_VIEWS = 6

_MAX_FEATURES = 200

_CHANNELS = 6

_TILE = 96

_LETTERS = 90

OUTSIDE = ord(".")  # marks a position of a sample that its view does not cover


@dataclass(frozen=True)
class AlignedRow:
    """A row of an alignment: `letters` are (letter, differs from the sample) pairs."""

    name: str
    letters: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Alignment:
    """The row of a sample and the rows of its views, from letter `start` (counted from 1) of `length` letters."""

    start: int
    length: int
    rows: tuple[AlignedRow, ...]


@dataclass(frozen=True)
class DrawnGallery:
    """A gallery ready for the page."""

    title: str
    caption: str
    note: str
    pictures: tuple[Picture, ...] = ()
    alignments: tuple[Alignment, ...] = ()
    table: Sequence[Sequence[str]] = ()


def draw_gallery(gallery: Gallery) -> DrawnGallery:
    """Draw the first few samples of a gallery with their first few views."""
    if not len(gallery.samples):
        return DrawnGallery(gallery.title, gallery.caption, "No samples.")
    drawn = {"curve": _vectors, "pixels": _images, "letters": _dna, "traces": _recordings}[gallery.kind](gallery)
    return replace(drawn, table=gallery.table)


def _vectors(gallery: Gallery) -> DrawnGallery:
    samples = np.asarray(gallery.samples, dtype=np.float64)
    views = np.asarray(gallery.views, dtype=np.float64)[:, :_MAX_VIEWS]
    note = f"Dark line: the sample. Colored lines: {views.shape[1]} of its views."
    spread = np.nanstd(np.concatenate([samples[:, None], views], axis=1), axis=(0, 1))
    selected = np.arange(samples.shape[1])
    if len(selected) > _MAX_FEATURES:
        selected = np.sort(np.argsort(-spread, kind="stable")[: _MAX_FEATURES // 2])
        note += f" Shown: the {len(selected)} of {samples.shape[1]} features with the largest variance, in their order."
    label, axis = (
        "value",
        "feature" if len(selected) == samples.shape[1] else f"{len(selected)} features, in their order",
    )
    # A single feature with large values would flatten all others.
    if np.median(spread[selected]) < 0.05 * spread[selected].max():
        center, scale = np.nanmean(samples, axis=0), np.where(spread > 0, spread, 1)
        samples, views, label = (samples - center) / scale, (views - center) / scale, "standardized value"
    pictures = []
    with style():
        for i in range(min(len(samples), _VECTOR_SAMPLES)):
            figure, axes = new_axes(4.6, 1.9)
            for j, view in enumerate(views[i]):
                axes.plot(view[selected], color=PALETTE[(j + 1) % len(PALETTE)], linewidth=0.9, alpha=0.8)
            axes.plot(samples[i][selected], color=INK, linewidth=1.4)
            axes.margins(x=0.01)
            axes.set_xlabel(axis)
            axes.set_ylabel(label)
            change = np.nanmean(np.abs(views[i] - samples[i])) if views.size else 0.0
            alt = (
                f"Sample {i + 1} and {views.shape[1]} views, {len(selected)} features; "
                f"mean absolute change {change:.3g}."
            )
            pictures.append(as_svg(figure, alt))
    return DrawnGallery(gallery.title, gallery.caption, note, pictures=tuple(pictures))


def _recordings(gallery: Gallery) -> DrawnGallery:
    """Channels below each other; a view that covers a part of its sample is NaN elsewhere."""
    samples = np.asarray(gallery.samples, dtype=np.float64)
    views = np.asarray(gallery.views, dtype=np.float64)[:, :_MAX_VIEWS]
    shown = min(samples.shape[1], _CHANNELS)
    note = f"Dark lines: the sample. Colored lines: {views.shape[1]} of its views. One line for each channel."
    if shown < samples.shape[1]:
        note += f" Shown: the first {shown} of {samples.shape[1]} channels."
    center, spread = np.nanmean(samples, axis=(0, 2)), np.nanstd(samples, axis=(0, 2))
    offset = -5.0 * np.arange(shown)[:, None] - (center / np.where(spread > 0, spread, 1))[:shown, None]
    scale = np.where(spread > 0, spread, 1)[:shown, None]
    pictures = []
    with style():
        for i in range(min(len(samples), _VECTOR_SAMPLES)):
            figure, axes = new_axes(4.6, 0.9 + 0.5 * shown)
            for j, view in enumerate(views[i]):
                color = PALETTE[(j + 1) % len(PALETTE)]
                axes.plot((view[:shown] / scale + offset).T, color=color, linewidth=0.7, alpha=0.8)
            axes.plot((samples[i, :shown] / scale + offset).T, color=INK, linewidth=1.1)
            axes.margins(x=0.01)
            axes.set_yticks([])
            axes.set_xlabel("time")
            pictures.append(as_svg(figure, f"Sample {i + 1} and {views.shape[1]} views, {shown} channels."))
    return DrawnGallery(gallery.title, gallery.caption, note, pictures=tuple(pictures))


def _images(gallery: Gallery) -> DrawnGallery:
    tiles = image_tiles(gallery.samples[:_IMAGE_SAMPLES], gallery.views[:_IMAGE_SAMPLES, :_MAX_VIEWS])
    n, k, height, width, _ = tiles.shape
    gap, first = max(1, height // 16), max(2, height // 6)  # a wider gap separates the samples from their views
    page = np.full((n * (height + gap) - gap, k * (width + gap) - gap + first, 3), 255, dtype=np.uint8)
    for i in range(n):
        for j in range(k):
            top, left = i * (height + gap), j * (width + gap) + (first if j else 0)
            page[top : top + height, left : left + width] = tiles[i, j]
    alt = f"{n} images, one per row: the sample on the left, then {k - 1} of its views."
    return DrawnGallery(
        gallery.title, gallery.caption, "Left: the sample. Right: its views.", (pixels_as_png(page, alt),)
    )


def image_tiles(samples: np.ndarray, views: np.ndarray) -> np.ndarray:
    """Images (n, ...) and k views of each as tiles of at most 96 x 96 pixels: uint8 (n, 1 + k, h, w, 3)."""
    rows = np.concatenate([np.asarray(samples)[:, None], np.asarray(views)], axis=1)
    rows = rows[..., None] if rows.ndim == 4 else rows
    return _as_bytes(_reduced(rows), rows.dtype, np.asarray(samples))


def _reduced(rows: np.ndarray) -> np.ndarray:
    """Tiles of at most 96 x 96 pixels, by means over blocks."""
    n, k, height, width, channels = rows.shape
    b = -(-max(height, width) // _TILE)
    rows = rows[:, :, : height - height % b, : width - width % b].astype(np.float64)
    return rows.reshape(n, k, height // b, b, width // b, b, channels).mean(axis=(3, 5))


def _as_bytes(tiles: np.ndarray, dtype: np.dtype, samples: np.ndarray) -> np.ndarray:
    if dtype != np.uint8:
        # Scaled by the samples alone: an outlier pixel of a generated view must not make all pictures pale.
        low, high = np.nanmin(samples), np.nanmax(samples)
        low, high = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
        tiles = np.nan_to_num((tiles - low) / ((high - low) or 1.0)) * 255
    return np.broadcast_to(tiles.clip(0, 255).round().astype(np.uint8), (*tiles.shape[:-1], 3))


def _dna(gallery: Gallery) -> DrawnGallery:
    alignments = []
    samples, views = _upper(gallery.samples), _upper(gallery.views)
    for i in range(min(len(samples), _DNA_SAMPLES)):
        sample, sample_views = samples[i], views[i, :_MAX_VIEWS]
        changed = _differ(sample_views, sample)
        length = _length(np.concatenate([sample[None], sample_views]))
        start = _most_changed_window(changed[:, :length].sum(axis=0), _LETTERS)
        window = slice(start, min(start + _LETTERS, length))
        rows = [_aligned_row("sample", sample[window], sample[window])]
        for j, view in enumerate(sample_views):
            fraction = changed[j].sum() / max(length, 1)
            rows.append(_aligned_row(f"view {j + 1}, {fraction:.0%}", view[window], sample[window]))
        alignments.append(Alignment(start + 1, length, tuple(rows)))
    note = (
        "Letters of a view that differ from the sample have a filled background; equal letters are pale. "
        "Beside a view: the percentage of all its letters that differ."
    )
    if (views == _outside(views)).any():
        note += " Dots: letters that a view does not cover."
    if any(alignment.length > _LETTERS for alignment in alignments):
        note += f" Shown: the {_LETTERS} letters of each sample with the most changes."
    return DrawnGallery(gallery.title, gallery.caption, note, alignments=tuple(alignments))


def _upper(letters: np.ndarray) -> np.ndarray:
    """uint8 letters in upper case (samples may be in lower case, views are not); text is returned unchanged."""
    letters = np.asarray(letters)
    if letters.dtype != np.uint8:
        return letters
    return np.where((letters >= ord("a")) & (letters <= ord("z")), letters - 32, letters)


def _length(rows: np.ndarray) -> int:
    """Length of the longest row, without the zeros of its padding."""
    real = np.flatnonzero((rows != 0).any(axis=0)) if rows.dtype == np.uint8 else np.arange(rows.shape[1])
    return int(real[-1]) + 1 if len(real) else 0


def _most_changed_window(changed: np.ndarray, width: int) -> int:
    """Start of the window of `width` letters with the most changes."""
    total = np.concatenate([[0], np.cumsum(changed)])
    inside = total[width:] - total[:-width]
    return int(np.argmax(inside)) if len(inside) else 0


def _differ(views: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """Which letters of views differ from the letters of the sample; letters that a view does not cover do not count."""
    return (views != sample) & (views != _outside(views))


def _outside(letters: np.ndarray) -> int | str:
    return OUTSIDE if letters.dtype == np.uint8 else chr(OUTSIDE)


def _aligned_row(name: str, letters: np.ndarray, sample: np.ndarray) -> AlignedRow:
    pairs = zip(letters.tolist(), _differ(letters, sample).tolist(), strict=True)
    return AlignedRow(name, tuple((_letter(letter), differs) for letter, differs in pairs))


def _letter(letter: int | str) -> str:
    return str(letter) if not isinstance(letter, int) else chr(letter) if letter else "-"  # "-": after the end


GRAY = 128


def match_sample_shape(views: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Pad, subsample or align views of images or sequences to the shape of their samples.

    Smaller images are centered on gray; larger images are subsampled evenly. Shorter recordings are centered on NaN. A
    window of a sequence is aligned to the position where the sequence contains it, with `OUTSIDE` at all other
    positions. A view that the sequence does not contain is aligned to the start.
    """
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
    aligned[start : start + len(window)] = np.frombuffer(window, np.uint8)
    return aligned
