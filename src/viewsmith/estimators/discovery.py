"""Discovery: the part that recurs in images, and where it is, found in seconds without labels or training."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.core.messages import warn
from viewsmith.core.progress import with_progress
from viewsmith.core.tensors import load_tensors, save_tensors
from viewsmith.methods.discovery.boxes import best_boxes
from viewsmith.methods.discovery.contrast import Contrast, Gaussian, Whitening
from viewsmith.methods.discovery.features import CELL, Patches, fit_patches, sizes_fitting
from viewsmith.methods.discovery.images import (
    BACKGROUND,
    CONSISTENT,
    OUTSIDE,
    WINDOWS,
    Part,
    choose,
    discover,
    inside_boxes,
    whole_windows,
)
from viewsmith.training.run import RunFolder

FITTED = 1_000  # images that parts are fitted to; all others are only scored
BLOCK = 64
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
    """

    shapes: list[tuple[int, int]]
    read: Callable[[int, tuple[int, int] | None], np.ndarray]
    channels: int

    def __len__(self) -> int:
        return len(self.shapes)


def as_images(X: Any) -> ImageList:
    """Images as an array uint8 (n, H, W) or (n, H, W, 1 or 3), a list of such images of any sizes, or `ImageList`.

    Raises
    ------
    InputError
        Other samples.
    """
    if isinstance(X, ImageList):
        return X
    expected = "expected uint8 images, (n, H, W) or (n, H, W, 1 or 3), or a list of images of any sizes"
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

    return ImageList([image.shape[:2] for image in images], read, channels)


def reduced(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """An image uint8 (H, W, C) in another size, each pixel the mean of those that it covers."""
    if image.shape[:2] == size:
        return image
    x = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None].float()
    y = torch.nn.functional.interpolate(x, size=size, mode="bilinear", antialias=True, align_corners=False)
    return np.asarray(y[0].permute(1, 2, 0).round().clamp(0, 255).byte())


class Discovery(BaseEstimator):
    """Find the part that recurs in images, and where, without labels.

    Windows are chosen that look alike across images and unlike windows in general; then the box that holds each part is
    found, whatever its size (`viewsmith.methods.discovery.images`). It works where each image, or most of them, has one
    or a few of some kind of object that differs in color or texture from the rest, such as cells in micrographs.
    Objects that differ by their shape alone need other features than patches.

    Parameters
    ----------
    features : "patches" or callable
        Dense features: patches that are learned from the images, or a function of images, uint8 (b, H, W, C), that
        gives maps, float32 (b, d, h, w).
    windows : sequence of int
        Sides of windows that are tried, in cells of 4 pixels. Half of the object's side or less is best.
    image_size : int
        Longer side to which images are reduced, in pixels; smaller images stay as they are.
    kinds : int
        Number of kinds of parts: after the first, its boxes are masked and the next is sought.
    max_parts : int
        Largest number of parts of a kind in an image.
    max_q : float
        Largest q-value of a part that `locate` returns, in (0, 1].
    random_state : int

    Attributes
    ----------
    parts_ : list of Part
        One for each kind that recurs; empty if nothing does.
    tried_ : list of list of Part
        For each kind, the solutions among which it was chosen.
    recurs_ : bool
        Whether anything recurs.

    Notes
    -----
    The q-value of a part compares its score with the best scores in the rest of the images, apart from the boxes
    (Benjamini and Hochberg 1995). It says whether this image has the part, not whether the part is meaningful.

    Examples
    --------
    >>> from viewsmith import Discovery
    >>> model = Discovery().fit(images)  # doctest: +SKIP
    >>> boxes = model.locate(images)  # doctest: +SKIP
    """

    name = "discovery"

    def __init__(
        self,
        *,
        features: Any = "patches",
        windows: Sequence[int] = WINDOWS,
        image_size: int = 128,
        kinds: int = 1,
        max_parts: int = 1,
        max_q: float = 0.1,
        random_state: int = 0,
    ) -> None:
        self.features = features
        self.windows = windows
        self.image_size = image_size
        self.kinds = kinds
        self.max_parts = max_parts
        self.max_q = max_q
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find what recurs in images.

        Parameters
        ----------
        X : array or list of images, uint8
            (n, H, W) or (n, H, W, 1 or 3), or a list of images of any sizes.
        y : ignored

        Raises
        ------
        InputError
            Less than four images, images that are too small for a window, or all the same; an option out of its range.
        """
        images = as_images(X)
        self._check_options()
        sizes = sizes_fitting(images.shapes, self.image_size)
        smallest = min(min(size) for size in sizes) // CELL
        windows = [side for side in self.windows if 2 * side <= smallest]
        if len(images) < 4:
            raise InputError(f"{len(images)} images, expected at least 4: what recurs is seen across images")
        if not windows:
            side = CELL * 2 * min(self.windows)
            raise InputError(
                f"the smallest image has {smallest * CELL} pixels on its shorter side at image_size={self.image_size}, "
                f"expected at least {side}, twice the smallest window: give smaller windows, or enlarge the images"
            )
        rng = np.random.default_rng(self.random_state)
        rows = np.sort(rng.permutation(len(images))[:FITTED])
        self.channels_ = images.channels
        if callable(self.features):
            self.features_: Callable[[np.ndarray], Tensor] = self.features
        else:
            self.features_ = fit_patches(lambda: self._batches(images, rows), len(rows), self.random_state)
        maps, valid = self._maps(images, rows, "features")
        if float(maps[valid].std(0).max()) < 1e-6:
            raise InputError("all samples are equal, expected images that differ: there is nothing to contrast")
        self.parts_: list[Part] = []
        self.tried_: list[list[Part]] = []
        self.null_: list[np.ndarray] = []
        free = valid.copy()
        for _ in range(self.kinds):
            tried = discover(maps, free, windows=windows, seed=self.random_state)
            self.tried_.append(tried)
            part = choose(tried)
            if part is None:
                break
            found = _boxes(part, maps, free, self.max_parts)
            self.null_.append(_null(part, maps, free, found))
            self.parts_.append(part)
            for boxes, _ in found:
                free &= ~inside_boxes(boxes, free.shape[1:])
        if not self.parts_:
            warn(f"nothing recurs in these images: {self.describe()}")
        return self

    @property
    def recurs_(self) -> bool:
        """Whether anything recurs."""
        check_is_fitted(self)
        return bool(self.parts_)

    def describe(self) -> str:
        """What was found, in one sentence."""
        check_is_fitted(self)
        best = max(self.tried_[0], key=lambda part: (part.posterior <= BACKGROUND, part.consistency))
        numbers = (
            f"the posterior agrees with the boxes by {best.consistency:.2f} (1: entirely) and fills "
            f"{best.posterior:.0%} of the images"
        )
        if not self.parts_:
            return f"of the best candidate, {numbers}; expected at least {CONSISTENT} and at most {BACKGROUND:.0%}"
        kinds = "one kind of part recurs" if len(self.parts_) == 1 else f"{len(self.parts_)} kinds of parts recur"
        return f"{kinds}; of the first, {numbers} (windows of {CELL * best.window} pixels)"

    def locate(self, X: Any) -> np.ndarray:
        """Boxes of the parts in images, in their own pixels.

        Returns
        -------
        structured array
            A row for each part, with the fields ``sample``, ``kind`` (from 0), ``left``, ``top``, ``right``, ``bottom``
            (the last two outside), ``score`` (log p_P / p_U of its best window, nats) and ``q``. Only parts with a
            q-value of at most ``max_q`` are listed, so an image may have none.
        """
        found = self._candidates(X)
        return found[found["q"] <= self.max_q]

    def score_samples(self, X: Any) -> np.ndarray:
        """The score of the best part of the first kind in each image, float64 (n,); -inf if nothing recurs."""
        found = self._candidates(X)
        scores = np.full(len(as_images(X)), -np.inf)
        first = found[found["kind"] == 0]
        np.maximum.at(scores, first["sample"], first["score"])
        return scores

    def crops(self, X: Any, size: int = 32) -> tuple[np.ndarray, np.ndarray]:
        """Squares around the parts, as samples for other methods.

        Returns
        -------
        crops : ndarray of uint8, shape (m, size, size, channels)
        parts : structured array
            What `locate` returns.
        """
        images, found = as_images(X), self.locate(X)
        cut = np.zeros((len(found), size, size, images.channels), np.uint8)
        for crop, part in zip(cut, found, strict=True):
            crop[:] = reduced(square(images.read(int(part["sample"]), None), part), (size, size))
        return cut, found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as a folder of plain text and safetensors; own features are not saved."""
        check_is_fitted(self)
        if not isinstance(self.features_, Patches):
            raise InputError("features is custom, which cannot be saved: expected 'patches'")
        folder = RunFolder(path)
        Path(path).mkdir(parents=True, exist_ok=True)
        parameters = self.get_params() | {"windows": list(self.windows)}
        fitted = {"channels": self.channels_, "windows": [part.window for part in self.parts_]}
        fitted |= {name: [getattr(p, name) for p in self.parts_] for name in ("posterior", "consistency", "objective")}
        folder.write_config({"method": self.name, "parameters": parameters, "fitted": fitted})
        tensors = {f"patches.{name}": value for name, value in vars(self.features_).items()}
        for i, (part, null) in enumerate(zip(self.parts_, self.null_, strict=True)):
            tensors[f"{i}.null"] = torch.from_numpy(null)
            for name, value in _arrays(part).items():
                tensors[f"{i}.{name}"] = torch.from_numpy(np.ascontiguousarray(value))
        save_tensors(folder.model, tensors)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` wrote.

        Raises
        ------
        InputError
            There is no such model, or it is damaged.
        """
        folder = RunFolder(path)
        config = folder.read_config()
        if config.get("method") != cls.name:
            raise InputError(f"{folder.config} is of the method {config.get('method')!r}, expected {cls.name!r}")
        try:
            model, fitted = cls(**config["parameters"]), config["fitted"]
            tensors = load_tensors(folder.model)
            model.channels_ = int(fitted["channels"])
            model.features_ = Patches(**{n: tensors[f"patches.{n}"] for n in ("filters", "offset", "mean", "axes")})
            model.parts_ = [_part(tensors, fitted, i) for i in range(len(fitted["windows"]))]
            model.null_ = [tensors[f"{i}.null"].numpy() for i in range(len(model.parts_))]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{folder.path} is damaged ({error}): fit and save again") from error
        model.tried_ = [[part] for part in model.parts_]
        return model

    def _check_options(self) -> None:
        """Raise InputError for an option out of its range."""
        for option, least in (("image_size", 32), ("kinds", 1), ("max_parts", 1)):
            value = getattr(self, option)
            if not isinstance(value, int) or value < least:
                raise InputError(f"{option} is {value!r}, expected a whole number of at least {least}")
        if not self.windows or not all(isinstance(side, int) and side >= 2 for side in self.windows):
            raise InputError(
                f"windows is {self.windows!r}, expected whole numbers of at least 2, in cells of {CELL} pixels"
            )
        if not 0 < self.max_q <= 1:
            raise InputError(f"max_q is {self.max_q!r}, expected a number in (0, 1]")
        if self.features != "patches" and not callable(self.features):
            raise InputError(f"features is {self.features!r}, expected 'patches' or a function of images")

    def _batches(self, images: ImageList, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Reduced images in batches of one size, uint8 (b, h, w, channels)."""
        for _, batch in self._sized(images, rows):
            yield batch

    def _sized(self, images: ImageList, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Positions in `rows`, and the reduced images there, by size and block."""
        sizes = np.array(sizes_fitting([images.shapes[i] for i in rows], self.image_size))
        for size in np.unique(sizes, axis=0):
            same = np.flatnonzero((sizes == size).all(1))
            for start in range(0, len(same), BLOCK):
                at = same[start : start + BLOCK]
                yield at, np.stack([images.read(int(rows[i]), (int(size[0]), int(size[1]))) for i in at])

    def _maps(self, images: ImageList, rows: np.ndarray, what: str = "") -> tuple[np.ndarray, np.ndarray]:
        """Dense features (n, h, w, d) of images, padded to the largest, and which cells are of an image."""
        parts = []
        blocks = self._sized(images, rows)
        for at, batch in with_progress(blocks, what, len(rows), "images", size=lambda item: len(item[0])):
            maps = self.features_(batch)
            if not isinstance(maps, Tensor) or maps.ndim != 4 or len(maps) != len(batch):
                given = tuple(getattr(maps, "shape", ())) or type(maps).__name__
                raise InputError(f"the features give {given} for {len(batch)} images, expected maps (n, d, h, w)")
            parts.append((at, maps.detach().permute(0, 2, 3, 1).float().numpy()))
        height, width = (max(own.shape[axis] for _, own in parts) for axis in (1, 2))
        padded = np.zeros((len(rows), height, width, parts[0][1].shape[3]), np.float32)
        valid = np.zeros((len(rows), height, width), bool)
        for at, own in parts:
            padded[at, : own.shape[1], : own.shape[2]] = own
            valid[at, : own.shape[1], : own.shape[2]] = True
        return padded, valid

    def _candidates(self, X: Any) -> np.ndarray:
        """The best boxes of every kind in every image, with their q-values among all images."""
        check_is_fitted(self)
        images = as_images(X)
        if images.channels != self.channels_:
            raise InputError(f"images with {images.channels} channels, but the model was fitted on {self.channels_}")
        found: list[tuple[Any, ...]] = []
        starts = range(0, len(images), BLOCK) if self.parts_ else range(0)
        for start in with_progress(starts, "boxes", len(images), "images", size=lambda _: BLOCK):
            rows = np.arange(start, min(start + BLOCK, len(images)))
            maps, valid = self._maps(images, rows)
            free = valid.copy()
            for kind, part in enumerate(self.parts_):
                for boxes, scores in _boxes(part, maps, free, self.max_parts):
                    free &= ~inside_boxes(boxes, free.shape[1:])
                    for i in np.flatnonzero(np.isfinite(scores)):
                        shape = images.shapes[rows[i]]
                        box = _in_pixels(boxes[i], valid[i], shape)
                        found.append((rows[i], kind, *box, scores[i], 1.0))
        table = np.array(found, PARTS)
        for kind, null in enumerate(self.null_):
            of_kind = table["kind"] == kind
            table["q"][of_kind] = q_values(table["score"][of_kind], null)
        return table[np.argsort(table["sample"], kind="stable")]


def q_values(scores: np.ndarray, null: np.ndarray) -> np.ndarray:
    """q-values (n,) of scores against null scores, one of each image (Benjamini and Hochberg 1995).

    The p-value of a score is the fraction of null scores that reach it, the score itself among them.
    """
    ordered = np.sort(null)
    p = (1 + len(null) - np.searchsorted(ordered, scores)) / (1 + len(null))
    order = np.argsort(p)[::-1]
    ranks = np.arange(len(p), 0, -1)
    q = np.empty(len(p))
    q[order] = np.minimum.accumulate(p[order] * len(p) / ranks) if len(p) else p
    return np.minimum(q, 1.0)


def _boxes(part: Part, maps: np.ndarray, free: np.ndarray, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Up to `count` boxes of a part in each image, in cells, and their scores; -inf where there is no further one."""
    weights = np.where(free, 2 * part.posteriors(maps) - 1, OUTSIDE)
    k = part.window
    scores = np.where(whole_windows(free, k), part.window_scores(maps), -np.inf)
    found = []
    for _ in range(count):
        boxes, sums = best_boxes(weights)
        inside = inside_boxes(boxes, free.shape[1:])
        # The window in the middle of which the center of the box lies, and those around it inside the box.
        centers = inside[:, k // 2 : k // 2 + scores.shape[1], k // 2 : k // 2 + scores.shape[2]]
        best = np.where(centers, scores, -np.inf).reshape(len(maps), -1).max(1)
        found.append((boxes, np.where(sums > 0, best, -np.inf)))
        weights = np.where(inside, OUTSIDE, weights)
    return found


def _null(part: Part, maps: np.ndarray, free: np.ndarray, found: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The best score of each image apart from its boxes, float64: how good a window is that is no part."""
    for boxes, _ in found:
        free = free & ~inside_boxes(boxes, free.shape[1:])
    scores = np.where(whole_windows(free, part.window), part.window_scores(maps), -np.inf)
    best = scores.reshape(len(maps), -1).max(1)
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
    found: dict[str, np.ndarray] = {}
    for name, (whitening, contrast) in (("windows", part.windows), ("cells", part.cells)):
        found |= {f"{name}.mean": whitening.mean, f"{name}.axes": whitening.axes}
        for which, gaussian in (("chosen", contrast.chosen), ("all", contrast.all_windows)):
            found |= {f"{name}.{which}.mean": gaussian.mean, f"{name}.{which}.factor": gaussian.factor}
    return found


def _part(tensors: dict[str, Tensor], fitted: dict[str, Any], i: int) -> Part:
    """The part with number i of a saved model."""

    def of(name: str) -> tuple[Whitening, Contrast]:
        def array(rest: str) -> np.ndarray:
            return tensors[f"{i}.{name}.{rest}"].numpy()

        gaussians = (Gaussian(array(f"{which}.mean"), array(f"{which}.factor")) for which in ("chosen", "all"))
        return Whitening(array("mean"), array("axes")), Contrast(*gaussians)

    numbers = {name: float(fitted[name][i]) for name in ("posterior", "consistency", "objective")}
    return Part(window=int(fitted["windows"][i]), windows=of("windows"), cells=of("cells"), **numbers)
