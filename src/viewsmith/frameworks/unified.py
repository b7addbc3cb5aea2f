"""MetAug's framework: one loss (OUCL) for all pairs of several views, with a memory of earlier features."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import gather
from viewsmith.core.errors import InputError, check, check_fraction
from viewsmith.core.registry import register
from viewsmith.frameworks.base import Framework, full_precision, random_keys, replace_oldest, updates_state
from viewsmith.losses.nt_xent import unit
from viewsmith.losses.numerics import logsumexp_of_products
from viewsmith.losses.oucl import Logits, Margin, combine_log_sums, margin_regularization, margins, masked_logsumexp
from viewsmith.networks.base import ViewEncoders
from viewsmith.views.base import PositivePair


@dataclass
class Draw:
    """Keys from the memory for one step; all terms of the loss use them."""

    keys: Tensor  # features of length 1, (M, K, d), or (M, B, K, d) if each sample has its own
    excluded: Tensor | None  # keys that show a row of the sample, bool (M, B, K); None: unknown
    positives: Tensor | None = None  # stored features of the samples' rows in a bank, (M, B, d)


class FeatureMemory(nn.Module):
    """Memory of the features of M views. Each step draws negatives from it and then writes its own features.

    "queue": the newest features. "bank" (memory bank): for each training row and view, the running average of its
    features (CMC, and MetAug's program).

    Parameters
    ----------
    views : int
        M, at least 2.
    size : int
        N, number of features of each view; for a bank, the number of training rows.
    width : int
        d, width of the features.
    negatives : int
        K, number of features of each view that a step draws, at most `size`.
    kind : {"queue", "bank"}
    per_sample : bool
        Draw separate negatives for each sample, with replacement, as in the authors' program. Otherwise the batch
        shares one draw without replacement, which is faster.
    momentum : float
        Momentum of the running averages of a bank, 0 to 1.
    generator : torch.Generator, optional
        Draws the initial features, which are random directions. Default: a generator with seed 0.

    Attributes
    ----------
    keys : Tensor, shape (M, N, d)
    ids : Tensor of int64, shape (M, N)
        Row of the training set that each feature shows; -1 if unknown. In a bank, feature i shows row i.
    pointer : Tensor of int64, shape ()
        Position of the oldest features in a queue.

    Raises
    ------
    InputError
        `negatives` is larger than `size`, there are fewer than two views, or the momentum is out of range.
    """

    def __init__(
        self,
        views: int,
        size: int,
        width: int,
        *,
        negatives: int,
        kind: Literal["queue", "bank"] = "queue",
        per_sample: bool = False,
        momentum: float = 0.5,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check(views >= 2, "the number of views", views, "at least 2: with one there is no pair to contrast")
        check(negatives >= 1, "the number of negatives", negatives, "at least 1")
        expected = f"at most the {size} features of the memory: use fewer negatives, or a larger memory"
        check(negatives <= size, "the number of negatives", negatives, expected)
        check_fraction("momentum", momentum)
        self.negatives, self.kind, self.per_sample, self.momentum = negatives, kind, per_sample, momentum
        self.keys = nn.Buffer(random_keys((views, size, width), generator))
        ids = torch.arange(size) if kind == "bank" else torch.full((size,), -1)
        self.ids = nn.Buffer(ids.expand(views, size).clone())
        self.pointer = nn.Buffer(torch.tensor(0))

    @torch.no_grad()
    def draw(self, batch: int, ids: Tensor | None, generator: torch.Generator | None = None) -> Draw:
        """Draw negatives for B samples of the rows `ids` (M, B); from a bank, which needs them, also positives."""
        size, device = self.keys.shape[1], self.keys.device
        if self.per_sample:
            which = torch.randint(size, (batch, self.negatives), device=device, generator=generator)
        elif self.negatives < size:
            which = torch.randperm(size, device=device, generator=generator)[: self.negatives]
        else:
            which = torch.arange(size, device=device)
        excluded = None
        if ids is not None:
            shown = self.ids[:, which] if self.per_sample else self.ids[:, which][:, None]
            excluded = (shown[:, None] == ids[:, :, None]).any(1)
        return Draw(self.keys[:, which], excluded, self._positives(ids) if self.kind == "bank" else None)

    @torch.no_grad()
    def write(self, z: Tensor, ids: Tensor | None) -> None:
        """Store projections z (M, B, d) of the rows `ids` (M, B), which a bank needs, from all processes."""
        features = gather(unit(z.detach()).transpose(0, 1).contiguous()).transpose(0, 1).to(self.keys.dtype)
        shown = None if ids is None else gather(ids.T.contiguous()).T
        views, size = self.keys.shape[:2]
        if self.kind == "bank":
            for view, rows in enumerate(self._rows(shown)):
                mixed = self.momentum * self.keys[view, rows] + (1 - self.momentum) * features[view]
                self.keys[view, rows] = unit(mixed)
            return
        count = features.shape[1]
        positions = replace_oldest(self.pointer, count, size, "memory has {} features")
        self.keys[:, positions] = features
        self.ids[:, positions] = self.ids.new_full((views, count), -1) if shown is None else shown

    def _positives(self, ids: Tensor | None) -> Tensor:
        return torch.stack([keys[rows] for keys, rows in zip(self.keys, self._rows(ids), strict=True)])

    def _rows(self, ids: Tensor | None) -> Tensor:
        if ids is None:
            raise InputError("a memory bank needs the row that each sample shows: give ids, or use a queue")
        return ids


@dataclass
class Views:
    """M views of each sample, of equal or different shapes, and the rows that they show, int64 (M, B) or None."""

    x: Sequence[Tensor]
    ids: Tensor | None = None

    @classmethod
    def of(cls, pair: PositivePair) -> "Views":
        """The two views of a pair."""
        return cls((pair.first, pair.second), None if pair.ids is None else torch.stack(pair.ids))


@dataclass
class LogSums:
    """Log-sums over the pairs of a step, (V, M, B, M - 1): V variants of features, M views, samples, other views."""

    negative: Tensor  # over the negatives of each ordered pair of views
    positive: Tensor  # the logit of its one positive


def check_batch(batch: int) -> None:
    """Reject a batch of one sample, which has no negatives."""
    if batch < 2:
        raise InputError(f"the batch has {batch} sample, expected at least 2: raise the batch size")


def others(view: int, views: int) -> list[int]:
    """All views except one."""
    return [other for other in range(views) if other != view]


def without(x: Tensor, view: int, dim: int = 0) -> Tensor:
    """`x` without one of its views, which lie along `dim`; an index of Python numbers would be copied to the device."""
    return torch.cat([x.narrow(dim, 0, view), x.narrow(dim, view + 1, x.shape[dim] - view - 1)], dim)


def similarities(queries: Tensor, positives: Tensor, draw: Draw) -> tuple[Tensor, Tensor]:
    """(cos + 1) / 2 of all queries with the keys of the other views."""
    count = queries.shape[1]
    product = "vbd,nbkd->vbnk" if draw.keys.ndim == 4 else "vbd,nkd->vbnk"
    far = torch.stack([torch.einsum(product, queries[:, m], without(draw.keys, m)) for m in range(count)], dim=1)
    return nearness(queries, positives), (far + 1) / 2


def nearness(queries: Tensor, positives: Tensor) -> Tensor:
    """The first result of `similarities`."""
    cosines, count = torch.einsum("vmbd,nbd->vmbn", queries, positives), queries.shape[1]
    return (torch.stack([without(cosines[:, m], m, -1) for m in range(count)], dim=1) + 1) / 2


class FeatureContrast(nn.Module):
    """The terms of MetAug's loss: the unified loss, its augmented variants and the margin regularization.

    Parameters
    ----------
    memory : FeatureMemory
    logits : Logits, optional
        Exponent of the unified loss. Default: ``Logits()``.
    united : bool
        Use one unified loss for all ordered pairs of views, as in MetAug. Otherwise, use the mean of one loss for each
        pair; with the linear form this is InfoNCE, the loss of CMC.
    stored_positives : bool
        Positives are the stored features of a bank, as in the authors' program, instead of the other views'
        projections.
    joint : bool
        The loss with augmented features is one unified loss of all features, original and augmented (section 3.3 and
        equation 11). Otherwise it is the mean of M + 1 losses, as in the authors' program. Needs `united`.

    Raises
    ------
    InputError
        `stored_positives` without a memory bank, or `joint` without `united`.
    """

    def __init__(
        self,
        memory: FeatureMemory,
        logits: Logits | None = None,
        *,
        united: bool = True,
        stored_positives: bool = False,
        joint: bool = False,
    ) -> None:
        super().__init__()
        if stored_positives and memory.kind != "bank":
            raise InputError("positives from the memory need a bank: use one, or positives from the batch")
        if joint and not united:
            raise InputError("one loss of all features (joint) is for united losses, not for one loss of each pair")
        self.memory, self.logits = memory, logits or Logits()
        self.united, self.stored_positives, self.joint = united, stored_positives, joint

    def log_sums(self, z: Tensor, draw: Draw, augmented: Tensor | None = None) -> LogSums:
        """Log-sums, for all terms of the loss, of projections z (M, B, d) and of their augmented features (M, B, d)."""
        features = unit(full_precision(z))
        queries = features[None] if augmented is None else torch.stack([features, augmented])
        count = len(features)
        near = nearness(queries, self._positives(features, draw))
        rows: list[list[Tensor]] = [[] for _ in range(count)]
        for n, keys in enumerate(draw.keys.to(features.dtype)):
            excluded = None if draw.excluded is None else draw.excluded[n]
            for m, sums in zip(others(n, count), self._negatives(without(queries, n, 1), keys, excluded), strict=True):
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
        return draw.positives.to(features.dtype) if self.stored_positives and draw.positives is not None else features

    def losses(self, sums: LogSums) -> tuple[Tensor, Tensor | None]:
        """Losses (B,) of the projections, and with augmented features (equation 11): `joint`, of the pairs of all
        features; otherwise the mean over M terms with the features of one view replaced, and one with all."""
        negative, positive = sums.negative, sums.positive
        variants, count = negative.shape[:2]
        if self.united:  # first per view: every term combines M of these 2 M sums
            negative, positive = negative.logsumexp(-1, keepdim=True), positive.logsumexp(-1, keepdim=True)
        original = self._contrast(negative[0], positive[0])
        if variants == 1:
            return original, None
        if self.joint:
            return original, self._contrast(negative.flatten(0, 1), positive.flatten(0, 1))
        every = torch.arange(count, device=negative.device)
        replaced = [every == view for view in range(count)] + [every >= 0]
        terms = [self._contrast(negative[which.long(), every], positive[which.long(), every]) for which in replaced]
        return original, torch.stack(terms).mean(0)

    def _contrast(self, negative: Tensor, positive: Tensor) -> Tensor:
        """Losses (B,) from log-sums, both (M, B, groups)."""
        if self.united:
            return combine_log_sums(negative.logsumexp((0, 2)), positive.logsumexp((0, 2)), self.logits.beta)
        return combine_log_sums(negative, positive, self.logits.beta).mean((0, 2))

    def regularization(
        self, z: Tensor, draw: Draw, augmented: Tensor, kind: Margin, *, per_sample: bool = False
    ) -> Tensor:
        """Margin regularization R (B,) of pairs with augmented features (M, B, d) (equations 4 and 5), with margins of
        original features of the batch of all processes or, as in the authors' program, `per_sample`."""
        features = unit(full_precision(z))
        positives, count = self._positives(features, draw), len(features)
        draw = Draw(draw.keys.to(features.dtype), draw.excluded)
        excluded = None
        if draw.excluded is not None:
            excluded = torch.stack([without(draw.excluded, m).transpose(0, 1) for m in range(count)])
        with torch.no_grad():
            near, far = (part[0] for part in similarities(features[None], positives, draw))
            low, high = near.amin((0, 2)), (far if excluded is None else far.masked_fill(excluded, 0)).amax((0, 2, 3))
            if not per_sample:
                low, high = gather(low).min(), gather(high).max()
        pairs = [part[0].transpose(0, 1).flatten(1) for part in similarities(augmented[None], positives, draw)]
        mask = None if excluded is None else excluded.transpose(0, 1).flatten(1)
        return margin_regularization(pairs[0], pairs[1], margins(low, high, kind), excluded=mask)


@register(
    "framework",
    "oucl",
    help="one loss for all pairs of views, with a memory of negatives (metaug)",
    source="Li et al. 2022",
    general=False,
    options={"temperature": float, "projector_dims": tuple[int, ...]},
)
class Unified(Framework):
    """Encoder and head that are trained with the unified loss and a memory (MetAug "only OUCL": Li et al. 2022).

    Finally, a training forward (train mode, gradients enabled) writes the projections of the batch into the memory.
    Other forwards change no state.

    Parameters
    ----------
    encoder : nn.Module
        Samples (B, ...) to representations (B, n); or `viewsmith.networks.ViewEncoders`, with one encoder per view.
    head : nn.Module
        Representations to projections (B, d); with one encoder per view, `viewsmith.networks.ViewHeads`.
    contrast : FeatureContrast
        Memory and loss.
    """

    def __init__(self, encoder: nn.Module, head: nn.Module, contrast: FeatureContrast) -> None:
        super().__init__()
        self.encoder, self.head, self.contrast = encoder, head, contrast

    def forward(self, pair: PositivePair, progress: float = 0.0, generator: torch.Generator | None = None) -> Tensor:
        """Losses of the two views of each sample, shape (B,); `progress` has no effect."""
        self.check_no_local_views(pair)
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
    """Projections (M, B, d) of M views. Views share BatchNorm statistics, unless each has its own encoder."""
    batch = len(views[0])
    if isinstance(encoder, ViewEncoders):
        # With a split, all views are parts of one augmented sample.
        h = encoder.represent(views if encoder.split is None else encoder.split(views[-1]))
        return head(h).unflatten(1, (len(encoder.networks), -1)).transpose(0, 1)
    return head(encoder(torch.cat(list(views)))).unflatten(0, (len(views), batch))
