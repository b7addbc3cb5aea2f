"""Baselines: features that need no contrastive learning, fitted on the train rows."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from viewsmith.core.errors import InputError, MissingExtra
from viewsmith.core.registry import register

Rows = NDArray[np.float32]

UMAP_WIDTH = 200

UMAP_AXES = 50

UMAP_NEIGHBORS = 15

Pair = tuple[np.ndarray, np.ndarray]


class Model(Protocol):
    """The interface of a fitted model that baselines and comparisons need.

    A model may also have ``outputs``, a dict from the name of an additional table row to the value of `output` in
    ``transform(x, output=...)``. These are maps, whose positions are compared by Euclidean distance.
    """

    def raw_features(self, X: Any) -> dict[str, np.ndarray]:
        """Features that are available without a model, (n, d), by name."""

    @property
    def transform(self) -> Callable[..., np.ndarray]:
        """Function that returns representations, (n, k), of rows; ``output=`` selects one of `outputs`."""

    def untrained(self, X: Any) -> Model:
        """The model with its initial weights."""


@dataclass(frozen=True)
class BaselineContext:
    """The data that a baseline is computed from.

    A baseline is a function of this context that returns features of train and test rows, fitted on train. It is
    registered by ``@register("baseline", "my-baseline", help=...)``. With the trait ``on_request=True`` it is computed
    only if the user requests it.

    Attributes
    ----------
    model : Model
        The fitted model.
    raw : str
        Name of the raw features with the best score on a split of the train rows.
    x_train, x_test : array-like
        Rows in the format that users give.
    """

    model: Model
    raw: str
    x_train: Any
    x_test: Any

    def raw_features(self) -> Pair:
        """Raw features of train and test rows."""
        return self.model.raw_features(self.x_train)[self.raw], self.model.raw_features(self.x_test)[self.raw]


@register("baseline", "raw", help="raw features, as the model scales them")
def _raw(context: BaselineContext) -> Pair:
    return context.raw_features()


@register("baseline", "pca", help="64 principal coordinates of the raw features")
def _pca(context: BaselineContext) -> Pair:
    return pca(*context.raw_features())


@register("baseline", "untrained", help="the representation with the weights before training")
def _untrained(context: BaselineContext) -> Pair:
    initial = context.model.untrained(context.x_train)
    return initial.transform(context.x_train), initial.transform(context.x_test)


@register("baseline", "umap", help="32 UMAP coordinates of the raw features (extra viz)", on_request=True)
def _umap(context: BaselineContext) -> Pair:
    return umap(*context.raw_features())


RANK_TOLERANCE = 1e-5  # of the largest standard deviation; float32


def pca(train: ArrayLike, test: ArrayLike, n_components: int = 64) -> tuple[Rows, Rows]:
    """Principal coordinates of train and test rows, with axes fitted on `train`.

    Parameters
    ----------
    train, test : arrays (n, d) and (m, d)
    n_components : int
        Limited to the number of dimensions that the centered training rows span, at most n - 1 and d.

    Returns
    -------
    train, test : arrays (n, k) and (m, k)
        Deterministic.
    """
    from sklearn.decomposition import PCA

    rows, test_rows = np.asarray(train, dtype=np.float32), np.asarray(test, dtype=np.float32)
    with np.errstate(invalid="ignore"):  # scikit-learn divides by the variance, which is 0 if all rows are equal
        model = PCA(max(1, min(n_components, len(rows) - 1, rows.shape[1])), random_state=0).fit(rows)
    # Of columns that depend on each other, the last axes are rounding errors, which a probe would standardize.
    spread = np.sqrt(np.nan_to_num(model.explained_variance_))
    kept = max(1, int((spread > RANK_TOLERANCE * spread[0]).sum()))
    return model.transform(rows)[:, :kept], model.transform(test_rows)[:, :kept]


def umap(train: ArrayLike, test: ArrayLike, n_components: int = 32, seed: int = 0) -> tuple[Rows, Rows]:
    """UMAP coordinates of train and test rows, fitted on `train` in one thread; deterministic.

    Rows wider than 200 are first reduced to 50 principal coordinates, because UMAP collapses on some wide data sets.

    Parameters
    ----------
    train, test : arrays (n, d) and (m, d)
        n at least 4.
    n_components : int
        At most n - 2 is used. The number of neighbors is 15, at most n - 1.
    seed : int

    Returns
    -------
    train, test : arrays (n, k) and (m, k)

    Raises
    ------
    MissingExtra
        umap-learn is not installed.
    InputError
        Fewer than four train rows.
    """
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), _restore_torch_threads():
        warnings.simplefilter("ignore")
        try:
            from umap import UMAP
        except ModuleNotFoundError as error:
            raise MissingExtra("umap-learn", "viz", "the UMAP baseline") from error
        rows, test_rows = np.asarray(train, dtype=np.float32), np.asarray(test, dtype=np.float32)
        if len(rows) < 4:
            raise InputError(f"UMAP was given {len(rows)} train rows, expected at least 4")
        if rows.shape[1] > UMAP_WIDTH:
            rows, test_rows = pca(rows, test_rows, UMAP_AXES)
        model = UMAP(
            n_components=min(n_components, len(rows) - 2),
            n_neighbors=min(UMAP_NEIGHBORS, len(rows) - 1),
            random_state=seed,
            n_jobs=1,
        )
        return model.fit_transform(rows), model.transform(test_rows)


@contextlib.contextmanager
def _restore_torch_threads() -> Iterator[None]:
    """Restore the number of torch's threads on exit, because the import of numba, which UMAP uses, changes it."""
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)
