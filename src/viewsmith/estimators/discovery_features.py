"""Dense features for discovery by name: a network of timm, a model that viewsmith trained, or an own network."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import find, get
from viewsmith.core.tensors import load_tensors, load_weights
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.methods.discovery.network_maps import NetworkMaps, network_maps
from viewsmith.networks.base import EncoderContext
from viewsmith.training.run import RunFolder

TIMM = "timm:"


def features_of(features: Any, layer: str | None, weights: str | None, channels: int) -> Any:
    """What `ImageSearch` takes as features: "patches", a function, or `NetworkMaps`.

    Parameters
    ----------
    features : "patches", "timm:NAME", path, fitted model, torch.nn.Module or callable
    layer : str, optional
        Layer of the network that gives the maps.
    weights : str, optional
        For timm: a safetensors file, or "random". Default: those that timm publishes.
    channels : int
        Of the images.

    Raises
    ------
    InputError
        There is no such network, model or file, or it is not for images with these channels; an option without a
        network that has it.
    MissingExtra
        timm is not installed.
    """
    named = isinstance(features, str) and features.startswith(TIMM)
    if weights is not None and not named:
        raise InputError(f"feature_weights is {weights!r}, but the features are {features!r}: expected timm:NAME")
    if named:
        return _of_timm(features, layer, weights, channels)
    model = model_of(features)
    if model is not None:
        trained: Any = getattr(model.method_, "framework", model.method_)
        encoder, scaler = copy.deepcopy(trained.encoder).cpu(), model.scaler_
        if model.domain_.name != "images" or scaler.channels != channels:
            raise InputError(
                f"the model of the features was trained on {model.domain_.name} of shape {model.resolved_.row_shape}, "
                f"expected one that was trained on images with {channels} channels"
            )
        return network_maps(encoder, scaler.center.cpu(), scaler.scale.cpu(), layer)
    if isinstance(features, nn.Module):
        return network_maps(copy.deepcopy(features), torch.zeros(channels), torch.ones(channels), layer)
    if layer is not None:
        raise InputError(f"feature_layer is {layer!r}, but the features are no network: leave it out")
    return features


def model_of(features: Any) -> ViewsmithEstimator | None:
    """The trained model whose encoder gives the features, or None."""
    if isinstance(features, ViewsmithEstimator):
        return features
    if not isinstance(features, str | Path) or str(features) == "patches" or str(features).startswith(TIMM):
        return None
    folder = RunFolder(features)
    if not folder.path.is_dir():
        raise InputError(
            f"features is {str(features)!r}, expected 'patches', timm:NAME, or the folder of a model that was trained "
            "on images"
        )
    config = folder.read_config()
    entry = get("method", str(config.get("method", "")))
    if entry is None:
        raise InputError(f"{folder.config} is of the method {config.get('method')!r}, which has no encoder")
    model: ViewsmithEstimator = entry.build._load(folder, config, {})  # type: ignore[attr-defined]
    return model


def _of_timm(name: str, layer: str | None, weights: str | None, channels: int) -> NetworkMaps:
    """A network of timm with its own scaling of pixels."""
    entry = find("encoder", name, "images")
    context = EncoderContext((0, 0, channels), channels, 0, name=name)
    network: nn.Module = entry.build(context)
    if weights is None:
        entry.trait("load_pretrained")(network, context)
    elif weights != "random":
        if not Path(weights).is_file():
            raise InputError(f"no weights at {weights} (feature_weights): expected a safetensors file for {name}")
        known = network.state_dict()
        # A published file has the weights of the classifier too.
        kept = {key: value for key, value in load_tensors(Path(weights)).items() if key in known}
        load_weights(network, kept, f"{weights} (feature_weights)", f"the network {name}")
    published = getattr(network, "pretrained_cfg", None) or {}
    center, scale = (_by_channel(published.get(key, default), channels) for key, default in (("mean", 0), ("std", 1)))
    return network_maps(network, center, scale, layer)


def _by_channel(value: Any, channels: int) -> Tensor:
    """A number or three of them for each channel of an image, (channels,)."""
    numbers = torch.as_tensor(value, dtype=torch.float32).reshape(-1)
    return numbers if len(numbers) == channels else numbers.mean().expand(channels).clone()
