"""Numerics that losses share: sums over many pairs in little memory, and one value per sample from batch means.

Losses in chunks need memory that grows linearly with the batch, not quadratically: similarities are computed chunk by
chunk, summed and discarded, and computed again in the backward pass. The results can be differentiated once. InfoNCE
under the Cauchy kernel, which the neighbor recipe trains on, has its gradient written out: the step of a small network
costs as much in the many small operations of a loss as in its matrix products, so there are few.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.core.tensors import on_host

#: Function that sums a tensor over all processes, without gradient.
Total = Callable[[Tensor], Tensor]


def check_projections(z0: Tensor, z1: Tensor, names: str = "z0 and z1") -> None:
    """Raise InputError unless these are floating-point tensors of one shape (B, d): others may be broadcast."""
    if not isinstance(z0, Tensor) or not isinstance(z1, Tensor):
        raise InputError(f"{names} are {type(z0).__name__} and {type(z1).__name__}, expected two torch.Tensor (B, d)")
    if z0.shape != z1.shape or z0.ndim != 2 or not z0.is_floating_point():
        given = " and ".join(f"{z.dtype} {tuple(z.shape)}" for z in (z0, z1))
        raise InputError(f"{names} are {given}, expected two floating-point tensors of one shape (B, d)")


def single_process(x: Tensor) -> Tensor:
    """The `Total` of one process that holds the whole batch: `x` itself."""
    return x


def count(x: Tensor, dim: int, total: Total = single_process) -> Tensor:
    """Number of samples of the whole batch, a scalar of the dtype of `x`, whose samples lie along `dim`."""
    return total(x.new_full((), float(x.shape[dim])))


def centered(z: Tensor, dim: int, total: Total = single_process) -> Tensor:
    """`z` minus its mean over the whole batch as a constant; second moments keep their exact gradient."""
    with torch.no_grad():
        mean = total(z.sum(dim, keepdim=True)) / count(z, dim, total)
    return z - mean


def per_sample(objective: Callable[..., Tensor], means: Sequence[Tensor], products: Callable[..., Tensor]) -> Tensor:
    """Contribution of each sample to a loss L(m) of batch means ``m = mean_b s_b``.

    Sample b gets ``L + <dL/dm, s_b - m>``, where L, m and dL/dm are constants. The mean of these values is L, the
    gradient of their mean is exactly that of L, and a weight on a sample scales the part of the gradient that comes
    from this sample. Single values can be negative.

    With several processes, the means must be those of the whole batch. Over all processes, the mean of the values is
    then L, and the mean of their gradients is the gradient of L. No gradient has to be sent between processes.

    Parameters
    ----------
    objective : callable
        Differentiable function from the means to the scalar L.
    means : sequence of Tensor
        m; they get no gradient.
    products : callable
        Function from dL/dm (tensors with the shapes of `means`) to ``<dL/dm, s_b>`` of every sample of this process,
        (B,), differentiable. It does not have to compute the s_b: for example, the product of a matrix G with
        ``s_b = u u^T`` is ``u^T G u``.

    Returns
    -------
    Tensor, shape (B,)
        The values can be differentiated once. A second differentiation raises RuntimeError, because the derivative of
        dL/dm would be missing.
    """
    with torch.enable_grad():
        leaves = [mean.detach().requires_grad_() for mean in means]
        value = objective(*leaves)
        slopes = torch.autograd.grad(value, leaves)
    at_mean = sum((slope * mean.detach()).sum() for slope, mean in zip(slopes, means, strict=True))
    return _Once.apply(value.detach() - at_mean + products(*slopes))


class _Once(torch.autograd.Function):
    """The identity; its gradient cannot be differentiated."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError("the loss can be differentiated once, create_graph=True was given; leave it out")
        return slopes[0]


#: Logit of an excluded pair. Finite, so that a sample without negatives has loss and gradient 0 instead of NaN.
EXCLUDED_LOGIT = -1e9


def logsumexp_of_products(queries: Tensor, keys: Tensor, excluded: Tensor | None = None) -> Tensor:
    """``log sum_k exp(q_i . k)`` for V queries of each of B samples; the forward pass computes the gradient, too: a
    third of autograd's memory traffic."""
    return _LogSum.apply(queries, keys.detach(), excluded)


def _products(queries: Tensor, keys: Tensor) -> Tensor:
    """q . k, (V, B, K)."""
    return queries @ keys.T if keys.ndim == 2 else torch.einsum("vbd,bkd->vbk", queries, keys)


def _weighted_sum(weights: Tensor, keys: Tensor) -> Tensor:
    """Sum of the keys with weights (V, B, K), shape (V, B, d)."""
    return weights @ keys if keys.ndim == 2 else torch.einsum("vbk,bkd->vbd", weights, keys)


class _LogSum(torch.autograd.Function):
    """The value; its derivative by the queries is `_MeanKey`."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, excluded: Tensor | None) -> Tensor:
        softmax = _products(queries, keys)  # in place: logits, then exponentials, then probabilities
        if excluded is not None:
            softmax.masked_fill_(excluded, EXCLUDED_LOGIT)
        top = softmax.amax(-1, keepdim=True)
        total = softmax.sub_(top).exp_().sum(-1, keepdim=True)
        softmax.div_(total)
        ctx.save_for_backward(queries, keys, softmax, _weighted_sum(softmax, keys))
        return (top + total.log()).squeeze(-1)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        queries, keys, softmax, mean_key = ctx.saved_tensors
        if torch.is_grad_enabled():
            mean_key = _MeanKey.apply(queries, keys, softmax, mean_key)
        return gradients[0][..., None] * mean_key, None, None


class _MeanKey(torch.autograd.Function):
    """The mean key, already computed; its derivative by the queries is the covariance of the keys under the softmax."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, softmax: Tensor, mean_key: Tensor) -> Tensor:
        ctx.save_for_backward(keys, softmax, mean_key)
        return mean_key.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Any) -> Any:
        keys, softmax, mean_key = ctx.saved_tensors
        gradient = gradients[0]
        second_moment = _weighted_sum(_products(gradient, keys).mul_(softmax), keys)
        return second_moment - mean_key * (mean_key * gradient).sum(-1, keepdim=True), None, None, None


# Rows and columns of a tile. On a CPU, 256 KiB of float32 fit into a core's cache, which makes tiles faster than the
# full matrix (benchmarks/speed/losses.py); a GPU needs larger tiles to be fully used.
TILE_CPU, TILE_GPU = 256, 4096

# Up to this many similarities (16 MiB of float32) are stored for the backward pass instead of being computed again.
MAX_STORED = 1 << 22


class Similarity(NamedTuple):
    """A kernel of products, which overwrites them, and its derivative by the product, from the kernel's value."""

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]


EXPONENTIAL = Similarity(torch.Tensor.exp_, lambda value: value)
#: 1 / (1 + x) of a squared distance x.
CAUCHY = Similarity(lambda x: x.clamp_min_(0).add_(1).reciprocal_(), lambda value: value.square().neg_())


class Excluded(NamedTuple):
    """Pairs (i, j) left out of the sums, described without a matrix."""

    diagonals: Sequence[int] = ()  # the pairs (i, i + k) for each k
    # Pairs with candidate_ids[j], int64 (N,), equal to anchor_ids[i] or positive_ids[i], (R,).
    anchor_ids: Tensor | None = None
    positive_ids: Tensor | None = None
    candidate_ids: Tensor | None = None

    def zero_(self, tiles: list[Tensor], rows: slice, columns: slice) -> list[Tensor]:
        """Set the excluded entries of tiles to 0, in place."""
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
    """Sums over j of ``similarity(a_i . c_j)``, without the (R, N) matrix of similarities."""
    tile = tile or (TILE_CPU if a.device.type == "cpu" else TILE_GPU)
    return _SimilaritySums.apply(a, c, similarity, excluded, symmetric, tile)


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
    """``equation(0, *rows, *others)``, computed `chunk` rows at a time."""
    return _ByRows.apply(equation, len(rows), chunk, *rows, *others)


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


def matches(ids: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
    """All (i, j) with ``ids[i] == candidates[j]``, as two index tensors; without a matrix, since there are few."""
    known, order = candidates.sort()
    first, last = torch.searchsorted(known, ids), torch.searchsorted(known, ids, right=True)
    count = last - first
    rows = torch.repeat_interleave(count)
    position = torch.arange(len(rows), device=ids.device) - (count.cumsum(0) - count)[rows]
    return rows, order[first[rows] + position]


def cauchy_cross(z0: Tensor, z1: Tensor, ids: tuple[Tensor, Tensor] | None) -> Tensor:
    """``log(1 + d_ii^2) + log( q_ii + sum_j q_ij )`` with ``q_ij = 1 / (1 + d_ij^2)``, shape (B,);
    differentiable once."""
    return _CauchyCross.apply(z0, z1, ids)


class _CauchyCross(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z0: Tensor, z1: Tensor, ids: tuple[Tensor, Tensor] | None) -> Tensor:
        # The product form loses digits of small distances: those of positives are taken by subtraction.
        near = (z0 - z1).square().sum(1)
        norms = z0.square().sum(1, keepdim=True) + z1.square().sum(1)
        q = norms.addmm_(z0, z1.T, alpha=-2).clamp_min_(0).add_(1).reciprocal_()
        q.diagonal().zero_()
        if ids is not None:
            rows, columns = matches(torch.cat(ids), ids[1])
            q[rows % len(z0), columns] = 0
        positive = (1 + near).reciprocal()
        total = q.sum(1) + positive
        ctx.save_for_backward(z0, z1, q, positive, total)
        return torch.log1p(near) + total.log()

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        check_differentiated_once()
        z0, z1, q, positive, total = ctx.saved_tensors
        # The derivative of the loss by d_ij^2, halved: -q^2 / sum; of positives also that of log(1 + d^2).
        repulsion = q.square().mul_((-weight / total)[:, None])
        attraction = (weight * positive * (1 - positive / total))[:, None] * (z0 - z1)
        grad0 = torch.addmm(attraction + z0 * repulsion.sum(1, keepdim=True), repulsion, z1, alpha=-1)
        grad1 = torch.addmm(z1 * repulsion.sum(0)[:, None] - attraction, repulsion.T, z0, alpha=-1)
        return grad0.mul_(2), grad1.mul_(2), None
