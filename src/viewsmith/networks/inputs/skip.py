"""A part of the representation that is not learned: leading principal coordinates of the input."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from viewsmith.core.samples import Rows
from viewsmith.networks.inputs.scaling import PrincipalAxes

# Rows farther from the center than so many root mean squares of that distance are moved to it: a few of them would
# otherwise dominate distances.
FARTHEST = 3.0


class SkipCoordinates(nn.Module):
    """Leading principal coordinates of rows, rotated and scaled: (n, d) to (n, k).

    Training can only lose what the input tells; these columns keep it for classifiers and neighbors. They are rotated
    by a fixed orthogonal matrix, after which all have about the same variance: a classifier that standardizes columns
    would otherwise amplify the last axes, which are mostly noise.

    Parameters
    ----------
    n_features, n_components : int
        d and k, at most d.
    length : float
        Root mean square of the length of a row's coordinates. Longer ones than three times that are shortened to it.
    ordered : bool
        Whether the input is principal coordinates already (`PrincipalAxes`), centered, in decreasing order of variance,
        with root mean square 1: the first k are taken, and nothing is fitted.
    """

    mean: Tensor
    axes: Tensor

    def __init__(self, n_features: int, n_components: int, *, length: float, ordered: bool = False) -> None:
        super().__init__()
        self.length, self.ordered = length, ordered
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("axes", torch.zeros(n_features, n_components))
        if ordered:
            self.axes[:n_components] = length * n_components**-0.5 * _rotation(n_components)

    @torch.no_grad()
    def fit(self, x: Rows, *, weighted: bool = True) -> None:
        """Fit the axes to rows (n, d), as `PrincipalAxes.fit`; those of principal coordinates are known."""
        if self.ordered:
            return
        d, k = self.axes.shape
        # As many axes as n rows have, the others zero.
        found = PrincipalAxes(d, min(k, len(x))).to(self.axes.device)
        found.fit(x, weighted=weighted)
        self.mean.copy_(found.mean)
        rotation = _rotation(k)[: min(k, len(x))].to(self.axes)
        self.axes.copy_(self.length * min(k, len(x)) ** -0.5 * found.axes @ rotation)

    def forward(self, x: Tensor) -> Tensor:
        along = torch.addmm(-(self.mean @ self.axes), x, self.axes)
        length = torch.linalg.vector_norm(along, dim=1, keepdim=True)
        limit = FARTHEST * self.length
        return along * (limit / length.clamp_min(limit))


class WithSkip(nn.Module):
    """Outputs of two networks for the same input, side by side: (B, k + m).

    Parameters
    ----------
    learned, skip : nn.Module
        From inputs (B, d) to (B, k) and (B, m).
    """

    def __init__(self, learned: nn.Module, skip: SkipCoordinates) -> None:
        super().__init__()
        self.learned, self.skip = learned, skip

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.learned(x), self.skip(x)], dim=1)


class FirstColumns(nn.Module):
    """A head that gets the first columns of a representation only, those that are learned: (B, n) to (B, d).

    Parameters
    ----------
    n_columns : int
    head : nn.Module
        From (B, n_columns) to (B, d), with the attribute `n_components`, d.
    """

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
