"""Fixed features of the samples of a model: named ones, networks and functions of users, trained models."""

import copy
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.random import derive_seed
from viewsmith.core.registry import find, get, names
from viewsmith.core.samples import Rows, mapped
from viewsmith.core.tensors import load_weights
from viewsmith.data.places import downloaded
from viewsmith.estimator.options import MODULE, check_given_again, check_part_options
from viewsmith.estimator.plan import BuildContext, TrainingData, probe, text_of
from viewsmith.modalities import Modality
from viewsmith.networks.base import PartContext, Reference
from viewsmith.networks.features import Features, FunctionFeatures, NetworkFeatures, features_of_function, name_of
from viewsmith.training.run import RunFolder, to_toml

FITTED = 4000  # random samples that features are fitted to, at most
BLOCK = 1024
RUN = "run:"  # prefix of the method of a trained model that gives the features


def named_features(
    name: str,
    modality: Modality,
    row_shape: tuple[int, ...],
    layer: nn.Module | None,
    options: Mapping[str, Any] | None = None,
    shrunk: int = 1,
) -> Features:
    """Registered features with their options, not yet fitted, of `shrunken` images."""
    shape = row_shape if shrunk == 1 else (row_shape[0] // shrunk, row_shape[1] // shrunk, *row_shape[2:])
    context = PartContext(shape, modality.channels(row_shape), name=name, layer=layer)
    found: Features = find("features", name, modality.name).build(context, **options or {})
    return found


def shrinks(name: str, modality: Modality, row_shape: tuple[int, ...], options: Mapping[str, Any] | None) -> int:
    """By how much images can be shrunk before anything is done for these features."""
    entry = get("features", name, modality.name)
    rule = None if entry is None else entry.tag("shrinks_by")
    if entry is None or rule is None:
        return 1
    return int(rule(row_shape, {option: each.default for option, each in entry.options.items()} | dict(options or {})))


def shrunken(x: Tensor, by: int) -> Tensor:
    """Images (B, C, H, W) whose pixels are means of `by` x `by` pixels; others as they are, if `by` is 1."""
    return x if by == 1 else F.avg_pool2d(x.float(), by)


def shrunken_rows(x: Rows, by: int) -> Rows:
    """Scaled images that are `shrunken` when they are read."""
    return x if by == 1 else mapped(x, lambda block: shrunken(block, by))


def rows_to_fit(x: Rows, generator: torch.Generator) -> Tensor:
    """At most `FITTED` random rows, in order."""
    chosen = torch.arange(len(x))
    if len(x) > FITTED:
        chosen = torch.randperm(len(x), generator=generator)[:FITTED].sort().values
    return torch.cat([x[part.to(x.device)] for part in chosen.split(BLOCK)])


def fixed_features(model: Any, X: Any, *others: Any) -> list[np.ndarray]:
    """The default features of the modality, fitted to samples `X` of a fitted model without labels: float32
    (n, n_features) of `X`, and of each of the `others`."""
    modality, facts = model.modality_, model.facts_
    generator = torch.Generator().manual_seed(derive_seed(facts.seed, "features"))
    name, options = modality.features_for(facts.statistics)
    by = shrinks(name, modality, facts.row_shape, options)
    features = named_features(name, modality, facts.row_shape, model.scaler_, options, by)
    rows = shrunken_rows(model.samples(X), by)
    features.to(rows.device).fit(rows_to_fit(rows, generator), generator)

    def of(rows: Rows) -> np.ndarray:
        starts = range(0, len(rows), BLOCK)
        with torch.no_grad():
            return np.concatenate([features(rows[start : start + BLOCK]).cpu().numpy() for start in starts])

    return [of(rows), *(of(shrunken_rows(model.samples(other), by)) for other in others)]


# ---- features that an estimator is given ----------------------------------------------------------------------------
class ModelFeatures(NetworkFeatures):
    """The representation of a trained model, which `transform` gives."""

    def __init__(self, model: Any, n_features: int, layer: nn.Module) -> None:
        super().__init__(model.method_, n_features)
        self.scaler, self.layer = model.scaler_, Reference(layer)

    @torch.no_grad()
    def of_block(self, x: Tensor) -> Tensor:
        found: Tensor = self.network.represent(self.scaler(self.layer.module.inverse(x)))  # type: ignore[operator]
        return found.float()


def choose_features(
    given: Any, options: Mapping[str, Any] | None, data: TrainingData
) -> tuple[str, dict[str, Any], dict[str, Tensor] | None]:
    """The features that an estimator is given: their text in configurations, plain options, weights of a trained model.

    The text is a registered name; ``run:METHOD`` for a trained model, whose configuration is among the options; or
    ``module:NAME`` for a module or a function of the user, which has to be given again when the model is loaded.
    """
    modality, further = data.modality, options or {}
    if not (isinstance(given, str | os.PathLike | BaseEstimator) or callable(given)):
        raise InputError(
            f"features is {given!r}, expected a name, the folder of a run, a fitted model, a module or a function"
        )
    default, of_default = modality.features_for(data.statistics)
    name = default if isinstance(given, str) and given == "auto" else given
    if isinstance(name, str) and (entry := get("features", name, modality.name)) is not None:
        if entry.name.endswith(":") and name == entry.name:
            raise InputError(f"features is {name!r}, expected {name}NAME")
        defaults = {option: each.default for option, each in entry.options.items()}
        return name, defaults | (of_default if name == default else {}) | check_part_options(entry, further), None
    if further:
        raise InputError("features_options need a registered name: set options of features of your own yourself")
    if (model := trained_model(given, modality)) is not None:
        _check_model(model, data)
        configuration = {n: v for n, v in model.configuration().items() if n not in ("data", "command")}
        known = {"configuration": to_toml(configuration), "n_features": model._n_features_out}
        return f"{RUN}{model.name}", known, model.weights()
    text = text_of(given)
    if isinstance(given, Features):
        return text, {}, None
    if isinstance(given, nn.Module):
        return text, {"n_features": probe(given, name_of(given), data.x[:2], "features")}, None
    return text, {"n_features": features_of_function(given, data.layer, data.x[:2]).shape[1]}, None


def make_features(plan: BuildContext[Any], modality: Modality, shrunk: int = 1) -> Features:
    """The features that `choose_features` has chosen, not yet fitted, of `shrunken` images;
    copies of modules of the user."""
    given, facts, layer = plan.options.features, plan.facts, plan.layer
    name, known = facts.features, facts.features_options
    assert layer is not None
    if name.startswith(RUN):
        model = model_of_configuration(known["configuration"])
        if plan.inputs is not None:
            load_weights(model._modules(), plan.inputs, "the model of the features")
        return ModelFeatures(model, known["n_features"], layer)
    if not name.startswith(MODULE):
        return named_features(name, modality, facts.row_shape, layer, known, shrunk)
    if isinstance(given, str):
        check_given_again("features", name, "features")
    if isinstance(given, Features):
        return copy.deepcopy(given)
    if isinstance(given, nn.Module):
        return NetworkFeatures(copy.deepcopy(given), known["n_features"])
    return FunctionFeatures(given, known["n_features"], layer)


def trained_model(given: Any, modality: Modality) -> Any:
    """The trained model, of an estimator or of the folder of a run, whose representations are features; None for a
    module or a function."""
    if isinstance(given, BaseEstimator):
        if not hasattr(given, "configuration"):
            raise InputError(f"features is a {type(given).__name__}, expected a model of viewsmith, or its transform")
        if not hasattr(given, "method_"):
            raise InputError(f"features is a {type(given).__name__} that is not fitted: fit it, or give its run")
        return given
    if callable(given):
        return None
    address = str(given)
    path = downloaded(address) if address.startswith("hf:") else RunFolder(address).path
    if not path.is_dir():
        known = ", ".join(map(repr, names("features", modality.name)))
        raise InputError(
            f"features is {address!r}, expected auto, {known}, the folder of a run, a fitted model, a module or a "
            "function"
        )
    folder = RunFolder(path)
    config = folder.read_config()
    entry = get("method", str(config.get("method", "")))
    if entry is None or "fitted" not in config:
        raise InputError(f"{folder.config} is of the method {config.get('method')!r}, which has no representation")
    return entry.build._load(folder, config, {})  # type: ignore[attr-defined]


def model_of_configuration(configuration: Mapping[str, Any]) -> Any:
    """The model that a configuration describes, without its trained weights."""
    entry = find("method", str(configuration["method"]))
    model: Any = entry.build._described(configuration, {}, "the model of the features")  # type: ignore[attr-defined]
    model._make_modules()
    return model


def _check_model(model: Any, data: TrainingData) -> None:
    """Raise InputError unless a trained model can give features of these samples, also after it was saved with them."""
    shape, modality = model.facts_.row_shape, model.modality_
    if modality.name != data.modality.name or not modality.same_shape(tuple(shape), data.row_shape):
        raise InputError(
            f"the model of the features was trained on {modality.name} of shape {tuple(shape)}, but the data are "
            f"{data.modality.name} of shape {tuple(data.row_shape)}: give samples of the same shape"
        )
    if model.table_ is not None:
        raise InputError("the model of the features was trained on a mixed table: give one that was trained on numbers")
    try:
        model_of_configuration(to_toml(model.configuration()))
    except InputError as error:
        raise InputError(
            f"the model of the features has a part of your own, which is not saved with it: give it as a module or a "
            f"function ({error})"
        ) from error
