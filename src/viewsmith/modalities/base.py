"""The modality: the interface of everything that depends on the kind of samples.

A modality reads and checks the samples that users give, scales them, returns their raw features (the features that are
available without a model), and has default settings. To add one, write a file with a subclass of `Modality`, register
an instance of it, and register encoders, view makers and, for the methods that need them, a noise generator and a set
of transformations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from viewsmith.core.errors import InputError, join_names
from viewsmith.core.registry import Entry, built, entries, get, names
from viewsmith.core.rows import AnyRows, RowSource
from viewsmith.modalities.checks import check_array, check_finite, check_numbers, to_rows

if TYPE_CHECKING:
    from torch import Tensor, nn

    from viewsmith.core.samples import Rows

Picture = Literal["curve", "pixels", "letters", "traces"]
Transformation = Callable[[np.ndarray], np.ndarray]

BATCH_SIZE = 256  # samples in a training step, unless they are large

#: Defaults of DiffAug's generator that the modalities share.
GENERATOR: dict[str, Any] = {"generator_epochs": 0.5, "predicts": "v", "sampler": "dpm", "sampler_steps": 10}


@dataclass(frozen=True)
class SampleType:
    """What the samples of a modality are, before they are scaled."""

    axes: Mapping[str, tuple[int, ...] | range | None]  # sizes that each may have; None: any
    dtype: str = "float32"  # as numpy and torch call it
    low: float | None = None  # of elements of type `dtype`
    high: float | None = None
    alphabet: str = ""  # letters, beside an unknown one
    unit: str = "any"  # what the elements are
    further: tuple[str, ...] = ()  # types that elements may have, too

    def __str__(self) -> str:
        def sized(name: str, sizes: tuple[int, ...] | range | None) -> str:
            if isinstance(sizes, range):
                return f"{name} {sizes[0]} to {sizes[-1]}"
            return name if sizes is None else f"{name} {' or '.join(map(str, sizes))}"

        shape = ", ".join(["n", *(sized(name, sizes) for name, sizes in self.axes.items())])
        reach = "" if self.low is None or self.high is None else f", {self.low:g} to {self.high:g}"
        letters = f", letters {' '.join(self.alphabet)}" if self.alphabet else ""
        others = f", or {' or '.join(self.further)}" if self.further else ""
        return f"{self.dtype} ({shape}){reach}{others}{letters}"

    def is_type(self, dtype: Any) -> bool:
        """Whether elements of a dtype of numpy or torch are of this type."""
        return str(dtype).removeprefix("torch.") in (self.dtype, *self.further)

    def has_shape(self, shape: Sequence[int]) -> bool:
        """Whether a sample of this shape has the axes."""
        allowed = list(self.axes.values())
        return len(shape) == len(allowed) and all(
            sizes is None or size in sizes for size, sizes in zip(shape, allowed, strict=True)
        )

    def to_unit(self, x: Tensor) -> Tensor:
        """Numbers of 0 to 1 from elements of 0 to `high`."""
        return x / (self.high or 1)

    def from_unit(self, x: Tensor) -> Tensor:
        """Elements from numbers of 0 to 1; others are clipped."""
        return self.rounded(x * (self.high or 1))

    def rounded(self, x: Tensor) -> Tensor:
        """Numbers in the range and the type of the elements, the nearest ones."""
        import torch

        return x.round().clamp(self.low, self.high).to(getattr(torch, self.dtype))


class Modality:
    """A kind of samples."""

    name: ClassVar[str]
    help: ClassVar[str]  #: one line for listings
    samples: ClassVar[SampleType] = SampleType({"feature": None})  #: axes, type and range of the elements, alphabet
    default_views: ClassVar[str]  #: joined by "+"
    default_encoder: ClassVar[str]
    default_encoder_on_gpu: ClassVar[str]
    default_method: ClassVar[str] = "contrastive"  #: that commands choose if none is given
    #: Length of the longest samples for which that is `default_method`; of longer ones it is linear-contrast.
    longest_trained: ClassVar[int | None] = None
    #: and their options, for fixed features, which understand less than a network; None: `default_views`
    mild_views: ClassVar[tuple[str, Mapping[str, Any]] | None] = None
    #: Least squared length of the constant column of the closed form over that of the others: more where samples vary
    #: along few directions, of which cosines without it know the sign alone.
    least_constant: ClassVar[float] = 0.0
    default_features: ClassVar[str] = ""  #: of registered kind "features"; empty: there are none
    steps: int = 1500  #: of a training if no number of epochs is given
    steps_on_gpu: int = 10_000
    #: CPU seconds of a training step of DiffAug's encoder, and of its default generator, per sample of the batch and
    #: per pixel or letter; 0 if negligible. Measured on one core of an AMD EPYC.
    step_seconds: ClassVar[tuple[float, float]] = (0.0, 0.0)
    #: of options of frameworks (``kernel``, ``temperature``, ``simclr_dims``) and of DiffAug's generator
    defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    picture: ClassVar[Picture] = "curve"  #: how reports draw a sample, as `drawn` returns it
    is_image: ClassVar[bool] = False  #: samples, scaled (C, H, W), have feature maps, a foreground and a background
    gallery: ClassVar[int] = 4  #: number of samples in a gallery of a report
    on_top: ClassVar[bool] = True  #: generated views are also augmented by the fixed view makers
    named_features: ClassVar[bool] = False  #: samples are rows of features with names, from files and DataFrames
    crop_suffixes: ClassVar[tuple[str, ...]] = ()  #: endings of files for crops; "": a folder of images
    location_suffixes: ClassVar[tuple[str, ...]] = (".csv",)
    denoisers: ClassVar[tuple[str, ...]] = ("fast", "published")  #: kinds of networks that `denoiser` can build

    @property
    def preset_suffix(self) -> str:
        """Suffix of the names of presets for this modality; empty for vectors."""
        return f"-{self.name}"

    def default_steps(self, row_shape: Sequence[int], *, on_cpu: bool) -> int:
        """Steps of a training on samples of a shape if no number of epochs is given."""
        return self.steps if on_cpu else self.steps_on_gpu

    def recognizes(self, X: Any) -> bool:
        """Whether samples are of this modality, by type, dtype and shape; never, if users have to name it."""
        return False

    def dtype_on_disk(self, shape: Sequence[int], dtype: Any) -> Any:
        """The dtype of rows of this shape and dtype that can stay on disk; None if they are read into memory."""
        return None

    def near_miss(self, x: np.ndarray, source_name: str) -> None:
        """Warn, or raise InputError, if an array that no modality recognizes was probably meant for this modality."""

    def check(self, x: np.ndarray, source_name: str = "the data") -> None:
        """Raise InputError unless an array can be read as samples of this modality, by default by its axes."""
        check_numbers(x, source_name)
        if len(x) == 0 or not self.samples.has_shape(x.shape[1:]):
            raise InputError(f"{source_name}: {x.dtype} of shape {x.shape}; {self.name} are {self.samples}")

    def read(
        self, X: Any, *, row_shape: Sequence[int] | None = None, impute: Any = "none", estimator: Any = None
    ) -> AnyRows:
        """Convert samples given in Python to rows (n, ...), and check them; InputError if they are of another modality.

        `row_shape` is the shape of the samples that the model was fitted on, None for samples to be fitted; `impute`
        "median" allows missing values. The estimator gets names and number of features, as in scikit-learn.
        """
        rows = to_rows(X)[0]
        self.check(rows)
        if row_shape is not None and not self.same_shape(rows.shape[1:], row_shape):
            raise InputError(f"samples have shape {rows.shape[1:]}, but the model was fitted on {tuple(row_shape)}")
        return self.from_file(rows, None, impute, "the data")

    def check_impute(self, impute: Any, source_name: str) -> None:
        """Raise InputError if missing values of columns are to be filled, and samples are no rows of columns."""
        if impute != "none" and not self.named_features:
            raise InputError(
                f"{source_name}: impute is {impute!r}, which fills missing values of columns, and the data are "
                f"{self.name}: leave impute out"
            )

    def signal(self, X: Any) -> dict[str, Any]:
        """What samples to fit on that are given in Python say of themselves beside their values, such as an axis."""
        return {}

    def from_file(self, x: AnyRows, names: list[str] | None, impute: Any, source_name: str) -> AnyRows:
        """Convert rows from a file, whose axes were checked, to the form of the model, and check their values."""
        check_finite(np.asarray(x).reshape(len(x), -1), names, impute, source_name)
        return np.ascontiguousarray(x, dtype=self.samples.dtype)

    def check_training_rows(self, x: AnyRows, names: list[str] | None, source_name: str) -> None:
        """Check rows to fit on, in addition to the checks of all rows."""

    def required_shape(self, row_shape: Sequence[int]) -> list[int | None]:
        """The shape that rows for a fitted model must have; None for a dimension of any length."""
        return list(row_shape)

    def same_shape(self, one: Sequence[int], other: Sequence[int]) -> bool:
        """Whether samples of two shapes can be given to one model."""
        return tuple(one) == tuple(other)

    def input_layer(self, row_shape: Sequence[int]) -> nn.Module:
        """The module, not yet fitted, that scales rows and inverts the scaling of views."""
        raise NotImplementedError

    def layer_for(self, row_shape: Sequence[int], statistics: Mapping[str, Any]) -> nn.Module:
        """`input_layer` for rows of one of several types: ``dtype`` in the statistics of a fitted layer, if it is not
        the first one. For rows to fit on there is that, and what their file says of them."""
        return self.input_layer(row_shape)

    def fit_input(self, layer: Any, raw: Any, scaling: str) -> tuple[str, dict[str, Any]]:
        """Fit the input layer to the training rows; return the scaling that is used, and statistics for views.

        A layer without the method ``fit(rows, scaling)``, which returns the name of the scaling, has nothing to fit.
        """
        return (str(layer.fit(raw, scaling)) if hasattr(layer, "fit") else "none"), {}

    def fit_table(self, layer: Any, raw: Tensor | RowSource, scaling: str, table: Any) -> tuple[str, dict[str, Any]]:
        """`fit_input` for rows of a table, given their encoder (`viewsmith.modalities.tables.encoder.TableEncoder`)."""
        return self.fit_input(layer, raw, scaling)

    def scaled(self, raw: Tensor | RowSource, layer: Any) -> Rows:
        """Scaled rows: scaled now, or on access (`Samples`) if that saves memory, as it does for rows on disk."""
        from viewsmith.core.samples import Samples

        return Samples(raw, layer)

    def channels(self, row_shape: Sequence[int]) -> int:
        """Size of the first dimension of a scaled sample."""
        return row_shape[0]

    def blank(self, row_shape: Sequence[int]) -> Tensor:
        """A scaled sample of zeros, (1, ...)."""
        import torch

        return torch.zeros(1, *row_shape)

    def onnx_example(self, row_shape: Sequence[int], layer: nn.Module) -> tuple[Tensor, nn.Module | None]:
        """Two samples to trace an encoder with, and the input layer to trace before it (None for scaled samples)."""
        import torch

        return torch.zeros(2, *row_shape), layer

    def in_input_format(self, views: np.ndarray, given: tuple[int, ...]) -> np.ndarray:
        """Views (n, K, ...) in the layout of the user's array of samples, whose shape is `given`."""
        return views

    def drawn(self, samples: np.ndarray) -> np.ndarray:
        """Samples (n, ...) in the form that `picture` stands for, such as clouds of points as images."""
        return samples

    def with_scale(self, drawn: np.ndarray, statistics: Mapping[str, Any]) -> tuple[np.ndarray, str]:
        """Pictures that `drawn` made, with a bar of a known length, and a sentence that says it; empty: unknown."""
        return drawn, ""

    def drawn_along(self, statistics: Mapping[str, Any]) -> tuple[Sequence[float] | None, str]:
        """Points of the horizontal axis of samples that are drawn as traces, if they are known, and its name."""
        return None, "time"

    def channels_of(self, samples: np.ndarray, statistics: Mapping[str, Any]) -> tuple[list[str], np.ndarray] | None:
        """Names of the channels of samples, and pictures (n, channels, H, W, 3) of them, where a report shows these
        beside the samples; else None."""
        return None

    def in_data_units(self, sigma: Tensor, layer: Any) -> Tensor:
        """Standard deviations of scaled values, (n, ...), in the units of the data."""
        return sigma

    def raw_features(self, rows: np.ndarray, layer: Any) -> dict[str, np.ndarray]:
        """Features that are available without a model, float32 (n, d), by name."""
        raise NotImplementedError

    def transformations(self, row_shape: Sequence[int]) -> Mapping[str, Transformation]:
        """Transformations that may be symmetries of data of this shape, by name: functions of samples (n, ...)."""
        return {}

    def transformations_of(self, x: AnyRows) -> Mapping[str, Transformation]:
        """`transformations` that these samples may have."""
        return self.transformations(x.shape[1:])

    def views_for(self, x: AnyRows) -> tuple[str, dict[str, Any]] | None:
        """View makers and their options for these rows, if `default_views` do not fit them; else None."""
        return None

    def compared_features(self, samples: np.ndarray, transformed: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Pairs of features (n, d) by which a transformation is told apart; distances are computed from the first."""
        a, b = (np.array(x, np.float64).reshape(len(x), -1) for x in (samples, transformed))
        center, scale = a.mean(0), a.std(0)
        scale = np.where(scale > 0, scale, 1)
        for each in (a, b):
            each -= center
            each /= scale
        return [(a, b)]

    def features_for(self, statistics: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Name of the default features, and their options for data with these statistics of the input layer, with
        ``sampling_rate`` and ``sound`` where a file says so."""
        return self.default_features, {}

    def neighbor_features(self, x: Tensor) -> Tensor | None:
        """Features (n, d) of scaled samples (n, ...), whose principal coordinates are used to search neighbors.

        None if neighbors are searched in the input of the encoder (in its principal coordinates, if it uses them).
        """
        return None

    @property
    def generates(self) -> bool:
        """Whether the modality has a diffusion model (`latents`)."""
        return type(self).latents is not Modality.latents

    def latents(self, row_shape: Sequence[int], statistics: Mapping[str, Any], encoder: nn.Module) -> Any:
        """The `Latents` that a diffusion model is trained on instead of samples."""
        raise NotImplementedError

    def denoiser(self, kind: str, latents: Any, row_shape: Sequence[int], condition: int) -> nn.Module:
        """A network that denoises latents, given a condition of width `condition`; `kind` is one of `denoisers`."""
        raise NotImplementedError

    def batch_size(self, row_shape: Sequence[int]) -> int:
        """Samples in a training step: `BATCH_SIZE`, or fewer if they are large."""
        return BATCH_SIZE

    def check_size(self, message: str, shape: Sequence[int], smallest: int, advice: str) -> None:
        """Raise InputError if a side of a sample is smaller than a network accepts, where samples have sides.

        `message` has ``{have}`` and ``{least}`` for the sizes, and ends in the advice.
        """


def works_in(method: Entry, modality: str) -> bool:
    """Whether a modality has the part that a method needs, and a generator of views if it needs one."""
    part = method.tag("part")
    has_part = part is None or bool(entries(part, modality))
    return method.serves(modality) and has_part and (not method.tag("generates") or modality_of(modality).generates)


def modality_of(name: str) -> Modality:
    """The modality with a registered name; what follows a colon is its argument."""
    return built("modality", name)


FIRST = 16  # samples of an array on disk that tell its modality


def detect(X: Any, modality: str = "auto") -> Modality:
    """The modality of samples given in Python: vectors, if no other modality recognizes them."""
    if modality != "auto":
        if get("modality", modality) is None:
            raise InputError(f"modality is {modality!r}, expected {join_names(['auto', *names('modality')])}")
        return modality_of(modality)
    if isinstance(X, RowSource):
        return find_modality(X)
    if hasattr(X, "detach"):
        X = to_rows(X)[0]
    if not isinstance(X, np.ndarray) and hasattr(X, "dtype") and len(getattr(X, "shape", ())) > 2:
        X = np.asarray(X[:FIRST])  # arrays of h5py, zarr, dask and xarray
    if isinstance(X, np.ndarray) and X.size and X.ndim in (2, 3, 4) and dtype_on_disk(X.shape, X.dtype) != np.float32:
        return find_modality(X)
    return next((each for each in _all() if each.recognizes(X)), modality_of("vectors"))


def dtype_on_disk(shape: Sequence[int], dtype: Any) -> Any:
    """The dtype in which rows of an array of this shape and dtype can stay on disk; None if there is none."""
    found = (each.dtype_on_disk(shape, dtype) for each in _all())
    return next((each for each in found if each is not None), None)


def find_modality(x: AnyRows, modality: str | None = None, source_name: str = "the data") -> Modality:
    """The modality of an array, by its shape and dtype, or the given one after a check."""
    check_array(x, source_name)
    if isinstance(x, RowSource) and x.modality is not None:
        return modality_of(x.modality)
    if isinstance(x, RowSource):
        found = next(each for each in _all() if each.dtype_on_disk(x.shape, x.dtype) is not None)
        if modality not in (None, found.name):
            raise InputError(
                f"{source_name}: rows that stay on disk are {found.name} here, not {modality}; leave modality out"
            )
        return found
    if modality is not None:
        given = modality_of(modality)
        given.check(x, source_name)
        return given
    known = _all()
    if (recognized := next((each for each in known if each.recognizes(x)), None)) is not None:
        return recognized
    for each in known:
        each.near_miss(x, source_name)
    return modality_of("vectors")


def _all() -> list[Modality]:
    """All modalities, those of other packages first: they recognize what they were made for."""
    return [entry.build() for entry in sorted(entries("modality"), key=lambda entry: entry.origin == "viewsmith")]
