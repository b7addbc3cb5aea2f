"""Input scaling as part of the model: fitted on the training rows, saved with the weights, invertible."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

Scaling = Literal["auto", "standard", "global", "none"]


class Scaler(nn.Module):
    """Scale vectors (n, d), and invert the scaling.

    ``standard``: each feature is centered and divided by its standard deviation. ``global``: all features are divided
    by one standard deviation and not centered, so that zeros stay zeros. ``auto``: ``global`` if more than half of the
    entries are zero, else ``standard``. Constant features, and those that vary by less than the smallest normal number,
    become zero, so that they are ignored. Missing values are replaced by the feature's median over the training rows.

    Parameters
    ----------
    n_features : int
        d.
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
        """Compute the statistics of training rows, (n, d); return the scaling that is used."""
        missing = torch.isnan(x)
        if missing.any():
            # torch's median is the lower of the two middle values; the negated rows give the upper one.
            low, high = torch.nanmedian(x, dim=0).values, -torch.nanmedian(-x, dim=0).values
            self.fill.copy_(((low + high) / 2).nan_to_num())
            x = torch.where(missing, self.fill, x)
        if scaling == "auto":
            scaling = "global" if (x == 0).double().mean() > 0.5 else "standard"
        mean = x.mean(dim=0, dtype=torch.float64)
        # In float64 by blocks of columns: a copy of all columns would double the memory.
        variance = torch.cat([part.double().var(dim=0, correction=0) for part in x.split(256, dim=1)])
        deviation = variance.sqrt()
        # A deviation below the smallest normal number may be rounded to zero.
        normal = deviation >= torch.finfo(self.scale.dtype).tiny
        self.varies.copy_((x.max(dim=0).values > x.min(dim=0).values) & normal)
        if scaling == "standard":
            self.center.copy_(mean)
            self.scale.copy_(torch.where(self.varies, deviation, 1.0))
        elif scaling == "global":
            self.scale.fill_(float(variance.mean().sqrt()) if self.varies.any() else 1.0)
        # A constant feature is scaled to zero and inverted to its constant.
        self.center.copy_(torch.where(self.varies, self.center, x[0]))
        return scaling

    def forward(self, x: Tensor) -> Tensor:
        x = torch.where(torch.isnan(x), self.fill, x)
        return torch.where(self.varies, (x - self.center) / self.scale, 0.0)

    def inverse(self, x: Tensor) -> Tensor:
        """Scaled samples, (n, d), in the units of the data."""
        return torch.where(self.varies, x * self.scale + self.center, self.center)


class PrincipalAxes(nn.Module):
    """A fixed projection of wide data onto its leading principal axes, with root mean square 1: (n, d) to (n, k).

    It is the first layer of an encoder, and the space in which neighbors are searched. Each feature is first divided by
    the square root of its standard deviation: a compromise between a single scale (a few features dominate) and
    standardization (rare features are amplified), which worked well for counts, tf-idf and pixels in trials.

    Parameters
    ----------
    n_features, n_components : int
        d and k.
    """

    mean: Tensor
    axes: Tensor

    def __init__(self, n_features: int, n_components: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("axes", torch.zeros(n_features, n_components))

    @torch.no_grad()
    def fit(self, x: Tensor) -> None:
        """Fit the axes to rows (n, d), k at most min(n, d): eigenvectors of the smaller Gram matrix, in float64."""
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
        # The sign of an axis is arbitrary: its largest entry is made positive, so that a refit gives the same model.
        axes = axes * axes.gather(0, axes.abs().argmax(dim=0, keepdim=True)).sign()
        scale = (centered @ axes).square().mean().sqrt().clamp_min(1e-12)
        self.mean.copy_(mean)
        self.axes.copy_(weight[:, None] * axes / scale)

    def forward(self, x: Tensor) -> Tensor:
        # (x - mean) @ axes without a centered copy of wide rows.
        return torch.addmm(-(self.mean @ self.axes), x, self.axes)
