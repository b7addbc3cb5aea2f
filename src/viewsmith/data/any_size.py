"""Samples for discovery: images of any sizes, sequences, recordings; without torch, which is slow to import."""

import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from viewsmith.core.errors import InputError, name_list, pluralize, require, say
from viewsmith.core.files import check_regular
from viewsmith.core.rows import stamp
from viewsmith.data.damaged import look_at_all, without_damaged
from viewsmith.data.dataset import Tiles, Windows
from viewsmith.data.decoding import is_color, on_white
from viewsmith.data.image_files import ImageFile, channels_joined, is_deep, stack_of
from viewsmith.data.options import DataOptions
from viewsmith.data.places import BUILTIN, extension_of
from viewsmith.data.readers.folders import SUFFIXES, image_files
from viewsmith.data.reading import by_ending, find_reader, is_table, reading
from viewsmith.data.sounds import SOUNDS
from viewsmith.data.sources import check_effect, load_dataset
from viewsmith.data.tiles import TileRows, check_tiled
from viewsmith.data.unread import refuse_folder
from viewsmith.modalities.base import modality_of
from viewsmith.modalities.images.modality import MOST_CHANNELS, Images

REMEMBERED = 2**25  # bytes of reduced images
DECODED = 2**25  # bytes of images that are decoded once


@dataclass(frozen=True)
class ImageList:
    """Images of any sizes, read one by one."""

    shapes: list[tuple[int, int]]  # height and width of each
    # Image i, (height, width, channels), reduced to a size (height, width) if that is given.
    read: Callable[[int, tuple[int, int] | None], np.ndarray]
    channels: int
    contents: Callable[[], Iterable[bytes]] = tuple  # what tells them from others, for the cache of their features
    names: Sequence[str] = ()
    dtype: str = Images.samples.dtype
    files: Sequence[Path] = ()  # of photographs (JPEG)
    keys: Sequence[bytes] = ()  # `pixel_key` of each, if they are known

    def __len__(self) -> int:
        return len(self.shapes)

    @cached_property
    def order(self) -> np.ndarray:
        """Their numbers in the order of their files, or of their pixels, see `by_content`."""
        if self.files:
            return by_content(np.fromfile(file, np.ubyte) for file in self.files)
        return _sorted(self.keys or [pixel_key(self.read(i, None)) for i in range(len(self))])

    def remembered(self) -> "ImageList":
        """The same images, of which those that were read reduced stay in memory, up to `REMEMBERED` bytes."""
        kept: dict[tuple[int, tuple[int, int]], np.ndarray] = {}

        def read(i: int, size: tuple[int, int] | None) -> np.ndarray:
            if size is None or (i, size) in kept:
                return self.read(i, None) if size is None else kept[i, size]
            image = self.read(i, size)
            if (1 + len(kept)) * image.nbytes <= REMEMBERED:
                kept[i, size] = image
            return image

        return replace(self, read=read)


def by_content(samples: Iterable[np.ndarray]) -> np.ndarray:
    """Numbers of samples in an order that depends on nothing but what is in them: what is drawn of samples in this
    order is the same whatever order they are given in."""
    return _sorted([_key(x) for x in samples])


def pixel_key(image: np.ndarray) -> bytes:
    """A digest of an image (h, w, C), of a large one of every second pixel or so, the same at any depth."""
    some = image[:: 1 + image.shape[0] // 512, :: 1 + image.shape[1] // 512]
    return _key(some / np.float32(max(some.max(), 1e-30)))


def _key(x: np.ndarray) -> bytes:
    return blake2b(np.ascontiguousarray(x).data).digest()


def _sorted(keys: Sequence[bytes]) -> np.ndarray:
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), int)


def as_images(X: Any) -> ImageList:
    """Images as an array (n, H, W) or (n, H, W, C), a list of images of one type and any sizes, or `ImageList`."""
    if isinstance(X, ImageList):
        return X
    expected = (
        f"expected images of {Images.samples.dtype}, uint16 or floats, (n, H, W, C) or of whole numbers (n, H, W), "
    )
    expected += "or a list of images of any sizes (recordings: modality='series')"
    if isinstance(X, np.ndarray) and X.ndim == 3 and X.dtype.kind == "f":
        raise InputError(f"the data are {X.dtype} of shape {X.shape}, {expected}")
    images = list(X) if isinstance(X, list | tuple | np.ndarray) else []
    images = [np.asarray(image) if hasattr(image, "__array_interface__") else image for image in images]  # of Pillow
    for i, image in enumerate(images):
        given = f"{getattr(image, 'dtype', type(image).__name__)} of shape {np.shape(image)}"
        plain = isinstance(image, np.ndarray) and (image.dtype.kind == "f" or Images.samples.is_type(image.dtype))
        if not plain or not (image.ndim == 2 or (image.ndim == 3 and 1 <= image.shape[2] <= MOST_CHANNELS)):
            raise InputError(f"sample {i} is {given}, {expected}")
        if image.dtype != images[0].dtype:
            raise InputError(f"sample {i} is {given}, and the first one {images[0].dtype}: expected one depth")
    if wrong := [i for i, image in enumerate(images) if image.dtype.kind == "f" and not np.isfinite(image).all()]:
        raise InputError(
            f"{pluralize(len(wrong), 'image')} of {len(images):,} with missing (NaN) or infinite values (counted from "
            f"0): {name_list(wrong)}; leave them out, or fill the values"
        )
    if not images:
        raise InputError(f"the data are of type {type(X).__name__} without images, {expected}")
    found = sorted({image.shape[2] if image.ndim == 3 else 1 for image in images})
    channels = found[-1]
    if len(found) > 1 and found != [1, 3]:
        raise InputError(f"the images have {found[0]} and {channels} channels, expected the same in all")
    dtype = images[0].dtype.name if images[0].dtype.kind == "u" else "float32"

    def read(i: int, size: tuple[int, int] | None) -> np.ndarray:
        image = (images[i] if images[i].ndim == 3 else images[i][..., None]).astype(dtype, copy=False)
        image = np.broadcast_to(image, (*image.shape[:2], channels))
        return image if size is None else reduced(image, size)

    shapes = [image.shape[:2] for image in images]
    return ImageList(shapes, read, channels, lambda: (image.tobytes() for image in images), dtype=dtype)


def reduced(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """An image (H, W, C) in another size and its type, each pixel the mean of those that it covers."""
    if image.shape[:2] == size:
        return image
    import torch

    x = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float()  # a copy, for torch wants to write
    y = torch.nn.functional.interpolate(x, size=size, mode="bilinear", antialias=True, align_corners=False)
    pixels = y[0].permute(1, 2, 0).numpy()
    return pixels if image.dtype.kind == "f" else np.rint(pixels).clip(0, np.iinfo(image.dtype).max).astype(image.dtype)


EXPECTED = {
    "images": f"images (a folder of image files, or an array {Images.samples.dtype})",
    "dna": "DNA",
    "proteins": "proteins (FASTA files)",
    "series": "recordings (--modality series)",
}


def _is_letters(modality: str) -> bool:
    return modality != "auto" and modality_of(modality).picture == "letters"


# `Dataset.schema` of samples for a fitted model: a single one is enough, and they may have any shape.
FITTED: dict[str, Any] = {"row_shape": None, "feature_names": None, "columns": None, "drop": [], "one_hot": {}}


class Samples(NamedTuple):
    """What `read_samples` returns."""

    rows: Any
    names: list[str] | None
    modality: str
    windows: Windows | Tiles | None = None
    rna: bool = False


def read_samples(
    data: str,
    modality: str = "auto",
    fitted: bool = False,
    as_before: Mapping[str, Any] = MappingProxyType({}),
    **read: Any,
) -> Samples:
    """Samples for `Discovery` (images of any sizes, sequences, recordings (n, T)), names if any, modality, of windows
    of recordings where they are, and whether they are RNA; `read` has options of `load_dataset`, such as the length of
    windows, and `as_before` those of the data of a fitted discovery."""
    path = Path(data)
    tile, folder = read.get("tile"), path.is_dir() and modality in ("auto", "images") and path.suffix != ".zarr"
    whole = (folder and "images" in find_reader(path).modalities) or (modality in ("auto", "images") and _is_one(path))
    if whole and tile is None and read.get("masks") is None:
        check_effect(data, (request := DataOptions(**read).checked()), find_reader(path))
        check_tiled(request)
        if request.alphabet is not None:
            raise InputError(f"{data} has images, on which alphabet={request.alphabet} has no effect; leave it out")
        before = {**as_before, **read}
        given = {name: before[name] for name in ("axes", "channels", "channel_files", "level") if name in before}
        images = _folder(path, DataOptions(**given))
        return Samples(images, list(images.names), "images")
    series = modality == "series"
    of_rows = is_table(path) or path.suffix.lower() in (".npy", ".npz", ".mat")
    letters = _is_letters(modality)
    several = path.is_dir() or read.get("length") is not None or (of_rows and not _one_channel(path))
    wanted = "series" if series and several else modality if letters else None
    # Rows of an array of two axes are read as vectors, in which missing values then stay NaN.
    impute: Any = "median" if series and of_rows and wanted is None else "none"
    schema = FITTED | {"modality": wanted, "impute": impute} if fitted else None
    if schema is not None and "signal" in as_before:  # sounds, as long at most as those of the discovery
        schema |= {"signal": as_before["signal"]}
        read = {name: as_before[name] for name in as_before.keys() & {"channels"}} | read
    elif data not in BUILTIN and read.get("length") != SOUNDS and "step" in (takes := _takes(path, read)):
        # Events at the seams of windows are found whole in the next ones.
        read = {"step": "50%"} | {name: as_before[name] for name in as_before.keys() & {*takes}} | read
    dataset = load_dataset(data, modality=wanted, impute=impute, schema=schema, **read)
    if isinstance(dataset.x, TileRows):
        return Samples(_tiles(dataset.x), dataset.row_names, dataset.modality, dataset.windows)
    found, x = dataset.modality, dataset.x
    if found != "series" or isinstance(x, np.ndarray):
        x = np.asarray(x)
    if series and found == "vectors":
        found = "series"
    if (found not in EXPECTED and not _is_letters(found)) or modality not in ("auto", found):
        kinds = [EXPECTED.get(modality, modality)] if fitted else list(EXPECTED.values())
        raise InputError(f"{data} has {dataset.modality}, expected {' or '.join(kinds)}")
    if _is_letters(found):
        names = dataset.row_names and [name or str(i) for i, name in enumerate(dataset.row_names)]
        return Samples(x, names, found, rna=dataset.rna)
    samples = as_images(x) if found == "images" else x[:, None] if x.ndim == 2 else x
    return Samples(samples, dataset.row_names, found, dataset.windows)


def _takes(path: Path, read: Mapping[str, Any]) -> tuple[str, ...]:
    """Options of the reader of a file; arrays have windows if their length is given."""
    found = find_reader(path)
    of_arrays = found.name in ("npy", "npz", "hdf5", "mat", "arrays")
    return () if of_arrays and read.get("length") is None else tuple(found.tag("takes"))


def _is_one(path: Path) -> bool:
    """Whether a file has one image, which is a sample."""
    if not path.is_file() or extension_of(path).lower() not in SUFFIXES:
        return False
    with reading(str(path), "an image"):
        return not is_deep(path) or stack_of([path], DataOptions(), None, any_size=True).files[0].count == 1


def _tiles(rows: TileRows) -> ImageList:
    """Tiles of scenes, read one by one."""

    def read(i: int, size: tuple[int, int] | None) -> np.ndarray:
        return rows[i] if size is None else reduced(rows[i], size)

    def contents() -> Iterator[bytes]:
        yield rows.places.tobytes()
        for file in rows.stack.files:
            yield f"{file.path} {stamp(file.path)} {rows.side} {rows.stack.chosen}".encode()

    return ImageList([(rows.side, rows.side)] * len(rows), read, rows.shape[3], contents, dtype=rows.dtype.name)


def _deep_folder(path: Path, files: list[Path], request: DataOptions, left_out: Container[Path] = ()) -> ImageList:
    """Images of instruments under a folder, each file one image."""
    from PIL import Image

    names, sources = [file.relative_to(path).as_posix() for file in files], list[Any](files)
    if request.channel_files:
        sources, names, _ = channels_joined(files, names, request.channel_files, str(path), left_out)
    stack = stack_of(sources, request, None, any_size=True)
    if several := [file.path.name for file in stack.files if file.count > 1]:
        raise InputError(
            f"{path}: {several[0]} has several images ({stack.files[0].described()}), expected one in each file: save "
            "them as files of their own"
        )
    if len(files) > 1:  # a damaged one is found before the search
        look_at_all(stack.files, ImageFile.open_whole)

    def read(i: int, size: tuple[int, int] | None) -> np.ndarray:
        image = stack.of_channels(stack.files[i].images()[0])
        if size is None or size == image.shape[:2]:
            return image
        filtered = Image.Resampling.BOX if size[0] <= image.shape[0] else Image.Resampling.BICUBIC
        channels = image.astype("f4").transpose(2, 0, 1)
        planes = [Image.fromarray(plane).resize(size[::-1], filtered) for plane in channels]
        pixels = np.stack([np.asarray(plane) for plane in planes], axis=2)
        if stack.dtype.kind == "f":
            return pixels
        return np.rint(pixels).clip(0, np.iinfo(stack.dtype).max).astype(stack.dtype)

    def contents() -> Iterator[bytes]:
        yield f"{request.axes} {request.level} {request.channel_files} {stack.chosen}".encode()
        for file in files:
            status = file.stat()
            yield f"{file.relative_to(path)} {status.st_size} {status.st_mtime_ns}".encode()

    say(stack.described(path))
    shapes = [file.sides for file in stack.files]
    return ImageList(shapes, read, stack.shape[3], contents, names, stack.dtype.name)


def _one_channel(path: Path) -> bool:
    """Whether the file has recordings of one channel, numbers (n, T)."""
    with reading(str(path), "an array"):
        if path.suffix.lower() == ".npy" and path.is_file():
            return np.load(path, mmap_mode="r", allow_pickle=False).ndim == 2
        if path.suffix.lower() == ".npz" and path.is_file():
            with np.load(path, allow_pickle=False) as content:
                return any(content[name].ndim == 2 for name in content.files if name.lower().startswith("x"))
    return False


def _folder(path: Path, request: DataOptions) -> ImageList:
    """All readable images under a folder, in the order of their names."""
    require("pillow", "image", "reading folders of images")
    given = image_files(path) if path.is_dir() else [path]
    root = path if path.is_dir() else path.parent
    if not given:
        refuse_folder(path, by_ending())
        raise InputError(f"{path} is a folder without images ({' '.join(SUFFIXES)})")

    def read_without(left_out: Container[Path]) -> ImageList:
        files = [file for file in given if file not in left_out]
        of_instruments = request.axes or request.channels or request.level or request.channel_files
        if of_instruments or is_deep(files[0]):
            return _deep_folder(root, given if request.channel_files else files, request, left_out)
        return _photographs(root, files)

    return without_damaged(given, read_without, path)


def _photographs(root: Path, files: list[Path]) -> ImageList:
    """Images of 8 bits, whose headers are read."""
    from PIL import Image, ImageOps

    found: list[tuple[bool, tuple[int, int]]] = []
    # Slow to decode, and never of another depth: these are told apart by their bytes.
    photographs = files if all(file.suffix.lower() in (".jpg", ".jpeg") for file in files) else ()
    keys: list[bytes] = []
    decoded: list[np.ndarray] = []  # of the first ones, in their own size
    spare = DECODED

    def pixels_of(image: Image.Image, color: bool, size: tuple[int, int] | None) -> np.ndarray:
        upright = on_white(ImageOps.exif_transpose(image), "RGB" if color else "L")
        if size is not None and upright.size != size[::-1]:
            smaller = size[0] <= upright.size[1]
            upright = upright.resize(size[::-1], Image.Resampling.BOX if smaller else Image.Resampling.BICUBIC)
        pixels = np.asarray(upright)
        return pixels if pixels.ndim == 3 else pixels[..., None]

    def look(file: Path) -> None:
        nonlocal spare
        with reading(str(file), "an image"):
            check_regular(file)  # opening a pipe would wait
        with reading(str(file), "an image"), warnings.catch_warnings(), Image.open(file) as image:
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # large photographs are welcome
            rotated = image.getexif().get(0x0112, 1) >= 5
            found.append((is_color(image, file, files), image.size if rotated else image.size[::-1]))
            # Decodes a small version of a JPEG file, so that a damaged one is found before the search.
            small = image.draft("RGB", (32, 32))
            image.load()
            if small is None:  # so that others are not decoded again for their order
                keys.append(pixel_key(pixels := pixels_of(image, found[-1][0], None)))
                if len(keys) == len(found) == 1 + len(decoded) and (spare := spare - pixels.nbytes) >= 0:
                    decoded.append(pixels)

    look_at_all(files, look)
    color, shapes = any(color for color, _ in found), [shape for _, shape in found]

    def read(i: int, size: tuple[int, int] | None) -> np.ndarray:
        if i < len(decoded) and found[i][0] == color and size in (None, shapes[i]):
            return decoded[i]
        with reading(str(files[i]), "an image"), warnings.catch_warnings(), Image.open(files[i]) as image:
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            if size is not None:
                image.draft("RGB" if color else "L", (max(size), max(size)))
            return pixels_of(image, color, size)

    def contents() -> Iterator[bytes]:
        for file in files:
            status = file.stat()
            yield f"{file.relative_to(root)} {status.st_size} {status.st_mtime_ns}".encode()

    names = [file.relative_to(root).as_posix() for file in files]
    # Not of gray images among those in color, nor of JPEG files, which were seen small.
    known = keys if len(keys) == len(files) and all(each == color for each, _ in found) else ()
    return ImageList(shapes, read, 3 if color else 1, contents, names, files=photographs, keys=known)
