"""CRL-TAC's objectives as explicit loops over all terms."""

import torch

BETA = 0.5


def series(s):
    """The exponential up to its second power."""
    return 1 + s + s**2 / 2


def slow_marginal(z, p, i, t, beta=BETA, exp=torch.exp):
    total = 0.0
    for j in range(len(z)):
        for u in range(z.shape[1]):
            total = total + p[j, u] * exp(beta * (z[i, t] * z[j, u]).sum()) / len(z)
    return torch.log(total)


def slow_info_max(z, p, beta=BETA, exp=torch.exp):
    values = []
    for i in range(len(z)):
        value = 0.0
        for t in range(z.shape[1]):
            within = sum(p[i, u] * torch.exp(beta * (z[i, t] * z[i, u]).sum()) for u in range(z.shape[1]))
            value = value + p[i, t] * (torch.log(within) - slow_marginal(z, p, i, t, beta, exp))
        values.append(value)
    return torch.stack(values)


def slow_bound(z, p, beta=BETA, distinct=False, exp=torch.exp):
    values = []
    for i in range(len(z)):
        similarity, mass = 0.0, 1 - sum(q**2 for q in p[i]) if distinct else 1.0
        for t in range(z.shape[1]):
            for u in range(z.shape[1]):
                if not (distinct and t == u):
                    similarity = similarity + p[i, t] * p[i, u] * (z[i, t] * z[i, u]).sum()
        value = beta * similarity / mass
        for t in range(z.shape[1]):
            value = value - p[i, t] * slow_marginal(z, p, i, t, beta, exp)
        values.append(value)
    return torch.stack(values)


def slow_near(z, p, near, beta=BETA, exp=torch.exp):
    values = []
    for i in range(len(z)):
        value = 0.0
        for t in range(z.shape[1]):
            others = [u for u in range(z.shape[1]) if near[t, u]]
            agreement = sum((z[i, t] * z[i, u]).sum() for u in others) / len(others)
            value = value + p[i, t] * (beta * agreement - slow_marginal(z, p, i, t, beta, exp))
        values.append(value)
    return torch.stack(values)


def slow_recurrence(z, p, stored, own):
    values = []
    for i in range(len(z)):
        value = 0.0 * p[i].sum()
        others = [j for j in range(len(stored)) if not own[i, j]]
        for t in range(z.shape[1]) if others else ():
            nearest = max((z[i, t] * stored[j]).sum() for j in others)
            mean = sum((z[i, t] * s).sum() for s in stored) / len(stored)
            value = value + p[i, t] * (nearest - mean)
        values.append(value)
    return torch.stack(values)


def slow_sampled(z, w, beta=BETA):
    n, m, _ = z.shape
    values = []
    for i in range(n):
        value = 0.0
        for j in range(m):
            for k in range(m):
                if j != k:
                    value = value + beta * w[i, j] * w[i, k] * (z[i, j] * z[i, k]).sum() / (m * (m - 1))
            inside = 0.0
            for a in range(n):
                for b in range(m):
                    inside = inside + w[a, b] * torch.exp(beta * (z[i, j] * z[a, b]).sum()) / (n * m)
            value = value - w[i, j] * torch.log(inside) / m
        values.append(value)
    return torch.stack(values)
