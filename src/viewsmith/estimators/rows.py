"""Fingerprints of rows, and views drawn block by block."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.method import Method
from viewsmith.core.progress import with_progress
from viewsmith.core.random import stream
from viewsmith.core.row_source import RowSource, row_blocks, too_large_for_memory
from viewsmith.core.samples import Rows, batches, block_size, blocks, shared_tensor
from viewsmith.data.map_style import is_map_style
from viewsmith.estimators.build.plan import Resolved

#: From scaled rows, the slice of all rows that they are, and a random stream to views of these rows.
Draw = Callable[[Tensor, slice, torch.Generator], Tensor]

#: Rows of a training of which a run keeps a hash each: at most 800 kB.
MOST_HASHED = 100_000


def fingerprint(x: np.ndarray | RowSource) -> str:
    """Short digest of the content of rows, the same in memory and read block by block."""
    digest = hashlib.sha256()
    for block in row_blocks(x):
        digest.update(np.ascontiguousarray(block).data)
    return digest.hexdigest()[:16]


def row_hashes(x: np.ndarray | RowSource) -> Tensor | None:
    """A number for the content of each row, int64 (n,), by which it is found in other data.

    None for more than `MOST_HASHED` rows, and for rows that are too large for memory.
    """
    if len(x) > MOST_HASHED or too_large_for_memory(x):
        return None
    rows = (row for block in row_blocks(x) for row in np.asarray(block))
    # Zeros at the end are left out: sequences are padded by them, in another file perhaps to another length.
    digests = (hashlib.blake2b(row.tobytes().rstrip(b"\0"), digest_size=8).digest() for row in rows)
    return torch.frombuffer(bytearray(b"".join(digests)), dtype=torch.int64)


def device_of(*modules: nn.Module) -> torch.device:
    """The device of the first tensor of these modules; an input layer may have none."""
    return next(itertools.chain(*((*m.buffers(), *m.parameters()) for m in modules))).device


def unscaled(rows: np.ndarray | RowSource) -> Tensor | RowSource:
    """Rows as the input layer takes them: a tensor that shares their memory, or the source itself."""
    return rows if isinstance(rows, RowSource) else shared_tensor(rows)


def represent_blocks(
    represent: Callable[[Tensor], Tensor], rows: np.ndarray | RowSource, views_a_row: int, progress: bool
) -> Iterator[np.ndarray]:
    """What `represent` makes of unscaled rows, float32, block by block in order."""
    parts: Iterable[tuple[Tensor, int]] = blocks(unscaled(rows), views_a_row)
    if progress:
        parts = with_progress(parts, "transform", len(rows), "rows", size=lambda part: part[1])
    for block, count in parts:
        with torch.no_grad():
            made = represent(block)
        yield made.float()[:count].cpu().numpy()


@contextlib.contextmanager
def prepared(method: Method, pool: Rows, seed: int) -> Iterator[None]:
    """The method with a pool of scaled rows, if its views use other rows.

    Raises
    ------
    InputError
        They do, and the pool has one row only.
    """
    try:
        if method.needs_pool:
            if len(pool) < 2:
                raise InputError(
                    "views of this model need other rows: expected at least two rows, got one; give pool=rows"
                )
            with torch.no_grad():
                method.prepare(pool, seed)
        yield
    finally:
        method.release()


def view_blocks(draw: Draw, x: Rows, n_views: int, seed: int) -> Iterator[np.ndarray]:
    """Views of scaled rows, block by block in order, with one random stream for each view: (b, n_views, ...)."""
    size = block_size(x[:1])
    generators = [stream(seed, "views", number, device=x.device) for number in range(n_views)]
    parts = [slice(start, min(start + size, len(x))) for start in range(0, len(x), size)]
    for part, block in zip(parts, batches(x, parts), strict=True):
        with torch.no_grad():
            yield torch.stack([draw(block, part, generator).cpu() for generator in generators], dim=1).numpy()


def drawn(model: Any, X: Any, x: Rows, index: Tensor | None, n_views: int, seed: int) -> Iterator[np.ndarray]:
    """Views of X (scaled: x, the rows `index` of the pool) in the units of the data, (b, n_views, ...)."""

    def view(block: Tensor, part: slice, generator: torch.Generator) -> Tensor:
        positions = None if index is None else index[part]
        made: Tensor = model.scaler_.inverse(model.method_.view(block, index=positions, generator=generator))
        return made

    for views in view_blocks(view, x, n_views, seed):
        yield model.domain_.in_input_format(views, extent(X, model.resolved_))


@torch.no_grad()
def embed_views(method: Method, x: Rows, index: Tensor | None, seed: int) -> Iterator[np.ndarray]:
    """Representations of a view of each scaled row (of row `index` of the pool), float32, block by block in order."""
    generator, size = stream(seed, "views", device=x.device), block_size(x[:1])
    for start in range(0, len(x), size):
        part = slice(start, start + size)
        views = method.view(x[part], index=None if index is None else index[part], generator=generator)
        yield method.represent(views).float().cpu().numpy()


def collected(parts: Iterable[np.ndarray], n_rows: int) -> np.ndarray:
    """Blocks of `n_rows` rows as one array."""
    made: np.ndarray | None = None
    done = 0
    for part in parts:
        # Filled in place: collected parts and their concatenation would take twice the memory.
        made = np.empty((n_rows, *part.shape[1:]), part.dtype) if made is None else made
        made[done : done + len(part)] = part
        done += len(part)
    assert made is not None
    return made


def extent(X: Any, resolved: Resolved) -> tuple[int, ...]:
    """Shape of the user's samples, (n, ...); of a dataset, that of the rows it was read as."""
    return (len(X), *resolved.row_shape) if is_map_style(X) else np.shape(X)
