"""Image files of instruments as samples: their axes, channels and depth, and the stack of several files.

What readers of images share. The header of a file says how its pixels are read, all of them or a window. Axes are
letters, those of tifffile: Y rows, X columns, C and S channels, any other one (Z, T, ...) counts images.
"""

import contextlib
import math
import re
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, MissingExtra, name_list, one_line, pluralize, say, suggest, warn
from viewsmith.core.registry import find
from viewsmith.core.rows import check_size
from viewsmith.data.damaged import read_each
from viewsmith.data.options import DataOptions
from viewsmith.data.places import ARRAYS, INSTRUMENTS, TIFF, extension_of, file_of
from viewsmith.data.reading import FileContents, by_ending, deep, planes_of, reading, recognized
from viewsmith.data.unread import command, named
from viewsmith.modalities.images.channels import SMALLEST_SIDE, common_side, is_photograph, size_of, square
from viewsmith.modalities.images.modality import Images

#: Options of `load_dataset` of all readers of images.
OPTIONS = ("axes", "channels", "channel_files", "image_size", "tile", "overlap", "level", "labels", "masks")
CHANNELS = "CS"  # letters of axes that are channels
FEI = 34682  # the tag of TIFF files of an electron microscope, whose data bar is left out
UNKNOWN = "QI"  # letters of axes of which a file does not say what they are


@dataclass(frozen=True)
class ImageFile:
    """An image file of an instrument, and how its pixels are read."""

    path: Path
    shape: tuple[int, ...]
    axes: str  # a letter for each number of the shape
    dtype: np.dtype[Any]
    pixels: Callable[[], np.ndarray]
    names: tuple[str, ...] = ()  # of the channels, if the file has them
    micrometers: float | None = None  # side of a pixel
    count: int = 1  # images in it
    opened: Callable[[], Any] | None = None  # its pixels as an array of which windows are read; None: all at once
    transform: tuple[float, ...] | None = None  # six numbers, from column and row to coordinates of a map (GDAL)
    map_keys: tuple[Any, ...] = ()  # tags of a GeoTIFF that say what the coordinates are
    empty: float | None = None  # the value of pixels without data
    smaller: tuple["ImageFile", ...] = ()  # the same image at lower resolutions
    level: int = 0  # of these resolutions
    left_out: str = ""  # its other images, such as the label of a slide
    slide: bool = False  # whether it is one of a slide scanner
    patient: str = ""  # of a clinical image, if the file says it
    classes: tuple[str, np.ndarray] | None = None  # name and values of the map of its classes, if the file has one

    def at_level(self, level: int) -> "ImageFile":
        """The image at a level of its pyramid, with coordinates of the map, or of the pixels of level 0."""
        if level == 0:
            return self
        if level > len(self.smaller):
            sizes = name_list([f"{i} ({size_of(each.sides)})" for i, each in enumerate((self, *self.smaller))], 12)
            raise InputError(f"{self.path} has no level {level}, given as level; it has {sizes}")
        found = self.smaller[level - 1]
        by_row, by_column = (whole / part for whole, part in zip(self.sides, found.sides, strict=True))
        x, a, b, y, c, d = self.transform or (0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
        return replace(
            self,
            shape=found.shape,
            pixels=found.pixels,
            opened=found.opened,
            smaller=self.smaller[level:],
            level=level,
            micrometers=None if self.micrometers is None else self.micrometers * by_column,
            transform=(x, a * by_column, b * by_row, y, c * by_column, d * by_row),
        )

    def with_axes(self, axes: str | None, *, alone: bool) -> "ImageFile":
        """The file with the axes that were given; ones it does not say are channels, or of a file `alone` images."""
        found = self.axes
        if axes is not None:
            letters = axes.upper()
            if len(letters) != len(self.shape) or len(set(letters)) < len(letters) or not {"Y", "X"} <= set(letters):
                raise InputError(
                    f"axes is {one_line(axes, 20)!r}, and {self.path} has the shape {self.shape} ({self.axes}): give a "
                    "letter for each, Y for rows, X for columns, C for channels, any other one for images"
                )
            found = letters
        elif not set(found) & set(CHANNELS) and not alone:
            unknown = [letter for letter in UNKNOWN if letter in found]
            found = found.replace(unknown[0], "C") if unknown else found
        if not {"Y", "X"} <= set(found):  # such as a line at many times
            raise InputError(
                f"{self.path} is {self.described()}, expected rows (Y) and columns (X); leave it out, or say what the "
                "axes are (--axes)"
            )
        count = math.prod(size for size, letter in zip(self.shape, found, strict=True) if self._counts(letter))
        return replace(self, axes=found, count=count)

    @property
    def sides(self) -> tuple[int, int]:
        """Height and width."""
        return self.shape[self.axes.index("Y")], self.shape[self.axes.index("X")]

    @property
    def channels(self) -> int:
        """Number of channels."""
        return math.prod(size for size, letter in zip(self.shape, self.axes, strict=True) if letter in CHANNELS)

    def images(self) -> np.ndarray:
        """Its images, (count, H, W, C), in the type of the file."""
        x = self.open_whole()
        order = [letter for letter in self.axes if self._counts(letter)] + ["Y", "X"]
        order += [letter for letter in self.axes if letter in CHANNELS]
        x = x.transpose([self.axes.index(letter) for letter in order])
        return x.reshape(self.count, *self.sides, self.channels)

    def open_whole(self) -> np.ndarray:
        """All its pixels, as they are in the file."""
        with opening(self.path, "an image"):
            x = self.pixels()
            if x.shape != self.shape:
                raise ValueError(f"its pixels have the shape {x.shape}, and its header {self.shape}")
        return x

    def open(self) -> Any:
        """Its pixels as an array of which windows are read, if the file allows it."""
        if self.opened is None:
            return self.open_whole()
        with opening(self.path, "an image"):
            return self.opened()

    def window(self, opened: Any, number: int, top: int, left: int, height: int, width: int) -> np.ndarray:
        """A window of one of its images, (height, width, C), of what `open` gave."""
        counted = [(letter, size) for letter, size in zip(self.axes, self.shape, strict=True) if self._counts(letter)]
        at = np.unravel_index(number, [size for _, size in counted]) if counted else ()
        place: dict[str, Any] = {letter: int(i) for (letter, _), i in zip(counted, at, strict=True)}
        place |= {"Y": slice(top, top + height), "X": slice(left, left + width)}
        with opening(self.path, "an image"):
            x = np.asarray(opened[tuple(place.get(letter, slice(None)) for letter in self.axes)])
        left_over = [letter for letter in self.axes if not self._counts(letter)]
        order = ["Y", "X", *(letter for letter in left_over if letter in CHANNELS)]
        return x.transpose([left_over.index(letter) for letter in order]).reshape(height, width, self.channels)

    @staticmethod
    def _counts(letter: str) -> bool:
        """Whether places of an axis are images of their own."""
        return letter not in f"YX{CHANNELS}"

    def described(self) -> str:
        """Axes, shape and type."""
        return f"{self.axes} {' x '.join(map(str, self.shape))} {self.dtype}"


def chosen(path: Path, kinds: Sequence[tuple[Any, ...]], names: Sequence[str]) -> tuple[list[int], str]:
    """Numbers of the images of a file that are read, and what is said of the others.

    Parameters
    ----------
    path : Path
        FILE, of which the images of the commonest kind are read, or FILE::NAME.
    kinds : sequence of tuple
        Height and width of each image, and what else has to be equal.
    names : sequence of str
        Those of the images.
    """
    file, wanted = file_of(path)
    if not kinds:
        raise InputError(f"{file} has no image")
    if wanted:
        if wanted not in names:
            raise InputError(f"{file} has no image {wanted!r}; {suggest(wanted, names, 'its images are')}")
        return [list(names).index(wanted)], ""
    common = max(dict.fromkeys(kinds), key=lambda kind: (kinds.count(kind), kind[0][0] * kind[0][1]))
    rest = [f"{name} ({size_of(kind[0])})" for name, kind in zip(names, kinds, strict=True) if kind != common]
    left_out = f"{name_list(rest)}, each of which {file.name}::NAME gives" if rest else ""
    return [i for i, kind in enumerate(kinds) if kind == common], left_out


@contextlib.contextmanager
def opening(path: Path, kind: str) -> Iterator[None]:
    """`reading`, with the extra that has a missing codec."""
    try:
        with reading(str(path), kind):
            yield
    except InputError as error:
        if isinstance(error.__cause__, FileNotFoundError) and file_of(path)[1]:
            raise InputError(f"{path}: files of this format have no images by name; give {file_of(path)[0]}") from error
        cause = str(error.__cause__)
        # For some codecs tifffile falls back on modules of later versions of Python.
        if "imagecodecs" in cause or isinstance(error.__cause__, ImportError):
            raise MissingExtra("imagecodecs", "microscopy", f"{path}, which is compressed,") from error
        if "pylibjpeg" in cause:
            raise InputError(
                f"{path} is compressed in a way that needs a codec: pip install 'pylibjpeg[all]'"
            ) from error
        raise


def is_deep(path: Path) -> bool:
    """Whether an image file has pages, channels or more than 8 bits, which Pillow would leave out."""
    from PIL import Image

    if extension_of(path).lower() in (*INSTRUMENTS, *ARRAYS):
        return True
    if path.suffix.lower() not in (*TIFF, ".png"):
        return False
    try:
        with Image.open(path) as image:
            return bool(deep(image)) or (
                image.format == "TIFF" and (planes_of(image) > 1 or image.mode in ("I", "CMYK") or FEI in image.tag_v2)  # type: ignore[attr-defined]
            )
    except Exception:  # damaged headers raise all kinds
        return path.suffix.lower() in TIFF


def image_file(path: Path) -> ImageFile:
    """The header of an image file, by the reader of its ending."""
    entry = find("reader", "ome-zarr") if path.is_dir() else by_ending().get(extension_of(path).lower())
    header = None if entry is None else entry.tag("header")
    header = header or next((e.tag("header") for e in recognized(path) if e.tag("header")), None)
    return (header or find("reader", "tiff").tag("header"))(path)


@dataclass(frozen=True)
class Stack:
    """The images of files, all of one shape and type, with the channels that were chosen."""

    files: list[ImageFile]
    chosen: list[int] | None
    names: list[str]  # of the chosen channels; empty: no file has names
    side: int | None  # to which images are cropped and resized

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """That of all images, (n, H, W, C)."""
        first = self.files[0]
        height, width = first.sides if self.side is None else (self.side, self.side)
        return self.count, height, width, first.channels if self.chosen is None else len(self.chosen)

    @property
    def count(self) -> int:
        return sum(file.count for file in self.files)

    @property
    def dtype(self) -> np.dtype[Any]:
        """uint8, uint16 or float32, which has the values of other types."""
        given = self.files[0].dtype
        whole = given.kind in "bu" and given.itemsize <= 2
        return np.dtype(Images.samples.dtype if given.kind == "b" else given) if whole else np.dtype(np.float32)

    @property
    def micrometers(self) -> float | None:
        """Side of a pixel, if all files have the same one."""
        sides = {file.micrometers for file in self.files}
        return sides.pop() if len(sides) == 1 and self.side is None else None

    def images(self) -> Iterator[np.ndarray]:
        """The images in order, (H, W, C) each."""
        for found in read_each(self.files, ImageFile.images):
            for image in map(self.of_channels, found):
                yield image if self.side is None else square(image, self.side)

    def of_channels(self, image: np.ndarray) -> np.ndarray:
        """The chosen channels of an image (H, W, C), in the type of the samples."""
        image = image if self.chosen is None else image[..., self.chosen]
        return image.astype(self.dtype, copy=False)

    def row_names(self, names: Sequence[str]) -> list[str]:
        """Names of the images: those of their files, with numbers where a file has several."""
        both = zip(self.files, names, strict=True)
        return [name if file.count == 1 else f"{name}#{i}" for file, name in both for i in range(file.count)]

    def described(self, source_name: object) -> str:
        """A line about the files and how their axes are read."""
        first, channels = self.files[0], self.shape[3]
        named = f" ({name_list(self.names, 8)})" if self.names else ""
        others = [letter for letter in first.axes if first._counts(letter)]
        each = f", each of {' and '.join(others)} an image" if first.count > 1 else ""
        kept = "" if self.dtype == first.dtype else f", as {self.dtype}"
        further = [size_of(size) for size in dict.fromkeys(file.sides for file in self.files) if size != first.sides]
        kept += f", others of {name_list(further, 4)}" if further else ""
        sizes = [f"--level {i}: {size_of(each.sides)}" for i, each in enumerate(first.smaller, first.level + 1)]
        smaller = f"; smaller ones: {name_list(sizes, 8)}" if sizes else ""
        lost = next((file for file in self.files if file.left_out), first)
        of = "" if lost is first else f" of {lost.path.name}"
        left_out = f"; left out{of}: {lost.left_out}" if lost.left_out else ""
        return (
            f"{source_name}: {pluralize(len(self.files), 'file')} {first.described()}{kept}: "
            f"{pluralize(self.count, 'image')} of {pluralize(channels, 'channel')}{named}{each}{smaller}{left_out}"
        )


@dataclass(frozen=True)
class _Planes:
    """Images of one channel each as one array whose first axis is the channel, of which windows are read."""

    each: Sequence[Any]

    def __getitem__(self, key: tuple[Any, ...]) -> np.ndarray:
        return np.stack([np.asarray(plane[key[1:]]) for plane in self.each])


@dataclass(frozen=True)
class _Enlarged:
    """An image of which each pixel is a square of `times` pixels, as an array of which windows are read."""

    image: Any
    both: Sequence[int]  # the axes of rows and columns
    times: int

    def __getitem__(self, key: tuple[Any, ...]) -> np.ndarray:
        n, at = self.times, list(key)
        for axis in self.both:
            at[axis] = slice(key[axis].start // n, -(-key[axis].stop // n))
        x = np.asarray(self.image[tuple(at)])
        for axis in self.both:
            before = sum(not isinstance(each, slice) for each in key[:axis])  # numbers leave no axis
            first, length = key[axis].start % n, key[axis].stop - key[axis].start
            x = np.repeat(x, n, axis - before).take(range(first, first + length), axis - before)
        return x


def channels_joined(
    files: Sequence[Path], names: Sequence[str], pattern: str, source_name: str, left_out: Container[Path] = ()
) -> tuple[list[ImageFile], list[str], list[int]]:
    """Images whose channels are files of their own, their names, and for each the number of its first file: files with
    equal fields of a pattern such as ``{well}_w{channel}.tif`` but the channel are one image. Images with a file that
    is left out are left out."""
    fields = re.findall(r"\{(\w+)\}", pattern)
    if fields.count("channel") != 1 or len(set(fields)) < len(fields):
        raise InputError(
            f"channel_files is {one_line(pattern, 60)!r}, expected a pattern of names with {{channel}} and other "
            "fields, such as '{well}_w{channel}.tif'"
        )
    pieces = re.split(r"\{(\w+)\}", pattern)
    # The name of the channel is as short as it can be: of A_1_DNA.tif, {well}_{channel}.tif has the channel DNA.
    lazy = {"channel": "?"}
    plain = [re.escape(piece).replace(r"\*", "[^/]*") for piece in pieces]
    compiled = "".join(f"(?P<{p}>[^/]+{lazy.get(p, '')})" if i % 2 else plain[i] for i, p in enumerate(pieces))
    whole = "/" in pattern
    samples: dict[tuple[str, ...], dict[str, int]] = {}
    for number, name in enumerate(names):
        if found := re.fullmatch(compiled, name if whole else name.rpartition("/")[2]):
            folder = () if whole else (name.rpartition("/")[0],)
            key = (*folder, *(found[each] for each in fields if each != "channel"))
            first = samples.setdefault(key, {}).setdefault(found["channel"], number)
            if first != number:
                both = f"{names[first]} and {name} are the same channel of an image"
                raise InputError(f"{both} by {one_line(pattern, 60)!r}: give what differs a field")
    if not samples:
        raise InputError(f"{source_name} has no file such as {one_line(pattern, 60)!r}, for instance not {names[0]}")
    channels = sorted({c for of in samples.values() for c in of}, key=lambda c: (not c.isdecimal(), c.zfill(9), c))
    for key, of in samples.items():
        name = "_".join(part for part in key if part)
        if lacking := [c for c in channels if c not in of]:
            raise InputError(
                f"{source_name}: {name} has no file of channel {name_list(lacking)}, expected {name_list(channels)} of "
                "every sample: leave its other files out, or give * for a part of a name that goes with the channel"
            )
    if others := len(files) - sum(map(len, samples.values())):
        warn(f"{source_name}: {pluralize(others, 'file')} of another name than {pattern}, left out")
    samples = {key: of for key, of in samples.items() if not any(files[i] in left_out for i in of.values())}
    used = [files[i] for of in samples.values() for i in of.values()]
    headers = dict(zip(used, read_each(used, image_file), strict=True))
    own = [{headers[files[of[c]]].channels > 1 for of in samples.values()} for c in channels]
    if colored := [c for c, of in zip(channels, own, strict=True) if of == {True} and {False} in own]:
        say(f"{source_name}: {name_list(colored)} of {pattern} is a picture in color, and no channel: left out")
        channels = [c for c in channels if c not in colored]
    joined = [_joined([headers[files[of[c]]] for c in channels], channels) for of in samples.values()]
    of, finest = next(iter(samples.values())), joined[0].sides
    if small := [f"{c} ({size_of(side)})" for c in channels if (side := headers[files[of[c]]].sides) != finest]:
        say(f"{source_name}: channels {name_list(small, 20)} are enlarged to {size_of(finest)}")
    titles = ["_".join(part for part in key if part) or Path(source_name).name for key in samples]
    return joined, titles, [min(of.values()) for of in samples.values()]


#: Names of files of one channel each: what tells the image, the mark, the channel and what follows; and their pattern.
CHANNEL_NAMES = (
    # _w1.tif, -ch1sk1fk1fl1.tiff of Operetta
    (r"(.+)([_-](?i:w|c|ch|channel|d))(\d+)((?!\d)[\w.]+)", "{name}MARK{channel}END"),
    # _B02.tif or _B8A.tif of satellites
    (r"(.+)([_-]B)(\d\w)(\.[\w.]+)", "{name}MARK{channel}END"),
    # _DNA.tif
    (r"(.+)([_-])([A-Za-z]+)(\.[\w.]+)", "{name}MARK{channel}END"),
    # D03f00d0.tif of Cellomics
    (r"(.+f\d+)(d)(\d)(\.\w+)", "{name}MARK{channel}END"),
    # A01_s1_w1 and 36 letters that differ of ImageXpress
    (r"(.+)(_w)(\d)[0-9A-Fa-f]{8}-[0-9A-Fa-f-]{27}(\.\w+)", "{name}MARK{channel}*END"),
    # _T0001F001L01A02Z01C02.tif of CellVoyager, where A goes with the channel
    (r"(.+L\d+)A\d+Z\d+(C)(\d+)(\.\w+)", "{name}A*Z{plane}MARK{channel}END"),
    # img_000000000_DAPI_000.tif of Micro-Manager
    (r"(img_\w*\d)(_)([A-Za-z][A-Za-z0-9-]*)(_\d+\.\w+)", "{name}MARK{channel}END"),
)


def channels_hint(names: Sequence[str]) -> str:
    """What a line about images of one channel adds if their names say that each channel is a file of its own."""
    for form, pattern in CHANNEL_NAMES:
        found = [each for name in names if (each := re.fullmatch(form, name))]
        of: dict[tuple[str, str], set[str]] = {}
        for each in found:
            of.setdefault((each[1], each[2]), set()).add(each[3])
        channels, ends = next(iter(of.values()), set()), {each[4] for each in found}
        alike = len(ends) == 1 and all(each == channels for each in of.values())
        if len(found) == len(names) and len(of) > 1 and len(channels) > 1 and alike:
            mark = found[0][2]
            marks = name_list([f"{mark}{channel}" for channel in sorted(channels)])
            pattern = pattern.replace("MARK", mark).replace("END", ends.pop())
            return f"; if {marks} are channels of an image: --channel-files '{pattern}'"
    return ""


def _joined(planes: Sequence[ImageFile], channels: Sequence[str]) -> ImageFile:
    """The image of files with a channel each; coarser ones, as satellites have, are enlarged to the finest."""
    first = max(planes, key=lambda plane: plane.sides)
    times = [first.sides[0] // plane.sides[0] for plane in planes]
    whole = [plane if n == 1 else _enlarged(plane, n) for plane, n in zip(planes, times, strict=True)]
    for plane, same in zip(planes, whole, strict=True):
        if plane.channels > 1 or (same.shape, same.axes, same.dtype) != (first.shape, first.axes, first.dtype):
            raise InputError(
                f"{plane.path} is {plane.described()}, and {first.path.name} {first.described()}: expected files of "
                "one channel, of one depth, whose sizes are equal or a whole number of times smaller (channel_files)"
            )
    return replace(
        first,
        shape=(len(planes), *first.shape),
        axes="C" + first.axes,
        names=tuple(channels),
        pixels=lambda: np.stack([plane.open_whole() for plane in whole]),
        opened=lambda: _Planes([plane.open() for plane in whole]),
        smaller=(),
    )


def _enlarged(plane: ImageFile, times: int) -> ImageFile:
    """An image of which each pixel is a square of that many pixels."""
    both = [i for i, letter in enumerate(plane.axes) if letter in "YX"]
    shape = tuple(size * times if i in both else size for i, size in enumerate(plane.shape))
    every = tuple(slice(0, size) for size in shape)
    return replace(
        plane,
        shape=shape,
        pixels=lambda: _Enlarged(plane.open_whole(), both, times)[every],
        opened=lambda: _Enlarged(plane.open(), both, times),
        smaller=(),
    )


@dataclass(frozen=True)
class _InColor:
    """A gray image as one in color with equal channels, of which windows are read."""

    image: Any

    def __getitem__(self, key: tuple[Any, ...]) -> np.ndarray:
        return np.repeat(np.asarray(self.image[key[:-1]])[..., None], 3, axis=-1)


def _alike(files: Sequence[ImageFile]) -> list[ImageFile]:
    """Files, of which gray photographs beside ones in color are as these."""
    photographs = all(is_photograph((*file.sides, file.channels), file.dtype) for file in files)
    if not photographs or {(file.axes, file.channels) for file in files} != {("YX", 1), ("YXS", 3)}:
        return list(files)
    return [file if file.channels == 3 else _in_color(file) for file in files]


def _in_color(file: ImageFile) -> ImageFile:
    """A gray file as one in color."""
    return replace(
        file,
        shape=(*file.shape, 3),
        axes="YXS",
        pixels=lambda: _InColor(file.open_whole())[(slice(None),) * 3],
        opened=lambda: _InColor(file.open()),
    )


def stack_of(
    files: Sequence[Path | ImageFile], request: DataOptions, side: int | None, *, any_size: bool = False
) -> Stack:
    """The images of files, of which only the headers are read; raises InputError unless they are alike."""
    signal = (request.schema or {}).get("signal", {})
    axes = request.axes or signal.get("axes")
    headers = list(read_each(files, lambda file: image_file(file) if isinstance(file, Path) else file))
    level = request.level if request.level is not None else signal.get("level", 0)
    found = _alike([file.with_axes(axes, alone=len(files) == 1).at_level(level) for file in headers])
    first = found[0]
    for file in found:
        if file.dtype.kind == "c":
            line = f"; {command(file.path, named('amplitude'))}" if file.path.suffix.lower() in TIFF else ""
            raise InputError(f"{file.path} has complex numbers: save their amplitudes, np.abs(x), as floats{line}")
        if file.dtype != first.dtype:
            raise InputError(
                f"{file.path} is {file.dtype}, and {first.path.name} {first.dtype}: expected one depth; give files "
                "of one instrument and setting, or save all with one"
            )
        if file.channels != first.channels:
            raise InputError(
                f"{file.path} has {pluralize(file.channels, 'channel')} ({file.described()}), and {first.path.name} "
                f"{first.channels} ({first.described()}): expected the same; leave it out, or "
                "say what the axes are (--axes)"
            )
        if min(file.sides) < SMALLEST_SIDE:
            raise InputError(
                f"{file.path} has {size_of(file.sides)} ({file.described()}), expected at least 4 x 4 pixels; leave it "
                "out, or say what the axes are (--axes)"
            )
    if side is None and not any_size:
        side = common_side([file.sides for file in found], first.path.parent, fitted=request.schema is not None)
    names = list(first.names) if all(file.names == first.names for file in found) else []
    wanted = request.channels or signal.get("wanted")
    chosen = None if wanted is None else [_channel(str(each), names, first) for each in wanted]
    return Stack(found, chosen, names if chosen is None or not names else [names[i] for i in chosen], side)


def in_memory(stack: Stack, source_name: str) -> np.ndarray:
    """The images of a stack, uint8, uint16 or float32 (n, H, W, C)."""
    advice = "give fewer files, or a smaller image_size (--image-size)"
    check_size(stack.dtype.itemsize * math.prod(stack.shape), f"{source_name}: {stack.count:,} images", advice)
    x = np.empty(stack.shape, stack.dtype)
    for row, image in zip(x, stack.images(), strict=True):
        row[:] = image
    names = stack.row_names([file.path.name for file in stack.files])
    checked = zip(names, x, strict=True) if stack.dtype.kind == "f" else ()
    if wrong := [name for name, row in checked if not np.isfinite(row).all()]:
        raise InputError(
            f"{source_name}: values that are not finite (NaN) in {pluralize(len(wrong), 'image')} of {len(x):,}: "
            f"{name_list(wrong)}; leave them out, or fill these values"
        )
    same = x.min(axis=(1, 2)) == x.max(axis=(1, 2))
    same &= ~same.all(axis=0)  # of channels without any image the fit speaks
    if (empty := np.flatnonzero(same.any(axis=1))).size:
        shown = [f"{names[i]} (channel {', '.join(map(str, np.flatnonzero(same[i])))})" for i in empty[:3]]
        warn(
            f"{source_name}: {pluralize(len(empty), 'image')} of {len(x):,} with one value everywhere in a channel: "
            f"{', '.join(shown)}{', ...' if len(empty) > 3 else ''}"
        )
    return x


def _channel(wanted: str, names: list[str], file: ImageFile) -> int:
    """The number of a channel, by name or by number from 0."""
    if wanted in names:
        return names.index(wanted)
    if wanted.isdecimal() and int(wanted) < file.channels:
        return int(wanted)
    hint = suggest(wanted, names, "its channels are") if names else f"it has {file.channels}, from 0, without names"
    raise InputError(f"{file.path} has no channel {one_line(wanted, 60)!r}, given as channels; {hint}")


def wholes_of(files: Sequence[ImageFile]) -> dict[str, Any]:
    """Fields of `FileContents`: the file, or the patient, of each image, if some have several images."""
    known = [file.patient or f"file {i}" for i, file in enumerate(files)]
    of_file = np.repeat(np.unique(known, return_inverse=True)[1], [file.count for file in files])
    if len(np.unique(of_file)) == len(of_file):
        return {}
    return {"of_file": of_file, "whole": "patient" if any(file.patient for file in files) else "file"}


def contents_of(stack: Stack, x: Any, request: DataOptions, names: Sequence[str], **more: Any) -> FileContents:
    """What a reader returns of a stack whose images are `x`, and whose files have these names."""
    signal: dict[str, Any] = {name: getattr(request, name) for name in ("axes", "level", "channel_files")}
    signal["wanted"] = None if request.channels is None else list(request.channels)
    signal |= {"channel_names": stack.names or None, "micrometers": stack.micrometers}
    options: dict[str, Any] = {"signal": {name: value for name, value in signal.items() if value is not None}}
    options |= {} if stack.side is None else {"image_size": stack.side}
    found: dict[str, Any] = {"options": options, "row_names": stack.row_names(names), "modality": "images"}
    found |= wholes_of(stack.files)
    return FileContents(x, **(found | more))
