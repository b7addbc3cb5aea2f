"""The soft contrastive loss of DiffAug, also normalized: the target of a pair is a similarity, 0 to 1, not a label."""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from viewsmith.core.errors import InputError, check_choice
from viewsmith.losses.nt_xent import squared_distances
from viewsmith.losses.numerics import Excluded, by_rows, check_differentiated_once, chunk_slices

KernelForm = Literal["paper", "published", "plain"]

# Pairs computed at a time. On a CPU, 1 MiB of float32 fits into a core's cache, which makes chunks faster than the full
# matrix (benchmarks/speed/losses.py); a GPU needs larger chunks to be fully used.
CHUNK_CPU, CHUNK_GPU = 1 << 18, 1 << 24

# Up to this many derivatives (64 MiB of float32) are stored for the backward pass instead of being computed again.
MAX_STORED = 1 << 24

# Targets and similarities below e^-60 are replaced by e^-60: denormal numbers of float32 make a CPU much slower.
MIN_LOG = -60.0

# Projections up to this width are treated as maps (low-dimensional visualizations).
MAX_MAP_WIDTH = 8


def log_kernel(squared: Tensor, nu: float, form: KernelForm = "plain") -> Tensor:
    """log of a heavy-tailed kernel of squared distances, elementwise.

    With the normalization of Student's t density, ``g = G((nu + 1) / 2) / (sqrt(pi nu) G(nu / 2))``:

    - "plain": ``(1 + d^2 / nu)^-(nu + 1)``, which is 1 at distance 0;
    - "paper": ``g (1 + d^2 / nu)^-((nu + 1) / 2)``, Student's t density (DiffAug: Zang et al. 2024, below equation 2);
    - "published": ``6.28 g^2 (1 + d^2 / nu)^-(nu + 1)``, as in the authors' program.
    """
    log_peak, exponent = _peak_and_exponent(nu, form)
    return (squared / nu).log1p_().mul_(-exponent).add_(log_peak)


def _peak_and_exponent(nu: float, form: KernelForm) -> tuple[float, float]:
    """The kernel is ``exp(log_peak) (1 + d^2 / nu)^-exponent``."""
    log_g = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - math.log(nu * math.pi) / 2
    if form == "paper":
        return log_g, (nu + 1) / 2
    return 0.0 if form == "plain" else math.log(2 * 3.14) + 2 * log_g, nu + 1


def default_negative_weight(width: int, nu: float, batch: int) -> float:
    """Default weight of each pair of different samples: ``5 / (batch - 1)`` for maps and heavy tails, five repulsions
    per attraction; otherwise 1, for with five the projections can collapse."""
    return 5 / max(batch - 1, 1) if width <= MAX_MAP_WIDTH or nu <= 1 else 1.0


class Equation(NamedTuple):
    """The loss of a pair of samples as a function of the squared distances of its projections and representations."""

    nu: float
    nu_target: float
    kernel: KernelForm
    floor: float
    beta: float
    negative_weight: float

    def value(self, squared: Tensor, target: Tensor, beta: float = 0.0) -> Tensor:
        """``-P log Q - (1 - P) log(1 - Q + floor)``, elementwise."""
        log_q = log_kernel(squared, self.nu, self.kernel)
        p = (log_kernel(target, self.nu_target, self.kernel) + beta).clamp_max(0).exp()
        return (p - 1) * torch.log(self.floor - torch.expm1(log_q)) - p * log_q

    def value_and_slopes(self, squared: Tensor, target: Tensor, beta: float = 0.0, *, both: bool) -> list[Tensor]:
        """`value`, its derivative by `squared` and, if `both`, its derivative by `target`. Overwrites its arguments."""
        log_q = log_kernel(squared.clamp_min_(0), self.nu, self.kernel)
        log_p = log_kernel(target.clamp_min_(0), self.nu_target, self.kernel).add_(beta)
        clamped = log_p > 0 if both else None
        p = log_p.clamp_(MIN_LOG, 0).exp_()
        q_less_1 = torch.expm1(log_q)
        rest = torch.rsub(q_less_1, self.floor)
        # Derivative by log Q: -P + (1 - P) Q / (1 - Q + floor); of log Q by d^2: -exponent / (nu + d^2).
        slope = q_less_1.add_(1).div_(rest).neg_().lerp_(rest.new_ones(()), p)
        slopes = [slope.div_(squared.add_(self.nu)).mul_(_peak_and_exponent(self.nu, self.kernel)[1])]
        log_rest = rest.log_()
        if clamped is not None:
            # Derivative by P: log(1 - Q + floor) - log Q; of P by d^2: -P exponent / (nu + d^2).
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
    kernel: KernelForm = "plain",
    beta: float = 0.0,
    negative_weight: float = 1.0,
    detach: bool = True,
    floor: float = 1e-5,
    ids: tuple[Tensor, Tensor] | None = None,
    gathered: tuple[Tensor, Tensor] | None = None,
    offset: int = 0,
    form: Literal["chunked", "plain"] = "chunked",
) -> Tensor:
    """Cross entropy of the similarities of projections and of representations (DiffAug, equations 2 and 9).

    ``l_i = -sum_j w_ij [P_ij log Q_ij + (1 - P_ij) log(1 - Q_ij + floor)]`` with ``Q_ij = k(z_i, z'_j; nu)`` and
    ``P_ij = min(1, (1 + H_ij (e^beta - 1)) k(y_i, y_j; nu_target))``. H is 1 for the two views of one sample (j = i),
    else 0; w is 1 for j = i, else `negative_weight`. The published loss is the mean of l / B.

    Parameters
    ----------
    z0, z1 : Tensor, shape (B, d)
        Projections of the two views (DiffAug's low-dimensional map).
    y0 : Tensor, shape (B, m)
        Representations of the first views.
    y1 : Tensor, shape (B, m), optional
        Representations of the second views; P compares `y0` with them, as in the paper. Default: P compares `y0` with
        itself, as in the authors' program, so that P is 1 for the two views of one sample.
    nu, nu_target : float
        Degrees of freedom of the kernel of projections (small values: heavy tails, for maps) and of representations.
    kernel : {"paper", "published", "plain"}
        See `log_kernel`; P and Q use the same kernel.
    beta : float
        Added to the log-similarity of the two views of one sample, 0 to 1.
    negative_weight : float
        Weight of each pair of different samples; see `default_negative_weight`.
    detach : bool
        Use P as a constant target. Otherwise its gradient pushes representations apart.
    floor : float
        Added to 1 - Q, which is 0 for equal projections: keeps log(1 - Q) and its gradient finite at distance 0, and
        so bounds the repulsion. At least 0; with 0 both are infinite at distance 0.
    ids : pair of int64 Tensor, shapes (B,) and (B,) or, with `gathered`, (N,); optional
        Row of the data set that each first and each second view shows. The second views of other samples are left out
        of a sample's sum if they show one of the two rows that this sample's views show.
    gathered : pair of Tensor, shapes (N, d) and (N, m), optional
        Projections of the second views, and representations to compare `y0` with, of a larger batch that contains this
        batch in its rows ``offset : offset + B``.
    offset : int
        See `gathered`.
    form : {"chunked", "plain"}
        "chunked": computed in blocks of rows; above 64 MiB memory is linear in the batch; can be differentiated once.
        "plain": computed from full matrices; can be differentiated any number of times.

    Returns
    -------
    Tensor, shape (B,)
        At least 0 with the floor 0; float64 if an input is, else float32.

    Raises
    ------
    InputError
        `nu` or `nu_target` is not above 0, `floor` is below 0, or there is no such kernel or form.
    """
    check_choice("kernel", kernel, KernelForm)
    check_choice("form", form, Literal["chunked", "plain"])
    if not (nu > 0 and nu_target > 0 and floor >= 0):
        given = f"nu {nu}, nu_target {nu_target}, floor {floor}"
        raise InputError(f"{given} given, expected both nu above 0 and the floor at least 0; defaults: 0.1, 100, 1e-5")
    equation = Equation(nu, nu_target, kernel, floor, beta, negative_weight)
    others, targets = gathered if gathered is not None else (z1, y0 if y1 is None else y1)
    y = (y0.detach(), targets.detach()) if detach else (y0, targets)
    excluded = Excluded((offset,))
    if ids is not None:
        first, second = ids
        excluded = Excluded((offset,), first, None if first is second else second[offset : offset + len(z0)], second)
    precision = torch.float64 if torch.float64 in (z0.dtype, y0.dtype) else torch.float32
    with torch.autocast(z0.device.type, enabled=False):
        z, others, y0, targets = (x.to(precision) for x in (z0, others, *y))
        compute = _plain if form == "plain" else _Chunked.apply
        return compute(z, others, y0, targets, equation, excluded)


def _plain(z: Tensor, others: Tensor, y: Tensor, targets: Tensor, equation: Equation, excluded: Excluded) -> Tensor:
    """The loss from full matrices, by autograd."""
    positives = _positives(z, excluded)
    spaces = (z, others), (y, targets)
    squared, target = ((a - c[positives]).square().sum(1) for a, c in spaces)
    pairs = equation.value(squared, target, equation.beta)
    squared, target = (_squared(distance_precision(a), distance_precision(c)).to(a.dtype) for a, c in spaces)
    values = equation.value(squared.clamp_min(0), target.clamp_min(0))
    values = excluded.zero_([values], slice(0, len(z)), slice(0, len(others)))[0]
    return pairs + equation.negative_weight * values.sum(1)


def _positives(z: Tensor, excluded: Excluded) -> slice:
    """Position of the samples' second views in the larger batch."""
    (offset,) = excluded.diagonals
    return slice(offset, offset + len(z))


def distance_precision(x: Tensor) -> Tensor:
    """Maps, (n, at most 8), in float64: by products, distances of close points far from the origin lose digits."""
    return x.double() if x.shape[1] <= MAX_MAP_WIDTH else x


def _squared(a: Tensor, c: Tensor) -> Tensor:
    """Squared distances, (R, N) from (R, k) and (N, k), by one product; can be negative by rounding."""
    return torch.addmm(c.square().sum(1), a, c.T, alpha=-2).add_(a.square().sum(1, keepdim=True))


class _Chunked(torch.autograd.Function):
    """The loss in blocks of rows, with positives and derivatives of distances, which autograd computes more slowly."""

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, others: Tensor, y: Tensor, targets: Tensor, equation: Equation, excluded: Excluded
    ) -> Tensor:
        ctx.save_for_backward(z, others, y, targets)
        both, positives = any(ctx.needs_input_grad[2:4]), _positives(z, excluded)
        # By subtraction, which is exact for close views.
        squared, target = ((a - c[positives]).square().sum(1) for a, c in ((z, others), (y, targets)))
        losses, *ctx.positive_slopes = equation.value_and_slopes(squared, target, equation.beta, both=both)
        ctx.options = equation, excluded, z.dtype, both
        pairs = CHUNK_CPU if z.device.type == "cpu" else CHUNK_GPU
        ctx.blocks = list(chunk_slices(len(z), max(1, pairs // len(others))))
        ctx.stored = [] if len(z) * len(others) <= MAX_STORED else None
        points = [distance_precision(x) for x in (z, others, y, targets)]
        for rows in ctx.blocks:
            values, *slopes = _block(points, rows, *ctx.options)
            losses[rows].add_(values.sum(1), alpha=equation.negative_weight)
            if ctx.stored is not None:
                ctx.stored.append(slopes)
        return losses

    @staticmethod
    def backward(ctx: Any, weight: Tensor) -> tuple[Tensor | None, ...]:
        check_differentiated_once()
        points = [distance_precision(x) for x in ctx.saved_tensors]
        gradients = [torch.zeros_like(x) for x in points[: 2 * len(ctx.positive_slopes)]]
        weights = ctx.options[0].negative_weight * weight[:, None]
        for number, rows in enumerate(ctx.blocks):
            slopes = ctx.stored[number] if ctx.stored is not None else _block(points, rows, *ctx.options)[1:]
            for i, slope in enumerate(slopes):
                (a, c), (grad_a, grad_c) = points[2 * i : 2 * i + 2], gradients[2 * i : 2 * i + 2]
                half = (slope * weights[rows]).to(a.dtype)
                torch.addmm(a[rows] * half.sum(1, keepdim=True), half, c, alpha=-1, out=grad_a[rows])
                grad_c.addcmul_(c, half.sum(0)[:, None]).addmm_(half.T, a[rows], alpha=-1)
        positives = _positives(weight, ctx.options[1])
        for i, slope in enumerate(ctx.positive_slopes):
            (a, c), (grad_a, grad_c) = points[2 * i : 2 * i + 2], gradients[2 * i : 2 * i + 2]
            pull = (slope * weight)[:, None] * (a - c[positives])
            grad_a += pull
            grad_c[positives] -= pull
        # The gradients so far lack the factor 2 of the derivative of a square.
        doubled = [2 * x.to(weight.dtype) for x in gradients] + [None] * (4 - len(gradients))
        return *doubled, None, None


def _block(
    points: Sequence[Tensor], rows: slice, equation: Equation, excluded: Excluded, precision: torch.dtype, both: bool
) -> list[Tensor]:
    """Values and derivatives of the pairs of a block of rows with all second views; 0 for excluded pairs."""
    z, others, y, targets = points
    with torch.autocast(z.device.type, enabled=False):
        squared, target = (_squared(a[rows], c).to(precision) for a, c in ((z, others), (y, targets)))
    tiles = equation.value_and_slopes(squared, target, both=both)
    return excluded.zero_(tiles, rows, slice(0, len(others)))


# Up to MAX_WHOLE_BYTES the matrix of pairs is computed at once, else in chunks of CHUNK_BYTES.
MAX_WHOLE_BYTES, CHUNK_BYTES = 64 << 20, 4 << 20


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

    def equation(start: int, z: Tensor, y: Tensor, others: Tensor, targets: Tensor) -> Tensor:
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

    row = len(others) * given[0].element_size()
    with torch.autocast(z0.device.type, enabled=False):
        if len(z0) * row <= MAX_WHOLE_BYTES:
            return equation(0, *given)
        return by_rows(equation, given[:2], given[2:], chunk=max(1, CHUNK_BYTES // row))


def _log_relative_kernel(squared: Tensor, nu: float, kernel: KernelForm) -> Tensor:
    """log of a kernel divided by its value at distance 0."""
    return log_kernel(squared, nu, kernel) - log_kernel(squared.new_zeros(()), nu, kernel)


def _distances(a: Tensor, c: Tensor, pair: int) -> Tensor:
    """Squared distances, (R, N); those of the pairs (i, i + pair) by subtraction, which is exact for close views."""
    close = (a - c[pair : pair + len(a)]).square().sum(1)
    return squared_distances(distance_precision(a), distance_precision(c)).to(a.dtype).diagonal_scatter(close, pair)
