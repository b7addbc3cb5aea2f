"""Spectra, (n, 1, points): near-infrared, Raman, mass, X-ray; checks, and the modality.

A value has its meaning by its place, so nothing is moved or pooled along the axis as in recordings.
"""

import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from viewsmith.core.errors import InputError, pluralize, warn
from viewsmith.core.registry import register
from viewsmith.core.rows import AnyRows
from viewsmith.modalities.base import GENERATOR, SampleType, Transformation, modality_of
from viewsmith.modalities.checks import check_finite, check_numbers, to_rows, warn_lost_digits
from viewsmith.modalities.series.modality import SHORTEST, Series
from viewsmith.modalities.tables import speaks_table

if TYPE_CHECKING:
    from torch import Tensor, nn

    from viewsmith.modalities.spectra.networks import SpectralLatents

#: Mean steps over the deviation: at most 0.1 along spectra, 0.4 along sharp peaks, and 0.16 to 1.1 between samples.
SMOOTH, ROUGH = 0.2, 0.5
SOME = 1000  # spectra that are looked at


def spectrum_rows(x: np.ndarray, source_name: str = "the data") -> np.ndarray:
    """Spectra as an array.

    Parameters
    ----------
    x : ndarray, shape (n, points) or (n, 1, points)
        Finite numbers, at least 8 points.
    source_name : str
        Name of the data in messages.

    Returns
    -------
    ndarray of float32, shape (n, 1, points)

    Raises
    ------
    InputError
        Another shape, or values that are not finite numbers.
    """
    check_numbers(x, source_name)
    rows = x[:, None] if x.ndim == 2 else x
    if rows.ndim != 3 or len(rows) == 0 or rows.shape[1] != 1 or rows.shape[2] < SHORTEST:
        raise InputError(
            f"{source_name}: shape {x.shape}; spectra are numbers (n, points), with at least {SHORTEST} points: a "
            "row for each spectrum"
        )
    names = [f"point {number}" for number in range(rows.shape[2])]
    _check_finite(rows[:, 0], names, source_name)
    warn_lost_digits(rows[:, 0], names, source_name)
    return np.ascontiguousarray(rows, dtype=np.float32)


def _check_finite(x: np.ndarray, names: list[str], source_name: str) -> None:
    """Raise InputError for values (n, points) that are not finite: those of other spectra do not replace them."""
    check_finite(x, names, "median", source_name)
    if (missing := np.isnan(x)).any():
        raise InputError(
            f"{source_name}: {pluralize(int(missing.sum()), 'missing value')} (NaN), such as at "
            f"{names[int(missing.any(0).argmax())]}, expected one at each point: interpolate along the axis, as by "
            "X.interpolate(axis=1, limit_direction='both') of a DataFrame"
        )


def standard_normal(x: np.ndarray) -> np.ndarray:
    """Spectra (n, points) less their mean and over their deviation (standard normal variate: Barnes, Dhanoa and Lister
    1989)."""
    centered = x - x.mean(1, keepdims=True)
    deviation = centered.std(1, keepdims=True)
    return centered / np.where(deviation > 0, deviation, 1)


def equal_axes(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two axes have the same points in the same order."""
    return len(one) == len(other) and bool(np.allclose(one, other, rtol=1e-6, atol=1e-9))


def at_points(axis: np.ndarray, own: np.ndarray, values: np.ndarray, name: str) -> np.ndarray:
    """A spectrum between its points, at those of another axis, which it has to cover but for a step."""
    step = np.abs(np.diff(own)).max()
    if own.min() > axis.min() + step or own.max() < axis.max() - step:
        raise InputError(
            f"{name} runs from {own.min():g} to {own.max():g}, and those of the run from {axis.min():g} to "
            f"{axis.max():g}: give spectra of this range"
        )
    order = np.argsort(own, kind="stable")
    return np.interp(axis, own[order], values[order]).astype(np.float32)


def _as_pandas(X: Any) -> Any:
    """A table of another package as a DataFrame of pandas, by whose names it has an axis; other samples as they are."""
    if not speaks_table(X) or isinstance(X, getattr(sys.modules.get("pandas"), "DataFrame", ())):
        return X
    from viewsmith.modalities.frames import as_frame

    return as_frame(X)


def axis_of(X: Any) -> np.ndarray | None:
    """The points of an axis that the columns of a DataFrame are named by; None if they are not."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(X, pandas.DataFrame) or not X.columns.is_unique:
        return None
    from viewsmith.modalities.frames import named_points

    found = named_points(X)
    return found[1] if found is not None and len(found[0]) == X.shape[1] >= SHORTEST else None


def _rows_at(X: Any, own: np.ndarray, axis: np.ndarray | None) -> np.ndarray:
    """Values of a DataFrame, (n, points), at the points of the model; without any in their order, which may fall."""
    from viewsmith.modalities.frames import in_order

    x = np.asarray(to_rows(X)[0])
    if axis is None:
        return x if in_order(own) else x[:, np.argsort(own)]
    if equal_axes(own, axis):
        return x
    order = np.argsort(own)
    if len(own) == len(axis) and equal_axes(own[order], np.sort(axis)):
        return x[:, order][:, np.argsort(np.argsort(axis))]
    _check_finite(x, [str(name) for name in X.columns], "the DataFrame")
    return np.stack([at_points(axis, own, row, "a spectrum of the DataFrame") for row in x])


class Spectra(Series):
    """Spectra, numbers (n, 1, points), which are given as (n, points)."""

    name = "spectra"
    samples = SampleType({"channel": (1,), "point": None}, unit="that of the spectrum")
    help = "spectra, arrays (n, points), only with modality='spectra' (--modality spectra)"
    default_views = "scatter+axis-shift+spectral-noise"
    mild_views = (default_views, MappingProxyType({}))
    default_encoder = default_encoder_on_gpu = "derivatives"
    default_features = "derivatives"
    steps, steps_on_gpu = 500, 2000
    defaults = MappingProxyType(
        GENERATOR
        | {"directions": True, "nu": 100.0}
        | {"generator_learning_rate": 4e-3, "noise_schedule": "cosine", "strength": 0.5}
    )
    least_constant = 1.0  # such as the concentration of one substance
    crop_suffixes: ClassVar[tuple[str, ...]] = ()

    def check(self, x: np.ndarray, source_name: str = "the data") -> None:
        spectrum_rows(x[:1], source_name)

    def read(
        self, X: Any, *, row_shape: Sequence[int] | None = None, impute: Any = "none", estimator: Any = None
    ) -> AnyRows:
        X = _as_pandas(X)
        given = axis_of(X)
        known = None if row_shape is None else estimator.facts_.statistics.get("axis")
        x = (
            np.asarray(to_rows(X)[0])
            if given is None
            else _rows_at(X, given, None if known is None else np.array(known))
        )
        rows = self.from_file(x, None, impute, "the data")
        if row_shape is not None and rows.shape[1:] != tuple(row_shape):
            raise InputError(
                f"the spectra have {rows.shape[2]:,} points, but the model was fitted on {row_shape[1]:,}: give values "
                "at the points of its axis"
            )
        return rows

    def signal(self, X: Any) -> dict[str, Any]:
        """The axis of a DataFrame whose columns are named by its points, and its unit, if the names tell."""
        frame = _as_pandas(X)
        axis = axis_of(frame)
        if axis is None:
            return {}
        from viewsmith.modalities.frames import in_order, unit_of

        unit = unit_of(list(frame.columns))
        named = {"axis_name": unit} if unit else {}
        return {"axis": (axis if in_order(axis) else np.sort(axis)).tolist()} | named

    def from_file(self, x: AnyRows, names: list[str] | None, impute: Any, source_name: str) -> AnyRows:
        return spectrum_rows(np.asarray(x), source_name)

    def check_training_rows(self, x: AnyRows, names: list[str] | None, source_name: str) -> None:
        """Warn if spectra seem to be in columns."""
        rows = np.asarray(x[:SOME, 0], np.float64)
        down, along = (
            np.median(np.abs(np.diff(rows, axis=axis)).mean(axis) / np.maximum(rows.std(axis), 1e-12))
            for axis in (0, 1)
        )
        if len(rows) >= SHORTEST and down < SMOOTH and along > ROUGH:
            warn(
                f"{source_name} is taken as {pluralize(len(x), 'spectrum', 'spectra')} of {x.shape[2]:,} points, but "
                "values change less from row to row than from point to point: turn the table if a column is a spectrum"
            )

    def drawn_along(self, statistics: Mapping[str, Any]) -> tuple[Sequence[float] | None, str]:
        return statistics.get("axis"), statistics.get("axis_name", "point of the axis")

    def in_input_format(self, views: np.ndarray, given: tuple[int, ...]) -> np.ndarray:
        return views[:, :, 0] if len(given) == 2 else views

    def raw_features(self, rows: np.ndarray, layer: Any) -> dict[str, np.ndarray]:
        from scipy.signal import savgol_filter

        x = np.asarray(rows, np.float32).reshape(len(rows), -1)
        normal = standard_normal(x)
        width = min(11, (x.shape[1] - 1) // 2 * 2 + 1)
        return {
            "values": x,
            "standard normal variates": normal,
            "first derivatives of these": savgol_filter(normal, width, 2, deriv=1, axis=1).astype(np.float32),
        }

    def transformations(self, row_shape: Sequence[int]) -> Mapping[str, Transformation]:
        """None: no change of the axis or of the sign keeps a spectrum."""
        return {}

    def features_for(self, statistics: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        return self.default_features, {}

    def latents(
        self, row_shape: Sequence[int], statistics: Mapping[str, Any], encoder: "nn.Module"
    ) -> "SpectralLatents":
        from viewsmith.modalities.spectra.networks import SpectralLatents

        return SpectralLatents(row_shape[1])

    def denoiser(self, kind: str, latents: Any, row_shape: Sequence[int], condition: int) -> "nn.Module":
        return modality_of("vectors").denoiser(kind, latents, row_shape, condition)

    def neighbor_features(self, x: "Tensor") -> "Tensor | None":
        from viewsmith.modalities.spectra.features import normalized

        return normalized(x).flatten(1)


register("modality", Spectra.name, help=Spectra.help)(Spectra)
