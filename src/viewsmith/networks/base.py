"""What is known when an encoder, or a network that generates noise, is built from its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import nn


@dataclass(frozen=True)
class EncoderContext:
    """What an encoder is built for.

    An encoder registers itself as ``@register("encoder", "my-encoder", help=..., domains=...)``, as a function of this
    context whose keyword-only arguments are its options. Its traits: ``width`` (of the representation, where it is
    fixed), ``default_width`` (where it is not), ``smallest`` (least side of images in pixels), ``longest`` (most bases
    of a sequence), ``published`` (heads of published widths suit it) and ``first_stage`` (it has a `stem` that a noise
    generator can share).

    Attributes
    ----------
    row_shape : tuple of int
        Of a sample as users give it; of DNA of any length.
    channels : int
        First dimension of a scaled sample: features, channels of pixels, four letters.
    n_components : int
        Width of the representation.
    input_components : int
        Principal axes before the encoder of vectors; 0: none.
    bias : bool
        Whether layers without a norm have biases, where the encoder leaves that open.
    name : str
        As the user wrote it, with the argument of a name that takes one.
    """

    row_shape: tuple[int, ...]
    channels: int
    n_components: int
    input_components: int = 0
    bias: bool = True
    name: str = ""


@dataclass(frozen=True)
class NoiseContext:
    """What a network of PiNDA's noise generator is built for.

    It registers itself as ``@register("noise generator", ...)``, a function of this context whose keyword-only
    arguments are its options; it maps scaled samples (B, C, ...) to (B, outputs, ...) and ends in a linear layer.

    Attributes
    ----------
    row_shape : tuple of int
    channels, outputs : int
    encoder : nn.Module
        The encoder that is trained.
    """

    row_shape: tuple[int, ...]
    channels: int
    outputs: int
    encoder: nn.Module


def find_stem(stem: Literal["auto", "small", "standard"], row_shape: tuple[int, ...]) -> Literal["small", "standard"]:
    """First layers of a network of images: "auto" is small up to 64 pixels."""
    return "small" if stem == "small" or (stem == "auto" and max(row_shape[:2]) <= 64) else "standard"
