"""MetAug: features augmented by generators that learn from how much they help the encoder (Li et al. 2022, MetAug:
Contrastive Learning via Meta Feature Augmentation).

Symbols: theta encoder and head (the paper's theta and vartheta), omega the generators (MAGs), z embeddings,
a_omega(z) augmented features, L = L_ori + delta L_aug (equation 11), ell the rate of the inner step, R the margin
regularization (equation 5). Algorithm 1, per batch: update theta on L with omega as it is; then update omega on
L at theta' = theta - ell grad_theta L, plus alpha R, where theta is what the first update started from, so that its
gradient is the inner one and need not be computed again.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.method import Batch, Method, Optimizer, Phase, Update
from viewsmith.core.samples import Rows
from viewsmith.frameworks import FeatureContrast, Framework, Unified
from viewsmith.frameworks.common import full_precision
from viewsmith.frameworks.unified import Views, check_batch
from viewsmith.losses.nt_xent import unit
from viewsmith.losses.oucl import Margin
from viewsmith.methods.meta_step import batch_statistics, check_statistics, inner_gradient, meta_losses
from viewsmith.methods.meta_terms import Attraction, Embedder, Inner, Terms, Whole, state_of
from viewsmith.networks.per_view import ViewEncoders
from viewsmith.views.learned.feature_augmenters import MetaFeatures
from viewsmith.views.pair import Pair, ViewPair

Order = Literal["second-order", "first-order", "frozen", "none"]


class MetAugMethod(Method):
    """Encoders that contrast original and augmented features, and generators that learn through their step.

    Parameters
    ----------
    framework : Unified or another framework
        Encoder, head and L_ori.
    views : ViewPair
        Makes the views of samples.
    features : MetaFeatures or None
        The generators; None: there are none ("only OUCL").
    contrast : FeatureContrast, optional
        Of L_aug, where the framework is not `Unified`, which has its own.
    n_views : int
        M, with a shared encoder; other frameworks than `Unified` take 2.
    meta : {"second-order", "first-order", "frozen", "none"}
        How the generators learn: through the inner step, with its result taken as given, not at all.
    feature_weight : float
        delta, above 0.
    inner_rate : float
        ell.
    margin : {"large", "medium", "small"}
    margin_weight : float
        alpha over delta: the generators' objective is (L + alpha R) / delta, of the same minima on any scale of delta.
    margin_each : bool
        Margins of each sample instead of the batch.
    epochs : int
    optimizer, feature_optimizer : Optimizer
    every : int
        Steps from one update of the generators to the next.

    Raises
    ------
    InputError
        One view only, or views that the framework cannot take.
    """

    def __init__(
        self,
        framework: Framework,
        views: ViewPair,
        features: MetaFeatures | None,
        contrast: FeatureContrast | None = None,
        *,
        n_views: int = 2,
        meta: Order,
        feature_weight: float,
        inner_rate: float,
        margin: Margin,
        margin_weight: float,
        margin_each: bool,
        epochs: int,
        optimizer: Optimizer,
        feature_optimizer: Optimizer,
        every: int = 1,
    ) -> None:
        super().__init__()
        if n_views < 2:
            raise InputError(f"n_views is {n_views}, expected at least 2: with one view there is no pair to contrast")
        if n_views > 2 and not isinstance(framework, Unified):
            raise InputError(f"n_views is {n_views}, expected 2 with another framework than oucl")
        self.framework, self.views, self.features = framework, views, features
        self.added = None if isinstance(framework, Unified) else contrast
        found = framework.contrast if isinstance(framework, Unified) else contrast
        self.terms = Terms(framework, found, features, feature_weight, margin, margin_weight, margin_each)
        self.n_views, self.meta, self.inner_rate, self.every = n_views, meta, inner_rate, every
        self.epochs, self.optimizer, self.feature_optimizer = epochs, optimizer, feature_optimizer
        self.inner: Inner | None = None
        if features is not None and meta == "frozen":
            features.requires_grad_(False)
        views.bind(Attraction(framework) if isinstance(framework, Unified) else framework)

    def phases(self) -> list[Phase]:
        theta = [p for p in self.framework.parameters() if p.requires_grad]
        updates = [Update("encoder", EncoderStep(self), theta, self.optimizer)]
        if self.learns:
            step = FeatureStep(self)
            updates.append(Update("features", step, optimizer=self.feature_optimizer, every=self.every))
        return [Phase("train", self.epochs, updates)]

    @property
    def learns(self) -> bool:
        """Whether the generators learn."""
        return self.features is not None and self.meta in ("second-order", "first-order")

    def views_of(
        self, x: Tensor, index: Tensor | None, generator: torch.Generator | None, progress: float = 0.0
    ) -> tuple[Pair, Views]:
        """A pair for the framework, and M views: its first one, and the second ones of as many pairs as it takes."""
        encoder = self.framework.encoder
        split = isinstance(encoder, ViewEncoders) and encoder.split is not None
        made = [
            self.views(x, index=index, generator=generator, progress=progress)
            for _ in range(1 if split else self.n_views - 1)
        ]
        pair, shown = made[0], [p.ids[1] for p in made if p.ids is not None]
        if split:  # all views are taken from one augmented sample
            return pair, Views((pair.second,), torch.stack(shown * self.n_views) if shown else None)
        ids = None if pair.ids is None else torch.stack([pair.ids[0], *shown])
        return pair, Views((pair.first, *(p.second for p in made)), ids)

    # ---- Method ---------------------------------------------------------------------------------------------------

    def prepare(self, x: Rows, seed: int) -> None:
        self.views.prepare(x)

    def release(self) -> None:
        self.views.release()
        self.inner = None

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        """h of all views side by side, ``view-1`` and so on for one of them, or their embeddings."""
        h: Tensor = self.framework.encoder(x)
        if output.startswith("view-"):
            return h.chunk(self.n_views, dim=1)[int(output.removeprefix("view-")) - 1]
        return h if output == "representation" else self.framework.head(h)

    @property
    def needs_pool(self) -> bool:
        return self.views.needs_pool

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """One view of each sample before it is embedded; of augmented features see `feature_views`."""
        return self.views.view(x, index=index, generator=generator)

    @torch.no_grad()
    def feature_views(
        self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Directions of the embeddings of M views of scaled samples, and their augmented features; both (M, B, d).

        Raises
        ------
        InputError
            There are no generators.
        """
        if self.features is None:
            raise InputError("meta is 'none': there are no generators of features; fit with another one")
        z = unit(full_precision(self.terms.embeddings(*self.views_of(x, index, generator))))
        return z, self.features(z)


class EncoderStep(nn.Module):
    """L of a batch for encoder and head, with the generators as they are; the memory takes the batch last."""

    def __init__(self, method: MetAugMethod) -> None:
        super().__init__()
        self.framework, self.features, self.added = method.framework, method.features, method.added
        self.method = [method]  # in a list: its other parts do not belong to this update

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        method, terms, logs = self.method[0], self.method[0].terms, dict[str, Tensor]()
        check_batch(len(batch.x))
        pair, views = method.views_of(batch.x, batch.index, batch.generator, batch.progress)
        memory = None if terms.contrast is None else terms.contrast.memory
        draw = None if memory is None else memory.draw(len(batch.x), views.ids, batch.generator)
        inner = method.learns and batch.step % method.every == 0
        state = state_of(self.framework) if inner else {}
        own, z = terms.own_losses(pair, views, batch.progress)
        losses = terms.of_embeddings(draw, logs=logs)(z)
        if memory is not None:
            memory.write(z, views.ids)
        if inner:
            theta = [name for name, p in self.framework.named_parameters() if p.requires_grad]
            method.inner = Inner(state, theta, pair, views, draw, z.detach())
        return losses if own is None else own + losses, logs


class FeatureStep(nn.Module):
    """(L + alpha R) / delta at theta', for the generators alone; nothing of the encoder's is touched."""

    def __init__(self, method: MetAugMethod) -> None:
        super().__init__()
        self.features = method.features
        self.method = [method]

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        method, terms, logs = self.method[0], self.method[0].terms, dict[str, Tensor]()
        inner, method.inner = method.inner, None
        assert inner is not None and method.features is not None
        if method.meta == "second-order":
            check_statistics(method.framework, method.features)
        whole = Whole(terms, inner.state, inner.pair, inner.views, batch.progress)
        theta = {name: inner.state[name] for name in inner.theta}
        first, second = terms.of_embeddings(inner.draw), terms.of_embeddings(inner.draw, regularized=True, logs=logs)
        with batch_statistics(method.framework, method.features):
            if method.optimizer.clip is None:
                gradient = {name: p.grad for name, p in method.framework.named_parameters() if name in theta}
            else:  # what the encoder's update leaves is cut, which is not linear in the generators
                gradient = dict(inner_gradient(whole.at, first, theta, batch.weight))
            losses = meta_losses(
                whole.at,
                Embedder(terms, inner.pair, inner.views).at,
                first,
                second,
                omega=[p for p in method.features.parameters() if p.requires_grad],
                weights=theta,
                gradient=gradient,
                z=inner.z,
                rate=method.inner_rate,
                second_order=method.meta == "second-order",
                weight=batch.weight,
            )
        return losses / terms.feature_weight, {name: logs[name] for name in ("margin",) if name in logs}
