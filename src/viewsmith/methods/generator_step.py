"""The step that trains a conditional generator, in DiffAug and in GenView."""

from __future__ import annotations

from viewsmith.core.method import Optimizer, Step, Update
from viewsmith.views.generated.diffusion_views import GeneratedViews


def generator_update(generated: GeneratedViews, step: Step, optimizer: Optimizer) -> Update:
    """The update of the generator, after which the average of its weights follows.

    A generator that diverges must not end the training of the encoder, which finds out later
    (`GeneratedViews.check_learning`).
    """
    generator = generated.generator
    return Update("generator", step, (generator,), optimizer, after=generator.update_average, may_diverge=True)
