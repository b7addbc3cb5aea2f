"""Denoisers for the tests of the diffusion core: one that learns quickly, and one that knows the answer."""

import math

import torch
from torch import nn


class ToyDenoiser(nn.Module):
    """An MLP on the noised codes, sines and cosines of the time, and the condition; entry by entry of the last axis.

    `channels` is the size of axis 1: the features of vectors, the channels of images and DNA.
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
        given = torch.cat([angles.sin(), angles.cos(), condition], dim=1)
        positions = x.movedim(1, -1)
        given = given.view(len(x), *[1] * (x.ndim - 2), -1).expand(*positions.shape[:-1], -1)
        return self.last(self.body(torch.cat([positions, given], dim=-1))).movedim(-1, 1)


def gaussian_denoiser(schedule, mean, deviation, prediction):
    """``predict(x_t, t)`` for independent Gaussian data: exact, because the mean of x_0 given x_t is known."""

    def predict(x, t):
        share = schedule.alpha_bar[t].item()
        x0 = mean + share**0.5 * deviation**2 / (share * deviation**2 + 1 - share) * (x - share**0.5 * mean)
        eps = (x - share**0.5 * x0) / (1 - share) ** 0.5
        return {"eps": eps, "x0": x0, "v": share**0.5 * eps - (1 - share) ** 0.5 * x0}[prediction]

    return predict
