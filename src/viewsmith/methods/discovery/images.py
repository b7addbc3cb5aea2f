"""Discovery in images of any sizes: dense features of reduced images, parts of several kinds, boxes in pixels."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from viewsmith.core.errors import InputError, name_list, pluralize
from viewsmith.core.progress import TOLD, with_progress
from viewsmith.data.any_size import ImageList, as_images, reduced
from viewsmith.methods.discovery import image_parts
from viewsmith.methods.discovery.acceptance import Evidence
from viewsmith.methods.discovery.contrast import Features, Search, below, columns, from_arrays, here, there, under
from viewsmith.methods.discovery.network_maps import MapCache, NetworkMaps, key_of
from viewsmith.modalities.images.channels import check_photographs, is_photograph
from viewsmith.modalities.images.features import CELL, SAMPLED, Patches, fit_patches, sizes_fitting, unit_of


def random_phases(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """An image (h, w, C) with the same spectrum and random phases: what recurs in such is due to spectra (Theiler
    et al. 1992)."""
    phases = np.fft.fft2(rng.normal(size=image.shape[:2]))
    phases /= np.maximum(abs(phases), 1e-12)
    phases[0, 0] = 1
    drawn = np.fft.ifft2(np.fft.fft2(image.astype(np.float64), axes=(0, 1)) * phases[..., None], axes=(0, 1)).real
    if image.dtype.kind == "f":
        return drawn.clip(image.min(), image.max()).astype(image.dtype)
    # In the range of its bits, so that the same pixels at another depth have the same random phases.
    bits = max(8, int(image.max()).bit_length())
    return np.clip(np.round(drawn), 0, 2**bits - 1).astype(image.dtype)


SURROGATES, MORE, NULL = 100, 300, 200  # images with random phases: for boxes, for windows without, for q-values
ONE_EACH = 0.5  # of the images may have a second box, if what is there is no part
RANGED = 64  # images of which the range of the channels is found
FILLED = 3  # of the smallest windows, in squares of which a kind is sought that fills the images
CPU = torch.device("cpu")
FITTED = 600_000  # cells of the images that parts are fitted to; all others are only scored

#: The box of a part in pixels, right and bottom outside.
PARTS = columns(left=np.int64, top=np.int64, right=np.int64, bottom=np.int64)


@dataclass(frozen=True)
class Rest:
    """Images of which cells (n, h, w) are free of the kinds that were found before."""

    images: ImageList
    rows: np.ndarray
    valid: np.ndarray
    free: np.ndarray
    seed: int

    def drawn(self, count: int) -> ImageList:
        """Some of the images with random phases; kinds before are filled with the mean of the other pixels."""
        at = np.sort(np.random.default_rng(self.seed).permutation(len(self.rows))[:count])
        some = self.rows[at]

        @cache
        def read(i: int, size: tuple[int, int]) -> np.ndarray:
            image = self.images.read(int(some[i]), size)
            valid = self.valid[at[i]]
            free = self.free[at[i]][: valid[:, 0].sum(), : valid[0].sum()]
            if free.any() and not free.all():
                row, column = (np.arange(size[axis]) * free.shape[axis] // size[axis] for axis in (0, 1))
                pixels = free[row[:, None], column]
                filled = image[pixels].mean(0)
                filled = filled if image.dtype.kind == "f" else filled.round()
                image = np.where(pixels[..., None], image, filled).astype(image.dtype)
            return random_phases(image, np.random.default_rng((self.seed, i)))

        shapes = [self.images.shapes[i] for i in some]
        return ImageList(shapes, read, self.images.channels, dtype=self.images.dtype)


@dataclass(kw_only=True)
class ImageSearch(Search):
    """Parts in images."""

    name: ClassVar[str] = "images"
    samples_name: ClassVar[str] = "images"
    saved = (*Search.saved, "channels", "dtype")
    saved_of_parts = ("window", "posterior", "consistency", "objective", "boxed", "count", "border")
    image_size: int = 128
    features: Any = "patches"
    cache: str | None = None
    device: torch.device = CPU  # where features are computed, and their products
    channels: int = 0
    dtype: str = ""
    dense: Callable[[np.ndarray], Tensor] | None = None
    reduction: int = 1  # of patches
    _cached: tuple[Any, MapCache | None] = (None, None)

    def fit(self, X: Any) -> None:
        """Find what recurs; raises InputError for samples or options that cannot be used."""
        images = as_images(X)
        windows, rng = self._checked_windows(images), np.random.default_rng(self.seed)
        largest = math.prod(map(max, zip(*sizes_fitting(images.shapes, self.image_size, 1), strict=True)))
        rows = images.order[rng.permutation(len(images))[: max(64, FITTED // largest)]]
        maps, valid = self._features(images, rows, "features")
        if (side := 2 * min(windows)) > min(maps.shape[1:3]):  # of an own function, whose cells may be larger
            raise InputError(
                f"the features have maps of {maps.shape[1]} x {maps.shape[2]} cells, expected at least {side} on "
                "each side, twice the smallest window"
            )
        windows = [side for side in windows if 2 * side <= min(maps.shape[1:3])]
        if max(here(abs(maps[some] - maps[:1])).max() for some in image_parts.blocks_of(maps)) < 1e-5:
            raise InputError("all samples are equal, expected images that differ: there is nothing to contrast")
        free = valid.copy()
        for _ in range(self.kinds):
            rest = Rest(images, rows, valid, free, self.seed)
            solutions = image_parts.discover(maps, free, windows=windows, seed=self.seed)
            if not solutions:
                break
            self.tried.append(solutions)
            part = self._clear(solutions, rest)
            if part is None or part.consistency < image_parts.ENTIRELY:
                windows_only, maps = self._outstanding(solutions, rest, maps)
                part = windows_only or part
            if part is None:
                part, null = self._further(rest, maps, sorted(each.window for each in solutions))
                found = [] if part is None else image_parts.boxes_of(part, maps, free, self._places(part))
            elif part.boxed:
                part = image_parts.with_typical_size(part, image_parts.likely(solutions), maps, free, self.seed)
                # What these images have beside their best box is no part, unless most of them have something there.
                found = image_parts.boxes_of(part, maps, free, self.max_parts + 1)
                apart = found[1:]
                if np.isfinite(apart[0][1]).mean() > ONE_EACH:
                    apart = image_parts.boxes_of(part, *self._maps(rest.drawn(NULL)), self.max_parts)
                null = np.stack([scores for _, scores in apart], 1)
            else:
                found = image_parts.boxes_of(part, maps, free, self.max_parts)
                null = image_parts.null_scores(part, maps, free, found[:1], self.max_parts)
            if part is None or null is None:
                break
            found = found[: self._places(part)]
            self.keep(part, null, found[0][1], part.features(maps, free, found[0][0]))
            if len(self.parts) == 1 and part.count == 1:
                self.steady = image_parts.agreement_of_halves(part, maps, free, self.seed)
            free = image_parts.without(free, found, part, null)

    def _checked_windows(self, images: ImageList) -> list[int]:
        """Sides of windows, in cells, that fit twice into the smallest image."""
        cells = sizes_fitting(images.shapes, self.image_size, 1)
        smallest, at = min((min(size), i) for i, size in enumerate(cells))
        tried = image_parts.WINDOWS if self.windows is None else self.windows
        windows = [side for side in tried if 2 * side <= smallest]
        if len(images) < 4:
            shortest = min(map(min, images.shapes))
            side = int(np.clip(shortest // 4, CELL * 2 * min(tried), 256))
            tiles = f"cut large ones into tiles, from image files: load_dataset(FILE, tile={side}).x (--tile {side})"
            raise InputError(
                f"{pluralize(len(images), 'image')}, expected at least 4, or things apart on a plain background: what "
                f"recurs is seen across images; {tiles if side < shortest else 'give more'}"
            )
        if not windows:
            side = CELL * 2 * min(tried)
            name = f" ({images.names[at]})" if images.names else ""
            fits = f" (--windows {smallest // 2})" if smallest >= 4 else ""
            raise InputError(
                f"the smallest image{name} has {smallest * CELL} pixels on its shorter side at "
                f"image_size={self.image_size}, expected at least {side}, twice the smallest window: give smaller "
                f"windows{fits}, or larger images; of a scene larger tiles (--tile {max(64, side)})"
            )
        return windows

    def _places(self, part: image_parts.Part) -> int:
        """Places of a part in an image that may be no other kind's."""
        return max(self.max_parts, part.count)

    def _further(
        self, rest: Rest, maps: Features, windows: list[int]
    ) -> tuple[image_parts.Part | None, np.ndarray | None]:
        """A small kind, or one that fills what is left of the images, and scores of what is none. After a small
        kind the other is sought first, because whatever is rare in the images stands out from random phases. The
        first kind may fill the images if several parts in each are asked for."""
        if not self.parts:
            return self._filling(rest, maps, windows) if self.max_parts > 1 else (None, None)
        searches = [self._small, self._filling]
        for search in searches if self.parts[-1].boxed else reversed(searches):
            part, null = search(rest, maps, windows)
            if part is not None:
                return part, null
        return None, None

    def _small(
        self, rest: Rest, maps: Features, windows: list[int]
    ) -> tuple[image_parts.Part | None, np.ndarray | None]:
        """The small kind that stands out most from images with random phases."""
        other, _ = self._maps(rest.drawn(NULL))
        sides = [side for side in image_parts.SMALL if side < windows[0]]
        tried = [image_parts.small(maps, rest.free, side, self.seed, other, self.max_parts) for side in sides]
        clear = [found for found in tried if found[0].evidence.recurs(len(tried))]
        return max(clear, key=lambda found: found[0].evidence.gain, default=(None, None))

    def _filling(
        self, rest: Rest, maps: Features, windows: list[int]
    ) -> tuple[image_parts.Part | None, np.ndarray | None]:
        """The kind of the squares that agree best with their cells, if more than in images with random phases."""
        tried = [image_parts.filling(maps, rest.free, side, self.seed) for side in windows[:FILLED]]
        part = max(tried, key=lambda part: part.consistency)
        other, whole = self._fresh([part.window], self.reduction)._features(rest.drawn(NULL))
        nothing = image_parts.filling(other, whole, part.window, self.seed)
        if not image_parts.fills(part, nothing):
            return None, None
        found = image_parts.boxes_of(part, maps, rest.free, self._places(part))
        return part, image_parts.null_scores(part, maps, rest.free, found, self.max_parts)

    def _features(
        self, images: ImageList, rows: np.ndarray | None = None, source_name: str = ""
    ) -> tuple[Features, np.ndarray]:
        """Learn the features of images, if they are not given, and compute their maps; see `_maps`."""
        self.channels, self.dtype = images.channels, images.dtype
        given, rows = rows, np.arange(len(images)) if rows is None else rows
        pixels = np.prod(sizes_fitting([images.shapes[i] for i in rows], self.image_size), 1).mean()
        some = rows[: int(np.ceil(SAMPLED * CELL**2 / pixels))]
        if isinstance(self.features, NetworkMaps):
            todo = "use those of patches (features='patches')"
            check_photographs("features of a network are", images.channels, images.dtype, todo)
            sizes = sizes_fitting(images.shapes, self.image_size, self.features.stride)
            if self.device.type == "cpu":
                self.features.check(max(sizes, key=math.prod), self.image_size)
            self.dense = self.features.to(self.device).fitted(self._batches(images, some))
        elif callable(self.features):
            self.dense = self.features
        else:
            plain, unit = is_photograph((images.channels,), images.dtype), None
            if not plain:
                unit = unit_of(self._finite(images, rows)).to(self.device)
            batches = self._batches(images, rows), self._batches(images, some)
            self.dense = fit_patches(*batches, len(rows), self.seed, self.device, self.reduction, unit)
        return self._maps(images, given, source_name)

    def _finite(self, images: ImageList, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Some of the reduced images in batches, whose values are checked."""
        for batch in self._batches(images, rows[:: max(1, len(rows) // RANGED)]):
            if not np.isfinite(batch).all():
                raise InputError("some images have values that are missing (NaN) or infinite: leave them out")
            yield batch

    def _solutions(self, images: ImageList) -> list[image_parts.Part]:
        """A solution for each window."""
        maps, valid = self._features(images)
        return image_parts.discover(maps, valid, windows=self.windows or image_parts.WINDOWS, seed=self.seed)

    def _clear(self, solutions: list[image_parts.Part], rest: Rest) -> image_parts.Part | None:
        """The first likely solution whose boxes recur."""
        for part in image_parts.likely(solutions):
            (nothing,) = self._fresh([part.window], self.reduction)._solutions(rest.drawn(SURROGATES))
            evidence = Evidence.of_places(part.shares, nothing.shares)
            compared = dataclasses.replace(part, evidence=evidence)
            solutions[next(i for i, each in enumerate(solutions) if each is part)] = compared
            if evidence.recurs(len(solutions)):
                return compared
        return None

    def _fresh(self, windows: list[int], reduction: int) -> "ImageSearch":
        """A search of its own, which learns its own features, with the same options."""
        options = {"image_size": self.image_size, "features": self.features, "device": self.device, "seed": self.seed}
        return ImageSearch(windows=windows, reduction=reduction, **options)

    def _outstanding(
        self, solutions: list[image_parts.Part], rest: Rest, maps: Features
    ) -> tuple[image_parts.Part | None, Features]:
        """The windows that stand out most, if they recur, and their maps; for the first kind also of patches of twice
        the size."""
        windows, drawn = [part.window for part in solutions], rest.drawn(MORE)
        others, twice = self._fresh(windows, self.reduction)._solutions(drawn), None
        if not self.parts and isinstance(self.dense, Patches):
            twice = dataclasses.replace(self._fresh(windows, 2), cache=self.cache)
            others += self._fresh(windows, 2)._solutions(drawn)
            coarse, valid = twice._features(rest.images, rest.rows, "larger patches")
            solutions += image_parts.discover(coarse, valid, windows=windows, seed=self.seed)
        compared = [image_parts.as_windows(*pair) for pair in zip(solutions, others, strict=True)]
        kept = [part for part in compared if part.evidence.recurs(len(compared))]
        part = min(kept, key=lambda part: part.left, default=None)
        if part is None:
            pairs = zip(solutions, compared, strict=True)
            solutions[:] = [one if one.evidence.of_odds else other for one, other in pairs]
            return None, maps
        at = next(i for i, each in enumerate(compared) if each is part)
        solutions[at] = part
        if twice is not None and at >= len(windows):
            self.dense, self.reduction, self._cached, maps = twice.dense, 2, (None, None), coarse
        return part, maps

    def halves(self) -> str:
        """How far searches in two halves agree."""
        return f"searches in two halves of them agree on the place in {self.steady:.0%}"

    def describe(self) -> str:
        if self.parts:
            return "; ".join(self._of_kind(part, number) for number, part in enumerate(self.parts))
        best = max(self.tried[0], key=lambda part: (part.posterior <= image_parts.BACKGROUND, part.evidence.gain))
        if best.posterior > image_parts.BACKGROUND:
            why = f"it fills {best.posterior:.0%} of the images, expected at most {image_parts.BACKGROUND:.0%}"
        else:
            why = f"it {best.evidence.why(len(self.tried[0]))}"
        several = "; for images full of one kind of thing, give max_parts=12" if self.max_parts == 1 else ""
        return f"the best candidate is not one thing in each image: {why}{several}"

    def _of_kind(self, part: image_parts.Part, number: int) -> str:
        """What a kind is, and its size in the reduced images."""
        if part.count > 1:
            what = "one kind of thing fills the images"
        elif part.border:
            what = "one kind of small thing stands out"
        else:
            what = "one kind of thing recurs" if number == 0 else "another kind recurs"
        cells = part.size.mean() if part.size is not None else part.window + 2 * part.border
        given = "" if part.boxed else ", the size of the windows"
        return f"{what}, about {CELL * cells:.0f} pixels large in images of {self.image_size}{given}"

    def judged(self, kind: int) -> bool:
        """Whether it is a kind of boxes, or of windows that stand out. Random phases have nothing that is rare and
        small, and what is beside the places of a kind that fills the images may be one of its own."""
        part = self.parts[kind]
        return not part.border and part.count == 1

    def extent(self, found: np.ndarray) -> str:
        """The typical size of the parts of one kind."""
        sides = (found["right"] - found["left"] + found["bottom"] - found["top"]) / 2
        return f"a thing of about {np.median(sides):.0f} pixels"

    def crops(self, X: Any, found: np.ndarray, size: int) -> np.ndarray:
        """Squares around parts, (m, size, size, channels), in the type of the images."""
        images = as_images(X)
        cut = np.zeros((len(found), size, size, images.channels), images.dtype)
        read = lru_cache(1)(lambda i: images.read(i, None))  # parts of an image come together
        for crop, part in zip(cut, found, strict=True):
            crop[:] = reduced(square(read(int(part["sample"])), part), (size, size))
        return cut

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        fitted, tensors = super().state()
        dense: Any = self.dense
        return fitted, tensors | ({} if dense is None else under("features", dense.state()))  # None: of pieces

    def restore(self, fitted: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        super().restore(fitted, tensors)
        if state := below("features", tensors):
            given = isinstance(self.features, NetworkMaps)
            dense: Any = dataclasses.replace(self.features, **state) if given else Patches(**state)
            self.dense = dense.to(self.device)

    def part_from(self, arrays: dict[str, np.ndarray], **values: Any) -> image_parts.Part:
        windows, cells = (from_arrays(below(which, arrays)) for which in ("windows", "cells"))
        return image_parts.Part(windows=windows, cells=cells, size=arrays.get("size"), **values)

    @property
    def _largest(self) -> int:
        """The side of the largest window of a kind, in cells."""
        return max((getattr(part, "window", 1) for part in self.parts), default=1)

    @property
    def _block(self) -> int:
        """Images whose features are computed at once."""
        return image_parts.BLOCK if self.device.type == "cpu" else 8 * image_parts.BLOCK

    def _batches(self, images: ImageList, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Reduced images in batches of one size, (b, h, w, channels)."""
        for at, size in self._sized(images, rows):
            yield np.stack([images.read(int(i), size) for i in rows[at]])

    def _sized(self, images: ImageList, rows: np.ndarray) -> Iterator[tuple[np.ndarray, tuple[int, int]]]:
        """Positions in `rows`, and the size to which the images there are reduced, by size and block."""
        dense = self.dense or self.features
        sizes = np.array(
            sizes_fitting([images.shapes[i] for i in rows], self.image_size, getattr(dense, "stride", CELL))
        )
        for size in np.unique(sizes, axis=0):
            same, (height, width) = np.flatnonzero((sizes == size).all(1)), (int(size[0]), int(size[1]))
            most = dense.most((height, width), self._block) if isinstance(dense, NetworkMaps) else self._block
            for start in range(0, len(same), most):
                yield same[start : start + most], (height, width)

    def _cache(self, images: ImageList) -> MapCache | None:
        """Where the features of these images are kept; None without `cache`, for images that were made, or for an own
        function."""
        if self.cache is None or images.contents is tuple or not isinstance(self.dense, Patches | NetworkMaps):
            return None
        if images is not self._cached[0]:
            state = self.dense.state() | ({} if isinstance(self.dense, Patches) else self.dense.weights())
            key = key_of(
                [*images.contents(), str(self.image_size).encode(), *(t.numpy().tobytes() for t in state.values())]
            )
            height, width = map(max, zip(*sizes_fitting(images.shapes, self.image_size, 1), strict=True))
            self._cached = images, MapCache(Path(self.cache), key, len(images), (height, width))
        return self._cached[1]

    def _maps(
        self, images: ImageList, rows: np.ndarray | None = None, source_name: str = "", kept: bool = True
    ) -> tuple[Features, np.ndarray]:
        """Dense features (n, h, w, d) of images, by default of all of some with random phases, padded to the largest,
        and which cells are of an image; they are `kept` in the cache for later."""
        rows, source_name = (np.arange(len(images)), "random phases") if rows is None else (rows, source_name)
        blocks, cache = list(self._sized(images, rows)), self._cache(images)
        stride = getattr(self.dense, "stride", CELL)
        least = self._largest  # smaller images have no part
        largest = [max(least, *(size[axis] // stride for _, size in blocks)) for axis in (0, 1)]
        padded, valid = torch.zeros(0), np.zeros((len(rows), *largest), bool)
        for at, size in with_progress(
            blocks, source_name, len(rows), "images", size=lambda item: len(item[0]), told=TOLD
        ):
            cells = size[0] // stride, size[1] // stride
            own: Any = None if cache is None else cache.read(rows[at], *cells)
            if own is None:
                assert self.dense is not None
                maps = self.dense(np.stack([images.read(int(i), size) for i in rows[at]]))
                if not isinstance(maps, Tensor) or maps.ndim != 4 or len(maps) != len(at):
                    given = tuple(getattr(maps, "shape", ())) or type(maps).__name__
                    raise InputError(f"the features give {given} for {len(at)} images, expected maps (n, d, h, w)")
                if not (maps.sum().isfinite() or maps.isfinite().all()):  # the sum is quicker, and may overflow
                    numbers = name_list(rows[at].tolist())
                    raise InputError(f"the features of images {numbers} have NaN or infinite values")
                own = maps.detach().permute(0, 2, 3, 1).float().to(self.device)
                if kept and cache is not None and own.shape[1:3] == cells:
                    cache.write(rows[at], here(own))
            _, height, width, d = own.shape
            if not len(padded):  # before all are there, so that they are in memory once
                padded = torch.zeros(*valid.shape, d, device=self.device)
            if (below := max(0, height - valid.shape[1])) | (beside := max(0, width - valid.shape[2])):
                padded = F.pad(padded, (0, 0, 0, beside, 0, below))  # of an own function, which has larger maps
                valid = np.pad(valid, ((0, 0), (0, below), (0, beside)))
            padded[there(at, padded), :height, :width] = torch.as_tensor(own, device=self.device)
            valid[at, :height, :width] = True
        height, width = (max(least, int(valid.any((0, axis)).sum())) for axis in (2, 1))
        padded, valid = padded[:, :height, :width].contiguous(), valid[:, :height, :width]
        return here(padded) if self.device.type == "cpu" else padded, valid

    def checked(self, X: Any) -> ImageList:
        """Images like those that it was fitted on."""
        images = as_images(X)
        read = images.read
        if (images.channels, self.channels) == (1, 3):  # gray ones among those in color
            images = dataclasses.replace(images, channels=3, read=lambda i, size: np.repeat(read(i, size), 3, 2))
        if (images.channels, self.channels) == (3, 1):
            names = images.names or list(map(str, range(len(images))))
            every = ((name, read(i, None)) for i, name in enumerate(names))
            if colored := [name for name, x in every if (x[..., 1:] != x[..., :1]).any()]:
                raise InputError(
                    f"{pluralize(len(colored), 'image')} of {len(images):,} in color, and the model was fitted on gray "
                    f"ones: {name_list(colored, 20)}; leave them out, or save them as gray"
                )
            images = dataclasses.replace(images, channels=1, read=lambda i, size: read(i, size)[..., :1])
        if images.channels != self.channels:
            raise InputError(f"images with {images.channels} channels, but the model was fitted on {self.channels}")
        if images.dtype != self.dtype:
            raise InputError(f"images are {images.dtype}, but the model was fitted on {self.dtype}: give one depth")
        if (side := getattr(self.dense, "stride", CELL) * self._largest) > max(map(min, images.shapes)):
            raise InputError(
                f"the largest image has {' x '.join(map(str, max(images.shapes, key=min)))} pixels, expected at least "
                f"{side} on each side, a window (one image alone: X[None])"
            )
        return images

    def probabilities(self, images: ImageList, i: int) -> np.ndarray:
        """The probability of every cell of an image to lie in a part of any kind, (h, w)."""
        maps, valid = self._maps(images, np.array([i]))
        p = np.max([part.posteriors(maps)[0] for part in self.parts], axis=0)
        return np.asarray(p[valid[0].any(1)][:, valid[0].any(0)])

    def candidates(self, X: Any) -> np.ndarray:
        """The best boxes of every kind in every image, with their q-values among all images."""
        images = self.checked(X)
        found: list[tuple[Any, ...]] = []
        starts = range(0, len(images), self._block) if self.parts else range(0)
        blocks = [np.arange(start, min(start + self._block, len(images))) for start in starts]
        for rows in with_progress(blocks, "boxes", len(images), "images", size=len, told=TOLD):
            # Patches of images that were not fitted are computed again in less time than it takes to keep them.
            maps, valid = self._maps(images, rows, kept=isinstance(self.dense, NetworkMaps))
            free = valid.copy()
            for kind, part in enumerate(self.parts):
                boxes_of_kind = image_parts.boxes_of(part, maps, free, self._places(part))
                free = image_parts.without(free, boxes_of_kind, part, self.null[kind])
                for boxes, scores in boxes_of_kind[: self.max_parts]:
                    outlier = self.typical[kind].outliers(part.features(maps, valid, boxes))
                    for i in np.flatnonzero(np.isfinite(scores)):
                        around = part.border * np.array([-1, -1, 1, 1])
                        box = _in_pixels(boxes[i] + around, valid[i], images.shapes[rows[i]])
                        found.append((rows[i], kind, *box, scores[i], 1.0, outlier[i]))
        return self.with_q_values(np.array(found, PARTS), len(images))


def _in_pixels(box: np.ndarray, valid: np.ndarray, shape: tuple[int, int]) -> tuple[int, int, int, int]:
    """A box in cells (top, left, bottom, right) as left, top, right, bottom in the pixels of the image."""
    down, across = shape[0] / valid[:, 0].sum(), shape[1] / valid[0].sum()
    top, left, bottom, right = (round(v * s) for v, s in zip(box, (down, across) * 2, strict=True))
    return max(left, 0), max(top, 0), min(right, shape[1]), min(bottom, shape[0])


def square(image: np.ndarray, part: Any) -> np.ndarray:
    """The square around a box; inside the image as far as possible."""
    height, width = image.shape[:2]
    side = min(max(part["right"] - part["left"], part["bottom"] - part["top"]), height, width)
    left = int(np.clip((part["left"] + part["right"] - side) // 2, 0, width - side))
    top = int(np.clip((part["top"] + part["bottom"] - side) // 2, 0, height - side))
    return image[top : top + side, left : left + side]
