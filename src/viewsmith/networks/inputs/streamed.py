"""Statistics and principal axes of rows that are read block by block; of rows in memory, which are one block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from viewsmith.core.row_source import RowSource, read_ahead
from viewsmith.core.samples import Rows, Samples

# Up to this width axes are found in one pass, from the d x d covariance; beyond, in a few passes without it.
COVARIANCE_UP_TO = 2048
COLUMNS = 256
EXTRA, PASSES, CONVERGED = 14, 8, 1e-3
# Bytes of a few columns of all rows, whose medians are found together.
MEDIAN_BYTES = 2**29


def tensor_blocks(x: Tensor | RowSource) -> Iterator[Tensor]:
    """Rows in order: a tensor as a whole, a source block by block."""
    return (torch.from_numpy(block) for block in x.blocks()) if isinstance(x, RowSource) else iter([x])


@dataclass(frozen=True)
class Moments:
    """Statistics of the columns of n rows, (d,) each: mean and variance in float64, range, and the first row.

    Attributes
    ----------
    rows, zeros : int
        n, and the number of zeros among all values.
    """

    rows: int
    zeros: int
    mean: Tensor
    variance: Tensor
    low: Tensor
    high: Tensor
    first: Tensor

    def joined(self, other: Moments) -> Moments:
        """Those of both sets of rows (Chan, Golub and LeVeque 1983, equation 1.5b)."""
        rows, share = self.rows + other.rows, other.rows / (self.rows + other.rows)
        apart = other.mean - self.mean
        return Moments(
            rows,
            self.zeros + other.zeros,
            self.mean + share * apart,
            (1 - share) * self.variance + share * other.variance + share * (1 - share) * apart.square(),
            torch.minimum(self.low, other.low),
            torch.maximum(self.high, other.high),
            self.first,
        )


def column_moments(blocks: Iterable[Tensor]) -> Moments:
    """Statistics of the columns of rows (n, d), given in blocks; NaN where a value is missing."""
    found: Moments | None = None
    for block in blocks:
        mean, variance = torch.empty(2, block.shape[1], dtype=torch.float64, device=block.device)
        # In float64 by blocks of columns: a copy of all columns would double the memory.
        for start in range(0, block.shape[1], COLUMNS):
            columns = slice(start, start + COLUMNS)
            part = block[:, columns].to(torch.float64, copy=True)
            mean[columns] = part.mean(dim=0)
            variance[columns] = part.sub_(mean[columns]).square_().mean(dim=0)
        zeros = block.numel() - int(torch.count_nonzero(block))
        low, high = block.amin(dim=0), block.amax(dim=0)
        own = Moments(len(block), zeros, mean, variance, low, high, block[0])
        found = own if found is None else found.joined(own)
    assert found is not None
    return found


def column_medians(x: Tensor | RowSource) -> Tensor:
    """Median of each column over the values that are not missing, (d,); 0 where there is none.

    A few columns at a time: of rows on disk, each time in one pass.
    """
    n, d = x.shape
    together = d if isinstance(x, Tensor) else max(1, MEDIAN_BYTES // (4 * n))
    found = []
    for start in range(0, d, together):
        part = torch.cat([block[:, start : start + together] for block in tensor_blocks(x)])
        # torch's median is the lower of the two middle values; the negated rows give the upper one.
        low, high = torch.nanmedian(part, dim=0).values, -torch.nanmedian(-part, dim=0).values
        found.append(((low + high) / 2).nan_to_num())
    return torch.cat(found)


# ---- principal axes -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axes:
    """Principal axes (d, m) of centered rows whose features are multiplied by `weight`.

    Attributes
    ----------
    mean, weight : Tensor, shape (d,)
    axes : Tensor, shape (d, m)
    scale : Tensor, scalar
        Root mean square of the coordinates on the first axes, those of which the number k was asked for.
    deviation : Tensor, shape (m,)
        Standard deviation along each axis.
    """

    mean: Tensor
    weight: Tensor
    axes: Tensor
    scale: Tensor
    deviation: Tensor


def streamed_axes(x: Rows, k: int, factor: Tensor | None = None, more: int = 0) -> Axes:
    """Principal axes of scaled rows (n, d) on disk, in float64: by their covariance, or for wide rows without it.

    `factor`, (d,): what rows are multiplied by when they are scaled, if that is all; sparse rows then stay sparse.
    `more`: number of axes, if it is more than k.
    """
    return _by_covariance(x, k, more) if x[:1].shape[1] <= COVARIANCE_UP_TO else _by_products(x, k, factor, more)


def with_signs(axes: Tensor) -> Tensor:
    """The axes, (d, k), each with a positive largest entry: the sign is arbitrary, and a refit gives the same model."""
    return axes * axes.gather(0, axes.abs().argmax(dim=0, keepdim=True)).sign()


def _by_covariance(x: Rows, k: int, more: int = 0) -> Axes:
    """One pass: the d x d second moments about the mean of the first block."""
    more = max(k, more)
    shift = next(scaled_blocks(x)).mean(dim=0, dtype=torch.float64)
    total, products = torch.zeros_like(shift), shift.new_zeros(len(shift), len(shift))
    for block in scaled_blocks(x):
        block = block.double() - shift
        total += block.sum(dim=0)
        products += block.T @ block
    mean = total / len(x)
    covariance = products / len(x) - torch.outer(mean, mean)
    weight = _weights(covariance.diagonal().clamp_min(0).sqrt())
    values, vectors = torch.linalg.eigh(weight[:, None] * covariance * weight)
    return _axes(mean + shift, weight, vectors[:, -more:].flip(1), values[-more:].flip(0), k)


def _by_products(x: Rows, k: int, factor: Tensor | None = None, more: int = 0) -> Axes:
    """Block Krylov iteration (Musco and Musco 2015, Algorithm 2), one pass for each product with the covariance.

    It ends once a pass adds less than a thousandth to the variance along the axes.
    """
    moments = column_moments(scaled_blocks(x))
    mean, weight = moments.mean, _weights(moments.variance.sqrt())
    more = max(k, more)
    d, width = len(mean), min(more + EXTRA, len(mean))
    start = torch.randn(d, width, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    basis, images = torch.zeros(d, 0, dtype=torch.float64), torch.zeros(d, 0, dtype=torch.float64)
    image, reached = start, 0.0
    for _ in range(PASSES):
        # Twice, because what is left of a vector after one projection may still be in the basis.
        for _ in range(2):
            image = torch.linalg.qr(image - basis @ (basis.T @ image)).Q
        basis = torch.cat([basis, image], dim=1)
        image = _covariance_times(x, mean, weight, image, factor)
        images = torch.cat([images, image], dim=1)
        small = basis.T @ images
        values, vectors = torch.linalg.eigh((small + small.T) / 2)
        known = float(values[-more:].sum())
        if known - reached <= CONVERGED * known or basis.shape[1] + width > d:
            break
        reached = known
    return _axes(mean, weight, basis @ vectors[:, -more:].flip(1), values[-more:].flip(0), k)


def _covariance_times(x: Rows, mean: Tensor, weight: Tensor, vectors: Tensor, factor: Tensor | None = None) -> Tensor:
    """Covariance of the weighted rows times vectors (d, r): products in float32 in a block, in float64 over blocks."""
    weighted = weight[:, None] * vectors
    offset = mean @ weighted
    total = torch.zeros_like(vectors)
    for block in scaled_blocks(x) if factor is None else _stored_blocks(x, factor):
        along = _times(block, weighted.float()) - offset.float()
        total += _times(block.T, along) - torch.outer(mean, along.sum(dim=0, dtype=torch.float64))
    return weight[:, None] * total / len(x)


def _times(rows: Any, matrix: Tensor) -> Tensor:
    """The product with rows in a tensor or a scipy matrix."""
    return rows @ matrix if isinstance(rows, Tensor) else torch.from_numpy(rows @ matrix.numpy())


def _stored_blocks(x: Rows, factor: Tensor) -> Iterator[Any]:
    """Scaled rows in order, block by block: sparse matrices where the rows are stored so."""
    assert isinstance(x, Samples) and isinstance(x.rows, RowSource)
    rows, scale = x.rows, factor.numpy()
    size = rows.block_rows

    def block(start: int) -> Any:
        found = rows.sparse(start, start + size)
        if found is None:
            return x[start : start + size]
        found.data *= scale[found.indices]
        return found

    return read_ahead(block(start) for start in range(0, len(rows), size))


def scaled_blocks(x: Rows) -> Iterator[Tensor]:
    """Scaled rows in order: a tensor as a whole, rows on disk block by block."""
    if isinstance(x, Tensor):
        return iter([x])
    assert isinstance(x.rows, RowSource)
    size = x.rows.block_rows
    return x.ahead((slice(start, start + size) for start in range(0, len(x), size)), 1)


def _weights(deviation: Tensor) -> Tensor:
    return torch.where(deviation > 0, deviation, 1.0).rsqrt()


def _axes(mean: Tensor, weight: Tensor, axes: Tensor, values: Tensor, k: int) -> Axes:
    """Axes with their signs; the variances along them are `values`, and k of them have the scale."""
    values = values.clamp_min(0)
    return Axes(mean, weight, with_signs(axes), values[:k].mean().sqrt().clamp_min(1e-12), values.sqrt())
