"""The view maker: the one abstraction for augmentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from viewsmith.core.samples import Rows
from viewsmith.domains.base import Domain

#: The stream of a batch, or one of each sample's own: what is made of a sample then does not depend on its batch.
Generators = torch.Generator | Sequence[torch.Generator]


@dataclass
class CropBoxes:
    """Which part of its source each of B views shows.

    Attributes
    ----------
    boxes : Tensor, shape (B, 4)
        Top, left, height, width as shares of the image's height and width.
    flip : bool Tensor, shape (B,)
        Whether it is mirrored left to right.
    """

    boxes: Tensor
    flip: Tensor


@dataclass
class Pair:
    """Two views of each sample, (B, ...) each, as view makers hand them to a framework.

    Attributes
    ----------
    first, second : Tensor, shape (B, ...)
    ids : pair of int64 Tensor, each (B,), or None
        The rows of the training set that the two views show; None: unknown.
    local : Tensor, shape (B, V, ...), or None
        V further views of each sample, of a smaller size (multi-crop).
    crops : pair of CropBoxes, or None
        What the views show of the samples they were made from, where crops are all that moved their pixels.
    """

    first: Tensor
    second: Tensor
    ids: tuple[Tensor, Tensor] | None = None
    local: Tensor | None = None
    crops: tuple[CropBoxes, CropBoxes] | None = None


class ViewMaker(nn.Module):
    """A batch of scaled samples in, a view of each out: same shape, dtype and device, no loop over samples.

    ``maker(x, index=..., generator=...)``: `x` is (B, ...); `index`, int64 (B,), says which rows of the pool the
    samples are (None: other samples); all randomness comes from `generator`, so that a draw can be replayed.

    Attributes
    ----------
    views_made : {1, 2}
        2: both views of a pair are made (the usual case); 1: the second only, the first stays the sample.
    needs_pool : bool
        Whether views take something from other rows; `prepare` must then be called first.
    needs_loss : bool
        Whether views depend on the loss that they serve: ``loss=`` of `pair` (and of the call) is then the framework,
        called with a `Pair`. Makers without it are called without ``loss``.
    pool : Tensor, Samples or None
        Rows the maker may borrow from, given by `prepare`; never saved with the model.
    """

    views_made: int = 2
    needs_pool: bool = False
    needs_loss: bool = False
    pool: Rows | None = None

    def prepare(self, pool: Rows) -> None:
        """Look at the rows to borrow from: the scaled training rows, (n, ...)."""

    def release(self) -> None:
        """Let go of the rows that `prepare` was given."""
        self.pool = None

    def pair(self, pair: Pair, *, generator: torch.Generator | None = None) -> Pair:
        """Make both views of a pair, or the second alone (`views_made`); some makers override it."""
        shown = pair.ids or (None, None)
        first = self(pair.first, index=shown[0], generator=generator) if self.views_made == 2 else pair.first
        return Pair(first, self(pair.second, index=shown[1], generator=generator), pair.ids, pair.local)

    def _pool(self) -> Rows:
        if self.pool is None:
            raise RuntimeError(f"{type(self).__name__} borrows from other rows: call prepare(rows) first")
        return self.pool


@dataclass(frozen=True)
class ViewContext:
    """What a view maker may need to know when it is built.

    A view maker registers itself as ``@register("view maker", "my-views", help=..., domains=...)``, as a class whose
    keyword-only arguments are its options, or as a function of a context with such arguments. Its traits:
    ``changes_shape`` (views have another shape than samples, so that it comes last), ``local_views`` (it makes further,
    smaller views, which not every framework takes), ``other_samples`` (a view may be another sample), ``neighbors``
    (it seeks nearest rows) and ``smaller`` (from a context and the options to what its smaller views are called and
    their size in pixels).

    Attributes
    ----------
    domain : Domain
    row_shape : tuple of int
        Of a sample as users give it.
    encoder : nn.Module
        The encoder that is trained.
    stats : mapping
        What the input layer told of the training rows, see `Domain.fit_input`.
    space : callable or PrincipalSpace, optional
        Where neighbors are sought; None: in the samples as they are scaled.
    refreshed : bool
        Whether neighbors are sought anew in the representation as training goes on.
    name : str
        As the user wrote it, with the argument of a name that takes one.
    facts : mapping
        What `resolve` of a view maker found for itself.
    fresh : bool
        The model is new, so that weights of another run are read; otherwise they come with the model's own.
    """

    domain: Domain
    row_shape: tuple[int, ...]
    encoder: nn.Module
    stats: Mapping[str, Any] = field(default_factory=dict)
    space: Any = None
    refreshed: bool = False
    name: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    fresh: bool = True


def rand(shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Uniform draws on the device and in the dtype of `like`."""
    return torch.rand(shape, device=like.device, dtype=like.dtype, generator=generator)


def randn(like: Tensor, generator: Generators | None) -> Tensor:
    """Standard Gaussian draws of the shape, device and dtype of `like`; from each sample's own stream if it has one."""
    if isinstance(generator, Sequence):
        # One after the other, because a stream cannot be drawn from for several samples at once.
        return torch.stack([randn(row, own) for row, own in zip(like, generator, strict=True)])
    return torch.randn(like.shape, device=like.device, dtype=like.dtype, generator=generator)


def randint(high: int, shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Integers from 0 to high - 1 on the device of `like`."""
    return torch.randint(high, shape, device=like.device, generator=generator)
