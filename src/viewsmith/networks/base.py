"""What networks share: the contexts that build them, fully connected layers, parts of diffusion models; and modules
around networks: evaluation mode, references, momentum copies, a network for each view (MetAug)."""

import contextlib
import copy as copying
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from viewsmith.core import distributed
from viewsmith.core.errors import InputError, check
from viewsmith.core.samples import Rows


@dataclass(frozen=True)
class PartContext:
    """What registered parts are built from, such as features; the contexts of other kinds add what these need."""

    row_shape: tuple[int, ...]  #: of a sample as given by the user; sequences may have other lengths
    channels: int  #: first dimension of a scaled sample: features, color channels, channels, or 4 for DNA
    name: str = field(default="", kw_only=True)  #: as given by the user, with its argument (``timm:resnet34``)
    #: The input layer, fitted to the training rows if the model is new; otherwise a part that keeps a copy of it, or of
    #: its values, gets them with the weights. ``layer.inverse`` gives samples in the units of the data.
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
    encoder reads principal axes), and ``keeps_input`` (so do all methods that train, with any views).
    """

    n_components: int  #: width of the representation
    input_components: int = 0  #: principal axes before the encoder of vectors; 0: none
    bias: bool = True  #: layers without a norm have biases, in encoders that support both


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


@contextlib.contextmanager
def eval_mode(*modules: nn.Module) -> Iterator[None]:
    """Context in which modules are in evaluation mode, with the BatchNorm statistics of the first process."""
    training = [part for module in modules for part in module.modules() if part.training]
    norms = [part for part in training if isinstance(part, _BatchNorm)]
    distributed.broadcast_tensors(*(buffer for norm in norms for buffer in norm.buffers()))
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


@contextlib.contextmanager
def batch_norm_momentum(norms: Sequence[nn.Module], momentum: float | None) -> Iterator[None]:
    """Context in which BatchNorm layers have a momentum: with 0 they keep their statistics, with None they average."""
    before = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = momentum  # type: ignore[assignment]
    try:
        yield
    finally:
        for norm, own in zip(norms, before, strict=True):
            norm.momentum = own


def is_static(*modules: nn.Module) -> bool:
    """Whether a training step of modules launches the same kernels every time (`viewsmith.core.schedule.Update`).

    Layers of torch and networks of this package do, unless their attribute ``static_step`` is False; frameworks and
    view makers only where it is True; modules of others are not known.
    """
    parts = [part for module in modules for part in module.modules()]
    own = all(type(part).__module__.startswith(("torch.", "viewsmith.")) for part in parts)
    return own and all(getattr(part, "static_step", True) for part in parts)


M = TypeVar("M", bound=nn.Module)


class Reference(Generic[M]):
    """Holds a module, such as another part's encoder, that is not to be saved, moved or trained as a submodule."""

    def __init__(self, module: M) -> None:
        self.module = module


Network = TypeVar("Network", bound=nn.Module)


def momentum_copy(module: Network) -> Network:
    """A copy of a module without gradients; its buffers (BatchNorm statistics) are copied, too."""
    return copying.deepcopy(module).requires_grad_(False)


@torch.no_grad()
def update_copy(copy: nn.Module, source: nn.Module, momentum: float) -> None:
    """``copy <- momentum * copy + (1 - momentum) * source`` for weights (He et al. 2020, equation 2), not buffers."""
    weights: list[Tensor] = list(copy.parameters())
    if weights:  # the identity has no weights
        torch._foreach_lerp_(weights, list(source.parameters()), 1 - momentum)


def cosine_momentum(base: float, progress: float) -> float:
    """Momentum that rises from `base` to 1 by half a cosine of `progress` (BYOL: Grill et al. 2020, section 3.3)."""
    check(0 <= progress <= 1, "progress", progress, "the fraction of the training that is done, 0 to 1")
    return 1 - (1 - base) * (math.cos(math.pi * progress) + 1) / 2


class ViewEncoders(nn.Module):
    """M encoders, one per view; the representation is the concatenation of their outputs, (B, M n)."""

    def __init__(self, networks: Sequence[nn.Module], split: nn.Module | None = None) -> None:
        super().__init__()
        if len(networks) < 2:
            raise InputError(f"{len(networks)} encoder was given, expected at least 2: one for each view of a pair")
        self.networks = nn.ModuleList(networks)
        self.split = split

    def forward(self, x: Tensor) -> Tensor:
        """Representations (B, M n) of samples (B, ...), the views concatenated."""
        return self.represent([x] * len(self.networks) if self.split is None else self.split(x))

    def represent(self, views: Sequence[Tensor]) -> Tensor:
        """Representations (B, M n) of M views, each (B, ...)."""
        return torch.cat([network(view) for network, view in zip(self.networks, views, strict=True)], dim=1)


class ViewHeads(nn.Module):
    """M projection heads, one per view: representations (B, M n) to projections (B, M d)."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.n_components = getattr(networks[0], "n_components", None)

    def forward(self, h: Tensor) -> Tensor:
        parts = h.chunk(len(self.networks), dim=1)
        return torch.cat([network(part) for network, part in zip(self.networks, parts, strict=True)], dim=1)
