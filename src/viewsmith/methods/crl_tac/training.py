"""CRL-TAC: an encoder and an augmentation channel maximize I(X; Z) in turn (Koyama et al. 2021, Contrastive
Representation Learning with Trainable Augmentation Channel, Algorithm 1).

Symbols: x a sample, T one of M transformations, P(T|x) the channel (parameters eta), f the encoder, g the head, h their
composition on the sphere (theta), z = h(T(x)). Each iteration has two updates. The theta-step trains f and g with
transformations drawn from P(T|x), the eta-step the channel, with all or with uniformly drawn and weighted ones.
"""

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from viewsmith.core.samples import apply_in_blocks, block_size
from viewsmith.core.schedule import Batch, Method, Optimizer, Phase, Update
from viewsmith.frameworks.base import full_precision
from viewsmith.losses.info_max import (
    entropy,
    expectation,
    gather_keys,
    importance_weights,
    info_max,
    info_max_bound,
    near_info_max_bound,
    on_sphere,
    sampled_info_max,
)
from viewsmith.methods.crl_tac.channel import (
    AugmentationChannel,
    ChannelState,
    ChosenViews,
    Predicate,
    channel_states,
    early_warnings,
    final_warnings,
)
from viewsmith.methods.crl_tac.locations import KnownPlaces
from viewsmith.methods.crl_tac.options import CRLTACOptions
from viewsmith.networks.base import eval_mode

#: Additional weight of the entropy for each nat below its target.
TARGET_WEIGHT = 1.0

#: Probability at the places that discovery found below which training warns.
KEPT = 0.5


class CRLTACMethod(Method):
    """Encoder and head, and augmentation channel, trained in turn; options as in `viewsmith.CRLTAC`."""

    # Not of the paper: in the first `start_steps` steps positives are `near` each other, or the encoder gets views of
    # known `places`, Q(T|x), which the channel learns; after them `chosen_views` adds their `recurrence`.

    near: Tensor | None

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        channel: AugmentationChannel,
        *,
        options: CRLTACOptions,
        near: Tensor | None = None,
        places: KnownPlaces | None = None,
        chosen_views: ChosenViews | None = None,
        nonempty: Predicate | None = None,
        epochs: int,
        optimizer: Optimizer,
        channel_optimizer: Optimizer,
    ) -> None:
        super().__init__()
        self.encoder, self.head, self.channel = encoder, head, channel
        self.options, self.nonempty, self.chosen_views, self.places = options, nonempty, chosen_views, places
        target: Any = options.effective_target
        self.effective_target: float | None = target
        started = (near is not None or places is not None) and channel.scores is not None
        self.start_steps = int(options.start_steps) if started else 0
        self.register_buffer("near", None if places is not None else near, persistent=False)
        self.epochs, self.optimizer, self.channel_optimizer = epochs, optimizer, channel_optimizer
        self.chosen = nn.Buffer(torch.tensor(0.0))  # effective number in the last `diagnose`; 0 before it

    def phases(self) -> list[Phase]:
        updates = [Update("encoder", self.encoder_step, (self.encoder, self.head), self.optimizer)]
        if self.channel.scores is not None:
            updates.append(Update("channel", self.channel_step, (self.channel,), self.channel_optimizer))
        return [Phase("train", self.epochs, updates)]

    def encoder_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """theta: m draws T ~ P(T|x), or all T weighted by P(T|x); trains encoder and head."""
        draws, beta = self.options.draws, self.options.beta
        near = self.near if batch.step < self.start_steps else None
        if self.places is not None and batch.step < self.start_steps:
            q, _ = self.places.for_rows(batch.index, self.channel.log_p(batch.x).detach().exp())
            z = self.some_projections(batch.x, torch.multinomial(q, draws, True, generator=batch.generator))
            gain = self._estimate(z, torch.ones_like(z[..., 0]), beta)
        elif self.options.encoder_step == "exact" and near is None:
            p = self.channel.log_p(batch.x).detach().exp()
            gain = self._gain(self.every_projection(batch.x), p, beta)
        else:
            z = self.some_projections(batch.x, self.channel.draw(batch.x, draws, batch.generator, near))
            gain = self._estimate(z, torch.ones_like(z[..., 0]), beta)
        return -gain, {"information": gain.mean()}

    def channel_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """eta: all T weighted by P(T|x), or T ~ Uniform with importance weights; trains the channel."""
        if self.places is not None and batch.step < self.start_steps:
            log_p = self.channel.log_p(batch.x)
            return -self._at_places(log_p, batch.index), self._told(log_p, batch.index)
        options, near = self.options, self.near if batch.step < self.start_steps else None
        x = batch.x[: options.channel_rows] if options.channel_step == "exact" or near is not None else batch.x
        log_p = self.channel.log_p(x)
        h = entropy(log_p)
        objective = self._channel_gain(batch, x, log_p, near) + options.entropy_weight * h
        if self.places is not None and options.place_weight:
            objective = objective + options.place_weight * self._at_places(log_p, batch.index[: len(x)])
        if self.effective_target is not None:
            objective = objective - TARGET_WEIGHT / 2 * (math.log(self.effective_target) - h).clamp_min(0).square()
        rest = len(batch.x) - len(x)
        if rest:  # one value per sample, 0 for samples that are not used
            objective = torch.cat([objective * (len(batch.x) / len(x)), objective.new_zeros(rest)])
        return -objective, self._told(log_p, batch.index[: len(x)])

    def _at_places(self, log_p: Tensor, index: Tensor) -> Tensor:
        """E_Q log P(T|x) for samples with a known place, otherwise 0, (B,)."""
        assert self.places is not None
        q, known = self.places.for_rows(index, log_p.exp())
        return torch.where(known, (q.detach() * log_p).sum(dim=1), 0)

    def _told(self, log_p: Tensor, index: Tensor) -> dict[str, Tensor]:
        """Metrics of a channel step."""
        found = {"entropy": entropy(log_p).mean()}
        if self.places is not None:
            found["at_places"] = self.places.probability(index, log_p.detach().exp())
        return found

    def _channel_gain(self, batch: Batch, x: Tensor, log_p: Tensor, near: Tensor | None) -> Tensor:
        """The channel's objective for the first samples of a batch, without the entropy, (B,)."""
        size, beta, p = self.channel.family.size, self.options.channel_beta, log_p.exp()
        draws, exact = self.options.draws, self.options.channel_step == "exact" or near is not None
        t = None if exact else torch.randint(size, (len(x), draws), device=x.device, generator=batch.generator)
        with torch.no_grad(), eval_mode(self.encoder, self.head):
            rows = self.channel.family.rows_at_once(self.encoder, x)
            z = apply_in_blocks(self.every_projection, x, rows) if t is None else self.some_projections(x, t)
        if t is None:
            order: Literal[2] | None = 2 if beta <= 1 else None
            if near is not None:
                return near_info_max_bound(z, p, near, beta, gather_keys(z, p), order=order)
            return self._gain(z, p, beta, order) + self._recurring(z, p, batch.index[: len(x)])
        w = importance_weights(log_p.gather(1, t), size, normalized=self.options.importance_weights == "normalized")
        return self._estimate(z, w, beta) + self._recurring(z, w / draws, batch.index)

    def _recurring(self, z: Tensor, p: Tensor, index: Tensor) -> Tensor | float:
        """The term of `chosen_views` for views of the rows `index`, (B,)."""
        return 0.0 if self.chosen_views is None else self.options.channel_beta * self.chosen_views(z, p, index)

    def _gain(self, z: Tensor, p: Tensor, beta: float, order: Literal[2] | None = None) -> Tensor:
        """The objective with all transformations, (B,)."""
        if self.options.objective == "information":
            return info_max(z, p, beta, gather_keys(z, p), order=order)
        return info_max_bound(z, p, beta, gather_keys(z, p), distinct=self.options.distinct, order=order)

    def _estimate(self, z: Tensor, w: Tensor, beta: float) -> Tensor:
        """The objective with drawn transformations and their weights `w`, (B,)."""
        if self.options.objective == "information":
            return self._gain(z, w / w.shape[1], beta)
        return sampled_info_max(z, beta, w, gather_keys(z, w))

    def project(self, views: Tensor) -> Tensor:
        """h of views (n, ...): (n, d), on the sphere. If `centered`, h of an empty view is 0."""
        if not self.options.centered:
            return on_sphere(full_precision(self.head(self.encoder(views))))
        # In one batch, so that both share BatchNorm statistics.
        v = full_precision(self.head(self.encoder(torch.cat([views, torch.zeros_like(views[:1])]))))
        return on_sphere(v[:-1] - v[-1:])

    def every_projection(self, x: Tensor) -> Tensor:
        """h of all views of samples (B, ...): (B, M, d)."""
        family = self.channel.family
        if not family.is_dense(self.encoder):
            return self.project(family.all_views(x).flatten(0, 1)).unflatten(0, (len(x), family.size))
        f = family.embed(self.encoder, x)
        v = full_precision(self.head(f.flatten(0, 1)))
        if self.options.centered:
            one = family.take(x[:1], torch.zeros(1, 1, dtype=torch.int64, device=x.device))
            v = v - full_precision(self.head(self.encoder(torch.zeros_like(one[:, 0]))))
        return on_sphere(v).unflatten(0, f.shape[:2])

    def some_projections(self, x: Tensor, t: Tensor) -> Tensor:
        """h of the views T_t(x) of samples (B, ...) with indices `t` (B, m): (B, m, d)."""
        family = self.channel.family
        if self.options.centered:
            return self.project(family.take(x, t).flatten(0, 1)).unflatten(0, t.shape)
        f = family.embed_some(self.encoder, x, t)
        return on_sphere(full_precision(self.head(f.flatten(0, 1)))).unflatten(0, t.shape)

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        # In train mode, BatchNorm needs all rows at once. Otherwise blocks limit the memory for views.
        size = len(x) if self.training else block_size(x)
        return apply_in_blocks(lambda part: self._represent(part, output), x, size)

    def _represent(self, x: Tensor, output: str) -> Tensor:
        family = self.channel.family
        if family.is_view(x):
            return self.encoder(x) if output == "representation" else self.project(x)
        weights = self.channel.inference_weights(x, self.options.inference, self.options.inference_count)
        if output == "representation":
            return expectation(family.embed(self.encoder, x), weights)
        return on_sphere(expectation(self.every_projection(x), weights))

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return self.channel(x, index=index, generator=generator)

    def diagnose(self, x: Tensor, generator: torch.Generator, index: Tensor | None = None) -> dict[str, float]:
        """`AugmentationChannel.statistics` of samples."""
        found = self.channel.statistics(x, self.nonempty)
        self.chosen.fill_(found["effective"])
        return found

    def warnings(self, rows: list[dict[str, Any]]) -> list[str]:
        found = final_warnings(self._states(rows or ([{"effective": float(self.chosen)}] if self.chosen else [])))
        if rows and rows[-1].get("at_places", 1.0) < KEPT:
            found.append(
                f"P(T|x) is not at the places that discovery found: {rows[-1]['at_places']:.0%} of its probability is "
                "there; train longer, raise place_weight, or take the places of `viewsmith discover`"
            )
        return found

    def early_warnings(self, rows: list[dict[str, Any]], progress: float) -> dict[str, str]:
        return early_warnings(self._states(rows), progress)

    def _states(self, rows: list[dict[str, Any]]) -> list[ChannelState]:
        learned, size = self.channel.scores is not None, self.channel.family.size
        return channel_states(rows if learned else [], size, self.effective_target, crops=self.near is not None)
