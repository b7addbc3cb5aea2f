"""What all estimators share: scikit-learn's verbs around a method, its input and the engine."""

from __future__ import annotations

import contextlib
import copy
import numbers
import os
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from viewsmith.core import distributed
from viewsmith.core.errors import InputError
from viewsmith.core.method import Method
from viewsmith.core.random import derive_seed
from viewsmith.core.samples import Rows, Samples
from viewsmith.core.tensors import load_weights
from viewsmith.core.version import __version__
from viewsmith.domains.checks import check_finite, to_rows
from viewsmith.estimators.arguments import Arguments, with_shared
from viewsmith.estimators.build.channels import follow_channel
from viewsmith.estimators.build.resolve import CHANNEL, RESOLVED, resolve
from viewsmith.estimators.fitting import check_rows_per_process, find_device, find_seed, refresh_batch_norm, train
from viewsmith.estimators.options import check_options
from viewsmith.estimators.rows import (
    Draw,
    array_rows,
    blocks,
    domain_of,
    draw_views,
    fingerprint,
    fit_input,
    make_input,
    raw_features,
)
from viewsmith.estimators.strength import resolve_strength
from viewsmith.networks.inputs.scaling import PrincipalAxes
from viewsmith.training.run import RunFolder


@dataclass(kw_only=True, eq=False, repr=False)
class ViewsmithEstimator(Arguments, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """fit, transform, views, save. Subclasses add their own arguments and build their method in `_build`."""

    name: ClassVar[str]  # as on the command line
    presets: ClassVar[dict[str, dict[str, Any]]] = {}  # by name, for vectors, or name-domain
    strength_option: ClassVar[str]  # the argument that may be "auto" and is then chosen without labels
    trial_options: ClassVar[dict[str, Any]] = {}  # what else the short trainings of that choice change
    resolved_options: ClassVar[tuple[str, ...]] = ()  # names that `_resolve` adds to what fit keeps

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__doc__ = with_shared(cls.__doc__ or "")

    # ---- to be written by subclasses ------------------------------------------------------------------------------

    def _build(self, settings: SimpleNamespace) -> Method:
        """The method with fresh weights."""
        raise NotImplementedError

    def reads_labels(self) -> bool:
        """Whether fit needs labels: with one ablation of DiffAug alone."""
        return False

    def _defaults(self, options: SimpleNamespace, domain: str, row_shape: tuple[int, ...]) -> None:
        """What this method takes for "auto" where it differs from the others."""
        if CHANNEL in options.view_maker:
            follow_channel(options, domain, row_shape)

    def _resolve(self, options: SimpleNamespace, resolved: dict[str, Any], x: Rows) -> dict[str, Any]:
        """The settings of this method alone that "auto" leaves to the data; `resolved` are the shared ones."""
        return {}

    # ---- scikit-learn ---------------------------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.impute == "median"
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
        X : array-like, n samples
            At least two. Vectors: array, DataFrame, tensor or sparse matrix (n, d), finite (missing values need
            ``impute="median"``). Images: uint8 (n, H, W) or (n, H, W, 1 or 3). DNA: texts, or ASCII letters, uint8
            (n, L), 0 after the end of a shorter sequence.
        y : ignored, but by DiffAug with ``condition="labels"``
        run : path, optional
            Folder that keeps the run: configuration, metrics, checkpoints while training, weights, summary.
        resume : bool
            Go on with the run in that folder; with nothing there, start.
        context : dict, optional
            Where the data come from, kept with the run; see `viewsmith.workflows.runs.data_record`.

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
        domain = domain_of(X, options.domain)
        rows = self._rows(X, domain, None)
        self._defaults(options, domain, rows.shape[1:])
        folder = RunFolder(run) if run is not None else None
        if folder and context is None:
            context = {"data": {"fingerprint": fingerprint(rows)}}
        if folder and resume and folder.exists() and options.random_state is None:
            options.random_state = folder.read_config().get("parameters", {}).get("random_state")
        device = find_device(options.device)
        check_rows_per_process(len(rows), options.batch_size)
        seed = distributed.any_says(find_seed(options.random_state), device)
        raw = torch.from_numpy(rows)
        scaler: Any = make_input(domain, rows.shape[1:])
        fitted: dict[str, Any] = {"domain": domain, "row_shape": list(rows.shape[1:]), "seed": seed}
        fitted["scaling"] = fit_input(scaler, raw, options.scaling)
        if domain == "images":
            fitted |= {"pixel_mean": scaler.center.tolist(), "pixel_scale": scaler.scale.tolist()}
        x: Rows = scaler(raw) if domain == "vectors" else Samples(raw, scaler)
        fitted |= resolve(options, domain, x, device)
        if hasattr(options, "channel_from"):
            fitted["channel_from"] = options.channel_from
        fitted |= self._resolve(options, fitted, x)
        fitted |= resolve_strength(self, options, fitted, rows, seed)
        names = (context or {}).get("feature_names")
        fitted["named"] = hasattr(self, "feature_names_in_")
        fitted["feature_names"] = [str(n) for n in (self.feature_names_in_ if fitted["named"] else names or [])]
        self.options_, self.fitted_ = options, fitted
        self.scaler_: Any = scaler
        method = self._fresh(x)

        # With several processes all read the folder and the first one writes it.
        first = distributed.rank() == 0
        going_on = folder.open_for(self._config(context or {}), resume=resume) if folder and first else False
        going_on = distributed.first_says(going_on, device)
        self.method_, self.context_ = method, context or {}
        self.initial_ = self._weights()
        if folder and first and not folder.initial.exists():
            folder.write_initial(self.initial_)
        train(self, x, device, folder, resume=going_on)
        return self

    def transform(self, X: Any, *, output: str = "representation") -> np.ndarray:
        """Representations of samples, float32 (n, n_components), or another output by name (`outputs_`).

        A sample's result does not depend on the samples given with it.
        """
        check_is_fitted(self)
        if output not in self.outputs_:
            raise InputError(f"output is {output!r}, expected one of {', '.join(map(repr, self.outputs_))}")
        rows = self._known_rows(X)
        with torch.no_grad():
            parts = [
                self.method_.represent(self._scaled(block), output).float()[:count].cpu().numpy()
                for block, count in blocks(torch.from_numpy(rows), self._views_a_row)
            ]
        return np.concatenate(parts)

    def scaled(self, X: Any) -> np.ndarray:
        """Samples as the model scales them, float32: vectors (n, d), images (n, C, H, W), DNA (n, 4, L)."""
        check_is_fitted(self)
        return self._scaled(self._known_rows(X)).cpu().numpy()

    def raw_features(self, X: Any) -> dict[str, np.ndarray]:
        """What a user would take without a model, float32 (n, d) by name; the best of them is compared with."""
        check_is_fitted(self)
        return raw_features(self._known_rows(X), self.fitted_["domain"], self.scaler_)

    def views(self, X: Any, n_views: int = 4, *, random_state: int | None = None, pool: Any = None) -> np.ndarray:
        """Augmented views of samples, (n, n_views, ...), in the units and dtype of the data.

        Parameters
        ----------
        X : array-like, n samples
        n_views : int
        random_state : int, optional
            Default: the seed of the fit, so that repeated calls give the same views.
        pool : array-like, optional
            Samples that view makers borrow from (neighbors, corruption, mixup); default: `X` itself.
        """
        check_is_fitted(self)
        with self._borrowing(X, n_views, random_state, pool) as (x, index, seed):

            def view(part: slice, generator: torch.Generator) -> Tensor:
                own = None if index is None else index[part]
                return self.method_.view(x[part], index=own, generator=generator)

            return self._drawn(X, x, view, n_views, seed)

    def _drawn(self, X: Any, x: Rows, view: Draw, n_views: int, seed: int) -> np.ndarray:
        """Views of X, scaled x, in the units of the data, (n, n_views, ...)."""

        def inverse(part: slice, generator: torch.Generator) -> Tensor:
            made: Tensor = self.scaler_.inverse(view(part, generator))
            return made

        views = draw_views(inverse, x, n_views, seed)
        if self.fitted_["domain"] != "images":
            return views
        # A model of gray images takes them with and without their one channel; crops are smaller than their image.
        height, width = views.shape[2:4]
        return views.reshape(*views.shape[:2], height, width, *np.shape(X)[3:])

    @property
    def outputs_(self) -> tuple[str, ...]:
        """Names that ``transform(output=...)`` takes."""
        return ("representation", "projection")

    @property
    def _n_features_out(self) -> int:
        return int(self.fitted_["n_components"])

    @property
    def _views_a_row(self) -> int:
        """Views that a row of `transform` is taken over."""
        return 1

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
    def _load(cls, folder: RunFolder, config: dict[str, Any], own: dict[str, Any]) -> Self:
        """The model of a run; `own` are the parts that no text describes, by argument."""
        options = check_options(cls, {**config["parameters"], **own})
        estimator = cls(**vars(options))
        estimator.options_, estimator.fitted_ = options, dict(config["fitted"])
        estimator.context_ = {"data": config["data"]} if "data" in config else {}
        fitted = estimator.fitted_
        for name in (*RESOLVED, *cls.resolved_options):
            _ = fitted[name]  # a KeyError names what a damaged file lacks
        estimator.n_features_in_ = int(np.prod(fitted["row_shape"]))
        if fitted["named"]:
            estimator.feature_names_in_ = np.asarray(fitted["feature_names"], dtype=object)
        trained, initial = folder.read_weights()
        estimator.scaler_ = make_input(fitted["domain"], fitted["row_shape"])
        estimator.method_ = estimator._build(estimator._settings(fresh=False))
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
        refresh_batch_norm(other.method_, other._samples(X))
        return other

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _rows(self, X: Any, domain: str, row_shape: list[int] | None) -> np.ndarray:
        """float32 vectors, uint8 images or letters from what the user gave, checked; `row_shape` None: to be fitted."""
        fresh = row_shape is None
        if domain != "vectors":
            rows = array_rows(X, domain, row_shape)
            if fresh:
                if len(rows) < 2:
                    raise InputError(f"the data hold {len(rows)} sample (n_samples={len(rows)}), expected at least 2")
                self.n_features_in_ = int(np.prod(rows.shape[1:]))
                if hasattr(self, "feature_names_in_"):  # of an earlier fit on a DataFrame
                    del self.feature_names_in_
            return np.ascontiguousarray(rows)
        if hasattr(X, "detach"):
            X = to_rows(X)[0]
        if getattr(X, "ndim", 2) > 2 and self.domain == "vectors":
            X = np.reshape(X, (len(X), -1))
        rows = validate_data(
            self,
            X,
            reset=fresh,
            accept_sparse="csr",
            dtype=np.float32,
            ensure_all_finite=False,
            ensure_min_samples=2 if fresh else 1,
        )
        rows = np.ascontiguousarray(rows.toarray() if hasattr(rows, "toarray") else rows)
        names = getattr(self, "feature_names_in_", None)
        check_finite(rows, None if names is None else [str(n) for n in names], self.impute)
        return rows

    def _known_rows(self, X: Any) -> np.ndarray:
        return self._rows(X, self.fitted_["domain"], self.fitted_["row_shape"])

    @contextlib.contextmanager
    def _borrowing(
        self, X: Any, n_views: int, random_state: int | None, pool: Any
    ) -> Iterator[tuple[Rows, Tensor | None, int]]:
        """Scaled samples, their positions in the pool and the seed, while the method has the rows it borrows from."""
        if not isinstance(n_views, numbers.Integral) or n_views < 1:
            raise InputError(f"n_views is {n_views!r}, expected a whole number of at least 1")
        x = self._samples(X)
        borrowed = x if pool is None else self._samples(pool)
        seed = self.fitted_["seed"] if random_state is None else random_state
        try:
            if self.method_.needs_pool:
                if len(borrowed) < 2:
                    raise InputError(
                        "views borrow from other rows: expected at least two rows, got one; give pool=rows"
                    )
                with torch.no_grad():
                    self.method_.prepare(borrowed, seed)
            yield x, torch.arange(len(x), device=x.device) if pool is None else None, seed
        finally:
            self.method_.release()

    def _settings(self, *, fresh: bool) -> SimpleNamespace:
        """Options with what fit resolved in place of "auto"; `fresh`: weights to start from are to be read."""
        given = vars(self.options_)
        weights = given["encoder_weights"] if fresh else None
        further = {"module": given["encoder"], "weights": weights, "fresh": fresh}
        return SimpleNamespace(**{**given, **self.fitted_, **further})

    def _fresh(self, x: Rows) -> Method:
        with torch.random.fork_rng([]):
            torch.manual_seed(derive_seed(self.fitted_["seed"], "init"))
            method = self._build(self._settings(fresh=True))
        axes = [m for m in method.modules() if isinstance(m, PrincipalAxes)]
        for number, each in enumerate(axes):  # the encoder's, and its momentum copy's
            each.fit(x[:]) if number == 0 else each.load_state_dict(axes[0].state_dict())
        return method

    def _config(self, context: dict[str, Any]) -> dict[str, Any]:
        """All that rebuilds the model: method, parameters, where the data came from, what fit resolved."""
        parameters = {k: v for k, v in self.get_params(deep=False).items() if k not in _NOT_CONFIGURATION}
        parameters["random_state"] = self.fitted_["seed"]
        for name, value in parameters.items():
            if isinstance(value, nn.Module):
                parameters[name] = f"module:{type(value).__name__}"
        config = {"viewsmith": __version__, "method": self.name, "parameters": parameters}
        if "data" in context:
            config["data"] = context["data"]
        return config | {"fitted": self.fitted_}

    def _modules(self) -> nn.ModuleDict:
        return nn.ModuleDict({"scaler": self.scaler_, "method": self.method_})

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.detach().cpu().clone() for name, value in self._modules().state_dict().items()}

    def _to_device(self) -> None:
        device = find_device(self.options_.device)
        self.scaler_.to(device)
        self.method_.to(device).eval()

    def _samples(self, X: Any) -> Rows:
        """What the user gave as scaled samples on the model's device; images and DNA are scaled when taken."""
        rows = self._known_rows(X)
        if self.fitted_["domain"] == "vectors":
            return self._scaled(rows)
        return Samples(torch.from_numpy(rows).to(next(self.scaler_.buffers()).device), self.scaler_)

    def _scaled(self, rows: np.ndarray | Tensor) -> Tensor:
        with torch.no_grad():
            return self.scaler_(torch.as_tensor(rows).to(next(self.scaler_.buffers()).device))


# What changes where and how long a run is made, not what it is: a resumed run may change these.
_NOT_CONFIGURATION = ("verbose", "minutes", "device", "checkpoint_every")
