"""Networks whose feature maps give foreground and quality of images: the encoder, CLIP, or a custom network."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.row_source import RowSource
from viewsmith.core.samples import Samples
from viewsmith.domains import domain_of
from viewsmith.estimators.build.resolve import MODULE
from viewsmith.losses.quality import map_pools, pair_quality
from viewsmith.networks.clip import load_clip
from viewsmith.networks.feature_maps import FrozenMaps
from viewsmith.networks.inputs.pixels import Pixels
from viewsmith.views.generated.noise_level import noise_tolerance

ENCODER, CLIP = "encoder", "clip:"

FeaturesOption = str | nn.Module


def uses_extractor(features: FeaturesOption, domain: str) -> bool:
    """Whether features come from a separate network instead of the encoder.

    Raises
    ------
    InputError
        An unknown text, or the data are not images.
    """
    text = features_text(features)
    if text == ENCODER:
        return False
    if text == CLIP.rstrip(":") or text == CLIP:
        raise InputError(
            f"features is {text!r}, which needs weights: give clip:FOLDER, or clip:OWNER/NAME to download a model "
            "from the hub"
        )
    if not text.startswith((CLIP, MODULE)):
        raise InputError(
            f"features is {features!r}, expected encoder, clip:FOLDER or clip:OWNER/NAME, or in Python a "
            "torch.nn.Module that returns feature maps of images"
        )
    if domain_of(domain).picture != "pixels":
        raise InputError(f"features is {text!r}, which needs images, but the data are {domain}: leave features out")
    return True


def features_text(features: FeaturesOption) -> str:
    """The text for `features` in a configuration."""
    return f"{MODULE}{type(features).__name__}" if isinstance(features, nn.Module) else features


def feature_maps(
    features: FeaturesOption,
    center: Tensor,
    scale: Tensor,
    *,
    x: Tensor | None = None,
    shape: tuple[int, int, int] | None = None,
    weights: str | None = None,
) -> FrozenMaps:
    """The feature maps of a separate network.

    Parameters
    ----------
    features : str or nn.Module
        ``clip:FOLDER``, ``clip:OWNER/NAME``, or a network from scaled images (B, C, H, W) to maps (B, D, h, w), which
        is copied.
    center, scale : Tensor, shape (C,)
        Scaling of images: ``(pixel / 255 - center) / scale``.
    x : Tensor, shape (B, C, H, W), optional
        To load and test the network at once; without it `shape` is needed.
    shape : (int, int, int), optional
    weights : str, optional
        Expected `digest` of its weights.

    Raises
    ------
    InputError
        See `viewsmith.networks.feature_maps.FrozenMaps`; or the weights differ from the expected ones.
    """
    find = partial(_network, features, center, scale, weights)
    return FrozenMaps(find, features_text(features).removeprefix(MODULE), x=x, shape=shape)


def _network(features: FeaturesOption, center: Tensor, scale: Tensor, weights: str | None) -> nn.Module:
    network = _load(features, center, scale)
    if weights is not None and digest(network.state_dict()) != weights:
        raise InputError(
            f"features is {features_text(features)!r}, but its weights differ from those in fit: give the same network"
        )
    return network


def _load(features: FeaturesOption, center: Tensor, scale: Tensor) -> nn.Module:
    if isinstance(features, nn.Module):
        return copy.deepcopy(features)
    if features.startswith(MODULE):
        raise InputError(
            f"the features of this model are from a custom module ({features.removeprefix(MODULE)}): give it, as in "
            "viewsmith.load(run, features=module)"
        )
    return load_clip(features.removeprefix(CLIP), center, scale)


class FeatureExtractor:
    """Foreground fractions and quality of the images of a view cache, for any generator of views.

    Parameters
    ----------
    features : str or nn.Module
        As in `feature_maps`.
    scaler : Pixels
    rows : uint8 Tensor, shape (n, H, W) or (n, H, W, C)
        One row is enough.
    device : torch.device

    Raises
    ------
    InputError
        There is no such network, or it returns no feature maps of these images.
    """

    def __init__(self, features: FeaturesOption, scaler: Pixels, rows: Tensor, device: torch.device) -> None:
        self.scaler, self.device = scaler.to(device), device
        self.name = features_text(features)
        self.maps = feature_maps(features, scaler.center, scaler.scale, x=self._scaled(rows[:1]))

    def describe(self) -> dict[str, str]:
        return {"name": self.name, "weights": digest(self.maps.network().state_dict())}

    def noise_tolerance(self, rows: Tensor | RowSource) -> tuple[Tensor, Tensor]:
        return noise_tolerance(nn.Identity(), Samples(rows, self.scaler).to(self.device), self.maps)

    def quality(self, rows: Tensor, views: Tensor, axis: Tensor) -> Tensor:
        return pair_quality(*(map_pools(self.maps(self._scaled(each)).float(), axis) for each in (rows, views)))

    @torch.no_grad()
    def _scaled(self, rows: Tensor) -> Tensor:
        x: Tensor = self.scaler(rows.to(self.device))
        return x


def describe_extractor(extractor: FeatureExtractor | None) -> dict[str, Any]:
    """The entry of a feature extractor in the record of a view cache; empty without an extractor."""
    return {} if extractor is None else {"features": extractor.describe()}


def digest(weights: Mapping[str, Any]) -> str:
    """Short digest of weights."""
    found = hashlib.sha256()
    for name, value in sorted(weights.items()):
        found.update(name.encode() + value.cpu().numpy().tobytes())
    return found.hexdigest()[:16]
