"""The terms of MetAug's loss for both of its updates, at the current weights or at given ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from viewsmith.frameworks import Framework, Unified
from viewsmith.frameworks.common import full_precision, represent_views
from viewsmith.frameworks.memory import Draw
from viewsmith.frameworks.unified import FeatureContrast, Views, embed
from viewsmith.losses.nt_xent import nt_xent
from viewsmith.losses.oucl import Margin
from viewsmith.methods.meta_step import Weights
from viewsmith.views.learned.feature_augmenters import MetaFeatures
from viewsmith.views.pair import Pair


def state_of(framework: Framework) -> Weights:
    """Copies of a framework's weights and buffers, without the memory of `Unified`, whose keys are in `InnerStep`."""
    state = framework.state_dict().items()
    return {name: value.detach().clone() for name, value in state if not name.startswith("contrast.")}


@dataclass
class Terms:
    """The terms of L = L_ori + delta L_aug (MetAug: equation 11), and R (equation 5).

    Attributes
    ----------
    framework : Framework
        Framework of L_ori: `Unified`, or another one with an encoder and a head.
    contrast : FeatureContrast or None
        Memory and loss of L_aug; None: there is no L_aug.
    features : MetaFeatures or None
        Generators of augmented features; None: there are none.
    feature_weight : float
        delta.
    margin : {"large", "medium", "small"}
        See `viewsmith.losses.oucl.margins`.
    margin_weight : float
        alpha over delta.
    margin_per_sample : bool
        Compute margins for each sample instead of for the batch.
    """

    framework: Framework
    contrast: FeatureContrast | None
    features: MetaFeatures | None
    feature_weight: float
    margin: Margin
    margin_weight: float
    margin_per_sample: bool

    def projections(self, pair: Pair, views: Views) -> Tensor:
        """Projections z of M views, (M, B, d)."""
        if pair.local is None:
            return embed(self.framework.encoder, self.framework.head, views.x)
        z: Tensor = self.framework.head(represent_views(self.framework.encoder, pair))
        return z.unflatten(0, (-1, len(pair.first)))[:2]

    def base_losses(self, pair: Pair, views: Views, progress: float) -> tuple[Tensor | None, Tensor]:
        """L_ori (B,) and z. For `Unified`, L_ori is None: it is computed by `of_projections`."""
        if isinstance(self.framework, Unified):
            return None, self.projections(pair, views)
        if self.contrast is None:
            losses = self.framework(pair, progress)
            return losses, losses.new_zeros(0)
        outputs: list[Tensor] = []
        handle = self.framework.head.register_forward_hook(lambda module, inputs, z: outputs.append(z))
        try:
            losses = self.framework(pair, progress)
        finally:
            handle.remove()
        batch = len(pair.first)
        if len(outputs) == 1 and len(outputs[0]) >= 2 * batch:  # one pass with both views
            return losses, outputs[0].unflatten(0, (-1, batch))[:2]
        return losses, self.projections(pair, views)

    def of_projections(
        self, draw: Draw | None, *, regularized: bool = False, logs: dict[str, Tensor] | None = None
    ) -> Callable[[Tensor], Tensor]:
        """Function that maps z to the terms that `base_losses` does not compute, (B,).

        These are L_ori of `Unified`, delta L_aug and, if `regularized`, alpha R. Each call adds values to `logs`.
        """

        def losses(z: Tensor) -> Tensor:
            if self.contrast is None or draw is None:
                return z.new_zeros(())
            with torch.autocast(z.device.type, enabled=False):
                z = full_precision(z)
                augmented = None if self.features is None else self.features(z)
                original, added = self.contrast.losses(self.contrast.log_sums(z, draw, augmented))
                total = original if isinstance(self.framework, Unified) else torch.zeros_like(original)
                if augmented is None or added is None:
                    return total
                total = total + self.feature_weight * added
                found = {"augmented": added}
                if regularized and self.margin_weight:
                    margin = self.contrast.regularization(
                        z, draw, augmented, self.margin, per_sample=self.margin_per_sample
                    )
                    total = total + self.feature_weight * self.margin_weight * margin
                    found["margin"] = margin
                if logs is not None:
                    found["feature_cosine"] = torch.cosine_similarity(augmented, z, dim=-1)
                    logs.update({name: value.detach().mean() for name, value in found.items()})
                return total

        return losses


@dataclass
class InnerStep:
    """Data of the encoder's update for the generators' update.

    Attributes
    ----------
    state : dict of Tensor
        Weights and buffers of the framework before the update.
    theta : list of str
        Names of the trained weights in `state`.
    pair, views, draw
        Views and keys of the step.
    z : Tensor, shape (M, B, d)
        Projections, without gradient.
    """

    state: Weights
    theta: list[str]
    pair: Pair
    views: Views
    draw: Draw | None
    z: Tensor


class BatchLosses(nn.Module):
    """`Terms.base_losses` of a batch as a function of weights. Buffers and all other weights are those of `state`.

    Momentum copies, queues and centers of the framework do not change: only clones of them are updated.
    """

    def __init__(self, terms: Terms, state: Weights, pair: Pair, views: Views, progress: float) -> None:
        super().__init__()
        self.framework, self.state = terms.framework, state
        self.losses = lambda: terms.base_losses(pair, views, progress)

    def forward(self) -> tuple[Tensor | None, Tensor]:
        return self.losses()

    def at(self, weights: Weights) -> tuple[Tensor | None, Tensor]:
        """`Terms.base_losses` with these weights."""
        given = {f"framework.{name}": value.clone() for name, value in self.state.items() if name not in weights}
        given |= {f"framework.{name}": value for name, value in weights.items()}
        found: tuple[Tensor | None, Tensor] = functional_call(self, given, ())
        return found


class BatchProjections(nn.Module):
    """`Terms.projections` of a batch as a function of the weights; can be differentiated in forward mode."""

    def __init__(self, terms: Terms, pair: Pair, views: Views) -> None:
        super().__init__()
        self.encoder, self.head = terms.framework.encoder, terms.framework.head
        self.projections = lambda: terms.projections(pair, views)

    def forward(self) -> Tensor:
        return self.projections()

    def at(self, weights: Weights) -> Tensor:
        """z with these weights; only those of encoder and head are used."""
        given = {name: value for name, value in weights.items() if name.startswith(("encoder.", "head."))}
        found: Tensor = functional_call(self, given, ())
        return found


class PairContrast(nn.Module):
    """The loss that adversarial views increase instead of OUCL: NT-Xent of pairs, without a memory."""

    def __init__(self, framework: Framework) -> None:
        super().__init__()
        self.encoder, self.head = framework.encoder, framework.head

    def forward(self, pair: Pair) -> Tensor:
        z = self.head(self.encoder(torch.cat([pair.first, pair.second])))
        z0, z1 = full_precision(z).chunk(2)
        return nt_xent(z0, z1, temperature=0.125, ids=pair.ids)
