"""Denoisers of images: noised latents (B, C, H, W), H and W at least 8, to predictions of the same shape."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.modalities.images.encoders import check_image_size
from viewsmith.networks.base import Modulation, TimestepEmbedding, enlarged, zero_initialized

SMALLEST = 8
TIME_WIDTH = 64


class ImageDenoiser(nn.Module):
    """A U-Net (Ronneberger et al. 2015) designed for one CPU core: no convolution runs at full resolution.

    Blocks of 2x2 pixels become the channels of one position. Residual convolutions run at this resolution, and at half
    and a quarter of it with two and four times the channels. The time determines scale and shift before each
    convolution, and the projected condition is added there.

    Noise, velocity and sample all contain a multiple of the noised image x. So the prediction is ``g(t) x + h(t)
    network(x, t, condition)``, where g and h are learned functions of the time. The last layer and g are initialized
    with 0, so the network predicts 0 before training.

    Designed for "v" predictions.
    """

    def __init__(self, channels: int, condition: int, *, width: int = 32, levels: int = 3) -> None:
        super().__init__()
        self.time = TimestepEmbedding(TIME_WIDTH)
        self.first = nn.Conv2d(4 * channels, width, 3, 1, 1)
        self.body = _Level(width, condition, levels)
        self.last = zero_initialized(nn.Conv2d(width, 4 * channels, 3, 1, 1))
        self.factors = zero_initialized(nn.Linear(TIME_WIDTH, 2))

    def forward(self, x: Tensor, t: Tensor, condition: Tensor) -> Tensor:
        """Predictions like x (B, C, H, W), from times (B,), 0 to 999, and conditions (B, c)."""
        check_image_size(x, SMALLEST)
        time = self.time(t)
        g, log_h = self.factors(time)[:, :, None, None].split(1, dim=1)
        h = self.body(self.first(F.pixel_unshuffle(_even(x), 2)), time, condition)
        return g * x + log_h.exp() * _crop_to(F.pixel_shuffle(self.last(h), 2), x)


class _Level(nn.Module):
    """Two residual convolutions at one resolution; between them a level at half of it with twice the channels."""

    def __init__(self, width: int, condition: int, levels: int) -> None:
        super().__init__()
        self.before = _Residual(width, condition)
        self.inner = None
        if levels > 1:
            self.shrink = nn.Conv2d(width, 2 * width, 2, 2)
            self.inner = _Level(2 * width, condition, levels - 1)
            self.enlarge = nn.Conv2d(2 * width, 4 * width, 1)
        self.after = _Residual(width, condition)

    def forward(self, h: Tensor, time: Tensor, condition: Tensor) -> Tensor:
        h = self.before(h, time, condition)
        if self.inner is not None:
            inner = self.inner(self.shrink(_even(h)), time, condition)
            h = h + _crop_to(F.pixel_shuffle(self.enlarge(inner), 2), h)
        return self.after(h, time, condition)


class _Residual(nn.Module):
    """A 3x3 convolution with a shortcut, after a norm that time and condition modulate."""

    def __init__(self, width: int, condition: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, width, affine=False)
        self.modulate = Modulation(TIME_WIDTH, width)
        self.condition = nn.Linear(condition, width)
        self.conv = nn.Conv2d(width, width, 3, 1, 1)

    def forward(self, h: Tensor, time: Tensor, condition: Tensor) -> Tensor:
        return h + self.conv(F.silu(self.modulate(self.norm(h), time, self.condition(condition))))


def _even(h: Tensor) -> Tensor:
    """Add a row or column of zeros to a map if its height or width is odd."""
    height, width = h.shape[2:]
    return F.pad(h, (0, width % 2, 0, height % 2)) if height % 2 or width % 2 else h


def _crop_to(h: Tensor, like: Tensor) -> Tensor:
    """Remove the rows and columns that `_even` added; `like` is the original map."""
    return h[:, :, : like.shape[2], : like.shape[3]]


class PublishedImageDenoiser(nn.Module):
    """The U-Net of DiffAug for images (Zang et al. 2024, appendix D.2, listing 1), with an input for the condition.

    From the paper: 16 channels at full resolution; three downsampling blocks with 32, 64 and 64 channels; three
    upsampling blocks with 32, 16 and 16 channels and skip connections; self-attention after each of these; a last 1x1
    convolution; 256 sines and cosines of the time.

    Not in the paper: the listing names the blocks, but not their layers. They are taken from a common tutorial network
    whose blocks have the same names (see `_DoubleConv`, `_ResamplingBlock`, `_SelfAttention`). If a side is odd,
    downsampling drops the last row or column, and upsampling interpolates to the size of the skip connection. The
    listing has no input for the condition, which a conditional generator needs. Here, a linear layer of the condition
    is added to the timestep embedding.

    No layer is initialized with 0: unlike the other denoisers it does not predict 0 before training.
    """

    def __init__(self, channels: int, condition: int) -> None:
        super().__init__()
        self.condition = nn.Linear(condition, 256)
        self.first = _DoubleConv(channels, 16)
        self.down = nn.ModuleList(
            [_ResamplingBlock(16, 32, 32), _ResamplingBlock(32, 64, 64), _ResamplingBlock(64, 64, 64)]
        )
        self.down_attention = nn.ModuleList([_SelfAttention(n) for n in (32, 64, 64)])
        self.up = nn.ModuleList(
            [_ResamplingBlock(128, 32, 64), _ResamplingBlock(64, 16, 32), _ResamplingBlock(32, 16, 16)]
        )
        self.up_attention = nn.ModuleList([_SelfAttention(n) for n in (32, 16, 16)])
        self.last = nn.Conv2d(16, channels, 1)

    def forward(self, x: Tensor, t: Tensor, condition: Tensor) -> Tensor:
        """Predictions like x (B, C, H, W), from times (B,) of a 1,000-step schedule and conditions (B, c)."""
        check_image_size(x, SMALLEST)
        embedding = _published_time_embedding(t).to(condition.dtype) + self.condition(condition)
        h = self.first(x)
        skipped = []
        for block, attend in zip(self.down, self.down_attention, strict=True):
            skipped.append(h)
            h = attend(block(F.max_pool2d(h, 2), embedding))
        for block, attend in zip(self.up, self.up_attention, strict=True):
            skip = skipped.pop()
            h = enlarged(h, skip.shape[2:], align_corners=True)
            h = attend(block(torch.cat([skip, h], dim=1), embedding))
        return self.last(h)


def _published_time_embedding(t: Tensor) -> Tensor:
    """Timestep embedding of listing 1, lines 20 to 25, (B,) to (B, 256): frequencies 10,000^(-k / 128), k below 128."""
    rates = torch.exp(torch.arange(128, device=t.device) * (-math.log(10_000) / 128))
    angles = t[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class _DoubleConv(nn.Module):
    """Convolution - GroupNorm - GELU - convolution - GroupNorm; with `residual` GELU of the sum with the input."""

    def __init__(self, n_in: int, n_out: int, middle: int | None = None, *, residual: bool = False) -> None:
        super().__init__()
        middle = n_out if middle is None else middle
        self.residual = residual
        self.layers = nn.Sequential(
            nn.Conv2d(n_in, middle, 3, 1, 1, bias=False),
            nn.GroupNorm(1, middle),
            nn.GELU(),
            nn.Conv2d(middle, n_out, 3, 1, 1, bias=False),
            nn.GroupNorm(1, n_out),
        )

    def forward(self, h: Tensor) -> Tensor:
        change: Tensor = self.layers(h)
        return F.gelu(h + change) if self.residual else change


class _ResamplingBlock(nn.Module):
    """The block after down- or upsampling: a residual and a plain double convolution, and a bias from the embedding."""

    def __init__(self, n_in: int, n_out: int, middle: int) -> None:
        super().__init__()
        self.same = _DoubleConv(n_in, n_in, residual=True)
        self.change = _DoubleConv(n_in, n_out, middle)
        self.bias = nn.Linear(256, n_out)

    def forward(self, h: Tensor, embedding: Tensor) -> Tensor:
        return self.change(self.same(h)) + self.bias(F.silu(embedding))[:, :, None, None]


class _SelfAttention(nn.Module):
    """Two residual layers, each with a LayerNorm first: attention over all positions, then two linear layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.forward_layers = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)
        )

    def forward(self, h: Tensor) -> Tensor:
        rows = h.flatten(2).transpose(1, 2)
        normed = self.norm(rows)
        rows = rows + self.attention(normed, normed, normed, need_weights=False)[0]
        rows = rows + self.forward_layers(rows)
        return rows.transpose(1, 2).reshape(h.shape)
