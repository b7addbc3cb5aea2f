"""Arrays as recordings: what tells that they are, their rate, and one `Recording` for each."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, one_line, pluralize, say
from viewsmith.data.hdf5 import Archive
from viewsmith.data.options import DataOptions
from viewsmith.data.recordings import Recording, SignalFile

#: Options of arrays that are read as recordings; the names of an array that has their rate.
OF_RECORDINGS = ("length", "step", "rate", "channels")
RATES = ("fs", "sr", "srate", "sample_rate", "samplingrate", "sampling_rate", "sampling_frequency", "sfreq")


def has_time(request: DataOptions) -> bool:
    """Whether an array is read as recordings, by options of time, or because those of the run were."""
    chosen = request.modality == "series" and request.channels is not None
    fitted = "points" in (request.schema or {}).get("signal", {})
    if request.step is not None and request.length is None and not fitted:
        raise InputError("step is the time between windows of recordings: give their length, too (--length 2s)")
    of_time, of_images = (
        next((name for name in names if getattr(request, name) is not None), None)
        for names in (("length", "rate"), ("axes", "tile", "overlap", "masks"))
    )
    if of_time and of_images:
        raise InputError(f"{of_time} is of recordings, and {of_images} of images: leave one of them out")
    return chosen or fitted or request.length is not None or request.rate is not None


def rates_of(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What a file has by the names of a rate, also single values of HDF5."""
    beside = arrays.beside(RATES) if isinstance(arrays, Archive) else {}
    return {name: arrays[name] for name in arrays if name.lower() in RATES} | beside


def rate_of(path: Path, arrays: Mapping[str, np.ndarray], request: DataOptions) -> float | None:
    """Points per second of the recordings of a file, if it has them; the given rate is in place of none."""
    for name, found in rates_of(arrays).items():
        values = np.unique(found)
        known = values.dtype.kind in "iuf" and bool((np.isfinite(values) & (values > 0)).all())
        if known and len(values) == 1:
            return float(values[0])
        if len(values) > 1:
            raise InputError(
                f"{path}: {name} has {len(values):,} values, expected one number of points per second: save the "
                "recordings of each rate in a file of their own"
            )
        if request.rate is None:
            has = one_line(values[0], 40) if len(values) else "empty"
            raise InputError(f"{path}: {name} is {has}, expected a number of points per second: give it (--rate 250)")
    return None


def recordings_of(x: Any, name: str, y: np.ndarray | None, rate: float | None, source_name: str) -> list[Recording]:
    """Recordings (channels, time): one array is one of them, with time along its longer axis, or, if there are labels
    for its rows, has one of one channel in each row."""
    numbers = x.dtype.kind in "biuf"
    if x.dtype.kind == "O" or (x.ndim == 3 and numbers):
        each = list(x)
    elif x.ndim == 2 and numbers and y is not None and len(y) == len(x):
        each = list(x[:, None])
    elif x.ndim in (1, 2) and numbers:
        each, y = [x[None] if x.ndim == 1 else x if x.shape[0] <= x.shape[1] else x.T], None
        channels, points = each[0].shape
        say(f"{source_name}: {name} is one recording of {pluralize(channels, 'channel')} and {points:,} points")
    else:
        raise InputError(
            f"{source_name}: {name} is {x.dtype} of shape {x.shape}, expected recordings (n, channels, time), or one "
            "(channels, time), of numbers"
        )
    if y is not None and len(y) != len(each):
        raise InputError(f"{source_name}: y has {len(y)} labels for {len(each)} recordings, expected one for each")
    names = [name] if len(each) == 1 else [f"{name}:{i}" for i in range(len(each))]
    labels = [None] * len(each) if y is None else y
    return [recording_of(*of, rate) for of in zip(each, names, labels, strict=True)]


def recording_of(x: np.ndarray, name: str, label: Any = None, rate: float | None = None) -> Recording:
    """A recording of an array (channels, time); windows of one that is mapped are read where they are needed."""
    if not isinstance(x, np.memmap):
        return Recording(np.asarray(x, np.float32), name, rate, label=label)
    return Recording(SignalFile(x.shape, lambda start, stop: x[:, start:stop]), name, rate, label=label)
