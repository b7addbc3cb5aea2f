"""The soft contrastive loss with similarities normalized over the batch, which needs no weight of negatives."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from viewsmith.losses.nt_xent import squared_distances
from viewsmith.losses.numerics.chunked import by_rows
from viewsmith.losses.soft_contrastive import KernelForm, distance_precision, log_kernel

# Up to MAX_WHOLE_BYTES the matrix of pairs is computed at once, else in chunks of CHUNK_BYTES.
MAX_WHOLE_BYTES, CHUNK_BYTES = 64 << 20, 4 << 20

# Lower bound of logarithms: e^-60 is negligible, and denormal numbers would make a CPU a hundred times slower.
MIN_LOG = -60.0


def soft_normalized(
    z0: Tensor,
    z1: Tensor,
    y0: Tensor,
    y1: Tensor | None = None,
    *,
    nu: float = 1.0,
    nu_target: float = 100.0,
    kernel: KernelForm = "paper",
    beta: float = 0.0,
    detach: bool = True,
    ids: tuple[Tensor, Tensor] | None = None,
    gathered: tuple[Tensor, Tensor] | None = None,
    offset: int = 0,
) -> Tensor:
    """The loss of DiffAug (Zang et al. 2024, equation 2) with similarities Q normalized over the batch.

    ``l_i = -sum_j [P_ij log Q_ij + (1 - P_ij) log(1 - Q_ij)]`` with ``Q_ij = k_ij / (k_ij + K_i)``, where
    ``k_ij = k(z_i, z'_j; nu)`` and ``K_i = sum_l k_il``. P is that of `soft_contrastive` divided by its largest value,
    so that equal representations have P = 1.

    Each of the B - 1 repulsions of a sample counts in proportion to ``k_ij / K_i``, so no weight of negatives is
    needed. Q is at most 1/2, so the loss is finite at distance 0. With hard labels the loss is close to InfoNCE with
    the same kernel. The normalization is not in the paper. It is based on the relation between negative sampling and
    normalized similarities (Damrich et al. 2023, From t-SNE to UMAP with contrastive learning).

    Parameters
    ----------
    z0, z1, y0, y1, nu, nu_target, kernel, beta, detach, ids, gathered, offset
        As in `viewsmith.losses.soft_contrastive`; the constant factor of the kernel has no effect.

    Returns
    -------
    Tensor, shape (B,)
        At least 0; float64 if the inputs are, else float32. If the B x N pairs take more than 64 MiB they are computed
        in chunks, and the result can be differentiated once.
    """
    others, targets = gathered if gathered is not None else (z1, y0 if y1 is None else y1)
    y = (y0.detach(), targets.detach()) if detach else (y0, targets)
    given = [t if t.dtype == torch.float64 else t.float() for t in (z0, y[0], others, y[1])]
    equation = partial(_equation, nu=nu, nu_target=nu_target, kernel=kernel, beta=beta, ids=ids, offset=offset)
    row = len(others) * given[0].element_size()
    with torch.autocast(z0.device.type, enabled=False):
        if len(z0) * row <= MAX_WHOLE_BYTES:
            return equation(0, *given)
        return by_rows(equation, given[:2], given[2:], chunk=max(1, CHUNK_BYTES // row))


def _equation(
    start: int,
    z: Tensor,
    y: Tensor,
    others: Tensor,
    targets: Tensor,
    *,
    nu: float,
    nu_target: float,
    kernel: KernelForm,
    beta: float,
    ids: tuple[Tensor, Tensor] | None,
    offset: int,
) -> Tensor:
    """Losses of a chunk of samples, (R,); their second views are the rows of `others` from ``start + offset``."""
    pair = start + offset
    log_k = log_kernel(_distances(z, others, pair), nu, kernel)
    log_p = _log_relative_kernel(_distances(y, targets, pair), nu_target, kernel)
    p = log_p.diagonal_scatter(log_p.diagonal(pair) + beta, pair).clamp(MIN_LOG, 0).exp()
    if ids is not None:
        first, second = ids[0][start : start + len(z), None], ids[1][pair : pair + len(z), None]
        same = (first == ids[1]) | (second == ids[1])
        same.diagonal(pair).fill_(False)
        log_k, p = log_k.masked_fill(same, MIN_LOG), p.masked_fill(same, 0)
    odds = log_k - log_k.logsumexp(1, keepdim=True)  # log Q / (1 - Q)
    # -P log Q - (1 - P) log(1 - Q)
    return (F.softplus(odds) - p * odds).sum(1)


def _log_relative_kernel(squared: Tensor, nu: float, kernel: KernelForm) -> Tensor:
    """log of a kernel divided by its value at distance 0."""
    return log_kernel(squared, nu, kernel) - log_kernel(squared.new_zeros(()), nu, kernel)


def _distances(a: Tensor, c: Tensor, pair: int) -> Tensor:
    """Squared distances, (R, N); those of the pairs (i, i + pair) by subtraction, which is exact for close views."""
    close = (a - c[pair : pair + len(a)]).square().sum(1)
    return squared_distances(distance_precision(a), distance_precision(c)).to(a.dtype).diagonal_scatter(close, pair)
