"""Denoisers of images: noised (B, C, H, W), H and W at least 8, to predictions of the same shape; see the package."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.networks.denoisers.parts import time_features
from viewsmith.networks.resnet import require_pixels

SMALLEST = 8


class ImageDenoiser(nn.Module):
    """A U-Net (Ronneberger et al. 2015) made for one CPU core: no convolution runs at full resolution.

    Squares of 2x2 pixels become the channels of one; residual blocks work on these and, with twice the width, at half
    their resolution. Time and condition together set the scale and the shift after each block's first norm.

    Parameters
    ----------
    channels : int
        C.
    condition : int
        Width c of the condition.
    width : int
        Channels at half the resolution of the image, a multiple of 8.
    """

    def __init__(self, channels: int, condition: int, *, width: int = 32) -> None:
        super().__init__()
        code = 8 * width
        self.code = _Code(condition, code)
        self.first = nn.Conv2d(4 * channels, width, 3, 1, 1)
        self.before = _Residual(width, code)
        self.shrink = nn.Conv2d(width, 2 * width, 2, 2)
        self.middle = _Residual(2 * width, code)
        self.enlarge = nn.Conv2d(2 * width, 4 * width, 1)
        self.join = nn.Conv2d(2 * width, width, 1)
        self.after = _Residual(width, code)
        self.norm = nn.GroupNorm(8, width)
        self.last = nn.Conv2d(width, 4 * channels, 3, 1, 1)
        nn.init.zeros_(self.last.weight)
        assert self.last.bias is not None
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Tensor, t: Tensor, condition: Tensor) -> Tensor:
        """Predictions like x (B, C, H, W), from times (B,) of a 1,000-step schedule and conditions (B, c).

        Raises
        ------
        InputError
            The images have less than 8 pixels on a side.
        """
        require_pixels(x, SMALLEST)
        height, width = x.shape[2:]
        # Two halvings need multiples of 4.
        whole = F.pad(x, (0, -width % 4, 0, -height % 4))
        code = self.code(t, condition)
        half = self.before(self.first(F.pixel_unshuffle(whole, 2)), code)
        h = self.middle(self.shrink(half), code)
        h = self.join(torch.cat([half, F.pixel_shuffle(self.enlarge(h), 2)], dim=1))
        h = self.last(F.silu(self.norm(self.after(h, code))))
        return F.pixel_shuffle(h, 2)[:, :, :height, :width]


class _Code(nn.Module):
    """What time (B,) and condition (B, c) say to every block, (B, width)."""

    def __init__(self, condition: int, width: int) -> None:
        super().__init__()
        self.time = nn.Linear(64, width)
        self.condition = nn.Linear(condition, width)
        self.mix = nn.Linear(width, width)

    def forward(self, t: Tensor, condition: Tensor) -> Tensor:
        features = time_features(t, self.time.in_features).to(condition.dtype)
        return F.silu(self.mix(F.silu(self.time(features) + self.condition(condition))))


class _Residual(nn.Module):
    """Two 3x3 convolutions around a shortcut, the first after a norm whose scale and shift the code (B, code) sets."""

    def __init__(self, width: int, code: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(8, width, affine=False)
        self.modulate = nn.Linear(code, 2 * width)
        self.conv1 = nn.Conv2d(width, width, 3, 1, 1)
        self.norm2 = nn.GroupNorm(8, width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1)
        nn.init.zeros_(self.modulate.weight)
        nn.init.zeros_(self.modulate.bias)

    def forward(self, h: Tensor, code: Tensor) -> Tensor:
        scale, shift = self.modulate(code)[:, :, None, None].chunk(2, dim=1)
        inner = self.conv1(F.silu(torch.addcmul(shift, self.norm1(h), 1 + scale)))
        residual: Tensor = self.conv2(F.silu(self.norm2(inner)))
        return h + residual


class PublishedImageDenoiser(nn.Module):
    """The U-Net of DiffAug for images (Zang et al. 2024, appendix D.2, listing 1), with the condition that it lacks.

    The paper's: 16 channels at full resolution; three halvings to 32, 64 and 64 channels, three ways back to 32, 16 and
    16 beside what was skipped, self-attention after each of the six; a 1x1 convolution at the end; 256 sines and
    cosines of the time.

    Ours, because the listing names the blocks without saying what is in them: they are those of the common tutorial
    network of the same names (see `_DoubleConv`, `_Resized`, `_SelfAttention`). Images whose sides do not halve evenly
    lose the odd row at a halving and are enlarged to the size of what was skipped. The listing has no way in for the
    condition, without which there is no conditional generator: a linear layer of it is added to the time code.

    No layer starts at zero: an untrained network predicts something, unlike the other denoisers.

    Parameters
    ----------
    channels : int
        C.
    condition : int
        Width c of the condition.
    """

    def __init__(self, channels: int, condition: int) -> None:
        super().__init__()
        self.condition = nn.Linear(condition, 256)
        self.first = _DoubleConv(channels, 16)
        self.down = nn.ModuleList([_Resized(16, 32, 32), _Resized(32, 64, 64), _Resized(64, 64, 64)])
        self.down_attention = nn.ModuleList([_SelfAttention(n) for n in (32, 64, 64)])
        self.up = nn.ModuleList([_Resized(128, 32, 64), _Resized(64, 16, 32), _Resized(32, 16, 16)])
        self.up_attention = nn.ModuleList([_SelfAttention(n) for n in (32, 16, 16)])
        self.last = nn.Conv2d(16, channels, 1)

    def forward(self, x: Tensor, t: Tensor, condition: Tensor) -> Tensor:
        """Predictions like x (B, C, H, W), from times (B,) of a 1,000-step schedule and conditions (B, c).

        Raises
        ------
        InputError
            The images have less than 8 pixels on a side.
        """
        require_pixels(x, SMALLEST)
        code = _listed_time_code(t).to(condition.dtype) + self.condition(condition)
        h = self.first(x)
        skipped = []
        for block, attend in zip(self.down, self.down_attention, strict=True):
            skipped.append(h)
            h = attend(block(F.max_pool2d(h, 2), code))
        for block, attend in zip(self.up, self.up_attention, strict=True):
            skip = skipped.pop()
            h = F.interpolate(h, size=skip.shape[2:], mode="bilinear", align_corners=True)
            h = attend(block(torch.cat([skip, h], dim=1), code))
        prediction: Tensor = self.last(h)
        return prediction


def _listed_time_code(t: Tensor) -> Tensor:
    """Lines 20 to 25 of listing 1, (B,) to (B, 256): frequencies 10,000^(-k / 128), which end short of 1 / 10,000."""
    rates = torch.exp(torch.arange(128, device=t.device) * (-math.log(10_000) / 128))
    angles = t[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class _DoubleConv(nn.Module):
    """Convolution - GroupNorm - GELU - convolution - GroupNorm, or GELU of that added to its input."""

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


class _Resized(nn.Module):
    """What follows a halving or doubling: a residual double convolution, a plain one, and a bias from the code."""

    def __init__(self, n_in: int, n_out: int, middle: int) -> None:
        super().__init__()
        self.same = _DoubleConv(n_in, n_in, residual=True)
        self.change = _DoubleConv(n_in, n_out, middle)
        self.bias = nn.Linear(256, n_out)

    def forward(self, h: Tensor, code: Tensor) -> Tensor:
        changed: Tensor = self.change(self.same(h)) + self.bias(F.silu(code))[:, :, None, None]
        return changed


class _SelfAttention(nn.Module):
    """Attention of 4 heads over all positions after a LayerNorm, then two linear layers after another, both added."""

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
