"""Label-free numbers about a representation: is it spread, has it collapsed, do views stay together?"""

from __future__ import annotations

import torch
from torch import Tensor

from viewsmith.losses.nt_xent import squared_distances, unit


def feature_std(h: Tensor) -> Tensor:
    """Mean over features of the standard deviation over samples of length-1 rows, times sqrt(d).

    1 for rows spread evenly over the sphere, 0 when all rows point the same way (collapse); SimSiam's
    monitor (Chen and He 2021, section 4.1). `h` is (n, d), n at least 2.
    """
    return unit(h).std(dim=0).mean() * h.shape[1] ** 0.5


def effective_rank(h: Tensor) -> Tensor:
    """exp of the entropy of the normalized singular values of the centered (n, d) matrix (Roy and Vetterli 2007).

    Between 1 and min(n, d); 0 for a constant representation. RankMe (Garrido et al. 2023) without its offset.
    """
    values = torch.linalg.svdvals(h - h.mean(dim=0))
    total = values.sum()
    # The rounding of the mean leaves a direction in constant rows: that is no rank.
    if total <= 10 * torch.finfo(h.dtype).eps * torch.linalg.vector_norm(h):
        return torch.zeros((), dtype=h.dtype, device=h.device)
    p = values / total
    return torch.exp(-torch.special.xlogy(p, p).sum())


def alignment(h0: Tensor, h1: Tensor) -> Tensor:
    """Mean squared distance of the length-1 representations of two views, 0 to 4 (Wang and Isola 2020, section 4.1)."""
    return (unit(h0) - unit(h1)).square().sum(dim=1).mean()


def uniformity(h: Tensor, t: float = 2.0) -> Tensor:
    """log of the mean Gaussian potential exp(-t d^2) over distinct pairs of length-1 rows (Wang and Isola 2020).

    0 when all rows coincide; the lower the more evenly the rows cover the sphere (about -4 at best for t = 2).
    """
    n = len(h)
    logits = -t * squared_distances(unit(h), unit(h))
    off_diagonal = ~torch.eye(n, dtype=torch.bool, device=h.device)
    return torch.logsumexp(logits[off_diagonal], dim=0) - torch.log(torch.tensor(n * (n - 1), dtype=h.dtype))
