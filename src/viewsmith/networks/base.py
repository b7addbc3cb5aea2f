"""What networks share: the contexts that build them, fully connected layers, and parts of diffusion models."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.samples import Rows


@dataclass(frozen=True)
class PartContext:
    """What registered parts are built from, such as features; the contexts of other kinds add what these need.

    Attributes
    ----------
    row_shape : tuple of int
        Shape of a sample as given by the user; sequences of DNA may have other lengths.
    channels : int
        First dimension of a scaled sample: the number of features, of color channels, of channels, or 4 for DNA.
    name : str
        The name given by the user, including its argument (``timm:resnet34``).
    layer : nn.Module, optional
        The input layer, fitted to the training rows if the model is new; otherwise a part that keeps a copy of it, or
        of its values, gets them with the weights. ``layer.inverse`` gives samples in the units of the data.
    """

    row_shape: tuple[int, ...]
    channels: int
    name: str = field(default="", kw_only=True)
    layer: nn.Module | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class EncoderContext(PartContext):
    """The arguments that a registered encoder is built from, beside those of `PartContext`.

    An encoder is registered by ``@register("encoder", "my-encoder", help=..., modalities=...)`` on a function of this
    context, whose keyword-only arguments are the encoder's options. Its tags: ``width`` (width of the
    representation, if fixed), ``default_width`` (if not fixed), ``fixed_width`` (function of the row shape and the
    options: the width if these fix it, or None), ``smallest`` (smallest side of images in pixels),
    ``longest`` (largest number of bases of a sequence), ``published`` (projection heads of the published widths are
    suitable), ``first_stage`` (it has a method `stem`, which a noise generator can use), and
    ``default_skip`` (the option `appended_pca` that `contrastive` gives it with the default views; vectors: if the
    encoder reads principal axes).

    Attributes
    ----------
    n_components : int
        Width of the representation.
    input_components : int
        Number of principal axes before the encoder of vectors; 0 means none.
    bias : bool
        Whether layers without a norm have biases, for encoders that support both.
    """

    n_components: int
    input_components: int = 0
    bias: bool = True


@dataclass(frozen=True)
class NoiseContext(PartContext):
    """What a noise generator of PiNDA, ``@register("noise generator", ...)``, is built from: a network from scaled
    samples (B, C, ...) to (B, outputs, ...) that ends in a linear layer."""

    outputs: int
    encoder: nn.Module


def find_stem(stem: Literal["auto", "small", "standard"], row_shape: tuple[int, ...]) -> Literal["small", "standard"]:
    """First layer of an image network; "auto" is "small" for images of at most 64 x 64 pixels, else "standard"."""
    return "small" if stem == "small" or (stem == "auto" and max(row_shape[:2]) <= 64) else "standard"


class MLP(nn.Sequential):
    """Linear layers with activations in between, (B, n_features) to (B, n_components), optionally with BatchNorm.

    With ``norm="batch"`` every layer, except a last one of kind "linear", is Linear - BatchNorm - activation. A linear
    layer before a BatchNorm has no bias, because the norm would remove it.

    Parameters
    ----------
    n_features : int
        Input width.
    widths : sequence of int
        Output width of each layer. An empty sequence gives the identity.
    norm : {"none", "batch"}
    last : {"linear", "activated", "normed"}
        The last layer. "linear": a linear layer alone. "activated": with the norm and activation of the other layers.
        "normed": with a BatchNorm without scale and shift and no activation, for any `norm` (the projection heads of
        SimSiam and MoCo v3).
    activation : {"relu", "gelu"}
    bias : bool
        Whether layers without a BatchNorm have a bias.

    Attributes
    ----------
    n_components : int
        Output width.
    """

    def __init__(
        self,
        n_features: int,
        widths: Sequence[int],
        *,
        norm: Literal["none", "batch"] = "none",
        last: Literal["linear", "activated", "normed"] = "linear",
        activation: Literal["relu", "gelu"] = "relu",
        bias: bool = True,
    ) -> None:
        layers: list[nn.Module] = []
        for depth, (n_in, n_out) in enumerate(itertools.pairwise([n_features, *widths])):
            inner = depth < len(widths) - 1 or last == "activated"
            normed = norm == "batch" if inner else last == "normed"
            layers.append(nn.Linear(n_in, n_out, bias=bias and not normed))
            if normed:
                layers.append(nn.BatchNorm1d(n_out, affine=inner))
            if inner:
                layers.append(nn.ReLU() if activation == "relu" else nn.GELU())
        super().__init__(*layers)
        self.n_components = widths[-1] if widths else n_features


def enlarged(h: Tensor, size: Sequence[int], *, align_corners: bool = False) -> Tensor:
    """Maps (B, C, L) or (B, C, H, W) interpolated linearly to a spatial size."""
    if h.shape[2:] == tuple(size):
        return h
    if h.is_cuda and h.ndim == 4:
        # In the other format CUDA starts one thread for each place of a map, which goes through all samples and
        # channels: small maps took 43 of the 61 ms of a pass of `ResNetMap` (H100, 256 images).
        h = h.contiguous(memory_format=torch.channels_last)
    mode = "linear" if h.ndim == 3 else "bilinear"
    return F.interpolate(h, size=tuple(size), mode=mode, align_corners=align_corners)


class Latents(nn.Module):
    """Latents: the input of a diffusion model, computed from scaled samples, from -1 to 1 or in a fitted range."""

    def fit(self, rows: Rows) -> None:
        """Fit the range to scaled training rows; nothing to do where it is known."""

    def encode(self, x: Tensor) -> Tensor:
        """Latents of scaled samples."""
        raise NotImplementedError

    def decode(self, u: Tensor, x: Tensor) -> Tensor:
        """Scaled samples from latents, in the dtype of `x`."""
        raise NotImplementedError

    def clip(self, u: Tensor) -> Tensor:
        """Latents clipped to their range."""
        return u.clamp(-1, 1)

    def mask(self, x: Tensor) -> Tensor | None:
        """Which positions are not padding; None: all."""
        return None


Layer = TypeVar("Layer", nn.Linear, nn.Conv1d, nn.Conv2d)


def time_features(t: Tensor, width: int) -> Tensor:
    """Sines, then cosines of time steps (Vaswani et al. 2017, section 3.5), at geometric frequencies 1 to 1/10,000."""
    half = width // 2
    dtype = t.dtype if t.dtype == torch.float64 else torch.float32
    rates = torch.arange(half, dtype=dtype, device=t.device) * (-math.log(10_000) / max(1, half - 1))
    angles = t.to(dtype)[:, None] * rates.exp()
    return torch.cat([angles.sin(), angles.cos(), angles.new_zeros(len(t), width - 2 * half)], dim=1)


class TimestepEmbedding(nn.Linear):
    """A learned embedding of time steps, (B,) to (B, width)."""

    def __init__(self, width: int) -> None:
        super().__init__(width, width)

    def forward(self, t: Tensor) -> Tensor:
        # Times must not be rounded to half precision; float64 weights get float64 features.
        precise = torch.promote_types(self.weight.dtype, torch.float32)
        features = time_features(t.to(precise), self.in_features).to(self.weight.dtype)
        return F.silu(super().forward(features))


class Modulation(nn.Module):
    """Scale and shift each channel, depending on time and condition (FiLM: Perez et al. 2018)."""

    def __init__(self, time_width: int, width: int) -> None:
        super().__init__()
        self.factors = nn.Linear(time_width, 2 * width)

    def forward(self, h: Tensor, time: Tensor, condition: Tensor | None = None) -> Tensor:
        """``(1 + scale) h + shift + condition``, where the time determines scale and shift."""
        scale, shift = self.factors(time).chunk(2, dim=1)
        shift = shift if condition is None else shift + condition
        per_channel = (*scale.shape, *[1] * (h.ndim - 2))
        return torch.addcmul(shift.view(per_channel), h, (1 + scale).view(per_channel))


def zero_initialized(layer: Layer) -> Layer:
    """The layer with weights and bias set to 0; a network that ends in it predicts 0 before training."""
    nn.init.zeros_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
