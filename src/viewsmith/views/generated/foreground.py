"""Foreground and background of images, from the patches of their feature maps (GenView: Li et al. 2024, section 3.3).

Foreground patches have a large projection on the first principal component of the patch features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.core.samples import evenly_spaced

#: Fraction of all patches that count as foreground (the paper's "approximately 40 %").
FOREGROUND = 0.4
BINS = 1 << 16
#: Largest number of rows to which the noise tolerance is fitted, evenly spaced; for images as in the authors' code.
MAX_ROWS = 10_000
IMAGE_BLOCK = 64
#: Two axes are the same (up to the sign) if the projections of the patches have at least this absolute correlation.
SAME_AXIS = 0.5


@dataclass(frozen=True, eq=False)
class Foreground:
    """Axis and threshold that distinguish foreground patches from background patches.

    Attributes
    ----------
    axis : Tensor, shape (D,)
        First principal component of the patches, of length 1, pointing to the foreground.
    threshold : float
        Patches with a larger projection on the axis (without centering) are foreground.
    """

    axis: Tensor
    threshold: float

    def fraction(self, maps: Tensor) -> Tensor:
        """Fraction of foreground patches, float64 (B,), of feature maps (B, h, w, D) (equation 7)."""
        inside = maps.flatten(1, 2) @ self.axis.to(maps) > self.threshold
        return inside.double().mean(1)


def fit_foreground(
    maps: Callable[[], Iterable[Tensor]], foreground: float = FOREGROUND, *, previous: Tensor | None = None
) -> Foreground:
    """Fit axis and threshold of the foreground, in two passes over feature maps.

    The first pass computes the covariance of the patches, the second a histogram of their projections, so memory does
    not grow with the number of images. The border rule determines the sign of the axis: in most photographs the border
    is background, so border patches must have the smaller mean projection. If the border hardly differs from the rest,
    this sign may flip during the training of a network. Therefore a previous axis determines the sign if the
    projections of the patches on the two axes have an absolute correlation of at least `SAME_AXIS`. The threshold is
    the first edge of the histogram with at most the given fraction of patches above it.

    Parameters
    ----------
    maps : callable
        Returns the same maps in each call, in blocks (B, h, w, D), h and w at least 3.
    foreground : float
        Fraction of all patches that count as foreground, above 0 and below 1.
    previous : Tensor, shape (D,), optional
        The axis fitted to features of the same network, earlier in its training.

    Returns
    -------
    Foreground

    Raises
    ------
    InputError
        There are no maps, they are smaller than 3 x 3, or the fraction is out of range.
    """
    if not 0 < foreground < 1:
        raise InputError(f"the fraction of foreground is {foreground}, expected a number above 0 and below 1")
    axis, covariance, longest = _first_component(_check_maps(maps()))
    correlation = 0.0 if previous is None else _correlation(covariance, axis, previous.to(axis))
    counts = torch.zeros(BINS, dtype=torch.int64, device=axis.device)
    border = inner = 0.0
    n_border = n_inner = 0
    for block in _check_maps(maps()):
        s = block.double() @ axis
        middle = s[:, 1:-1, 1:-1]
        inner, n_inner = inner + float(middle.sum()), n_inner + middle.numel()
        border, n_border = border + float(s.sum() - middle.sum()), n_border + s.numel() - middle.numel()
        counts += torch.bincount(((s.flatten() / longest + 1) / 2 * BINS).long().clamp(0, BINS - 1), minlength=BINS)
    flipped = correlation < 0 if abs(correlation) >= SAME_AXIS else border / n_border > inner / n_inner
    if flipped:
        axis, counts = -axis, counts.flip(0)
    below = counts.cumsum(0).double() / counts.sum()
    edge = int((below < 1 - foreground).sum()) + 1
    return Foreground(axis, (2 * edge / BINS - 1) * longest)


def foreground_fractions(
    features: Callable[[Tensor], Tensor], n: int, *, max_images: int = MAX_ROWS, block: int = IMAGE_BLOCK
) -> tuple[Tensor, Tensor]:
    """Foreground fraction of each of n images.

    Parameters
    ----------
    features : callable
        Maps indices of images, int64 (B,), to feature maps (B, h, w, D).
    n : int
    max_images : int
        Largest number of images, evenly spaced, to which axis and threshold are fitted; the default is that of the
        authors' code.
    block : int
        Images processed at a time.

    Returns
    -------
    fractions : Tensor of float64, shape (n,), on the CPU
    axis : Tensor, shape (D,), on the CPU
        See `Foreground`.
    """
    sample = evenly_spaced(n, max_images)
    fitted = fit_foreground(lambda: (features(part) for part in sample.split(block)))
    fractions = [fitted.fraction(features(part)).cpu() for part in torch.arange(n).split(block)]
    return torch.cat(fractions), fitted.axis.cpu()


def _first_component(maps: Iterable[Tensor]) -> tuple[Tensor, Tensor, float]:
    """First eigenvector of the patches' covariance, float64 (D,), the covariance, (D, D), and the largest norm."""
    longest, count = 0.0, 0
    origin = total = moments = None
    for block in maps:
        patches = block.flatten(0, 2).double()
        if origin is None or total is None or moments is None:
            # Sums are relative to the mean of the first block: far from zero, squares would lose precision.
            origin = patches.mean(0)
            total, moments = torch.zeros_like(origin), torch.zeros_like(torch.outer(origin, origin))
        longest = max(longest, float(torch.linalg.vector_norm(patches, dim=1).amax()))
        patches = patches - origin
        total += patches.sum(0)
        moments += patches.T @ patches
        count += len(patches)
    if total is None or moments is None:
        raise InputError("no images were given to find the foreground, expected at least one")
    covariance = moments / count - torch.outer(total, total) / count**2
    axis = torch.linalg.eigh(covariance).eigenvectors[:, -1]
    return axis, covariance, max(longest, 1e-12) * (1 + 1e-6)


def _correlation(covariance: Tensor, axis: Tensor, previous: Tensor) -> float:
    """Correlation of the projections on two axes of patches with this covariance; 0 if a projection is constant."""
    scale = (axis @ covariance @ axis) * (previous @ covariance @ previous)
    return float(axis @ covariance @ previous / scale.sqrt()) if scale > 0 else 0.0


def _check_maps(maps: Iterable[Tensor]) -> Iterator[Tensor]:
    for block in maps:
        if block.ndim != 4 or min(block.shape[1:3]) < 3:
            raise InputError(
                f"feature maps of shape {tuple(block.shape[1:])}, expected (h, w, features) with h and w at least 3: "
                "use an encoder with larger maps, or larger images"
            )
        yield block
