"""The modality: the interface of everything that depends on the kind of samples.

A modality reads and checks the samples that users give, scales them, returns their raw features (the features that are
available without a model), and has default settings. To add one, write a file with a subclass of `Modality`, register
an instance of it, and register encoders, view makers and, for the methods that need them, a noise generator and a set
of transformations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import Entry, entries, find
from viewsmith.core.rows import Rows, RowSource, Samples

Picture = Literal["curve", "pixels", "letters", "traces"]


class Modality:
    """A kind of samples.

    Attributes
    ----------
    name, help : str
        Registered name, and one line for listings.
    default_views : str
        Default view makers, joined by "+".
    default_encoder, default_encoder_on_gpu : str
        Names of the default encoders.
    steps, steps_on_gpu : int
        Training steps if no number of epochs is given.
    step_seconds : (float, float)
        CPU seconds of a training step of DiffAug's encoder, and of its default generator, per sample of the batch and
        per pixel or letter; 0 if negligible. Measured on one core of an AMD EPYC.
    defaults : mapping
        Default values of options of frameworks (``kernel``, ``temperature``, ``simclr_dims``) and of DiffAug's
        generator, by name.
    picture : {"curve", "pixels", "letters", "traces"}
        How reports draw a sample.
    gallery : int
        Number of samples in a gallery of a report.
    on_top : bool
        Whether generated views are also augmented by the fixed view makers.
    denoisers : tuple of str
        Kinds of networks that `denoiser` can build.
    named_features : bool
        Whether features have names, which are read from files and DataFrames.
    """

    name: ClassVar[str]
    help: ClassVar[str]
    default_views: ClassVar[str]
    default_encoder: ClassVar[str]
    default_encoder_on_gpu: ClassVar[str]
    steps: int = 1500
    steps_on_gpu: int = 10_000
    step_seconds: ClassVar[tuple[float, float]] = (0.0, 0.0)
    defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    picture: ClassVar[Picture] = "curve"
    gallery: ClassVar[int] = 4
    on_top: ClassVar[bool] = True
    named_features: ClassVar[bool] = False
    denoisers: ClassVar[tuple[str, ...]] = ("fast", "published")

    @property
    def preset_suffix(self) -> str:
        """Suffix of the names of presets for this modality; empty for vectors."""
        return f"-{self.name}"

    # ---- from the user's samples to rows ----------------------------------------------------------------------------

    def recognizes(self, X: Any) -> bool:
        """Whether samples are of this modality, by type, dtype and shape; used if the user gives no modality."""
        raise NotImplementedError

    def near_miss(self, x: np.ndarray, source_name: str) -> None:
        """Warn, or raise InputError, if an array that no modality recognizes was probably meant for this modality."""

    def check(self, x: np.ndarray, source_name: str = "the data") -> None:
        """Raise InputError unless an array can be read as samples of this modality."""
        raise NotImplementedError

    def read(
        self, X: Any, *, row_shape: Sequence[int] | None = None, impute: Any = "none", estimator: Any = None
    ) -> np.ndarray | RowSource:
        """Convert samples given in Python to rows and check them.

        Parameters
        ----------
        X : array-like, n samples
        row_shape : sequence of int, optional
            Shape of the samples that the model was fitted on; None for samples to be fitted.
        impute : {"none", "median"}
            "median" allows missing values.
        estimator : BaseEstimator, optional
            Gets the names and number of features as attributes, as in scikit-learn.

        Returns
        -------
        ndarray, shape (n, ...), or RowSource
            A source, of vectors alone, for rows that are not read as a whole.

        Raises
        ------
        InputError
            The samples are not of this modality, or do not match the fitted shape.
        """
        raise NotImplementedError

    def from_file(
        self, x: np.ndarray | RowSource, names: list[str] | None, impute: Any, source_name: str
    ) -> np.ndarray | RowSource:
        """Convert rows from a file to the form that the model takes, and check them."""
        return np.ascontiguousarray(x)

    def check_training_rows(self, x: np.ndarray | RowSource, names: list[str] | None, source_name: str) -> None:
        """Check rows to fit on, in addition to the checks of all rows."""

    def required_shape(self, row_shape: Sequence[int]) -> list[int | None]:
        """The shape that rows for a fitted model must have; None for a dimension of any length."""
        return list(row_shape)

    def same_shape(self, one: Sequence[int], other: Sequence[int]) -> bool:
        """Whether samples of two shapes can be given to one model."""
        return tuple(one) == tuple(other)

    # ---- from rows to scaled samples --------------------------------------------------------------------------------

    def input_layer(self, row_shape: Sequence[int]) -> nn.Module:
        """The module, not yet fitted, that scales rows and inverts the scaling of views."""
        raise NotImplementedError

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
        return Samples(raw, layer)

    def channels(self, row_shape: Sequence[int]) -> int:
        """Size of the first dimension of a scaled sample."""
        raise NotImplementedError

    def blank(self, row_shape: Sequence[int]) -> Tensor:
        """A scaled sample of zeros, (1, ...)."""
        raise NotImplementedError

    def onnx_example(self, row_shape: Sequence[int], layer: nn.Module) -> tuple[Tensor, nn.Module | None]:
        """Two samples to trace an encoder with, and the input layer to trace before it (None for scaled samples)."""
        raise NotImplementedError

    def in_input_format(self, views: np.ndarray, given: tuple[int, ...]) -> np.ndarray:
        """Views (n, K, ...) in the layout of the user's array of samples, whose shape is `given`."""
        return views

    def drawn(self, samples: np.ndarray) -> np.ndarray:
        """Samples (n, ...) in the form that `picture` stands for, such as clouds of points as images."""
        return samples

    def in_data_units(self, sigma: Tensor, layer: Any) -> Tensor:
        """Standard deviations of scaled values, (n, ...), in the units of the data."""
        return sigma

    # ---- features and networks --------------------------------------------------------------------------------------

    def raw_features(self, rows: np.ndarray, layer: Any) -> dict[str, np.ndarray]:
        """Features that are available without a model, float32 (n, d), by name."""
        raise NotImplementedError

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
        """The latents that a diffusion model is trained on instead of samples; see `viewsmith.networks.base.Latents`.

        Raises
        ------
        InputError
            The modality has no diffusion model.
        """
        raise InputError(f"there is no generator of views for {self.name}: use another method")

    def denoiser(self, kind: str, latents: Any, row_shape: Sequence[int], condition: int) -> nn.Module:
        """A network that denoises latents, given a condition of width `condition`; `kind` is one of `denoisers`."""
        raise NotImplementedError

    def check_size(self, message: str, shape: Sequence[int], smallest: int, advice: str) -> None:
        """Check that samples are large enough for a network, in modalities whose samples may be too small.

        Parameters
        ----------
        message : str
            Its start, with ``{have}`` and ``{least}`` for the sizes.
        shape : sequence of int
        smallest : int
            Smallest side that the network accepts.
        advice : str
            What the user can do, as the end of the message.

        Raises
        ------
        InputError
            The samples are too small.
        """


def works_in(method: Entry, modality: str) -> bool:
    """Whether a modality has the part that a method needs, and a generator of views if it needs one."""
    part = method.tag("part")
    has_part = part is None or bool(entries(part, modality))
    return method.serves(modality) and has_part and (not method.tag("generates") or modality_of(modality).generates)


def modality_of(name: str) -> Modality:
    """The modality with a registered name.

    Raises
    ------
    InputError
        Unknown name.
    """
    found: Modality = find("modality", name).build()
    return found
