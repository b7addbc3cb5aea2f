"""What all estimators share: scikit-learn's verbs around a method, a scaler and the engine."""

from __future__ import annotations

import copy
import hashlib
import os
import re
import time
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Literal, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

import viewsmith
from viewsmith.core import distributed
from viewsmith.core.errors import InputError
from viewsmith.core.method import Method
from viewsmith.core.random import derive_seed, stream
from viewsmith.data.check import check_finite, to_rows
from viewsmith.estimators.options import check_options
from viewsmith.estimators.parts import principal_axes
from viewsmith.networks.scaling import Scaler
from viewsmith.training.callbacks import Diagnostics, History, ProgressBar, collapse_warnings
from viewsmith.training.checkpoint import load_weights
from viewsmith.training.engine import Trainer
from viewsmith.training.run import RunFolder, environment

BLOCK = 1024


class ViewsmithEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """fit, transform, views, save. Subclasses store their arguments and build their method in `_build`."""

    name: str  # as on the command line

    # ---- to be written by subclasses ------------------------------------------------------------------------------

    def _resolve(self, options: SimpleNamespace, x: Tensor, seed: int) -> dict[str, Any]:
        """What depends on the data and is needed to rebuild the model, from scaled rows; plain values."""
        raise NotImplementedError

    def _build(self, options: SimpleNamespace, fitted: dict[str, Any]) -> Method:
        """The method with fresh weights."""
        raise NotImplementedError

    # ---- scikit-learn ---------------------------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = getattr(self, "impute", "none") == "median"
        tags.non_deterministic = False
        tags.transformer_tags.preserves_dtype = []
        return tags

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        run: str | os.PathLike[str] | None = None,
        resume: bool = False,
        context: dict[str, Any] | None = None,
    ) -> Self:
        """Learn a representation of the rows of `X`; labels are never used.

        Parameters
        ----------
        X : array, DataFrame, tensor or sparse matrix, shape (n, d)
            At least two rows, finite (missing values need ``impute="median"``).
        y : ignored
        run : path, optional
            Folder that keeps the run: configuration, metrics, checkpoints while training, weights, summary.
        resume : bool
            Go on with the run in that folder; with nothing there, start.
        context : dict, optional
            Where the data come from, kept with the run; see `viewsmith.estimators.sessions.data_record`.

        Returns
        -------
        self

        Raises
        ------
        InputError
            Bad data or options, a folder that holds something else, a damaged checkpoint.
        TrainingError
            The loss became infinite or NaN.
        """
        options = check_options(type(self), self.get_params(deep=False))
        rows = self._rows(X, reset=True)
        folder = RunFolder(run) if run is not None else None
        if folder and context is None:
            context = {"data": {"fingerprint": fingerprint(rows)}}
        if folder and resume and folder.exists() and options.random_state is None:
            options.random_state = folder.read_config().get("parameters", {}).get("random_state")
        device = _device(options.device)
        seed = distributed.any_says(_seed(options.random_state), device)
        raw = torch.from_numpy(rows)
        scaler = Scaler(rows.shape[1])
        scaling = scaler.fit(raw, options.scaling)
        x = scaler(raw)
        fitted = {"n_features": rows.shape[1], "seed": seed, "scaling": scaling}
        fitted |= self._resolve(options, x, seed)
        names = (context or {}).get("feature_names")
        fitted["named"] = hasattr(self, "feature_names_in_")
        fitted["feature_names"] = [str(n) for n in (self.feature_names_in_ if fitted["named"] else names or [])]
        self.fitted_ = fitted
        method = self._fresh(options, x)

        # With several processes all read the folder and the first one writes it.
        first = distributed.rank() == 0
        going_on = folder.open_for(self._config(context or {}), resume=resume) if folder and first else False
        going_on = distributed.first_says(going_on, device)
        self.scaler_, self.method_, self.options_ = scaler, method, options
        self.initial_ = self._weights()
        if folder and first and not folder.initial.exists():
            folder.write_initial(self.initial_)
        self._train(x, device, folder, resume=going_on, context=context or {})
        return self

    def transform(self, X: Any, *, output: Literal["representation", "projection"] = "representation") -> np.ndarray:
        """Representations of rows, float32 (n, n_components), or embeddings after the head (``output="projection"``).

        A row's result does not depend on the rows given with it.
        """
        check_is_fitted(self)
        if output not in self.outputs_:
            raise InputError(f"output is {output!r}, expected one of {', '.join(map(repr, self.outputs_))}")
        rows = self._rows(X, reset=False)
        with torch.no_grad():
            parts = [
                self.method_.represent(block, output).float()[:count].cpu().numpy()
                for block, count in _blocks(self._scaled(rows))
            ]
        return np.concatenate(parts)

    def scaled(self, X: Any) -> np.ndarray:
        """Rows as the model scales them, float32 (n, d): what baselines are given."""
        check_is_fitted(self)
        return self._scaled(self._rows(X, reset=False)).cpu().numpy()

    def views(self, X: Any, n_views: int = 4, *, random_state: int | None = None, pool: Any = None) -> np.ndarray:
        """Augmented views of rows, float32 (n, n_views, d), in the units of `X`.

        Parameters
        ----------
        X : array-like, shape (n, d)
        n_views : int
        random_state : int, optional
            Default: the seed of the fit, so that repeated calls give the same views.
        pool : array-like, optional
            Rows that view makers borrow from (neighbours, corruption, mixup); default: `X` itself.
        """
        check_is_fitted(self)
        if n_views < 1:
            raise InputError(f"n_views is {n_views}, expected at least 1")
        x = self._scaled(self._rows(X, reset=False))
        borrowed = x if pool is None else self._scaled(self._rows(pool, reset=False))
        if self.method_.borrows and len(borrowed) < 2:
            raise InputError("views borrow from other rows: expected at least two rows, got one; give pool=rows")
        seed = self.fitted_["seed"] if random_state is None else random_state
        index = torch.arange(len(x), device=x.device) if pool is None else None
        made = torch.empty(len(x), n_views, *x.shape[1:])
        with torch.no_grad():
            if self.method_.borrows:
                self.method_.prepare(borrowed, seed)
            for number in range(n_views):
                generator = stream(seed, "views", number, device=x.device)
                for start in range(0, len(x), BLOCK):
                    part = slice(start, start + BLOCK)
                    own = None if index is None else index[part]
                    view = self.method_.view(x[part], index=own, generator=generator)
                    made[part, number] = self.scaler_.inverse(view).cpu()
        return made.numpy()

    @property
    def outputs_(self) -> tuple[str, ...]:
        """Names that ``transform(output=...)`` takes."""
        return ("representation", "projection")

    @property
    def _n_features_out(self) -> int:
        return int(self.options_.n_components)

    # ---- saving ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as a run folder; an existing model there is replaced only if it is of this configuration."""
        check_is_fitted(self)
        folder = RunFolder(path)
        folder.open_for(self._config(self.context_), resume=True)
        folder.write_initial(self.initial_)
        folder.write_model(self._weights())
        folder.write_summary(self.summary_)
        folder.write_metrics(self.metrics_)

    @classmethod
    def _load(cls, folder: RunFolder, config: dict[str, Any]) -> Self:
        options = check_options(cls, config["parameters"])
        estimator = cls(**vars(options))
        estimator.options_, estimator.fitted_ = options, dict(config["fitted"])
        estimator.context_ = {"data": config["data"]} if "data" in config else {}
        estimator.n_features_in_ = estimator.fitted_["n_features"]
        if estimator.fitted_["named"]:
            estimator.feature_names_in_ = np.asarray(estimator.fitted_["feature_names"], dtype=object)
        trained, initial = folder.read_weights()
        estimator.scaler_ = Scaler(estimator.n_features_in_)
        estimator.method_ = estimator._build(options, estimator.fitted_)
        load_weights(estimator._modules(), trained, str(folder.model))
        estimator.initial_ = initial
        estimator.metrics_, estimator.summary_ = folder.read_metrics(), folder.read_summary()
        estimator.status_ = estimator.summary_.get("status", "finished")
        estimator.warnings_ = list(estimator.summary_.get("warnings", []))
        estimator._to_device()
        return estimator

    def untrained(self, X: Any) -> Self:
        """A copy with the weights from before training and BatchNorm statistics from one pass over the rows of `X`."""
        check_is_fitted(self)
        other = copy.copy(self)
        other.scaler_, other.method_ = copy.deepcopy(self.scaler_), copy.deepcopy(self.method_)
        load_weights(other._modules(), self.initial_, "the initial weights")
        _refresh_batch_norm(other.method_, self._scaled(self._rows(X, reset=False)))
        return other

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _rows(self, X: Any, *, reset: bool) -> np.ndarray:
        """float32 rows from what the user gave, checked."""
        if hasattr(X, "detach"):
            X = to_rows(X)[0]
        rows = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=np.float32,
            ensure_all_finite=False,
            ensure_min_samples=2 if reset else 1,
        )
        rows = np.ascontiguousarray(rows.toarray() if hasattr(rows, "toarray") else rows)
        names = getattr(self, "feature_names_in_", None)
        check_finite(rows, None if names is None else [str(n) for n in names], getattr(self, "impute", "none"))
        return rows

    def _fresh(self, options: SimpleNamespace, x: Tensor) -> Method:
        with torch.random.fork_rng([]):
            torch.manual_seed(derive_seed(self.fitted_["seed"], "init"))
            method = self._build(options, self.fitted_)
        axes = principal_axes(method)
        if axes is not None:
            axes.fit(x)
        return method

    def _train(
        self, x: Tensor, device: torch.device, folder: RunFolder | None, *, resume: bool, context: dict[str, Any]
    ) -> None:
        options, began = self.options_, datetime.now(UTC)
        history = History(folder.metrics if folder else None)
        callbacks = [Diagnostics(), history]
        if options.verbose:
            callbacks.append(ProgressBar())
        trainer = Trainer(
            self.method_,
            seed=self.fitted_["seed"],
            batch_size=options.batch_size,
            device=device,
            precision=options.precision,
            callbacks=callbacks,
            minutes=options.minutes,
            checkpoint=folder.checkpoint if folder else None,
            checkpoint_every=options.checkpoint_every,
            interruptible=folder is not None,
        )
        started = time.perf_counter()
        self.status_ = trainer.fit(x, resume=resume)
        self.metrics_ = history.rows
        self.context_ = context
        self.warnings_ = collapse_warnings(history.rows)
        if self.status_ != "finished":
            warnings.warn(
                f"training ended early ({self.status_}) after {trainer.epochs_done} of {trainer.epochs} epochs; "
                "the model is usable, and a run folder can be gone on with by resume",
                UserWarning,
                stacklevel=3,
            )
        self.summary_ = {
            "method": self.name,
            "status": self.status_,
            "date": began.isoformat(timespec="seconds"),
            "seed": self.fitted_["seed"],
            "epochs": trainer.epochs_done,
            "steps": trainer.steps,
            "rows": len(x),
            "seconds": {"training": round(trainer.age, 3), "this session": round(time.perf_counter() - started, 3)},
            "device": str(device),
            "processes": distributed.world_size(),
            "warnings": self.warnings_,
            **environment(),
            **({"split": context["split"]} if "split" in context else {}),
        }
        self._to_device()
        if folder and distributed.rank() == 0:
            folder.write_model(self._weights())
            folder.write_summary(self.summary_)

    def _config(self, context: dict[str, Any]) -> dict[str, Any]:
        """All that rebuilds the model: method, parameters, where the data came from, what fit resolved."""
        parameters = {k: v for k, v in self.get_params(deep=False).items() if k not in _NOT_CONFIGURATION}
        parameters["random_state"] = self.fitted_["seed"]
        config = {"viewsmith": viewsmith.__version__, "method": self.name, "parameters": parameters}
        if "data" in context:
            config["data"] = context["data"]
        return config | {"fitted": self.fitted_}

    def _modules(self) -> nn.ModuleDict:
        return nn.ModuleDict({"scaler": self.scaler_, "method": self.method_})

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.detach().cpu().clone() for name, value in self._modules().state_dict().items()}

    def _to_device(self) -> None:
        device = _device(self.options_.device)
        self.scaler_.to(device)
        self.method_.to(device).eval()

    def _scaled(self, rows: np.ndarray) -> Tensor:
        with torch.no_grad():
            return self.scaler_(torch.from_numpy(rows).to(self.scaler_.scale.device))


# What changes where and how long a run is made, not what it is: a resumed run may change these.
_NOT_CONFIGURATION = ("verbose", "minutes", "device", "checkpoint_every")


def _blocks(x: Tensor) -> Iterator[tuple[Tensor, int]]:
    """Blocks of one size with their counts of rows, the last filled up: matrix products then round alike."""
    for start in range(0, len(x), BLOCK):
        block = x[start : start + BLOCK]
        count = len(block)
        if count < BLOCK:
            block = torch.cat([block, block.new_zeros(BLOCK - count, *block.shape[1:])])
        yield block, count


def fingerprint(x: np.ndarray) -> str:
    """Short name of an array's content."""
    return hashlib.sha256(np.ascontiguousarray(x).data).hexdigest()[:16]


def _seed(random_state: Any) -> int:
    expected = "expected a non-negative integer, a RandomState or None"
    if isinstance(random_state, int):
        if random_state < 0:
            raise InputError(f"random_state is {random_state}, {expected}")
        return random_state
    try:
        return int(check_random_state(random_state).randint(0, 2**31 - 1))
    except ValueError:
        raise InputError(f"random_state is {random_state!r}, {expected}") from None


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if re.fullmatch(r"cpu|cuda(:\d+)?", name) is None:
        raise InputError(f"device is {name!r}, expected 'auto', 'cpu', 'cuda' or 'cuda:N'")
    if name != "cpu" and not torch.cuda.is_available():
        raise InputError(f"device is {name!r}, but this machine has no usable GPU: use device='cpu' or 'auto'")
    return torch.device(name)


@torch.no_grad()
def _refresh_batch_norm(method: Method, x: Tensor) -> None:
    norms = [m for m in method.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # plain average over the pass
    method.train()
    for block in x.split(256):
        if len(block) > 1:
            method.represent(block)
    method.eval()
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
