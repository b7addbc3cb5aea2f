"""Encoders of the library timm, by their names there."""

from __future__ import annotations

import importlib
from typing import Any

from torch import nn

from viewsmith.core.errors import InputError, MissingExtra
from viewsmith.core.registry import register
from viewsmith.networks.base import EncoderContext


@register("encoder", "timm:", help="any network of timm (extra timm)", domains="images")
def timm_encoder(context: EncoderContext) -> nn.Module:
    """The network that ``timm:NAME`` names, without its classifier.

    Raises
    ------
    MissingExtra
        timm is not installed.
    InputError
        It has no such network.
    """
    name = context.name
    try:
        timm: Any = importlib.import_module("timm")
    except ImportError as error:
        raise MissingExtra("timm", "timm", f"the encoder {name!r}") from error
    except RuntimeError as error:  # timm needs torchvision, which fails so when it was built for another torch
        raise InputError(f"timm cannot be imported ({error}): install a torchvision that fits torch") from error
    try:
        network: nn.Module = timm.create_model(name.removeprefix("timm:"), num_classes=0, in_chans=context.channels)
    except RuntimeError as error:
        raise InputError(f"timm has no encoder {name.removeprefix('timm:')!r}: see timm.list_models()") from error
    return network
