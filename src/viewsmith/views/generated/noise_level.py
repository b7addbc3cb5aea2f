"""Noise levels adapted to each sample, for generated views (GenView: Li et al. 2024, section 3.3).

An image that is mostly foreground tolerates more noise: only one number, its foreground fraction
(`viewsmith.views.generated.foreground`), is stored per image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from viewsmith.core.samples import Rows, apply_in_blocks, evenly_spaced
from viewsmith.networks.feature_maps import FeatureMap, FrozenMaps
from viewsmith.views.generated.foreground import IMAGE_BLOCK, MAX_ROWS, Foreground, fit_foreground
from viewsmith.views.generated.foreground import foreground_fractions as foreground_fractions  # this path is public
from viewsmith.views.neighbors import nearest_neighbors

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

    Attributes
    ----------
    references : Tensor, shape (m, d)
        Representations of training rows.
    distances : Tensor of float64, shape (m,)
        Mean distance of each reference to the nearest other references, sorted.
    """

    references: Tensor
    distances: Tensor

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
    """Mean distance of each row to its k nearest references, float64 (n,); it does not depend on the other rows.

    If a reference has the same representation as the row, it counts as the row itself and is left out.
    """
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
    call. For images it is the foreground fraction in the feature maps (`Foreground`); for vectors and DNA, which
    have no patches, it is the density quantile of the representation (`Density`).

    Parameters
    ----------
    maps : FrozenMaps, optional
        Feature extractor of images. Default: feature maps of the encoder.
    width : int
        D of the feature maps, needed to load a saved tolerance; 0 for vectors and DNA.
    references : (int, int)
        Number and width of the reference representations, needed to load a saved tolerance; (0, 0) for images.

    Attributes
    ----------
    axis : Tensor of float64, shape (D,)
    threshold : Tensor of float64, shape ()
        See `Foreground`.
    references : Tensor, shape (m, d)
    distances : Tensor of float64, shape (m,)
        See `Density`.
    """

    axis: Tensor
    threshold: Tensor
    references: Tensor
    distances: Tensor

    def __init__(self, maps: FrozenMaps | None = None, *, width: int = 0, references: tuple[int, int] = (0, 0)) -> None:
        super().__init__()
        self.maps = maps
        self.register_buffer("axis", torch.zeros(width, dtype=torch.float64))
        self.register_buffer("threshold", torch.zeros((), dtype=torch.float64))
        self.register_buffer("references", torch.zeros(references))
        self.register_buffer("distances", torch.zeros(references[0], dtype=torch.float64))

    @torch.no_grad()
    def fit(self, encoder: nn.Module, rows: Rows) -> NoiseTolerance:
        """Fit to the scaled training rows; vectors and DNA need at least 2 rows.

        Parameters
        ----------
        encoder : nn.Module
            In evaluation mode.
        rows : Tensor or Samples, n rows
            Scaled samples: images (C, H, W), or vectors and DNA, which have fewer dimensions.
        """
        if rows[:1].ndim < 4:
            density = fit_density(_representations(encoder, rows))
            self.references, self.distances = density.references, density.distances
            return self
        maps, sample = self._maps(encoder, rows), evenly_spaced(len(rows), MAX_ROWS).to(rows.device)
        foreground = fit_foreground(lambda: (maps(rows[part]).float() for part in sample.split(IMAGE_BLOCK)))
        self.axis, self.threshold = foreground.axis, foreground.axis.new_tensor(foreground.threshold)
        return self

    @torch.no_grad()
    def forward(self, encoder: nn.Module, rows: Rows) -> Tensor:
        """Tolerances of scaled rows, float64 (n,), on the CPU."""
        if rows[:1].ndim < 4:
            density = Density(self.references, self.distances)
            return density.quantile(_representations(encoder, rows)).cpu()
        maps, foreground = self._maps(encoder, rows), Foreground(self.axis, float(self.threshold))
        return apply_in_blocks(lambda x: foreground.fraction(maps(x).float()), rows, IMAGE_BLOCK, equal=True).cpu()

    def _maps(self, encoder: nn.Module, rows: Rows) -> FeatureMap | FrozenMaps:
        return FeatureMap(encoder, rows[:1]) if self.maps is None else self.maps


def noise_tolerance(encoder: nn.Module, rows: Rows, maps: FrozenMaps | None = None) -> tuple[Tensor, Tensor]:
    """Fit `NoiseTolerance` to scaled rows; return their tolerances, float64 (n,), and the axis, (D,), on the CPU."""
    fitted = NoiseTolerance(maps).fit(encoder, rows)
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
    """Strength of the built-in generator for each sample.

    Parameters
    ----------
    noise : str
        ``adaptive``: the strength follows from the sample's noise tolerance. ``random``: from a random level.
        ``constant:L``: from level L for all samples.
    tolerance : NoiseTolerance, optional
        Default: an unfitted one.
    """

    def __init__(self, noise: str, tolerance: NoiseTolerance | None = None) -> None:
        super().__init__()
        self.noise = noise
        self.tolerance = NoiseTolerance() if tolerance is None else tolerance

    def fit(self, encoder: nn.Module, rows: Rows) -> AdaptiveStrength:
        """Fit the noise tolerance to the scaled training rows, if `noise` is "adaptive"."""
        if self.noise == "adaptive":
            self.tolerance.fit(encoder, rows)
        return self

    def forward(self, encoder: nn.Module, rows: Rows, streams: Sequence[torch.Generator]) -> Tensor:
        """Strengths of scaled rows, float64 (n,), from an encoder in evaluation mode and random streams.

        `streams` has one stream for all rows, or one for each row. They are used only if `noise` is "random".
        """
        if self.noise == "adaptive":
            return level_to_strength(adaptive_levels(self.tolerance(encoder, rows)))
        if self.noise == "random":
            each = len(rows) // len(streams)
            return level_to_strength(torch.cat([random_levels(each, one) for one in streams]).cpu())
        return level_to_strength(torch.full((len(rows),), int(self.noise.partition(":")[2])))
