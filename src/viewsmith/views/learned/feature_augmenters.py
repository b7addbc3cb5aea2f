"""MetAug's generators: they augment features in the embedding space instead of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.losses.nt_xent import unit
from viewsmith.networks.mlp import MLP


class MetaFeatures(nn.Module):
    """One generator (MAG) a view: augmented features of length 1 from embeddings (Li et al. 2022, section 3.2).

    Parameters
    ----------
    views : int
        M, at least 2.
    width : int
        d, the width of an embedding.
    hidden : sequence of int
        Widths of the hidden layers, each with ReLU; (2048, 2048) in the paper.
    norm : {"batch", "none"}
        Whether hidden layers have BatchNorm, as published.
    residual : bool
        Add what a generator makes, over sqrt(d), to the direction of its embedding, instead of taking it by itself.
        Training then starts near the embeddings, at a cosine of about 0.9, and leaves them as far as the objective asks
        for; published generators start from a random map, and what they make is at first no view of the sample at all.

    Raises
    ------
    InputError
        There is one view only.
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
            raise InputError(f"{views} view of each sample, expected at least 2: with one there is no pair to contrast")
        self.residual = residual
        self.networks = nn.ModuleList(MLP(width, [*hidden, width], norm=norm) for _ in range(views))

    def forward(self, z: Tensor) -> Tensor:
        """Augmented features (M, B, d) of embeddings (M, B, d), rows of length 1; of a row of zeros finite, too."""
        directions = unit(z)
        made = torch.stack([network(rows) for network, rows in zip(self.networks, directions, strict=True)])
        with torch.autocast(z.device.type, enabled=False):
            made = made.to(z.dtype)
            return unit(directions + made / z.shape[-1] ** 0.5 if self.residual else made)
