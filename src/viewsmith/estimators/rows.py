"""Fingerprints of rows, and views drawn block by block."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from viewsmith.core.random import stream
from viewsmith.core.samples import Rows, block_size

#: From a slice of the rows and a random stream to views of these rows.
Draw = Callable[[slice, torch.Generator], Tensor]


def fingerprint(x: np.ndarray) -> str:
    """Short digest of the content of an array."""
    return hashlib.sha256(np.ascontiguousarray(x).data).hexdigest()[:16]


@torch.no_grad()
def draw_views(draw: Draw, x: Rows, n_views: int, seed: int) -> np.ndarray:
    """Draw views of scaled rows block by block, with one random stream for each view: (n, n_views, ...)."""
    size, made = block_size(x[:1]), []
    parts = [slice(start, start + size) for start in range(0, len(x), size)]
    for number in range(n_views):
        generator = stream(seed, "views", number, device=x.device)
        made.append(torch.cat([draw(part, generator).cpu() for part in parts]))
    return torch.stack(made, dim=1).numpy()
