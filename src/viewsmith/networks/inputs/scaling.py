"""Input scaling as part of the model: fitted once on the training rows, saved with the weights, invertible."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

Scaling = Literal["auto", "standard", "global", "none"]


class Scaler(nn.Module):
    """Scaled samples from raw vectors, and back.

    ``standard``: every feature centered and divided by its standard deviation. ``global``: all features divided by
    one standard deviation, not centered, so that zeros stay zeros. ``auto`` takes ``global`` when more than half of
    the entries are zero. Constant features, and those that vary by less than the smallest normal number, become
    zero (they are ignored). With `impute`, missing values take the feature's median over the training rows.
    """

    center: Tensor
    scale: Tensor
    fill: Tensor
    varies: Tensor

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(n_features))
        self.register_buffer("scale", torch.ones(n_features))
        self.register_buffer("fill", torch.zeros(n_features))
        self.register_buffer("varies", torch.ones(n_features, dtype=torch.bool))

    @torch.no_grad()
    def fit(self, x: Tensor, scaling: Scaling) -> Literal["standard", "global", "none"]:
        """Take the statistics of (n, d) training rows; returns the scaling used."""
        missing = torch.isnan(x)
        if missing.any():
            # torch's median is the lower of two middle values, so the upper one is asked for too.
            low, high = torch.nanmedian(x, dim=0).values, -torch.nanmedian(-x, dim=0).values
            self.fill.copy_(((low + high) / 2).nan_to_num())
            x = torch.where(missing, self.fill, x)
        if scaling == "auto":
            scaling = "global" if (x == 0).double().mean() > 0.5 else "standard"
        mean = x.mean(dim=0, dtype=torch.float64)
        # In float64, a slice of the columns at a time: a copy of all would double the memory.
        variance = torch.cat([part.double().var(dim=0, correction=0) for part in x.split(256, dim=1)])
        deviation = variance.sqrt()
        # Below the smallest normal number a scale may be rounded to zero.
        told_apart = deviation >= torch.finfo(self.scale.dtype).tiny
        self.varies.copy_((x.max(dim=0).values > x.min(dim=0).values) & told_apart)
        if scaling == "standard":
            self.center.copy_(mean)
            self.scale.copy_(torch.where(self.varies, deviation, 1.0))
        elif scaling == "global":
            self.scale.fill_(float(variance.mean().sqrt()) if self.varies.any() else 1.0)
        # A constant feature maps to zero and comes back as its constant.
        self.center.copy_(torch.where(self.varies, self.center, x[0]))
        return scaling

    def forward(self, x: Tensor) -> Tensor:
        x = torch.where(torch.isnan(x), self.fill, x)
        return torch.where(self.varies, (x - self.center) / self.scale, 0.0)

    def inverse(self, x: Tensor) -> Tensor:
        """Scaled samples in the units of the data."""
        return torch.where(self.varies, x * self.scale + self.center, self.center)


class PrincipalAxes(nn.Module):
    """A fixed projection of wide data onto its leading principal axes, at one standard deviation: (n, d) to (n, k).

    It stands before an encoder and is where neighbors are sought. Each feature is first divided by the square root
    of its standard deviation, half-way between one scale for all (where a few features decide alone) and
    standardizing (where rare ones are blown up): the compromise served counts, tf-idf and pixels alike in trials.
    """

    mean: Tensor
    axes: Tensor

    def __init__(self, n_features: int, n_components: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("axes", torch.zeros(n_features, n_components))

    @torch.no_grad()
    def fit(self, x: Tensor) -> None:
        """Axes of (n, d) rows, k at most min(n, d): eigenvectors of the smaller Gram matrix, taken in float64."""
        k = self.axes.shape[1]
        mean = x.mean(dim=0, dtype=torch.float64)
        centered = x - mean.to(x.dtype)
        deviation = centered.square().mean(dim=0).sqrt()
        weight = torch.where(deviation > 0, deviation, 1.0).rsqrt()
        centered *= weight
        n, d = centered.shape
        if d <= n:
            axes = torch.linalg.eigh((centered.T @ centered).double()).eigenvectors[:, -k:].flip(1).to(x.dtype)
        else:
            values, vectors = torch.linalg.eigh((centered @ centered.T).double())
            vectors = vectors[:, -k:].flip(1) / values[-k:].flip(0).clamp_min(1e-12).sqrt()
            axes = centered.T @ vectors.to(x.dtype)
        # The sign of an axis is arbitrary: its largest entry is made positive, so that a refit is the same model.
        axes = axes * axes.gather(0, axes.abs().argmax(dim=0, keepdim=True)).sign()
        scale = (centered @ axes).square().mean().sqrt().clamp_min(1e-12)
        self.mean.copy_(mean)
        self.axes.copy_(weight[:, None] * axes / scale)

    def forward(self, x: Tensor) -> Tensor:
        # (x - mean) @ axes without a centered copy of wide rows.
        return torch.addmm(-(self.mean @ self.axes), x, self.axes)
