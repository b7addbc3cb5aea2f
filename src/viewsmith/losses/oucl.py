"""The optimization-driven unified contrastive loss of MetAug (OUCL) in linear time, and its margin regularization.

Symbols: d a similarity in [0, 1], d+ of a positive pair, d- of a negative pair, beta the sharpness, gamma the margin.
Equations 8 to 10 are sums of ``exp(x- + x+)`` over all combinations of a positive and a negative. Such a double sum is
the product of two sums, so ``log(1 + sum sum) = softplus(logsumexp(x-) + logsumexp(x+))``. The log-sum of a group of
pairs can be computed once, used in several losses, and combined with those of other groups by another logsumexp.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from viewsmith.core.errors import InputError, check_choice, check_temperature, check_weight
from viewsmith.losses.nt_xent import unit
from viewsmith.losses.numerics import EXCLUDED_LOGIT

Form = Literal["linear", "circle", "squared"]
Margin = Literal["large", "medium", "small"]


@dataclass(frozen=True)
class Logits:
    """The exponent of the unified loss (MetAug: Li et al. 2022, equations 8, 9 and 10).

    - "linear" (equation 8): ``beta (d- - d+ + margin)``; the form of the authors' program, with margin 0;
    - "circle" (equation 9): ``beta (G- (d- - gamma) - G+ (d+ - (1 - gamma)))`` with the weights ``G- = d- + gamma`` and
      ``G+ = 1 + gamma - d+``, divided by `attenuation` (section 4.4);
    - "squared" (equation 10): ``beta ((d+ - 1)^2 + d-^2 - 2 gamma^2)``; it has the value of "circle" without
      attenuation, and the same gradient if the weights are not detached.

    Attributes
    ----------
    form : {"linear", "circle", "squared"}
    beta : float
        Sharpness, above 0.
    margin : float
        lambda of the linear form.
    gamma : float
        Margin of the circle and squared forms, at least 0. The paper uses 0.4 for its other ablations.
    detach : bool
        Treat the weights of the circle form as constants, as in the circle loss (Sun et al. 2020).
    attenuation : float
        phi_dec of the circle form, above 0; 1 means none. The paper's best value is 6.

    Raises
    ------
    InputError
        A setting is out of range.
    """

    form: Form = "linear"
    beta: float = 16.0
    margin: float = 0.0
    gamma: float = 0.4
    detach: bool = True
    attenuation: float = 1.0

    def __post_init__(self) -> None:
        check_choice("form", self.form, Form)
        check_temperature("beta", self.beta)
        check_temperature("attenuation", self.attenuation)
        check_weight("gamma", self.gamma)

    def negative(self, d: Tensor) -> Tensor:
        """beta x- of the similarities d- of negative pairs, of any shape."""
        if self.form == "linear":
            return self.beta * d
        if self.form == "squared":
            return self.beta * (d.square() - self.gamma**2)
        weight = (d.detach() if self.detach else d) + self.gamma
        return self.beta / self.attenuation * weight * (d - self.gamma)

    def positive(self, d: Tensor) -> Tensor:
        """beta x+ of the similarities d+ of positive pairs, of any shape; includes the margin of the linear form."""
        if self.form == "linear":
            return self.beta * (self.margin - d)
        if self.form == "squared":
            return self.beta * ((d - 1).square() - self.gamma**2)
        weight = 1 + self.gamma - (d.detach() if self.detach else d)
        return self.beta / self.attenuation * weight * (1 - self.gamma - d)


def similarity(a: Tensor, b: Tensor) -> Tensor:
    """``(cos(a_i, b_i) + 1) / 2``, in [0, 1], (...,) from two tensors (..., d); 1/2 for a row of zeros."""
    return ((unit(a) * unit(b)).sum(-1) + 1) / 2


def masked_logsumexp(logits: Tensor, excluded: Tensor | None = None) -> Tensor:
    """Logsumexp over the last dimension without the `excluded` pairs, (..., B) from (..., B, K)."""
    return (logits if excluded is None else logits.masked_fill(excluded, EXCLUDED_LOGIT)).logsumexp(-1)


def combine_log_sums(negative: Tensor, positive: Tensor, beta: float) -> Tensor:
    """The loss ``softplus(negative + positive) / beta`` from the log-sums of its pairs, of any shape."""
    return F.softplus(negative + positive, threshold=40.0) / beta


def oucl(
    positives: Tensor, negatives: Tensor, logits: Logits | None = None, *, excluded: Tensor | None = None
) -> Tensor:
    """The unified loss of each sample, over all its positive and negative pairs (MetAug, equations 8, 9 and 10).

    ``l_i = 1 / beta log(1 + sum_k- sum_k+ exp(beta x-_ik- + beta x+_ik+))``, in time linear in the number of pairs.
    With one positive and the linear form with margin 0 it equals InfoNCE at temperature ``2 / beta``, divided by beta.
    For large beta it tends to ``[max d- - min d+ + margin]_+``, which depends on the hardest pair alone; the sums of
    the paper's equation 7 are not its limit.

    Parameters
    ----------
    positives : Tensor, shape (B, P)
        Similarities d+ in [0, 1].
    negatives : Tensor, shape (B, K)
        Similarities d- in [0, 1].
    logits : Logits, optional
        Default: the linear form with beta 16.
    excluded : Tensor of bool, shape (B, K), optional
        Negatives left out of the sum.

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
            f"{positives.shape[1]} positives and {negatives.shape[1]} negatives per sample, expected at least 1 of each"
        )
    negative = masked_logsumexp(logits.negative(negatives), excluded)
    return combine_log_sums(negative, masked_logsumexp(logits.positive(positives)), logits.beta)


def margins(least_positive: Tensor, greatest_negative: Tensor, kind: Margin = "large") -> tuple[Tensor, Tensor]:
    """Margins sigma+ and sigma- from pairs of original features, without gradient (MetAug, equation 4, appendix A.2).

    Parameters
    ----------
    least_positive, greatest_negative : Tensor, shape () or (B,)
        Least similarity of the positive pairs and greatest of the negative pairs, of the batch or of each sample.
    kind : {"large", "medium", "small"}
        "large": sigma+ is the smaller and sigma- the greater of the two. "medium": both are their mean. "small":
        sigma+ is the greater and sigma- the smaller.

    Returns
    -------
    sigma+, sigma- : Tensor, shape () or (B,)
    """
    low, high = least_positive.detach(), greatest_negative.detach()
    if kind == "medium":
        return (low + high) / 2, (low + high) / 2
    lesser, greater = torch.minimum(low, high), torch.maximum(low, high)
    return (lesser, greater) if kind == "large" else (greater, lesser)


def margin_regularization(
    positives: Tensor, negatives: Tensor, sigma: tuple[Tensor, Tensor], *, excluded: Tensor | None = None
) -> Tensor:
    """Margin regularization R of each sample; its mean over the batch is equation 5 of MetAug.

    ``R_i = mean_k+ [d+ - sigma+]_+ + mean_k- [sigma- - d-]_+``, over pairs of an original and an augmented feature. It
    penalizes positives more similar than sigma+ and negatives less similar than sigma-, so that the augmented features
    make hard pairs.

    Parameters
    ----------
    positives, negatives : Tensor, shapes (B, P) and (B, K)
        Similarities in [0, 1].
    sigma : pair of Tensor, each () or (B,)
        sigma+ and sigma-, from `margins`.
    excluded : Tensor of bool, shape (B, K), optional
        Negatives left out of the mean.

    Returns
    -------
    Tensor, shape (B,)
        At least 0.
    """
    sigma_positive, sigma_negative = (s[:, None] if s.ndim else s for s in sigma)
    too_far = F.relu(sigma_negative - negatives)
    if excluded is None:
        penalty = too_far.mean(1)
    else:
        penalty = too_far.masked_fill(excluded, 0).sum(1) / (~excluded).sum(1).clamp_min(1)
    return F.relu(positives - sigma_positive).mean(1) + penalty
