"""InfoNCE under the Cauchy kernel in one direction, with its gradient written out: what the neighbor recipe trains on.

A small network's step costs as much in the many small operations of a loss as in its matrix products, so there are few.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from viewsmith.losses.numerics.chunked import check_differentiated_once


def matches(ids: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
    """All (i, j) with ``ids[i] == candidates[j]``, as two index tensors; without a matrix, since there are few."""
    known, order = candidates.sort()
    first, last = torch.searchsorted(known, ids), torch.searchsorted(known, ids, right=True)
    count = last - first
    rows = torch.repeat_interleave(count)
    position = torch.arange(len(rows), device=ids.device) - (count.cumsum(0) - count)[rows]
    return rows, order[first[rows] + position]


def cauchy_cross(z0: Tensor, z1: Tensor, ids: tuple[Tensor, Tensor] | None) -> Tensor:
    """``log(1 + d_ii^2) + log( q_ii + sum_j q_ij )`` with ``q_ij = 1 / (1 + d_ij^2)``, shape (B,); differentiable once.

    Parameters
    ----------
    z0, z1 : Tensor, shape (B, d)
        Anchors and candidates, whose squared distances are d_ij^2.
    ids : pair of int64 Tensor, each (B,), or None
        Row that each of them shows: candidates that show a row of the pair are left out of the sum over j.
    """
    values: Tensor = _CauchyCross.apply(z0, z1, ids)
    return values


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
