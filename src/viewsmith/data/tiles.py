"""Parts of large images as samples: tiles of a grid, or squares around objects of which there are masks; and the
readers of one image file."""

import itertools
import mmap
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from viewsmith.core.errors import InputError, name_list, pluralize, say, warn
from viewsmith.core.rows import RowSource, memory_map_of
from viewsmith.data.damaged import Damaged, Unreadable
from viewsmith.data.dataset import Tiles
from viewsmith.data.image_files import (
    OPTIONS,
    UNKNOWN,
    ImageFile,
    Stack,
    contents_of,
    image_file,
    in_memory,
    stack_of,
    wholes_of,
)
from viewsmith.data.label_maps import GEOJSON, classes_in_polygons, classes_of_tiles, fields_of_tiles
from viewsmith.data.label_tables import column_of, table_options
from viewsmith.data.object_tables import table_of_objects
from viewsmith.data.options import DataOptions
from viewsmith.data.places import extension_of
from viewsmith.data.reading import FileContents, by_ending, reader
from viewsmith.data.sounds import otsu_threshold
from viewsmith.modalities.images.channels import Glass, channel_ranges, is_photograph

#: What programs of segmentation add to the name of an image (Cellpose, StarDist, CellProfiler).
ADDED = ("", "_mask", "_masks", "_cp_masks", "_label", "_labels", "_seg", "_instances", "_objects")
OF_SIZES = 90  # percent of the objects are not larger than the square that is chosen
SMALLEST, STEP = 16, 4  # pixels of its side


@dataclass(frozen=True)
class Objects:
    """The objects of the masks of all images."""

    places: np.ndarray  #: (n, 3): image, and row and column of the first pixel of the square
    numbers: np.ndarray  #: (n,): the number of each object in its mask
    side: int  #: of the squares, in pixels


def find_mask(masks: Path, name: str, *, alone: bool) -> Path:
    """The mask of an image: the file that is given, or in a folder the one that has its name, or with an addition."""
    if masks.is_file():
        if alone:
            return masks
        raise InputError(
            f"masks={masks} is a file, and there are several images: expected a folder with a mask for each"
        )
    if not masks.is_dir():
        raise InputError(f"masks={masks} does not exist; expected a file, or a folder with a mask for each image")
    stem = Path(name).name.split(".")[0]
    for place in dict.fromkeys((masks / Path(name).parent, masks)):
        beside = sorted(place.iterdir()) if place.is_dir() else []
        for added in ADDED:
            named = [file for file in beside if file.is_file() and file.name.split(".")[0] == stem + added]
            if named:
                return named[0]
    raise InputError(
        f"{masks} has no mask of {name}: expected an image {stem}.tif or .png, or one of {stem} with "
        f"{name_list(ADDED[1:], len(ADDED))}"
    )


def objects_of(masks: Iterable[np.ndarray], side: int | None, source_name: str) -> Objects:
    """The objects of masks, (H, W) each, of which a pixel has the number of its object, or 0; of a mask with one number
    alone its connected parts. Without a side the square holds most objects. It stays within the image."""
    from scipy.ndimage import find_objects, label

    boxes, numbers, image, sides = [], [], [], []
    for i, mask in enumerate(masks):
        sides.append(mask.shape)
        if mask.dtype.kind == "f" and not np.array_equal(mask, np.round(mask)):
            raise InputError(
                f"{source_name}: a mask has {mask.dtype} values with fractions, expected numbers of objects"
            )
        whole = mask.astype(np.int64)
        if len(np.unique(whole[whole != 0])) == 1 and (parts := label(whole))[1] > 1:
            whole = parts[0]
        for number, found in enumerate(find_objects(whole), 1):
            if found is not None:
                boxes.append((found[0].start, found[0].stop, found[1].start, found[1].stop))
                numbers.append(number)
                image.append(i)
    if not boxes:
        raise InputError(f"{source_name}: the masks have no objects, every pixel is 0")
    of, box = np.array(image), np.array(boxes)
    sizes = np.maximum(box[:, 1] - box[:, 0], box[:, 3] - box[:, 2])
    if side is None:
        side = max(SMALLEST, STEP * int(np.ceil(np.percentile(sizes, OF_SIZES) / STEP)))
        side = min(side, *map(min, sides))
    larger = int((sizes > side).sum())
    say(
        f"{source_name}: {pluralize(len(box), 'object')} of {sizes.min()} to {sizes.max()} pixels, each in a square of "
        f"{side}{f', {larger:,} are larger' if larger else ''} (another side: --tile)"
    )
    shapes = np.array(sides)[of]
    centers = np.stack([box[:, 0] + box[:, 1], box[:, 2] + box[:, 3]], 1) // 2
    starts = np.clip(centers - side // 2, 0, shapes - side)
    return Objects(np.column_stack([of, starts]), np.array(numbers), side)


Header = TypeVar("Header", bound=Callable[[Path], ImageFile])

#: Tiles of more bytes than this are not read into memory as a whole.
KEPT = 2**28

#: Tiles in which the range of the channels of a scene is found, and the part of it below which a tile is empty.
RANGED, FLAT = 64, 1 / 20
JUDGED = 2**20  # pixels of a slide by which its glass is told, at most
#: Fields of `FileContents` that a table of labels gives, and the options that name its columns.
OF_TABLE = {"y": "label", "groups": "groups"}
ALIKE = 1.1  # ratio of the sizes of pixels up to which images are of one magnification
OPENED = 8  # scenes that are open at once


class TileRows(RowSource):
    """Tiles of scenes, (n, side, side, C), read as they are asked for; `places`, (n, 3), has the scene, and the row and
    column of the first pixel, of each."""

    complete = True  # tiles with values that are not finite are left out

    def __init__(self, stack: Stack, places: np.ndarray, side: int, name: str) -> None:
        channels = stack.shape[3]
        super().__init__((len(places), side, side, channels), name, dtype=stack.dtype)
        self.stack, self.places, self.side = stack, places, side
        self.images = [(file, i) for file in stack.files for i in range(file.count)]
        self._open: OrderedDict[Path, Any] = OrderedDict()

    def read_range(self, start: int, stop: int) -> np.ndarray:
        return self.read_index(np.arange(start, stop))

    def read_index(self, index: np.ndarray) -> np.ndarray:
        x = np.empty((len(index), *self.shape[1:]), self.dtype)
        places, first = self.places[index], 0
        while first < len(index):  # neighbors in a row of tiles are read together
            last = first + 1
            while last < len(index) and self._joins(places[last - 1], places[last]):
                last += 1
            scene, top, left = (int(value) for value in places[first])
            whole = self._window(scene, top, left, int(places[last - 1, 2]) + self.side - left)
            for row in range(first, last):
                at = int(places[row, 2]) - left
                x[row] = whole[:, at : at + self.side]
            first = last
        return x

    def _joins(self, one: np.ndarray, other: np.ndarray) -> bool:
        """Whether a tile follows another one in a row, without more than a tile between them."""
        return bool((one[:2] == other[:2]).all() and one[2] < other[2] <= one[2] + 2 * self.side)

    def _window(self, scene: int, top: int, left: int, width: int) -> np.ndarray:
        file, number = self.images[scene]
        try:
            return self._opened_window(file, number, top, left, width)
        except Unreadable as error:
            raise Damaged(str(error), {file.path: error}) from error

    def _opened_window(self, file: ImageFile, number: int, top: int, left: int, width: int) -> np.ndarray:
        if file.path not in self._open:
            self._open[file.path] = file.open()
            while len(self._open) > OPENED:
                self._open.popitem(last=False)
        self._open.move_to_end(file.path)
        opened = self._open[file.path]
        found = file.window(opened, number, top, left, self.side, width)
        found = self.stack.of_channels(found).copy()
        if (mapped := memory_map_of(opened)) is not None and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)  # pages that were read count as memory until they are let go
        return found


def tiled(
    stack: Stack,
    request: DataOptions,
    names: Sequence[str],
    source_name: str,
    n_train: int | None = None,
    folder: Path | None = None,
    of_images: bool = False,
    **more: Any,
) -> FileContents:
    """The tiles of the images of a stack, without empty ones, or the squares around the objects of their masks; `more`
    are labels and groups of its files, a map of the classes of a scene as `labels`, and further fields of
    `FileContents`. Unless they are `of_images`, labels of objects may be in a table, also in the folder."""
    side, overlap = request.or_fitted("tile"), request.or_fitted("overlap")
    objects = _objects(stack, request, names, source_name)
    if objects is not None:
        side, overlap = objects.side, 0
    overlap = side // 8 if overlap is None else overlap
    if overlap >= side:
        raise InputError(f"overlap is {overlap} pixels, expected less than the side of a tile, {side}")
    if stack.side is not None:
        raise InputError(f"tile={side} and image_size={stack.side}: leave one of them out")
    for file in stack.files:
        if min(file.sides) < side:
            height, width = file.sides
            raise InputError(
                f"{file.path} has {height} x {width} pixels, less than a tile of {side} x {side}: give a smaller tile "
                f"(--tile {min(file.sides)})"
            )
    sizes = {file.micrometers: file.path.name for file in stack.files if file.micrometers}
    if sizes and max(sizes) > ALIKE * min(sizes):
        warn(
            f"{source_name}: a pixel of {sizes[max(sizes)]} has {max(sizes):.3g} \N{MICRO SIGN}m, and of "
            f"{sizes[min(sizes)]} {min(sizes):.3g}: tiles show things at different sizes; give images of one "
            "magnification, or a level that all have (--level)"
        )
    shapes = [file.sides for file in stack.files for _ in range(file.count)]
    grid = [_grid(i, *shape, side, side - overlap) for i, shape in enumerate(shapes)]
    rows = TileRows(stack, np.concatenate(grid) if objects is None else objects.places, side, source_name)
    if _is_gray(rows, request):
        stack = replace(stack, chosen=[0])
        rows = TileRows(stack, rows.places, side, source_name)
    kept, said = _not_empty(rows, FLAT if objects is None else 0)
    said = f", {pluralize(int((~kept).sum()), 'empty one', 'empty ones')} left out{said}" if not kept.all() else ""
    noun = "tile" if objects is None else "object"
    say(f"{source_name}: {pluralize(int(kept.sum()), noun)} of {side} x {side} pixels{said}")
    if not kept.any():
        raise InputError(f"{source_name}: every tile is empty, the same value or less than a twentieth of the range")
    rows = TileRows(stack, rows.places[kept], side, source_name)
    scene, tops, lefts = rows.places.T
    transforms = [file.transform for file in stack.files for _ in range(file.count)]
    where = Tiles(
        stack.row_names(names), shapes, transforms, scene, lefts, tops, side, side - overlap, stack.files[0].map_keys
    )
    if objects is not None:
        where = replace(where, objects=objects.numbers[kept])
    of_file = np.repeat(np.arange(len(stack.files)), [file.count for file in stack.files])[scene]
    for name in ("y", "groups"):
        if more.get(name) is not None:
            more[name] = more[name][of_file]
    labels = more.pop("labels", None)
    if objects is not None and not of_images:
        files = [file.path.name for file in stack.files for _ in range(file.count)]
        more |= _of_objects(where, [files[i] for i in scene], request, folder, source_name)
    elif labels is not None:
        more["y"], codes = _of_map(labels, stack, where, rows.places, request)
        where = replace(where, fields=fields_of_tiles(codes, rows.places, side, side - overlap))
    train = None if n_train is None else int((of_file < n_train).sum())
    large = rows.dtype.itemsize * int(np.prod(rows.shape)) > KEPT or request.shared or request.stream
    options = contents_of(stack, None, request, names).options | {"tile": side, "overlap": overlap}
    options |= {} if objects is None else {"objects": True}
    found = {"options": options, "row_names": where.names(), "windows": where, "n_train": train}
    if wholes := wholes_of(stack.files):
        found["of_file"] = wholes["of_file"][scene]
    return contents_of(stack, rows if large else rows[:], request, names, **(found | more))


def _objects(stack: Stack, request: DataOptions, names: Sequence[str], source_name: str) -> Objects | None:
    """The objects of the masks of all images of a stack; None without masks."""
    if request.masks is None:
        if request.schema is not None and request.schema.get("objects"):
            raise InputError(
                f"{source_name}: the samples of the run are objects of masks: give those of these (--masks)"
            )
        return None
    if request.overlap is not None:
        raise InputError("overlap is for tiles of a grid, and masks were given: leave it out")
    return objects_of(_masks(request.masks, stack, names), request.or_fitted("tile"), str(request.masks))


def _of_objects(
    where: Tiles, files: list[str], request: DataOptions, folder: Path | None, source_name: str
) -> dict[str, np.ndarray]:
    """Labels and groups of objects, if a table has them."""
    if request.or_fitted("label") is None and request.or_fitted("groups") is None:
        return {}
    assert where.objects is not None
    table = table_of_objects(where.wholes.tolist(), where.objects, request, folder, files)
    found = {name: column_of(table, option, request, source_name) for name, option in OF_TABLE.items()}
    return {name: values for name, values in found.items() if values is not None}


def _masks(masks: Path, stack: Stack, names: Sequence[str]) -> Iterator[np.ndarray]:
    """The mask (H, W) of each image of a stack."""
    for file, name in zip(stack.files, names, strict=True):
        path = find_mask(masks, name, alone=len(stack.files) == 1)
        found = image_file(path).with_axes(None, alone=True)
        if found.sides != file.sides or found.channels > 1 or found.count not in (1, file.count):
            raise InputError(
                f"{path} is {found.described()}, and {file.path} {file.described()}: expected a mask of its size, with "
                "the number of an object, or 0, in each pixel"
            )
        planes = found.images()[..., 0]
        yield from (planes[min(i, found.count - 1)] for i in range(file.count))


def _of_map(
    labels: Path, stack: Stack, where: Tiles, places: np.ndarray, request: DataOptions
) -> tuple[np.ndarray, np.ndarray]:
    """Classes of the tiles of a scene by a map or polygons, and as numbers, NaN without one."""
    if extension_of(labels).lower() not in GEOJSON:
        y = classes_of_tiles(_label_map(labels, stack), places, where.side, labels)
        return y, y
    a = stack.files[0].transform or (0, 1, 0, 0, 0, 1)
    columns, rows = where.lefts + where.side / 2, where.tops + where.side / 2
    centers = np.stack([a[0] + a[1] * columns + a[2] * rows, a[3] + a[4] * columns + a[5] * rows], 1)
    y = classes_in_polygons(labels, request.or_fitted("label"), centers)
    codes = np.unique(y, return_inverse=True)[1].astype(np.float64)
    codes[y == ""] = np.nan
    return y, codes


def _label_map(path: Path, stack: Stack) -> np.ndarray:
    """The numbers of a map of classes, (height, width), of the size of the scene of a stack."""
    entry, scene = by_ending().get(extension_of(path).lower()), stack.files[0]
    if path == scene.path and scene.classes is not None:
        return scene.classes[1]
    if entry is None or entry.tag("header") is None or not path.is_file():
        raise InputError(
            f"labels={path} is no image: labels of the tiles of a scene are a map of its size, whose whole numbers "
            "are classes (.mat, .npy, .tif, .png), or polygons (.geojson; of a shapefile: ogr2ogr x.geojson x.shp)"
        )
    found = image_file(path).with_axes(None, alone=True)
    if found.count > 1 or found.channels > 1 or found.sides != scene.sides or stack.count > 1:
        raise InputError(
            f"labels={path} is {found.described()}, and {scene.path} {scene.described()}: expected one scene, and a "
            "map of its size with a number for each pixel"
        )
    return found.images()[0, :, :, 0]


def _grid(scene: int, height: int, width: int, side: int, step: int) -> np.ndarray:
    """Scene, row and column of the tiles of an image, row by row; the last ones end at its edges."""
    tops, lefts = ([*range(0, size - side, step), size - side] for size in (height, width))
    return np.array([(scene, top, left) for top in tops for left in lefts], np.int64)


def _is_gray(rows: TileRows, request: DataOptions) -> bool:
    """Whether the tiles are of images in color whose channels are equal; raises InputError for others if those of the
    run were."""
    shape = (request.schema or {}).get("row_shape")  # None also for discovery, which takes tiles of any shape
    fitted = shape is not None and shape[-1] == 1
    of_color = rows.stack.chosen is None and rows.shape[3] == 3 and is_photograph(rows.shape[1:], rows.dtype)
    if not of_color or (shape is not None and not fitted):
        return False
    few = rows[np.unique(np.linspace(0, len(rows) - 1, min(RANGED, len(rows))).astype(np.int64))]
    starts = range(0, len(rows), rows.block_rows)
    blocks = itertools.chain([few], (rows[start : start + rows.block_rows] for start in starts))
    gray = all((x == x[..., :1]).all() for x in blocks)
    if gray and not fitted:
        say(f"{rows.stack.files[0].path.name}: in color, and the channels are equal: read as gray")
    if fitted and not gray:
        raise InputError(
            f"{rows.stack.files[0].path} is in color, and the run was fitted on gray images: give gray ones, or fit on "
            "images in color"
        )
    return gray


def _not_empty(rows: TileRows, flat: float) -> tuple[np.ndarray, str]:
    """Which tiles have something: more than the part `flat` of the range of a channel; and what else was left out."""
    some = rows[np.unique(np.linspace(0, len(rows) - 1, min(RANGED, len(rows))).astype(np.int64))]
    values = some.reshape(-1, some.shape[3])
    finite = np.isfinite(values).all(axis=1) if values.dtype.kind == "f" else slice(None)
    low, high = channel_ranges(values[finite]) if len(values[finite]) else (np.zeros(1), np.zeros(1))
    kept, missing = np.zeros(len(rows), dtype=bool), 0
    stained, size = _stained(rows) if flat else None, rows.block_rows
    tissue = np.arange(len(rows)) if stained is None else np.flatnonzero(stained)
    for first in range(0, len(tissue), size):
        index = tissue[first : first + size]
        x = rows[index]
        holes = ~np.isfinite(x).all(axis=(1, 2, 3)) if x.dtype.kind == "f" else np.zeros(len(x), dtype=bool)
        for i, (scene, _, _) in enumerate(rows.places[index]):
            empty = rows.images[scene][0].empty
            if empty is not None and np.isfinite(empty):
                holes[i] |= bool(((x[i] == empty).all(axis=2)).mean() > 0.5)
        spread = x.max(axis=(1, 2)).astype(np.float64) - x.min(axis=(1, 2))
        with np.errstate(invalid="ignore"):
            kept[index] = (spread > flat * (high - low)).any(axis=1) & ~holes
        missing += int(holes.sum())
    why = f", of which {missing:,} without data (NaN or the value of the file for that)" if missing else ""
    return kept, why if len(tissue) == len(rows) else f", of which {len(rows) - len(tissue):,} of glass{why}"


def _stained(rows: TileRows) -> np.ndarray | None:
    """Which tiles of slides have tissue (`Glass`) in more than a twentieth of their pixels, by the smallest resolution
    of each, and all tiles of other images; None without glass."""
    channels = rows.shape[3] - ("S" in rows.stack.files[0].axes and rows.shape[3] == 4)  # without opacity
    if channels != 3 or not is_photograph((channels,), rows.stack.dtype):
        return None
    found, any_glass = np.ones(len(rows), dtype=bool), False
    for scene in np.unique(rows.places[:, 0]):
        file, number = rows.images[scene]
        if not file.slide:
            continue
        least = file.smaller[-1] if file.smaller else file
        image = rows.stack.of_channels(least.images()[number])[..., :3]
        pixels = image.reshape(-1, 3)[:: -(-image.size // (3 * JUDGED))]
        glass = Glass.of(pixels, otsu_threshold(np.ptp(pixels, axis=1)))
        if glass is None:
            continue
        any_glass, stained = True, glass.covered(image)
        above = np.zeros((stained.shape[0] + 1, stained.shape[1] + 1))  # counts above and left of each corner
        above[1:, 1:] = stained.cumsum(0).cumsum(1)
        tiles = np.flatnonzero(rows.places[:, 0] == scene)
        scales = [small / full for small, full in zip(least.sides, file.sides, strict=True)]
        (top, bottom), (left, right) = (
            (np.floor(start * scale).astype(int), np.ceil((start + rows.side) * scale).astype(int))
            for start, scale in zip(rows.places[tiles, 1:].T, scales, strict=True)
        )
        counts = above[bottom, right] - above[top, right] - above[bottom, left] + above[top, left]
        found[tiles] = counts > FLAT * (bottom - top) * (right - left)
    return found if any_glass else None


#: Options of one file of images: what belongs to one image is in it.
OF_A_FILE = tuple(option for option in OPTIONS if option != "channel_files")


def check_tiled(request: DataOptions) -> None:
    """Raise InputError for an overlap without tiles."""
    if request.overlap is not None and not (request.or_fitted("tile") or request.masks is not None):
        raise InputError("overlap is for tiles: give their side, too (--tile 64)")


def read_file(path: Path, request: DataOptions) -> FileContents:
    """The images of one file, all but rows, columns and channels counts them; or their tiles."""
    of_polygons = request.labels is not None and request.labels.suffix.lower() in GEOJSON
    named = request.masks is not None or of_polygons  # the label is a column, or a property
    (replace(request, label=None) if named else request).check_no_table_options(str(path))
    side = request.or_fitted("tile") or request.masks is not None
    check_tiled(request)
    if request.labels is not None and not side:
        raise InputError(f"labels={request.labels} is a map for the tiles of a scene: give their side, too (--tile 9)")
    stack = stack_of([path], request, request.or_fitted("image_size"), any_size=bool(side))
    if request.schema is None and not side:
        check_several(path, stack)
    if request.schema is None:
        first = stack.files[0]
        asked = [letter for letter in UNKNOWN if letter in first.axes and first.channels == 1 and not request.axes]
        hint = "".join(f"; if they are channels: --axes {first.axes.replace(letter, 'C')}" for letter in asked)
        say(stack.described(path) + (hint if first.count > 1 else ""))
    if side:
        table = table_options(request) if named else {}
        labels = request.labels or (path if stack.files[0].classes is not None else None)
        return tiled(stack, request, [path.name], str(path), labels=labels, table=table)
    return contents_of(stack, in_memory(stack, str(path)), request, [path.name])


def image_reader(name: str, *endings: str, **tags: Any) -> Callable[[Header], Header]:
    """Decorator of a function of a path that returns an `ImageFile`: such files are read by `read_file`; `tags` are
    arguments of `reader`."""

    def add(header: Header) -> Header:
        own = wraps(header)(lambda path, request: read_file(path, request))
        reader(name, *endings, modality="images", options=OF_A_FILE, header=header, **tags)(own)
        return header

    return add


def check_several(path: Path, stack: Any) -> None:
    """Raise InputError for a single image: samples to train on are several, or its tiles."""
    if stack.count < 2:
        file = stack.files[0]
        rest = f"; left out: {file.left_out}" if file.left_out else ""
        raise InputError(
            f"{path} is one image ({file.described()}), expected several: cut it into tiles, tile=SIDE "
            f"(--tile {min(256, max(4, min(file.sides) // 4))}), or give a folder of images{rest}"
        )
