"""Label-free measures of a representation (collapse, uniformity, alignment of views), and of views beside the data."""

import torch
from torch import Tensor

from viewsmith.losses.nt_xent import squared_distances, unit


def feature_std(h: Tensor) -> Tensor:
    """Mean over features of their standard deviation, over samples normalized to length 1, times sqrt(d).

    The measure of collapse of SimSiam (Chen and He 2021, section 4.1).

    Parameters
    ----------
    h : Tensor, shape (n, d)
        n at least 2.

    Returns
    -------
    Tensor, shape ()
        About 1 for rows spread evenly over the sphere, 0 if all rows have the same direction (collapse).
    """
    return unit(h).std(dim=0).mean() * h.shape[1] ** 0.5


def effective_rank(h: Tensor) -> Tensor:
    """exp of the entropy of the normalized singular values of the centered rows (Roy and Vetterli 2007).

    RankMe (Garrido et al. 2023) without its offset.

    Parameters
    ----------
    h : Tensor, shape (n, d)

    Returns
    -------
    Tensor, shape ()
        Between 1 and min(n, d); 0 for a constant representation.
    """
    values = torch.linalg.svdvals(h - h.mean(dim=0))
    total = values.sum()
    # Rounding of the mean leaves tiny differences between constant rows. They do not count.
    if total <= 10 * torch.finfo(h.dtype).eps * torch.linalg.vector_norm(h):
        return torch.zeros((), dtype=h.dtype, device=h.device)
    p = values / total
    return torch.exp(-torch.special.xlogy(p, p).sum())


def alignment(h0: Tensor, h1: Tensor) -> Tensor:
    """Mean squared distance of two views' representations, normalized to length 1 (Wang and Isola 2020, section 4.1).

    Parameters
    ----------
    h0, h1 : Tensor, shape (n, d)

    Returns
    -------
    Tensor, shape ()
        0 (equal views) to 4.
    """
    return (unit(h0) - unit(h1)).square().sum(dim=1).mean()


def uniformity(h: Tensor, t: float = 2.0) -> Tensor:
    """log of the mean of exp(-t d^2) over pairs of different rows, normalized to length 1 (Wang and Isola 2020).

    Parameters
    ----------
    h : Tensor, shape (n, d)
    t : float
        Inverse width of the Gaussian potential.

    Returns
    -------
    Tensor, shape ()
        0 if all rows are equal; lower values mean that the rows cover the sphere more evenly (about -4 at best for
        t = 2).
    """
    n = len(h)
    logits = -t * squared_distances(unit(h), unit(h))
    itself = torch.eye(n, dtype=torch.bool, device=h.device)
    pairs = torch.tensor(n * (n - 1), dtype=h.dtype)
    return torch.logsumexp(logits.masked_fill(itself, -torch.inf), dim=(0, 1)) - torch.log(pairs)


def view_distance(x: Tensor, v: Tensor) -> Tensor:
    """Median distance of views to the nearest other sample, over that of the samples themselves."""
    same = torch.eye(len(x), dtype=torch.bool, device=x.device)
    own, other = (torch.cdist(rows, x).masked_fill(same, torch.inf).amin(dim=1).median() for rows in (x, v))
    return other / own.clamp_min(torch.finfo(x.dtype).tiny)


def told_apart(x: Tensor, v: Tensor, components: int = 32) -> Tensor:
    """Held-out accuracy of a ridge classifier of samples against views (Lopez-Paz and Oquab 2017) by principal
    coordinates and their squares; every second row is a view, so that none meets its own copy."""
    n = len(x)
    is_view = torch.arange(n, device=x.device) % 2 == 1
    mean = x.mean(dim=0)
    axes = torch.linalg.svd(x - mean, full_matrices=False).Vh[:components]
    z = (torch.where(is_view[:, None], v, x) - mean) @ axes.T
    z = z / (x - mean).matmul(axes.T).std(dim=0).clamp_min(1e-6)
    z = z.clamp(-10, 10)  # of views far away, so that float32 suffices
    features = torch.cat([z, z.square(), torch.ones_like(z[:, :1])], dim=1)
    target = torch.where(is_view, 1.0, -1.0).to(x.dtype)
    half = torch.arange(n, device=x.device) // 2 % 2 == 1
    ridge = torch.eye(features.shape[1], dtype=x.dtype, device=x.device)
    right = []
    for held in (half, ~half):
        weighted = torch.where(held[:, None], 0, features)
        weights = torch.linalg.solve(weighted.T @ features + ridge, weighted.T @ target)
        right.append(((features @ weights > 0) == is_view) & held)
    return (right[0] | right[1]).to(x.dtype).mean()
