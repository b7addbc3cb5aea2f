"""A part of the representation that is not learned: leading principal coordinates of the input."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.rows import AnyRows, Rows
from viewsmith.networks.scaling import Axes, PrincipalAxes

# Rows farther from the center than so many root mean squares of that distance are moved to it: a few of them would
# otherwise dominate distances.
FARTHEST = 3.0

# Standard deviation along an axis, as a fraction of the largest, below which it is due to rounding.
SMALLEST = 1e-3

# Features of images and sequences are computed for at most so many rows to find their axes.
FITTED_ROWS = 10_000

# Rows of which the variance along leading axes is found.
SOME_ROWS = 1000


class SkipCoordinates(nn.Module):
    """Leading principal coordinates of rows, rotated and scaled: (n, d) to (n, k).

    They keep for classifiers and neighbors what training can lose. The rotation gives all columns about the same
    variance: standardized, the last axes would be amplified noise. `length` is the root mean square length of rows, or
    that of every row (`unit`).
    """

    mean: Tensor
    axes: Tensor

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
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("axes", torch.zeros(n_features, n_components))
        if ordered:
            self.axes[:n_components] = length * n_components**-0.5 * _rotation(n_components)

    @torch.no_grad()
    def fit(self, x: Rows, *, weighted: bool = True) -> None:
        """Fit the axes to rows (n, d), as `PrincipalAxes.fit`, or to the `features` of at most 10,000 inputs."""
        if self.ordered:
            return
        d, k = self.axes.shape
        if self.features is not None:
            index = torch.arange(0, len(x), -(-len(x) // FITTED_ROWS))
            x = torch.cat([self.features(x[part]) for part in index.split(1024)]).to(self.axes.device)
        # As many axes as n rows have, the others zero.
        found = PrincipalAxes(d, min(k, len(x))).to(self.axes.device)
        found.fit(x, weighted=weighted)
        self.mean.copy_(found.mean)
        rotation = _rotation(k)[: min(k, len(x))].to(self.axes)
        self.axes.copy_(self.length * min(k, len(x)) ** -0.5 * found.axes @ rotation)

    def forward(self, x: Tensor) -> Tensor:
        rows = x if self.features is None else self.features(x)
        along = torch.addmm(-(self.mean @ self.axes), rows, self.axes)
        length = torch.linalg.vector_norm(along, dim=1, keepdim=True)
        if self.unit:
            return along * (self.length / length.clamp_min(SMALLEST * self.length))
        limit = FARTHEST * self.length
        return along * (limit / length.clamp_min(limit))


class SkipAxes(SkipCoordinates):
    """Coordinates of rows on more principal axes than the encoder reads: (n, d) to (n, k), found with the encoder's.

    They have the weight of the deviation along their axis, so that the many last ones do not distract. Zeros in
    training, where nothing reads them, and for rows that are coordinates on the encoder's axes already.
    """

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
        self.axes.copy_(self.length * axes.to(self.axes) @ _rotation(self.axes.shape[1])[:m].to(self.axes))

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
        found: Callable[[Tensor], Tensor] = self.learned.stem  # type: ignore[assignment]
        return found

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
        projected: Tensor = self.head(h[:, : self.n_columns])
        return projected


def skipped_columns(encoder: nn.Module) -> int:
    """Number of columns of the encoder's representation that are not learned."""
    return sum(m.axes.shape[1] for m in encoder.modules() if isinstance(m, SkipCoordinates))


def _rotation(k: int) -> Tensor:
    """A random orthogonal matrix (k, k), always the same for one k."""
    drawn = torch.randn(k, k, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    q, r = torch.linalg.qr(drawn)
    # With positive diagonal entries the decomposition is unique.
    return (q * r.diagonal().sign()).float()
