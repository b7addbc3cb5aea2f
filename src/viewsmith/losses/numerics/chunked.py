"""Losses in chunks: their memory grows linearly with the batch, not quadratically.

Similarities are computed chunk by chunk, summed and discarded, and computed again in the backward pass. The results can
be differentiated once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from viewsmith.core.device import on_host

# Rows and columns of a tile. On a CPU, 256 KiB of float32 fit into a core's cache, which makes tiles faster than the
# full matrix (benchmarks/speed/nt_xent.py); a GPU needs larger tiles to be fully used.
TILE_CPU, TILE_GPU = 256, 4096

# Up to this many similarities (16 MiB of float32) are stored for the backward pass instead of being computed again.
MAX_STORED = 1 << 22


class Similarity(NamedTuple):
    """A kernel and its derivative.

    Attributes
    ----------
    value : callable
        The kernel as a function of the product of two rows; overwrites its argument.
    slope : callable
        Derivative of the kernel by the product, as a function of the kernel's value.
    """

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]


def _same(value: Tensor) -> Tensor:
    return value


EXPONENTIAL = Similarity(torch.Tensor.exp_, _same)


def _cauchy(x: Tensor) -> Tensor:
    """1 / (1 + x) of a squared distance x; overwrites its argument."""
    return x.clamp_min_(0).add_(1).reciprocal_()


def _cauchy_slope(value: Tensor) -> Tensor:
    return value.square().neg_()


CAUCHY = Similarity(_cauchy, _cauchy_slope)


class Excluded(NamedTuple):
    """Pairs (i, j) left out of the sums, described without a matrix.

    Attributes
    ----------
    diagonals : sequence of int
        Exclude the pairs (i, i + k) for each k.
    anchor_ids, positive_ids, candidate_ids : int64 Tensor, shapes (R,), (R,), (N,); or None
        Exclude the pairs (i, j) with ``candidate_ids[j]`` equal to ``anchor_ids[i]`` or ``positive_ids[i]``.
    """

    diagonals: Sequence[int] = ()
    anchor_ids: Tensor | None = None
    positive_ids: Tensor | None = None
    candidate_ids: Tensor | None = None

    def zero_(self, tiles: list[Tensor], rows: slice, columns: slice) -> list[Tensor]:
        """Set the excluded entries of tiles to 0, in place.

        Parameters
        ----------
        tiles : list of Tensor, each (r, n)
            Entries of the same rows and columns.
        rows, columns : slice
            Position of the tiles in the full (R, N) matrix.
        """
        n_rows, n_columns = tiles[0].shape
        shifted = (diagonal + rows.start - columns.start for diagonal in self.diagonals)
        diagonals = [k for k in shifted if -n_rows < k < n_columns]
        for tile in tiles:
            for k in diagonals:
                tile.diagonal(k).zero_()
        if self.anchor_ids is not None and self.candidate_ids is not None:
            candidates = self.candidate_ids[columns]
            same = self.anchor_ids[rows, None] == candidates
            if self.positive_ids is not None and self.positive_ids is not self.anchor_ids:
                same |= self.positive_ids[rows, None] == candidates
            for k in diagonals:
                same.diagonal(k).fill_(False)
            # On a CPU, testing whether an entry must be filled is faster than filling.
            if not on_host(same) or torch.count_nonzero(same):
                for tile in tiles:
                    tile.masked_fill_(same, 0)
        return tiles


def similarity_sums(
    a: Tensor,
    c: Tensor,
    similarity: Similarity,
    excluded: Excluded,
    *,
    symmetric: bool = False,
    tile: int | None = None,
) -> Tensor:
    """Sums over j of ``similarity(a_i . c_j)``, without the (R, N) matrix of similarities.

    Parameters
    ----------
    a, c : Tensor, shapes (R, k) and (N, k)
    similarity : Similarity
    excluded : Excluded
        Pairs left out of the sums.
    symmetric : bool
        Whether ``a_i . c_j`` equals ``a_j . c_i`` and `excluded` is symmetric; then half of the products are computed.
    tile : int, optional
        Rows and columns of a tile.

    Returns
    -------
    Tensor, shape (R,)
    """
    tile = tile or (TILE_CPU if a.device.type == "cpu" else TILE_GPU)
    sums: Tensor = _SimilaritySums.apply(a, c, similarity, excluded, symmetric, tile)
    return sums


def check_differentiated_once() -> None:
    """Raise RuntimeError in a backward pass whose gradient is to be differentiated again."""
    # torch's once_differentiable raises nothing if the tensor is also reached by another path.
    if torch.is_grad_enabled():
        raise RuntimeError(
            "a chunked loss can be differentiated once, create_graph=True was given; use the loss's plain form"
        )


def chunk_slices(length: int, size: int, start: int = 0) -> Iterator[slice]:
    """Slices of at most `size` that cover ``start : length``."""
    return (slice(i, min(i + size, length)) for i in range(start, length, size))


def _tiles(n_rows: int, n_columns: int, size: int, symmetric: bool) -> Iterator[tuple[slice, slice, bool]]:
    """Rows and columns of each tile, and whether it also stands for its transpose."""
    for rows in chunk_slices(n_rows, size):
        for columns in chunk_slices(n_columns, size, rows.start if symmetric else 0):
            yield rows, columns, symmetric and columns.start > rows.start


class _SimilaritySums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, a: Tensor, c: Tensor, similarity: Similarity, excluded: Excluded, symmetric: bool, tile: int
    ) -> Tensor:
        ctx.save_for_backward(a, c)
        ctx.options = similarity, excluded, symmetric, tile
        ctx.stored = [] if len(a) * len(c) <= MAX_STORED else None
        sums = a.new_zeros(len(a))
        for rows, columns, mirrored in _tiles(len(a), len(c), tile, symmetric):
            values = _values(a, c, rows, columns, similarity, excluded)
            if ctx.stored is not None:
                ctx.stored.append(values)
            sums[rows] += values.sum(1)
            if mirrored:
                sums[columns] += values.sum(0)
        return sums

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        check_differentiated_once()
        a, c = ctx.saved_tensors
        similarity, excluded, symmetric, tile = ctx.options
        grad_a, grad_c = (torch.zeros_like(x) if ctx.needs_input_grad[i] else None for i, x in enumerate((a, c)))
        for number, (rows, columns, mirrored) in enumerate(_tiles(len(a), len(c), tile, symmetric)):
            stored = ctx.stored is not None
            values = ctx.stored[number] if stored else _values(a, c, rows, columns, similarity, excluded)
            weights = weight[rows, None] + weight[columns] if mirrored else weight[rows, None]
            slopes = similarity.slope(values) * weights
            if grad_a is not None:
                grad_a[rows].addmm_(slopes, c[columns])
            if grad_c is not None:
                grad_c[columns].addmm_(slopes.T, a[rows])
        return grad_a, grad_c, None, None, None, None


def _values(a: Tensor, c: Tensor, rows: slice, columns: slice, similarity: Similarity, excluded: Excluded) -> Tensor:
    with torch.autocast(a.device.type, enabled=False):
        return excluded.zero_([similarity.value(a[rows] @ c[columns].T)], rows, columns)[0]


def by_rows(equation: Callable[..., Tensor], rows: Sequence[Tensor], others: Sequence[Tensor], *, chunk: int) -> Tensor:
    """``equation(0, *rows, *others)``, computed `chunk` rows at a time.

    Parameters
    ----------
    equation : callable
        ``equation(start, *parts, *others)`` returns the values, (r,), of `parts`: rows ``start : start + r`` of each
        tensor in `rows`. It is called again in the backward pass.
    rows, others : sequences of Tensor
        All tensors that the equation depends on with gradient; those in `rows` have length R.
    chunk : int
        Rows of a chunk.

    Returns
    -------
    Tensor, shape (R,)
    """
    values: Tensor = _ByRows.apply(equation, len(rows), chunk, *rows, *others)
    return values


class _ByRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, equation: Callable[..., Tensor], n_rows: int, chunk: int, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        ctx.options = equation, n_rows, chunk
        rows, others = tensors[:n_rows], tensors[n_rows:]
        blocks = chunk_slices(len(tensors[0]), chunk)
        return torch.cat([equation(block.start, *(x[block] for x in rows), *others) for block in blocks])

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        check_differentiated_once()
        equation, n_rows, chunk = ctx.options
        tensors, needed = ctx.saved_tensors, ctx.needs_input_grad[3:]
        totals = [torch.zeros_like(x) if need else None for x, need in zip(tensors, needed, strict=True)]
        for part in chunk_slices(len(tensors[0]), chunk):
            inputs = [x[part] if i < n_rows else x for i, x in enumerate(tensors)]
            inputs = [x.detach().requires_grad_(need) for x, need in zip(inputs, needed, strict=True)]
            with torch.enable_grad():
                values = equation(part.start, *inputs)
            differentiable = [x for x in inputs if x.requires_grad]
            gradients = iter(torch.autograd.grad(values, differentiable, weight[part], allow_unused=True))
            for i, total in enumerate(totals):
                gradient = None if total is None else next(gradients)
                if total is not None and gradient is not None:
                    (total[part] if i < n_rows else total).add_(gradient)
        return None, None, None, *totals
