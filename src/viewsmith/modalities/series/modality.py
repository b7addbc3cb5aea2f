"""Multi-channel recordings, (n, channels, time): checks, and the modality.

An array (n, a, b) may also hold gray images, so recordings are never recognized: users say ``modality="series"``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, warn
from viewsmith.core.registry import register
from viewsmith.core.rows import AnyRows, RowSource, row_blocks
from viewsmith.modalities.base import Modality, SampleType, Transformation
from viewsmith.modalities.checks import LONG, check_numbers, in_pieces, warn_lost_digits

if TYPE_CHECKING:
    from torch import Tensor

    from viewsmith.modalities.series.networks import ChannelScaler


SHORTEST = 8  # points in time


def check_recordings(x: np.ndarray, source_name: str = "the data") -> None:
    """Raise InputError for an array that is not recordings: numbers (n, channels, time)."""
    check_numbers(x, source_name)
    if x.ndim != 3 or len(x) == 0 or x.shape[1] == 0 or x.shape[2] < SHORTEST:
        advice = _of_two_axes(*x.shape) if x.ndim == 2 else "put time last: X.transpose(0, 2, 1)"
        raise InputError(
            f"{source_name}: shape {x.shape}; recordings are numbers (n, channels, time), with at least {SHORTEST} "
            f"points in time; {advice}"
        )


def _of_two_axes(n: int, points: int) -> str:
    """What makes recordings of an array of two axes."""
    if points < SHORTEST or n >= LONG > 64 > points:
        return f"one long recording: {in_pieces(points, n, time_first=True)}"
    single = "for one channel X[:, None]"
    return f"{single}; one long recording: {in_pieces(n, points)}" if n <= 64 and points >= LONG else single


# Mean absolute step between channels over that between points in time: 1.1 to 17 in recordings of hearts, brains,
# voices and birds, at most 0.6 where the axes of these are exchanged; 1 in noise.
EXCHANGED, UNDECIDED = 0.6, 1.25
SOME = 200  # recordings that are looked at


def step_ratio(x: AnyRows) -> float:
    """Mean absolute step between channels over that between points in time, of up to 200 recordings (n, C, T); NaN for
    one channel."""
    some = np.asarray(x[np.arange(0, len(x), -(-len(x) // SOME))], np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        between, along = (np.abs(np.diff(some, axis=axis)) for axis in (1, 2))
        means = [step[np.isfinite(step)].mean() if np.isfinite(step).any() else np.nan for step in (between, along)]
        return float(np.divide(means[0], means[1]))


def exchanged(x: AnyRows, source_name: str) -> tuple[bool, str]:
    """Whether time and channels of recordings (n, C, T) are clearly exchanged, and a message if they may be."""
    channels, points = x.shape[1:]
    ratio = step_ratio(x)
    many = channels > points
    if not (ratio < (UNDECIDED if many else EXCHANGED)):
        return False, ""
    why = "values change less along the axis of the channels than along time" if ratio < EXCHANGED else ""
    why = " and ".join(part for part in ("there are more channels than points" if many else "", why) if part)
    return many and ratio < EXCHANGED, (
        f"{source_name}: shape {x.shape} is taken as {channels:,} channels of {points:,} points in time, but {why}: "
        "put time last, X.transpose(0, 2, 1), if the axes are exchanged"
    )


def recording_rows(X: Any, source_name: str = "the data", points: int | None = None) -> np.ndarray:
    """Recordings as an array, NaN where values are not known.

    Parameters
    ----------
    X : array-like, shape (n, C, T)
        Numbers: C channels and T points in time, at least 8, NaN in gaps. A tensor, an array, or a list of arrays
        (C, T), or (T,), of any lengths.
    source_name : str
        Name of the data in messages.
    points : int or None
        T of the model, to which a list of shorter ones is filled by NaN.

    Returns
    -------
    ndarray of float32, shape (n, C, T)

    Raises
    ------
    InputError
        Another shape, values that are not numbers, infinite values, or recordings without a value.
    """
    rows = _joined(X, source_name, points)
    check_recordings(rows, source_name)
    names = [f"channel {number}" for number in range(rows.shape[1])]
    values = rows.transpose(0, 2, 1).reshape(-1, rows.shape[1])
    with np.errstate(over="ignore"):
        infinite = np.isinf(rows.astype(np.float32, copy=False)).sum(axis=(1, 2))
    if infinite.any():
        raise InputError(
            f"{source_name}: {pluralize(int(infinite.sum()), 'infinite value')} (beyond 3.4e38) in "
            f"{pluralize(int(np.count_nonzero(infinite)), 'recording')} of {len(rows):,} (counted from 0): "
            f"{name_list(np.flatnonzero(infinite).tolist())}; leave these out, or make the values NaN, which is masked"
        )
    if rows.dtype.kind == "f" and (empty := np.isnan(rows).all(axis=(1, 2))).any():
        first = int(empty.argmax())
        raise InputError(
            f"{source_name}: {pluralize(int(empty.sum()), 'recording')} of {len(rows):,} without a value (all NaN), "
            f"such as number {first} (counted from 0): leave them out"
        )
    warn_lost_digits(values, names, source_name)
    return np.ascontiguousarray(rows, dtype=np.float32)


def _joined(X: Any, source_name: str, points: int | None) -> np.ndarray:
    """Recordings as an array, also of a list of arrays (C, T) of unequal lengths."""
    X = list(X) if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1 else X
    try:
        return np.asarray(X.detach().cpu() if hasattr(X, "detach") else X)
    except ValueError as error:
        given = [np.asarray(each) for each in X]
        given = [each[None] for each in given] if all(each.ndim == 1 for each in given) else given  # one channel each
        shapes = [each.shape for each in given]
        if any(each.ndim != 2 or each.dtype.kind not in "biuf" for each in given) or len({s[0] for s in shapes}) > 1:
            time_first = all(len(shape) == 2 and shape[1] == shapes[0][1] for shape in shapes)
            raise InputError(
                f"{source_name}: samples of shapes {', '.join(map(str, dict.fromkeys(shapes[:3])))}, expected numbers "
                "(channels, time) with the same channels in all"
                + ("; put time last: [x.T for x in X]" if time_first else f" ({one_line(error, 100)})")
            ) from error
        longest = max(shape[1] for shape in shapes)
        return padded(given, max(longest, points or 0))


def padded(recordings: Sequence[np.ndarray], points: int | None = None) -> np.ndarray:
    """Recordings (C, T) of any lengths as float32 (n, C, points), NaN after their ends; by default the longest's."""
    points = max(each.shape[1] for each in recordings) if points is None else points
    x = np.full((len(recordings), len(recordings[0]), points), np.nan, np.float32)
    for row, each in zip(x, recordings, strict=True):
        row[:, : each.shape[1]] = each[:, :points]
    return x


def lengths(x: np.ndarray) -> np.ndarray:
    """Points of recordings (n, C, T) up to the last one that is known in any channel, int (n,)."""
    known = ~np.isnan(x).all(axis=1)
    return np.asarray(np.where(known.any(1), x.shape[2] - known[:, ::-1].argmax(1), 0))


def warn_gaps(x: np.ndarray, source_name: str = "the data") -> None:
    """Say how many recordings (n, C, T) have gaps before their end, which are masked."""
    unknown = np.isnan(x)
    if not unknown.any():
        return
    count = int((unknown & (np.arange(x.shape[2]) < lengths(x)[:, None, None])).any(axis=(1, 2)).sum())
    if count:
        warn(f"{source_name}: {pluralize(count, 'recording')} of {len(x):,} with gaps (NaN), which are masked")


def channel_statistics(x: np.ndarray) -> np.ndarray:
    """Mean, deviation, smallest and largest value, and mean absolute step of each channel, of the values that are known
    (0 if none is): (n, C, T) to (n, 5 C)."""
    mean, std, low, high = np.mean, np.std, np.min, np.max
    if gaps := bool(np.isnan(x).any()):
        mean, std, low, high = np.nanmean, np.nanstd, np.nanmin, np.nanmax
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # channels without a value
        steps = mean(np.abs(np.diff(x, axis=2)), axis=2)
        found = np.concatenate([mean(x, axis=2), std(x, axis=2), low(x, axis=2), high(x, axis=2), steps], axis=1)
    return np.nan_to_num(found) if gaps else found


def reversed_in_time(x: np.ndarray) -> np.ndarray:
    """Recordings (n, C, T) backward, each from its own end."""
    if not np.isnan(x).any():
        return x[..., ::-1]
    found = np.full_like(x, np.nan)
    for row, made, end in zip(x, found, lengths(x), strict=True):
        made[:, :end] = row[:, :end][:, ::-1]
    return found


class Series(Modality):
    """Multi-channel recordings, numbers (n, C, T)."""

    name = "series"
    samples = SampleType({"channel": None, "time": None}, unit="that of the recording")
    help = "recordings, arrays (n, channels, time), only with modality='series' (--modality series)"
    default_views = "window+jitter+scale+channel-mask"
    default_method = "linear-contrast"
    mild_views = (
        "window+jitter+scale",
        MappingProxyType(
            {"window_minimum": 0.7, "window_stretch": False, "jitter_strength": 0.05, "jitter_relative": True}
        ),
    )
    default_encoder = default_encoder_on_gpu = "cnn"
    default_features = "minirocket"
    defaults = MappingProxyType({"directions": True})
    picture = "traces"
    crop_suffixes: ClassVar[tuple[str, ...]] = (".npz",)

    def check(self, x: np.ndarray, source_name: str = "the data") -> None:
        check_recordings(x, source_name)

    def read(
        self, X: Any, *, row_shape: Sequence[int] | None = None, impute: Any = "none", estimator: Any = None
    ) -> AnyRows:
        rows = X if isinstance(X, RowSource) else recording_rows(X, points=None if row_shape is None else row_shape[1])
        if row_shape is None and isinstance(rows, np.ndarray):
            if said := exchanged(rows, "the data")[1]:
                warn(said)
            warn_gaps(rows)
        if not getattr(estimator, "reads_gaps", True) and any(np.isnan(block).any() for block in row_blocks(rows)):
            raise InputError(
                f"recordings with values that are not known (NaN), but {estimator.name} needs recordings of one length "
                "without gaps: cut windows (--length, --step), or take another method"
            )
        if row_shape is not None and rows.shape[1:] != tuple(row_shape):
            raise InputError(
                f"the recordings have shape {rows.shape[1:]}, but the model was fitted on {tuple(row_shape)}; a list "
                "of shorter ones is filled, longer ones have to be cut"
            )
        return rows

    def from_file(self, x: AnyRows, names: list[str] | None, impute: Any, source_name: str) -> AnyRows:
        return x if isinstance(x, RowSource) else recording_rows(x, source_name)

    def check_training_rows(self, x: AnyRows, names: list[str] | None, source_name: str) -> None:
        """Raise InputError if time and channels are clearly exchanged; in Python, where it may be meant, only warn."""
        surely, said = exchanged(x, source_name)
        if surely:
            raise InputError(f"{said}; a model of what they are now can be fitted in Python")

    def input_layer(self, row_shape: Sequence[int]) -> ChannelScaler:
        from viewsmith.modalities.series.networks import ChannelScaler

        return ChannelScaler(row_shape[0])

    def in_data_units(self, sigma: Tensor, layer: Any) -> Tensor:
        return sigma * (layer.each.scale * layer.each.varies)[:, None]

    def raw_features(self, rows: np.ndarray, layer: Any) -> dict[str, np.ndarray]:
        import torch

        from viewsmith.core.samples import shared_tensor

        with torch.no_grad():
            x = layer(shared_tensor(rows).to(layer.each.center.device)).cpu().numpy()
        values = np.nan_to_num(x).reshape(len(x), -1)  # zeros, the scaled mean, after the end
        return {"scaled values": values, "statistics of each channel": channel_statistics(x)}

    def transformations(self, row_shape: Sequence[int]) -> Mapping[str, Transformation]:
        return {"time-reversal": reversed_in_time, "sign-flip": lambda x: -x, "channel-exchange": lambda x: x[:, ::-1]}

    def features_for(self, statistics: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Log-mel for sound, at its rate."""
        if statistics.get("sound") and "sampling_rate" in statistics:
            return "log-mel", {"sampling_rate": float(statistics["sampling_rate"])}
        return super().features_for(statistics)

    def compared_features(self, samples: np.ndarray, transformed: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        return super().compared_features(np.nan_to_num(samples), np.nan_to_num(transformed))

    def neighbor_features(self, x: Tensor) -> Tensor | None:
        from viewsmith.modalities.series.networks import filled

        return filled(x).flatten(1)


register("modality", Series.name, help=Series.help)(Series)
