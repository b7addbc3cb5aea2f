"""The soft contrastive loss of DiffAug: how alike two samples are is a number between 0 and 1, not a yes or no."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from viewsmith.losses.chunked import by_rows
from viewsmith.losses.nt_xent import squared_distances

Form = Literal["unit", "student", "released"]

# Above this many bytes the matrix of pairs is made in parts, of that many bytes each.
WHOLE, PART = 64 << 20, 4 << 20


def log_kernel(squared: Tensor, nu: float, form: Form = "unit") -> Tensor:
    """log of a heavy-tailed similarity of points at the given squared distances, elementwise.

    With g the factor that makes Student's t a density, ``g = G((nu + 1) / 2) / (sqrt(pi nu) G(nu / 2))``:

    - "unit": ``(1 + d^2 / nu)^-(nu + 1)``, which is 1 at distance 0;
    - "student": ``g (1 + d^2 / nu)^-((nu + 1) / 2)`` (DiffAug: Zang et al. 2024, below equation 2);
    - "released": ``6.28 g^2 (1 + d^2 / nu)^-(nu + 1)``, as in the authors' code.
    """
    decay = torch.log1p(squared / nu)
    if form == "unit":
        return -(nu + 1) * decay
    log_g = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - math.log(nu * math.pi) / 2
    if form == "student":
        return log_g - (nu + 1) / 2 * decay
    return math.log(2 * 3.14) + 2 * log_g - (nu + 1) * decay


def soft_contrastive(
    z0: Tensor,
    z1: Tensor,
    y0: Tensor,
    y1: Tensor | None = None,
    *,
    nu: float = 0.1,
    nu_target: float = 100.0,
    kernel: Form = "unit",
    beta: float = 0.0,
    negative_weight: float = 1.0,
    detach: bool = True,
    eps: float = 1e-5,
    gathered: tuple[Tensor, Tensor] | None = None,
    offset: int = 0,
) -> Tensor:
    """Cross entropy of similarities in the embedding against those in the representation (DiffAug, equations 2 and 9).

    ``l_i = -sum_j w_ij [P_ij log Q_ij + (1 - P_ij) log(1 - Q_ij + eps)]`` with ``Q_ij = k(z_i, z'_j; nu)`` and
    ``P_ij = min(1, (1 + H_ij (e^beta - 1)) k(y_i, y_j; nu_target))``. H marks the pair of the two views of one sample,
    j = i; w is 1 there and `negative_weight` elsewhere. The published loss is the mean of l / B.

    Parameters
    ----------
    z0, z1 : Tensor, shape (B, d)
        Low-dimensional embeddings of the two views.
    y0 : Tensor, shape (B, m)
        High-dimensional representations of the first views.
    y1 : Tensor, shape (B, m), optional
        Those of the second views: P compares `y0` with them, as in the paper. Default: P compares `y0` with itself,
        as in the authors' code, so that P is 1 for the two views of one sample.
    nu, nu_target : float
        Degrees of freedom in the embedding (small: heavy tails, for maps) and in the representation.
    kernel : {"unit", "student", "released"}
        See `log_kernel`; P and Q use the same.
    beta : float
        Extra log-similarity of the two views of one sample, 0 to 1.
    negative_weight : float
        Weight of each pair of different samples. B - 1 of them stand against one pair of views: in two dimensions
        about ``5 / (B - 1)`` works, in many 1.
    detach : bool
        Take P as a given target. Otherwise its gradient drives representations apart.
    eps : float
        Bounds the repulsion of points that coincide.
    gathered : pair of Tensor, shapes (N, d) and (N, m), optional
        Second embeddings, and representations to compare `y0` with, of a larger batch which holds this one at rows
        ``offset : offset + B``.

    Returns
    -------
    Tensor, shape (B,)
        In float32 at least. When the B x N pairs fill more than 64 MiB they are made in parts, and the result can be
        differentiated once.
    """
    others, targets = gathered if gathered is not None else (z1, y0 if y1 is None else y1)
    y = (y0.detach(), targets.detach()) if detach else (y0, targets)
    given = [t if t.dtype == torch.float64 else t.float() for t in (z0, y[0], others, y[1])]
    equation = partial(
        _equation,
        nu=nu,
        nu_target=nu_target,
        kernel=kernel,
        beta=beta,
        negative_weight=negative_weight,
        eps=eps,
        offset=offset,
    )
    row = len(others) * given[0].element_size()
    with torch.autocast(z0.device.type, enabled=False):
        if len(z0) * row <= WHOLE:
            return equation(0, *given)
        return by_rows(equation, given[:2], given[2:], chunk=max(1, PART // row))


def _equation(
    start: int,
    z: Tensor,
    y: Tensor,
    others: Tensor,
    targets: Tensor,
    *,
    nu: float,
    nu_target: float,
    kernel: Form,
    beta: float,
    negative_weight: float,
    eps: float,
    offset: int,
) -> Tensor:
    """Values of samples whose second views are the rows of `others` from ``start + offset`` on."""
    pair = start + offset
    log_q = log_kernel(_distances(z, others, pair), nu, kernel)
    log_p = log_kernel(_distances(y, targets, pair), nu_target, kernel)
    p = log_p.diagonal_scatter(log_p.diagonal(pair) + beta, pair).clamp_max(0).exp()
    terms = (p - 1) * torch.log(eps - torch.expm1(log_q)) - p * log_q
    return negative_weight * terms.sum(1) + (1 - negative_weight) * terms.diagonal(pair)


def _distances(a: Tensor, c: Tensor, pair: int) -> Tensor:
    """Squared distances, (R, N); those of the pairs (i, i + pair) by subtraction, which keeps digits when close."""
    close = (a - c[pair : pair + len(a)]).square().sum(1)
    return squared_distances(a, c).diagonal_scatter(close, pair)
