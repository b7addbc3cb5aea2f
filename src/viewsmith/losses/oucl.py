"""The optimization-driven unified contrastive loss of MetAug (OUCL), in linear time, and the margins of its features.

Symbols: d a similarity in [0, 1], d+ of a positive pair, d- of a negative one, beta the sharpness, gamma the margin.
Equations 8 to 10 are sums over all pairs of a positive and a negative, of the form ``exp(x- + x+)``: the double sum is
the product of two sums, so that ``log(1 + sum sum) = softplus(logsumexp(x-) + logsumexp(x+))``. Log-sums of groups of
pairs may be kept and put together again by another logsumexp: losses that share pairs share their log-sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from viewsmith.core.errors import InputError
from viewsmith.losses.nt_xent import unit
from viewsmith.losses.products import ABSENT

Margin = Literal["large", "medium", "small"]


@dataclass(frozen=True)
class Logits:
    """What stands in the exponent of the unified loss (MetAug: Li et al. 2022, equations 8, 9 and 10).

    - "linear" (equation 8): ``beta (d- - d+ + margin)``; the form that the authors' program runs, with margin 0;
    - "circle" (equation 9): ``beta (G- (d- - gamma) - G+ (d+ - (1 - gamma)))`` with the weights ``G- = d- + gamma`` and
      ``G+ = 1 + gamma - d+``, divided by `attenuation` (section 4.4);
    - "squared" (equation 10): ``beta ((d+ - 1)^2 + d-^2 - 2 gamma^2)``, which has the value of "circle" without
      attenuation, and its gradient if the weights are not detached.

    Attributes
    ----------
    form : {"linear", "circle", "squared"}
    beta : float
        Sharpness, above 0.
    margin : float
        lambda, of the linear form.
    gamma : float
        Of the other two, at least 0; the paper studies others with 0.4.
    detach : bool
        Of the circle: no gradient through the weights, as in the circle loss (Sun et al. 2020).
    attenuation : float
        phi_dec of the circle, above 0; the paper's best is 6, 1 is none.

    Raises
    ------
    InputError
        A setting is out of range.
    """

    form: Literal["linear", "circle", "squared"] = "linear"
    beta: float = 16.0
    margin: float = 0.0
    gamma: float = 0.4
    detach: bool = True
    attenuation: float = 1.0

    def __post_init__(self) -> None:
        if self.form not in ("linear", "circle", "squared"):
            raise InputError(f"form is {self.form!r}, expected linear, circle or squared")
        for name in ("beta", "attenuation"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"{name} is {getattr(self, name)}, expected a number above 0")
        if not 0 <= self.gamma < float("inf"):
            raise InputError(f"gamma is {self.gamma}, expected a number of at least 0")

    def negative(self, d: Tensor) -> Tensor:
        """beta x- of similarities d-, of any shape."""
        if self.form == "linear":
            return self.beta * d
        if self.form == "squared":
            return self.beta * (d.square() - self.gamma**2)
        weight = (d.detach() if self.detach else d) + self.gamma
        return self.beta / self.attenuation * weight * (d - self.gamma)

    def positive(self, d: Tensor) -> Tensor:
        """beta x+ of similarities d+, of any shape; the linear form's margin is counted here."""
        if self.form == "linear":
            return self.beta * (self.margin - d)
        if self.form == "squared":
            return self.beta * ((d - 1).square() - self.gamma**2)
        weight = 1 + self.gamma - (d.detach() if self.detach else d)
        return self.beta / self.attenuation * weight * (1 - self.gamma - d)


def similarity(a: Tensor, b: Tensor) -> Tensor:
    """``(cos(a_i, b_i) + 1) / 2``, (...,) from (..., d) twice: 0 to 1; a row of zeros has cosine 0, so 1/2."""
    return ((unit(a) * unit(b)).sum(-1) + 1) / 2


def log_sum(logits: Tensor, excluded: Tensor | None = None) -> Tensor:
    """Logsumexp over the last dimension, (..., B) from (..., B, K), without the pairs that are `excluded`."""
    return (logits if excluded is None else logits.masked_fill(excluded, ABSENT)).logsumexp(-1)


def unite(negative: Tensor, positive: Tensor, beta: float) -> Tensor:
    """``softplus(negative + positive) / beta``: the loss from the log-sums of its pairs, of any shape."""
    return F.softplus(negative + positive, threshold=40.0) / beta


def oucl(
    positives: Tensor, negatives: Tensor, logits: Logits | None = None, *, excluded: Tensor | None = None
) -> Tensor:
    """The unified loss of each sample: all its positive against all its negative pairs (equations 8, 9 and 10).

    ``l_i = 1 / beta log(1 + sum_k- sum_k+ exp(beta x-_ik- + beta x+_ik+))``, in time linear in the numbers of pairs.
    With one positive and the linear form without margin it is InfoNCE at temperature ``2 / beta``, over beta. As beta
    grows it becomes ``[max d- - min d+ + margin]_+``: the hardest pair, not the sums of the paper's equation 7.

    Parameters
    ----------
    positives : Tensor, shape (B, P)
        Similarities d+ in [0, 1].
    negatives : Tensor, shape (B, K)
        Similarities d- in [0, 1].
    logits : Logits, optional
        By default the linear form with beta 16.
    excluded : Tensor of bool, shape (B, K), optional
        Negatives that do not count.

    Returns
    -------
    Tensor, shape (B,)
        At least 0; 0 for a sample without negatives.

    Raises
    ------
    InputError
        There are no positives or no negatives, or the numbers of samples differ.
    """
    logits = logits or Logits()
    if positives.ndim != 2 or negatives.ndim != 2 or len(positives) != len(negatives):
        raise InputError(
            f"similarities of shape {tuple(positives.shape)} and {tuple(negatives.shape)}, expected (B, P) and (B, K)"
        )
    if not positives.shape[1] or not negatives.shape[1]:
        raise InputError(
            f"{positives.shape[1]} positives and {negatives.shape[1]} negatives a sample, expected at least one of both"
        )
    negative = log_sum(logits.negative(negatives), excluded)
    return unite(negative, log_sum(logits.positive(positives)), logits.beta)


def margins(least_positive: Tensor, greatest_negative: Tensor, kind: Margin = "large") -> tuple[Tensor, Tensor]:
    """sigma+ and sigma- of original pairs, without gradient (MetAug: equation 4 and appendix A.2).

    Parameters
    ----------
    least_positive, greatest_negative : Tensor, of one shape
        Least similarity of positive and greatest of negative pairs: of the batch, (), or of each sample, (B,).
    kind : {"large", "medium", "small"}
        sigma+ is the smaller and sigma- the greater of the two; both are their mean; sigma+ is the greater.

    Returns
    -------
    sigma+, sigma- : Tensor, of that shape
    """
    low, high = least_positive.detach(), greatest_negative.detach()
    if kind == "medium":
        return (low + high) / 2, (low + high) / 2
    lesser, greater = torch.minimum(low, high), torch.maximum(low, high)
    return (lesser, greater) if kind == "large" else (greater, lesser)


def margin_regularization(
    positives: Tensor, negatives: Tensor, sigma: tuple[Tensor, Tensor], *, excluded: Tensor | None = None
) -> Tensor:
    """R of pairs of an original and an augmented feature; its mean over the batch is equation 5 of MetAug.

    ``R_i = mean_k+ [d+ - sigma+]_+ + mean_k- [sigma- - d-]_+``: positives may be no closer than sigma+, negatives no
    farther than sigma-, so that augmented features are hard ones.

    Parameters
    ----------
    positives, negatives : Tensor, shapes (B, P) and (B, K)
        Similarities in [0, 1].
    sigma : pair of Tensor, each () or (B,)
        As `margins` gives them.
    excluded : Tensor of bool, shape (B, K), optional
        Negatives that do not count.

    Returns
    -------
    Tensor, shape (B,)
    """
    near, far = (s[:, None] if s.ndim else s for s in sigma)
    missed = F.relu(far - negatives)
    if excluded is None:
        missing = missed.mean(1)
    else:
        missing = missed.masked_fill(excluded, 0).sum(1) / (~excluded).sum(1).clamp_min(1)
    return F.relu(positives - near).mean(1) + missing
