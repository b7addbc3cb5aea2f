"""Image files of instruments: TIFF of any depth, pages and channels (also OME and BigTIFF) by tifffile, PNG of 16 bits.

Files are read plane for plane as they are: nothing is converted to 8 bits. Axes are letters, those of tifffile: Y rows,
X columns, C and S channels, any other one (Z, T, ...) counts images.
"""

import contextlib
import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, MissingExtra, name_list, one_line, pluralize, require, say, suggest
from viewsmith.core.memory import check_size
from viewsmith.data.formats import reader
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import FileContents, reading
from viewsmith.data.unread import TIFF, deep, planes_of, tiles_of

OPTIONS = ("axes", "channels", "image_size")
CHANNELS = "CS"  # letters of axes that are channels
UNKNOWN = "QI"  # letters of axes of which a file does not say what they are
SMALLEST_SIDE = 4


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
    count: int = field(default=1)  # images in it

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
        count = math.prod(size for size, letter in zip(self.shape, found, strict=True) if letter not in f"YX{CHANNELS}")
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
        with _reading(self.path, "an image"):
            x = self.pixels()
            if x.shape != self.shape:
                raise ValueError(f"its pixels have the shape {x.shape}, and its header {self.shape}")
        order = [letter for letter in self.axes if letter not in f"YX{CHANNELS}"] + ["Y", "X"]
        order += [letter for letter in self.axes if letter in CHANNELS]
        x = x.transpose([self.axes.index(letter) for letter in order])
        return x.reshape(self.count, *self.sides, self.channels)

    def described(self) -> str:
        """Axes, shape and type."""
        return f"{self.axes} {' x '.join(map(str, self.shape))} {self.dtype}"


@contextlib.contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """`reading`, with the extra that has a missing codec."""
    try:
        with reading(str(path), kind):
            yield
    except InputError as error:
        if "imagecodecs" not in str(error.__cause__):
            raise
        raise MissingExtra("imagecodecs", "microscopy", f"{path}, which is compressed,") from error


def is_deep(path: Path) -> bool:
    """Whether an image file has pages, channels or more than 8 bits, which Pillow would leave out."""
    from PIL import Image

    if path.suffix.lower() not in (*TIFF, ".png"):
        return False
    try:
        with Image.open(path) as image:
            return bool(deep(image)) or (
                image.format == "TIFF" and (planes_of(image) > 1 or image.mode in ("I", "CMYK"))
            )
    except Exception:  # damaged headers raise all kinds
        return path.suffix.lower() in TIFF


def image_file(path: Path) -> ImageFile:
    """The header of an image file of an instrument."""
    return _tiff(path) if path.suffix.lower() in TIFF else _png(path)


def _tiff(path: Path) -> ImageFile:
    require("tifffile", "microscopy", "reading TIFF files of instruments")
    import tifffile

    with _reading(path, "a TIFF file"), tifffile.TiffFile(path) as file:
        series = file.series
        shapes = list(dict.fromkeys(tuple(each.shape) for each in series))
        if len(shapes) > 1:
            raise InputError(
                f"{path} has images of different shapes, such as {shapes[0]} and {shapes[1]}, expected pages of one: "
                "save them as files of their own"
            )
        first, side = series[0], None
        names: list[str] = []
        if file.ome_metadata:
            names, side = _ome(file.ome_metadata)
        elif file.imagej_metadata:
            labels = file.imagej_metadata.get("Labels") or []
            names = [str(label) for label in labels]
        axes, shape = str(first.axes), tuple(map(int, first.shape))
        if len(series) > 1:  # images of one shape that no axis joins
            axes, shape = "I" + axes, (len(series), *shape)
        dtype = np.dtype(first.dtype).newbyteorder("=")

    def pixels() -> np.ndarray:
        with tifffile.TiffFile(path) as file:
            parts = [each.asarray() for each in file.series]
        return parts[0] if len(parts) == 1 else np.stack(parts)

    found = ImageFile(path, shape, axes, dtype, pixels, micrometers=side)
    channels = math.prod(size for size, letter in zip(shape, axes, strict=True) if letter in CHANNELS)
    return replace(found, names=tuple(names)) if len(names) == channels else found


def _ome(text: str) -> tuple[list[str], float | None]:
    """Names of the channels, and the side of a pixel in micrometers, of OME metadata."""
    root = ElementTree.fromstring(text)
    pixels = next((each for each in root.iter() if each.tag.endswith("}Pixels") or each.tag == "Pixels"), None)
    if pixels is None:
        return [], None
    names = [str(each.get("Name") or "") for each in pixels if each.tag.rpartition("}")[2] == "Channel"]
    side = pixels.get("PhysicalSizeX")
    in_micrometers = pixels.get("PhysicalSizeXUnit", "µm") in ("µm", "μm", "um")
    return (names if all(names) else []), float(side) if side and in_micrometers else None


def _png(path: Path) -> ImageFile:
    from PIL import Image

    with reading(str(path), "an image"), Image.open(path) as image:
        wide, gray, (width, height) = bool(deep(image)), image.mode[0] == "I" or image.mode in ("1", "L"), image.size
    dtype = np.dtype(np.uint16 if wide else np.uint8)
    if gray:

        def plane() -> np.ndarray:
            with Image.open(path) as image:
                return np.asarray(image.convert("L") if image.mode == "1" else image).astype(dtype)

        return ImageFile(path, (height, width), "YX", dtype, plane)
    if wide:
        require("imagecodecs", "microscopy", f"{path}, a PNG file of 16-bit colors,")

    def colors() -> np.ndarray:
        import imagecodecs

        return np.asarray(imagecodecs.png_decode(path.read_bytes()))

    with reading(str(path), "an image"):
        shape = colors().shape
    return ImageFile(path, shape, "YXS", dtype, colors)


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
        return np.dtype(np.uint8 if given.kind == "b" else given) if whole else np.dtype(np.float32)

    @property
    def micrometers(self) -> float | None:
        """Side of a pixel, if all files have the same one."""
        sides = {file.micrometers for file in self.files}
        return sides.pop() if len(sides) == 1 and self.side is None else None

    def images(self) -> Iterator[np.ndarray]:
        """The images in order, (H, W, C) each."""
        for file in self.files:
            for image in file.images():
                image = image if self.chosen is None else image[..., self.chosen]
                image = image.astype(self.dtype, copy=False)
                yield image if self.side is None else _square(image, self.side)

    def row_names(self, names: Sequence[str]) -> list[str]:
        """Names of the images: those of their files, with numbers where a file has several."""
        both = zip(self.files, names, strict=True)
        return [name if file.count == 1 else f"{name}#{i}" for file, name in both for i in range(file.count)]

    def described(self, source_name: object) -> str:
        """A line about the files and how their axes are read."""
        first, channels = self.files[0], self.shape[3]
        named = f" ({name_list(self.names, 8)})" if self.names else ""
        others = [letter for letter in first.axes if letter not in f"YX{CHANNELS}"]
        each = f", each of {' and '.join(others)} an image" if first.count > 1 else ""
        kept = "" if self.dtype == first.dtype else f", as {self.dtype}"
        return (
            f"{source_name}: {pluralize(len(self.files), 'file')} {first.described()}{kept}: "
            f"{pluralize(self.count, 'image')} of {pluralize(channels, 'channel')}{named}{each}"
        )


def stack_of(files: Sequence[Path], request: DataOptions, side: int | None, *, any_size: bool = False) -> Stack:
    """The images of files, of which only the headers are read; raises InputError unless they are alike."""
    signal = (request.schema or {}).get("signal", {})
    axes = request.axes or signal.get("axes")
    found = [image_file(path).with_axes(axes, alone=len(files) == 1) for path in files]
    first = found[0]
    for file in found:
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
            raise InputError(f"{file.path} has {_size(file.sides)}, expected at least 4 x 4 pixels; leave it out")
        if side is None and not any_size and file.sides != first.sides:
            raise InputError(
                f"{file.path} has {_size(file.sides)} and {first.path.name} has {_size(first.sides)}, expected images "
                "of the same size; resize them, or let their center squares be cropped and resized with image_size "
                "(--image-size)"
            )
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
    return x


def write_tiff(path: Path, image: np.ndarray) -> None:
    """Write an image (H, W, C) as a TIFF file that the reader takes."""
    require("tifffile", "microscopy", "writing TIFF files")
    import tifffile

    planes = image[..., 0] if image.shape[2] == 1 else np.ascontiguousarray(image.transpose(2, 0, 1))
    axes = "YX" if planes.ndim == 2 else "CYX"
    tifffile.imwrite(path, planes, photometric="minisblack", metadata={"axes": axes})


def _channel(wanted: str, names: list[str], file: ImageFile) -> int:
    """The number of a channel, by name or by number from 0."""
    if wanted in names:
        return names.index(wanted)
    if wanted.isdecimal() and int(wanted) < file.channels:
        return int(wanted)
    hint = suggest(wanted, names, "its channels are") if names else f"it has {file.channels}, from 0, without names"
    raise InputError(f"{file.path} has no channel {one_line(wanted, 60)!r}, given as channels; {hint}")


def contents_of(stack: Stack, x: Any, request: DataOptions, names: Sequence[str], **more: Any) -> FileContents:
    """What a reader returns of a stack whose images are `x`, and whose files have these names."""
    signal: dict[str, Any] = {
        "axes": request.axes,
        "wanted": None if request.channels is None else list(request.channels),
    }
    signal |= {"channel_names": stack.names or None, "micrometers": stack.micrometers}
    options: dict[str, Any] = {"signal": {name: value for name, value in signal.items() if value is not None}}
    options |= {} if stack.side is None else {"image_size": stack.side}
    return FileContents(x, options=options, row_names=stack.row_names(names), modality="images", **more)


def _square(image: np.ndarray, side: int) -> np.ndarray:
    """The center square of an image (H, W, C), resized, in its type."""
    from PIL import Image

    square = min(image.shape[:2])
    top, left = ((size - square) // 2 for size in image.shape[:2])
    center = image[top : top + square, left : left + square].astype(np.float32)
    planes = [
        Image.fromarray(plane).resize((side, side), Image.Resampling.BILINEAR) for plane in center.transpose(2, 0, 1)
    ]
    resized = np.stack([np.asarray(plane) for plane in planes], axis=2)
    return resized if image.dtype.kind == "f" else np.rint(resized).astype(image.dtype)


def _size(shape: tuple[int, int]) -> str:
    return f"{shape[0]} x {shape[1]} pixels"


@reader(
    "tiff",
    *TIFF,
    help="a TIFF or OME-TIFF file with several images, of any depth and channels",
    noun="a TIFF file",
    modality="images",
    options=OPTIONS,
    extra="microscopy",
    example="stack.ome.tif --axes ZCYX --channels DNA,0",
)
def read_tiff(path: Path, request: DataOptions) -> FileContents:
    """The images of one file: all but rows, columns and channels counts them."""
    request.check_no_table_options(str(path))
    stack = stack_of([path], request, request.or_fitted("image_size"))
    if stack.count < 2 and request.schema is None:
        raise InputError(f"{path} is one image ({stack.files[0].described()}), expected several: {tiles_of(path)}")
    if request.schema is None:
        say(stack.described(path))
    return contents_of(stack, in_memory(stack, str(path)), request, [path.name])
