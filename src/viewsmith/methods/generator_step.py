"""The step that trains a conditional generator, in DiffAug and in GenView."""

from __future__ import annotations

import torch
from torch import Tensor

from viewsmith.core.method import Batch, Optimizer, Step, Update
from viewsmith.views.generated.diffusion_views import GeneratedViews


def generator_update(generated: GeneratedViews, step: Step, optimizer: Optimizer) -> Update:
    """The update of the generator, after which the average of its weights follows."""
    generator = generated.generator
    return Update("generator", step, (generator,), optimizer, after=generator.update_average)


def denoising_step(generated: GeneratedViews, batch: Batch) -> Tensor:
    """Denoising losses (B,) of a batch, conditioned on the copied encoder (DiffAug: equation 6).

    A generator that has diverged must not end the training of the encoder, which finds out later
    (`GeneratedViews.check_learning`): its losses are zero, with zero gradients.
    """
    losses = generated.loss(batch)
    if torch.isfinite(losses).all():
        return losses
    zeros = [(weights.nan_to_num() * 0).sum() for weights in generated.generator.parameters() if weights.requires_grad]
    return torch.zeros_like(losses) + sum(zeros)
