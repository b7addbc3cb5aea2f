"""Slow loops and inputs for the tests of the soft contrastive loss."""

import math

import pytest
import torch

from drawn import normal

TOLERANCE = {torch.float64: {"rtol": 1e-9, "atol": 1e-9}, torch.float32: {"rtol": 1e-3, "atol": 1e-4}}
DTYPES = (torch.float64, torch.float32)
SETTINGS = [
    {},
    {"nu": 1.0, "nu_target": 2.0, "negative_weight": 0.2},
    {"nu": 10.0, "nu_target": 5.0, "beta": 0.7, "kernel": "paper", "detach": False},
    {"nu": 0.3, "nu_target": 3.0, "beta": 0.1, "kernel": "published", "detach": False},
    {"nu": 0.5, "nu_target": 3.0, "beta": 1.0, "negative_weight": 3.0, "detach": False, "floor": 0.01},
]
every_setting = pytest.mark.parametrize("setting", SETTINGS, ids=range(len(SETTINGS)))


def inputs(rows=6, dtype=torch.float64):
    """Projections, and representations that are close enough for targets between 0 and 1."""
    made = *normal(2, rows, 2, dtype=dtype), *(0.6 * normal(2, rows, 4, seed=1, dtype=dtype))
    return tuple(x.clone().requires_grad_() for x in made)


def slow_log_kernel(a, b, nu, kernel):
    squared = ((a - b) * (a - b)).sum()
    g = math.gamma((nu + 1) / 2) / (math.sqrt(nu * math.pi) * math.gamma(nu / 2))
    if kernel == "plain":
        return -(nu + 1) * torch.log(1 + squared / nu)
    if kernel == "paper":
        return math.log(g) - (nu + 1) / 2 * torch.log(1 + squared / nu)
    return math.log(g**2 * 6.28) - (nu + 1) * torch.log(1 + squared / nu)


def slow(
    z0,
    z1,
    y0,
    y1=None,
    nu=0.1,
    nu_target=100.0,
    kernel="plain",
    beta=0.0,
    negative_weight=1.0,
    detach=True,
    floor=1e-5,
    ids=None,
):
    y1 = y0 if y1 is None else y1
    losses = []
    for i in range(len(z0)):
        total = 0
        for j in range(len(z1)):
            if i != j and ids is not None and int(ids[1][j]) in (int(ids[0][i]), int(ids[1][i])):
                continue
            h = 1.0 if i == j else 0.0
            p = (1 + h * (math.exp(beta) - 1)) * slow_log_kernel(y0[i], y1[j], nu_target, kernel).exp()
            if p > 1:
                p = torch.ones_like(p)
            p = p.detach() if detach else p
            log_q = slow_log_kernel(z0[i], z1[j], nu, kernel)
            term = -(p * log_q + (1 - p) * torch.log(1 - log_q.exp() + floor))
            total = total + (1 if i == j else negative_weight) * term
        losses.append(total)
    return torch.stack(losses)


def gradients(losses, leaves):
    weights = torch.arange(1, len(losses) + 1, dtype=losses.dtype)
    found = torch.autograd.grad((weights * losses).sum(), leaves, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]


def shown(kind, rows=7):
    """Rows that first and second views show: repeated rows, or second views of other rows (neighbors)."""
    first = torch.tensor([0, 1, 2, 3, 0, 1, 4])[:rows]
    return {"same": (first, first), "other": (first, torch.tensor([1, 1, 5, 0, 6, 3, 0])[:rows])}[kind]
