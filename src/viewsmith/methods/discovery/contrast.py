"""The objective of discovery: chosen windows look alike across samples, and unlike windows in general.

Let p_P(z) be the density of the features z of chosen windows, one or a few of each sample, and p_U(z) that of all
windows of all samples. Windows are chosen to maximize

    E_P log p_P(z) / p_U(z) = KL(p_P || p_U).

It is the part that CRL-TAC lacks: the information that a chosen window gives, against all windows, is

    E_P log p(z | x) / p_U(z) = I_P(X; Z) + KL(p_P || p_U),

and CRL-TAC maximizes I_P(X; Z) alone (Koyama et al. 2021, equation 2), for which a window that says nothing is as good
as another. When p_P is fitted, the sample that is scored is left out (folds of samples), so that no sample explains
itself.

In images it is object discovery (Cho et al. 2015; LOST, Simeoni et al. 2021). Both densities are Gaussians with full
covariance; with independent letters it is MEME's model, see `viewsmith.methods.discovery.motif_search`.

Symbols: z features of a window; P chosen windows; U all windows; n samples, m windows of a sample, d features.

Features are arrays, or tensors on a GPU, on which their products are computed then; densities and scores are arrays.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.linalg import cho_solve, cholesky, solve_triangular
from torch import Tensor

#: Share of the covariance of all windows in that of the chosen ones, which may be fewer than the features.
MIXED = 0.1
CHOSEN = 3  # windows of a sample that p_P is fitted on
ROUNDS = 12
KEPT = 24  # whitened components of a window
SURE = 0.05  # q-value of places that surely are parts
FAR = 3.0  # interquartile ranges above the upper quartile, where outliers begin ("far out", Tukey 1977)
LISTED = 0.1  # q-value of places on which searches in parts of the samples should agree
STEADY = 0.9  # of the samples or parts, in which searches agree; with fewer the report says so
CACHED = 2**13  # rows that stay in the cache of a CPU
AT_ONCE = 2**19  # rows on a GPU
TOGETHER = 64  # samples of which a value of all windows is computed at once

Features = np.ndarray | Tensor


def there(x: np.ndarray, z: Features) -> Any:
    """An array beside features: on their GPU, if they are on one."""
    return torch.from_numpy(np.ascontiguousarray(x)).to(z.device) if isinstance(z, Tensor) else x


def here(x: Any) -> np.ndarray:
    """Features, or what was computed of them, as an array."""
    return x.cpu().numpy() if isinstance(x, Tensor) else x


def rows_of(z: Features, at: np.ndarray | None = None) -> Iterator[tuple[int, Any]]:
    """Where blocks of the rows of z (n, d) start, of all or of those `at` (m,), and the blocks in float64: as many rows
    at once as stay in the cache of a CPU, for float64 takes twice the memory of all."""
    step, at = AT_ONCE if isinstance(z, Tensor) else CACHED, None if at is None else there(at, z)
    for start in range(0, len(z) if at is None else len(at), step):
        rows = z[start : start + step] if at is None else z[at[start : start + step]]
        yield start, rows.double() if isinstance(rows, Tensor) else rows.astype(np.float64)


def of_rows(z: Features, value: Callable[[Any], Any]) -> np.ndarray:
    """A value of each row of z (n, d), float64 (n,)."""
    found = np.empty(len(z))
    for start, rows in rows_of(z):
        found[start : start + len(rows)] = here(value(rows))
    return found


def under(prefix: object, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays by name, each below a prefix, as they are saved."""
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def below(prefix: object, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Inverse of `under`: the arrays below a prefix."""
    start = f"{prefix}."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def products(x: Any, y: Any) -> Any:
    """The scalar product of each row of x with the same row of y, (n,)."""
    return (x * y).sum(1) if isinstance(x, Tensor) else np.einsum("ij,ij->i", x, y)


@dataclass(frozen=True)
class Gaussian:
    """A normal distribution: its mean (d,) and the lower Cholesky factor (d, d) of its covariance."""

    mean: np.ndarray
    factor: np.ndarray

    @classmethod
    def of(cls, mean: np.ndarray, covariance: np.ndarray) -> "Gaussian":
        """The distribution with these moments; directions without variance get a little of the largest."""
        # Features are whitened, so 1e-3 is little; with less, equal cells (a black background) become indefinite.
        ridge = 1e-6 * max(float(np.diag(covariance).max()), 1e-3)
        factor = cholesky(covariance + ridge * np.eye(len(mean)), lower=True)
        return cls(mean, np.ascontiguousarray(factor))  # in the order of a saved one, which rounds alike

    @property
    def log_density(self) -> float:
        """log p(0), without the constant that all distributions share."""
        white = solve_triangular(self.factor, -self.mean, lower=True, check_finite=False)
        return float(-0.5 * (white**2).sum() - np.log(np.diag(self.factor)).sum())

    def distance(self, z: Features) -> np.ndarray:
        """Squared Mahalanobis distance from the mean of rows z (n, d), float64 (n,)."""
        whitening = solve_triangular(self.factor, np.eye(len(self.mean)), lower=True).T
        mean, white = there(self.mean, z), there(whitening, z)

        def of(rows: Any) -> Any:
            whitened = (rows - mean) @ white
            return products(whitened, whitened)

        return of_rows(z, of)

    @property
    def precision(self) -> np.ndarray:
        """The inverse of the covariance, (d, d)."""
        return np.asarray(cho_solve((self.factor, True), np.eye(len(self.mean))))


@dataclass(frozen=True)
class Moments:
    """Count, sum (d,) and sum of products (d, d) of rows: they add up over folds."""

    count: float
    total: np.ndarray
    products: np.ndarray

    @classmethod
    def of(cls, z: Features, kept: np.ndarray | None = None) -> "Moments":
        """The moments of the kept rows of z (..., d)."""
        z = z.reshape(-1, z.shape[-1])
        at = None if kept is None else np.flatnonzero(kept)
        total, squares = np.zeros(z.shape[1]), np.zeros((z.shape[1], z.shape[1]))
        for _, rows in rows_of(z, at):
            total += here(rows.sum(0))
            squares += here(rows.T @ rows)
        return cls(float(len(z) if at is None else len(at)), total, squares)

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(self.count + other.count, self.total + other.total, self.products + other.products)

    def __sub__(self, other: "Moments") -> "Moments":
        return Moments(self.count - other.count, self.total - other.total, self.products - other.products)

    @property
    def mean(self) -> np.ndarray:
        """The mean row, (d,)."""
        return self.total / max(self.count, 1.0)

    @property
    def covariance(self) -> np.ndarray:
        """The covariance around the mean, (d, d)."""
        return self.products / max(self.count, 1.0) - np.outer(self.mean, self.mean)

    def mixed(self, other: np.ndarray) -> Gaussian:
        """The normal distribution with these moments, and a little of another covariance (d, d)."""
        return Gaussian.of(self.mean, (1 - MIXED) * self.covariance + MIXED * other)


@dataclass(frozen=True)
class Whitening:
    """Whitened principal components of features: (z - mean) @ axes."""

    mean: np.ndarray
    axes: np.ndarray

    @classmethod
    def of(cls, moments: Moments) -> "Whitening":
        """Fitted to features with these moments."""
        variance, axes = np.linalg.eigh(moments.covariance)
        count = int(min(KEPT, (variance > 1e-9 * max(variance[-1], 1e-12)).sum()))
        kept = slice(None, -count - 1, -1)
        return cls(moments.mean, axes[:, kept] / np.sqrt(np.maximum(variance[kept], 1e-12)))

    def __call__(self, z: Any) -> Any:
        """Components (..., KEPT) of features (..., d), float32."""
        mean, axes = (there(each.astype(np.float32), z) for each in (self.mean, self.axes))
        rows = z.reshape(-1, z.shape[-1])
        if isinstance(z, Tensor):
            return ((rows - mean) @ axes).reshape(*z.shape[:-1], -1)
        found = np.empty((len(rows), axes.shape[1]), np.float32)
        for start in range(0, len(rows), CACHED):
            found[start : start + CACHED] = (rows[start : start + CACHED] - mean) @ axes
        return found.reshape(*z.shape[:-1], -1)


@dataclass(frozen=True)
class Contrast:
    """log p_P(z) / p_U(z) as a function of z."""

    chosen: Gaussian
    all_windows: Gaussian

    @classmethod
    def of(cls, chosen: Moments, everything: Moments, beside: Moments | None = None) -> "Contrast":
        """The contrast of two sets of windows, given by their moments; with `beside` to these of all windows."""
        everything = everything if everything.count else chosen  # the boxes fill the images
        mean, covariance = everything.mean, everything.covariance
        return cls(chosen.mixed(covariance), beside.mixed(covariance) if beside else Gaussian.of(mean, covariance))

    def __call__(self, z: Features) -> np.ndarray:
        """Scores (n,) of rows z (n, d): a quadratic function, z'Az + b'z + c, so that one product of matrices is enough
        for both densities."""
        p, u = self.chosen, self.all_windows
        quadratic, linear = (u.precision - p.precision) / 2, p.precision @ p.mean - u.precision @ u.mean
        a, b = there(quadratic, z), there(linear, z)

        def of(rows: Any) -> Any:
            product = rows @ a
            product += b
            return products(product, rows)

        return np.asarray(of_rows(z, of) + p.log_density - u.log_density)

    def of_kind(self, z: Features) -> np.ndarray:
        """Scores (n,) of rows z (n, d) as parts of the kind: the largest log p_P(z) less the largest log p_U(z), each
        with a covariance c >= 1 times as large. What is far from all windows is more probable under p_P than under
        p_U, wherever it is; here it has to be like the kind, and not only as far from everything as it is."""
        p, u, d = self.chosen, self.all_windows, z.shape[1]
        kind, rest = p.distance(z), u.distance(z)
        far = _excess(kind, d) - _excess(rest, d)
        return np.asarray((rest - kind) / 2 + np.log(np.diag(u.factor) / np.diag(p.factor)).sum() + far)


def arrays_of(whitening: Whitening, contrast: Contrast) -> dict[str, np.ndarray]:
    """The arrays of the components of windows and of their contrast, by name."""
    return vars(whitening) | under("chosen", vars(contrast.chosen)) | under("all", vars(contrast.all_windows))


def from_arrays(arrays: Mapping[str, np.ndarray]) -> tuple[Whitening, Contrast]:
    """Inverse of `arrays_of`."""
    densities = [Gaussian(**below(which, arrays)) for which in ("chosen", "all")]
    return Whitening(arrays["mean"], arrays["axes"]), Contrast(*densities)


@dataclass(frozen=True)
class Typical:
    """What the parts of a kind are like, and how far from it an outlier is."""

    density: Gaussian
    limit: float  # Mahalanobis distance

    @classmethod
    def of(cls, z: np.ndarray, seed: int = 0) -> "Typical":
        """Fitted to features z (n, d) of parts, in about unit variance, twice: the second time without outliers, the
        parts that are far out of the distances of all, each held out."""
        fold, kept, limit = folds(max(len(z), 1), seed)[: len(z)], np.ones(len(z), bool), np.inf
        unit = np.eye(z.shape[1])
        for _ in range(2 if len(z) > z.ndim else 0):
            held = np.empty(len(z))
            for f in np.unique(fold):
                held[fold == f] = np.sqrt(Moments.of(z[kept & (fold != f)]).mixed(unit).distance(z[fold == f]))
            low, high = np.quantile(held, (0.25, 0.75))
            limit = high + FAR * max(high - low, 1.0)
            kept = held <= limit
        return cls(Moments.of(z[kept]).mixed(unit), float(limit))

    def outliers(self, z: np.ndarray) -> np.ndarray:
        """Which of the rows z (n, d) are no typical parts, bool (n,)."""
        return np.asarray(np.sqrt(self.density.distance(z)) > self.limit)


def _excess(distance: np.ndarray, d: int) -> np.ndarray:
    """What a log density gains by the best c >= 1 at a squared distance from its mean in d dimensions."""
    c = np.maximum(distance / d, 1.0)
    return np.asarray(d / 2 * (c - 1 - np.log(c)))


def inside(starts: np.ndarray, widths: np.ndarray | int, length: int) -> np.ndarray:
    """Whether each point or letter lies in the place of its sample that begins at `starts` (n,), bool (n, length)."""
    place, ends = np.arange(length), starts + widths
    return np.asarray((place >= starts[:, None]) & (place < ends[:, None]))


def folds(n: int, seed: int, count: int = 4) -> np.ndarray:
    """The fold of each of n samples, int (n,), as equal in size as possible."""
    count = min(count, n)
    return np.random.default_rng(seed).permutation(n) % count


def moments_by_fold(z: Features, kept: np.ndarray, fold: np.ndarray) -> list[Moments]:
    """Moments of the kept rows of z (n, ..., d), by fold."""
    fold = fold.reshape(-1, *[1] * (kept.ndim - 1))
    return [Moments.of(z, kept & (fold == f)) for f in range(int(fold.max()) + 1)]


def choose_windows(
    z: Features,
    whole: np.ndarray,
    fold: np.ndarray,
    start: np.ndarray | None = None,
    count: int = CHOSEN,
    present: float = 1.0,
    rounds: int = ROUNDS,
) -> tuple[np.ndarray, Contrast]:
    """Choose the windows of each sample that look alike across samples, unlike windows in general: in rounds, the best
    are chosen, of the share `present` of the samples, and p_P is fitted to those of the other folds."""
    if start is None:
        blocks = (slice(at, at + TOGETHER) for at in range(0, len(z), TOGETHER))
        start = np.concatenate([_from_middle(z[some], whole[some]) for some in blocks])
    score = np.where(whole, start, -np.inf)
    everything = moments_by_fold(z, whole, fold)
    by_fold = [z[there(fold == f, z)].reshape(-1, z.shape[-1]) for f in range(len(everything))]
    chosen = np.zeros_like(whole)
    for _ in range(rounds):
        best = np.argpartition(-score, count - 1, 1)[:, :count]
        before, chosen = chosen, np.zeros_like(whole)
        np.put_along_axis(chosen, best, True, 1)
        chosen &= whole
        highest = score.max(1)
        chosen[highest < np.sort(highest)[round((1 - present) * len(z))]] = False
        if np.array_equal(before, chosen):
            break
        moments = moments_by_fold(z, chosen, fold)
        for f, rows in enumerate(held_out_scores(moments, everything, by_fold)):
            score[fold == f] = np.where(whole[fold == f], rows.reshape(-1, score.shape[1]), -np.inf)
    return score, Contrast.of(sum(moments[1:], moments[0]), sum(everything[1:], everything[0]))


def _from_middle(z: Features, whole: np.ndarray) -> np.ndarray:
    """Squared distance of each window of samples from the mean window of its own sample, float64 (n, m)."""
    counts = there(np.maximum(whole.sum(1), 1)[:, None, None], z)
    center = (z * there(whole, z)[..., None]).sum(1, keepdims=True) / counts
    return here(((z - center) ** 2).sum(-1)).astype(np.float64)


def held_out_scores(chosen: list[Moments], everything: list[Moments], z: list[Any]) -> list[np.ndarray]:
    """Scores of the windows of each fold under the contrast fitted on the chosen windows of the other folds."""
    all_windows, all_chosen = (sum(every[1:], every[0]) for every in (everything, chosen))
    return [Contrast.of(all_chosen - own, all_windows)(rows) for own, rows in zip(chosen, z, strict=True)]


def best_boxes(maps: np.ndarray, smallest: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """The rectangle with the largest sum in each map, by integral images."""
    n, h, w = maps.shape
    tall, wide = min(smallest, h), min(smallest, w)
    rows = np.concatenate([np.zeros((n, 1, w)), np.cumsum(maps, 1, dtype=np.float64)], 1)
    best, boxes, each = np.full(n, -np.inf), np.zeros((n, 4), np.int64), np.arange(n)
    for top in range(h - tall + 1):
        for bottom in range(top + tall, h + 1):
            prefix = np.concatenate([np.zeros((n, 1)), np.cumsum(rows[:, bottom] - rows[:, top], 1)], 1)
            # The best left edge for a right edge is the smallest prefix at least `wide` before it.
            ends, starts = prefix[:, wide:], np.minimum.accumulate(prefix[:, : w - wide + 1], 1)
            right = np.argmax(ends - starts, 1)
            value = ends[each, right] - starts[each, right]
            i = np.flatnonzero(value > best)
            left = np.where(np.arange(w) <= right[i, None], prefix[i, :-1], np.inf).argmin(1)
            boxes[i] = np.stack([0 * i + top, left, 0 * i + bottom, right[i] + wide], 1)
            best[i] = value[i]
    return boxes, best


def sized_boxes(maps: np.ndarray, size: np.ndarray, smallest: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """The rectangle in each map whose sum, times exp(-d^2 / 2), is the largest, and this value; d is how many doublings
    its sides are away from `size`, the typical height and width. With none above 0 it is empty, and the value 0."""
    n, h, w = maps.shape
    tall, wide = min(smallest, h), min(smallest, w)
    best, boxes = np.zeros(n), np.zeros((n, 4), np.int64)
    sums = np.pad(np.cumsum(np.cumsum(maps, 1, dtype=np.float64), 2), [(0, 0), (1, 0), (1, 0)])
    left, right = np.triu_indices(w + 1, wide)
    doublings = np.log2((right - left) / size[1])
    most = maps.clip(0).sum((1, 2))  # no rectangle has a larger sum, so that those of other sizes are left out soon
    for height in sorted(range(tall, h + 1), key=lambda height: abs(np.log2(height / size[0]))):
        factor = np.exp(-0.5 * (np.log2(height / size[0]) ** 2 + doublings**2))
        i = np.flatnonzero(most * factor.max() > best)
        if not len(i):
            break
        a, b, factor = (each[factor > (best[i] / most[i]).min()] for each in (left, right, factor))
        rows = sums[i, height:] - sums[i, :-height]
        values = ((rows[:, :, b] - rows[:, :, a]) * factor).reshape(len(i), -1)
        found, value = values.argmax(1), values.max(1)
        top, pair = np.divmod(found, len(a))
        better = value > best[i]
        boxes[i[better]] = np.stack([top, a[pair], top + height, b[pair]], 1)[better]
        best[i[better]] = value[better]
    return boxes, best


def columns(**place: type) -> np.dtype:
    """Types of a row for each part: numbers of its sample and kind, its place, score, q-value and whether it is unlike
    the others of its kind."""
    judged = {"score": np.float64, "q": np.float64, "outlier": np.bool_}
    return np.dtype(list({"sample": np.int64, "kind": np.int64, **place, **judged}.items()))


@dataclass(kw_only=True)
class Search:
    """Parts of several kinds in samples of one modality, `name`; see `viewsmith.Discovery` for the options."""

    windows: Sequence[int] | None = None
    kinds: int = 1
    max_parts: int = 1
    seed: int = 0
    parts: list[Any] = field(default_factory=list)  # one for each kind that recurs
    tried: list[list[Any]] = field(default_factory=list)  # for each kind, the solutions among which it was chosen
    # For each kind, the best scores of what is no part, a row for each sample; see `q_values`.
    null: list[np.ndarray] = field(default_factory=list)
    # For each kind, the q-value of the surest place that it was fitted to.
    least_q: list[float] = field(default_factory=list)
    typical: list[Typical] = field(default_factory=list)  # for each kind
    steady: float = 1.0  # how far searches in parts agree; NaN if that cannot be known
    alike: tuple[int, ...] = (0, 0, 0)  # what is above Otsu's threshold, parts, and those parts that are the same

    def table(
        self, dtype: np.dtype, places: Iterable[tuple[int, Mapping[str, np.ndarray]]], samples: int
    ) -> np.ndarray:
        """Rows of places with a finite score, given by their kind and a column (n,) for each field, with q-values."""
        tables = [np.zeros(0, dtype)]
        for kind, columns in places:
            rows = np.flatnonzero(np.isfinite(columns["score"]))
            table = np.zeros(len(rows), dtype)
            table["sample"], table["kind"] = rows, kind
            for name, values in columns.items():
                table[name] = values[rows]
            tables.append(table)
        return self.with_q_values(np.concatenate(tables), samples)

    def keep(self, part: Any, null: np.ndarray, scores: np.ndarray, z: np.ndarray) -> None:
        """Keep a kind, the best scores (m, places) of what is none, and scores (n,) and features (n, d) of its best
        place in each sample."""
        self.parts.append(part)
        self.null.append(null)
        there = np.isfinite(scores)
        q = q_values(scores[there], null[:, :1], len(scores))
        self.least_q.append(float(q.min(initial=1.0)))
        self.typical.append(Typical.of(z[there][q <= SURE], self.seed))

    def compare(self, held: np.ndarray, places: Sequence[tuple[np.ndarray, np.ndarray]], width: int) -> None:
        """Keep how far searches agree on the first kind: the share of n samples with a sure place in which searches
        without the sample find a place of the kind, too, at `held` (n,); of `places` starts and scores (n,)."""
        sure = q_values(places[0][1], self.null[0][:, :1], len(held)) <= LISTED
        same = [(2 * abs(starts - held) <= width) & np.isfinite(scores) for starts, scores in places]
        self.steady = float(np.any(same, 0)[sure].mean()) if sure.any() else float("nan")

    #: What a sample is called.
    samples_name: ClassVar[str] = "samples"

    #: What is saved of the search, and of each of its parts beside its arrays.
    saved: ClassVar[tuple[str, ...]] = ("least_q", "steady")
    saved_of_parts: ClassVar[tuple[str, ...]] = ()

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Plain values and tensors of what was fitted."""
        plain = {name: getattr(self, name) for name in self.saved}
        plain |= {name: [getattr(part, name) for part in self.parts] for name in self.saved_of_parts}
        arrays: dict[str, np.ndarray] = {}
        for i, (part, null, typical) in enumerate(zip(self.parts, self.null, self.typical, strict=True)):
            like = vars(typical.density) | {"limit": np.array(typical.limit)}
            arrays |= under(i, part.arrays() | {"null": null} | under("typical", like))
        return plain, {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}

    def restore(self, fitted: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Take what `state` gave."""
        for name in self.saved:
            setattr(self, name, type(getattr(self, name))(fitted[name]))
        for i in range(len(self.least_q)):
            own = {name: tensor.numpy() for name, tensor in below(i, tensors).items()}
            like = below("typical", own)
            self.typical.append(Typical(Gaussian(like["mean"], like["factor"]), like["limit"].item()))
            self.null.append(own["null"].reshape(len(own["null"]), -1))
            self.parts.append(self.part_from(own, **{name: fitted[name][i] for name in self.saved_of_parts}))
        self.tried = [[part] for part in self.parts]

    def part_from(self, arrays: dict[str, np.ndarray], **values: Any) -> Any:
        """A part from its arrays and the `values` that are saved of it."""
        raise NotImplementedError

    def describe(self) -> str:
        """What recurs, or why nothing does, in plain words."""
        raise NotImplementedError

    def extent(self, found: np.ndarray) -> str:
        """What the parts of one kind are, with their typical size."""
        raise NotImplementedError

    def judged(self, kind: int) -> bool:
        """Whether the q-values of a kind hold."""
        return True

    def threshold(self) -> tuple[str, str]:
        """Of what Otsu's threshold is the baseline, see `alike`, and how it is computed."""
        raise NotImplementedError

    def summary(self, found: np.ndarray, samples: int, max_q: float, unjudged: bool) -> str:
        """What the parts that are listed are, in how many samples, and how many of them may be wrong."""
        lines, hidden = [], 0
        for kind in range(len(self.parts)):
            own = found[found["kind"] == kind]
            if not len(own):
                hidden += kind > 0 and not self.judged(kind) and not unjudged
                continue
            count, wrong = len(np.unique(own["sample"])), round(len(own) * float(own["q"].max()))
            times = "" if len(own) == count else f", {len(own):,} times"
            doubt = f"about {wrong:,} of these may be wrong" if wrong else "probably none of these is wrong"
            if not self.judged(kind) or 2 * self.steady < 1:  # q supposes that one kind recurs
                doubt = "how many of these are wrong is not known"
            unlike = int(own["outlier"].sum())
            doubt += f"; {unlike:,} of these, unlike the others, come{'s' * (unlike == 1)} last" if unlike else ""
            lines.append(f"{self.extent(own)} is in {count:,} of {samples:,} {self.samples_name}{times}; {doubt}")
        if not self.parts:
            return f"nothing recurs: {self.describe()}"
        if hidden:
            which = "a further kind was" if hidden == 1 else f"{hidden} further kinds were"
            lines.append(f"{which} found, but how many places there are wrong is not known: unjudged=True lists them")
        unsure = f"no place is sure enough to be listed: give a max_q above {max_q:g} to see those that are less sure"
        lines = lines or [f"something may recur, but {unsure}"]
        if self.steady < STEADY:
            lines.append(f"not steady: {self.halves()}")
        if np.isnan(self.steady):
            lines.append("whether that is steady is not known: searches in parts of them found too little")
        above, parts, same = self.alike
        if above and same >= 0.9 * max(above, parts):
            of, code = self.threshold()
            also = f"Otsu's threshold {of} finds nearly the same ({same:,} of {parts:,}) in no time, use it: "
            lines.append(also + code)
        return "; ".join(lines)

    def halves(self) -> str:
        """How far searches in parts of the samples agree."""
        return f"searches without them find a place that is listed in {self.steady:.0%} of the {self.samples_name}"

    def with_q_values(self, table: np.ndarray, samples: int) -> np.ndarray:
        """Parts in the order of their samples, with the q-values of each kind; those of a kind in a sample come best
        first, and outliers last."""
        for kind, null in enumerate(self.null):
            rows = np.flatnonzero(table["kind"] == kind)
            scores = table["score"][rows]
            # The first part of a sample may be wrong, and a later one be its best place that is no part. A model may be
            # asked for more parts than it was fitted with: further ones are no better than the last.
            places = null[:, np.clip(np.arange(self.max_parts) - 1, 0, null.shape[1] - 1)]
            q = q_values(scores, places, samples)
            # The first part of a sample is judged as if no other was sought: more parts never list fewer samples.
            first = np.unique(table["sample"][rows], return_index=True)[1]
            q[first] = np.minimum(q[first], q_values(scores[first], null[:, :1], samples))
            table["q"][rows] = q
        return table[np.lexsort((table["outlier"], table["kind"], table["sample"]))]


def q_values(scores: np.ndarray, null: np.ndarray, samples: float) -> np.ndarray:
    """q-values (m,) of the scores of parts in `samples`: false parts expected among those with at least this score,
    over all of these. `null` (m, places) are the best scores of m samples without a part. All samples count as such
    (Benjamini and Hochberg 1995): how many have none is not estimated, for what looks a little like the part would
    count as a part."""
    p = (1 + null.size - np.searchsorted(np.sort(null, axis=None), scores)) / (1 + len(null))
    order = np.argsort(p)[::-1]
    q = np.empty(len(p))
    q[order] = np.minimum.accumulate(samples * p[order] / np.arange(len(p), 0, -1))
    return np.minimum(q, 1.0)
