"""Noise levels adapted to each image, from the fraction of foreground in it (GenView: Li et al. 2024, section 3.3).

Foreground patches have a large projection on the first principal component of the features of all patches. An image
that is mostly foreground tolerates more noise, so only one number is stored for each image.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError, check
from viewsmith.core.samples import Rows, apply_in_blocks, evenly_spaced
from viewsmith.losses.quality import foreground_map
from viewsmith.networks.features import FeatureMap, FrozenMaps
from viewsmith.views.neighbors import nearest_neighbors

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
    """Axis and threshold that distinguish foreground patches from background patches."""

    axis: Tensor  # (D,): first principal component of patches, of length 1
    threshold: float  # patches with a larger projection, not centered, are foreground
    min_max: bool = False  # projections are first scaled to [0, 1] for each image, as in the paper

    def fraction(self, maps: Tensor) -> Tensor:
        """Fraction of foreground patches, float64 (B,), of feature maps (B, h, w, D) (equation 7)."""
        patches, axis = maps.flatten(1, 2), self.axis.to(maps)
        degree = foreground_map(patches, axis) if self.min_max else patches @ axis
        return (degree > self.threshold).double().mean(1)


def fit_foreground(
    maps: Callable[[], Iterable[Tensor]],
    foreground: float = FOREGROUND,
    *,
    previous: Tensor | None = None,
    min_max: bool = False,
) -> Foreground:
    """Fit axis and threshold of the foreground, in two passes over feature maps.

    The first pass computes the covariance of the patches, the second a histogram of their projections, so memory does
    not grow with the number of images. The border rule determines the sign of the axis: in most photographs the border
    is background, so border patches must have the smaller mean projection. If the border hardly differs from the rest,
    this sign may flip during the training of a network. Therefore a previous axis determines the sign if the
    projections of the patches on the two axes have an absolute correlation of at least `SAME_AXIS`. The threshold is
    the first edge of the histogram with at most the given fraction of patches above it.

    `maps` returns the same blocks (B, h, w, D) in each call; `foreground` is the fraction of all patches above the
    threshold, `previous` the axis (D,) that was fitted earlier in a training of the network.
    """
    check(0 < foreground < 1, "the fraction of foreground", foreground, "a number above 0 and below 1")
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
        degree = foreground_map(block.double().flatten(1, 2), axis) if min_max else (s / longest + 1) / 2
        counts += torch.bincount((degree.flatten() * BINS).long().clamp(0, BINS - 1), minlength=BINS)
    flipped = correlation < 0 if abs(correlation) >= SAME_AXIS else border / n_border > inner / n_inner
    if flipped:
        axis, counts = -axis, counts.flip(0)
    below = counts.cumsum(0).double() / counts.sum()
    edge = (int((below < 1 - foreground).sum()) + 1) / BINS
    return Foreground(axis, edge if min_max else (2 * edge - 1) * longest, min_max)


def foreground_fractions(
    features: Callable[[Tensor], Tensor],
    n: int,
    *,
    max_images: int = MAX_ROWS,
    block: int = IMAGE_BLOCK,
    min_max: bool = False,
) -> tuple[Tensor, Tensor]:
    """Foreground fraction of each of n images.

    `features` maps indices of images, int64 (B,), to feature maps (B, h, w, D); axis and threshold are fitted to
    `max_images` evenly spaced images. Returns fractions, float64 (n,), and the axis (D,).
    """
    sample = evenly_spaced(n, max_images)
    fitted = fit_foreground(lambda: (features(part) for part in sample.split(block)), min_max=min_max)
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


#: Noise levels (of the generator's 1,000 times) for foreground fractions in the five fifths of [0, 1].
LEVELS = (0, 100, 200, 300, 400)

#: Nearest rows whose mean distance measures the density of a row.
NEIGHBORS = 10
BLOCK = 256

#: Relative difference up to which distances count as equal: their rounding depends on the position in a block.
ROUNDING = 1e-5


@dataclass(frozen=True, eq=False)
class Density:
    """Reference rows to which the density of a row is compared.

    In a dense region a view can move far and still be similar to a real sample. A view of an isolated sample cannot.
    """

    references: Tensor  # (m, d): representations of training rows
    distances: Tensor  # (m,): of each to its nearest others, the mean, sorted

    def quantile(self, h: Tensor, k: int = NEIGHBORS) -> Tensor:
        """Fraction of the references whose region is not denser than that of each row of `h`, float64 (n,)."""
        mean = _mean_distances(h, self.references, k)
        denser = torch.searchsorted(self.distances, mean * (1 - ROUNDING))
        return (len(self.distances) - denser).double() / len(self.distances)


def fit_density(h: Tensor, k: int = NEIGHBORS) -> Density:
    """Fit the density to rows with representations `h`, (n, d), n at least 2; to `MAX_ROWS` of them if there are more.

    The density is measured by the mean distance to the k nearest references; k is at most their number minus 1.
    """
    references = h[evenly_spaced(len(h), MAX_ROWS).to(h.device)]
    return Density(references, _mean_distances(references, references, k).sort().values)


def _mean_distances(h: Tensor, references: Tensor, k: int) -> Tensor:
    """Mean distance of each row to its k nearest references, equal representations left out, float64 (n,)."""
    k = min(k, len(references) - 1)

    def mean_distance(block: Tensor) -> Tensor:
        nearest = nearest_neighbors(references, k + 1, queries=block)
        each = [torch.linalg.vector_norm(block - references[column], dim=1) for column in nearest.T]
        distance = torch.stack(each, dim=1).double().sort(dim=1).values
        itself = distance[:, 0] <= ROUNDING * torch.linalg.vector_norm(block, dim=1)
        return torch.where(itself, distance[:, 1:].mean(1), distance[:, :-1].mean(1))

    return apply_in_blocks(mean_distance, h, BLOCK, equal=True)


class NoiseTolerance(nn.Module):
    """How much noise each sample tolerates in a generated view: 0 (little) to 1 (much).

    It is fitted once and saved with the model, so the tolerance of a sample does not depend on the other samples of a
    call. For images it is the foreground fraction in the feature maps (`Foreground`); for vectors and DNA, which have
    no patches, it is the density quantile of the representation (`Density`).

    `width` of the maps, and number and width of the `references`, are needed to load a saved tolerance.
    """

    def __init__(
        self,
        maps: FrozenMaps | None = None,
        *,
        width: int = 0,
        references: tuple[int, int] = (0, 0),
        min_max: bool = False,
    ) -> None:
        super().__init__()
        self.maps, self.min_max = maps, min_max
        self.axis = nn.Buffer(torch.zeros(width, dtype=torch.float64))
        self.threshold = nn.Buffer(torch.zeros((), dtype=torch.float64))
        self.references = nn.Buffer(torch.zeros(references))
        self.distances = nn.Buffer(torch.zeros(references[0], dtype=torch.float64))

    @torch.no_grad()
    def fit(self, encoder: nn.Module, rows: Rows) -> "NoiseTolerance":
        """Fit to scaled rows, with an encoder in evaluation mode; vectors and DNA need at least 2 rows."""
        if rows[:1].ndim < 4:
            density = fit_density(_representations(encoder, rows))
            self.references, self.distances = nn.Buffer(density.references), nn.Buffer(density.distances)
            return self
        maps, sample = self._maps(encoder, rows), evenly_spaced(len(rows), MAX_ROWS).to(rows.device)
        blocks = partial(map, lambda part: maps(rows[part]).float(), sample.split(IMAGE_BLOCK))
        foreground = fit_foreground(blocks, min_max=self.min_max)
        threshold = foreground.axis.new_tensor(foreground.threshold)
        self.axis, self.threshold = nn.Buffer(foreground.axis), nn.Buffer(threshold)
        return self

    @torch.no_grad()
    def forward(self, encoder: nn.Module, rows: Rows) -> Tensor:
        """Tolerances of scaled rows, float64 (n,), on the CPU."""
        if rows[:1].ndim < 4:
            density = Density(self.references, self.distances)
            return density.quantile(_representations(encoder, rows)).cpu()
        maps = self._maps(encoder, rows)
        foreground = Foreground(self.axis, float(self.threshold), self.min_max)
        return apply_in_blocks(lambda x: foreground.fraction(maps(x).float()), rows, IMAGE_BLOCK, equal=True).cpu()

    def _maps(self, encoder: nn.Module, rows: Rows) -> FeatureMap | FrozenMaps:
        return FeatureMap(encoder, rows[:1]) if self.maps is None else self.maps


def noise_tolerance(
    encoder: nn.Module, rows: Rows, maps: FrozenMaps | None = None, *, min_max: bool = False
) -> tuple[Tensor, Tensor]:
    """Fit `NoiseTolerance` to scaled rows; return their tolerances, float64 (n,), and the axis, (D,), on the CPU."""
    fitted = NoiseTolerance(maps, min_max=min_max).fit(encoder, rows)
    return fitted(encoder, rows), fitted.axis.cpu()


def _representations(encoder: nn.Module, rows: Rows) -> Tensor:
    """Representations (n, d) of scaled rows, in blocks of one size."""
    return apply_in_blocks(lambda x: encoder(x).float(), rows, BLOCK, equal=True)


def level_to_strength(level: Tensor) -> Tensor:
    """Strength of the built-in generator for noise levels, float64: 0.1, 0.3, ..., 0.9 for 0, 100, ..., 400.

    The strength is the middle of the fifth of all times that the level stands for
    (`viewsmith.views.generated.diffusion.ConditionalDiffusion`).
    """
    return (level.double() + 50) / 500


def strength_to_level(strength: Tensor) -> Tensor:
    """Inverse of `level_to_strength`, int64."""
    return (500 * strength - 50).round().long()


def adaptive_levels(tolerance: Tensor) -> Tensor:
    """Noise levels for tolerances in [0, 1], int64 (n,): 0 up to 0.2, 100 up to 0.4, ..., 400 above 0.8.

    Equation 8 of GenView is ``100 floor(p / 0.2)``, which gives 500 for p = 1 and, in floating point, 200 for p = 0.6.
    As in the authors' code, the intervals here include their right ends.
    """
    fifths = torch.tensor([0.2, 0.4, 0.6, 0.8], dtype=tolerance.dtype, device=tolerance.device)
    return 100 * torch.bucketize(tolerance, fifths)


def random_levels(n: int, generator: torch.Generator) -> Tensor:
    """Random noise levels of n samples, int64 (n,), one of the five levels each (GenView, ablation of table 7)."""
    return 100 * torch.randint(len(LEVELS), (n,), generator=generator, device=generator.device)


class AdaptiveStrength(nn.Module):
    """Strength of the built-in generator for each sample."""

    def __init__(self, noise: str, tolerance: NoiseTolerance | None = None) -> None:
        super().__init__()
        self.noise = noise
        self.tolerance = NoiseTolerance() if tolerance is None else tolerance

    def fit(self, encoder: nn.Module, rows: Rows) -> "AdaptiveStrength":
        """Fit the noise tolerance to the scaled training rows, if `noise` is "adaptive"."""
        if self.noise == "adaptive":
            self.tolerance.fit(encoder, rows)
        return self

    def forward(self, encoder: nn.Module, rows: Rows, streams: Sequence[torch.Generator]) -> Tensor:
        """Strengths of scaled rows, float64 (n,); random ones from one stream for all rows, or one for each."""
        if self.noise == "adaptive":
            return level_to_strength(adaptive_levels(self.tolerance(encoder, rows)))
        if self.noise == "random":
            each = len(rows) // len(streams)
            return level_to_strength(torch.cat([random_levels(each, one) for one in streams]).cpu())
        return level_to_strength(torch.full((len(rows),), int(self.noise.partition(":")[2])))
