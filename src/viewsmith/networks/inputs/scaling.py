"""Input scaling as part of the model: fitted on the training rows, saved with the weights, invertible."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from viewsmith.core.row_source import RowSource
from viewsmith.core.samples import Rows, Samples
from viewsmith.networks.inputs.streamed import (
    Axes,
    column_medians,
    column_moments,
    streamed_axes,
    tensor_blocks,
    with_signs,
)

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
    def fit(self, x: Tensor | RowSource, scaling: Scaling) -> Literal["standard", "global", "none"]:
        """Compute the statistics of training rows, (n, d); return the scaling that is used.

        Rows that are not in memory are read block by block: the result is the same but for rounding.
        """
        found = column_moments(tensor_blocks(x))
        if found.mean.isnan().any():
            self.fill.copy_(column_medians(x))
            found = column_moments(torch.where(torch.isnan(part), self.fill, part) for part in tensor_blocks(x))
        if scaling == "auto":
            scaling = "global" if found.zeros / (found.rows * len(found.mean)) > 0.5 else "standard"
        deviation = found.variance.sqrt()
        # A deviation below the smallest normal number may be rounded to zero.
        normal = deviation >= torch.finfo(self.scale.dtype).tiny
        self.varies.copy_((found.high > found.low) & normal)
        if scaling == "standard":
            self.center.copy_(found.mean)
            self.scale.copy_(torch.where(self.varies, deviation, 1.0))
        elif scaling == "global":
            self.scale.fill_(float(found.variance.mean().sqrt()) if self.varies.any() else 1.0)
        # A constant feature is scaled to zero and inverted to its constant.
        self.center.copy_(torch.where(self.varies, self.center, found.first))
        return scaling

    def forward(self, x: Tensor) -> Tensor:
        x = torch.where(torch.isnan(x), self.fill, x)
        # In place, because new memory takes more time than the arithmetic.
        return x.sub_(self.center).div_(self.scale).masked_fill_(~self.varies, 0.0)

    def factor(self) -> Tensor | None:
        """What rows without missing values are multiplied by, (d,), if scaling is no more than that; else None."""
        if bool((self.center * self.varies).any()):
            return None
        return torch.where(self.varies, 1 / self.scale, 0.0)

    def inverse(self, x: Tensor) -> Tensor:
        """Scaled samples, (n, d), in the units of the data."""
        return torch.where(self.varies, x * self.scale + self.center, self.center)


class PrincipalAxes(nn.Module):
    """A fixed projection of wide data onto its leading principal axes, with root mean square 1: (n, d) to (n, k).

    It is the first layer of an encoder, and the space in which neighbors are searched. Each feature is first divided by
    the square root of its standard deviation: a compromise between a single scale (a few features dominate) and
    standardization (rare features are amplified), which worked well for counts, tf-idf and pixels in trials.

    Rows of width k, where k is less than d, are coordinates on the axes already and stay as they are.

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
    def fit(self, x: Rows, *, weighted: bool = True, more: int = 0) -> Axes:
        """Fit the axes to rows (n, d), k at most min(n, d); return them.

        In memory by the smaller Gram matrix; rows on disk block by block (`viewsmith.networks.inputs.streamed`).

        Parameters
        ----------
        x : Tensor or Samples, shape (n, d)
        weighted : bool
            Whether features are divided first. False for features that have weights of their own, and are in memory:
            the axes then keep as much of the distances between rows as k axes can.
        more : int
            Number of axes that are returned, if it is more than k; at most min(n, d).
        """
        d, k = self.axes.shape
        more = max(k, min(more, len(x), d))
        on_disk = isinstance(x, Samples) and isinstance(x.rows, RowSource)
        found = streamed_axes(x, k, _factor(x), more) if on_disk else _axes_in_memory(x[:], k, weighted, more)
        self.mean.copy_(found.mean)
        self.axes.copy_(found.weight[:, None] * found.axes[:, :k] / found.scale)
        return found

    def forward(self, x: Tensor) -> Tensor:
        d, k = self.axes.shape
        if x.shape[1] == k < d:
            return x
        # (x - mean) @ axes without a centered copy of wide rows.
        return torch.addmm(-(self.mean @ self.axes), x, self.axes)


def _factor(x: Rows) -> Tensor | None:
    """What complete rows on disk are multiplied by when they are scaled; None if there is more to scaling."""
    assert isinstance(x, Samples) and isinstance(x.rows, RowSource)
    return x.scale.factor() if x.rows.complete and isinstance(x.scale, Scaler) else None


def _axes_in_memory(x: Tensor, k: int, weighted: bool, more: int) -> Axes:
    """Axes by eigenvectors, in float64, of the smaller Gram matrix of rows (n, d) in memory; k have the scale."""
    mean = x.mean(dim=0, dtype=torch.float64)
    centered = x - mean.to(x.dtype)
    deviation = centered.square().mean(dim=0).sqrt()
    weight = torch.where(deviation > 0, deviation, 1.0).rsqrt() if weighted else torch.ones_like(deviation)
    centered *= weight
    n, d = centered.shape
    values, vectors = torch.linalg.eigh((centered.T @ centered if d <= n else centered @ centered.T).double())
    values, vectors = values[-more:].flip(0), vectors[:, -more:].flip(1)
    if d > n:
        vectors = vectors / values.clamp_min(1e-12).sqrt()
    axes = vectors.to(x.dtype) if d <= n else centered.T @ vectors.to(x.dtype)
    axes = with_signs(axes)
    scale = (centered @ axes[:, :k].contiguous()).square().mean().sqrt().clamp_min(1e-12)
    return Axes(mean, weight, axes, scale, (values.clamp_min(0) / n).sqrt())
