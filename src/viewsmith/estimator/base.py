"""Base class of the estimators: scikit-learn's methods for a contrastive method, its input, training and saving."""

import contextlib
import copy
import dataclasses
import numbers
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from viewsmith.core import distributed
from viewsmith.core.errors import InputError, check, join_names
from viewsmith.core.registry import wrapped
from viewsmith.core.samples import Rows
from viewsmith.core.schedule import Method
from viewsmith.core.tensors import AllocationLimit, load_weights
from viewsmith.data import Dataset
from viewsmith.estimator import fitting, inputs, resolve
from viewsmith.estimator.arguments import Arguments, filled, with_shared
from viewsmith.estimator.figures import as_dataset, shared_figures
from viewsmith.estimator.model import build_fresh, fixed_features
from viewsmith.estimator.options import (
    Signature,
    check_options,
    check_parts,
    constructor,
    expanded,
    no_option,
    places,
    route_options,
    slots,
)
from viewsmith.estimator.plan import (
    BuildContext,
    Facts,
    TrainingData,
    check_packages,
    collected,
    configuration,
    device_of,
    drawn,
    embed_views,
    fingerprint,
    of_record,
    prepared,
    reach_of,
    read_encoder,
    recorded,
    represent_blocks,
    some_of,
    unscaled,
    warn_off_scale,
)
from viewsmith.modalities import Modality, detect, modality_of
from viewsmith.modalities.tables import table_of
from viewsmith.reports import Figure, MapPlot, ReportContent, png_files
from viewsmith.reports.figure import LAYOUTS, plot_map
from viewsmith.training.run import RunFolder

PICTURED = 500  # rows

for part in slots(Arguments).values():  # here, where all that is listed has been registered
    part.__doc__ = wrapped("".join(filled([part.__doc__ or ""])))


@dataclass(kw_only=True, eq=False, repr=False, init=False)
class ViewsmithEstimator(Arguments, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """fit, transform, views, save. Subclasses add arguments and build their method in `_build`."""

    name: ClassVar[str]  # on the command line
    presets: ClassVar[dict[str, dict[str, Any]]] = {}  # "NAME" for vectors, "NAME-MODALITY" for other modalities
    preset_needs: ClassVar[dict[str, dict[str, str]]] = {}  # by preset: options that must be given, and what they are
    frameworks: ClassVar[tuple[str, ...]] = ("*",)  # that the method accepts; "*": all general ones
    facts_type: ClassVar[type[Facts]] = Facts
    streams_views: ClassVar[bool] = True  # `described_views` are `views` alone, which can be made block by block
    outputs: ClassVar[dict[str, str]] = {}  # of `transform`, by name of the additional row of an evaluation
    trains: ClassVar[bool] = True  # by gradient steps on batches
    strength_option: ClassVar[str] = "noise_strength"  # the argument that is chosen without labels if it is "auto"
    trial_options: ClassVar[dict[str, Any]] = {}  # changed arguments in the short trainings of that choice

    __signature__: ClassVar[Any] = Signature()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__doc__ = with_shared(cls, cls.__doc__ or "")
        if "__init__" not in cls.__dict__:
            cls.__init__ = constructor(cls)  # type: ignore[method-assign]

    def __init__(self, **options: Any) -> None:
        """Store parts and options, which `fit` checks; an option of no part is one of a part that is named."""
        try:
            self._store({field.name: field.default for field in dataclasses.fields(self)}, options)
        except InputError as error:  # as Python says it of arguments
            raise TypeError(str(error)) if str(error).startswith(f"{type(self).__name__} has no") else error from None

    def _store(self, before: dict[str, Any], options: Mapping[str, Any]) -> None:
        """Set options beside those from `before`; raises InputError for one that neither the estimator has, nor a
        part that it names."""
        cls: type = type(self)
        given = expanded(cls, options)
        wrong = given.keys() & slots(cls).keys() - before.keys()  # no parts, which `fit` refuses
        values = before | given
        if given.keys() - wrong - before.keys():
            values, _ = route_options(cls, {name: value for name, value in values.items() if name not in wrong})
            values |= {name: given[name] for name in wrong}
        if unknown := values.keys() - before.keys() - wrong:
            raise no_option(cls, min(unknown))
        for name, value in values.items():
            setattr(self, name, value)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text = ", ".join(f"{name}={value!r}" for name, value in self._changed().items())
        return f"{type(self).__name__}({text if len(text) <= N_CHAR_MAX else f'{text[:N_CHAR_MAX]}...'})"

    def _changed(self) -> dict[str, Any]:
        values = {field.name: (getattr(self, field.name), field.default) for field in dataclasses.fields(self)}
        return {name: value for name, (value, default) in values.items() if repr(value) != repr(default)}

    def _get_params_html(self, deep: bool = True, **links: Any) -> Any:  # of scikit-learn's picture of it
        shown, changed = super()._get_params_html(deep=False, **links), self._changed()
        for name in shown.keys() - changed.keys():
            del shown[name]
        return shown

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(field.name for field in dataclasses.fields(cls))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options by name; if `deep`, also with the names of their parts before them, as in `set_params`."""
        cls: type = type(self)
        found = {name: getattr(self, name) for name in self._get_param_names()}
        of_parts = {name: slot for name, slot in places(cls).items() if deep and slot in slots(cls)}
        return found | {f"{slot}__{name}": found[name] for name, slot in of_parts.items()}

    def set_params(self, **options: Any) -> Self:
        """Set options by name, also as ``PART__OPTION`` and by parts."""
        self._store(self.get_params(deep=False), options)
        return self

    # ---- implemented by subclasses --------------------------------------------------------------------------------

    def _build(self, plan: BuildContext[Any]) -> Method:
        """Build the method with fresh weights."""
        raise NotImplementedError

    def reads_labels(self) -> bool:
        """Whether fit needs labels: with supervision, with supcon, and in one ablation of DiffAug."""
        return self.supervision != "none" or inputs.framework_reads_labels(self.framework)

    def _adapt(self, options: Any, modality: Modality, rows: Any, signal: Mapping[str, Any]) -> Any:
        """Adapt the arguments to the modality, the rows and what a file says of them (`inputs.signal_of`), before rows
        are scaled."""
        if options.view_maker == "auto" and (own := modality.views_for(rows)) is not None:
            given = own[1] | (options.view_options or {})
            options = dataclasses.replace(options, view_maker=own[0], view_options=given)
        if options.view_maker != "auto":
            for entry in resolve.view_entries(options.view_maker, modality):
                if adapt := entry.tag("adapt"):
                    options = adapt(options, modality, rows.shape[1:])
        return resolve.with_batch_size(options, modality, rows.shape[1:])

    def _skip(self, given: Any, options: Any, data: TrainingData) -> dict[str, Any]:
        """Options of the encoder for columns that are not learned, if the user's do not say."""
        return dict(resolve.default_skip(given, options, data))

    def _resolve(self, given: Any, options: Any, data: TrainingData) -> tuple[Any, dict[str, Any], Any]:
        """Resolve "auto" of this method: its options, of which those of all methods have values; further facts of
        `facts_type`; and what only a new model needs in `_build`. `given` are the options before."""
        return options, {}, None

    # ---- scikit-learn ---------------------------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.impute == "median"
        tags.non_deterministic = False
        tags.transformer_tags.preserves_dtype = []
        return tags

    @torch.inference_mode(False)  # the caller may have turned gradients off
    @torch.enable_grad()
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        neighbors: Any = None,
        groups: Any = None,
        run: str | os.PathLike[str] | None = None,
        resume: bool = False,
        context: dict[str, Any] | None = None,
    ) -> Self:
        """Learn representations of the rows of `X`; labels are used only if a setting asks for them.

        Parameters
        ----------
        X : array-like, n samples
            At least two. Vectors: array, tensor, sparse matrix, DataFrame or AnnData. Images: uint8, uint16 or
            float32 (n, H, W, C), C up to 500, or (n, H, W). DNA: strings, or ASCII letters, uint8 (n, L), 0 after the
            end. Or a map-style dataset of them.
        y : array-like, optional
            Ignored, except with ``supervision``, the framework supcon, and DiffAug's ``condition="labels"``.
        neighbors : sparse matrix (n, n) or int array (n, k), optional
            Neighbor graph of the rows of `X` for views that use one (neighbors, neighbor-mix), instead of a search:
            every stored entry is an edge, whatever its value, and all are equally likely. It is not saved with the run.
        groups : array-like (n,), optional
            Group of each row (batch, subject), for ``group_mode="align"``.
        run : path, optional
            Folder in which the run is saved: configuration, metrics, checkpoints during training, weights, summary.
        resume : bool
            Resume the run in that folder; start a new run if the folder has none.
        context : dict, optional
            Origin of the data, saved with the run; see `viewsmith.workflows.runs.data_record`.

        Raises
        ------
        InputError
            Invalid data or options, a folder with other content, a damaged checkpoint.
        TrainingError
            The loss became infinite or NaN.
        """
        check_parts(self)
        resolve.check_objects(self.get_params(deep=False))
        given = fitting.Given.of(check_options(type(self), self.get_params(deep=False)), run, resume, context)
        given, data = self._training_data(given, X, y, neighbors, groups)
        plan = self._plan(given, data)
        self._make(plan, data)
        return self._train(plan, data, given, X)

    def transform(self, X: Any, *, output: str = "representation") -> np.ndarray:
        """Compute representations of samples, float32 (n, n_components), or another output by name (`outputs_`).

        The result for a sample does not depend on the other samples.
        """
        return collected(*self._represented(X, output))

    def transform_blocks(self, X: Any, *, output: str = "representation") -> Iterator[np.ndarray]:
        """What `transform` returns, block by block in order: for more rows than memory holds."""
        return self._represented(X, output)[0]

    def scaled(self, X: Any) -> np.ndarray:
        """Scale samples as the model does, float32: vectors (n, d), images (n, C, H, W), DNA (n, 4, L)."""
        check_is_fitted(self)
        return self.scale_rows(self.checked_rows(X)).cpu().numpy()

    @property
    def encoder_(self) -> nn.Module:
        """The trained encoder: from scaled samples, see `scaled`, to representations; in CRL-TAC, of single views."""
        check_is_fitted(self)
        framework = getattr(self.method_, "framework", None)
        return self.method_.get_submodule("encoder") if framework is None else framework.output_networks[0]

    def raw_features(self, X: Any) -> dict[str, np.ndarray]:
        """Features without a model, a dict from name to float32 (n, d); evaluations compare with the best of them."""
        check_is_fitted(self)
        return self.modality_.raw_features(self.checked_rows(X), self.scaler_)

    @property
    def default_features(self) -> str:
        """Name of the fixed features of the modality, which evaluations compare with; empty: there are none."""
        check_is_fitted(self)
        return self.modality_.default_features

    def fixed_features(self, X: Any, *others: Any) -> list[np.ndarray]:
        """The modality's fixed features, fitted to samples `X` without labels: float32 (n, k), of `X` and of others."""
        check_is_fitted(self)
        return fixed_features(self, X, *others)

    def views(self, X: Any, n_views: int = 4, *, random_state: int | None = None, pool: Any = None) -> np.ndarray:
        """Draw augmented views, (n, n_views, ...): vectors in float32, others in the dtype of the data, in its units.

        Views of a mixed table are a DataFrame.

        Parameters
        ----------
        X : array-like, n samples
        n_views : int
        random_state : int, optional
            Default: the seed of the fit, so that repeated calls give the same views.
        pool : array-like, optional
            Samples from which view makers draw other rows (neighbors, corruption, mixup); default: `X`, in which no
            row is its own neighbor; in a given pool a sample that is there, too, is its own nearest one.
        """
        check_is_fitted(self)
        with self._prepared(X, n_views, random_state, pool) as (x, index, seed):
            views = collected(drawn(self, X, x, index, n_views, seed), len(x))
        return views if self.table_ is None else self.table_.in_form_of(views, X, pool)

    def view_blocks(
        self, X: Any, n_views: int = 4, *, random_state: int | None = None, pool: Any = None
    ) -> Iterator[np.ndarray]:
        """What `views` returns, block by block in order: for more views than memory holds."""
        check_is_fitted(self)
        with self._prepared(X, n_views, random_state, pool) as (x, index, seed):
            yield from drawn(self, X, x, index, n_views, seed)

    def represented_views(self, X: Any, *, pool: Any = None) -> np.ndarray:
        """Representations of one view of each sample, (n, n_components), as in the diagnostics of the training."""
        check_is_fitted(self)
        with self._prepared(X, 1, None, pool if self.method_.needs_pool else None) as (x, index, seed):
            return collected(embed_views(self.method_, x, index, seed), len(x))

    def described_views(
        self, X: Any, n_views: int | None = None, *, random_state: int | None = None, pool: Any = None
    ) -> dict[str, np.ndarray]:
        """``views`` of samples (default: 4 of each), and what else the method provides for each sample, by name."""
        return {"views": self.views(X, n_views or 4, random_state=random_state, pool=pool)}

    def figures(self, dataset: Dataset) -> list[Figure]:
        """Figures of the model and the data (test rows if there are any) for a report; subclasses add more."""
        return shared_figures(self, self.views, dataset)

    def pictures(self, X: Any, y: Any = None) -> dict[str, bytes]:
        """The figures as PNG files by name, of at most `PICTURED` rows evenly spread over `X`; `y` colors the maps."""
        check_is_fitted(self)
        figures = self.figures(as_dataset(self, X, y, PICTURED))
        return png_files(ReportContent(self.name, self.name, figures=figures))

    def plot(self, X: Any, color: Any = None, *, by: str = "tsne", title: str = "") -> MapPlot:
        """Draw a map of the representations: a notebook shows it, and its `save` writes .png, .svg or .pdf.

        Parameters
        ----------
        X : array-like, n samples
            Of more than 1,500, a random sample is drawn (seed 0).
        color : array-like (n,), optional
            Classes or numbers that color the rows; a missing one is None, NaN or empty text.
        by : {"tsne", "umap", "pca", "map"}
            How the representation becomes two-dimensional. "umap" needs the extra ``viz``; "map" is the one that
            DiffAug has learned.
        title : str
            Title of the legend.
        """
        check(by in LAYOUTS, "by", repr(by), join_names(list(LAYOUTS)))
        return plot_map(self.transform(X, output="map" if by == "map" else "representation"), color, by, title)

    @property
    def outputs_(self) -> tuple[str, ...]:
        """Values of ``output`` that `transform` accepts."""
        return ("representation", "projection")

    @property
    def fitted_(self) -> dict[str, Any]:
        """Settings that fit resolved from the data, plain values by name."""
        return recorded(self.get_params(deep=False), self.options_, self.facts_)

    @property
    def modality_(self) -> Modality:
        """Modality of the samples."""
        return modality_of(self.facts_.modality)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns of `transform`; `input_features` are compared with those of fit, if rows have any."""
        has_names = not hasattr(self, "facts_") or self.modality_.named_features
        return np.asarray(super().get_feature_names_out(input_features if has_names else None))

    @property
    def _n_features_out(self) -> int:
        return int(self.options_.n_components)

    @property
    def _views_per_sample(self) -> int:
        """Number of views that `transform` computes for each sample."""
        return 1

    # ---- saving ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as a run folder; a model in the folder is replaced only if it has the same configuration."""
        check_is_fitted(self)
        folder = RunFolder(path)
        with folder.locked():
            if folder.open_for(config := self.configuration(), resume=True):
                folder.replace_other(config)
            folder.write_initial(self.initial_)
            folder.write_model(self.weights())
            folder.write_summary(self.summary_)
            folder.write_metrics(self.metrics_)

    @classmethod
    def _load(cls, folder: RunFolder, config: dict[str, Any], custom: dict[str, Any]) -> Self:
        """Load the model of a run; `custom` has its custom parts by argument name."""
        estimator = cls._described(config, custom, folder.config)
        trained, initial = folder.read_weights()
        with AllocationLimit(trained, folder.config):
            estimator._make_modules()
        load_weights(estimator._modules(), trained, str(folder.model))
        estimator.initial_ = initial
        estimator.metrics_, estimator.summary_ = folder.read_metrics(), folder.read_summary()
        estimator.status_ = estimator.summary_.get("status", "finished")
        estimator.warnings_ = list(estimator.summary_.get("warnings", []))
        estimator._to_device()
        return estimator

    @classmethod
    def _described(cls, config: Mapping[str, Any], custom: dict[str, Any], where: object) -> Self:
        """An estimator with the settings of a configuration, which is that of `where`, without modules."""
        resolve.check_objects(custom)
        estimator = cls(**vars(check_options(cls, {**config["parameters"], **custom})))
        options, facts = of_record(estimator, config["fitted"], custom)
        check_packages(facts.packages, where)
        estimator.options_, estimator.facts_ = options, facts
        estimator.context_ = {"data": config["data"]} if "data" in config else {}
        estimator.table_ = read_encoder(facts, where)
        names = facts.feature_names if estimator.table_ is None else list(estimator.table_.roles)
        estimator.n_features_in_ = int(np.prod(facts.row_shape)) if estimator.table_ is None else len(names)
        if facts.named:
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
        return estimator

    def _make_modules(self) -> None:
        """Make the input layer and the method for weights that follow."""
        self.scaler_: Any = self.modality_.layer_for(self.facts_.row_shape, self.facts_.statistics)
        self.method_: Any = self._build(BuildContext(self.options_, self.facts_, layer=self.scaler_))

    def configuration(self, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """Plain values that rebuild the model; before fit only its arguments, with `data` as the record of the data."""
        if not hasattr(self, "facts_"):
            return configuration(self, self.random_state, data, {})
        command = {name: self.context_[name] for name in ("command",) if name in self.context_}
        return command | configuration(self, self.facts_.seed, self.context_.get("data"), self.fitted_)

    def weights(self) -> dict[str, Tensor]:
        """Weights of the input layer and the method, on the CPU."""
        return {name: value.detach().cpu().clone() for name, value in self._modules().state_dict().items()}

    @property
    def given_weights(self) -> bool:
        """Whether the encoder started from weights of the user, not from random ones."""
        options = self.options_
        return options.encoder_weights is not None or isinstance(options.encoder, nn.Module)

    def untrained(self, X: Any) -> Self:
        """A copy with the initial weights, and BatchNorm statistics from one pass over the rows of `X`.

        Statistics of given weights stay as they are.
        """
        check_is_fitted(self)
        other = copy.copy(self)
        other.scaler_, other.method_ = copy.deepcopy(self.scaler_), copy.deepcopy(self.method_)
        load_weights(other._modules(), self.initial_, "the initial weights")
        fitting.refresh_batch_norm(other.method_, other.samples(X))
        return other

    # ---- from user data to scaled samples ---------------------------------------------------------------------------

    def checked_rows(self, X: Any) -> Any:
        """Check that samples have the form of the training samples; returns their rows, an array or a `RowSource`."""
        return self._read(inputs.given_to_model(X, self.options_, self.facts_), self.modality_, self.facts_.row_shape)

    def samples(self, X: Any) -> Rows:
        """Scaled samples of user data on the model's device; images and DNA are scaled when they are indexed."""
        raw, device = unscaled(self.checked_rows(X)), device_of(self.scaler_, self.method_)
        with torch.no_grad():
            return self.modality_.scaled(raw.to(device) if isinstance(raw, Tensor) else raw, self.scaler_).to(device)

    def scale_rows(self, rows: np.ndarray | Tensor) -> Tensor:
        """Scale all rows at once."""
        with torch.no_grad():
            return self.scaler_(torch.as_tensor(rows).to(device_of(self.scaler_, self.method_)))

    def _read(self, X: Any, modality: Modality, row_shape: tuple[int, ...] | None) -> Any:
        """Read and check rows of user data; `row_shape` is None in fit."""
        modality.check_impute(self.impute, "the data")
        rows = modality.read(X, row_shape=row_shape, impute=self.impute, estimator=self)
        if row_shape is None:
            if len(rows) < 2:
                raise InputError(f"the data have {len(rows)} sample (n_samples={len(rows)}), expected at least 2")
            if not modality.named_features:
                self.n_features_in_ = int(np.prod(rows.shape[1:]))
                self.__dict__.pop("feature_names_in_", None)  # of an earlier fit on a DataFrame
        return rows

    # ---- stages of fit ----------------------------------------------------------------------------------------------

    def _training_data(
        self, given: fitting.Given, X: Any, y: Any, neighbors: Any, groups: Any
    ) -> tuple[fitting.Given, TrainingData]:
        """Read, check and scale the rows; with them, options that depend on the form of the data have values."""
        options, context = given.options, given.context
        X, names, normalization = inputs.given_to_fit(X, options, context)
        modality = detect(X, inputs.modality_name(options, context))
        resolve.check_modality(self.name, modality)
        rows = self._read(X, modality, None)
        self.table_, signal = table_of(rows), modality.signal(X) | inputs.signal_of(context)
        options, graph = self._adapt(options, modality, rows, signal), inputs.read_neighbors(neighbors, len(rows))
        if context is None:
            context = {"data": {"fingerprint": fingerprint(rows)} | inputs.graph_record(graph)} if given.folder else {}
        if self.trains:
            fitting.check_batch(len(rows), options.batch_size, chosen=self.batch_size != type(self).batch_size)
        given = dataclasses.replace(given, options=options, context=context)
        device = given.device
        seed = distributed.max_over_processes(fitting.find_seed(options.random_state), device)
        with given.limit():
            data = fitting.scale(modality, rows, options.scaling, device, seed, y, graph, normalization, signal)
            return given, inputs.with_groups(dataclasses.replace(data, names=names), options, groups)

    def _plan(self, given: fitting.Given, data: TrainingData) -> BuildContext[Any]:
        """Everything that the model is built from: what is "auto" has a value, by the data and the device."""
        with given.limit():
            options, found = resolve.resolved(
                given.options, data, self.frameworks, with_encoder=self.trains, asked=self
            )
            options = resolve.with_skip(self, given.options, options, data)
            options, own, further = self._resolve(given.options, options, data)
            packages = found["packages"] | own.get("packages", {})
            named = hasattr(self, "feature_names_in_")
            names = [str(name) for name in (self.feature_names_in_ if named else data.names or [])]
            names, table = (names, None) if self.table_ is None else (self.table_.features, self.table_.as_dict())
            labels, few, used = inputs.read_labels(options, data.labels, data.rows, names, data.groups)
            options, scores = resolve.with_strengths(self, self.strength_option, self.trial_options, options, data)
        if given.epochs is not None:
            options = dataclasses.replace(options, epochs=given.epochs)
        of_rows = {"named": named, "feature_names": names, "table": table, "reach": reach_of(data.x), **used}
        facts = self.facts_type(**found | own | of_rows | {"packages": packages, "strength_scores": scores})
        return BuildContext.of_new(options, facts, data, inputs=further, labels=labels, few_labels=few)

    def _make(self, plan: BuildContext[Any], data: TrainingData) -> None:
        """Build the modules with initial weights."""
        self.options_, self.facts_, self.scaler_ = plan.options, plan.facts, data.layer
        self.method_ = build_fresh(self._build, plan, data.x)
        self.initial_ = self.weights()

    def _train(self, plan: BuildContext[Any], data: TrainingData, given: fitting.Given, X: Any) -> Self:
        """Train, in the run folder if there is one."""
        self.context_, folder, callbacks = given.context, given.folder, given.callbacks
        fitting.check_longer(folder, given.epochs, self.method_)
        config = self.configuration()
        config["parameters"]["epochs"] = given.options.epochs
        with contextlib.ExitStack() as stack:
            held = fitting.opened(folder, config, self.initial_, data.device, resume=given.resume)
            resume = stack.enter_context(held)
            for callback in callbacks:
                stack.callback(callback.close)
            outcome = fitting.train(self.name, self.method_, data, plan, given, initial=self.initial_, resume=resume)
            self.status_, self.metrics_ = outcome.status, outcome.metrics
            self.warnings_, self.summary_ = outcome.warnings, outcome.summary
            self._to_device()
            if folder and distributed.rank() == 0:
                folder.write_model(self.weights())
                folder.write_summary(self.summary_)
            for callback in callbacks if distributed.rank() == 0 else ():
                callback.fitted(self, X)
        return self

    @contextlib.contextmanager
    def _prepared(
        self, X: Any, n_views: int, random_state: int | None, pool: Any
    ) -> Iterator[tuple[Rows, Tensor | None, int]]:
        """Scaled samples, their positions in the pool and the seed, while the method is prepared with the pool."""
        if not isinstance(n_views, numbers.Integral) or n_views < 1:
            raise InputError(f"n_views is {n_views!r}, expected a whole number of at least 1")
        x, seed = self.samples(X), self.facts_.seed if random_state is None else random_state
        with prepared(self.method_, x if pool is None else self.samples(pool), seed):
            yield x, torch.arange(len(x), device=x.device) if pool is None else None, seed

    def _represented(self, X: Any, output: str) -> tuple[Iterator[np.ndarray], int]:
        """Representations of samples, or another output, block by block, and the number of rows."""
        check_is_fitted(self)
        check(output in self.outputs_, "output", repr(output), f"one of {', '.join(map(repr, self.outputs_))}")
        rows, method = self.checked_rows(X), self.method_
        warn_off_scale(self.scale_rows(some_of(rows)), self.facts_.reach)

        def represent(block: Tensor) -> Tensor:
            return method.represent(self.scale_rows(block), output)

        return represent_blocks(represent, rows, self._views_per_sample, self.verbose), len(rows)

    def _modules(self) -> nn.ModuleDict:
        table = {} if self.table_ is None else {"table": self.table_.arrays()}
        return nn.ModuleDict({"scaler": self.scaler_, "method": self.method_} | table)

    def _to_device(self) -> None:
        device = fitting.find_device(self.options_.device)
        self.scaler_.to(device)
        self.method_.to(device).eval()
