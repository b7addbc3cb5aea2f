"""How much noise a sample can bear, before a view of it is generated (GenView: Li et al. 2024, section 3.3).

An image that is mostly foreground keeps its meaning under more noise. The share of its patches that are foreground
comes from the first principal component of patch features; no more than one number is kept of each image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.random import stream
from viewsmith.core.samples import Rows, apply_in_blocks
from viewsmith.networks.feature_maps import FeatureMap, FrozenMaps
from viewsmith.views.neighbors import nearest_neighbors

#: Noise levels, in steps of the generator's 1,000, of the five fifths of the share.
LEVELS = (0, 100, 200, 300, 400)
#: Share of all patches that is taken for foreground (the paper's "approximately 40 %").
FOREGROUND = 0.4
BINS = 1 << 16
#: Correlation of patches on two axes from which on these are one axis, perhaps turned round.
SAME_AXIS = 0.5


@dataclass(frozen=True, eq=False)
class Foreground:
    """What tells foreground patches from background.

    Attributes
    ----------
    axis : Tensor, shape (D,)
        First principal component of the patches, of length 1; it points to the foreground.
    threshold : float
        Patches whose projection (not centered) lies above it are foreground.
    """

    axis: Tensor
    threshold: float

    def share(self, maps: Tensor) -> Tensor:
        """Share of the patches that are foreground, float64 (B,), of maps (B, h, w, D) (equation 7)."""
        inside = maps.flatten(1, 2) @ self.axis.to(maps) > self.threshold
        return inside.double().mean(1)


def find_foreground(
    maps: Callable[[], Iterable[Tensor]], foreground: float = FOREGROUND, *, former: Tensor | None = None
) -> Foreground:
    """The axis of the foreground and its threshold, from feature maps that pass by twice.

    The first pass adds up the covariance of the patches, the second a histogram of their projections: memory does not
    grow with the number of images. The sign of the axis is fixed by the border rule: in most photographs the border is
    background, so that the patches there must have the smaller mean projection. The rule is a close call where borders
    hardly differ, and may turn as a network trains; an axis that was found before decides instead, if the projections
    of the patches on it and on the new one have a correlation of `SAME_AXIS` or more in size. The threshold is the
    first of the histogram's edges with at most the wanted share of the patches above it.

    Parameters
    ----------
    maps : callable
        Gives the same maps each time it is called, in blocks (B, h, w, D), h and w at least 3.
    foreground : float
        Wanted share of all patches, above 0 and below 1.
    former : Tensor, shape (D,), optional
        The axis found before in features of the same network, earlier in its training.

    Raises
    ------
    InputError
        There are no maps, or they have no inner patches; the share is out of range.
    """
    if not 0 < foreground < 1:
        raise InputError(f"the share of foreground is {foreground}, expected a number above 0 and below 1")
    axis, covariance, reach = _first_component(_checked(maps()))
    kept = 0.0 if former is None else _correlation(covariance, axis, former.to(axis))
    counts = torch.zeros(BINS, dtype=torch.int64, device=axis.device)
    border = inner = 0.0
    n_border = n_inner = 0
    for block in _checked(maps()):
        s = block.double() @ axis
        middle = s[:, 1:-1, 1:-1]
        inner, n_inner = inner + float(middle.sum()), n_inner + middle.numel()
        border, n_border = border + float(s.sum() - middle.sum()), n_border + s.numel() - middle.numel()
        counts += torch.bincount(((s.flatten() / reach + 1) / 2 * BINS).long().clamp(0, BINS - 1), minlength=BINS)
    turned = kept < 0 if abs(kept) >= SAME_AXIS else border / n_border > inner / n_inner
    if turned:
        axis, counts = -axis, counts.flip(0)
    below = counts.cumsum(0).double() / counts.sum()
    edge = int((below < 1 - foreground).sum()) + 1
    return Foreground(axis, (2 * edge / BINS - 1) * reach)


def foreground_fractions(
    look: Callable[[Tensor], Tensor], n: int, *, most: int = 10_000, block: int = 64
) -> tuple[Tensor, Tensor]:
    """Share of the foreground of each of n images, float64 (n,): all that is kept of them; and its axis, (D,).

    Parameters
    ----------
    look : callable
        Feature maps (B, h, w, D) of the images with numbers int64 (B,).
    n : int
    most : int
        Images that axis and threshold are found from, evenly spread; as many were taken by the authors.
    block : int
        Images looked at in one go.
    """
    chosen = torch.linspace(0, n - 1, min(n, most), dtype=torch.float64).long()
    found = find_foreground(lambda: (look(part) for part in chosen.split(block)))
    return torch.cat([found.share(look(part)).cpu() for part in torch.arange(n).split(block)]), found.axis.cpu()


def _first_component(maps: Iterable[Tensor]) -> tuple[Tensor, Tensor, float]:
    """First eigenvector of the patches' covariance, float64 (D,), this, (D, D), and the length of the longest patch."""
    reach, count = 0.0, 0
    origin = total = moments = None
    for block in maps:
        patches = block.flatten(0, 2).double()
        if origin is None or total is None or moments is None:
            # Sums are taken from a point among the patches: far from zero, squares would lose the differences.
            origin = patches.mean(0)
            total, moments = torch.zeros_like(origin), torch.zeros_like(torch.outer(origin, origin))
        reach = max(reach, float(torch.linalg.vector_norm(patches, dim=1).amax()))
        patches = patches - origin
        total += patches.sum(0)
        moments += patches.T @ patches
        count += len(patches)
    if total is None or moments is None:
        raise InputError("no images were given to find the foreground of: expected at least one")
    covariance = moments / count - torch.outer(total, total) / count**2
    axis = torch.linalg.eigh(covariance).eigenvectors[:, -1]
    return axis, covariance, max(reach, 1e-12) * (1 + 1e-6)


def _correlation(covariance: Tensor, axis: Tensor, former: Tensor) -> float:
    """Of the projections of patches of this covariance on two axes; 0 where they do not differ along one of them."""
    scale = (axis @ covariance @ axis) * (former @ covariance @ former)
    return float(axis @ covariance @ former / scale.sqrt()) if scale > 0 else 0.0


def _checked(maps: Iterable[Tensor]) -> Iterator[Tensor]:
    for block in maps:
        if block.ndim != 4 or min(block.shape[1:3]) < 3:
            raise InputError(
                f"feature maps of shape {tuple(block.shape[1:])}, expected (h, w, features) with h and w at least 3: "
                "take an encoder with larger maps, or larger images"
            )
        yield block


def density_share(places: Tensor, k: int = 10) -> Tensor:
    """How much samples without patches can bear: the share of all rows that lie no denser than each, float64 (n,).

    Density is the mean distance to the k nearest rows, the smaller the denser. A row among many others can be moved
    far and still be like one of them; what moves a lone row leaves the data. Above 0, and 1 for the densest row.

    Parameters
    ----------
    places : Tensor, shape (n, d)
        Where the samples lie: representations.
    k : int
        Cut to n - 1.
    """
    hood = nearest_neighbors(places, k)
    distance = torch.stack([torch.linalg.vector_norm(places - places[each], dim=1) for each in hood.T], dim=1).double()
    mean = distance.mean(1)
    denser = torch.searchsorted(mean.sort().values, mean)
    return (len(mean) - denser).double() / len(mean)


@torch.no_grad()
def foreground_or_crowding(encoder: nn.Module, rows: Rows, maps: FrozenMaps | None = None) -> tuple[Tensor, Tensor]:
    """How much noise each sample can bear, float64 (n,) on the CPU, by what an encoder makes of it; and the axis.

    Images: the share of foreground in the encoder's feature map, or in the maps given (`foreground_fractions`). Vectors
    and DNA, which have no border: the density around the representation (`density_share`), and the axis has width 0.

    Parameters
    ----------
    encoder : nn.Module
        In evaluation mode.
    rows : Tensor or Samples, n rows
        Scaled samples: images (C, H, W), others of fewer dimensions.
    maps : FrozenMaps, optional
        Of images, by a network of their own.
    """
    if rows[:1].ndim < 4:
        return density_share(apply_in_blocks(lambda x: encoder(x).float(), rows, 256)).cpu(), torch.zeros(0)
    return image_fractions(FeatureMap(encoder, rows[:1]) if maps is None else maps, rows)


def image_fractions(maps: FeatureMap | FrozenMaps, rows: Rows) -> tuple[Tensor, Tensor]:
    """`foreground_fractions` of scaled images in their maps."""
    device = rows.device
    return foreground_fractions(lambda index: maps(rows[index.to(device)]).float(), len(rows))


def strength_of(level: Tensor) -> Tensor:
    """Strength of the embedded generator at noise levels, float64: 0.1, 0.3, ..., 0.9 for 0, 100, ..., 400.

    Views start from the sample with the noise of the middle of its fifth of all times
    (`viewsmith.views.generated.diffusion.ConditionalDiffusion`).
    """
    return (level.double() + 50) / 500


def level_of(strength: Tensor) -> Tensor:
    """Noise levels at which `strength_of` has these strengths, int64."""
    return (500 * strength - 50).round().long()


def adaptive_levels(share: Tensor) -> Tensor:
    """Noise levels of shares from 0 to 1, int64 (n,): 0 up to 0.2, 100 up to 0.4, ..., 400 above 0.8.

    Equation 8 prints ``100 floor(p / 0.2)``, which gives 500 at p = 1 and, in floating point, 200 at p = 0.6; the
    authors' program has the fifths closed on the right, as here.
    """
    fifths = torch.tensor([0.2, 0.4, 0.6, 0.8], dtype=share.dtype, device=share.device)
    return 100 * torch.bucketize(share, fifths)


def random_levels(n: int, generator: torch.Generator) -> Tensor:
    """One of the five levels for each of n samples, int64 (n,): the paper's ablation (table 7)."""
    return 100 * torch.randint(len(LEVELS), (n,), generator=generator, device=generator.device)


@dataclass(frozen=True)
class AdaptiveStrength:
    """The embedded generator's strength for each row of a training set.

    Parameters
    ----------
    noise : str
        ``adaptive``: by what the row can bear; ``random``: of one of the five levels; ``constant:L``: of the level L.
    maps : FrozenMaps, optional
        In which the foreground of images is found, in place of the encoder's.
    """

    noise: str
    maps: FrozenMaps | None = None

    def __call__(self, encoder: nn.Module, rows: Rows, seed: int) -> Tensor:
        """Strengths, float64 (n,), by an encoder in evaluation mode."""
        if self.noise == "adaptive":
            return strength_of(adaptive_levels(foreground_or_crowding(encoder, rows, self.maps)[0]))
        if self.noise == "random":
            return strength_of(random_levels(len(rows), stream(seed, "levels")))
        return strength_of(torch.full((len(rows),), int(self.noise.partition(":")[2])))
