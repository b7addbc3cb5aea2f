"""The conditional generator of DiffAug: noise schedules, samplers of few steps, codes, and the model itself."""

from viewsmith.networks.inputs.codes import LetterCodes, PixelCodes, VectorCodes
from viewsmith.views.generated.diffusion.diffusion import ConditionalDiffusion
from viewsmith.views.generated.diffusion.samplers import Sampler, sample, timesteps
from viewsmith.views.generated.diffusion.schedule import (
    Prediction,
    Schedule,
    ScheduleName,
    noised,
    recover,
    remaining,
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
    "noised",
    "recover",
    "remaining",
    "sample",
    "target",
    "timesteps",
]
