"""Discovery in images: contrast of windows, then of cells, and the choice among several starts without labels.

1. Windows: the mean features of every k x k cells, reduced to whitened principal components.
2. Start: the windows farthest from the mean window of their own image.
3. Rounds: the best three windows of each image are chosen; their score is log p_P(z) / p_U(z), fitted on the chosen
   windows of the other folds of images (`viewsmith.methods.discovery.contrast`).
4. Boxes: cells inside the chosen boxes against cells outside; the new box is the rectangle in which 2 p - 1 sums to the
   most, where p is the posterior of a cell (`viewsmith.methods.discovery.contrast`).
5. Choice: of several k, solutions whose part would fill most of the image are background; of the others, the one whose
   posterior lies most completely in its boxes is taken, if the same search finds less in images with random phases.
   If none is left, nothing recurs.

Discovery in images of any sizes: dense features of reduced images, parts of several kinds, boxes in pixels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import expit
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.core.progress import with_progress
from viewsmith.methods.discovery.contrast import (
    Contrast,
    Whitening,
    best_boxes,
    choose_windows,
    folds,
    moments_by_fold,
    with_q_values,
)
from viewsmith.methods.discovery.map_cache import MapCache, key_of
from viewsmith.methods.discovery.network_maps import NetworkMaps
from viewsmith.modalities.images.patches import CELL, Patches, fit_patches, sizes_fitting

WINDOWS = (4, 5, 7, 9)  # sides of windows that are tried, in cells

BOX_ROUNDS = 2

BLOCK = 16  # images whose features are computed at once: more take more memory and no less time

OUTSIDE = -1e6  # of a cell that no box may contain

BACKGROUND = 0.4  # mean posterior above which a solution is background

# Least consistency of a part that recurs. Blood smears: .73 to .74 at four sides of windows; discs in noise, two in an
# image: .41 to .45. Textures of five spectra and overlapping discs, none of which have a part: at most .32.
CONSISTENT = 0.38

# By so much it has to exceed that of the same images with random phases. Blood smears: .45, discs: .3 to .5; textures
# of five spectra: at most .08.
ABOVE = 0.15


@dataclass(frozen=True, kw_only=True)
class Part:
    """What recurs in images, fitted: it scores the windows and the cells of any image.

    Attributes
    ----------
    window : int
        Side of the windows, in cells.
    windows, cells : (Whitening, Contrast)
        Of windows, and of cells.
    posterior, consistency : float
        Mean posterior of all cells, and the posterior inside the boxes over their area plus the posterior outside, from
        held-out folds: by these the part is chosen.
    objective : float
        E log p_P(z) / p_U(z) of the best window of each image, held out, in nats.
    nothing : float
        The consistency that the same windows have in images with random phases; NaN if it was not needed.
    """

    window: int
    windows: tuple[Whitening, Contrast]
    cells: tuple[Whitening, Contrast]
    posterior: float
    consistency: float
    objective: float
    nothing: float = float("nan")

    def window_scores(self, maps: np.ndarray) -> np.ndarray:
        """log p_P(z) / p_U(z) of every window, (n, h - k + 1, w - k + 1), for maps (n, h, w, d)."""
        whitening, contrast = self.windows
        z = whitening(window_means(maps, self.window))
        return contrast(z.reshape(-1, z.shape[-1])).reshape(z.shape[:3])

    def posteriors(self, maps: np.ndarray) -> np.ndarray:
        """Probability of every cell to lie in the part, (n, h, w)."""
        whitening, contrast = self.cells
        z = whitening(maps)
        return np.asarray(expit(contrast(z.reshape(-1, z.shape[-1])).reshape(z.shape[:3])))


def window_means(maps: np.ndarray, side: int) -> np.ndarray:
    """The mean features of every window of side x side cells, (n, h - side + 1, w - side + 1, d)."""
    n, height, width, d = maps.shape
    means = np.empty((n, height - side + 1, width - side + 1, d), np.float32)
    for start in range(0, n, BLOCK):  # the copies in other orders of axes would take twice the memory of all maps
        x = torch.from_numpy(np.ascontiguousarray(maps[start : start + BLOCK].transpose(0, 3, 1, 2)))
        means[start : start + BLOCK] = F.avg_pool2d(x, side, stride=1).permute(0, 2, 3, 1).numpy()
    return means


def discover(maps: np.ndarray, valid: np.ndarray, *, windows: Sequence[int] = WINDOWS, seed: int = 0) -> list[Part]:
    """Find what recurs in dense features: a solution for each side of windows, see `likely`."""
    fold = folds(len(maps), seed)
    return [_solution(maps, valid, side, fold) for side in windows]


def likely(tried: Sequence[Part]) -> list[Part]:
    """Solutions that are no background, those first whose posterior lies most completely in their boxes."""
    found = [part for part in tried if part.posterior <= BACKGROUND and part.consistency >= CONSISTENT]
    return sorted(found, key=lambda part: -part.consistency)


def random_phases(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """An image uint8 (h, w, C) with the same spectrum and random phases, the same ones in all channels.

    What recurs in such images is due to their spectra, as extremes of smooth noise are (Theiler et al. 1992).
    """
    phases = np.fft.fft2(rng.normal(size=image.shape[:2]))
    phases /= np.maximum(abs(phases), 1e-12)
    phases[0, 0] = 1
    drawn = np.fft.ifft2(np.fft.fft2(image.astype(np.float64), axes=(0, 1)) * phases[..., None], axes=(0, 1)).real
    return np.clip(np.round(drawn), 0, 255).astype(np.uint8)


def whole_windows(valid: np.ndarray, side: int) -> np.ndarray:
    """Windows all of whose cells are valid, bool (n, h - side + 1, w - side + 1)."""
    return np.asarray(window_means(valid[..., None].astype(np.float32), side)[..., 0] > 1 - 0.5 / side**2)


def _solution(maps: np.ndarray, valid: np.ndarray, side: int, fold: np.ndarray) -> Part:
    """The part that windows of one side lead to (steps 1 to 4)."""
    means, whole = window_means(maps, side), whole_windows(valid, side)
    n, _, columns, _ = means.shape
    whitening = Whitening.of(means[whole])
    z, whole = whitening(means).reshape(n, -1, len(whitening.axes.T)), whole.reshape(n, -1)
    score, contrast = choose_windows(z, whole, fold)
    top, left = np.divmod(score.argmax(1), columns)
    inside = inside_boxes(np.stack([top, left, top + side, left + side], 1), valid.shape[1:])
    cell_whitening = Whitening.of(maps[valid])
    cells = cell_whitening(maps)
    for _ in range(BOX_ROUNDS):
        posterior, of_cells = _cell_posteriors(cells, valid, inside, fold)
        inside = inside_boxes(best_boxes(np.where(valid, 2 * posterior - 1, OUTSIDE))[0], valid.shape[1:])
    held = np.where(valid, posterior, 0)
    consistency = (held * inside).sum((1, 2)) / (inside.sum((1, 2)) + (held * ~inside).sum((1, 2)))
    return Part(
        window=side,
        windows=(whitening, contrast),
        cells=(cell_whitening, of_cells),
        posterior=float(held.sum() / valid.sum()),
        consistency=float(consistency.mean()),
        objective=float(score.max(1).mean()),
    )


def inside_boxes(boxes: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Whether each cell lies in the box of its image, bool (n, h, w)."""
    row, column = np.arange(shape[0])[:, None], np.arange(shape[1])
    top, left, bottom, right = boxes.T[:, :, None, None]
    return (row >= top) & (row < bottom) & (column >= left) & (column < right)


def _cell_posteriors(
    cells: np.ndarray, valid: np.ndarray, inside: np.ndarray, fold: np.ndarray
) -> tuple[np.ndarray, Contrast]:
    """Held-out posteriors (n, h, w) of cells to lie inside, and the contrast fitted on all folds."""
    d = cells.shape[-1]
    ins, outs = moments_by_fold(cells, inside & valid, fold), moments_by_fold(cells, ~inside & valid, fold)
    total_in, total_out = sum(ins[1:], ins[0]), sum(outs[1:], outs[0])
    posterior = np.empty(valid.shape)
    for f, (own_in, own_out) in enumerate(zip(ins, outs, strict=True)):
        contrast = Contrast.of(total_in - own_in, total_out - own_out)
        posterior[fold == f] = expit(contrast(cells[fold == f].reshape(-1, d)).reshape(-1, *valid.shape[1:]))
    return posterior, Contrast.of(total_in, total_out)


NUMBERS = ("posterior", "consistency", "objective", "nothing")  # of a part

SURROGATES = 100  # images with random phases

FITTED = 600_000  # cells of the images that parts are fitted to; all others are only scored

#: One row for each part: number of the sample and kind, box in pixels (right and bottom outside), score and q-value.
PARTS = np.dtype(
    [
        *(("sample", np.int64), ("kind", np.int64)),
        *((side, np.int64) for side in ("left", "top", "right", "bottom")),
        *(("score", np.float64), ("q", np.float64)),
    ]
)


@dataclass(frozen=True)
class ImageList:
    """Images of any sizes, read one by one.

    Attributes
    ----------
    shapes : list of (int, int)
        Height and width of each image.
    read : callable
        Image i, uint8 (height, width, channels), reduced to a size (height, width) if that is given.
    channels : int
    contents : callable
        What tells these images from others, for the cache of their features.
    """

    shapes: list[tuple[int, int]]
    read: Callable[[int, tuple[int, int] | None], np.ndarray]
    channels: int
    contents: Callable[[], Iterable[bytes]] = tuple

    def __len__(self) -> int:
        return len(self.shapes)


def as_images(X: Any) -> ImageList:
    """Images as an array uint8 (n, H, W) or (n, H, W, 1 or 3), a list of such images of any sizes, or `ImageList`."""
    if isinstance(X, ImageList):
        return X
    expected = "expected uint8 images, (n, H, W) or (n, H, W, 1 or 3), or a list of images of any sizes"
    expected += " (recordings: modality='series')"
    images = list(X) if isinstance(X, list | tuple | np.ndarray) else []
    for i, image in enumerate(images):
        given = f"{getattr(image, 'dtype', type(image).__name__)} of shape {np.shape(image)}"
        plain = isinstance(image, np.ndarray) and image.dtype == np.uint8
        if not plain or not (image.ndim == 2 or (image.ndim == 3 and image.shape[2] in (1, 3))):
            raise InputError(f"sample {i} is {given}, {expected}")
    if not images:
        raise InputError(f"the data are of type {type(X).__name__} without images, {expected}")
    channels = max(image.shape[2] if image.ndim == 3 else 1 for image in images)

    def read(i: int, size: tuple[int, int] | None) -> np.ndarray:
        image = images[i] if images[i].ndim == 3 else images[i][..., None]
        image = np.broadcast_to(image, (*image.shape[:2], channels))
        return image if size is None else reduced(image, size)

    shapes = [image.shape[:2] for image in images]
    return ImageList(shapes, read, channels, lambda: (image.tobytes() for image in images))


def reduced(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """An image uint8 (H, W, C) in another size, each pixel the mean of those that it covers."""
    if image.shape[:2] == size:
        return image
    x = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float()  # a copy, for torch wants to write
    y = torch.nn.functional.interpolate(x, size=size, mode="bilinear", antialias=True, align_corners=False)
    return np.asarray(y[0].permute(1, 2, 0).round().clamp(0, 255).byte())


@dataclass
class ImageSearch:
    """Parts in images; see `viewsmith.Discovery` for the options.

    Attributes
    ----------
    parts : list of Part
        One for each kind that recurs.
    tried : list of list of Part
        For each kind, the solutions among which it was chosen.
    null : list of ndarray
        For each kind, the best score of each image apart from its boxes, sorted.
    """

    name: ClassVar[str] = "images"

    windows: Sequence[int] | None = None
    image_size: int = 128
    kinds: int = 1
    max_parts: int = 1
    features: Any = "patches"
    cache: str | None = None
    seed: int = 0
    parts: list[Part] = field(default_factory=list)
    tried: list[list[Part]] = field(default_factory=list)
    null: list[np.ndarray] = field(default_factory=list)
    channels: int = 0
    dense: Callable[[np.ndarray], Tensor] | None = None
    _cached: tuple[Any, MapCache | None] = (None, None)

    def fit(self, X: Any) -> None:
        """Find what recurs; raises InputError for samples or options that cannot be used."""
        images = as_images(X)
        cells = sizes_fitting(images.shapes, self.image_size, 1)
        smallest = min(min(size) for size in cells)
        tried = WINDOWS if self.windows is None else self.windows
        windows = [side for side in tried if 2 * side <= smallest]
        if len(images) < 4:
            raise InputError(f"{len(images)} images, expected at least 4: what recurs is seen across images")
        if not windows:
            side = CELL * 2 * min(tried)
            raise InputError(
                f"the smallest image has {smallest * CELL} pixels on its shorter side at image_size={self.image_size}, "
                f"expected at least {side}, twice the smallest window: give smaller windows, or enlarge the images"
            )
        rng = np.random.default_rng(self.seed)
        largest = max(height for height, _ in cells) * max(width for _, width in cells)
        rows = np.sort(rng.permutation(len(images))[: max(64, FITTED // largest)])
        maps, valid = self._features(images, rows, "features")
        least, most = (
            f((0, 1, 2), where=valid[..., None], initial=i) for f, i in ((maps.min, np.inf), (maps.max, -np.inf))
        )
        if float((most - least).max()) < 1e-5:
            raise InputError("all samples are equal, expected images that differ: there is nothing to contrast")
        free = valid.copy()
        for _ in range(self.kinds):
            solutions = discover(maps, free, windows=windows, seed=self.seed)
            self.tried.append(solutions)
            part = self._clear(solutions, images, rows)
            if part is None:
                break
            found = _boxes(part, maps, free, self.max_parts)
            self.null.append(_null(part, maps, free, found))
            self.parts.append(part)
            for boxes, _ in found:
                free &= ~inside_boxes(boxes, free.shape[1:])

    def _features(self, images: ImageList, rows: np.ndarray, source_name: str = "") -> tuple[np.ndarray, np.ndarray]:
        """Learn the features of images, if they are not given, and compute their maps; see `_maps`."""
        self.channels = images.channels
        if isinstance(self.features, NetworkMaps):
            self.dense = self.features.fitted(lambda: self._batches(images, rows))
        elif callable(self.features):
            self.dense = self.features
        else:
            self.dense = fit_patches(lambda: self._batches(images, rows), len(rows), self.seed)
        return self._maps(images, rows, source_name)

    def _solutions(self, images: ImageList) -> list[Part]:
        """A solution for each window."""
        maps, valid = self._features(images, np.arange(len(images)))
        return discover(maps, valid, windows=self.windows or WINDOWS, seed=self.seed)

    def _clear(self, solutions: list[Part], images: ImageList, rows: np.ndarray) -> Part | None:
        """The first likely solution that is clearly above what is found in images with random phases."""
        rng = np.random.default_rng(self.seed)
        some = rows[np.sort(rng.permutation(len(rows))[:SURROGATES])]

        @cache
        def read(i: int, size: tuple[int, int]) -> np.ndarray:
            return random_phases(images.read(int(some[i]), size), np.random.default_rng((self.seed, i)))

        drawn = ImageList([images.shapes[i] for i in some], read, images.channels)
        for part in likely(solutions):
            other = ImageSearch([part.window], self.image_size, features=self.features, seed=self.seed)
            compared = dataclasses.replace(part, nothing=other._solutions(drawn)[0].consistency)
            solutions[next(i for i, each in enumerate(solutions) if each is part)] = compared
            if compared.consistency >= compared.nothing + ABOVE:
                return compared
        return None

    def describe(self) -> str:
        """What was found, in one sentence."""
        best = max(self.tried[0], key=lambda part: (part.posterior <= BACKGROUND, part.consistency))
        numbers = (
            f"the posterior agrees with the boxes by {best.consistency:.2f} (1: entirely) and fills "
            f"{best.posterior:.0%} of the images"
        )
        if not self.parts:
            expected = f"at least {CONSISTENT} and at most {BACKGROUND:.0%}"
            if best.nothing == best.nothing:  # it was compared
                expected = f"{ABOVE} more than in images with random phases, {best.nothing:.2f}"
            return f"of the best candidate, {numbers}; expected {expected}"
        kinds = "one kind of part recurs" if len(self.parts) == 1 else f"{len(self.parts)} kinds of parts recur"
        return f"{kinds}; of the first, {numbers} (windows of {CELL * best.window} pixels)"

    def crops(self, X: Any, found: np.ndarray, size: int) -> np.ndarray:
        """Squares around parts, uint8 (m, size, size, channels)."""
        images = as_images(X)
        cut = np.zeros((len(found), size, size, images.channels), np.uint8)
        for crop, part in zip(cut, found, strict=True):
            crop[:] = reduced(square(images.read(int(part["sample"]), None), part), (size, size))
        return cut

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Plain values and tensors of what was fitted; raises InputError for own features."""
        if not isinstance(self.dense, Patches | NetworkMaps):
            raise InputError("features is a function, which cannot be saved: expected 'patches' or a network by name")
        fitted = {"channels": self.channels, "windows": [part.window for part in self.parts]}
        fitted |= {name: [getattr(p, name) for p in self.parts] for name in NUMBERS}
        state = vars(self.dense) if isinstance(self.dense, Patches) else self.dense.state()
        tensors = {f"features.{name}": value for name, value in state.items()}
        for i, (part, null) in enumerate(zip(self.parts, self.null, strict=True)):
            tensors[f"{i}.null"] = torch.from_numpy(null)
            for name, value in _arrays(part).items():
                tensors[f"{i}.{name}"] = torch.from_numpy(np.ascontiguousarray(value))
        return fitted, tensors

    def restore(self, fitted: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Take what `state` gave."""
        self.channels = int(fitted["channels"])
        state = {name[9:]: value for name, value in tensors.items() if name.startswith("features.")}
        given = isinstance(self.features, NetworkMaps)
        self.dense = dataclasses.replace(self.features, **state) if given else Patches(**state)
        self.parts = [_part(tensors, fitted, i) for i in range(len(fitted["windows"]))]
        self.null = [tensors[f"{i}.null"].numpy() for i in range(len(self.parts))]
        self.tried = [[part] for part in self.parts]

    def _batches(self, images: ImageList, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Reduced images in batches of one size, uint8 (b, h, w, channels)."""
        for at, size in self._sized(images, rows):
            yield _batch(images, rows[at], size)

    def _sized(self, images: ImageList, rows: np.ndarray) -> Iterator[tuple[np.ndarray, tuple[int, int]]]:
        """Positions in `rows`, and the size to which the images there are reduced, by size and block."""
        stride = getattr(self.dense or self.features, "stride", CELL)
        sizes = np.array(sizes_fitting([images.shapes[i] for i in rows], self.image_size, stride))
        for size in np.unique(sizes, axis=0):
            same = np.flatnonzero((sizes == size).all(1))
            for start in range(0, len(same), BLOCK):
                yield same[start : start + BLOCK], (int(size[0]), int(size[1]))

    def _cache(self, images: ImageList) -> MapCache | None:
        """Where the features of these images are kept; None without `cache`, or for an own function."""
        if self.cache is None or not isinstance(self.dense, Patches | NetworkMaps):
            return None
        if images is not self._cached[0]:
            state = vars(self.dense) if isinstance(self.dense, Patches) else self.dense.state() | self.dense.weights()
            key = key_of(
                [*images.contents(), str(self.image_size).encode(), *(t.numpy().tobytes() for t in state.values())]
            )
            cells = sizes_fitting(images.shapes, self.image_size, 1)
            size = max(height for height, _ in cells), max(width for _, width in cells)
            self._cached = images, MapCache(Path(self.cache), key, len(images), size)
        return self._cached[1]

    def _maps(self, images: ImageList, rows: np.ndarray, source_name: str = "") -> tuple[np.ndarray, np.ndarray]:
        """Dense features (n, h, w, d) of images, padded to the largest, and which cells are of an image."""
        parts = []
        blocks, cache = self._sized(images, rows), self._cache(images)
        stride = getattr(self.dense, "stride", CELL)
        for at, size in with_progress(blocks, source_name, len(rows), "images", size=lambda item: len(item[0])):
            cells = size[0] // stride, size[1] // stride
            own = None if cache is None else cache.read(rows[at], *cells)
            if own is None:
                assert self.dense is not None
                maps = self.dense(_batch(images, rows[at], size))
                if not isinstance(maps, Tensor) or maps.ndim != 4 or len(maps) != len(at):
                    given = tuple(getattr(maps, "shape", ())) or type(maps).__name__
                    raise InputError(f"the features give {given} for {len(at)} images, expected maps (n, d, h, w)")
                own = maps.detach().permute(0, 2, 3, 1).float().numpy()
                if cache is not None and own.shape[1:3] == cells:
                    cache.write(rows[at], own)
            parts.append((at, own))
        height, width = (max(own.shape[axis] for _, own in parts) for axis in (1, 2))
        padded = np.zeros((len(rows), height, width, parts[0][1].shape[3]), np.float32)
        valid = np.zeros((len(rows), height, width), bool)
        while parts:
            at, own = parts.pop()
            padded[at, : own.shape[1], : own.shape[2]] = own
            valid[at, : own.shape[1], : own.shape[2]] = True
        return padded, valid

    def candidates(self, X: Any) -> np.ndarray:
        """The best boxes of every kind in every image, with their q-values among all images."""
        images = as_images(X)
        if images.channels != self.channels:
            raise InputError(f"images with {images.channels} channels, but the model was fitted on {self.channels}")
        found: list[tuple[Any, ...]] = []
        starts = range(0, len(images), BLOCK) if self.parts else range(0)
        for start in with_progress(starts, "boxes", len(images), "images", size=lambda _: BLOCK):
            rows = np.arange(start, min(start + BLOCK, len(images)))
            maps, valid = self._maps(images, rows)
            free = valid.copy()
            for kind, part in enumerate(self.parts):
                for boxes, scores in _boxes(part, maps, free, self.max_parts):
                    free &= ~inside_boxes(boxes, free.shape[1:])
                    for i in np.flatnonzero(np.isfinite(scores)):
                        shape = images.shapes[rows[i]]
                        box = _in_pixels(boxes[i], valid[i], shape)
                        found.append((rows[i], kind, *box, scores[i], 1.0))
        return with_q_values(np.array(found, PARTS), self.null)


def _batch(images: ImageList, rows: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Images reduced to a size, uint8 (b, height, width, channels)."""
    return np.stack([images.read(int(i), size) for i in rows])


def _boxes(part: Part, maps: np.ndarray, free: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Up to `count` boxes of a part in each image, in cells, and their scores; empty and -inf if there is no other."""
    weights = np.where(free, 2 * part.posteriors(maps) - 1, OUTSIDE)
    k = part.window
    scores = np.where(whole_windows(free, k), part.window_scores(maps), -np.inf)
    found = []
    for _ in range(count):
        boxes, sums = best_boxes(weights)
        # Windows whose middle is inside the box; of a box at the border, the next ones.
        first, last = k // 2, k // 2 + np.array(scores.shape[1:])
        near = np.concatenate([np.minimum(boxes[:, :2], last - 1), np.maximum(boxes[:, 2:], first + 1)], 1)
        centers = inside_boxes(near, free.shape[1:])[:, first : last[0], first : last[1]]
        best = np.where(centers, scores, -np.inf).reshape(len(maps), -1).max(1)
        found.append((np.where((sums > 0)[:, None], boxes, 0), np.where(sums > 0, best, -np.inf)))
        weights = np.where(inside_boxes(boxes, free.shape[1:]), OUTSIDE, weights)
    return found


def _null(part: Part, maps: np.ndarray, free: np.ndarray, found: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The best score of each image apart from its boxes, float64: how good a window is that is no part."""
    whole, k = whole_windows(free, part.window), part.window
    for boxes, _ in found:
        free = free & ~inside_boxes(boxes, free.shape[1:])
    apart = whole_windows(free, k)
    if not apart.any():  # windows do not fit beside the boxes: those with their center there
        height, width = whole.shape[1:]
        apart = whole & free[:, k // 2 : k // 2 + height, k // 2 : k // 2 + width]
    best = np.where(apart, part.window_scores(maps), -np.inf).reshape(len(maps), -1).max(1)
    return np.sort(best[np.isfinite(best)])


def _in_pixels(box: np.ndarray, valid: np.ndarray, shape: tuple[int, int]) -> tuple[int, int, int, int]:
    """A box in cells (top, left, bottom, right) as left, top, right, bottom in the pixels of the image."""
    down, across = shape[0] / valid[:, 0].sum(), shape[1] / valid[0].sum()
    top, left, bottom, right = (round(v * s) for v, s in zip(box, (down, across) * 2, strict=True))
    return left, top, min(right, shape[1]), min(bottom, shape[0])


def square(image: np.ndarray, part: Any) -> np.ndarray:
    """The square around a box, uint8; inside the image as far as possible."""
    height, width = image.shape[:2]
    side = min(max(part["right"] - part["left"], part["bottom"] - part["top"]), height, width)
    left = int(np.clip((part["left"] + part["right"] - side) // 2, 0, width - side))
    top = int(np.clip((part["top"] + part["bottom"] - side) // 2, 0, height - side))
    return image[top : top + side, left : left + side]


def _arrays(part: Part) -> dict[str, np.ndarray]:
    """The arrays of a part by name."""
    pairs = {"windows": part.windows, "cells": part.cells}
    both = {name: whitening.arrays() | contrast.arrays() for name, (whitening, contrast) in pairs.items()}
    return {f"{name}.{rest}": value for name, arrays in both.items() for rest, value in arrays.items()}


def _part(tensors: Mapping[str, Tensor], fitted: Mapping[str, Any], i: int) -> Part:
    """The part with number i of a saved model."""

    def of(name: str) -> tuple[Whitening, Contrast]:
        start = f"{i}.{name}."
        own = {rest.removeprefix(start): t.numpy() for rest, t in tensors.items() if rest.startswith(start)}
        return Whitening(own["mean"], own["axes"]), Contrast.from_arrays(own)

    numbers = {name: float(fitted[name][i]) for name in NUMBERS}
    return Part(window=int(fitted["windows"][i]), windows=of("windows"), cells=of("cells"), **numbers)
