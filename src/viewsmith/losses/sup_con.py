"""Losses with labels: by classes (SupCon), and by the order of the distances of numbers (Rank-N-Contrast)."""

import torch
from torch import Tensor

from viewsmith.core.errors import InputError, check_temperature
from viewsmith.losses.nt_xent import unit
from viewsmith.losses.numerics import check_projections


def sup_con(
    z0: Tensor,
    z1: Tensor,
    labels: tuple[Tensor, Tensor],
    *,
    temperature: float = 0.1,
    gathered: tuple[Tensor, Tensor] | None = None,
    gathered_labels: tuple[Tensor, Tensor] | None = None,
    offset: int = 0,
) -> Tensor:
    """SupCon, one value per sample (Khosla et al. 2020, equation 2, L_out).

    With all 2 B views as anchors, ``A(i)`` all other views and ``P(i)`` those of them that have the label of i::

        l_i = -1 / |P(i)| sum_{p in P(i)} log( exp(cos(i, p) / tau) / sum_{a in A(i)} exp(cos(i, a) / tau) )

    The value of a sample is the mean over its two anchors. An anchor without positives has the value 0.

    Parameters
    ----------
    z0, z1 : Tensor, shape (B, d)
        Projections of the two views; not normalized by the caller.
    labels : pair of int64 Tensor, each (B,)
        Classes of the samples that the first and the second views show.
    temperature : float
        tau, above 0.
    gathered, gathered_labels : pairs like (z0, z1) and `labels`, optional
        First and second views of a larger batch that contains this batch in its rows ``offset : offset + B``.
    offset : int
        See `gathered`.

    Returns
    -------
    Tensor, shape (B,)
        At least 0.

    Raises
    ------
    InputError
        The projections are not two (B, d) tensors of floating-point numbers, or `labels` is no pair of tensors.
    """
    check_projections(z0, z1)
    if isinstance(labels, Tensor) or not all(isinstance(part, Tensor) for part in labels):
        given = "one tensor" if isinstance(labels, Tensor) else type(labels).__name__
        raise InputError(f"labels is {given}, expected a pair: those of the first and of the second views, two tensors")
    others, other_labels = gathered or (z0, z1), gathered_labels or labels
    anchors, candidates = unit(torch.cat([z0, z1])), unit(torch.cat(others))
    columns = torch.arange(len(z0), device=z0.device) + offset
    itself = torch.cat([columns, columns + len(others[0])])[:, None]
    logits = (anchors @ (candidates / temperature).T).scatter(1, itself, float("-inf"))
    positive = (torch.cat(labels)[:, None] == torch.cat(other_labels)).scatter(1, itself, False)
    log_p = logits.log_softmax(dim=1).masked_fill(~positive, 0)
    return -(log_p.sum(dim=1) / positive.sum(dim=1).clamp_min(1)).view(2, -1).mean(dim=0)


def rank_n_contrast(z0: Tensor, z1: Tensor, targets: Tensor, *, temperature: float = 2.0) -> Tensor:
    """Rank-N-Contrast, one value per sample (Zha et al. 2023, equations 1 and 2).

    With all 2 B views as anchors, ``s(i, j) = -|z_i - z_j|`` and ``S(i, j)`` the views other than i whose target is at
    least as far from that of i as that of j is::

        l_i = -1 / (2 B - 1) sum_{j != i} log( exp(s(i, j) / tau) / sum_{k in S(i, j)} exp(s(i, k) / tau) )

    The value of a sample is the mean over its two anchors.

    Parameters
    ----------
    z0, z1 : Tensor, shape (B, d)
        Projections of the two views, not normalized.
    targets : Tensor, shape (B,)
        Finite numbers; their scale has no effect.
    temperature : float
        tau, above 0; 2 in the paper.

    Returns
    -------
    Tensor, shape (B,)
        At least 0.

    Raises
    ------
    InputError
        The projections are not two (B, d) tensors of floating-point numbers, not one target for each sample, or a
        temperature that is not above 0.
    """
    check_temperature("temperature", temperature)
    check_projections(z0, z1)
    if targets.shape != (len(z0),):
        raise InputError(f"targets has shape {tuple(targets.shape)}, expected one for each sample, ({len(z0)},)")
    z, y = torch.cat([z0, z1]), torch.cat([targets, targets])
    logits = -torch.cdist(z, z, compute_mode="donot_use_mm_for_euclid_dist") / temperature
    # The anchor itself is put first, at distance -1, and left out.
    distance = (y[:, None] - y).abs().fill_diagonal_(-1.0)
    distance, order = (part[:, 1:] for part in distance.sort(dim=1))
    sorted_logits = logits.gather(1, order)
    farther = sorted_logits.flip(1).logcumsumexp(dim=1).flip(1)
    # Views at equal distances have one set S, that of the first of them.
    first = torch.searchsorted(distance.contiguous(), distance.contiguous())
    return (farther.gather(1, first) - sorted_logits).mean(dim=1).view(2, -1).mean(dim=0)
