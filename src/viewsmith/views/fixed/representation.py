"""Noise on representations instead of on samples (SimGCL, named SimCL in the PiNDA paper)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import rank
from viewsmith.core.random import stream
from viewsmith.views.base import rand


def representation_noise(h: Tensor, strength: float, generator: torch.Generator | None = None) -> Tensor:
    """h + s * sign(h) * u / ||u|| with u uniform on [0, 1] (Yu et al. 2022, equation 7).

    Parameters
    ----------
    h : Tensor, shape (B, n)
    strength : float
        s: the length of the noise, in the units of `h`.
    generator : torch.Generator, optional

    Returns
    -------
    Tensor, shape (B, n)
        Every feature keeps its sign, so that a representation stays in its orthant.
    """
    u = rand(tuple(h.shape), h, generator)
    return h + strength * h.sign() * u / torch.linalg.vector_norm(u, dim=1, keepdim=True)


class RepresentationNoise(nn.Module):
    """`representation_noise` between encoder and head, in training alone; the identity in eval mode.

    A module between two others is given no generator, so this one has a stream of its own: a seed, and the number of
    draws so far, both saved with the weights, so that a resumed training draws what it would have drawn.

    Parameters
    ----------
    strength : float
        Length of the noise, in the units of the representation.
    seed : int, optional
        Default: drawn like initial weights are.

    Attributes
    ----------
    stream : Tensor of int64, shape (2,)
        Seed and number of draws.
    """

    stream: Tensor

    def __init__(self, strength: float = 0.1, *, seed: int | None = None) -> None:
        super().__init__()
        self.strength = strength
        first = int(torch.randint(2**62, ())) if seed is None else seed
        self.register_buffer("stream", torch.tensor([first, 0]))

    def forward(self, h: Tensor) -> Tensor:
        if not self.training:
            return h
        seed, draws = self.stream.tolist()
        self.stream[1] += 1
        # Processes hold different rows, and a momentum copy, which no gradient reaches, starts from an equal stream:
        # each needs noise of its own.
        path = "representation", draws, rank(), int(h.requires_grad)
        return representation_noise(h, self.strength, stream(seed, *path, device=h.device))
