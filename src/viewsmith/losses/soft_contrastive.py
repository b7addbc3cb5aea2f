"""The soft contrastive loss of DiffAug: how alike two samples are is a number between 0 and 1, not a yes or no."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.losses.chunked import Excluded, once, parts

Form = Literal["paper", "published", "plain"]

# Pairs made at a time. 1 MiB of float32 stay near a core, which makes parts faster than the whole matrix
# (benchmarks/soft_contrastive.py); a GPU needs more to be busy.
PART_CPU, PART_GPU = 1 << 18, 1 << 24

# Up to this many slopes (64 MiB of float32) are kept for the backward pass instead of being made again.
KEPT = 1 << 24

# Targets below e^-60 count as e^-60: numbers close to the smallest ones of float32 slow a processor down tenfold.
LEAST_LOG_TARGET = -60.0

# Embeddings up to this width are maps.
NARROW = 8


def log_kernel(squared: Tensor, nu: float, form: Form = "plain") -> Tensor:
    """log of a heavy-tailed similarity of points at the given squared distances, elementwise.

    With g the factor that makes Student's t a density, ``g = G((nu + 1) / 2) / (sqrt(pi nu) G(nu / 2))``:

    - "plain": ``(1 + d^2 / nu)^-(nu + 1)``, which is 1 at distance 0;
    - "paper": ``g (1 + d^2 / nu)^-((nu + 1) / 2)``, Student's density (DiffAug: Zang et al. 2024, below equation 2);
    - "published": ``6.28 g^2 (1 + d^2 / nu)^-(nu + 1)``, as in the authors' program.

    None exceeds 1.
    """
    log_peak, exponent = _peak_and_exponent(nu, form)
    return (squared / nu).log1p_().mul_(-exponent).add_(log_peak)


def _peak_and_exponent(nu: float, form: Form) -> tuple[float, float]:
    """The kernel is ``exp(log_peak) (1 + d^2 / nu)^-exponent``."""
    log_g = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - math.log(nu * math.pi) / 2
    if form == "paper":
        return log_g, (nu + 1) / 2
    return 0.0 if form == "plain" else math.log(2 * 3.14) + 2 * log_g, nu + 1


def default_negative_weight(width: int, nu: float, batch: int) -> float:
    """Weight of each pair of different samples that suits embeddings of a width.

    ``5 / (batch - 1)``, five repulsions to one attraction whatever the batch size, in narrow maps (width at most 8) and
    under heavy tails (nu at most 1), where the plain sum overwhelms the one attraction; else 1, for there five are so
    few that embeddings can collapse.

    Parameters
    ----------
    width : int
        Width d of the embeddings.
    nu : float
        Degrees of freedom in the embedding.
    batch : int
        Second views that each first view meets, its own included.
    """
    return 5 / max(batch - 1, 1) if width <= NARROW or nu <= 1 else 1.0


class Equation(NamedTuple):
    """The loss of a pair of samples, from its squared distances in the embedding and in the representation."""

    nu: float
    nu_target: float
    kernel: Form
    floor: float

    def value(self, squared: Tensor, target: Tensor, beta: float = 0.0) -> Tensor:
        """``-P log Q - (1 - P) log(1 - Q + floor)``, elementwise."""
        log_q = log_kernel(squared, self.nu, self.kernel)
        p = (log_kernel(target, self.nu_target, self.kernel) + beta).clamp_max(0).exp()
        return (p - 1) * torch.log(self.floor - torch.expm1(log_q)) - p * log_q

    def value_and_slopes(self, squared: Tensor, target: Tensor, beta: float = 0.0, *, both: bool) -> list[Tensor]:
        """`value`, its derivative by `squared` and, with `both`, that by `target`. Overwrites its arguments."""
        log_q = log_kernel(squared.clamp_min_(0), self.nu, self.kernel)
        log_p = log_kernel(target.clamp_min_(0), self.nu_target, self.kernel).add_(beta)
        clamped = log_p > 0 if both else None
        p = log_p.clamp_(LEAST_LOG_TARGET, 0).exp_()
        q_less_1 = torch.expm1(log_q)
        rest = torch.rsub(q_less_1, self.floor)
        # By log Q: -P + (1 - P) Q / (1 - Q + floor). log Q by the squared distance: -exponent / (nu + d^2).
        slope = q_less_1.add_(1).div_(rest).neg_().lerp_(rest.new_ones(()), p)
        slopes = [slope.div_(squared.add_(self.nu)).mul_(_peak_and_exponent(self.nu, self.kernel)[1])]
        log_rest = rest.log_()
        if clamped is not None:
            # By P: log(1 - Q + floor) - log Q. P by the squared distance: -P exponent / (nu + d^2).
            slope = (log_q - log_rest).mul_(p).masked_fill_(clamped, 0).div_(target.add_(self.nu_target))
            slopes.append(slope.mul_(_peak_and_exponent(self.nu_target, self.kernel)[1]))
        return [log_rest.lerp_(log_q, p).neg_(), *slopes]


def soft_contrastive(
    z0: Tensor,
    z1: Tensor,
    y0: Tensor,
    y1: Tensor | None = None,
    *,
    nu: float = 0.1,
    nu_target: float = 100.0,
    kernel: Form = "plain",
    beta: float = 0.0,
    negative_weight: float = 1.0,
    detach: bool = True,
    floor: float = 1e-5,
    ids: tuple[Tensor, Tensor] | None = None,
    gathered: tuple[Tensor, Tensor] | None = None,
    offset: int = 0,
    form: Literal["chunked", "plain"] = "chunked",
) -> Tensor:
    """Cross entropy of similarities in the embedding against those in the representation (DiffAug, equations 2 and 9).

    ``l_i = -sum_j w_ij [P_ij log Q_ij + (1 - P_ij) log(1 - Q_ij + floor)]`` with ``Q_ij = k(z_i, z'_j; nu)`` and
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
        as in the authors' program, so that P is 1 for the two views of one sample.
    nu, nu_target : float
        Degrees of freedom in the embedding (small: heavy tails, for maps) and in the representation.
    kernel : {"paper", "published", "plain"}
        See `log_kernel`; P and Q use the same.
    beta : float
        Extra log-similarity of the two views of one sample, 0 to 1.
    negative_weight : float
        Weight of each pair of different samples; see `default_negative_weight`.
    detach : bool
        Take P as a given target. Otherwise its gradient drives representations apart.
    floor : float
        Added to 1 - Q, which is 0 where points coincide: keeps log(1 - Q) and its gradient finite at distance 0, and
        so bounds the repulsion. 0 or more; 0 leaves both infinite there.
    ids : pair of int64 Tensor, shapes (B,) and (B,) or, with `gathered`, (N,); optional
        Which row each first view and each second view shows. Second views of other samples that show one of the two
        rows that a sample shows are left out of its sum.
    gathered : pair of Tensor, shapes (N, d) and (N, m), optional
        Second embeddings, and representations to compare `y0` with, of a larger batch which holds this one at rows
        ``offset : offset + B``.
    form : {"chunked", "plain"}
        "chunked": made in blocks of rows, in memory that grows with the batch alone above 64 MiB; it can be
        differentiated once. "plain": the equation on whole matrices, differentiable any number of times.

    Returns
    -------
    Tensor, shape (B,)
        In float32 at least.

    Raises
    ------
    InputError
        `nu` or `nu_target` is not above 0, or `floor` is below 0.
    """
    if not (nu > 0 and nu_target > 0 and floor >= 0):
        given = f"nu {nu}, nu_target {nu_target}, floor {floor}"
        raise InputError(f"{given} given, expected both nu above 0 and the floor 0 or more; usual: 0.1, 100 and 1e-5")
    equation = Equation(nu, nu_target, kernel, floor)
    others, targets = gathered if gathered is not None else (z1, y0 if y1 is None else y1)
    y = (y0.detach(), targets.detach()) if detach else (y0, targets)
    excluded = Excluded((offset,))
    if ids is not None:
        shown, rows = ids
        excluded = Excluded((offset,), shown, None if shown is rows else rows[offset : offset + len(z0)], rows)
    precision = torch.float64 if torch.float64 in (z0.dtype, y0.dtype) else torch.float32
    with torch.autocast(z0.device.type, enabled=False):
        z, others, y0, targets = (x.to(precision) for x in (z0, others, *y))
        made = _plain if form == "plain" else _Chunked.apply
        losses: Tensor = made(z, others, y0, targets, equation, beta, negative_weight, excluded)
        return losses


def _plain(
    z: Tensor,
    others: Tensor,
    y: Tensor,
    targets: Tensor,
    equation: Equation,
    beta: float,
    negative_weight: float,
    excluded: Excluded,
) -> Tensor:
    """The loss from whole matrices, by autograd."""
    own = _own(z, excluded)
    pairs = equation.value((z - others[own]).square().sum(1), (y - targets[own]).square().sum(1), beta)
    squared, target = (_squared(exact(a), exact(c)).to(a.dtype) for a, c in ((z, others), (y, targets)))
    values = equation.value(squared.clamp_min(0), target.clamp_min(0))
    return pairs + negative_weight * excluded.zero([values], slice(0, len(z)), slice(0, len(others)))[0].sum(1)


def _own(z: Tensor, excluded: Excluded) -> slice:
    """Where the second views of the samples lie among all."""
    (offset,) = excluded.diagonals
    return slice(offset, offset + len(z))


def exact(x: Tensor) -> Tensor:
    """Points in the precision that their distances need.

    Products lose the digits of small distances between points far from the origin: on maps, which spread far, so many
    that slopes are wrong. Maps are so narrow that double precision costs nothing there.
    """
    return x.double() if x.shape[1] <= NARROW else x


def _squared(a: Tensor, c: Tensor) -> Tensor:
    """Squared distances, (R, N) from (R, k) and (N, k), by one product; rounding can make them negative."""
    return torch.addmm(c.square().sum(1), a, c.T, alpha=-2).add_(a.square().sum(1, keepdim=True))


class _Chunked(torch.autograd.Function):
    """The loss by blocks of rows.

    The pairs of views and the step from distances to points are made here, too: left to autograd they take a fifth of
    the time at a batch of 256.
    """

    @staticmethod
    def forward(
        ctx: Any,
        z: Tensor,
        others: Tensor,
        y: Tensor,
        targets: Tensor,
        equation: Equation,
        beta: float,
        negative_weight: float,
        excluded: Excluded,
    ) -> Tensor:
        ctx.save_for_backward(z, others, y, targets)
        both, own = any(ctx.needs_input_grad[2:4]), _own(z, excluded)
        # By subtraction, which keeps the digits of close views.
        squared, target = ((a - c[own]).square().sum(1) for a, c in ((z, others), (y, targets)))
        losses, *ctx.own_slopes = equation.value_and_slopes(squared, target, beta, both=both)
        ctx.options = equation, excluded, z.dtype, both
        ctx.negative_weight = negative_weight
        pairs = PART_CPU if z.device.type == "cpu" else PART_GPU
        ctx.blocks = list(parts(len(z), max(1, pairs // len(others))))
        ctx.kept = [] if len(z) * len(others) <= KEPT else None
        points = [exact(x) for x in (z, others, y, targets)]
        for rows in ctx.blocks:
            values, *slopes = _block(points, rows, *ctx.options)
            losses[rows].add_(values.sum(1), alpha=negative_weight)
            if ctx.kept is not None:
                ctx.kept.append(slopes)
        return losses

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        once()
        points = [exact(x) for x in ctx.saved_tensors]
        gradients = [torch.zeros_like(x) for x in points[: 2 * len(ctx.own_slopes)]]
        weights = ctx.negative_weight * weight[:, None]
        for number, rows in enumerate(ctx.blocks):
            slopes = ctx.kept[number] if ctx.kept is not None else _block(points, rows, *ctx.options)[1:]
            for i, slope in enumerate(slopes):
                (a, c), (to_a, to_c) = points[2 * i : 2 * i + 2], gradients[2 * i : 2 * i + 2]
                half = (slope * weights[rows]).to(a.dtype)
                torch.addmm(a[rows] * half.sum(1, keepdim=True), half, c, alpha=-1, out=to_a[rows])
                to_c.addcmul_(c, half.sum(0)[:, None]).addmm_(half.T, a[rows], alpha=-1)
        own = _own(weight, ctx.options[1])
        for i, slope in enumerate(ctx.own_slopes):
            (a, c), (to_a, to_c) = points[2 * i : 2 * i + 2], gradients[2 * i : 2 * i + 2]
            pull = (slope * weight)[:, None] * (a - c[own])
            to_a += pull
            to_c[own] -= pull
        # The square of a difference has twice that as its derivative.
        doubled = [2 * x.to(weight.dtype) for x in gradients] + [None] * (4 - len(gradients))
        return *doubled, None, None, None, None


def _block(
    points: Sequence[Tensor], rows: slice, equation: Equation, excluded: Excluded, precision: torch.dtype, both: bool
) -> list[Tensor]:
    """Values and slopes of the pairs of some rows with all others; 0 where left out."""
    z, others, y, targets = points
    with torch.autocast(z.device.type, enabled=False):
        squared, target = (_squared(a[rows], c).to(precision) for a, c in ((z, others), (y, targets)))
    made = equation.value_and_slopes(squared, target, both=both)
    return excluded.zero(made, rows, slice(0, len(others)))
