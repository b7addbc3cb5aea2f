"""Contrast of several views against a memory under the unified loss (OUCL): what MetAug trains its encoders with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import gather
from viewsmith.core.errors import InputError
from viewsmith.frameworks.memory import Draw, FeatureMemory
from viewsmith.frameworks.parts import full_precision, refuse_crops, updates_state
from viewsmith.losses.nt_xent import unit
from viewsmith.losses.oucl import Logits, Margin, log_sum, margin_regularisation, margins, unite
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
class Scores:
    """Similarities of V variants of the features (0: the embeddings, 1: augmented ones) with keys of the other views.

    Attributes
    ----------
    positives : Tensor, shape (V, M, B, M - 1)
        Of each query view with each other view of the same sample, in [0, 1].
    negatives : Tensor, shape (V, M, B, M - 1, K)
    excluded : Tensor of bool, shape (M, B, M - 1, K), or None
    """

    positives: Tensor
    negatives: Tensor
    excluded: Tensor | None


def refuse_single(batch: int) -> None:
    """Refuse a batch of one sample: it has nothing to be told from.

    Raises
    ------
    InputError
    """
    if batch < 2:
        raise InputError(f"the batch has {batch} sample, expected at least 2: raise the batch size")


def others(view: int, views: int) -> list[int]:
    return [other for other in range(views) if other != view]


def score(queries: Tensor, positives: Tensor, draw: Draw) -> Scores:
    """Similarities (cos + 1) / 2 of all queries: one product for each view of the keys serves every loss term.

    Parameters
    ----------
    queries : Tensor, shape (V, M, B, d)
        Features of length 1.
    positives : Tensor, shape (M, B, d)
        Keys of the same samples, of length 1.
    draw : Draw
    """
    count = queries.shape[1]
    # Of key view n, what the other views' queries find there: (V, M - 1, B, K).
    by_key = [
        torch.einsum("vmbd,bkd->vmbk" if draw.keys.ndim == 4 else "vmbd,kd->vmbk", queries[:, others(n, count)], keys)
        for n, keys in enumerate(draw.keys)
    ]

    def of_view(m: int) -> Tensor:
        return torch.stack([by_key[n][:, m - (m > n)] for n in others(m, count)], dim=2)

    near = torch.einsum("vmbd,nbd->vmbn", queries, positives)
    found = torch.stack([near[:, m][..., others(m, count)] for m in range(count)], dim=1)
    far = torch.stack([of_view(m) for m in range(count)], dim=1)
    excluded = None
    if draw.excluded is not None:
        excluded = torch.stack([draw.excluded[others(m, count)].transpose(0, 1) for m in range(count)])
    return Scores((found + 1) / 2, (far + 1) / 2, excluded)


class FeatureContrast(nn.Module):
    """The loss terms of a step from one set of scores.

    Parameters
    ----------
    memory : FeatureMemory
    logits : Logits, optional
        Of the unified loss.
    united : bool
        All ordered pairs of views share one unified loss, as in MetAug; otherwise each has its own and the mean is
        taken: with the linear form that is InfoNCE, CMC's contrast.
    recalled : bool
        Positives are a bank's earlier features, as published, instead of the other views' embeddings with gradient.

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

    def scores(self, z: Tensor, draw: Draw, augmented: Tensor | None = None) -> Scores:
        """Scores of embeddings z (M, B, d) and, where given, of augmented features of them."""
        features = unit(full_precision(z))
        queries = features[None] if augmented is None else torch.stack([features, augmented])
        keys = draw.positives if self.recalled and draw.positives is not None else features
        return score(queries, keys.to(features.dtype), Draw(draw.keys.to(features.dtype), draw.excluded))

    def losses(self, scores: Scores) -> tuple[Tensor, Tensor | None]:
        """Losses (B,) of the embeddings, and the mean (B,) of those with augmented features (equation 11).

        The latter are M terms with one view's queries replaced by its augmented features, and one with all of them.
        All share the log-sums of their groups of pairs.
        """
        negative = log_sum(self.logits.negative(scores.negatives), scores.excluded)
        positive = self.logits.positive(scores.positives)
        variants, count = negative.shape[:2]
        if self.united:  # by view first: every term puts together M of these 2 M sums
            negative, positive = negative.logsumexp(-1, keepdim=True), positive.logsumexp(-1, keepdim=True)
        original = self._contrast(negative[0], positive[0])
        if variants == 1:
            return original, None
        replaced = [[view] for view in range(count)] + [list(range(count))]
        choices = torch.zeros(len(replaced), count, dtype=torch.long, device=negative.device)
        for term, which in enumerate(replaced):
            choices[term, which] = 1
        every = torch.arange(count, device=negative.device)
        terms = [self._contrast(negative[choice, every], positive[choice, every]) for choice in choices]
        return original, torch.stack(terms).mean(0)

    def _contrast(self, negative: Tensor, positive: Tensor) -> Tensor:
        """Losses (B,) from log-sums, both (M, B, groups)."""
        if self.united:
            return unite(negative.logsumexp((0, 2)), positive.logsumexp((0, 2)), self.logits.beta)
        return unite(negative, positive, self.logits.beta).mean((0, 2))

    def regularisation(self, scores: Scores, kind: Margin, *, each: bool = False) -> Tensor:
        """R (B,) of original and augmented features, with margins of the original pairs (equations 4 and 5).

        Parameters
        ----------
        scores : Scores
            With augmented features.
        kind : {"large", "medium", "small"}
        each : bool
            Margins of each sample, as in the authors' program, instead of the batch of all processes.
        """
        far, excluded = scores.negatives.flatten(-2), scores.excluded
        batch = far.shape[2]
        hidden = None if excluded is None else excluded.flatten(-2)
        with torch.no_grad():
            known = far[0] if hidden is None else far[0].masked_fill(hidden, 0)
            low, high = scores.positives[0].amin((0, 2)), known.amax((0, 2))
            if not each:
                low, high = gather(low).min(), gather(high).max()
        rows = [part.transpose(0, 1).reshape(batch, -1) for part in (scores.positives[1], far[1])]
        mask = None if hidden is None else hidden.transpose(0, 1).reshape(batch, -1)
        return margin_regularisation(rows[0], rows[1], margins(low, high, kind), excluded=mask)


class Unified(nn.Module):
    """Encoder and head whose M views contrast with one another and a memory (MetAug "only OUCL": Li et al. 2022).

    In a training forward (train mode, gradients on) the memory takes the batch's embeddings last. Other forwards change
    nothing.

    Parameters
    ----------
    encoder : nn.Module
        Samples (B, ...) to representations (B, n); or `viewsmith.networks.ViewEncoders`, one a view.
    head : nn.Module
        Representations to embeddings; with an encoder a view, `viewsmith.networks.ViewHeads`.
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
        refuse_crops(pair, "oucl")
        refuse_single(len(pair.first))
        views = Views.of(pair)
        draw = self.contrast.memory.draw(len(pair.first), views.ids, generator)
        z = embed(self.encoder, self.head, views.x)
        with torch.autocast(z.device.type, enabled=False):
            losses = self.contrast.losses(self.contrast.scores(z, draw))[0]
            if updates_state(self):
                self.contrast.memory.write(z, views.ids)
        return losses


def embed(encoder: nn.Module, head: nn.Module, views: Sequence[Tensor]) -> Tensor:
    """Embeddings (M, B, d) of M views; a shared encoder takes them in one forward, with one BatchNorm statistic."""
    batch = len(views[0])
    if isinstance(encoder, ViewEncoders):
        # With a split, all views are taken from one.
        h = encoder.represent(views if encoder.split is None else encoder.split(views[-1]))
        return head(h).unflatten(1, (len(encoder.networks), -1)).transpose(0, 1)
    return head(encoder(torch.cat(list(views)))).unflatten(0, (len(views), batch))
