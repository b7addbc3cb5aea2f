"""The update that trains a conditional generator, for DiffAug and GenView."""

from __future__ import annotations

from viewsmith.core.method import Optimizer, Step, Update
from viewsmith.views.generated.diffusion_views import GeneratedViews


def generator_update(generated: GeneratedViews, step: Step, optimizer: Optimizer) -> Update:
    """The update of the generator; after each step, the running average of its weights is updated.

    A generator that diverges does not end the training. `GeneratedViews.check_learning` detects it later.
    """
    generator = generated.generator
    return Update("generator", step, (generator,), optimizer, after=generator.update_average, may_diverge=True)
