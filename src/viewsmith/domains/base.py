"""What a domain is: all that the rest of the library asks about a kind of samples.

A domain is one object. It reads and checks samples as users hold them, scales them, says which features a user would
take without a model, and names the defaults that serve it. To add one, write one file with a subclass of `Domain`,
register an instance of it, and register encoders, view makers and, where methods need them, a noise generator and a
family of transformations that serve it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import find
from viewsmith.core.samples import Rows, Samples

Picture = Literal["curve", "pixels", "letters"]


class Domain:
    """A kind of samples.

    Attributes
    ----------
    name, help : str
    default_views : str
        View makers where none are named, joined by "+".
    default_encoder, default_encoder_on_gpu : str
    steps, steps_on_gpu : int
        Training steps where no number of epochs is given.
    defaults : mapping
        Values of options, by name, that serve this domain: those of frameworks (``kernel``, ``temperature``,
        ``simclr_dims``) and of DiffAug's generator.
    picture : {"curve", "pixels", "letters"}
        How reports draw a sample.
    gallery : int
        How many samples a gallery of a report shows.
    on_top : bool
        Whether generated views are augmented by the fixed view makers too.
    denoisers : tuple of str
        Kinds of networks that `denoiser` makes.
    named_features : bool
        Whether features have names, which files and DataFrames give.
    """

    name: ClassVar[str]
    help: ClassVar[str]
    default_views: ClassVar[str]
    default_encoder: ClassVar[str]
    default_encoder_on_gpu: ClassVar[str]
    steps: int = 1500
    steps_on_gpu: int = 10_000
    defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    picture: ClassVar[Picture] = "curve"
    gallery: ClassVar[int] = 4
    on_top: ClassVar[bool] = True
    named_features: ClassVar[bool] = False
    denoisers: ClassVar[tuple[str, ...]] = ("fast", "published")

    @property
    def preset_suffix(self) -> str:
        """What the names of presets for this domain end in; of vectors nothing."""
        return f"-{self.name}"

    # ---- from what users hold to rows -------------------------------------------------------------------------------

    def recognizes(self, X: Any) -> bool:
        """Whether samples given without a domain are of this one: by type, dtype and shape."""
        raise NotImplementedError

    def near_miss(self, x: np.ndarray, what: str) -> None:
        """Warn, or raise InputError, where an array that no domain recognizes was probably meant for this one."""

    def check(self, x: np.ndarray, what: str = "the data") -> None:
        """Raise InputError unless an array can be read as samples of this domain."""
        raise NotImplementedError

    def read(
        self, X: Any, *, row_shape: Sequence[int] | None = None, impute: Any = "none", estimator: Any = None
    ) -> np.ndarray:
        """Rows of what a user gave in Python, checked, (n, ...).

        Parameters
        ----------
        X : array-like, n samples
        row_shape : sequence of int, optional
            Of the samples that a model was fitted on; None: these are to be fitted.
        impute : {"none", "median"}
            Whether missing values are allowed.
        estimator : BaseEstimator, optional
            Keeps names and number of features, as scikit-learn's checks do.

        Raises
        ------
        InputError
            Other samples, with what was expected.
        """
        raise NotImplementedError

    def from_file(self, x: np.ndarray, names: list[str] | None, impute: Any, what: str) -> np.ndarray:
        """Rows of an array that a file held."""
        return np.ascontiguousarray(x)

    def check_training_rows(self, x: np.ndarray, names: list[str] | None, what: str) -> None:
        """Rules for rows to fit on, beyond those for all rows."""

    def kept_shape(self, row_shape: Sequence[int]) -> list[int | None]:
        """What a later file's rows have to have; None where any length will do."""
        return list(row_shape)

    def same_shape(self, one: Sequence[int], other: Sequence[int]) -> bool:
        """Whether samples of two shapes can be given to one model."""
        return tuple(one) == tuple(other)

    # ---- from rows to what networks take ----------------------------------------------------------------------------

    def input_layer(self, row_shape: Sequence[int]) -> nn.Module:
        """What scales rows and brings views back to their units, with nothing fitted yet."""
        raise NotImplementedError

    def fit_input(self, layer: Any, raw: Tensor, scaling: str) -> tuple[str, dict[str, Any]]:
        """Take the statistics of the training rows; the scaling used, and what views need to know of it."""
        return str(layer.fit(raw, scaling)), {}

    def scaled(self, raw: Tensor, layer: Any) -> Rows:
        """Scaled rows: at once, or when they are taken, where that saves memory."""
        return Samples(raw, layer)

    def channels(self, row_shape: Sequence[int]) -> int:
        """Channels of a scaled sample: its first dimension."""
        raise NotImplementedError

    def blank(self, row_shape: Sequence[int]) -> Tensor:
        """A scaled sample of zeros, (1, ...)."""
        raise NotImplementedError

    def onnx_example(self, row_shape: Sequence[int], layer: nn.Module) -> tuple[Tensor, nn.Module | None]:
        """Two samples to trace an encoder with, and the layer to trace before it (None: they are scaled)."""
        raise NotImplementedError

    def in_given_form(self, views: np.ndarray, given: tuple[int, ...]) -> np.ndarray:
        """Views (n, K, ...) of samples that were given in the shape `given`, in the same form."""
        return views

    def in_data_units(self, sigma: Tensor, layer: Any) -> Tensor:
        """Standard deviations of scaled values, (n, ...), in the units of the data."""
        return sigma

    # ---- what else depends on the kind of samples -------------------------------------------------------------------

    def raw_features(self, rows: np.ndarray, layer: Any) -> dict[str, np.ndarray]:
        """What a user would take without a model, float32 (n, d) by name."""
        raise NotImplementedError

    def neighbor_features(self, x: Tensor) -> Tensor | None:
        """Features of scaled samples (n, ...) in whose principal axes neighbors are sought; None: where the encoder
        looks first."""
        return None

    def codes(self, row_shape: Sequence[int], stats: Mapping[str, Any], encoder: nn.Module) -> Any:
        """What a diffusion model sees in place of samples.

        Raises
        ------
        InputError
            The domain has no diffusion model.
        """
        raise InputError(f"there is no generator of views for {self.name}: take another method")

    def denoiser(self, kind: str, codes: Any, row_shape: Sequence[int], condition: int) -> nn.Module:
        """A network of one of the `denoisers` that denoises these codes, told `condition` numbers."""
        raise NotImplementedError

    def check_size(self, what: str, shape: Sequence[int], smallest: int, todo: str) -> None:
        """Raise InputError if samples of a shape are too small for a network; nothing where that cannot be.

        Parameters
        ----------
        what : str
            The message, with ``{have}`` and ``{least}`` where the sizes stand.
        shape : sequence of int
        smallest : int
            Least side.
        todo : str
            What to do about it.
        """


def domain_of(name: str) -> Domain:
    """The domain of that name.

    Raises
    ------
    InputError
        There is none.
    """
    found: Domain = find("domain", name).build()
    return found
