"""Denoisers, data and models for the tests of diffusion."""

import importlib
import math

import torch
from torch import nn

from drawn import draw
from viewsmith.modalities.dna.networks import LetterLatents
from viewsmith.modalities.images.pixels import PixelLatents
from viewsmith.modalities.vectors.networks import VectorLatents
from viewsmith.networks import Nucleotides
from viewsmith.views.generated.diffusion import ConditionalDiffusion

C = 3  # width of the conditions
MODALITIES = ["vectors", "images", "dna"]


def diffusers():
    """The package, which takes a second to import."""
    return importlib.import_module("diffusers")


class ToyDenoiser(nn.Module):
    """An MLP on the noised codes, sines and cosines of the time, and the condition, applied to each position.

    `channels` is the size of axis 1: the features of vectors, the channels of images and DNA. `seen` records the
    inputs.
    """

    def __init__(self, channels, condition, width=64):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(channels + 16 + condition, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()
        )
        self.last = nn.Linear(width, channels)
        self.seen = []

    def forward(self, x, t, condition):
        self.seen.append((x.detach(), t, condition.detach()))
        frequencies = torch.exp(-math.log(10_000) * torch.arange(8, device=x.device, dtype=x.dtype) / 8)
        angles = t[:, None].to(x.dtype) * frequencies
        inputs = torch.cat([angles.sin(), angles.cos(), condition], dim=1)
        positions = x.movedim(1, -1)
        inputs = inputs.view(len(x), *[1] * (x.ndim - 2), -1).expand(*positions.shape[:-1], -1)
        return self.last(self.body(torch.cat([positions, inputs], dim=-1))).movedim(-1, 1)


def gaussian_denoiser(schedule, mean, deviation, prediction):
    """``predict(x_t, t)`` for independent Gaussian data: exact, because the mean of x_0 given x_t is known."""

    def predict(x, t):
        alpha_bar = schedule.alpha_bar[t].item()
        signal, noise = alpha_bar**0.5, (1 - alpha_bar) ** 0.5
        x0 = mean + signal * deviation**2 / (alpha_bar * deviation**2 + 1 - alpha_bar) * (x - signal * mean)
        eps = (x - signal * x0) / noise
        return {"eps": eps, "x0": x0, "v": signal * eps - noise * x0}[prediction]

    return predict


def randn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=draw(seed), dtype=dtype)


def data_of(modality, n=6, dtype=torch.float64):
    """Scaled samples and their representations."""
    if modality == "vectors":
        x = randn(n, 5) * 2 + 1
    elif modality == "images":
        x = randn(n, 2, 4, 3)
    else:
        letters = torch.tensor(list(b"ACGTN"), dtype=torch.uint8)[torch.randint(5, (n, 9), generator=draw())]
        for row in range(n):  # sequences of different lengths, the last without padding
            letters[row, 9 - n + row + 1 :] = 0
        x = Nucleotides()(letters)
    return x.to(dtype), (randn(n, C, seed=5) * torch.tensor([1.0, 10.0, 0.1]) + 4).to(dtype)


def model_of(modality, dtype=torch.float64, fitted=True, **options):
    torch.manual_seed(0)
    channels, codes = {
        "vectors": (5, VectorLatents(5)),
        "images": (2, PixelLatents(2, 0.5, 0.25)),
        "dna": (4, LetterLatents()),
    }[modality]
    model = ConditionalDiffusion(ToyDenoiser(channels, C), codes, condition=C, **options).to(dtype)
    if fitted:
        model.fit(*data_of(modality, dtype=dtype))
    return model
