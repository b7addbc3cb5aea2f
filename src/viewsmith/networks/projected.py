"""A linear map of fixed features, which `LinearContrast` solves for; at first, their principal components."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.networks.features import Features
from viewsmith.networks.scaling import rotation

BLOCK = 256  # samples whose features are computed at a time
VALUES = 2**25  # of samples whose views are drawn at a time, at most
#: Views whose features span the directions to which more features are reduced: a pass of views is then a third as long
#: as with all of 5,000 features, and as good. At most `MOST_VIEWS` of each sample. `FEW` features are not reduced.
SPANNING, MOST_VIEWS, FEW = 1536, 4, 256
#: Squared length of the appended components over that of the columns, for n samples: ``SHARE_OF_FEW / n``, at least
#: `SHARE` and at most 1. The fewer samples, the less do their views tell about new ones.
SHARE, SHARE_OF_FEW = 0.2, 40
#: Squared length of the constant column over that of the others: the square of the mean odds rho / (1 - rho) of views
#: over `ODDS`, at most `MOST_CONSTANT`.
ODDS, MOST_CONSTANT = 100, 3.0
NOISE = 10.0  # largest deviation of a feature in views, in units of that in samples
FULL, EXTRA, ROUNDS = 1500, 64, 10  # above this width axes are iterated, so many rounds, with so many more of them


class ProjectedFeatures(nn.Module):
    """Fixed features of samples, standardized and times weights: (B, ...) to (B, `n_components`).

    The weighted columns are rotated at random, always alike: then all of them have about the same variance, and a
    classifier that standardizes them does not amplify the last ones. `appended` principal components of the features
    tell what views of few samples do not."""

    def __init__(self, features: Features, width: int, appended: int = 0) -> None:
        super().__init__()
        d = features.n_features
        self.features, self.width = features, min(width, d, SPANNING)
        self.center = nn.Buffer(torch.zeros(d))  # of the features of samples, as the scale
        self.scale = nn.Buffer(torch.ones(d))
        self.varies = True
        # What views of samples span, if features are reduced while weights are solved for.
        self.basis = nn.Buffer(torch.zeros(d, min(d, SPANNING) if d > FEW else 0))
        self.spanned = nn.Buffer(torch.tensor(d))  # d if features are not reduced
        self.weights = nn.Buffer(torch.zeros(d, self.width))  # of the standardized features
        self.axes = nn.Buffer(torch.zeros(d, min(appended, d, SPANNING)))
        self.length = nn.Buffer(torch.ones(()))
        self.correlation = nn.Buffer(torch.zeros(self.width))  # of two views of a sample; 0 before it is known
        self.kept = nn.Buffer(torch.tensor(self.width))  # number of columns that are used, the first ones
        self.constant = nn.Buffer(torch.zeros(()))  # a last column, the same for all samples; 0: there is none

    @property
    def n_components(self) -> int:
        """Number of columns, appended ones and the constant one included."""
        return int(self.kept) + self.axes.shape[1] + (float(self.constant) > 0)

    @property
    def n_reduced(self) -> int:
        """Number p of reduced features."""
        return int(self.spanned)

    def standardized(self, x: Tensor) -> Tensor:
        """Standardized features of samples, (B, d)."""
        return (self.features(x) - self.center) / self.scale

    def reduced(self, x: Tensor) -> Tensor:
        """Standardized, reduced features of samples, (B, p)."""
        found = self.standardized(x)
        p = self.n_reduced
        return found @ self.basis[:, :p] if p < found.shape[1] else found

    def columns(self, x: Tensor) -> Tensor:
        """Weighted features of samples, (B, `kept`), in the order of the weights."""
        return self.standardized(x) @ self.weights[:, : int(self.kept)]

    def forward(self, x: Tensor) -> Tensor:
        return self.of_standardized(self.standardized(x))

    def of_standardized(self, found: Tensor) -> Tensor:
        """What `forward` makes of standardized features, (B, d)."""
        parts = [found @ self.weights[:, : int(self.kept)]]
        if self.axes.shape[1]:
            parts.append(self.length * (found @ self.axes))
        parts = [part @ rotation(part.shape[1]).to(part) for part in parts]
        if float(self.constant) > 0:
            parts.append(self.constant.expand(len(found), 1))
        return torch.cat(parts, 1)

    @torch.no_grad()
    def as_linear(self) -> tuple[Tensor, Tensor]:
        """Weights (d, n_components) and offset of `forward`, which is linear in the features."""
        parts = [self.weights[:, : int(self.kept)]]
        if self.axes.shape[1]:
            parts.append(self.length * self.axes)
        weights = torch.cat([part @ rotation(part.shape[1]).to(part) for part in parts], 1) / self.scale[:, None]
        offset = -self.center @ weights
        if float(self.constant) > 0:
            return F.pad(weights, (0, 1)), torch.cat([offset, self.constant[None]])
        return weights, offset

    @torch.no_grad()
    def fit(self, x: Tensor, generator: torch.Generator, views: Callable[[Tensor], Tensor] = lambda x: x) -> None:
        """Fit the features to samples (n, ...), and set the weights to the principal axes of their features; `views`
        draws a view of each sample."""
        self.features.fit(x, generator)
        found = torch.cat([self.features(block) for block in x.split(BLOCK)])
        self.center.copy_(found.mean(0))
        deviation = found.std(0, correction=0)
        self.varies = bool(deviation.max() > 1e-6)
        # What is constant in all samples is left as it is: it may vary in their views.
        self.scale.copy_(torch.where(deviation > 1e-6 * deviation.max().clamp_min(1e-12), deviation, 1.0))
        few = torch.randperm(len(x), generator=generator)[:SPANNING].to(x.device)  # of large samples a copy is much
        d = found.shape[1]
        reduces = d > min(SPANNING, max(FEW, MOST_VIEWS * len(x)))
        each = min(MOST_VIEWS, -(-SPANNING // len(few))) if reduces else 1
        parts = few.split(max(1, VALUES // x[0].numel()))
        drawn = torch.cat([self.features(block) for part in parts * each for block in views(x[part]).split(BLOCK)])
        # What hardly varies in the samples may vary in their views: as a unit it would make these arbitrarily large.
        self.scale.clamp_(min=(drawn - self.center).square().mean(0).sqrt() / NOISE)
        kept, found = min(self.width, len(x) - 1), (found - self.center) / self.scale
        self.spanned.fill_(d)
        if reduces:
            drawn = (drawn - self.center) / self.scale
            own = [self.standardized(x[part]) for part in few.split(self.features.block_size(x))]
            directions = torch.linalg.qr(torch.cat([drawn, *own])[:SPANNING].T)[0]
            self.spanned.fill_(directions.shape[1])
            self.basis.zero_()[:, : directions.shape[1]] = directions
            found = found @ directions
        appended = min(self.axes.shape[1], len(x) - 1)
        variance, axes = leading_axes(found.T @ found / len(found), max(kept, appended))
        share = min(1.0, max(SHARE, SHARE_OF_FEW / len(x)))
        length = (variance[:appended].sum() / share).sqrt()
        self.axes.zero_()[:, :appended] = self._of_all(axes[:, :appended]) / length
        self.set(axes[:, :kept], torch.zeros(kept, device=x.device), float(variance[:kept].sum()))

    def set(self, weights: Tensor, correlation: Tensor, size: float, constant: float = 0.0) -> None:
        """Use weights (p, k) of reduced features, whose columns have these correlations of views and, in the mean, this
        squared length; `constant` is the squared length of the constant column over it."""
        k = weights.shape[1]
        self.weights.zero_()[:, :k] = self._of_all(weights)
        self.correlation.zero_()[:k] = correlation
        self.kept.fill_(k)
        self.length.fill_(size**0.5)
        self.constant.fill_((constant * size) ** 0.5)

    def _of_all(self, directions: Tensor) -> Tensor:
        """Directions (p, k) of reduced features as those of all features, (d, k)."""
        p = self.n_reduced
        return self.basis[:, :p] @ directions if p < len(self.basis) else directions


class Beside(nn.Module):
    """The columns of one map, and those of another one of the same standardized features after them."""

    def __init__(self, first: ProjectedFeatures, second: ProjectedFeatures) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x: Tensor) -> Tensor:
        found = self.first.standardized(x)
        return torch.cat([self.first.of_standardized(found), self.second.of_standardized(found)], 1)


def leading_axes(matrix: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest eigenvalues of a symmetric matrix (d, d), falling, and their eigenvectors (d, k)."""
    d = len(matrix)
    if d <= FULL or 4 * k >= d:
        values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)
    else:
        generator = torch.Generator().manual_seed(0)
        basis = torch.randn(d, k + EXTRA, generator=generator, dtype=matrix.dtype).to(matrix.device)
        for _ in range(ROUNDS):
            basis, _ = torch.linalg.qr(matrix @ basis)
        values, vectors = torch.linalg.eigh(basis.T @ matrix @ basis)
        vectors = basis @ vectors
    values, axes = values.flip(0)[:k], vectors.flip(1)[:, :k]
    return values, axes * axes.gather(0, axes.abs().argmax(0, keepdim=True)).sign()
