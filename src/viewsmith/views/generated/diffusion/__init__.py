"""The conditional diffusion model of DiffAug: noise schedules, samplers, codes, and the model."""

from viewsmith.networks.inputs.codes import LetterCodes, PixelCodes, VectorCodes
from viewsmith.views.generated.diffusion.diffusion import ConditionalDiffusion
from viewsmith.views.generated.diffusion.samplers import Sampler, sample, timesteps
from viewsmith.views.generated.diffusion.schedule import (
    Prediction,
    Schedule,
    ScheduleName,
    add_noise,
    recover_noise,
    recover_sample,
    target,
)

__all__ = [
    "ConditionalDiffusion",
    "LetterCodes",
    "PixelCodes",
    "Prediction",
    "Sampler",
    "Schedule",
    "ScheduleName",
    "VectorCodes",
    "add_noise",
    "recover_noise",
    "recover_sample",
    "sample",
    "target",
    "timesteps",
]
