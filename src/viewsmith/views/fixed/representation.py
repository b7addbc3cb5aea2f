"""Noise on representations instead of samples (SimGCL, named SimCL in the PiNDA paper)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import rank
from viewsmith.core.errors import check_weight
from viewsmith.core.random import stream
from viewsmith.views.base import rand


def representation_noise(h: Tensor, strength: float, generator: torch.Generator | None = None) -> Tensor:
    """``h + s * sign(h) * u / ||u||`` with u uniform on [0, 1] (Yu et al. 2022, equation 7).

    Parameters
    ----------
    h : Tensor, shape (B, n)
        Representations.
    strength : float
        s, the norm of the noise, in the units of `h`.
    generator : torch.Generator, optional

    Returns
    -------
    Tensor, shape (B, n)
        The signs of the features do not change.
    """
    u = rand(tuple(h.shape), h, generator)
    return h + strength * h.sign() * u / torch.linalg.vector_norm(u, dim=1, keepdim=True)


class RepresentationNoise(nn.Module):
    """`representation_noise` between encoder and head in training mode; the identity in evaluation mode.

    A layer of a network gets no generator, so this module has its own random stream: a seed and the number of draws so
    far. Both are saved with the weights, so a resumed training draws the same numbers.

    Parameters
    ----------
    strength : float
        Norm of the noise, in the units of the representation.
    seed : int, optional
        Default: drawn from torch's global generator, like initial weights.

    Attributes
    ----------
    stream : Tensor of int64, shape (2,)
        Seed and number of draws.
    """

    stream: Tensor

    def __init__(self, strength: float = 0.1, *, seed: int | None = None) -> None:
        super().__init__()
        check_weight("strength", strength)
        self.strength = strength
        first = int(torch.randint(2**62, ())) if seed is None else seed
        self.register_buffer("stream", torch.tensor([first, 0]))

    def forward(self, h: Tensor) -> Tensor:
        if not self.training:
            return h
        seed, draws = self.stream.tolist()
        self.stream[1] += 1
        # All processes and the momentum copy start from the same stream, but need different noise. The rank identifies
        # the process, and the missing gradient the momentum copy.
        path = "representation", draws, rank(), int(h.requires_grad)
        return representation_noise(h, self.strength, stream(seed, *path, device=h.device))
