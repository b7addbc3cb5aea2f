"""Discovery in images: contrast of windows, then of cells, and the choice among several starts without labels.

1. Windows: the mean features of every k x k cells, reduced to whitened principal components.
2. Start: the windows farthest from the mean window of their own image.
3. Rounds: the best three windows of each image are chosen; their score is log p_P(z) / p_U(z), fitted on the chosen
   windows of the other folds of images (`viewsmith.methods.discovery.contrast`).
4. Boxes: cells inside the chosen boxes against cells outside; the new box is the rectangle in which 2 p - 1 sums to the
   most, where p is the posterior of a cell (`viewsmith.methods.discovery.contrast`).
5. Choice: of several k, solutions whose part would fill most of the image are background; of the others, the one whose
   posterior lies most completely in its boxes is taken, if it recurs (`viewsmith.methods.discovery.acceptance`).
6. Typical sizes: two parts that touch would become one box. So the posteriors of the first and the last round are
   averaged, over all k whose windows agree with the chosen solution, and in one more round the sum of 2 p - 1 is
   weighted by the size of the rectangle, log-normal around the median height and width, with a deviation of one
   doubling.
7. If none is left, or less than half of its posterior lies in the boxes, windows may tell more than cells: they are the
   parts themselves if the best one of an image stands out from the best ones apart from it, by the same rule; also with
   patches of twice the size. Otherwise nothing recurs.

Kinds that one box in each image does not find, as platelets and red cells of blood smears:

    1. Small: windows of one to three cells, whose densities are fitted to the best windows of half of the images (as
       in MEME's model of zero or one site, Bailey and Elkan 1994). It recurs if its scores, held out, are higher than
       the best ones in images with random phases, in which the kinds before are filled with the mean of the rest.
    2. Filling: windows apart from each other, up to `COUNT` in an image, are chosen; then, in rounds, cells inside and
       outside are contrasted, and the squares with the largest sums of 2 p - 1 are chosen. All have one size. A random
       field with the same spectrum has regions of any size, so that its posterior agrees less with such squares, or
       windows that are less alike. If several parts in an image are asked for, the first kind may be one of these.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import expit
from torch import Tensor

from viewsmith.core.progress import TOLD, with_progress
from viewsmith.methods.discovery.acceptance import Evidence
from viewsmith.methods.discovery.contrast import (
    Contrast,
    Features,
    Moments,
    Whitening,
    arrays_of,
    best_boxes,
    choose_windows,
    folds,
    here,
    moments_by_fold,
    sized_boxes,
    there,
    under,
)

WINDOWS = (4, 5, 7, 9)  # sides of windows that are tried, in cells
BOX_ROUNDS = 2
BLOCK = 16  # images whose features are computed at once: more take more memory and no less time
OUTSIDE = -1e6  # of a cell that no box may contain
BACKGROUND = 0.4  # mean posterior above which a solution is background

# Least consistency of boxes. Blood smears: .73 to .79; discs in noise, two in an image: .41 to .45. Textures, fragments
# without an object, gray smears: at most .34.
CONSISTENT = 0.38

# Below this consistency, windows that stand out are preferred to boxes. Flat objects on tables have .55 to .6. Without
# it halves of photographs of cards agree less (centers .76 and .87 instead of .85 and .83).
ENTIRELY = 0.5

# Least fraction of images in which the center of another solution's best window lies in the box of the part.
AGREE = 0.5
HALVES = 200  # images in which searches in two halves are compared
Places = list[tuple[np.ndarray, np.ndarray]]  # boxes (n, 4) and scores (n,) of the first place in each image, ...
MARGIN = 2  # cells around a place that are no other kind's: the border of a thing differs from everything, too


@dataclass(frozen=True, kw_only=True)
class Part:
    """What recurs in images, fitted: it scores the windows and the cells of any image."""

    window: int  # side of the windows, in cells
    windows: tuple[Whitening, Contrast]
    cells: tuple[Whitening, Contrast]
    posterior: float  # mean of all cells, held out
    consistency: float  # mean `agreement`, of windows without boxes of `stands`
    objective: float  # E log p_P(z) / p_U(z) of the best window of each image, held out, in nats
    evidence: Evidence = field(default_factory=Evidence)
    shares: np.ndarray = field(default_factory=lambda: np.zeros(0))  # held-out `agreement` above chance (Cohen 1960)
    stands: np.ndarray = field(default_factory=lambda: np.zeros(0))  # see `stands_out`
    left: float = 1.0  # of windows: how often another place is as good, of how often it is in random phases
    boxed: bool = True  # by cells; otherwise boxes are the windows
    size: np.ndarray | None = None  # typical height and width of its boxes, in cells, which are preferred
    count: int = 1  # places in an image that it was fitted with
    border: float = 0.0  # cells around a window without a box that belong to its place

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that are saved by name."""
        size = {} if self.size is None else {"size": self.size}
        return size | under("windows", arrays_of(*self.windows)) | under("cells", arrays_of(*self.cells))

    def window_scores(self, maps: Features) -> np.ndarray:
        """The score of every window as one of the kind, (n, h - k + 1, w - k + 1), for maps (n, h, w, d)."""
        whitening, contrast = self.windows
        z = whitened(whitening, maps, self.window)
        # A small kind is whatever is rare, and one that fills the images is among its own: they have the plain ratio.
        rows = z.reshape(-1, z.shape[-1])
        plain = self.border > 0 or self.count > 1
        return (contrast(rows) if plain else contrast.of_kind(rows)).reshape(z.shape[:3])

    def features(self, maps: Features, valid: np.ndarray, boxes: np.ndarray) -> np.ndarray:
        """Features (n, d) of the window in the middle of a box (n, 4) of each image."""
        middle = _in_the_middle(boxes, whole_windows(valid, self.window), self.window)
        k, corners = self.window, np.divmod(middle.reshape(len(maps), -1).argmax(1), middle.shape[2])
        places = zip(maps, *corners, strict=True)
        means = [own[top : top + k, left : left + k].mean((0, 1)) for own, top, left in places]
        return here(self.windows[0](torch.stack(means) if isinstance(maps, Tensor) else np.stack(means)))

    def posteriors(self, maps: Features) -> np.ndarray:
        """Probability of every cell to lie in the part, (n, h, w); of windows, the highest of those with the cell."""
        if not self.boxed:
            k = self.window - 1
            scores = F.pad(torch.from_numpy(self.window_scores(maps)), (k, k, k, k), value=-np.inf)
            return np.asarray(F.max_pool2d(scores[:, None], k + 1, 1)[:, 0].sigmoid())
        whitening, contrast = self.cells
        z = whitening(maps)
        return np.asarray(expit(contrast(z.reshape(-1, z.shape[-1])).reshape(z.shape[:3])))


@dataclass(frozen=True)
class Cells:
    """The cells of images, whitened."""

    whitening: Whitening
    z: Features  # components, (n, h, w, KEPT)
    valid: np.ndarray  # bool (n, h, w)
    fold: np.ndarray  # of each image, (n,)
    every: list[Moments]  # of the valid cells of each fold

    @classmethod
    def of(cls, maps: Features, valid: np.ndarray, fold: np.ndarray, whitening: Whitening | None = None) -> "Cells":
        """The valid cells of maps (n, h, w, d), by default with a whitening of their own."""
        whitening = Whitening.of(Moments.of(maps, valid)) if whitening is None else whitening
        z = whitening(maps)
        return cls(whitening, z, valid, fold, moments_by_fold(z, valid, fold))


def window_means(maps: Any, side: int) -> Any:
    """The mean features of every window of side x side cells, (n, h - side + 1, w - side + 1, d)."""
    # As they lie in memory, features of a cell beside each other: in an eighth of the time of maps of each feature.
    columns = F.avg_pool2d(torch.as_tensor(maps).permute(0, 3, 1, 2), (side, 1), stride=1)
    means = F.avg_pool2d(columns, (1, side), stride=1).permute(0, 2, 3, 1)
    return means if isinstance(maps, Tensor) else np.asarray(means)


def blocks_of(maps: Features) -> list[slice]:
    """Blocks of images: few, whose maps stay in the cache of a CPU, or more on a GPU."""
    step = 16 * BLOCK if isinstance(maps, Tensor) else BLOCK
    return [slice(start, start + step) for start in range(0, len(maps), step)]


def whitened(whitening: Whitening, maps: Features, side: int) -> Any:
    """Components of all windows, (n, h - side + 1, w - side + 1, KEPT): means of those of cells, which are fewer than
    the features."""
    means = [window_means(whitening(maps[some]), side) for some in blocks_of(maps)]
    return torch.cat(means) if isinstance(maps, Tensor) else np.concatenate(means)


def whole_components(maps: Features, free: np.ndarray, side: int) -> tuple[Whitening, Any, np.ndarray]:
    """A whitening fitted to the windows of free cells, components of all windows, None if the free ones do not differ,
    and which are free."""
    whole, blocks = whole_windows(free, side), blocks_of(maps)
    first, *rest = (Moments.of(window_means(maps[some], side), whole[some]) for some in blocks)
    whitening = Whitening.of(sum(rest, first))
    return whitening, whitened(whitening, maps, side) if whitening.axes.size else None, whole


def discover(maps: Features, valid: np.ndarray, *, windows: Sequence[int] = WINDOWS, seed: int = 0) -> list[Part]:
    """Find what recurs in dense features: a solution for each side of windows, see `likely`; none if earlier kinds have
    left no windows that differ."""
    cells = Cells.of(maps, valid, folds(len(maps), seed))
    sides = with_progress(windows, "parts", len(windows), "windows", told=TOLD)
    found = (_solution(maps, side, cells) for side in sides)
    return [part for part in found if part is not None]


def likely(tried: Sequence[Part]) -> list[Part]:
    """Solutions that are no background, those first whose posterior lies most completely in their boxes."""
    found = [part for part in tried if part.posterior <= BACKGROUND and part.consistency >= CONSISTENT]
    return sorted(found, key=lambda part: -part.consistency)


def whole_windows(valid: np.ndarray, side: int) -> np.ndarray:
    """Windows all of whose cells are valid, bool (n, h - side + 1, w - side + 1)."""
    return np.asarray(window_means(valid[..., None].astype(np.float32), side)[..., 0] > 1 - 0.5 / side**2)


def _solution(maps: Features, side: int, cells: Cells) -> Part | None:
    """The part that windows of one side lead to (steps 1 to 4); None if these do not differ."""
    valid = cells.valid
    whitening, z, whole = whole_components(maps, valid, side)
    if z is None:
        return None
    n, _, columns, d = z.shape
    score, contrast = choose_windows(z.reshape(n, -1, d), whole.reshape(n, -1), cells.fold)
    top, left = np.divmod(score.argmax(1), columns)
    inside = inside_boxes(np.stack([top, left, top + side, left + side], 1), valid.shape[1:])
    for _ in range(BOX_ROUNDS):
        posterior, of_cells = cell_posteriors(cells, inside)
        inside = inside_boxes(best_boxes(np.where(valid, 2 * posterior - 1, OUTSIDE))[0], valid.shape[1:])
    held = np.where(valid, posterior, 0)
    shares, by_chance = agreement(held, inside), inside.sum((1, 2)) / valid.sum((1, 2))
    return Part(
        window=side,
        windows=(whitening, contrast),
        cells=(cells.whitening, of_cells),
        posterior=float(held.sum() / valid.sum()),
        consistency=float(shares.mean()),
        objective=float(score.max(1).mean()),
        shares=np.clip((shares - by_chance) / np.maximum(1 - by_chance, 1e-12), 0, 1),
        stands=stands_out(score, side, columns),
    )


def agreement(held: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Posterior (n, h, w) inside boxes over their area plus the posterior outside, of each image (n,)."""
    area = inside.sum((1, 2)) + (held * ~inside).sum((1, 2))
    return np.asarray((held * inside).sum((1, 2)) / np.maximum(area, 1e-12))


def with_typical_size(part: Part, tried: Sequence[Part], maps: Features, free: np.ndarray, seed: int = 0) -> Part:
    """The part with cells fitted to boxes of its typical size, by all solutions that agree with it: by their windows,
    which are too small, and by their boxes, which may hold several parts."""
    cells = Cells.of(maps, free, folds(len(maps), seed), part.cells[0])
    ((boxes, _),) = boxes_of(part, maps, free, 1)
    posteriors = []
    for other in tried:
        ((windows, _),) = boxes_of(dataclasses.replace(other, boxed=False), maps, free, 1)
        center = (windows[:, :2] + windows[:, 2:]) / 2
        if ((center >= boxes[:, :2]) & (center < boxes[:, 2:])).all(1).mean() >= AGREE:
            inside = inside_boxes(windows, free.shape[1:])
            posteriors += [cell_posteriors(cells, inside)[0], other.posteriors(maps)]
    if not posteriors:
        return part
    weights = np.where(free, 2 * np.mean(posteriors, 0) - 1, OUTSIDE)
    boxes = best_boxes(weights)[0]
    size = np.median(boxes[:, 2:] - boxes[:, :2], 0)
    blocks = [sized_boxes(weights[a : a + BLOCK], size) for a in range(0, len(maps), BLOCK)]
    boxes, values = (np.concatenate(each) for each in zip(*blocks, strict=True))
    if not values.any():
        return part
    of_cells = cell_posteriors(cells, inside_boxes(boxes, free.shape[1:]))[1]
    whole = whole_windows(free, part.window)
    z = whitened(part.windows[0], maps, part.window)
    middle = _in_the_middle(boxes, whole, part.window) & (values > 0)[:, None, None]
    of_windows = Contrast.of(Moments.of(z, middle), Moments.of(z, whole))
    return dataclasses.replace(part, size=size, windows=(part.windows[0], of_windows), cells=(part.cells[0], of_cells))


def agreement_of_halves(part: Part, maps: Features, free: np.ndarray, seed: int = 0) -> float:
    """Share of the images in which the windows that are found in two halves of `HALVES` images are at one place."""
    maps, free, k = maps[:HALVES], free[:HALVES], part.window
    half, whole = folds(len(maps), seed, 2), whole_windows(free, k)
    places = []
    for f in range(2):
        own = half == f
        some = maps[there(own, maps)]
        other = _solution(some, k, Cells.of(some, free[own], folds(int(own.sum()), seed)))
        if other is None:  # one half has nothing that differs
            return 0.0
        scores = np.where(whole, other.window_scores(maps), -np.inf)
        places.append(np.stack(np.divmod(scores.reshape(len(maps), -1).argmax(1), scores.shape[2])))
    return float((abs(places[0] - places[1]).max(0) < k).mean())


def stands_out(score: np.ndarray, side: int, columns: int) -> np.ndarray:
    """How clearly the best of windows (n, m) of `side` cells stands out from those apart from it, (n,). The mean
    is the probability that the best one of an image has a higher score than the other one of an image; a value is what
    its image adds to both, so that their standard error is that of the mean (DeLong et al. 1988). NaN if half of the
    images have no other."""
    row, column = np.divmod(np.arange(score.shape[1]), columns)
    best = score.argmax(1)[:, None]
    apart = (abs(row - row[best]) >= side) | (abs(column - column[best]) >= side)
    first, second = score.max(1), np.where(apart, score, -np.inf).max(1)
    there = np.isfinite(second)
    if 2 * there.sum() < len(first):
        return np.full(len(first), np.nan)
    shares = shares_below(first, second[there])
    mean = shares.mean()
    return np.asarray(shares + np.where(there, 1 - shares_below(second, first) - mean, 0))


def shares_below(scores: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The share of others below each score (n,), equal ones by half."""
    others = np.sort(others)
    below = [np.searchsorted(others, scores, side) for side in ("left", "right")]
    return np.asarray(np.mean(below, 0) / max(len(others), 1))


def as_windows(part: Part, nothing: Part) -> Part:
    """The windows of a solution as parts, compared with those that were found in images with random phases."""
    evidence = Evidence.of_places(part.stands, nothing.stands)
    own, other = float(part.stands.mean()), float(nothing.stands.mean())
    left = (1 - own) / max(1 - other, 1e-12)  # in few images of noise the best windows may all stand out
    return dataclasses.replace(part, boxed=False, consistency=own, left=left, evidence=evidence)


def inside_boxes(boxes: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Whether each cell lies in the box of its image, bool (n, h, w)."""
    row, column = np.arange(shape[0])[:, None], np.arange(shape[1])
    top, left, bottom, right = boxes.T[:, :, None, None]
    return (row >= top) & (row < bottom) & (column >= left) & (column < right)


def cell_posteriors(cells: Cells, inside: np.ndarray) -> tuple[np.ndarray, Contrast]:
    """Held-out posteriors (n, h, w) of cells to lie inside, and the contrast fitted on all folds."""
    d, ins = cells.z.shape[-1], moments_by_fold(cells.z, inside & cells.valid, cells.fold)
    outs = [own - own_in for own, own_in in zip(cells.every, ins, strict=True)]
    total_in, total_out = sum(ins[1:], ins[0]), sum(outs[1:], outs[0])
    posterior = np.empty(inside.shape)
    for f, (own_in, own_out) in enumerate(zip(ins, outs, strict=True)):
        contrast, own = Contrast.of(total_in - own_in, total_out - own_out), cells.fold == f
        rows = cells.z[there(own, cells.z)].reshape(-1, d)
        posterior[own] = expit(contrast(rows).reshape(-1, *inside.shape[1:]))
    return posterior, Contrast.of(total_in, total_out)


def boxes_of(part: Part, maps: Features, free: np.ndarray, count: int) -> Places:
    """Up to `count` boxes of a part in each image, in cells, and their scores; empty and -inf if there is no other."""
    if len(blocks := blocks_of(maps)) > 1:
        places = zip(*(boxes_of(part, maps[some], free[some], count) for some in blocks), strict=True)
        pairs = (zip(*own, strict=True) for own in places)
        return [(np.concatenate(boxes), np.concatenate(scores)) for boxes, scores in pairs]
    k = part.window
    scores = np.where(whole_windows(free, k), part.window_scores(maps), -np.inf)
    if not part.boxed:
        return windows_apart(scores, k, count, part.border)
    found = []
    weights = np.where(free, 2 * part.posteriors(maps) - 1, OUTSIDE)
    for _ in range(count):
        boxes, sums = best_boxes(weights) if part.size is None else sized_boxes(weights, part.size)
        best = np.where(_in_the_middle(boxes, np.isfinite(scores), k), scores, -np.inf).reshape(len(maps), -1).max(1)
        found.append((np.where((sums > 0)[:, None], boxes, 0), np.where(sums > 0, best, -np.inf)))
        weights = np.where(inside_boxes(boxes, free.shape[1:]), OUTSIDE, weights)
    return found


def without(free: np.ndarray, found: Places, part: Part, null: np.ndarray) -> np.ndarray:
    """The cells that are free of a part and of its surroundings: of its first place in each image; of further ones, and
    of a small kind, which images may lack, of places with scores as none of 19 in 20 images without it has. Of a part
    that fills the images, they are free of all its places. What windows without boxes show may be larger than they."""
    margin = 0 if part.count > 1 else MARGIN if part.boxed or part.border else part.window
    for number, (boxes, scores) in enumerate(found):
        expected = part.count > 1 or (number == 0 and part.border == 0)
        least = -np.inf if expected else np.quantile(null[:, 0], 0.95, method="higher")
        grown = boxes + np.array([-margin, -margin, margin, margin])
        free = free & ~(inside_boxes(grown, free.shape[1:]) & (scores > least)[:, None, None])
    return free


def windows_apart(scores: np.ndarray, side: int, count: int, border: float = 0.0) -> Places:
    """The best of windows (n, h - side + 1, w - side + 1) in each image, which do not overlap with `border` cells
    around them: boxes in cells, and scores; empty and -inf if there is no other."""
    apart = side + round(2 * border)
    scores, found = scores.copy(), []
    for _ in range(count):
        best = scores.reshape(len(scores), -1).max(1)
        corner = np.stack(np.divmod(scores.reshape(len(scores), -1).argmax(1), scores.shape[2]), 1)
        boxes = np.concatenate([corner, corner + side], 1)
        found.append((np.where(np.isfinite(best)[:, None], boxes, 0), best))
        scores[inside_boxes(np.concatenate([corner - apart + 1, corner + apart], 1), scores.shape[1:])] = -np.inf
    return found


def _in_the_middle(boxes: np.ndarray, whole: np.ndarray, side: int) -> np.ndarray:
    """The windows, of those that are whole, in the middle of boxes (n, 4), bool (n, h - side + 1, w - side + 1)."""
    middle = (boxes[:, :2] + boxes[:, 2:])[:, :, None, None] / 2
    row, column = (np.arange(count) + side / 2 for count in whole.shape[1:])
    away = np.maximum(abs(row[:, None] - middle[:, 0]), abs(column - middle[:, 1]))
    nearest = np.where(whole, away, np.inf).min((1, 2), keepdims=True)
    return whole & (away <= nearest + 0.5)


def null_scores(part: Part, maps: Features, free: np.ndarray, found: Places, count: int) -> np.ndarray:
    """Scores (m, count) of the best windows of images apart from their boxes: how good a window is that is no part."""
    whole, k = whole_windows(free, part.window), part.window
    for boxes, _ in found:
        free = free & ~inside_boxes(boxes, free.shape[1:])
    apart = whole_windows(free, k)
    if not apart.any():  # windows do not fit beside the boxes: those with their center there
        height, width = whole.shape[1:]
        apart = whole & free[:, k // 2 : k // 2 + height, k // 2 : k // 2 + width]
    scores = np.where(apart, part.window_scores(maps), -np.inf)
    best = np.stack([own for _, own in windows_apart(scores, k, count)], 1)
    return best[np.isfinite(best[:, 0])]


COUNT = 16  # places in an image of a kind that fills it

# By so much the agreement with squares has to exceed that in images with random phases, or by this factor the score of
# the chosen windows. Ten sets of textures of five spectra: at most .05 and 1.13. Red cells in blood smears: .12 to .16
# and 1.16 to 1.19. Nuclei of cells, four kinds of images: .07 to .28 and 1.7 to 5.6.
FILLING_ABOVE, FILLING_TIMES = 0.12, 1.4
SMALL = (1, 2, 3)  # sides of windows of small kinds, in cells
BORDER = 0.5  # cells around a small window that its features see, because patches are larger than cells
PRESENT = 0.5  # of the images, to whose best windows a small kind is fitted


def filling(maps: Features, free: np.ndarray, side: int, seed: int) -> Part:
    """The kind that squares of one side lead to, up to `COUNT` in an image."""
    cells = Cells.of(maps, free, folds(len(maps), seed))
    whitening, z, whole = whole_components(maps, free, side)
    rows = z.reshape(len(z), -1, z.shape[-1])
    score, _ = choose_windows(rows, whole.reshape(len(z), -1), cells.fold, count=min(COUNT, rows.shape[1]))
    chosen = _chosen(score.reshape(whole.shape), side)
    of_chosen = score.reshape(whole.shape)[chosen]
    for _ in range(BOX_ROUNDS):
        posterior, of_cells = cell_posteriors(cells, _covered(chosen, side))
        values = window_means(np.where(free, 2 * posterior - 1, OUTSIDE)[..., None].astype(np.float32), side)[..., 0]
        chosen = _chosen(values, side)
    held = np.where(free, posterior, 0)
    return Part(
        window=side,
        windows=(whitening, Contrast.of(Moments.of(z, chosen), Moments.of(z, whole))),
        cells=(cells.whitening, of_cells),
        posterior=float(held.sum() / free.sum()),
        consistency=float(agreement(held, _covered(chosen, side)).mean()),
        objective=float(of_chosen.mean()) if len(of_chosen) else 0.0,
        size=np.array([side, side], float),
        count=COUNT,
    )


def fills(part: Part, nothing: Part) -> bool:
    """Whether a kind fills the images more clearly than one that was fitted to images with random phases."""
    agrees = part.consistency >= nothing.consistency + FILLING_ABOVE
    return part.consistency >= CONSISTENT and (agrees or part.objective >= FILLING_TIMES * nothing.objective)


def _chosen(values: np.ndarray, side: int) -> np.ndarray:
    """The best windows with positive values, apart from each other, bool like the values."""
    chosen = np.zeros(values.shape, bool)
    for boxes, value in windows_apart(values, side, COUNT):
        chosen[np.arange(len(values)), boxes[:, 0], boxes[:, 1]] |= value > 0
    return chosen


def _covered(chosen: np.ndarray, side: int) -> np.ndarray:
    """Cells in any of the chosen windows, bool (n, h, w)."""
    padded = np.pad(chosen, [(0, 0), (side - 1, side - 1), (side - 1, side - 1)])
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, (side, side), (1, 2)).any((-2, -1)))


def small(
    maps: Features, free: np.ndarray, side: int, seed: int, nothing: Features, count: int = 1
) -> tuple[Part, np.ndarray]:
    """The kind that windows of a few cells lead to, and the scores (m, count) of the best ones in `nothing`, maps of
    images with random phases; its consistency is the probability that the best window of an image has a higher score
    than one of those."""
    fold = folds(len(maps), seed)
    whitening, z, whole = whole_components(maps, free, side)
    score, contrast = choose_windows(
        z.reshape(len(z), -1, z.shape[-1]), whole.reshape(len(maps), -1), fold, count=1, present=PRESENT
    )
    pair = whitening, contrast
    plain: dict[str, Any] = {"posterior": 0.0, "consistency": 0.0, "objective": 0.0, "boxed": False}
    part = Part(window=side, windows=pair, cells=pair, border=BORDER, **plain)
    null = np.stack([own for _, own in windows_apart(part.window_scores(nothing), side, count, BORDER)], 1)
    best = score.max(1)
    shares = shares_below(best, null[:, 0])
    evidence = Evidence.of_places(shares, shares_below(null[:, 0], null[:, 0]))
    objective = float(best[np.isfinite(best)].mean())
    return dataclasses.replace(part, consistency=float(shares.mean()), objective=objective, evidence=evidence), null
