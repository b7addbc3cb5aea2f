"""Input scaling, principal axes and columns that are not learned: fitted on train rows, saved with the weights."""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.rows import AnyRows, RowSource, return_freed_memory
from viewsmith.core.samples import Rows, Samples

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

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.center = nn.Buffer(torch.zeros(n_features))
        self.scale = nn.Buffer(torch.ones(n_features))
        self.fill = nn.Buffer(torch.zeros(n_features))
        self.varies = nn.Buffer(torch.ones(n_features, dtype=torch.bool))

    @torch.no_grad()
    def fit(self, x: Tensor | RowSource, scaling: Scaling) -> Literal["standard", "global", "none"]:
        """Compute the statistics of training rows, (n, d), in memory or in blocks; return the scaling that is used."""
        found = column_moments(x.stored_blocks() if isinstance(x, RowSource) else [x])
        if found.mean.isnan().any():
            self.fill.copy_(column_medians(x))
            found = column_moments(torch.where(torch.isnan(part), self.fill, part) for part in tensor_blocks(x))
        return self.use(found, scaling)

    @torch.no_grad()
    def use(self, found: "Moments", scaling: Scaling) -> Literal["standard", "global", "none"]:
        """Scale by the statistics of columns; return the scaling that is used."""
        if scaling == "auto":
            values = float(found.rows.sum()) if isinstance(found.rows, Tensor) else found.rows * len(found.mean)
            scaling = "global" if found.zeros / values > 0.5 else "standard"
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
    """

    def __init__(self, n_features: int, n_components: int) -> None:
        super().__init__()
        self.mean = nn.Buffer(torch.zeros(n_features))
        self.axes = nn.Buffer(torch.zeros(n_features, n_components))

    @torch.no_grad()
    def fit(self, x: Rows, *, weighted: bool = True, more: int = 0) -> "Axes":
        """Fit the axes to rows (n, d), in memory by the smaller Gram matrix, on disk by blocks; return them or so many
        `more`, or as many as few rows have, the others are zero; unless `weighted`, axes keep the most of distances."""
        d, k = self.axes.shape
        more = max(k, min(more, len(x), d))
        if not (isinstance(x, Samples) and isinstance(x.rows, RowSource)):
            found = _axes_in_memory(x[:], k, weighted, more)
        elif d <= COVARIANCE_UP_TO:
            found = _by_covariance(x, k, more)
        else:
            # What rows are multiplied by when they are scaled, if that is all; sparse rows then stay sparse.
            factor = x.scale.factor() if x.rows.complete and isinstance(x.scale, Scaler) else None
            factor = None if factor is None or x.rows.sparse(0, 1) is None else factor
            found = _by_products(x, k, factor, more)
        self.mean.copy_(found.mean)
        self.axes.zero_()[:, : found.axes.shape[1]] = found.weight[:, None] * found.axes[:, :k] / found.scale
        return found

    def forward(self, x: Tensor) -> Tensor:
        d, k = self.axes.shape
        if x.shape[1] == k < d:
            return x
        # (x - mean) @ axes without a centered copy of wide rows.
        return torch.addmm(-(self.mean @ self.axes), x, self.axes)


def _axes_in_memory(x: Tensor, k: int, weighted: bool, more: int) -> "Axes":
    """Axes by eigenvectors, in float64, of the smaller Gram matrix of rows (n, d) in memory; k have the scale."""
    mean = x.mean(dim=0, dtype=torch.float64)
    centered = x - mean.to(x.dtype)
    deviation = centered.square().mean(dim=0).sqrt()
    weight = torch.where(deviation > 0, deviation, 1.0).rsqrt() if weighted else torch.ones_like(deviation)
    centered *= weight
    n, d = centered.shape
    more = more if d <= n else max(1, min(more, n - 1))  # along the last of n axes centered rows do not differ
    values, vectors = torch.linalg.eigh((centered.T @ centered if d <= n else centered @ centered.T).double())
    values, vectors = values[-more:].flip(0), vectors[:, -more:].flip(1)
    if d > n:
        vectors = vectors / values.clamp_min(1e-12).sqrt()
    axes = vectors.to(x.dtype) if d <= n else centered.T @ vectors.to(x.dtype)
    axes = with_signs(axes)
    scale = (centered @ axes[:, :k].contiguous()).square().mean().sqrt().clamp_min(1e-12)
    return Axes(mean, weight, axes, scale, (values.clamp_min(0) / n).sqrt())


# Up to this width axes are found in one pass, from the d x d covariance; beyond, in a few passes without it.
COVARIANCE_UP_TO = 2048
COLUMNS = 256  # that are copied at once, or fewer, for a copy of at most `COPIED_BYTES`
COPIED_BYTES = 2**27
EXTRA, PASSES, CONVERGED = 14, 8, 1e-3

# Bytes of a few columns of all rows, whose medians are found together.
MEDIAN_BYTES = 2**29


def tensor_blocks(x: Tensor | RowSource) -> Iterator[Tensor]:
    """Rows in order: a tensor as a whole, a source block by block."""
    return (torch.from_numpy(block) for block in x.blocks()) if isinstance(x, RowSource) else iter([x])


@dataclass(frozen=True)
class Moments:
    """Statistics of the columns of n rows, (d,) each: mean and variance in float64, range, and the first row."""

    rows: int | Tensor  # a number for each column, float64 (d,), where some values are not known
    zeros: int  # among all values
    mean: Tensor
    variance: Tensor
    low: Tensor
    high: Tensor
    first: Tensor

    def joined(self, other: "Moments") -> "Moments":
        """Those of both sets of rows (Chan, Golub and LeVeque 1983, equation 1.5b)."""
        rows = self.rows + other.rows
        fraction = other.rows / (rows + (rows == 0))
        apart = other.mean - self.mean
        return Moments(
            rows,
            self.zeros + other.zeros,
            self.mean + fraction * apart,
            (1 - fraction) * self.variance + fraction * other.variance + fraction * (1 - fraction) * apart.square(),
            torch.minimum(self.low, other.low),
            torch.maximum(self.high, other.high),
            self.first,
        )


def _sparse_moments(block: Any) -> Moments:
    """`column_moments` of a sparse matrix."""
    block.sum_duplicates()
    (n, d), at, values = block.shape, block.indices, block.data.astype(np.float64)
    stored = np.bincount(at, minlength=d)
    mean = np.bincount(at, values, minlength=d) / n
    squares = np.bincount(at, np.square(values - mean[at]), minlength=d) + (n - stored) * np.square(mean)
    columns = block.tocsc()
    low, high = (getattr(columns, name)(axis=0).toarray().reshape(d) for name in ("min", "max"))
    first, zeros = block[:1].toarray()[0], n * d - np.count_nonzero(values)
    return Moments(n, int(zeros), *map(torch.from_numpy, (mean, squares / n, low, high, first)))


def column_moments(blocks: Iterable[Any]) -> Moments:
    """Statistics of the columns of rows (n, d), given in blocks, dense or sparse; NaN where a value is missing."""
    found: Moments | None = None
    for block in blocks:
        block = torch.from_numpy(block) if isinstance(block, np.ndarray) else block
        if not isinstance(block, Tensor):
            own = _sparse_moments(block)
            found = own if found is None else found.joined(own)
            continue
        mean, variance = torch.empty(2, block.shape[1], dtype=torch.float64, device=block.device)
        # In float64 by blocks of columns: a copy of all columns would take twice the memory of the rows.
        together = min(COLUMNS, max(1, COPIED_BYTES // (8 * max(1, len(block)))))
        for start in range(0, block.shape[1], together):
            columns = slice(start, start + together)
            part = block[:, columns].to(torch.float64, copy=True)
            mean[columns] = part.mean(dim=0)
            variance[columns] = part.sub_(mean[columns]).square_().mean(dim=0)
        zeros = block.numel() - int(torch.count_nonzero(block))
        low, high = block.amin(dim=0), block.amax(dim=0)
        own = Moments(len(block), zeros, mean, variance, low, high, block[0])
        found = own if found is None else found.joined(own)
    assert found is not None
    return_freed_memory()
    return found


def column_medians(x: Tensor | RowSource) -> Tensor:
    """Median of each column over the values that are not missing, (d,), in few passes; 0 where there is none."""
    n, d = x.shape
    together = d if isinstance(x, Tensor) else max(1, MEDIAN_BYTES // (4 * n))
    found = []
    for start in range(0, d, together):
        part = torch.cat([block[:, start : start + together] for block in tensor_blocks(x)])
        # torch's median is the lower of the two middle values; the negated rows give the upper one.
        low, high = torch.nanmedian(part, dim=0).values, -torch.nanmedian(-part, dim=0).values
        found.append(((low + high) / 2).nan_to_num())
    return torch.cat(found)


@dataclass(frozen=True)
class Axes:
    """Principal axes (d, m) of centered rows whose features are multiplied by `weight`, (d,)."""

    mean: Tensor
    weight: Tensor
    axes: Tensor
    scale: Tensor  # root mean square of the coordinates on the first k axes
    deviation: Tensor  # standard deviation along each axis, (m,)


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
    return_freed_memory()
    mean = total / len(x)
    covariance = products / len(x) - torch.outer(mean, mean)
    weight = _weights(covariance.diagonal().clamp_min(0).sqrt())
    values, vectors = torch.linalg.eigh(weight[:, None] * covariance * weight)
    return _axes(mean + shift, weight, vectors[:, -more:].flip(1), values[-more:].flip(0), k)


def _by_products(x: Rows, k: int, factor: Tensor | None = None, more: int = 0) -> Axes:
    """Block Krylov iteration (Musco and Musco 2015, Algorithm 2) until a pass adds less than a thousandth."""
    moments = column_moments(scaled_blocks(x) if factor is None else _scaled_sparse(x, factor))
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
    total, sums = torch.zeros_like(vectors), torch.zeros_like(offset)
    for block in scaled_blocks(x) if factor is None else _scaled_sparse(x, factor):
        along = _times(block, weighted.float()) - offset.float()
        total += _times(block.T, along)
        sums += along.sum(dim=0, dtype=torch.float64)
    return weight[:, None] * (total - torch.outer(mean, sums)) / len(x)


def _times(rows: Any, matrix: Tensor) -> Tensor:
    """The product with rows in a tensor or a scipy matrix."""
    return rows @ matrix if isinstance(rows, Tensor) else torch.from_numpy(rows @ matrix.numpy())


def _scaled_sparse(x: Rows, factor: Tensor) -> Iterator[Any]:
    """Scaled rows in order, sparse as they are stored."""
    assert isinstance(x, Samples) and isinstance(x.rows, RowSource)
    scale = factor.numpy()
    for block in x.rows.stored_blocks():
        block.data *= scale[block.indices]
        yield block


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


# Rows farther from the center than so many root mean squares of that distance are moved to it: a few of them would
# otherwise dominate distances.
FARTHEST = 3.0

# Standard deviation along an axis, as a fraction of the largest, below which it is due to rounding.
SMALLEST = 1e-3

# Features of images and sequences are computed for at most so many rows to find their axes.
FITTED_ROWS = 10_000

# Rows of which the variance along leading axes is found.
SOME_ROWS = 1000


def some_of(x: Rows, features: Callable[[Tensor], Tensor]) -> Tensor:
    """Features of at most `FITTED_ROWS` inputs, evenly spaced."""
    index = torch.arange(0, len(x), -(-len(x) // FITTED_ROWS))
    return torch.cat([features(x[part]) for part in index.split(1024)])


class SkipCoordinates(nn.Module):
    """Leading principal coordinates of rows, (n, d) to (n, k), that training can lose; rotated, so that standardized
    last axes are no amplified noise; `length` is their root mean square or (`unit`) each row's."""

    def __init__(
        self,
        n_features: int,
        n_components: int,
        *,
        length: float,
        unit: bool = False,
        ordered: bool = False,
        features: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.length, self.unit, self.ordered, self.features = length, unit, ordered, features
        self.mean = nn.Buffer(torch.zeros(n_features))
        self.axes = nn.Buffer(torch.zeros(n_features, n_components))
        if ordered:
            self.axes[:n_components] = length * n_components**-0.5 * rotation(n_components)

    @torch.no_grad()
    def fit(self, x: Rows, *, weighted: bool = True) -> None:
        """Fit the axes to rows (n, d), as `PrincipalAxes.fit`, or to the `features` of at most 10,000 inputs."""
        if self.ordered:
            return
        d, k = self.axes.shape
        own = PrincipalAxes(d, k).to(self.axes.device)
        found = own.fit(x if self.features is None else some_of(x, self.features).to(self.axes), weighted=weighted)
        self.mean.copy_(own.mean)
        self.axes.copy_(self.length * min(k, found.axes.shape[1]) ** -0.5 * own.axes @ rotation(k).to(self.axes))

    def forward(self, x: Tensor) -> Tensor:
        rows = x if self.features is None else self.features(x)
        along = torch.addmm(-(self.mean @ self.axes), rows, self.axes)
        length = torch.linalg.vector_norm(along, dim=1, keepdim=True)
        if self.unit:
            return along * (self.length / length.clamp_min(SMALLEST * self.length))
        limit = FARTHEST * self.length
        return along * (limit / length.clamp_min(limit))


class SkipAxes(SkipCoordinates):
    """Coordinates on more principal axes than the encoder reads, (n, d) to (n, k), weighted by deviation, so that the
    last do not distract; zeros in training and for coordinates."""

    def __init__(self, n_features: int, n_components: int, *, length: float, unit: bool = False) -> None:
        super().__init__(n_features, n_components, length=length, unit=unit)

    def fit(self, x: Rows, *, weighted: bool = True) -> None:
        """Do nothing: the axes are found with those of the encoder."""

    @torch.no_grad()
    def take(self, found: Axes) -> None:
        """Take the leading k of the axes of scaled rows, or all if there are fewer."""
        m = min(self.axes.shape[1], found.axes.shape[1])
        deviation = found.deviation[:m]
        # Directions in which the rows do not differ are arbitrary.
        varies = deviation > SMALLEST * deviation.max()
        factor = torch.where(varies, deviation, 0.0) / deviation.pow(4).sum().sqrt().clamp_min(1e-12)
        self.mean.copy_(found.mean)
        axes = found.weight[:, None] * found.axes[:, :m] * factor
        self.axes.copy_(self.length * axes.to(self.axes) @ rotation(self.axes.shape[1])[:m].to(self.axes))

    def forward(self, x: Tensor) -> Tensor:
        d, k = self.axes.shape
        return x.new_zeros(len(x), k) if self.training or x.shape[1] < d else super().forward(x)


class SkipKinds(nn.Module):
    """Coordinates of several kinds of features of images or sequences, side by side; may be none."""

    def __init__(self, *kinds: SkipCoordinates) -> None:
        super().__init__()
        self.kinds = nn.ModuleList(kind for kind in kinds if kind.axes.shape[1])

    @property
    def n_components(self) -> int:
        """Number of columns."""
        return skipped_columns(self)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([kind(x) for kind in self.kinds], dim=1)


class WithSkip(nn.Module):
    """Outputs of two networks for the same input, side by side: (B, k + m)."""

    def __init__(self, learned: nn.Module, skip: nn.Module) -> None:
        super().__init__()
        self.learned, self.skip = learned, skip

    @property
    def stem(self) -> Callable[[Tensor], Tensor]:
        """The first stage of the learned part."""
        return self.learned.stem  # type: ignore[return-value]

    @property
    def stem_width(self) -> int:
        """Channels of the first stage."""
        return int(self.learned.stem_width)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.learned(x), self.skip(x)], dim=1)


def are_sparse_and_equal(x: AnyRows) -> bool:
    """Whether rows (n, d) are mostly zeros and have one length, as those of tf-idf; of up to 1,000, evenly spaced."""
    some = np.asarray(x[np.arange(0, len(x), -(-len(x) // SOME_ROWS))])
    length = np.linalg.norm(some, axis=1)
    middle = float(np.median(length))
    return bool((some == 0).mean() > 0.5 and middle > 0 and (abs(length - middle) < 0.01 * middle).mean() > 0.9)


@torch.no_grad()
def variance_kept(x: Rows, k: int, *, weighted: bool = True) -> float:
    """Fraction of the variance of at most 1,000 rows (n, d) along their k leading principal axes."""
    some = x[torch.arange(0, len(x), -(-len(x) // SOME_ROWS))]
    found = PrincipalAxes(some.shape[1], min(k, *some.shape)).to(some).fit(some, weighted=weighted)
    total = (found.weight * (some - found.mean.to(some))).square().sum() / len(some)
    return float(found.deviation.square().sum() / total.clamp_min(1e-12))


def learned_columns(n_components: int, skipped: int, appended_pca: int) -> int:
    """Number of columns of a representation that are learned: those that are not skipped, of
    `appended_pca` wanted."""
    if skipped >= n_components:
        raise InputError(
            f"appended_pca is {appended_pca}, so that none of the {n_components} columns of the representation "
            "(n_components) would be learned: give fewer"
        )
    return n_components - skipped


class FirstColumns(nn.Module):
    """A head that gets the first columns of a representation only, those that are learned: (B, n) to (B, d)."""

    def __init__(self, n_columns: int, head: nn.Module) -> None:
        super().__init__()
        self.n_columns, self.head, self.n_components = n_columns, head, head.n_components

    def forward(self, h: Tensor) -> Tensor:
        return self.head(h[:, : self.n_columns])


def skipped_columns(encoder: nn.Module) -> int:
    """Number of columns of the encoder's representation that are not learned."""
    return sum(m.axes.shape[1] for m in encoder.modules() if isinstance(m, SkipCoordinates))


@functools.cache
def rotation(k: int) -> Tensor:
    """A random orthogonal matrix (k, k), always the same for one k."""
    drawn = torch.randn(k, k, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    q, r = torch.linalg.qr(drawn)
    # With positive diagonal entries the decomposition is unique.
    return (q * r.diagonal().sign()).float()
