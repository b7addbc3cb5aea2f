"""The conditional generator of DiffAug: noise schedules, samplers of few steps, codes, and the model itself."""

from viewsmith.views.diffusion.codes import LetterCodes, PixelCodes, VectorCodes
from viewsmith.views.diffusion.diffusion import ConditionalDiffusion
from viewsmith.views.diffusion.samplers import Sampler, sample, timesteps
from viewsmith.views.diffusion.schedule import Prediction, Schedule, ScheduleName, noised, recover, remaining, target

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
