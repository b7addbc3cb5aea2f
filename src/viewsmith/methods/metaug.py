"""MetAug: features augmented by generators that learn from how much they help the encoder (Li et al. 2022, MetAug:
Contrastive Learning via Meta Feature Augmentation).

Symbols: theta encoder and head (the paper's theta and vartheta), omega the generators (MAGs), z projections,
a_omega(z) augmented features, L = L_ori + delta L_aug (equation 11), ell the rate of the inner step, R the margin
regularization (equation 5). Algorithm 1, per batch: update theta on L, omega fixed; then update omega on L at
theta' = theta - ell grad_theta L, plus alpha R. Here theta is the value before the first update, whose gradient is
therefore the inner one and is not computed again (Algorithm 1 looks ahead from the updated value, in a second loop over
the data).
"""

from __future__ import annotations

from typing import Any, Literal

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
from viewsmith.methods.meta_terms import Attraction, Inner, Projector, Terms, Whole, state_of
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
        M, with a shared encoder; 2 with other frameworks than `Unified`.
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
        self.feature_weight, self.margin_weight, self.margin_each = feature_weight, margin_weight, margin_each
        self.margin: Margin = margin
        self.n_views, self.meta, self.inner_rate, self.every = n_views, meta, inner_rate, every
        self.epochs, self.optimizer, self.feature_optimizer = epochs, optimizer, feature_optimizer
        self.inner: Inner | None = None
        if features is not None and meta == "frozen":
            features.requires_grad_(False)

    def phases(self) -> list[Phase]:
        updates = [Update("encoder", self.encoder_step, (self.framework,), self.optimizer)]
        if self.features is not None and self.learns:
            updates.append(Update("features", self.feature_step, (self.features,), self.feature_optimizer, self.every))
        return [Phase("train", self.epochs, updates)]

    def encoder_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """theta: L, omega fixed; moves encoder and head. The batch enters the memory last."""
        check_batch(len(batch.x))
        terms, logs = self.terms, dict[str, Tensor]()
        pair, views = self.views_of(batch.x, batch.index, batch.generator, batch.progress)
        memory = None if terms.contrast is None else terms.contrast.memory
        draw = None if memory is None else memory.draw(len(batch.x), views.ids, batch.generator)
        inner = self.learns and batch.step % self.every == 0
        state = state_of(self.framework) if inner else {}
        own, z = terms.own_losses(pair, views, batch.progress)
        losses = terms.of_projections(draw, logs=logs)(z)
        if memory is not None:
            memory.write(z, views.ids)
        if inner:
            theta = [name for name, p in self.framework.named_parameters() if p.requires_grad]
            self.inner = Inner(state, theta, pair, views, draw, z.detach())
        return losses if own is None else own + losses, logs

    def feature_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """omega: (L + alpha R) / delta at theta' = theta - ell grad_theta L; moves the generators."""
        terms, logs = self.terms, dict[str, Tensor]()
        inner, self.inner = self.inner, None
        assert inner is not None and self.features is not None
        if self.meta == "second-order":
            check_statistics(self.framework, self.features)
        whole = Whole(terms, inner.state, inner.pair, inner.views, batch.progress)
        theta = {name: inner.state[name] for name in inner.theta}
        first, second = terms.of_projections(inner.draw), terms.of_projections(inner.draw, regularized=True, logs=logs)
        with batch_statistics(self.framework, self.features):
            if self.optimizer.clip is None:
                gradient = {name: p.grad for name, p in self.framework.named_parameters() if name in theta}
            else:  # the gradient that the encoder's update leaves is clipped, which is not linear in omega
                gradient = dict(inner_gradient(whole.at, first, theta, batch.weight))
            losses = meta_losses(
                whole.at,
                Projector(terms, inner.pair, inner.views).at,
                first,
                second,
                omega=[p for p in self.features.parameters() if p.requires_grad],
                weights=theta,
                gradient=gradient,
                z=inner.z,
                rate=self.inner_rate,
                second_order=self.meta == "second-order",
                weight=batch.weight,
            )
        return losses / terms.feature_weight, {name: logs[name] for name in ("margin",) if name in logs}

    @property
    def terms(self) -> Terms:
        """The terms of L, and R, on this method's parts."""
        contrast = self.framework.contrast if isinstance(self.framework, Unified) else self.added
        weights = self.feature_weight, self.margin, self.margin_weight, self.margin_each
        return Terms(self.framework, contrast, self.features, *weights)

    @property
    def served(self) -> nn.Module:
        """The framework as the views see it: adversarial ones climb a contrast of pairs in place of OUCL."""
        return Attraction(self.framework) if isinstance(self.framework, Unified) else self.framework

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
            self.views(x, index=index, generator=generator, progress=progress, framework=self.served)
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

    def describe(self) -> dict[str, Any]:
        return self.views.describe()

    def release(self) -> None:
        self.views.release()
        self.inner = None

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        """h of all views side by side, ``view-1`` and so on for one of them, or their projections."""
        if output.startswith("view-"):
            h = self.framework.represent(x)
            return h.chunk(self.n_views, dim=1)[int(output.removeprefix("view-")) - 1]
        return self.framework.represent(x, output)

    @property
    def needs_pool(self) -> bool:
        return self.views.needs_pool

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """One view of each sample; for augmented features see `feature_views`."""
        return self.views.view(x, index=index, generator=generator, framework=self.served)

    @torch.no_grad()
    def feature_views(
        self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Projections of M views of scaled samples, on the sphere, and their augmented features; both (M, B, d).

        Raises
        ------
        InputError
            There are no generators.
        """
        if self.features is None:
            raise InputError("meta is 'none': there are no generators of features; fit with another one")
        z = unit(full_precision(self.terms.projections(*self.views_of(x, index, generator))))
        return z, self.features(z)
