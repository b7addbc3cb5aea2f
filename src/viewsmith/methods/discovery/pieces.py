"""Discovery of things apart on a plain background, such as nuclei in fluorescence, of any number and size in an image.

1. Candidates: the connected pieces above each of `LEVELS` brightnesses (extremal regions; Matas et al. 2002). They are
   nested: a group of things that touch, each of them, and its brightest spots.
2. Features z of a piece: log side, log of the share of its own ellipse that it fills, log elongation, log sharpness of
   its border, which is the mean gradient there over the height of the thing, and log of this height over that of the
   brightest. What the border of the image cuts has a smaller side and share, and is longer, each by one number for all
   images. Images differ in magnification and focus: each has a side and sharpness of its own, normal around those of
   the kind; the deviation between images is learned.
3. Choice: one of nested pieces is taken; the sum of area x sharpness x p(kind given z) is maximized exactly, by
   dynamic programming from the smallest pieces up (Arteta et al. 2012, who learn p from labels). That says which are
   one thing. A larger area is in part blur, so of the pieces of a thing that with the largest sharpness x p is taken.
4. p(kind given z) = sigmoid(log p_P(z) / p_U(z)), the contrast of `viewsmith.methods.discovery.contrast`: p_P has the
   features of chosen pieces, weighted by area, p_U those of all candidates; of the height p_U has the chosen ones, each
   once, and no thing is too bright. Both are normal, with medians as moments. In rounds; at first p is the share of
   the ellipse to the power of `ROUND`.
5. q: the same choice, with the same p_P and p_U, in the images with random phases. These scatter all brightness; what
   in parts or their blur makes no wrong ones, so that they count by the share of the brightness that is in none.
6. Once: a dish recurs nowhere, and p_P is fitted to it, since it is large. The kind is also sought without it.
7. Steady: the same search in two halves of the images; in one image alone, of every other tile. Both judge all images,
   and should list the same pieces.

Symbols: z features of a piece; P chosen pieces; U all candidates.
"""

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from hashlib import sha1
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter, gaussian_gradient_magnitude, label
from scipy.special import expit

from viewsmith.core.errors import InputError
from viewsmith.core.progress import TOLD, with_progress
from viewsmith.data.any_size import ImageList, as_images
from viewsmith.data.sounds import otsu_threshold
from viewsmith.methods.discovery.contrast import LISTED, SURE, Search, Typical, folds, q_values
from viewsmith.methods.discovery.images import PARTS, ImageSearch, random_phases

#: Least share of the brightness above the background that lies in pieces, if the background is plain. Nuclei of three
#: instruments: .66 to .89; textures of five spectra, objects among fragments in color: at most .23.
PLAIN = 0.5

#: Least median share of its ellipse that a piece fills. Nuclei: .99 to 1; strokes and fragments: at most .96.
ELLIPSE = 0.97
LEVELS = 24  # brightnesses, each the same factor above the background as the one before
SMALLEST = 16  # pixels of a piece
ROUND = 8
ROUNDS = 3
FLOOR = 0.02  # least deviation of a feature
SIDE, FILL, SHARP, HIGH = 0, 1, 3, 4  # features
LARGEST = 2048  # pixels of the longer side; larger images are reduced to fewer
TILES = 4  # on each side of an image that is searched alone, every other one in a half
FITTED, CHECKED, MIDDLE = 64, 8, 512  # images that are fitted; that are enough, at least; their sides


@dataclass(frozen=True)
class Pieces:
    """Candidates (m,) of an image, those of lower brightness first: the piece that holds each (-1: none), its box
    (left, top, right, bottom), area, mean brightness above the background, features (m, 5), whether the border of the
    image cuts it, and whether it lies in one that was left out."""

    parent: np.ndarray
    boxes: np.ndarray
    area: np.ndarray
    height: np.ndarray
    z: np.ndarray
    cut: np.ndarray
    inside: np.ndarray

    @cached_property
    def widest(self) -> np.ndarray:
        """For each piece (m,), the largest one that is the same thing: no other piece is beside it there."""
        alone = np.bincount(self.parent + 1, minlength=len(self.parent) + 1)[1:] == 1
        found = np.arange(len(self.parent))
        for i, parent in enumerate(self.parent):
            found[i] = found[parent] if parent >= 0 and alone[parent] else i
        return found

    def choose(self, p: np.ndarray) -> np.ndarray:
        """Of each thing of `apart` the piece with the largest sharpness x p, bool (m,)."""
        order = np.lexsort((-np.exp(self.z[:, SHARP]) * p, self.widest))
        sharpest = order[np.unique(self.widest[order], return_index=True)[1]]
        return np.isin(np.arange(len(p)), sharpest) & np.isin(self.widest, self.widest[self.apart(p)])

    def apart(self, p: np.ndarray) -> np.ndarray:
        """Pieces apart from each other, bool (m,), with the largest sum of area x sharpness x p."""
        value = self.area * np.exp(self.z[:, SHARP]) * p
        within = np.zeros(len(value))  # the best sum of pieces inside each
        for i in range(len(value) - 1, -1, -1):
            if self.parent[i] >= 0:
                within[self.parent[i]] += max(value[i], within[i])
        chosen, taken = np.zeros(len(value), bool), np.zeros(len(value), bool)
        for i, parent in enumerate(self.parent):
            taken[i] = parent >= 0 and taken[parent]
            chosen[i] = not taken[i] and value[i] >= within[i] and value[i] > 0
            taken[i] |= chosen[i]
        return chosen

    def among(self, kept: np.ndarray) -> "Pieces":
        """The kept pieces (m,), each in the smallest kept one that holds it."""
        number, near = np.cumsum(kept) - 1, np.full(len(kept) + 1, -1)  # the last one: of no piece
        inside = np.append(self.inside, False)
        for i, parent in enumerate(self.parent):
            near[i] = number[i] if kept[i] else near[parent]
            inside[i] |= inside[parent] or (parent >= 0 and not kept[parent])
        rest = (self.boxes, self.area, self.height, self.z, self.cut, inside[:-1])
        return Pieces(near[self.parent[kept]], *(values[kept] for values in rest))

    def roundness(self) -> np.ndarray:
        """p before there is a model."""
        return np.asarray(np.exp(ROUND * np.minimum(self.z[:, FILL], 0)))


def plain_range(plane: np.ndarray) -> tuple[float, float, float]:
    """The brightness of the background of a plane (h, w), its deviation, and how far above it the brightest is. What is
    around a dish that fills most of the plane is darker than this background, and no noise of it: the deviation is that
    of its narrower side."""
    low, high, top = np.percentile(plane, [0, 99, 99.95])
    counts, edges = np.histogram(plane, 200, (low, max(high, low + 1e-12)))
    mode, end = edges[counts.argmax() :][:2]  # whole numbers of the background itself are between them
    below, beyond = plane[plane < mode] - mode, plane[plane > end] - mode
    noise = min(np.sqrt(np.mean(below**2)), 1.4826 * np.median(beyond)) if len(below) and len(beyond) else 0.0
    return float(mode), float(noise), float(top - mode)


def pieces_of(plane: np.ndarray) -> Pieces:
    """The candidates of a plane (h, w)."""
    mode, noise, top = plain_range(plane)
    least = max(3 * noise, top / 50)
    slope = np.pad(gaussian_gradient_magnitude(plane, 1), 1).ravel()
    plane = np.pad(plane, 1, constant_values=-np.inf)
    width, bright, outside = plane.shape[1], plane.ravel(), np.flatnonzero(plane == -np.inf)
    found: list[np.ndarray] = []
    count, before, numbers = 0, np.zeros(plane.size, int), np.full(1, -1)
    for level in np.geomspace(least, 0.9 * top, LEVELS) if 0 < least < 0.9 * top else ():
        above = plane > mode + level
        labels, number, area, at, own = _large(above)
        if not len(area):
            break
        kept = own >= 0
        if not kept.all():  # what is too small here is so at all levels above
            bright[at[~kept]], above.ravel()[at[~kept]] = -np.inf, False
            at, own = at[kept], own[kept]
        y = at // width  # np.divmod takes many times as long
        x = at - y * width
        down, across = np.bincount(own, y) / area, np.bincount(own, x) / area
        dy, dx = y - down[own], x - across[own]
        yy, xx, xy = (np.bincount(own, each) / area for each in (dy * dy, dx * dx, dy * dx))
        yy, xx = yy + 1 / 12, xx + 1 / 12  # of squares, not of points
        determinant = np.maximum(yy * xx - xy**2, 1e-12)
        half = np.sqrt(np.maximum((yy + xx) ** 2 / 4 - determinant, 0))
        inner = above[:-2, 1:-1] & above[2:, 1:-1] & above[1:-1, :-2] & above[1:-1, 2:]
        rim = np.flatnonzero(above & ~np.pad(inner, 1))
        labels[outside] = -1
        of, near = number[labels[rim]], labels[np.add(rim, [[-1], [1], [-width], [width]])]
        # Where the image ends, the thing goes on: no border is there.
        border, cut = (near == 0).any(0), np.bincount(of[(near < 0).any(0)], minlength=len(area)) > 0
        length = np.bincount(of[border], minlength=len(area))
        steep = np.bincount(of[border], slope[rim[border]], minlength=len(area)) / np.maximum(length, 1)
        columns = [
            numbers[before[rim[np.unique(of, return_index=True)[1]]]],
            area,
            np.bincount(own, bright[at]) / area - mode,
            np.log(area) / 2,
            np.log(area / (4 * np.pi * np.sqrt(determinant))),
            np.log((yy + xx) / 2 + half) / 2 - np.log(np.maximum((yy + xx) / 2 - half, 1e-12)) / 2,
            np.log(np.maximum(steep, 1e-12)),
            cut,
        ]
        found.append(np.column_stack([_boxes(rim, of, len(area), width), *columns]))
        before, numbers = labels, np.where(number < 0, -1, count + number)
        count += len(area)
    table = np.concatenate([np.zeros((0, 12)), *found])
    parent, height = table[:, 4].astype(int), table[:, 6]
    brightest = height.copy()
    for i in range(len(table) - 1, -1, -1):
        if parent[i] >= 0:
            brightest[parent[i]] = max(brightest[parent[i]], brightest[i])
    brightest = np.log(np.maximum(brightest, 1e-12))
    z = np.column_stack([table[:, 7:10], table[:, 10] - brightest, brightest - np.log(max(top, 1e-12))])
    return Pieces(parent, table[:, :4] - 1, table[:, 5], height, z, table[:, 11] > 0, np.zeros(len(table), bool))


@dataclass(frozen=True)
class Kind:
    """log p_P(z) / p_U(z), with the centers and deviations of both, how far from the center pieces are that the border
    of the image cuts, and the deviations of images; (5,) each."""

    center: np.ndarray
    spread: np.ndarray
    all_center: np.ndarray
    all_spread: np.ndarray
    cut: np.ndarray
    between: np.ndarray

    @classmethod
    def fitted(cls, candidates: list[Pieces]) -> "tuple[Kind, np.ndarray]":
        """Fitted to the candidates of images in rounds, with what is the `own` of each image."""
        chosen = [each.choose(each.roundness()) for each in candidates]
        own = np.zeros((len(candidates), candidates[0].z.shape[1]))
        for _ in range(ROUNDS):
            kind = cls.of(candidates, chosen, own)
            own = np.stack([kind.own(each, kept) for each, kept in zip(candidates, chosen, strict=True)])
            chosen = [kind.choose(each, of)[0] for each, of in zip(candidates, own, strict=True)]
            if not any(kept.any() for kept in chosen):  # all are far from the middle of what was chosen
                break
        return kind, own

    @classmethod
    def of(cls, candidates: list[Pieces], chosen: list[np.ndarray], own: np.ndarray) -> "Kind":
        """Fitted to the chosen ones, each with the weight of its area, and to all, without what is the `own` of their
        image (n, 5)."""
        alike = [each.z - of for each, of in zip(candidates, own, strict=True)]
        is_cut = [each.cut for each in candidates]
        z, area, cut = (_kept(values, chosen) for values in (alike, [each.area for each in candidates], is_cut))
        less = np.zeros(z.shape[1])
        if 0 < cut.sum() < len(cut):
            less[:SHARP] = (_moments(z[cut], area[cut])[0] - _moments(z[~cut], area[~cut])[0])[:SHARP]
        center, spread = _moments(z - np.outer(cut, less), area)
        all_center, all_spread = _moments(np.concatenate(alike) - np.outer(np.concatenate(is_cut), less))
        once, spread_once = _moments(z[:, [HIGH]])
        all_center[HIGH], all_spread[HIGH] = once[0], spread_once[0]
        # Otherwise what is far on either side would be more probable as one of the kind.
        kind = cls(center, spread, all_center, np.maximum(all_spread, spread), less, np.zeros_like(center))
        at = [kind._place(each, kept) for each, kept in zip(candidates, chosen, strict=True) if kept.any()]
        varies = np.mean([middle**2 for middle, _ in at], 0) - np.mean([error for _, error in at], 0)
        between = np.zeros_like(center)
        between[[SIDE, SHARP]] = np.sqrt(np.maximum(varies, 0))[[SIDE, SHARP]]
        return replace(kind, between=between)

    def _place(self, each: Pieces, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Medians of the chosen pieces of an image, less the center, and their variances, (5,)."""
        area, z = each.area[kept], each.z[kept] - np.outer(each.cut[kept], self.cut)
        return _moments(z, area)[0] - self.center, np.pi / 2 * self.spread**2 * (area**2).sum() / area.sum() ** 2

    def own(self, each: Pieces, kept: np.ndarray) -> np.ndarray:
        """How far the center of an image is from that of the kind (5,), the mean given its chosen pieces."""
        if not kept.any():
            return np.zeros_like(self.center)
        middle, error = self._place(each, kept)
        return np.asarray(middle * self.between**2 / (self.between**2 + error))

    def choose(self, each: Pieces, own: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which pieces of an image are chosen, bool (m,), with the scores (m,) and features (m, 5) of all, less its
        `own` center, by default that of `settled`."""
        z = each.z - (self.settled(each) if own is None else own) - np.outer(each.cut, self.cut)
        z[:, HIGH] = np.minimum(z[:, HIGH], self.center[HIGH])
        score = self(z)
        return each.choose(expit(score)), score, z

    def settled(self, each: Pieces) -> np.ndarray:
        """What is the `own` of an image to which the kind was not fitted."""
        own = np.zeros_like(self.center)
        for _ in range(2):
            own = self.own(each, self.choose(each, own)[0])
        return own

    def standard(self, z: np.ndarray) -> np.ndarray:
        """Features (m, 5) in deviations of the kind."""
        return np.asarray((z - self.center) / self.spread)

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that are saved by name."""
        return vars(self)

    def __call__(self, z: np.ndarray) -> np.ndarray:
        """Scores (m,) in nats of features (m, 5)."""
        kind, rest = self.standard(z), (z - self.all_center) / self.all_spread
        return np.asarray((rest**2 - kind**2).sum(1) / 2 + np.log(self.all_spread / self.spread).sum())


@dataclass(frozen=True)
class Fields:
    """Images that are searched: their planes, candidates, and `count` planes with random phases."""

    planes: list[np.ndarray]
    candidates: list[Pieces]
    count: int
    seed: int
    known: dict[Any, tuple[Pieces, Any]] = field(default_factory=dict)  # `drawn` before, here and without things

    @cached_property
    def drawn(self) -> list[Pieces]:
        """Candidates of the planes with random phases. Most planes are the same without some things, and in halves."""
        rng, found = np.random.default_rng(self.seed), []
        digests = [(plane.shape, sha1(plane.tobytes()).digest()) for plane in self.planes]
        for i in range(self.count):
            key = (rng.bit_generator.state["state"]["state"], digests[i % len(digests)])
            if key not in self.known:
                drawn = random_phases(self.planes[i % len(digests)][..., None], rng)[..., 0]
                self.known[key] = pieces_of(drawn), rng.bit_generator.state
            each, rng.bit_generator.state = self.known[key]
            found.append(each)
        return found

    @cached_property
    def above(self) -> float:
        """The brightness above the background."""
        return float(sum(np.maximum(plane - plain_range(plane)[0], 0).sum() for plane in self.planes))

    def judged(
        self, kind: Kind, own: np.ndarray
    ) -> tuple[list[tuple[np.ndarray, np.ndarray, np.ndarray]], np.ndarray, float]:
        """What is chosen in images with an `own` center each, see `Kind.choose`; scores of what is chosen in those with
        random phases, padded; and the share of the brightness above the background that is in no likely piece."""
        found, rest = [kind.choose(*pair) for pair in zip(self.candidates, own, strict=True)], 1.0
        for each, (kept, score, _) in zip(self.candidates, found, strict=True):
            likely = np.unique(each.widest[kept & (score > 0) & ~each.inside])
            rest -= float((each.area * each.height)[likely].sum() / self.above)
        null = []
        for i, each in enumerate(self.drawn):
            kept, score, _ = kind.choose(each, own[i % len(own)])
            null.append(score[kept])
        most = max(1, *map(len, null))
        padded = [np.pad(each, (0, most - len(each)), constant_values=-np.inf) for each in null]
        return found, np.stack(padded), max(rest, 0.0)

    def times(self, kind: Kind) -> tuple[int, int]:
        """In how many images a kind surely is, and whether it is there more than once: 0, 1, or 2 for more."""
        found, null, rest = self.judged(kind, np.stack([kind.settled(each) for each in self.candidates]))
        scores = np.concatenate([score[kept] for kept, score, _ in found])
        sure = q_values(scores, null, len(found) * rest) <= LISTED
        image = np.repeat(np.arange(len(found)), [int(kept.sum()) for kept, _, _ in found])
        return len(np.unique(image[sure])), min(2, int(sure.sum()))

    def without(self, things: list[np.ndarray]) -> "Fields":
        """The images without things of each; what lies in these stays a candidate, and is in no random phases."""
        planes, candidates = list[np.ndarray](), list[Pieces]()
        for plane, each, own in zip(self.planes, self.candidates, things, strict=True):
            planes.append(plane.copy() if len(own) else plane)
            mode = plain_range(plane)[0] if len(own) else 0.0
            for left, top, right, bottom in each.boxes[own].astype(int):
                planes[-1][top:bottom, left:right] = mode
            candidates.append(each.among(~np.isin(each.widest, own)))
        return replace(self, planes=planes, candidates=candidates)

    def recurring(self) -> "tuple[Fields, Kind, np.ndarray]":
        """The kind that is in most images, and the `own` of each; the images without things that do not recur.

        A dish is larger than all that is in it, so that p_P is fitted to it. If half of the weight of p_P is in one
        thing, or in things in at most half of the images, the kind is also sought without these, and is taken if it is
        in more images, or more than once."""
        searched, best, most = self, None, (-1, -1)
        while True:
            kind, own = Kind.fitted(searched.candidates)
            pairs = zip(searched.candidates, own, strict=True)
            chosen = [np.flatnonzero(kind.choose(*pair)[0]) for pair in pairs]
            image, piece = np.repeat(np.arange(len(chosen)), [*map(len, chosen)]), np.concatenate(chosen)
            area = np.concatenate([e.area[rows] for e, rows in zip(searched.candidates, chosen, strict=True)])
            order = np.argsort(-area, kind="stable")
            half = order[: 1 + int(np.searchsorted(area[order].cumsum(), area.sum() / 2))]
            few = len(half) == 1 or 2 * len(np.unique(image[half])) <= len(chosen)
            if best is None and not few:
                return searched, kind, own
            times = searched.times(kind)
            if times > most:
                best = searched, kind, own
            things = [np.unique(e.widest[piece[half[image[half] == i]]]) for i, e in enumerate(searched.candidates)]
            others = searched.without(things)
            if best is not None and (times < most or not few or not any(len(e.area) for e in others.candidates)):
                return best
            searched, most = others, max(times, most)


def _tile(each: Pieces, shape: tuple[int, ...]) -> np.ndarray:
    """Row and column, in sum, of the tile in which the middle of each piece (m,) of an image (h, w) is."""
    middle = (each.boxes[:, 1::-1] + each.boxes[:, 3:1:-1]) / 2
    return np.asarray((TILES * middle / shape).astype(int).sum(1))


def _kept(values: list[np.ndarray], chosen: list[np.ndarray]) -> np.ndarray:
    """Values of the chosen pieces of all images."""
    return np.concatenate([each[kept] for each, kept in zip(values, chosen, strict=True)])


def _moments(z: np.ndarray, weight: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Weighted medians of rows (m, d), and of their distance from these as a deviation."""
    weight = np.ones(len(z)) if weight is None else weight
    center = np.array([_median(column, weight) for column in z.T])
    away = [1.4826 * _median(abs(column - middle), weight) for column, middle in zip(z.T, center, strict=True)]
    return center, np.array(away) + FLOOR


def _median(values: np.ndarray, weight: np.ndarray) -> float:
    order = np.argsort(values, kind="stable")
    total = weight[order].cumsum()
    return float(values[order][np.searchsorted(total, total[-1] / 2)])


@dataclass(kw_only=True)
class PieceSearch(ImageSearch):
    """Things apart on a plain background."""

    saved = (*ImageSearch.saved, "channel", "bright", "rest")
    saved_of_parts = ()  # type: ignore[assignment]
    max_parts: int | None = None  # type: ignore[assignment]
    channel: int = -1  # -1: the mean of all
    bright: bool = True
    rest: float = 1.0  # of the brightness above the background, in no part

    def plain(self, X: Any) -> bool:
        """Whether some of the images have a plain background with things apart on it, which are whole."""
        images = as_images(X)
        self.channels, self.dtype = images.channels, images.dtype
        rows = images.order[: _enough(images)]
        middles = [_middle(images.read(int(i), None)) for i in rows]
        if not all(np.isfinite(pixels).all() for pixels in middles):
            return False
        self.channel = -1 if images.channels in (1, 3) else int(np.argmax(np.median([_clear(p) for p in middles], 0)))
        self.bright = bool(np.median([_tail(self._scaled(pixels)) for pixels in middles]) > 0)
        planes = [self._plane(pixels)[0] for pixels in middles]
        candidates = [pieces_of(plane) for plane in planes]
        chosen = [each.apart(each.roundness()) for each in candidates]
        if not any(kept.any() for kept in chosen):
            return False
        above = sum(np.maximum(plane - plain_range(plane)[0], 0).sum() for plane in planes)
        held = sum((each.area * each.height)[kept].sum() for each, kept in zip(candidates, chosen, strict=True))
        z, area = _kept([each.z for each in candidates], chosen), _kept([each.area for each in candidates], chosen)
        fill = _moments(z, area)[0][FILL]
        return bool(held >= PLAIN * above and fill >= np.log(ELLIPSE))

    def fit(self, X: Any) -> None:
        """Find what recurs; raises InputError for images without a plain background."""
        images = as_images(X)
        if not self.plain(images):
            raise InputError(
                "the images have no things apart on a plain background, which features='pieces' is for: use "
                "features='patches'"
            )
        planes = [self._read(images, int(i))[0] for i in images.order[:FITTED]]
        every = Fields(planes, [pieces_of(plane) for plane in planes], _enough(images), self.seed)
        every, kind, own = every.recurring()
        found, null, self.rest = every.judged(kind, own)
        q = q_values(np.concatenate([score[kept] for kept, score, _ in found]), null, len(planes) * self.rest)
        self.null, self.parts, self.tried = [null], [kind], [[kind]]
        self.least_q = [float(q.min(initial=1.0))]
        z = np.concatenate([z[kept] for kept, _, z in found])
        self.typical = [Typical.of(kind.standard(z[q <= SURE]), self.seed)]
        self.steady = self._agreement(every)

    def _agreement(self, every: Fields) -> float:
        """Share of the pieces that searches in two halves of the images, or of the tiles of one, list in all of them,
        which both list (Dice 1945); NaN if a half has no candidates, or no search lists any."""
        candidates, listed = every.candidates, []
        half = folds(len(candidates), self.seed, 2)
        for f in range(2):
            own = [i for i, of in enumerate(half) if of == f]
            some = replace(every, planes=[every.planes[i] for i in own], candidates=[candidates[i] for i in own])
            if len(candidates) == 1:
                tile = _tile(candidates[0], every.planes[0].shape) % 2
                some = replace(every, candidates=[candidates[0].among(tile == f)])
            if not any(len(each.area) for each in some.candidates):
                return float("nan")
            kind = some.recurring()[1]
            found, null, left = every.judged(kind, np.stack([kind.settled(each) for each in candidates]))
            firsts = [self._first(kept, score) for kept, score, _ in found]
            score = np.concatenate([score[first] for first, (_, score, _) in zip(firsts, found, strict=True)])
            sure = q_values(score, null, len(candidates) * left) <= LISTED
            split = np.split(sure, np.cumsum([len(first) for first in firsts])[:-1])
            listed.append([e.boxes[first[s]] for e, first, s in zip(candidates, firsts, split, strict=True)])
        one, other, same = np.sum([_alike(*boxes) for boxes in zip(*listed, strict=True)], 0)
        return float(2 * same / (one + other)) if one + other else float("nan")

    def _first(self, kept: np.ndarray, score: np.ndarray) -> np.ndarray:
        """The chosen pieces of an image, best first, as many as are asked for."""
        chosen = np.flatnonzero(kept)
        return np.asarray(chosen[np.argsort(-score[chosen], kind="stable")][: self.max_parts])

    def candidates(self, X: Any) -> np.ndarray:
        """The pieces of every image, with their q-values among all images."""
        images, (kind,) = self.checked(X), self.parts
        found, alike = [], np.zeros(3, int)
        for i in with_progress(range(len(images)), "pieces", len(images), "images", told=TOLD):
            plane, scale = self._read(images, i)
            each = pieces_of(plane)
            kept, score, z = kind.choose(each)
            unlike, chosen = self.typical[0].outliers(kind.standard(z)), self._first(kept, score)
            height, width = images.shapes[i]
            for k in chosen:
                box = np.minimum(np.round(each.boxes[k] * scale).astype(int), [width, height, width, height])
                found.append((i, 0, *box, score[k], 1.0, unlike[k]))
            likely = each.boxes[chosen[score[chosen] > 0]]
            alike += _alike(otsu_boxes(plane), likely)
        self.alike = tuple(alike.tolist())
        return self.with_q_values(np.array(found, PARTS), len(images))

    def with_q_values(self, table: np.ndarray, samples: int) -> np.ndarray:
        """Pieces with q-values; all places of an image are sought at once."""
        table["q"] = q_values(table["score"], self.null[0], samples * self.rest)
        return table[np.lexsort((table["outlier"], table["sample"]))]

    def describe(self) -> str:
        side = np.exp(self.parts[0].center[SIDE]) * 2 / np.sqrt(np.pi)  # the diameter of the disc of the typical area
        return f"one kind of thing recurs, pieces apart on a plain background, about {side:.0f} pixels large"

    def threshold(self) -> tuple[str, str]:
        plane = "the mean of the channels" if self.channel < 0 else f"channel {self.channel}, counted from 0"
        gray = "an image" if self.channels == 1 else plane
        lines = f"x = filters.gaussian({gray}); measure.label(x {'<>'[self.bright]} filters.threshold_otsu(x))"
        return "with connected pieces", f"in scikit-image {lines}"

    def halves(self) -> str:
        return f"searches in two halves of the images agree on {self.steady:.0%} of what they list"

    judged = Search.judged

    def probabilities(self, images: ImageList, i: int) -> np.ndarray:
        plane, _ = self._read(images, i)
        each, found = pieces_of(plane), np.zeros(plane.shape)
        kept, score, _ = self.parts[0].choose(each)
        for left, top, right, bottom, p in np.column_stack([each.boxes, expit(score)])[kept]:
            found[int(top) : int(bottom), int(left) : int(right)] = p
        return found

    def part_from(self, arrays: dict[str, np.ndarray], **values: Any) -> Any:
        return Kind(**{each.name: arrays[each.name] for each in fields(Kind)})

    def _read(self, images: ImageList, i: int) -> tuple[np.ndarray, float]:
        """The plane of an image, and how many of its pixels one there stands for."""
        pixels = images.read(i, None)
        if not np.isfinite(pixels).all():
            raise InputError(f"image {i} has values that are missing (NaN) or infinite: leave it out")
        return self._plane(pixels)

    def _plane(self, pixels: np.ndarray) -> tuple[np.ndarray, float]:
        scaled, times = self._scaled(pixels), -(-max(pixels.shape[:2]) // LARGEST)
        if times > 1:
            height, width = (n - n % times for n in scaled.shape)
            blocks = scaled[:height, :width].reshape(height // times, times, width // times, times)
            scaled = blocks.mean((1, 3))
        return gaussian_filter(scaled if self.bright else 1 - scaled, 1), times

    def _scaled(self, pixels: np.ndarray) -> np.ndarray:
        """One plane of an image (h, w, C), from 0 to 1, the same at any depth."""
        plane = pixels.sum(2, dtype=np.float64) if self.channel < 0 else pixels[..., self.channel].astype(np.float64)
        return np.asarray((plane - plane.min()) / max(float(np.ptp(plane)), 1e-300))


def _enough(images: ImageList) -> int:
    """How many images say what the others are like: `CHECKED` of `MIDDLE` pixels on a side, of smaller ones more."""
    return int(np.clip(CHECKED * MIDDLE**2 // max(1, np.median(np.prod(images.shapes, 1))), CHECKED, FITTED))


def _middle(pixels: np.ndarray) -> np.ndarray:
    """The middle of an image (h, w, C), of at most `MIDDLE` pixels on each side."""
    top, left = (max(0, (n - MIDDLE) // 2) for n in pixels.shape[:2])
    return pixels[top : top + MIDDLE, left : left + MIDDLE]


def _tail(plane: np.ndarray) -> float:
    """How much farther the brightest is from the background than the darkest, in what both are."""
    mode, (low, high) = plain_range(plane)[0], np.percentile(plane, [0.1, 99.9])
    return float((high + low - 2 * mode) / max(high - low, 1e-300))


def _clear(pixels: np.ndarray) -> list[float]:
    """Of each channel, how far the brightest is above the background, in deviations of this."""
    ranges = [plain_range(gaussian_filter(pixels[..., c].astype(np.float64), 1)) for c in range(pixels.shape[2])]
    return [top / max(noise, 1e-3 * top, 1e-300) for _, noise, top in ranges]


def otsu_boxes(plane: np.ndarray) -> np.ndarray:
    """Boxes of the connected pieces above the threshold of Otsu (1979), (m, 4), as a baseline."""
    _, _, area, at, own = _large(plane > otsu_threshold(plane))
    return _boxes(at[own >= 0], own[own >= 0], len(area), plane.shape[1])


def _large(above: np.ndarray) -> tuple[np.ndarray, ...]:
    """Labels of the connected pieces above a level (h * w,), for each label the number of the piece (-1: smaller than
    `SMALLEST`), the areas by number (m,), the places of the pixels above the level, and the piece of each."""
    labels, at = label(above)[0].ravel(), np.flatnonzero(above)
    own = labels[at]
    area = np.bincount(own)
    large = area >= SMALLEST
    number = np.where(large, np.cumsum(large) - 1, -1)
    return labels, number, area[large].astype(float), at, number[own]


def _boxes(at: np.ndarray, own: np.ndarray, count: int, width: int) -> np.ndarray:
    """Boxes of pieces (count, 4), from the places of their pixels, in order, and the piece of each."""
    y, x = np.divmod(at, width)
    low, high = np.full((2, count), width), np.zeros((2, count), int)
    np.minimum.at(low[0], own, x)
    np.maximum.at(high[0], own, x)
    low[1, own[::-1]], high[1, own] = y[::-1], y
    return np.column_stack([*low, *(high + 1)]).astype(float)


def _alike(one: np.ndarray, other: np.ndarray) -> tuple[int, int, int]:
    """Numbers of boxes (m, 4) and (k, 4), and of those of the first that overlap with one of the others by half."""
    low = np.maximum(one[:, None, :2], other[None, :, :2])
    both = np.clip(np.minimum(one[:, None, 2:], other[None, :, 2:]) - low, 0, None).prod(2)
    area, others = ((b[:, 2:] - b[:, :2]).prod(1) for b in (one, other))
    overlap = both / (area[:, None] + others - both)
    return len(one), len(other), int((overlap.max(1, initial=0) >= 0.5).sum())
