"""Losses in memory that grows with the batch, not with its square.

Similarities are made part by part, summed and thrown away, and made again in the backward pass. What is made here can
be differentiated once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

# Rows and columns of a tile. 256 KiB of float32 stay in a core's cache, which makes tiles faster than the whole matrix
# (benchmarks/nt_xent.py); a GPU needs larger ones to be busy.
TILE_CPU, TILE_GPU = 256, 4096

# Up to this many similarities (16 MiB of float32) are kept for the backward pass instead of being made again.
KEPT = 1 << 22


class Similarity(NamedTuple):
    """A kernel as a function of the product of two rows, in place, and its derivative as a function of its value."""

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]


def _same(value: Tensor) -> Tensor:
    return value


EXPONENTIAL = Similarity(torch.Tensor.exp_, _same)


def cauchy(exponent: float) -> Similarity:
    """(1 + x)^(-exponent) of a squared distance x."""

    def value(x: Tensor) -> Tensor:
        x = x.clamp_min_(0).add_(1).reciprocal_()
        return x if exponent == 1 else x.pow_(exponent)

    def slope(value: Tensor) -> Tensor:
        return value.square().neg_() if exponent == 1 else value.pow(1 + 1 / exponent).mul_(-exponent)

    return Similarity(value, slope)


class Excluded(NamedTuple):
    """Pairs left out of the sums, described without a matrix.

    Attributes
    ----------
    diagonals : sequence of int
        Pairs (i, i + k) for each k.
    shown, partner, others : int64 Tensor, shapes (R,), (R,), (N,); or None
        Pairs (i, j) with ``others[j]`` equal to ``shown[i]`` or ``partner[i]``.
    """

    diagonals: Sequence[int] = ()
    shown: Tensor | None = None
    partner: Tensor | None = None
    others: Tensor | None = None

    def zero(self, tiles: list[Tensor], rows: slice, columns: slice) -> list[Tensor]:
        """Zero what is left out of tiles, (r, n) each, that hold numbers of the same pairs; in place."""
        n_rows, n_columns = tiles[0].shape
        shifted = (diagonal + rows.start - columns.start for diagonal in self.diagonals)
        diagonals = [k for k in shifted if -n_rows < k < n_columns]
        for tile in tiles:
            for k in diagonals:
                tile.diagonal(k).zero_()
        if self.shown is not None and self.others is not None:
            others = self.others[columns]
            same = self.shown[rows, None] == others
            if self.partner is not None and self.partner is not self.shown:
                same |= self.partner[rows, None] == others
            for k in diagonals:
                same.diagonal(k).fill_(False)
            # Filling takes longer than looking whether there is anything to fill, but for a GPU, which looking stops.
            if same.device.type != "cpu" or torch.count_nonzero(same):
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
    """Sums over j of ``similarity(a_i . c_j)``, shape (R,) from (R, k) and (N, k), without the (R, N) matrix.

    Parameters
    ----------
    a, c : Tensor, shapes (R, k) and (N, k)
    similarity : Similarity
    excluded : Excluded
        Pairs that do not count.
    symmetric : bool
        ``a_i . c_j`` equals ``a_j . c_i`` and `excluded` is symmetric too: half of the products are enough.
    tile : int, optional
        Rows and columns made at a time.
    """
    tile = tile or (TILE_CPU if a.device.type == "cpu" else TILE_GPU)
    sums: Tensor = _SimilaritySums.apply(a, c, similarity, excluded, symmetric, tile)
    return sums


def once() -> None:
    """Refuse to go on where the gradient is to be differentiated."""
    # Autograd's own guard, once_differentiable, stays silent where another path leads to the same tensor.
    if torch.is_grad_enabled():
        raise RuntimeError("a loss made in parts can be differentiated once: no create_graph; use its plain form")


def parts(length: int, size: int, start: int = 0) -> Iterator[slice]:
    """Slices of at most `size` that cover ``start : length``."""
    return (slice(i, min(i + size, length)) for i in range(start, length, size))


def _tiles(n_rows: int, n_columns: int, size: int, symmetric: bool) -> Iterator[tuple[slice, slice, bool]]:
    """Rows, columns, and whether the tile stands for its mirror image too."""
    for rows in parts(n_rows, size):
        for columns in parts(n_columns, size, rows.start if symmetric else 0):
            yield rows, columns, symmetric and columns.start > rows.start


class _SimilaritySums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, a: Tensor, c: Tensor, similarity: Similarity, excluded: Excluded, symmetric: bool, tile: int
    ) -> Tensor:
        ctx.save_for_backward(a, c)
        ctx.options = similarity, excluded, symmetric, tile
        ctx.kept = [] if len(a) * len(c) <= KEPT else None
        sums = a.new_zeros(len(a))
        for rows, columns, mirrored in _tiles(len(a), len(c), tile, symmetric):
            values = _values(a, c, rows, columns, similarity, excluded)
            if ctx.kept is not None:
                ctx.kept.append(values)
            sums[rows] += values.sum(1)
            if mirrored:
                sums[columns] += values.sum(0)
        return sums

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        once()
        a, c = ctx.saved_tensors
        similarity, excluded, symmetric, tile = ctx.options
        to_a, to_c = (torch.zeros_like(x) if ctx.needs_input_grad[i] else None for i, x in enumerate((a, c)))
        for number, (rows, columns, mirrored) in enumerate(_tiles(len(a), len(c), tile, symmetric)):
            kept = ctx.kept is not None
            values = ctx.kept[number] if kept else _values(a, c, rows, columns, similarity, excluded)
            weights = weight[rows, None] + weight[columns] if mirrored else weight[rows, None]
            slopes = similarity.slope(values) * weights
            if to_a is not None:
                to_a[rows].addmm_(slopes, c[columns])
            if to_c is not None:
                to_c[columns].addmm_(slopes.T, a[rows])
        return to_a, to_c, None, None, None, None


def _values(a: Tensor, c: Tensor, rows: slice, columns: slice, similarity: Similarity, excluded: Excluded) -> Tensor:
    with torch.autocast(a.device.type, enabled=False):
        return excluded.zero([similarity.value(a[rows] @ c[columns].T)], rows, columns)[0]


def by_rows(equation: Callable[..., Tensor], rows: Sequence[Tensor], others: Sequence[Tensor], *, chunk: int) -> Tensor:
    """``equation(0, *rows, *others)``, shape (R,), made `chunk` rows at a time.

    Parameters
    ----------
    equation : callable
        ``equation(start, *parts, *others)`` gives the values, (r,), of `parts`: rows ``start : start + r`` of `rows`.
        It is run again in the backward pass.
    rows, others : sequences of Tensor
        All tensors the equation may be differentiated by; those in `rows` have length R.
    chunk : int
    """
    values: Tensor = _ByRows.apply(equation, len(rows), chunk, *rows, *others)
    return values


class _ByRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, equation: Callable[..., Tensor], n_rows: int, chunk: int, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        ctx.options = equation, n_rows, chunk
        rows, others = tensors[:n_rows], tensors[n_rows:]
        blocks = parts(len(tensors[0]), chunk)
        return torch.cat([equation(block.start, *(x[block] for x in rows), *others) for block in blocks])

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        once()
        equation, n_rows, chunk = ctx.options
        tensors, needed = ctx.saved_tensors, ctx.needs_input_grad[3:]
        totals = [torch.zeros_like(x) if need else None for x, need in zip(tensors, needed, strict=True)]
        for part in parts(len(tensors[0]), chunk):
            inputs = [x[part] if i < n_rows else x for i, x in enumerate(tensors)]
            inputs = [x.detach().requires_grad_(need) for x, need in zip(inputs, needed, strict=True)]
            with torch.enable_grad():
                values = equation(part.start, *inputs)
            wanted = [x for x in inputs if x.requires_grad]
            found = iter(torch.autograd.grad(values, wanted, weight[part], allow_unused=True))
            for i, total in enumerate(totals):
                gradient = None if total is None else next(found)
                if total is not None and gradient is not None:
                    (total[part] if i < n_rows else total).add_(gradient)
        return None, None, None, *totals
