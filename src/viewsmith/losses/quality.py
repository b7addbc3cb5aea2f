"""Quality of a pair of views and the weight of its loss: foregrounds should agree, backgrounds should differ (GenView).

Li et al. 2024, GenView: Enhancing View Quality with Pretrained Generative Model for Self-Supervised Learning. Features
are feature maps of a frozen network: P patches of width D for each view.
"""

import torch
from torch import Tensor

from viewsmith.losses.nt_xent import unit

Pools = tuple[Tensor, Tensor]


def foreground_map(features: Tensor, axis: Tensor) -> Tensor:
    """Degree to which each patch is foreground: its projection on an axis, scaled to [0, 1] per image (section 3.4).

    Parameters
    ----------
    features : Tensor, shape (B, P, D)
    axis : Tensor, shape (D,)
        First principal component of patch features, pointing to the foreground (the vector of
        `viewsmith.views.generated.noise_level.Foreground`). Patches are not centered before the projection.

    Returns
    -------
    Tensor, shape (B, P)
        The smallest value of an image is 0 and the largest 1. All are 1/2 if all patches of the image are equal.
    """
    s = features @ axis
    low, high = s.amin(1, keepdim=True), s.amax(1, keepdim=True)
    span = high - low
    return torch.where(span > 0, (s - low) / torch.where(span > 0, span, 1), 0.5)


def attention_pools(features: Tensor, foreground: Tensor) -> Pools:
    """Sums of the patches weighted by the foreground map M and by 1 - M (equation 10).

    Sums, not means: `pair_quality` compares them by cosines, which ignore the scale. The background is computed as the
    sum of all patches minus the foreground.

    Parameters
    ----------
    features : Tensor, shape (B, P, D)
    foreground : Tensor, shape (B, P)
        M, in [0, 1].

    Returns
    -------
    pair of Tensor, shape (B, D)
        z_f and z_b.
    """
    z_f = torch.einsum("bp,bpd->bd", foreground, features)
    return z_f, features.sum(1) - z_f


def map_pools(maps: Tensor, axis: Tensor) -> Pools:
    """z_f and z_b, (B, D) each, of feature maps (B, h, w, D), given the axis of the foreground, (D,)."""
    features = maps.flatten(1, 2)
    return attention_pools(features, foreground_map(features, axis.to(features)))


def pair_quality(first: Pools, second: Pools) -> Tensor:
    """``q = cos(z_f, z_f') - cos(z_b, z_b')`` of each pair of views (equations 11 and 12).

    Parameters
    ----------
    first, second : pair of Tensor, shape (B, D)
        Foreground and background of the two views, from `attention_pools`. A sample without patches, such as a
        vector, counts as foreground: its background is a row of zeros, and q is the cosine of the foregrounds.

    Returns
    -------
    Tensor, shape (B,)
        -2 to 2; high for the same object in front of a different background.
    """
    foreground, background = ((unit(one) * unit(other)).sum(-1) for one, other in zip(first, second, strict=True))
    return foreground - background


def quality_weights(q: Tensor, gamma: float = 1.0, *, gathered: Tensor | None = None) -> Tensor:
    """Weights of pairs ``w_i = n softmax_i(gamma q)``, without gradient; 1 on average (equations 13 and 14).

    The printed equations lack the factor n, which the authors' program has; without it the learning rate would be
    divided by n.

    Parameters
    ----------
    q : Tensor, shape (B,)
        Quality of the pairs.
    gamma : float
        Inverse temperature of the softmax. 0 makes all weights 1; the authors use 1.
    gathered : Tensor, shape (n,), optional
        Quality of the pairs of all processes. The softmax is over these pairs. Default: `q`.

    Returns
    -------
    Tensor, shape (B,)
        Factors of the pair losses.
    """
    logits = gamma * q.detach()
    total = logits if gathered is None else gamma * gathered.detach()
    return len(total) * (logits - total.logsumexp(0)).exp()
