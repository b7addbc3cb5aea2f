"""Scenes in files of arrays: rows, columns and bands, and a map of their classes in the same file or beside it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, name_list, one_line, say
from viewsmith.data.image_files import ImageFile, image_file
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import FileContents
from viewsmith.data.tiles import read_file
from viewsmith.modalities.images.channels import is_photograph
from viewsmith.modalities.images.modality import is_images

#: Options of arrays that are read as images whose axes are given, or as a scene that is cut into tiles.
OF_SCENES = ("axes", "channels", "tile", "overlap", "labels", "masks")
#: Of archives of several arrays, whose images have labels of their own.
OF_TILES = ("axes", "tile", "overlap", "labels")
#: Names of the single values that say how pixels in one axis lie in rows and columns, in any case.
_ROWS, _COLUMNS = ("nrow", "nrows", "rows", "lines", "height"), ("ncol", "ncols", "cols", "columns", "samples", "width")
_BANDS = ("nband", "nbands", "bands")
CLASSES = 256  # values of a map, at most
_OF_MAPS = ("gt", "ground_truth", "groundtruth", "map")
_OF_LABELS = ("label", "labels", "class", "classes", "y")  # of maps and of others
FIELDS = 0.5  # of the neighbors of pixels that would differ by chance are alike, at least, on both axes


def is_scene(request: DataOptions) -> bool:
    """Whether an array is read as images whose axes are given, or as one that is cut into tiles."""
    given = (request.overlap, request.labels, request.masks)
    of_tiles = request.or_fitted("tile") or any(each is not None for each in given)
    fitted = (request.schema or {}).get("signal", {}).keys() & {"axes", "wanted"}
    return bool(request.axes or of_tiles or fitted)


def read_tiles(path: Path, request: DataOptions) -> FileContents | None:
    """The tiles of the scene of an archive; None where it is not read so."""
    if not request.or_fitted("tile"):
        for option in OF_TILES:
            if (value := getattr(request, option)) is not None:
                raise InputError(
                    f"{path} has arrays, on which {option}={one_line(value)} has no effect; leave {option} out, "
                    "or, of one scene, give the side of its tiles, too (--tile 9)"
                )
        return None
    return read_file(path, request)


def scene_of(path: Path, x: np.ndarray, beside: Mapping[str, np.ndarray] | None = None) -> ImageFile:
    """An array as an image: rows, columns and channels; or of four axes several of them. Of the arrays `beside` it one
    may be the map of its classes."""
    axes = {2: "YX", 3: "YXC", 4: "IYXC"}.get(x.ndim)
    if axes is None or x.dtype.kind not in "biuf":
        raise InputError(f"{path} is {x.dtype} of shape {x.shape}, expected numbers with two to four axes (YXC)")
    arrays = beside or {}
    name = map_among(x.shape, arrays)
    classes = None if name is None else (name, arrays[name])
    return ImageFile(path, x.shape, axes, x.dtype.newbyteorder("="), lambda: x, opened=lambda: x, classes=classes)


def scene_among(path: Path, arrays: Mapping[str, np.ndarray]) -> ImageFile:
    """``X``, or the largest of the arrays of numbers of a file, as an image, with the map of its classes."""
    numbers = {name: array for name, array in arrays.items() if array.dtype.kind in "biuf"}
    if not numbers:
        raise InputError(f"{path} has {name_list(list(arrays)) or 'nothing'}, expected an array of numbers, such as X")
    found = unfolded(numbers)
    if found is None:
        found = numbers["X"] if "X" in numbers else max(numbers.values(), key=np.size)
    return scene_of(path, found, numbers)


def unfolded(numbers: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """The largest array of a file of MATLAB as (rows, columns, bands), if it has all pixels in one axis, column by
    column, and single values say rows and columns, and that there are bands (some say how many there were once)."""
    x = max(numbers.values(), key=np.size, default=np.zeros(0))
    values = {name.lower(): value.item() for name, value in numbers.items() if value.size == 1}
    single = {name: int(value) for name, value in values.items() if np.isfinite(value)}
    rows, columns = (next((single[name] for name in names if name in single), 0) for names in (_ROWS, _COLUMNS))
    if x.ndim != 2 or not single.keys() & {*_BANDS} or not rows or rows * columns not in x.shape:
        return None
    pixels = x.T if x.shape[1] == rows * columns else x
    return pixels.reshape(columns, rows, -1).transpose(1, 0, 2)


def map_among(shape: tuple[int, ...], arrays: Mapping[str, np.ndarray]) -> str | None:
    """The name of the map of the classes of a scene (rows, columns, bands) among arrays: few whole numbers; of several
    the one with the name of a map."""
    if len(shape) != 3:
        return None
    maps = [name for name, array in arrays.items() if array.shape == shape[:2] and _has_classes(array)]
    named = [name for name in maps if _is_named_map(name)]
    found = named if len(maps) > 1 else maps
    return found[0] if len(found) == 1 else None


def _is_named_map(name: str, surely: bool = False) -> bool:
    """Whether an array has the name of a map; `surely`, if labels of samples never have it."""
    return name.lower() in (*_OF_MAPS, *(() if surely else _OF_LABELS)) or name.lower().endswith("_gt")


def _has_fields(array: np.ndarray) -> bool:
    """Whether neighbors are alike on both axes, as in maps, more than by chance."""
    chance = (np.unique(array, return_counts=True)[1] ** 2).sum() / array.size**2
    alike = ((array[1:] == array[:-1]).mean(), (array[:, 1:] == array[:, :-1]).mean())
    return bool(min(alike) - chance >= FIELDS * (1 - chance))


def _has_classes(array: np.ndarray) -> bool:
    """Whether an array has few whole numbers."""
    kinds = np.unique(array[np.isfinite(array)]) if array.dtype.kind in "uif" else np.zeros(0)
    return 1 < len(kinds) <= CLASSES and bool((kinds == np.round(kinds)).all())


def check_not_scene(
    path: Path,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    arrays: Mapping[str, np.ndarray],
    request: DataOptions,
    unfolded: bool = False,
) -> None:
    """Raise InputError for a scene with a map of its classes, or of which the file has pixels in one axis, that would
    be read as an image for each of its rows; say that others of more than 8 bits may be a scene."""
    given = request.schema is not None or request.modality is not None
    if given or len(shape) != 3 or dtype.kind not in "uif":
        return
    height, width, channels = shape
    asked = f"--axes YXC --tile {max(4, min(height, width) // 8)}"
    beside, name = _map_beside(path, shape), map_among(shape, arrays)
    if name is not None and not _is_named_map(name, surely=True) and not _has_fields(arrays[name]):
        name = None  # several labels of each image, or bad channels of each recording
    if unfolded or beside is not None or name is not None:
        labels = "" if beside is None else f" --labels {beside}"
        other = "images" if not unfolded and is_images(np.empty((1, *shape[1:]), dtype)) else None
        if unfolded:
            largest = max(arrays, key=lambda each: arrays[each].size)
            pixels_are_rows = len(arrays[largest]) == height * width and largest.lower() not in _OF_LABELS
            other = "vectors" if pixels_are_rows else None
        what = f", with a map of their classes, {name or beside}" if name or beside else ""
        raise InputError(
            f"{path} is one scene of {height} x {width} pixels and {channels} channels{what}: cut it into tiles, "
            f"{asked}{labels}{'' if other is None else f'; if it is not: --modality {other}'}"
        )
    if dtype.kind == "u" and not is_photograph(shape[1:], dtype):
        say(
            f"{path}: {height:,} images of {width} x {channels} pixels and one channel; if it is one scene of "
            f"{channels} channels: {asked}"
        )


def _map_beside(path: Path, shape: tuple[int, ...]) -> Path | None:
    """The file beside a scene that has the map of its classes: scene_gt.mat, also of scene_corrected.mat."""
    stems = dict.fromkeys((path.stem, path.stem.removesuffix("_corrected")))
    found = (path.with_name(f"{stem}_gt{path.suffix}") for stem in stems)
    return next((file for file in found if file.is_file() and image_file(file).shape == shape[:2]), None)
