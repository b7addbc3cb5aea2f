"""Fingerprints of rows, and views drawn block by block."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

from viewsmith.core.progress import with_progress
from viewsmith.core.random import stream
from viewsmith.core.samples import Rows, block_size, blocks

#: From a slice of the rows and a random stream to views of these rows.
Draw = Callable[[slice, torch.Generator], Tensor]


def fingerprint(x: np.ndarray) -> str:
    """Short digest of the content of an array."""
    return hashlib.sha256(np.ascontiguousarray(x).data).hexdigest()[:16]


@torch.no_grad()
def represent_rows(
    represent: Callable[[Tensor], Tensor], rows: np.ndarray, views_a_row: int, progress: bool
) -> np.ndarray:
    """Apply `represent` to unscaled rows block by block; returns float32 (n, ...)."""
    made: np.ndarray | None = None
    parts: Iterable[tuple[Tensor, int]] = blocks(torch.from_numpy(rows), views_a_row)
    if progress:
        parts = with_progress(parts, "transform", len(rows), "rows", size=lambda part: part[1])
    done = 0
    for block, count in parts:
        part = represent(block).float()[:count].cpu().numpy()
        # Filled in place: collected parts and their concatenation would take twice the memory.
        made = np.empty((len(rows), *part.shape[1:]), np.float32) if made is None else made
        made[done : done + count] = part
        done += count
    assert made is not None
    return made


@torch.no_grad()
def draw_views(draw: Draw, x: Rows, n_views: int, seed: int) -> np.ndarray:
    """Draw views of scaled rows block by block, with one random stream for each view: (n, n_views, ...)."""
    size, made = block_size(x[:1]), []
    parts = [slice(start, start + size) for start in range(0, len(x), size)]
    for number in range(n_views):
        generator = stream(seed, "views", number, device=x.device)
        made.append(torch.cat([draw(part, generator).cpu() for part in parts]))
    return torch.stack(made, dim=1).numpy()
