"""A framework: alignment and uniformity on the sphere (Wang and Isola 2020)."""

import math
from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from viewsmith.core.registry import register
from viewsmith.frameworks import Framework
from viewsmith.views import PositivePair


@register(
    "framework",
    "align-uniform",
    help="the views of a sample attract; all projections spread over the sphere",
    source="Wang and Isola 2020",
)
class AlignUniform(Framework):
    """The squared distance of two views of a sample plus the log density of projections around them.

    Parameters
    ----------
    encoder, head : nn.Module, optional
        See `Framework`.
    uniformity : float
        Weight of the second term; with 0 all projections become equal.
    """

    def __init__(
        self,
        encoder: nn.Module | None = None,
        head: nn.Module | None = None,
        *,
        uniformity: Annotated[float, Field(ge=0)] = 1.0,
    ) -> None:
        super().__init__(encoder, head)
        self.uniformity = uniformity

    def forward(self, pair: PositivePair, progress: float = 0.0) -> Tensor:
        """One loss value for each sample, shape (B,); the second term uses the rows of this process only."""
        # One forward pass, so that BatchNorm uses the statistics of both views. The loss is at least float32.
        z = self.project_pair(pair)
        with torch.autocast(z.device.type, enabled=False):
            first, second = F.normalize(z).chunk(2)
            density = (log_density(first) + log_density(second)) / 2
            return (first - second).square().sum(dim=1) + self.uniformity * density


def log_density(z: Tensor, t: float = 2.0) -> Tensor:
    """log mean over j != i of exp(-t |z_i - z_j|^2), shape (B,), for rows z of length 1, (B, d).

    The inner logarithm of the paper's theorem 1, with the kernel of its section 4.1.2.
    """
    similarity = (t * (2 * z @ z.T - 2)).fill_diagonal_(-torch.inf)
    return similarity.logsumexp(dim=1) - math.log(len(z) - 1)
