"""Encoders of the library timm."""

from __future__ import annotations

import importlib
from typing import Any

from torch import nn

from viewsmith.core.errors import InputError, MissingExtra
from viewsmith.core.registry import register
from viewsmith.networks.base import EncoderContext


def load_pretrained(network: nn.Module, context: EncoderContext) -> None:
    """Load timm's published weights, from its cache or by a download; the first layer is adapted to the channels.

    Raises
    ------
    InputError
        timm has no weights for this network, or cannot download them.
    """
    builder = importlib.import_module("timm.models._builder")
    try:
        builder.load_pretrained(network, num_classes=0, in_chans=context.channels)
    except Exception as error:  # timm, its hub and urllib raise many kinds
        raise InputError(
            f"timm cannot load pretrained weights of {context.name.removeprefix('timm:')!r} "
            f"({' '.join(str(error).split())[:200]}): see timm.list_pretrained(), or give a safetensors file"
        ) from error


@register(
    "encoder", "timm:", help="any network of timm (extra timm)", domains="images", load_pretrained=load_pretrained
)
def timm_encoder(context: EncoderContext) -> nn.Module:
    """Build the encoder ``timm:NAME``: the network NAME of timm, without its classifier.

    Raises
    ------
    MissingExtra
        timm is not installed.
    InputError
        timm has no such network, or cannot be imported.
    """
    name = context.name
    try:
        timm: Any = importlib.import_module("timm")
    except ImportError as error:
        raise MissingExtra("timm", "timm", f"the encoder {name!r}") from error
    except RuntimeError as error:  # raised by torchvision, which timm needs, if it was built for another torch
        raise InputError(f"timm cannot be imported ({error}): install the torchvision of this torch") from error
    try:
        network: nn.Module = timm.create_model(name.removeprefix("timm:"), num_classes=0, in_chans=context.channels)
    except RuntimeError as error:
        raise InputError(f"timm has no encoder {name.removeprefix('timm:')!r}: see timm.list_models()") from error
    return network
