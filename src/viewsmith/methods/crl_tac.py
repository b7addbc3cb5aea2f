"""CRL-TAC: an encoder and an augmentation channel take turns at raising I(X; Z) (Koyama et al. 2021, Contrastive
Representation Learning with Trainable Augmentation Channel, Algorithm 1).

Symbols: x a sample, T one of M transformations, P(T|x) the channel (parameters eta), f the encoder, g the head, h their
composition on the sphere (theta), z = h(T(x)). In each iteration the theta-step moves f and g, on transformations drawn
from P(T|x), which stays as it is; the eta-step moves the channel, with f and g as they are, over all transformations,
or over some that are drawn uniformly and weighted by P(T|x).
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from viewsmith.core import distributed
from viewsmith.core.method import Batch, Method, Optimizer, Phase, Update
from viewsmith.losses.info_max import (
    entropy,
    expectation,
    importance_weights,
    info_max_bound,
    on_sphere,
    sampled_info_max,
)
from viewsmith.methods.channel_state import ChannelState, early_signs, verdict
from viewsmith.networks.eval_mode import eval_mode
from viewsmith.views.learned.augmentation_channel import AugmentationChannel, Counts

Step = Literal["exact", "sampled"]
Weights = Literal["plain", "normalized"]
Inference = Literal["expectation", "top", "uniform"]

#: Weight of the entropy, per nat that it is below its target.
HOLD = 1.0


class CRLTACMethod(Method):
    """Encoder, head and augmentation channel, trained in turn.

    Parameters
    ----------
    encoder, head : nn.Module
        f, from views to (B, n_components), and g, from there to embeddings.
    channel : AugmentationChannel
    centered : bool
        Take the embedding of an empty view (zeros) from every embedding. An empty view must say nothing: where it has
        a direction like any other, all empty views are alike, the constant map is a stationary point, and the channel
        never leaves the uniform distribution. Networks without biases have that by themselves.
    beta, channel_beta : float
        Concentration of P(Z|T(x)) in the encoder's step and in the channel's. The exact channel step takes the
        exponential's series to second order where `channel_beta` is at most 1 (see `log_marginal`), and else all pairs
        of all transformations of all its rows.
    draws : int
        m, transformations drawn of each sample.
    encoder_step, channel_step : {"exact", "sampled"}
        Over all transformations, weighted by P(T|x), or over `draws` of them.
    channel_rows : int
        Samples of a batch that an exact channel step looks at.
    distinct : bool
        Positives are pairs of different transformations (see `info_max_bound`), in exact steps; sampled ones always
        take different draws.
    weights : {"plain", "normalized"}
        Importance weights of a sampled channel step.
    entropy_weight : float
        lambda, weight of H(T|x).
    effective_target : float, optional
        Hold the effective number of transformations of each sample, exp(H), here: below it H has the further weight
        log target - H (times `HOLD`), which grows until it holds.
    inference : {"expectation", "top", "uniform"}
    inference_count : int, optional
        See `AugmentationChannel.shares`.
    nonempty : callable, optional
        Which views (n, ...) show something, bool (n,); what `diagnose` then tells the mass of.
    epochs : int
    optimizer, channel_optimizer : Optimizer
    """

    chosen: Tensor

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        channel: AugmentationChannel,
        *,
        centered: bool,
        beta: float,
        channel_beta: float,
        draws: int,
        encoder_step: Step,
        channel_step: Step,
        channel_rows: int,
        distinct: bool,
        weights: Weights,
        entropy_weight: float,
        effective_target: float | None,
        inference: Inference,
        inference_count: int | None,
        nonempty: Counts | None = None,
        epochs: int,
        optimizer: Optimizer,
        channel_optimizer: Optimizer,
    ) -> None:
        super().__init__()
        self.encoder, self.head, self.channel = encoder, head, channel
        self.centered, self.draws = centered, draws
        self.beta, self.channel_beta = beta, channel_beta
        self.encoder_step, self.channel_step = encoder_step, channel_step
        self.channel_rows, self.distinct, self.weights = channel_rows, distinct, weights
        self.entropy_weight, self.effective_target = entropy_weight, effective_target
        self.inference, self.inference_count, self.nonempty = inference, inference_count, nonempty
        self.epochs, self.optimizer, self.channel_optimizer = epochs, optimizer, channel_optimizer
        # Effective number of transformations when last looked at; 0: not yet.
        self.register_buffer("chosen", torch.tensor(0.0))

    def phases(self) -> list[Phase]:
        updates = [Update("encoder", _ThetaStep(self), optimizer=self.optimizer)]
        if self.channel.scores is not None:
            updates.append(Update("channel", _EtaStep(self), optimizer=self.channel_optimizer))
        return [Phase("train", self.epochs, updates)]

    # ---- embeddings -------------------------------------------------------------------------------------------------

    def embed(self, views: Tensor) -> Tensor:
        """h of views (n, ...): (n, d), on the sphere, an empty view at its center."""
        if not self.centered:
            return on_sphere(self.head(self.encoder(views)))
        # In one batch, for the sake of BatchNorm.
        v = self.head(self.encoder(torch.cat([views, torch.zeros_like(views[:1])])))
        return on_sphere(v[:-1] - v[-1:])

    def every_embedding(self, x: Tensor, f: Tensor | None = None) -> Tensor:
        """h of all views of samples (B, ...): (B, M, d); `f`, (B, M, n_components), where it is known already."""
        family = self.channel.family
        if f is None and not family.is_dense(self.encoder):
            return self.embed(family.every(x).flatten(0, 1)).unflatten(0, (len(x), family.size))
        f = family.embed(self.encoder, x) if f is None else f
        v = self.head(f.flatten(0, 1))
        if self.centered:
            one = family.take(x[:1], torch.zeros(1, 1, dtype=torch.int64, device=x.device))
            v = v - self.head(self.encoder(torch.zeros_like(one[:, 0])))
        return on_sphere(v).unflatten(0, f.shape[:2])

    def some_embeddings(self, x: Tensor, t: Tensor) -> Tensor:
        """h of views T_t(x) of samples (B, ...), numbers `t` (B, m): (B, m, d)."""
        family = self.channel.family
        if self.centered:
            return self.embed(family.take(x, t).flatten(0, 1)).unflatten(0, t.shape)
        f = family.embed_some(self.encoder, x, t)
        return on_sphere(self.head(f.flatten(0, 1))).unflatten(0, t.shape)

    # ---- Method ---------------------------------------------------------------------------------------------------

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        family = self.channel.family
        if family.is_view(x):
            return self.encoder(x) if output == "representation" else self.embed(x)
        shares = self.channel.shares(x, self.inference, self.inference_count)
        if output == "representation":
            return expectation(family.embed(self.encoder, x), shares)
        return on_sphere(expectation(self.every_embedding(x), shares))

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        view: Tensor = self.channel(x, index=index, generator=generator)
        return view

    @torch.no_grad()
    def diagnose(self, x: Tensor, generator: torch.Generator) -> dict[str, float]:
        """Of the channel: entropy in nats, effective number, largest probability, mass on views that show something."""
        log_p = self.channel.log_p(x)
        h = float(entropy(log_p).mean())
        self.chosen.fill_(math.exp(h))
        found = {"entropy": h, "effective": math.exp(h), "largest_p": float(log_p.amax(dim=1).exp().mean())}
        if self.nonempty is not None:
            found["nonempty_mass"] = float(self.channel.mass(x, self.nonempty).mean())
        return found

    def warnings(self) -> list[str]:
        learned = self.channel.scores is not None
        return verdict(self._state(float(self.chosen))) if learned and self.chosen else []

    def early_warnings(self, rows: list[dict[str, Any]], progress: float) -> dict[str, str]:
        states = [self._state(row["effective"]) for row in rows if "effective" in row]
        return early_signs(states, progress) if states and self.channel.scores is not None else {}

    def _state(self, chosen: float) -> ChannelState:
        return ChannelState(chosen, self.channel.family.size, self.effective_target)


class _ThetaStep(nn.Module):
    """The encoder's step: transformations drawn from P(T|x), or all of them, weighted by it."""

    def __init__(self, method: CRLTACMethod) -> None:
        super().__init__()
        self.encoder, self.head = method.encoder, method.head
        self.method = [method]  # in a list: the channel does not belong to this update

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        method = self.method[0]
        if method.encoder_step == "exact":
            with torch.no_grad():
                p = method.channel.log_p(batch.x).exp()
            z = method.every_embedding(batch.x)
            gain = info_max_bound(z, p, method.beta, _gathered(z, p), distinct=method.distinct)
        else:
            t = method.channel.draw(batch.x, method.draws, batch.generator)
            z = method.some_embeddings(batch.x, t)
            gain = sampled_info_max(z, method.beta, keys=_gathered(z, torch.ones_like(z[..., 0])))
        return -gain, {"information": gain.mean()}


class _EtaStep(nn.Module):
    """The channel's step, on embeddings that stay as they are."""

    def __init__(self, method: CRLTACMethod) -> None:
        super().__init__()
        self.channel = method.channel
        self.method = [method]

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        method, x = self.method[0], batch.x
        beta = method.channel_beta
        if method.channel_step == "exact":
            x = x[: method.channel_rows]
            with torch.no_grad(), eval_mode(method.encoder, method.head):
                z = method.every_embedding(x)
            log_p = self.channel.log_p(x)
            p = log_p.exp()
            order: Literal[2] | None = 2 if beta <= 1 else None
            gain = info_max_bound(z, p, beta, _gathered(z, p), distinct=method.distinct, order=order)
        else:
            size = self.channel.family.size
            t = torch.randint(size, (len(x), method.draws), device=x.device, generator=batch.generator)
            with torch.no_grad(), eval_mode(method.encoder, method.head):
                z = method.some_embeddings(x, t)
            log_p = self.channel.log_p(x)
            drawn = log_p.gather(1, t)
            weights = importance_weights(drawn, size, normalized=method.weights == "normalized")
            gain = sampled_info_max(z, beta, weights, _gathered(z, weights))
        h = entropy(log_p)
        objective = gain + method.entropy_weight * h
        if method.effective_target is not None:
            objective = objective - HOLD / 2 * (math.log(method.effective_target) - h).clamp_min(0).square()
        rest = len(batch.x) - len(x)
        if rest:  # one value a sample: those that were not looked at add nothing
            objective = torch.cat([objective * (len(batch.x) / len(x)), objective.new_zeros(rest)])
        return -objective, {"entropy": h.mean()}


def _gathered(z: Tensor, p: Tensor) -> tuple[Tensor, Tensor] | None:
    """Embeddings and weights of all processes; one process needs none."""
    return (distributed.gather(z), distributed.gather(p)) if distributed.is_distributed() else None
