"""Encoders of the library timm."""

from __future__ import annotations

import importlib
from typing import Any

from torch import nn

from viewsmith.core.errors import InputError, MissingExtra
from viewsmith.core.registry import register
from viewsmith.networks.base import EncoderContext


@register("encoder", "timm:", help="any network of timm (extra timm)", domains="images")
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
