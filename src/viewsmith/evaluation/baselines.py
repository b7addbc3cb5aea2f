"""Baselines: features that need no contrastive learning, fitted on the train rows."""

import contextlib
import importlib.util
import io
import logging
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray

from viewsmith.core.errors import InputError, MissingExtra
from viewsmith.core.registry import Entry, get, register
from viewsmith.data.labels import Target
from viewsmith.evaluation.protocol import Predict
from viewsmith.modalities.series.modality import recording_rows

Rows = NDArray[np.float32]
UMAP_WIDTH = 200
UMAP_AXES = 50
UMAP_NEIGHBORS = 15
CATCH24 = 24  # statistics of a channel
TrainTest = tuple[np.ndarray, np.ndarray]


class NotForTheseData(InputError):
    """A baseline that is computed by default cannot be computed from these data."""


@dataclass(frozen=True)
class BaselineContext:
    """The data that a baseline, a function registered as docs/extending.md says, is computed from."""

    #: A fitted estimator. ``outputs``, if it has it, maps names of additional rows to values of
    #: ``transform(x, output=...)``: maps, compared by Euclidean distance.
    model: Any
    raw: str  # name of the raw features with the best score on a split of the train rows
    x_train: Any  # rows in the format that users give
    x_test: Any
    kept: dict[str, TrainTest] = field(default_factory=dict)  # rows that were computed with an earlier one

    def raw_features(self) -> TrainTest:
        """Raw features of train and test rows."""
        return self.model.raw_features(self.x_train)[self.raw], self.model.raw_features(self.x_test)[self.raw]

    def representations(self) -> TrainTest:
        """Representations of train and test rows."""
        kept = self.kept.pop("representation", None)
        return kept or (self.model.transform(self.x_train), self.model.transform(self.x_test))

    def untrained_representations(self) -> TrainTest:
        """The same with the weights before training; `representations` are kept if they come with them."""
        initial = self.model.untrained(self.x_train)
        if (both := getattr(self.model, "transform_both", None)) is None:
            return initial.transform(self.x_train), initial.transform(self.x_test)
        (train, trained), (test, trained_test) = both(initial, self.x_train), both(initial, self.x_test)
        self.kept["representation"] = trained, trained_test
        return train, test


def _largest_class(train: Rows, y: np.ndarray, test: Rows, target: Target) -> np.ndarray:
    """The mean of the numbers, or the largest class (the smallest code of equals), for each test row."""
    return np.full(len(test), y.mean() if target == "number" else np.bincount(y).argmax())


@register(
    "baseline",
    "majority",
    predict=_largest_class,
    constant=True,
    help="the largest class of the train rows, or the mean of their numbers, for every row",
)
def _nothing(context: BaselineContext) -> TrainTest:
    return np.zeros((len(context.x_train), 1), np.float32), np.zeros((len(context.x_test), 1), np.float32)


register("baseline", "raw", help="raw features, as the model scales them")(BaselineContext.raw_features)


@register(
    "baseline",
    "features",
    needs="default_features",
    help="the fixed features of this kind of data, fitted to the train rows without labels",
)
def _features(context: BaselineContext) -> TrainTest:
    model: Any = context.model
    try:
        train, test = model.fixed_features(context.x_train, context.x_test)
    except InputError as error:  # of such samples, as images smaller than a patch
        raise NotForTheseData(str(error)) from error
    return train, test


@register("baseline", "pca", help="64 principal coordinates of the raw features")
def _pca(context: BaselineContext) -> TrainTest:
    return pca(*context.raw_features())


register("baseline", "untrained", help="the representation with the weights before training")(
    BaselineContext.untrained_representations
)


@register("baseline", "umap", help="32 UMAP coordinates of the raw features (extra viz)", on_request=True)
def _umap(context: BaselineContext) -> TrainTest:
    return umap(*context.raw_features())


@register(
    "baseline",
    "pacmap",
    help="32 PaCMAP coordinates of the raw features (extra baselines)",
    on_request=True,
    source="Wang et al. 2021",
)
def _pacmap(context: BaselineContext) -> TrainTest:
    train, test = context.raw_features()
    with _quiet():
        PaCMAP = _imported("pacmap", "baselines", "the PaCMAP baseline").PaCMAP
        made = PaCMAP(n_components=min(32, *train.shape), random_state=0)
        return made.fit_transform(train), made.transform(test, basis=train)


@register(
    "baseline",
    "scvi",
    help="10 latent variables of scVI with its own options (counts; extra scvi)",
    on_request=True,
    modalities="vectors",
    source="Lopez et al. 2018",
)
def _scvi(context: BaselineContext) -> TrainTest:
    return scvi_latent(np.asarray(context.x_train), np.asarray(context.x_test))


def scvi_latent(x_train: np.ndarray, x_test: np.ndarray, seed: int = 0) -> TrainTest:
    """Latent variables (n, 10) of an scVI that is fitted on train rows, counts or log-normalized (n, d)."""
    train, test = counts_of(x_train), counts_of(x_test)
    with _quiet(), torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory() as folder:
        package = _imported("scvi", "scvi", "the scVI baseline", "scvi-tools")
        cells = [_imported("anndata", "scvi", "the scVI baseline").AnnData(rows) for rows in (train, test)]
        for each, name in zip(cells, ("train", "test"), strict=True):
            each.obs_names = pd.Index([f"{name}{i}" for i in range(each.n_obs)])
        package.settings.seed = seed
        package.model.SCVI.setup_anndata(cells[0])
        fitted = package.model.SCVI(cells[0])
        fitted.train(enable_progress_bar=False, enable_checkpointing=False, accelerator="cpu", default_root_dir=folder)
        return fitted.get_latent_representation(cells[0]), fitted.get_latent_representation(cells[1])


@register(
    "baseline",
    "catch22",
    help="24 summary statistics of each channel, those of catch22 with mean and deviation (extra baselines)",
    on_request=True,
    installed="pycatch22",
    modalities="series",
    source="Lubba et al. 2019",
)
def _catch22(context: BaselineContext) -> TrainTest:
    catch22_all = _imported("pycatch22", "baselines", "the catch22 baseline").catch22_all

    def of_channel(values: np.ndarray) -> list[float]:
        known = values[~np.isnan(values)].astype(np.float64)
        return list(catch22_all(known.tolist(), catch24=True)["values"]) if len(known) else [0.0] * CATCH24

    def of_rows(rows: Any) -> np.ndarray:
        found = [[of_channel(channel) for channel in row] for row in recording_rows(rows)]
        return np.nan_to_num(np.array(found, np.float32).reshape(len(found), -1))

    return of_rows(context.x_train), of_rows(context.x_test)


def counts_of(rows: np.ndarray) -> np.ndarray:
    """Counts of rows (n, d) that are counts, or were log-normalized; the smallest of a row is then taken as 1."""
    values = rows.astype(np.float64)
    if (values != np.round(values)).any():
        with np.errstate(over="ignore"):  # large values are infinite then, and no counts
            values = np.expm1(values)
        values /= np.where(values > 0, values, np.inf).min(axis=1, keepdims=True, initial=values.max())
    whole = np.round(values)
    if (
        not np.isfinite(values).all()
        or (values < 0).any()
        or (np.abs(values - whole) > 1e-3 * np.maximum(whole, 1)).any()
    ):
        raise InputError("scVI needs counts, but the rows are neither counts nor log-normalized counts")
    return whole.astype(np.float32)


def _boosted(train: Rows, y: np.ndarray, test: Rows, target: Target) -> np.ndarray:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    made = HistGradientBoostingRegressor if target == "number" else HistGradientBoostingClassifier
    # The default of 20 rows in a leaf would make no split of a few rows.
    leaf = max(1, min(20, len(y) // 50))
    return made(min_samples_leaf=leaf, early_stopping=False, random_state=0).fit(train, y).predict(test)


def _tabicl(train: Rows, y: np.ndarray, test: Rows, target: Target) -> np.ndarray:
    with _quiet():
        module = _imported("tabicl", "baselines", "the TabICL baseline")
        made = module.TabICLRegressor if target == "number" else module.TabICLClassifier
        try:
            return made(random_state=0, n_jobs=1).fit(train, y).predict(test)
        except OSError as error:  # of its cache, or of the connection
            raise InputError(
                "the weights of TabICL are not on this machine and cannot be downloaded: run the same command where "
                "huggingface.co can be reached, or copy the folder models--jingang--TabICL of such a machine's "
                f"Hugging Face cache (~/.cache/huggingface/hub) ({type(error).__name__})"
            ) from error


@register(
    "baseline",
    "gradient-boosting",
    on_request=True,
    predict=_boosted,
    help="gradient boosting (scikit-learn) on the raw features, in place of the linear probe",
)
@register(
    "baseline",
    "tabicl",
    on_request=True,
    predict=_tabicl,
    source="Qu et al. 2025",
    help="TabICL on the raw features, in place of the linear probe (extra baselines; downloads weights)",
)
def _features_to_predict_from(context: BaselineContext) -> TrainTest:
    return context.raw_features()


def predictor_of(name: str) -> Predict | None:
    """What a baseline that is no representation predicts labels with; None for other table rows."""
    found = get("baseline", name)
    return None if found is None else found.tag("predict")


def is_available(name: str, of: Any) -> bool:
    """Whether a modality, or a fitted model, has what a baseline needs."""
    found = get("baseline", name)
    needed = None if found is None else found.tag("needs")
    return needed is None or bool(getattr(of, needed, None))


def suits_by_itself(entry: Entry, modality: str) -> bool:
    """Whether an evaluation has a baseline on request: it is of this kind of data alone, and its package is there."""
    package = entry.tag("installed")
    return bool(package) and entry.serves(modality) and importlib.util.find_spec(package) is not None


def is_constant(name: str) -> bool:
    """Whether a baseline predicts the same for all rows, which then counts at all protocols."""
    found = get("baseline", name)
    return found is not None and bool(found.tag("constant"))


RANK_TOLERANCE = 1e-5  # of the largest standard deviation; float32


def pca(train: ArrayLike, test: ArrayLike, n_components: int = 64) -> tuple[Rows, Rows]:
    """Principal coordinates of train and test rows, with axes fitted on `train`."""
    from sklearn.decomposition import PCA

    rows, test_rows = np.asarray(train, dtype=np.float32), np.asarray(test, dtype=np.float32)
    with np.errstate(invalid="ignore"):  # scikit-learn divides by the variance, which is 0 if all rows are equal
        model = PCA(max(1, min(n_components, len(rows) - 1, rows.shape[1])), random_state=0).fit(rows)
    # Of columns that depend on each other, the last axes are rounding errors, which a probe would standardize.
    spread = np.sqrt(np.nan_to_num(model.explained_variance_))
    kept = max(1, int((spread > RANK_TOLERANCE * spread[0]).sum()))
    return model.transform(rows)[:, :kept], model.transform(test_rows)[:, :kept]


def umap(train: ArrayLike, test: ArrayLike, n_components: int = 32, seed: int = 0) -> tuple[Rows, Rows]:
    """UMAP coordinates of train and test rows, fitted on `train` in one thread; rows wider than 200 are first reduced
    to 50 principal coordinates: on some wide data UMAP collapses."""
    with _quiet():
        UMAP = _imported("umap", "viz", "the UMAP baseline", "umap-learn").UMAP
        rows, test_rows = np.asarray(train, dtype=np.float32), np.asarray(test, dtype=np.float32)
        if len(rows) < 4:
            raise InputError(f"UMAP was given {len(rows)} train rows, expected at least 4")
        if rows.shape[1] > UMAP_WIDTH:
            rows, test_rows = pca(rows, test_rows, UMAP_AXES)
        width, near = min(n_components, len(rows) - 2), min(UMAP_NEIGHBORS, len(rows) - 1)
        model = UMAP(n_components=width, n_neighbors=near, random_state=seed, n_jobs=1)
        return model.fit_transform(rows), model.transform(test_rows)


def _imported(module: str, extra: str, purpose: str, package: str = "") -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtra(package or module, extra, purpose) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No warnings, logs or prints; torch's threads are restored, because the import of numba changes their number."""
    threads, logged = torch.get_num_threads(), logging.root.manager.disable
    try:
        logging.disable(logging.ERROR)
        with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(logged)
        torch.set_num_threads(threads)
