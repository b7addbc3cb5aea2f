"""MetAug: generators augment features and learn from the effect on the encoder (Li et al. 2022, MetAug:
Contrastive Learning via Meta Feature Augmentation).

Symbols: theta encoder and head (the paper's theta and vartheta), omega the generators (MAGs), z projections,
a_omega(z) augmented features, L = L_ori + delta L_aug (equation 11), ell the rate of the inner step, R the margin
regularization (equation 5). For each batch, Algorithm 1 updates theta with the loss L. It then updates omega with the
loss L + alpha R at theta' = theta - ell grad_theta L. Here theta is the value before the first update, so that the
gradient of that update is used again. In the paper, theta is the updated value, in a second loop over the data.
"""

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError, check
from viewsmith.core.schedule import Batch, Optimizer, Phase, Update
from viewsmith.frameworks import FeatureContrast, Framework, Unified
from viewsmith.frameworks.base import full_precision
from viewsmith.frameworks.unified import Views, check_batch
from viewsmith.losses.diagnostics import told_apart
from viewsmith.losses.nt_xent import unit
from viewsmith.methods.contrastive.training import PairMethod
from viewsmith.methods.metaug import objective
from viewsmith.methods.metaug.networks import MetaFeatures
from viewsmith.networks.base import ViewEncoders
from viewsmith.views.base import PairMaker, PositivePair


class MetAugMethod(PairMethod):
    """Encoders trained with original and augmented features, generators through the encoders' gradient step."""

    # The loss of generators is (L + alpha R) / delta, so that its minima do not depend on delta; `margin_weight` is
    # alpha over delta.

    def __init__(
        self,
        framework: Framework,
        views: PairMaker,
        features: MetaFeatures | None,
        contrast: FeatureContrast | None = None,
        *,
        options: objective.Features,
        n_views: int = 2,
        epochs: int,
        optimizer: Optimizer,
        feature_optimizer: Optimizer,
    ) -> None:
        super().__init__(framework, views, epochs=epochs, optimizer=optimizer)
        check(n_views >= 2, "n_views", n_views, "at least 2: with one view there is no pair to contrast")
        check(n_views == 2 or isinstance(framework, Unified), "n_views", n_views, "2 with another framework than oucl")
        self.features, self.options, self.n_views = features, options, n_views
        self.added = None if isinstance(framework, Unified) else contrast
        self.feature_optimizer = feature_optimizer
        self.inner: objective.InnerStep | None = None
        if features is not None and options.meta == "frozen":
            features.requires_grad_(False)

    def phases(self) -> list[Phase]:
        updates = [Update("encoder", self.encoder_step, (self.framework,), self.optimizer)]
        if self.features is not None and self.learns:
            every = self.options.feature_every
            updates.append(Update("features", self.feature_step, (self.features,), self.feature_optimizer, every))
        return [Phase("train", self.epochs, updates)]

    def encoder_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """theta: L with fixed omega; trains encoder and head. Finally the batch is written into the memory."""
        check_batch(len(batch.x))
        terms, logs = self.terms, dict[str, Tensor]()
        pair, views = self.views_of(batch.x, batch.index, batch.generator, batch.progress)
        memory = None if terms.contrast is None else terms.contrast.memory
        draw = None if memory is None else memory.draw(len(batch.x), views.ids, batch.generator)
        inner = self.learns and batch.step % self.options.feature_every == 0
        state = objective.state_of(self.framework) if inner else {}
        base, z = terms.base_losses(pair, views, batch.progress)
        losses = terms.of_projections(draw, logs=logs)(z)
        if memory is not None:
            memory.write(z, views.ids)
        if inner:
            theta = [name for name, p in self.framework.named_parameters() if p.requires_grad]
            self.inner = objective.InnerStep(state, theta, pair, views, draw, z.detach())
        return losses if base is None else base + losses, logs

    def feature_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """omega: (L + alpha R) / delta at theta' = theta - ell grad_theta L; trains the generators."""
        terms, logs = self.terms, dict[str, Tensor]()
        inner, self.inner = self.inner, None
        assert inner is not None and self.features is not None
        if self.options.meta == "second-order":
            objective.check_statistics(self.framework, self.features)
        batch_losses = objective.BatchLosses(terms, inner.state, inner.pair, inner.views, batch.progress)
        theta = {name: inner.state[name] for name in inner.theta}
        first, second = terms.of_projections(inner.draw), terms.of_projections(inner.draw, regularized=True, logs=logs)
        with objective.batch_statistics(self.framework, self.features):
            if self.optimizer.clip is None:
                gradient = {name: p.grad for name, p in self.framework.named_parameters() if name in theta}
            else:  # the stored gradient of the encoder's update is clipped, which is not linear in omega
                gradient = dict(objective.inner_gradient(batch_losses.at, first, theta, batch.weight))
            losses = objective.meta_losses(
                batch_losses.at,
                objective.BatchProjections(terms, inner.pair, inner.views).at,
                first,
                second,
                omega=[p for p in self.features.parameters() if p.requires_grad],
                weights=theta,
                gradient=gradient,
                z=inner.z,
                rate=self.options.inner_rate,
                second_order=self.options.meta == "second-order",
                weight=batch.weight,
            )
        return losses / self.options.feature_weight, {name: logs[name] for name in ("margin",) if name in logs}

    @property
    def terms(self) -> objective.Terms:
        """The terms of L and R, with the parts of this method."""
        contrast = self.framework.contrast if isinstance(self.framework, Unified) else self.added
        return objective.Terms(self.framework, contrast, self.features, self.options)

    @property
    def view_framework(self) -> nn.Module:
        """The framework whose loss adversarial views increase; `PairContrast` instead of `Unified`."""
        network = self.framework
        return objective.PairContrast(network.encoder, network.head) if isinstance(network, Unified) else network

    @property
    def learns(self) -> bool:
        """Whether the generators are trained."""
        return self.features is not None and self.options.meta in ("second-order", "first-order")

    def views_of(
        self, x: Tensor, index: Tensor | None, generator: torch.Generator | None, progress: float = 0.0
    ) -> tuple[PositivePair, Views]:
        """A pair for the framework, and M views: the first view of the pair and the second views of M - 1 pairs."""
        encoder = self.framework.encoder
        split = isinstance(encoder, ViewEncoders) and encoder.split is not None
        made = [
            self.views(x, index=index, generator=generator, progress=progress, framework=self.view_framework)
            for _ in range(1 if split else self.n_views - 1)
        ]
        pair, shown = made[0], [p.ids[1] for p in made if p.ids is not None]
        if split:  # all views are parts of one augmented sample
            return pair, Views((pair.second,), torch.stack(shown * self.n_views) if shown else None)
        ids = None if pair.ids is None else torch.stack([pair.ids[0], *shown])
        return pair, Views((pair.first, *(p.second for p in made)), ids)

    def release(self) -> None:
        super().release()
        self.inner = None

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        """h of all views, concatenated; ``view-1`` and so on: h of one view; ``projection``: the projections."""
        if output.startswith("view-"):
            h = self.represent(x)
            return h.chunk(self.n_views, dim=1)[int(output.removeprefix("view-")) - 1]
        return super().represent(x, output)

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """One view of each sample; for augmented features see `feature_views`."""
        return self.views.view(x, index=index, generator=generator, framework=self.view_framework)

    @torch.no_grad()
    def feature_views(
        self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Projections of M views of scaled samples, on the sphere, and their augmented features; both (M, B, d)."""
        if self.features is None:
            raise InputError("meta is 'none': there are no generators of features; fit with another value of meta")
        z = unit(full_precision(self.terms.projections(*self.views_of(x, index, generator))))
        return z, self.features(z)

    def diagnose(self, x: Tensor, generator: torch.Generator, index: Tensor | None = None) -> dict[str, float]:
        """How well augmented features of samples are told apart from their projections, held out: 0.5 is not at all."""
        if self.features is None or len(x) < 8:
            return {}
        z, augmented = (part[0].float() for part in self.feature_views(x, index=index, generator=generator))
        return {"features_told_apart": float(told_apart(z[:256], augmented[:256]))}
