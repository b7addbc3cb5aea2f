"""Multi-channel recordings, (n, channels, time): checks, and the modality.

An array (n, a, b) may also hold gray images, so recordings are never recognized: users say ``modality="series"``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from viewsmith.core.errors import InputError, one_line, warn
from viewsmith.core.registry import register
from viewsmith.core.rows import AnyRows
from viewsmith.modalities.base import Modality, SampleType, Transformation
from viewsmith.modalities.checks import LONG, check_finite, check_numbers, in_pieces, warn_lost_digits

if TYPE_CHECKING:
    from torch import Tensor

    from viewsmith.modalities.series.scaling import ChannelScaler


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


def step_ratio(x: np.ndarray) -> float:
    """Mean absolute step between channels over that between points in time, of up to 200 recordings (n, C, T); NaN for
    one channel."""
    some = np.asarray(x[:: -(-len(x) // SOME)], np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        between, along = (np.abs(np.diff(some, axis=axis)) for axis in (1, 2))
        means = [step[np.isfinite(step)].mean() if np.isfinite(step).any() else np.nan for step in (between, along)]
        return float(np.divide(means[0], means[1]))


def exchanged(x: np.ndarray, source_name: str) -> tuple[bool, str]:
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


def warn_exchanged(x: np.ndarray, source_name: str = "the data") -> None:
    """Warn of recordings (n, C, T) whose time and channels may be exchanged."""
    if said := exchanged(x, source_name)[1]:
        warn(said)


def recording_rows(X: Any, impute: Any = "none", source_name: str = "the data") -> np.ndarray:
    """Recordings as an array.

    Parameters
    ----------
    X : array-like, shape (n, C, T)
        Numbers: C channels and T points in time, at least 8. A tensor, an array, or a list of arrays (C, T).
    impute : {"none", "median"}
        "median" allows missing values.
    source_name : str
        Name of the data in messages.

    Returns
    -------
    ndarray of float32, shape (n, C, T)

    Raises
    ------
    InputError
        Another shape, values that are not numbers, infinite values, or missing values that are not imputed.
    """
    try:
        rows = np.asarray(X.detach().cpu() if hasattr(X, "detach") else X)
    except ValueError as error:
        raise InputError(
            f"{source_name}: recordings with different shapes, expected equal shapes; cut them to one length "
            f"({one_line(error, 100)})"
        ) from error
    check_recordings(rows, source_name)
    names = [f"channel {number}" for number in range(rows.shape[1])]
    points = rows.transpose(0, 2, 1).reshape(-1, rows.shape[1])
    check_finite(points, names, impute, source_name)
    warn_lost_digits(points, names, source_name)
    return np.ascontiguousarray(rows, dtype=np.float32)


def channel_statistics(x: np.ndarray) -> np.ndarray:
    """Mean, deviation, smallest and largest value, and mean absolute step of each channel: (n, C, T) to (n, 5 C)."""
    steps = np.abs(np.diff(x, axis=2)).mean(axis=2)
    return np.concatenate([x.mean(axis=2), x.std(axis=2), x.min(axis=2), x.max(axis=2), steps], axis=1)


class Series(Modality):
    """Multi-channel recordings, numbers (n, C, T)."""

    name = "series"
    samples = SampleType({"channel": None, "time": None}, unit="that of the recording")
    help = "recordings, arrays (n, channels, time), only with modality='series' (--modality series)"
    default_views = "window+jitter+scale+channel-mask"
    default_method = "linear-contrast"
    mild_views = ("window+jitter+scale", MappingProxyType({"window_minimum": 0.7, "jitter_strength": 0.05}))
    default_encoder = default_encoder_on_gpu = "cnn"
    default_features = "minirocket"
    defaults = MappingProxyType({"directions": True})
    picture = "traces"
    crop_suffixes = (".npz",)

    def check(self, x: np.ndarray, source_name: str = "the data") -> None:
        check_recordings(x, source_name)

    def read(
        self, X: Any, *, row_shape: Sequence[int] | None = None, impute: Any = "none", estimator: Any = None
    ) -> np.ndarray:
        rows = recording_rows(X, impute)
        if row_shape is None:
            warn_exchanged(rows)
        elif rows.shape[1:] != tuple(row_shape):
            raise InputError(
                f"the recordings have shape {rows.shape[1:]}, but the model was fitted on {tuple(row_shape)}"
            )
        return rows

    def from_file(self, x: AnyRows, names: list[str] | None, impute: Any, source_name: str) -> AnyRows:
        return recording_rows(x, impute, source_name)

    def check_training_rows(self, x: AnyRows, names: list[str] | None, source_name: str) -> None:
        """Raise InputError if time and channels are clearly exchanged; in Python, where it may be meant, only warn."""
        surely, said = exchanged(np.asarray(x), source_name)
        if surely:
            raise InputError(f"{said}; a model of what they are now can be fitted in Python")

    def input_layer(self, row_shape: Sequence[int]) -> ChannelScaler:
        from viewsmith.modalities.series.scaling import ChannelScaler

        return ChannelScaler(row_shape[0])

    def in_data_units(self, sigma: Tensor, layer: Any) -> Tensor:
        return sigma * (layer.each.scale * layer.each.varies)[:, None]

    def raw_features(self, rows: np.ndarray, layer: Any) -> dict[str, np.ndarray]:
        import torch

        from viewsmith.core.samples import shared_tensor

        with torch.no_grad():
            x = layer(shared_tensor(rows).to(layer.each.center.device)).cpu().numpy()
        return {"scaled values": x.reshape(len(x), -1), "statistics of each channel": channel_statistics(x)}

    def transformations(self, row_shape: Sequence[int]) -> Mapping[str, Transformation]:
        return {
            "time-reversal": lambda x: x[..., ::-1],
            "sign-flip": lambda x: -x,
            "channel-exchange": lambda x: x[:, ::-1],
        }

    def features_for(self, statistics: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Log-mel for sound, at its rate."""
        if statistics.get("sound") and "sampling_rate" in statistics:
            return "log-mel", {"sampling_rate": float(statistics["sampling_rate"])}
        return super().features_for(statistics)

    def neighbor_features(self, x: Tensor) -> Tensor | None:
        return x.flatten(1)


register("modality", Series.name, help=Series.help)(Series)
