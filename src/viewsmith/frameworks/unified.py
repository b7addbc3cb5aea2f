"""Contrast of several views against a memory under the unified loss (OUCL): what MetAug trains its encoders with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import gather
from viewsmith.core.errors import InputError
from viewsmith.core.registry import register
from viewsmith.frameworks.base import Framework
from viewsmith.frameworks.common import check_no_local_views, full_precision, updates_state
from viewsmith.frameworks.memory import Draw, FeatureMemory
from viewsmith.losses.logsumexp import logsumexp_of_products
from viewsmith.losses.nt_xent import unit
from viewsmith.losses.oucl import Logits, Margin, combine_log_sums, margin_regularization, margins, masked_logsumexp
from viewsmith.networks.per_view import ViewEncoders
from viewsmith.views.pair import Pair


@dataclass
class Views:
    """M views of each sample, which need not be of one shape, and the rows they show, int64 (M, B) or None."""

    x: Sequence[Tensor]
    ids: Tensor | None = None

    @classmethod
    def of(cls, pair: Pair) -> Views:
        """The two views of a pair."""
        return cls((pair.first, pair.second), None if pair.ids is None else torch.stack(pair.ids))


@dataclass
class LogSums:
    """Log-sums of a step's pairs, by variant of the features, view of the query and, last, view of the key.

    Attributes
    ----------
    negative, positive : Tensor, shape (V, M, B, M - 1)
        Over the negatives, and of the one positive, of each ordered pair of views.
    """

    negative: Tensor
    positive: Tensor


def check_batch(batch: int) -> None:
    """Refuse a batch of one sample: it has nothing to be told from.

    Raises
    ------
    InputError
    """
    if batch < 2:
        raise InputError(f"the batch has {batch} sample, expected at least 2: raise the batch size")


def others(view: int, views: int) -> list[int]:
    """All views but one."""
    return [other for other in range(views) if other != view]


def similarities(queries: Tensor, positives: Tensor, draw: Draw) -> tuple[Tensor, Tensor]:
    """(cos + 1) / 2 of all queries with the keys of the other views.

    Parameters
    ----------
    queries : Tensor, shape (V, M, B, d)
        V variants of the features, of length 1.
    positives : Tensor, shape (M, B, d)
        Keys of the same samples, of length 1.
    draw : Draw

    Returns
    -------
    near : Tensor, shape (V, M, B, M - 1)
    far : Tensor, shape (V, M, B, M - 1, K)
    """
    count = queries.shape[1]
    product = "vbd,nbkd->vbnk" if draw.keys.ndim == 4 else "vbd,nkd->vbnk"
    far = torch.stack([torch.einsum(product, queries[:, m], draw.keys[others(m, count)]) for m in range(count)], dim=1)
    return nearness(queries, positives), (far + 1) / 2


def nearness(queries: Tensor, positives: Tensor) -> Tensor:
    """The first of `similarities`."""
    cosines, count = torch.einsum("vmbd,nbd->vmbn", queries, positives), queries.shape[1]
    return (torch.stack([cosines[:, m][..., others(m, count)] for m in range(count)], dim=1) + 1) / 2


class FeatureContrast(nn.Module):
    """The loss terms of a step from one set of log-sums.

    Parameters
    ----------
    memory : FeatureMemory
    logits : Logits, optional
        Of the unified loss.
    united : bool
        All ordered pairs of views share one unified loss, as in MetAug; otherwise each has its own and the mean is
        taken: with the linear form that is InfoNCE, CMC's contrast.
    recalled : bool
        Positives are a bank's earlier features, as published, instead of the other views' projections with gradient.

    Raises
    ------
    InputError
        Recalled positives without a bank.
    """

    def __init__(
        self, memory: FeatureMemory, logits: Logits | None = None, *, united: bool = True, recalled: bool = False
    ) -> None:
        super().__init__()
        if recalled and memory.kind != "bank":
            raise InputError("positives from the memory need a bank, which knows the rows: take one, or live positives")
        self.memory, self.logits = memory, logits or Logits()
        self.united, self.recalled = united, recalled

    def log_sums(self, z: Tensor, draw: Draw, augmented: Tensor | None = None) -> LogSums:
        """Log-sums of projections z (M, B, d) and, where given, of augmented features of them.

        Each view's keys are read once for all terms of the loss.
        """
        features = unit(full_precision(z))
        queries = features[None] if augmented is None else torch.stack([features, augmented])
        count = len(features)
        near = nearness(queries, self._positives(features, draw))
        rows: list[list[Tensor]] = [[] for _ in range(count)]
        for n, keys in enumerate(draw.keys.to(features.dtype)):
            excluded = None if draw.excluded is None else draw.excluded[n]
            for m, sums in zip(
                others(n, count), self._negatives(queries[:, others(n, count)], keys, excluded), strict=True
            ):
                rows[m].append(sums)
        negative = torch.stack([torch.stack(row, dim=-1) for row in rows], dim=1)
        return LogSums(negative, self.logits.positive(near))

    def _negatives(self, queries: Tensor, keys: Tensor, excluded: Tensor | None) -> Sequence[Tensor]:
        """Log-sums (V, B) of every view of queries (V, M - 1, B, d) with one view's keys, (K, d) or (B, K, d)."""
        if self.logits.form == "linear":
            slope = self.logits.beta / 2
            sums: Tensor = logsumexp_of_products(slope * queries.flatten(0, 1), keys, excluded)
            return (sums + slope).unflatten(0, queries.shape[:2]).unbind(1)
        cosines = torch.einsum("vmbd,bkd->vmbk" if keys.ndim == 3 else "vmbd,kd->vmbk", queries, keys)
        return masked_logsumexp(self.logits.negative((cosines + 1) / 2), excluded).unbind(1)

    def _positives(self, features: Tensor, draw: Draw) -> Tensor:
        return draw.positives.to(features.dtype) if self.recalled and draw.positives is not None else features

    def losses(self, sums: LogSums) -> tuple[Tensor, Tensor | None]:
        """Losses (B,) of the projections, and the mean (B,) of those with augmented features (equation 11).

        The latter are M terms with one view's queries replaced by its augmented features, and one with all of them.
        """
        negative, positive = sums.negative, sums.positive
        variants, count = negative.shape[:2]
        if self.united:  # by view first: every term puts together M of these 2 M sums
            negative, positive = negative.logsumexp(-1, keepdim=True), positive.logsumexp(-1, keepdim=True)
        original = self._contrast(negative[0], positive[0])
        if variants == 1:
            return original, None
        every = torch.arange(count, device=negative.device)
        replaced = [every == view for view in range(count)] + [every >= 0]
        terms = [self._contrast(negative[which.long(), every], positive[which.long(), every]) for which in replaced]
        return original, torch.stack(terms).mean(0)

    def _contrast(self, negative: Tensor, positive: Tensor) -> Tensor:
        """Losses (B,) from log-sums, both (M, B, groups)."""
        if self.united:
            return combine_log_sums(negative.logsumexp((0, 2)), positive.logsumexp((0, 2)), self.logits.beta)
        return combine_log_sums(negative, positive, self.logits.beta).mean((0, 2))

    def regularization(self, z: Tensor, draw: Draw, augmented: Tensor, kind: Margin, *, each: bool = False) -> Tensor:
        """R (B,) of original and augmented features, with margins of the original pairs (equations 4 and 5).

        Parameters
        ----------
        z : Tensor, shape (M, B, d)
            Projections.
        draw : Draw
        augmented : Tensor, shape (M, B, d)
            Of length 1.
        kind : {"large", "medium", "small"}
        each : bool
            Margins of each sample, as in the authors' program, instead of the batch of all processes.
        """
        features = unit(full_precision(z))
        positives, count = self._positives(features, draw), len(features)
        draw = Draw(draw.keys.to(features.dtype), draw.excluded)
        hidden = None
        if draw.excluded is not None:
            hidden = torch.stack([draw.excluded[others(m, count)].transpose(0, 1) for m in range(count)])
        with torch.no_grad():
            near, far = (part[0] for part in similarities(features[None], positives, draw))
            low, high = near.amin((0, 2)), (far if hidden is None else far.masked_fill(hidden, 0)).amax((0, 2, 3))
            if not each:
                low, high = gather(low).min(), gather(high).max()
        pairs = [part[0].transpose(0, 1).flatten(1) for part in similarities(augmented[None], positives, draw)]
        mask = None if hidden is None else hidden.transpose(0, 1).flatten(1)
        return margin_regularization(pairs[0], pairs[1], margins(low, high, kind), excluded=mask)


@register(
    "framework",
    "oucl",
    help="all pairs of views against a memory in one loss (metaug)",
    source="Li et al. 2022",
    general=False,
    options={"temperature": float, "projector_dims": tuple[int, ...]},
)
class Unified(Framework):
    """Encoder and head whose M views contrast with one another and a memory (MetAug "only OUCL": Li et al. 2022).

    In a training forward (train mode, gradients on) the memory takes the batch's projections last. Other forwards
    change nothing.

    Parameters
    ----------
    encoder : nn.Module
        Samples (B, ...) to representations (B, n); or `viewsmith.networks.ViewEncoders`, one a view.
    head : nn.Module
        Representations to projections; with an encoder a view, `viewsmith.networks.ViewHeads`.
    contrast : FeatureContrast
        Memory and loss.
    """

    def __init__(self, encoder: nn.Module, head: nn.Module, contrast: FeatureContrast) -> None:
        super().__init__()
        self.encoder, self.head, self.contrast = encoder, head, contrast

    def forward(self, pair: Pair, progress: float = 0.0, generator: torch.Generator | None = None) -> Tensor:
        """Losses of the two views of each sample, shape (B,); `progress` changes nothing.

        Raises
        ------
        InputError
            The batch has one sample, or there are local views.
        """
        check_no_local_views(pair, "oucl")
        check_batch(len(pair.first))
        views = Views.of(pair)
        draw = self.contrast.memory.draw(len(pair.first), views.ids, generator)
        z = embed(self.encoder, self.head, views.x)
        with torch.autocast(z.device.type, enabled=False):
            losses = self.contrast.losses(self.contrast.log_sums(z, draw))[0]
            if updates_state(self):
                self.contrast.memory.write(z, views.ids)
        return losses


def embed(encoder: nn.Module, head: nn.Module, views: Sequence[Tensor]) -> Tensor:
    """Projections (M, B, d) of M views; a shared encoder takes them in one forward, with one BatchNorm statistic."""
    batch = len(views[0])
    if isinstance(encoder, ViewEncoders):
        # With a split, all views are taken from one.
        h = encoder.represent(views if encoder.split is None else encoder.split(views[-1]))
        return head(h).unflatten(1, (len(encoder.networks), -1)).transpose(0, 1)
    return head(encoder(torch.cat(list(views)))).unflatten(0, (len(views), batch))
