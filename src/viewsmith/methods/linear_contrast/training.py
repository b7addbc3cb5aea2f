"""Contrastive learning in closed form: two moments of views, one eigenproblem, the critic's weights.

Let phi(x) be fixed features of a sample, and v and v' two views of it. The best critic of InfoNCE is the log density
ratio log p(v, v') / p(v) p(v') (van den Oord et al. 2018, equation 6). If phi(v) is a Gaussian part that all views of
a sample share, with covariance S_b, plus independent Gaussian noise with covariance S_w, that ratio is a quadratic
form, and it follows from two sums over views:

1. S_w is the mean scatter of views around the mean of their sample, S_b the covariance of all views less S_w.
2. With K = S_w^(-1/2), the eigenvectors U and eigenvalues s of K' S_b K are the columns in which views differ by noise
   of variance 1, and their signal. Two views correlate by rho = s / (s + 1).
3. ``z = (s / (2 s + 1))^(1/2) U' K' phi(v)``: inner products of z are the critic's bilinear term
   (`viewsmith.losses.gaussian_contrast`). Where the signal is strong this is whitening within samples; weak columns
   shrink to 0.

This is linear discriminant analysis whose classes are the samples and whose members are their views, and its critic is
the score of PLDA (Ioffe 2006; Prince and Elder 2007). The spectral contrastive loss (HaoChen et al. 2021), VICReg and
Barlow Twins have the same span for linear networks (Balestriero and LeCun 2022): there, too, the columns are
canonical directions of two views, and only their scales differ.
"""

import functools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import torch
from torch import Tensor, nn

from viewsmith.core import distributed
from viewsmith.core.errors import InputError, warn
from viewsmith.core.progress import TOLD, with_progress
from viewsmith.core.registry import register
from viewsmith.core.rows import return_freed_memory
from viewsmith.core.samples import Rows, batches
from viewsmith.core.schedule import Method, Phase
from viewsmith.core.tensors import stream
from viewsmith.estimator.model import rows_to_fit, shrunken, shrunken_rows
from viewsmith.frameworks.base import Framework, FrameworkContext
from viewsmith.losses.gaussian_contrast import critic_weights, gaussian_contrast
from viewsmith.networks.projected import MOST_CONSTANT, ODDS, ProjectedFeatures, leading_axes
from viewsmith.views.base import PairMaker, PositivePair

VALUES = 2**24  # of samples in a block, at most: a block has several views, and all they are made of
LARGE = 2**22  # from so many values on, memory is returned after a block: of 1 GB in pieces the next ones use little
FOLDS = 5  # parts of the samples, each of which is held out in turn to choose the ridge and the number of columns
MANY, SEVERAL = 1000, 250  # samples from which on one part is enough, or two
RIDGES = (0.01, 0.03, 0.1, 0.3)
#: Of the ridges that have this part of the largest held-out information, the largest is taken: the last nats tell
#: samples apart, not what they have in common.
NEARLY_ALL = 7 / 8
#: Smallest held-out correlation of two views in a column that is kept, if the number of columns is not given, and the
#: fewest columns. Further columns tell next to nothing about new samples.
SHARED, FEWEST = 0.1, 8
LEAST = 1e-3  # smallest correlation of two views in any column
FAST = torch.float32  # while choosing
CANCELS = 1e-3  # part of the second moment below which scatter within samples is summed by itself


@dataclass
class Moments:
    """Sums over views of samples, from which everything follows: they add up over blocks, processes and files."""

    samples: Tensor  # number
    views: Tensor  # number, of all samples
    total: Tensor  # (d,), float64: sum of the features of views
    second: Tensor  # (d, d): sum of their outer products
    within: Tensor  # (d, d): the same of differences to the mean of their sample

    @classmethod
    def empty(cls, width: int, device: torch.device | str = "cpu") -> Self:
        """Sums over no views."""
        shapes: list[tuple[int, ...]] = [(), (), (width,), (width, width), (width, width)]
        return cls(*(torch.zeros(shape, dtype=torch.float64, device=device) for shape in shapes))

    @torch.no_grad()
    def add(self, views: Tensor) -> None:
        """Add the features of m views of B samples each, (B, m, d)."""
        flat, mean = views.flatten(0, 1), views.mean(1)
        # In the precision of the features for a block, and in float64 over blocks.
        second = flat.T @ flat
        self.samples += len(views)
        self.views += len(flat)
        self.total += flat.sum(0)
        self.second += second
        within = second - views.shape[1] * (mean.T @ mean)
        if within.diagonal().sum() < CANCELS * second.diagonal().sum():
            # Views that change little: the difference of two large sums would be rounding.
            scatter = (views - mean[:, None]).flatten(0, 1)
            within = scatter.T @ scatter
        self.within += within

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    def over_processes(self) -> "Moments":
        """The sums over all processes."""
        return Moments(**{name: distributed.total(value) for name, value in vars(self).items()})

    def covariances(self) -> tuple[Tensor, Tensor]:
        """S_b and S_w, the covariances of what views of a sample share and of what they do not, (d, d) each."""
        within = self.within / (self.views - self.samples)
        mean = self.total / self.views
        return self.second / self.views - torch.outer(mean, mean) - within, within


@dataclass(frozen=True)
class Sums:
    """Moments of `FOLDS` parts of the samples, each of which can be held out."""

    folds: tuple[Moments, ...]

    @classmethod
    def empty(cls, width: int, device: torch.device | str = "cpu") -> Self:
        """Sums over no views."""
        return cls(tuple(Moments.empty(width, device) for _ in range(FOLDS)))

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(tuple(one + another for one, another in zip(self.folds, other.folds, strict=True)))

    def over_processes(self) -> "Sums":
        """The sums over all processes."""
        return Sums(tuple(fold.over_processes() for fold in self.folds))

    def all_but(self, fold: int | None) -> Moments:
        """Moments of the other parts; None: of all."""
        return functools.reduce(Moments.__add__, (each for number, each in enumerate(self.folds) if number != fold))

    def tensors(self) -> dict[str, Tensor]:
        """The tensors by name."""
        return {
            f"{number}.{name}": value for number, each in enumerate(self.folds) for name, value in vars(each).items()
        }

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Self:
        """Inverse of `tensors`."""
        names = [field.name for field in fields(Moments)]
        return cls(tuple(Moments(**{n: tensors[f"{number}.{n}"] for n in names}) for number in range(FOLDS)))


@dataclass(frozen=True)
class Solution:
    """Columns in which noise has variance 1, by falling signal: directions (d, k) of features, and signals s (k,)."""

    directions: Tensor
    signal: Tensor

    @property
    def correlation(self) -> Tensor:
        """rho of two views in each column, (k,)."""
        return self.signal / (1 + self.signal)

    def weights(self) -> Tensor:
        """Weights (d, k) of the representation z."""
        return self.directions * critic_weights(self.signal)

    def first(self, k: int) -> "Solution":
        """The first k columns."""
        return Solution(self.directions[:, :k], self.signal[:k])


@torch.no_grad()
def solve(between: Tensor, within: Tensor, ridge: float, k: int) -> Solution:
    """The k leading solutions of ``S_b a = s (S_w + ridge tr(S_w) / d I) a``; S_w is not 0."""
    d, power = len(within), within.diagonal().mean().clamp_min(_rounding(between))
    root = torch.linalg.cholesky(within + ridge * power * torch.eye(d, dtype=within.dtype, device=within.device))
    half = torch.linalg.solve_triangular(root, between, upper=False)
    whitened = torch.linalg.solve_triangular(root, half.T, upper=False)
    signal, axes = leading_axes(whitened, k)
    directions = torch.linalg.solve_triangular(root.T, axes, upper=True)
    return Solution(directions, signal.clamp_min(0))


def _rounding(between: Tensor) -> Tensor:
    """Mean noise of a direction below which views change nothing."""
    return 1e-12 * (between.diagonal().clamp_min(0).mean() + 1e-30)


@dataclass(frozen=True)
class HeldOut:
    """What columns are worth for samples that were not used: correlation of two views, and nats, (k,) each."""

    correlation: Tensor
    information: Tensor


def held_out(solution: Solution, moments: Moments) -> HeldOut:
    """Correlation of two views of new samples in each column, and their mean log density ratio.

    The ratio is what a column adds to InfoNCE's bound on the mutual information; it is below 0 where the column does
    not carry over to new samples. It follows from second moments: ``rho c / (1 - rho^2) - rho^2 t / (1 - rho^2) -
    log(1 - rho^2) / 2`` with the covariance c and the variance t of the views in columns that had variance 1.
    """
    rho = solution.correlation
    parts = (part.to(solution.directions) for part in moments.covariances())
    between, within = ((solution.directions * (part @ solution.directions)).sum(0) for part in parts)
    covariance, variance = between / (1 + solution.signal), (between + within) / (1 + solution.signal)
    ratio = (rho * covariance - rho.square() * variance) / (1 - rho.square())
    return HeldOut(covariance / variance.clamp_min(1e-12), ratio - torch.log1p(-rho.square()) / 2)


@dataclass(frozen=True)
class Choice:
    """A ridge and a number of columns, chosen without labels, the held-out information of every ridge, in nats, and of
    the chosen one the largest held-out correlation of a column, and the sum of those of all columns."""

    ridge: float
    n_components: int
    information: Mapping[float, float]
    correlation: float = 1.0
    shared: float = 0.0


def choose(sums: Sums, ridges: Sequence[float], most: int, n_components: int | None = None) -> Choice:
    """The largest ridge with `NEARLY_ALL` of the most information about views of samples that are held out, and the
    number of columns in which such views correlate by `SHARED` or more; `n_components` if it is given."""
    n = int(sums.all_but(None).samples)
    folds = [number for number, fold in enumerate(sums.folds) if 2 <= fold.samples <= n - 2]
    if not folds:
        return Choice(ridges[len(ridges) // 3], most if n_components is None else n_components, {})
    folds = folds[-1:] if n >= MANY else folds[-2:] if n >= SEVERAL else folds
    found = {}
    for ridge in ridges:
        of_folds = []
        for fold in folds:
            between, within = (part.to(FAST) for part in sums.all_but(fold).covariances())
            of_folds.append(held_out(solve(between, within, ridge, most), sums.folds[fold]))
        correlation, information = (
            torch.stack([getattr(each, name) for each in of_folds]).mean(0) for name in ("correlation", "information")
        )
        k = max(min(FEWEST, most), int((correlation >= SHARED).sum())) if n_components is None else n_components
        nats = float(information[:k].sum())
        nats = nats if math.isfinite(nats) else -math.inf  # views that change next to nothing: their noise is rounding
        found[ridge] = nats, k, float(correlation.max()), float(correlation.clamp(0, 1).sum())
    most_nats = max(nats for nats, *_ in found.values())
    best = max(ridge for ridge, (nats, *_) in found.items() if nats >= min(NEARLY_ALL * most_nats, most_nats))
    return Choice(best, found[best][1], {ridge: nats for ridge, (nats, *_) in found.items()}, *found[best][2:])


class Graph(nn.Module):
    """What `LinearContrastMethod.represent` computes, as one graph for other libraries: all samples in one block."""

    def __init__(self, method: "LinearContrastMethod") -> None:
        super().__init__()
        encoder = method.framework.encoder
        self.features, self.views = encoder.features, method.small_views
        weights, offset = encoder.as_linear()
        self.weights = nn.Buffer(weights)
        self.offset = nn.Buffer(offset)
        self.share, self.shrunk = float(method.share_of_parts), method.shrunk

    def forward(self, x: Tensor) -> Tensor:
        x = shrunken(x, self.shrunk)
        found = self._mean(self.views.symmetric_copies(x))
        return (1 - self.share) * found + self.share * self._mean(self.views.parts(x)) if self.share else found

    def _mean(self, copies: list[Tensor]) -> Tensor:
        found = torch.stack([self.features.of_block(copy) for copy in copies]).mean(0)
        return found @ self.weights + self.offset


@register(
    "framework",
    "linear-contrast",
    help="InfoNCE with the critic of Gaussian views, solved in closed form (linear-contrast)",
    source="van den Oord et al. 2018; the critic: Ioffe 2006",
    general=False,
)
class LinearContrastFramework(Framework):
    """The objective that the linear map of features solves; the negatives are the other samples of the batch."""

    encoder: ProjectedFeatures

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__(encoder, nn.Identity())

    @classmethod
    def build(cls, context: FrameworkContext, **options: Any) -> "LinearContrastFramework":
        """Build the framework on the map of the context; there is no head."""
        return cls(context.encoder, **options)

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        return self.encoder.columns(x) if output == "projection" else super().represent(x, output)

    def forward(self, pair: PositivePair, progress: float = 0.0) -> Tensor:
        """Losses, shape (B,), see `viewsmith.losses.gaussian_contrast`; `progress` has no effect."""
        self.check_no_local_views(pair)
        z0, z1 = self.encoder.columns(torch.cat([pair.first, pair.second])).chunk(2)
        return gaussian_contrast(z0, z1, self.encoder.correlation[: z0.shape[1]])


class LinearContrastMethod(Method):
    """Fixed features, view makers, and the linear map that solves the contrast; no step of it is a gradient step.
    `ridge` and `n_components` are chosen on held-out samples if they are None; after `minutes` no further block is
    added. Images are `shrunk` before their `small_views`, those of smaller images."""

    def __init__(
        self,
        framework: LinearContrastFramework,
        views: PairMaker,
        *,
        view_names: str = "",
        n_views: int,
        ridge: float | None,
        n_components: int | None,
        batch_size: int,
        max_samples: int | None,
        minutes: float | None = None,
        least_constant: float = 0.0,
        shrunk: int = 1,
        small_views: PairMaker | None = None,
    ) -> None:
        super().__init__()
        self.framework, self.views = framework, views
        self.shrunk, self.of_small = shrunk, small_views
        self.view_names = f"the views {view_names}".rstrip()
        self.n_views, self.ridge, self.n_components = n_views, ridge, n_components
        self.batch_size, self.max_samples, self.minutes = batch_size, max_samples, minutes
        self.least_constant = least_constant
        self.made_at = time.monotonic()
        self.share_of_parts = nn.Buffer(torch.zeros(()))
        self.rows: Rows | None = None
        self.sums: Sums | None = None
        self.facts: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Without the sums over views, in copies and pickles: of 1,536 features they are 190 MB."""
        return self.__dict__ | {"sums": None}

    @property
    def small_views(self) -> PairMaker:
        """The view makers of images after they are shrunk."""
        return self.views if self.of_small is None else self.of_small

    def phases(self) -> list[Phase]:
        return [Phase("moments", 0, [], start=self.solve_for)]

    def initialize(self, x: Rows, seed: int) -> None:
        """Fit the features, and the directions to which they are reduced, to random rows and their views."""
        generator, views = stream(seed, "features"), self.small_views
        rows = rows_to_fit(shrunken_rows(x, self.shrunk), generator)
        self.share_of_parts.fill_(views.share_of_parts(rows))
        views.prepare(x)
        draws = stream(seed, "spanning views", device=x.device)
        encoder = self.framework.encoder
        encoder.fit(rows, generator, lambda rows: views(rows, generator=draws).second)
        views.release()
        if not encoder.varies:
            raise InputError("the features do not vary: all samples are equal to them; give others, or other features")

    def prepare(self, x: Rows, seed: int) -> None:
        self.views.prepare(x)
        self.rows = x

    def release(self) -> None:
        self.views.release()
        self.rows = None

    def describe(self) -> dict[str, Any]:
        return self.views.describe() | self.facts

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        """Representation of scaled samples, (B, n_components): the mean over their symmetric copies and parts."""

        def over(copies: list[Tensor]) -> Tensor:
            return torch.stack([self.framework.represent(copy, output) for copy in copies]).mean(0)

        def mean(rows: Tensor) -> Tensor:
            rows = shrunken(rows, self.shrunk)
            found = over(self.small_views.symmetric_copies(rows))
            if not (share := float(self.share_of_parts)):
                return found
            return (1 - share) * found + share * over(self.small_views.parts(rows))

        return self.views.represent(mean, x)

    @property
    def needs_pool(self) -> bool:
        return self.views.needs_pool

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return self.views.view(x, index=index, generator=generator)

    def solve_for(self, seed: int) -> None:
        """Sum the moments of the rows, and set the linear map."""
        assert self.rows is not None
        self.use(self.moments(self.rows, seed))

    @torch.no_grad()
    def moments(self, rows: Rows, seed: int) -> Sums:
        """Moments of scaled rows, which have to be the pool of view makers that need one (`prepare`)."""
        rows, n, device = shrunken_rows(rows, self.shrunk), len(rows), rows.device
        chosen = torch.randperm(n, generator=stream(seed, "samples"))[: self.max_samples]
        at_once = max(1, VALUES // rows[:1].numel())
        size = min(self.batch_size, at_once, max(1, len(chosen) // (2 * FOLDS)))
        parts = list(enumerate(chosen.split(size)))[distributed.rank() :: distributed.world_size()]
        sums = Sums.empty(self.framework.encoder.n_reduced, device)
        done = 0
        indices = [index.to(device) for _, index in parts]
        blocks = zip(parts, indices, batches(rows, indices), strict=True)
        for (number, _), index, x in with_progress(blocks, "views", len(parts), "blocks", told=TOLD):
            generator = stream(seed, "views", number, device=device)
            drawn = self.small_views.several(x, self.n_views, index=index, generator=generator)
            sums.folds[number % FOLDS].add(torch.stack([self.framework.encoder.reduced(view) for view in drawn], 1))
            done += len(index)
            del drawn
            if x.numel() > LARGE:
                return_freed_memory()
            late = self.minutes is not None and time.monotonic() - self.made_at > 60 * self.minutes
            if late and number + 1 >= FOLDS and done < len(chosen):  # each part has samples, so that one is held out
                warn(f"the views of {done:,} of {len(chosen):,} samples were used: the time was up (minutes)")
                break
        return sums.over_processes()

    def use(self, sums: Sums) -> None:
        """Choose what is left to choose on samples that are held out, and set the linear map that solves all."""
        self.sums, both, encoder = sums, sums.all_but(None), self.framework.encoder
        most = min(encoder.width, int(both.samples) - 1)
        if self.n_components is not None and self.n_components > most:
            raise InputError(
                f"n_components is {self.n_components}, and {int(both.samples)} samples of {encoder.n_reduced} "
                f"features give at most {most} columns: lower it, or leave it out"
            )
        between, within = both.covariances()
        if not within.diagonal().mean() > _rounding(between):
            raise InputError(
                f"{self.view_names} change nothing that the features see: take other views (view_maker, --views)"
            )
        if self.ridge is not None and self.n_components is not None:
            choice = Choice(self.ridge, self.n_components, {})
        else:
            choice = choose(sums, RIDGES if self.ridge is None else (self.ridge,), most, self.n_components)
        if choice.correlation < SHARED:
            warn(
                f"two views of a held-out sample correlate by {max(choice.correlation, 0):.2f} at most: "
                f"{self.view_names} destroy nearly everything that features see; take milder ones (view_maker, "
                "--views), or more samples"
            )
        solution = solve(between, within, choice.ridge, choice.n_components)
        solution = solution.first(int((solution.correlation > LEAST).sum()))
        if not len(solution.signal):
            raise InputError(
                f"no column of the features is shared by two views of a sample: {self.view_names} destroy everything; "
                "take milder ones (view_maker, --views), or other features"
            )
        variance = critic_weights(solution.signal).square() * (1 + solution.signal)  # columns have noise of variance 1
        size, signal = float(variance.sum()), float((variance * solution.correlation).sum())
        constant = 0.0
        if self.n_components is None:
            constant = min(MOST_CONSTANT, (signal / max(size - signal, 1e-12) / ODDS) ** 2)
            constant = max(constant, self.least_constant)
            constant = constant if constant > LEAST else 0.0
        encoder.set(solution.weights().float(), solution.correlation.float(), size, constant)
        k, nats = len(solution.signal), choice.information.get(choice.ridge)
        why = "" if nats is None else f", by the information about views of held-out samples ({nats:.1f} nats)"
        self.facts = {
            "chosen": f"{k} columns of {len(encoder.center):,} features, ridge {choice.ridge:g}{why}",
            "samples_of_views": int(both.samples),
            "ridge": choice.ridge,
            "columns": k,
            "correlations": [round(float(each), 4) for each in solution.correlation[:8]],
            "held_out_nats": {f"{ridge:g}": round(value, 3) for ridge, value in choice.information.items()},
        }
