"""MetAug's generators, which augment features (projections) instead of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.losses.nt_xent import unit
from viewsmith.networks.mlp import MLP


class MetaFeatures(nn.Module):
    """One generator (MAG) per view, from projections to augmented features of length 1 (Li et al. 2022, section 3.2).

    Parameters
    ----------
    views : int
        M, at least 2.
    width : int
        d, the width of a projection.
    hidden : sequence of int
        Widths of the hidden layers, each with ReLU; (2048, 2048) in the paper.
    norm : {"batch", "none"}
        Whether hidden layers have BatchNorm, as published.
    residual : bool
        Add the output of a generator, divided by sqrt(d), to its normalized input. Training then starts close to the
        projections (cosine about 0.9), and the objective determines how far the features move. Otherwise, as published,
        only the output is used; before training it is a random function of the projection.

    Raises
    ------
    InputError
        `views` is below 2.
    """

    def __init__(
        self,
        views: int,
        width: int,
        *,
        hidden: Sequence[int] = (256,),
        norm: Literal["batch", "none"] = "batch",
        residual: bool = True,
    ) -> None:
        super().__init__()
        if views < 2:
            raise InputError(f"{views} view of each sample, expected at least 2, to form pairs")
        self.residual = residual
        self.networks = nn.ModuleList(MLP(width, [*hidden, width], norm=norm) for _ in range(views))

    def forward(self, z: Tensor) -> Tensor:
        """Augmented features (M, B, d), normalized to length 1, of projections (M, B, d); rows of zeros are allowed."""
        directions = unit(z)
        outputs = torch.stack([network(rows) for network, rows in zip(self.networks, directions, strict=True)])
        with torch.autocast(z.device.type, enabled=False):
            outputs = outputs.to(z.dtype)
            return unit(directions + outputs / z.shape[-1] ** 0.5 if self.residual else outputs)
