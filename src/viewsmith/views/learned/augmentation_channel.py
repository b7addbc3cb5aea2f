"""The augmentation channel P(T|x) (Koyama et al. 2021): a distribution over transformations, given the sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import register
from viewsmith.core.samples import Rows, apply_in_blocks
from viewsmith.losses.info_max import entropy
from viewsmith.views.base import ViewContext, ViewMaker
from viewsmith.views.learned.transforms import Crops, Family, crop_grid

Counts = Callable[[Tensor], Tensor]

ROWS = 16  # samples all of whose views are held at a time


def nonzero(views: Tensor) -> Tensor:
    """Which views (n, ...) are not zero all over: bool (n,)."""
    return (views != 0).flatten(1).any(dim=1)


class AugmentationChannel(ViewMaker):
    """P(T|x) over a finite family, a view maker whose views are drawn from it.

    Trained by `CRLTACMethod`; a trained one serves any framework, whose gradient does not reach it. Views have the
    shape of the family's: crops are smaller than their image.

    Parameters
    ----------
    family : Family
        The transformations T_1 ... T_M.
    scores : nn.Module, optional
        Network from samples to a score of each transformation; see `Family.scores`. None: all are alike, P is uniform
        and learns nothing.
    """

    def __init__(self, family: Family, scores: nn.Module | None = None) -> None:
        super().__init__()
        self.family, self.scores = family, scores

    def log_p(self, x: Tensor) -> Tensor:
        """log P(T|x) of samples (B, ...): (B, M)."""
        if self.scores is None:
            x_like = x.new_zeros(len(x), self.family.size)
            return F.log_softmax(x_like, dim=1)
        return F.log_softmax(self.family.scores(self.scores, x), dim=1)

    def effective(self, x: Tensor) -> Tensor:
        """The effective number of transformations of each sample, exp(H(T|x)): (B,), from 1 to M."""
        return entropy(self.log_p(x)).exp()

    @torch.no_grad()
    def draw(self, x: Tensor, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Numbers of `count` transformations of each sample, drawn from P(T|x) with repetition: int64 (B, count)."""
        return torch.multinomial(self.log_p(x).exp(), count, replacement=True, generator=generator)

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return self.family.take(x, self.draw(x, 1, generator))[:, 0]

    @torch.no_grad()
    def mass(self, x: Rows, counts: Counts) -> Tensor:
        """Probability that a view of each sample is one that counts: (n,), from 0 to 1.

        Parameters
        ----------
        x : Tensor or Samples, shape (n, ...)
        counts : callable
            From views (k, ...) to bool (k,); `nonzero`, for instance.

        Raises
        ------
        InputError
            It fails, or gives something else.
        """
        return apply_in_blocks(lambda part: self._mass(part, counts), x, ROWS)

    def _mass(self, x: Tensor, counts: Counts) -> Tensor:
        views = self.family.every(x).flatten(0, 1)
        try:
            found = counts(views)
        except Exception as error:
            raise InputError(
                f"nonempty fails on views {tuple(views.shape)}: {type(error).__name__}: {' '.join(str(error).split())}"
            ) from error
        if not isinstance(found, Tensor) or found.shape != views.shape[:1] or found.dtype != torch.bool:
            given = f"{found.dtype} {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
            raise InputError(f"nonempty gives {given} for views {tuple(views.shape)}, expected bool ({len(views)},)")
        return (self.log_p(x).exp() * found.view(len(x), -1)).sum(dim=1)

    def shares(self, x: Tensor, how: str, count: int | None = None) -> Tensor:
        """What each transformation counts for in the representation of samples (B, ...): (B, M), sums to one.

        Parameters
        ----------
        x : Tensor, shape (B, ...)
        how : {"expectation", "top", "uniform"}
            P(T|x); the most probable ones alike; all alike.
        count : int, optional
            Of the most probable ones (needed for "top"); or transformations drawn from P(T|x), by the same evenly
            spaced quantiles for every sample, so that a sample's result depends on nothing else.
        """
        if how == "uniform":
            return x.new_full((len(x), self.family.size), 1 / self.family.size)
        p = self.log_p(x).exp()
        if how == "top":
            if count is None:
                raise InputError("inference is 'top', but not how many: give a number of transformations")
            count = min(count, self.family.size)
            return torch.zeros_like(p).scatter(1, p.topk(count, dim=1).indices, 1 / count)
        if how != "expectation":
            raise InputError(f"inference is {how!r}, expected 'expectation', 'top' or 'uniform'")
        if count is None:
            return p
        quantiles = (torch.arange(count, device=p.device, dtype=p.dtype) + 0.5) / count
        drawn = torch.searchsorted(p.cumsum(dim=1), quantiles.expand(len(p), -1).contiguous())
        ones = torch.full_like(drawn, 1 / count, dtype=p.dtype)
        return torch.zeros_like(p).scatter_add(1, drawn.clamp_max(self.family.size - 1), ones)


def _crop_size(row_shape: Sequence[int], facts: Mapping[str, Any]) -> tuple[str, tuple[int, int]]:
    return "crops of grid-crop", (crop_grid(row_shape)[0],) * 2


@register(
    "view maker",
    "grid-crop",
    help="a crop of CRL-TAC's grid, all equally likely, of 20 x 20 pixels",
    domains="images",
    source="Koyama et al. 2021",
    changes_shape=True,
    smaller=_crop_size,
)
def _grid_crop(context: ViewContext) -> AugmentationChannel:
    crop, stride = crop_grid(context.row_shape)
    return AugmentationChannel(Crops(*context.row_shape[:2], crop=crop, stride=stride))
