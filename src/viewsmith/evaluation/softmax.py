"""A linear softmax layer trained by gradient steps, the probe of PiNDA's tables."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def train_softmax(
    x: Tensor,
    y: Tensor,
    n_classes: int,
    *,
    epochs: int = 50,
    batch_size: int = 256,
    learning_rate: float = 1e-3,
    seed: int = 0,
) -> nn.Linear:
    """A linear layer trained with the softmax cross-entropy and Adam.

    Number of epochs, batch size and learning rate are published (PiNDA: appendix B.3); the optimizer is not.

    Parameters
    ----------
    x : Tensor, shape (n, d)
    y : Tensor of int64, shape (n,)
        Classes from 0 to ``n_classes - 1``.
    n_classes : int
    epochs, batch_size : int
        The last batch of an epoch may be smaller.
    learning_rate : float
    seed : int
        Of the initial weights and the order of the rows.

    Returns
    -------
    nn.Linear
    """
    generator = torch.Generator().manual_seed(seed)
    layer = nn.Linear(x.shape[1], n_classes)
    bound = x.shape[1] ** -0.5
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -bound, bound, generator=generator)
    optimizer = torch.optim.Adam(layer.parameters(), learning_rate)
    for _ in range(epochs):
        for index in torch.randperm(len(x), generator=generator).split(batch_size):
            optimizer.zero_grad()
            F.cross_entropy(layer(x[index]), y[index]).backward()
            optimizer.step()
    return layer.requires_grad_(False)
