"""Supervised contrastive loss: views of one class attract, all other views repel."""

from __future__ import annotations

import torch
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.losses.nt_xent import unit


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
        `labels` is no pair.
    """
    if isinstance(labels, Tensor):
        raise InputError("labels is one tensor, expected a pair: those of the first and of the second views")
    others, other_labels = gathered or (z0, z1), gathered_labels or labels
    anchors, candidates = unit(torch.cat([z0, z1])), unit(torch.cat(others))
    columns = torch.arange(len(z0), device=z0.device) + offset
    itself = torch.cat([columns, columns + len(others[0])])[:, None]
    logits = (anchors @ (candidates / temperature).T).scatter(1, itself, float("-inf"))
    positive = (torch.cat(labels)[:, None] == torch.cat(other_labels)).scatter(1, itself, False)
    log_p = logits.log_softmax(dim=1).masked_fill(~positive, 0)
    return -(log_p.sum(dim=1) / positive.sum(dim=1).clamp_min(1)).view(2, -1).mean(dim=0)
