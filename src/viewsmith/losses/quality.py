"""How good a pair of views is, and what it weighs: foregrounds should agree and backgrounds differ (GenView).

Li et al. 2024, GenView: Enhancing View Quality with Pretrained Generative Model for Self-Supervised Learning. Features
are maps of a frozen network: P patches of width D for each view.
"""

from __future__ import annotations

import torch
from torch import Tensor

from viewsmith.losses.nt_xent import unit

Pools = tuple[Tensor, Tensor]


def foreground_map(features: Tensor, axis: Tensor) -> Tensor:
    """How much each patch is foreground: its projection on the axis, from 0 to 1 within its image (section 3.4).

    Parameters
    ----------
    features : Tensor, shape (B, P, D)
    axis : Tensor, shape (D,)
        First principal component of patch features, pointing to the foreground
        (`viewsmith.views.generated.noise_level.foreground_axis`). Patches are projected as they are, not centered.

    Returns
    -------
    Tensor, shape (B, P)
        0 and 1 are reached in every image. Where all patches are alike, 1/2: no side can be told from the other.
    """
    s = features @ axis
    low, high = s.amin(1, keepdim=True), s.amax(1, keepdim=True)
    span = high - low
    return torch.where(span > 0, (s - low) / torch.where(span > 0, span, 1), 0.5)


def attention_pools(features: Tensor, foreground: Tensor) -> Pools:
    """Sums of the patches weighted by the foreground map M and by 1 - M (equation 10; sums, not means).

    The background is the total minus the foreground. Cosines do not see the missing factors.

    Parameters
    ----------
    features : Tensor, shape (B, P, D)
    foreground : Tensor, shape (B, P)
        M, from 0 to 1.

    Returns
    -------
    pair of Tensor, shape (B, D)
        z_f and z_b.
    """
    z_f = torch.einsum("bp,bpd->bd", foreground, features)
    return z_f, features.sum(1) - z_f


def map_pools(maps: Tensor, axis: Tensor) -> Pools:
    """z_f and z_b, (B, D) each, of feature maps (B, h, w, D) along the axis of the foreground, (D,)."""
    features = maps.flatten(1, 2)
    return attention_pools(features, foreground_map(features, axis.to(features)))


def pair_quality(first: Pools, second: Pools) -> Tensor:
    """``q = cos(z_f, z_f') - cos(z_b, z_b')`` of each pair of views (equations 11 and 12).

    Parameters
    ----------
    first, second : pair of Tensor, shape (B, D)
        Foreground and background of the two views, from `attention_pools`. A sample without patches, such as a
        vector, is all foreground: its background is a row of zeros, and q is one cosine.

    Returns
    -------
    Tensor, shape (B,)
        -2 to 2, high for the same thing before another background.
    """
    alike = [(unit(one) * unit(other)).sum(-1) for one, other in zip(first, second, strict=True)]
    return alike[0] - alike[1]


def quality_weights(q: Tensor, gamma: float = 1.0, *, everywhere: Tensor | None = None) -> Tensor:
    """``w_i = n softmax_i(gamma q)``, without gradient: weights of pairs, 1 on average (equations 13 and 14).

    The printed equations lack the factor n, which would divide the learning rate by it; the authors' program has it.

    Parameters
    ----------
    q : Tensor, shape (B,)
        Quality of the pairs.
    gamma : float
        0 makes all weights 1; the authors take 1.
    everywhere : Tensor, shape (n,), optional
        Quality of the pairs of all processes, over which the softmax is taken; by default `q`.

    Returns
    -------
    Tensor, shape (B,)
        Multiplies the pair losses.
    """
    logits = gamma * q.detach()
    total = logits if everywhere is None else gamma * everywhere.detach()
    return len(total) * (logits - total.logsumexp(0)).exp()
