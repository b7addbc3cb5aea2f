"""Image files of microscopes, cameras and satellites: TIFF of any depth, pages and channels (also OME, BigTIFF and
GeoTIFF) by tifffile, and pictures (PNG of 16 bits by imagecodecs). Files are read plane for plane as they are: nothing
is converted to 8 bits.
"""

import contextlib
import logging
import math
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, require
from viewsmith.data.image_files import CHANNELS, ImageFile, opening
from viewsmith.data.reading import reading
from viewsmith.data.tiles import image_reader
from viewsmith.data.unread import INSTRUMENTS, SUFFIXES, TIFF, deep
from viewsmith.modalities.images.modality import Images

GEO_KEYS = (34735, 34736, 34737)  # directory of the keys of a GeoTIFF, their numbers and texts


@image_reader(
    "tiff",
    *TIFF,
    help="a TIFF, OME-TIFF or GeoTIFF file with several images, or a scene that is cut into tiles",
    noun="a TIFF file",
    extra="microscopy",
    example="scene.tif --tile 256 --overlap 32 --channels DNA,0",
)
def tiff_file(path: Path) -> ImageFile:
    """The header of a TIFF file."""
    require("tifffile", "microscopy", "reading TIFF files of instruments")
    import tifffile

    with opening(path, "a TIFF file"), _whole(path), tifffile.TiffFile(path) as file:
        series, _ = file.series, len(file.pages)
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
        transform, empty = _map_of(first.keyframe)
        keys = [first.keyframe.tags.get(code) for code in GEO_KEYS]
        map_keys = tuple((tag.code, tag.dtype, tag.count, tag.value, True) for tag in keys if tag is not None)
        plain = len(series) == 1 and first.dataoffset is not None and first.dtype.isnative

    def pixels() -> np.ndarray:
        with tifffile.TiffFile(path) as file:
            parts = [each.asarray() for each in file.series]
        return parts[0] if len(parts) == 1 else np.stack(parts)

    def opened() -> Any:
        if plain:
            return tifffile.memmap(path, mode="r")
        require("zarr", "microscopy", f"reading windows of {path}")
        import zarr

        with tifffile.TiffFile(path) as file:
            return zarr.open_array(file.series[0].aszarr(level=0), mode="r")

    found = ImageFile(path, shape, axes, dtype, pixels, micrometers=side, transform=transform, empty=empty)
    found = replace(found, map_keys=map_keys)
    found = found if len(series) > 1 else replace(found, opened=opened)
    channels = math.prod(size for size, letter in zip(shape, axes, strict=True) if letter in CHANNELS)
    return replace(found, names=tuple(names)) if len(names) == channels else found


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Raise InputError if tifffile finds pages beyond the end of a file, which it only logs."""
    logger, lost = logging.getLogger("tifffile"), list[str]()

    def silent(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        lost.extend([text] if "offset to page" in text or "page offset" in text else [])
        return False  # what is logged besides is an error of one line when pixels are read

    logger.setLevel(logging.ERROR)
    logger.addFilter(silent)
    try:
        yield
    finally:
        logger.removeFilter(silent)
        logger.setLevel(logging.CRITICAL)
    if lost:
        raise InputError(f"{path} ends within its pages: it is damaged; copy it from its source again, or leave it out")


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


def _map_of(page: Any) -> tuple[tuple[float, ...] | None, float | None]:
    """Of a GeoTIFF: how columns and rows become coordinates, and the value of pixels without data."""
    known = page.geotiff_tags if page.is_geotiff else {}
    transform = None
    if (matrix := known.get("ModelTransformation")) is not None:
        m = np.asarray(matrix, float).ravel()
        transform = (m[3], m[0], m[1], m[7], m[4], m[5])
    elif (scale := known.get("ModelPixelScale")) and (tie := known.get("ModelTiepoint")):
        x, y = tie[3] - tie[0] * scale[0], tie[4] + tie[1] * scale[1]
        transform = (x, scale[0], 0.0, y, 0.0, -scale[1])
    if (
        transform is not None and known.get("GTRasterTypeGeoKey") == 2
    ):  # the coordinates are those of the pixel's center
        x, a, b, y, c, d = transform
        transform = (x - (a + b) / 2, a, b, y - (c + d) / 2, c, d)
    text = getattr(page.tags.get("GDAL_NODATA"), "value", None)
    try:
        empty = None if text is None else float(str(text).strip("\0 "))
    except ValueError:
        empty = None
    return None if transform is None else tuple(map(float, transform)), empty


@image_reader(
    "picture",
    *(suffix for suffix in SUFFIXES if suffix not in (*TIFF, *INSTRUMENTS)),
    help="a large image that is cut into tiles",
    noun="an image file",
    extra="image",
    example="aerial.png --tile 128",
)
def picture_file(path: Path) -> ImageFile:
    """The header of an image file that Pillow reads; PNG of 16-bit colors is decoded by imagecodecs."""
    require("pillow", "image", f"reading {path}")
    from PIL import Image

    with reading(str(path), "an image"), warnings.catch_warnings(), Image.open(path) as image:
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # large ones are welcome
        wide, (width, height) = bool(deep(image)), image.size
        gray, mode = image.mode[0] == "I" or image.mode in ("1", "L", "LA"), "L" if image.mode in ("1", "LA") else ""
    dtype = np.dtype(np.uint16 if wide else Images.samples.dtype)

    def plane() -> np.ndarray:
        with warnings.catch_warnings(), Image.open(path) as image:
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            return np.asarray(image.convert(mode) if mode else image if gray else image.convert("RGB")).astype(dtype)

    if gray or not wide:
        return ImageFile(path, (height, width) if gray else (height, width, 3), "YX" if gray else "YXS", dtype, plane)
    require("imagecodecs", "microscopy", f"{path}, a PNG file of 16-bit colors,")

    def colors() -> np.ndarray:
        import imagecodecs

        return np.asarray(imagecodecs.png_decode(path.read_bytes()))

    with reading(str(path), "an image"):
        return ImageFile(path, colors().shape, "YXS", dtype, colors)


def write_tiff(path: Path, image: np.ndarray) -> None:
    """Write an image (H, W, C) as a TIFF file that the reader takes."""
    require("tifffile", "microscopy", "writing TIFF files")
    import tifffile

    planes = image[..., 0] if image.shape[2] == 1 else np.ascontiguousarray(image.transpose(2, 0, 1))
    axes = "YX" if planes.ndim == 2 else "CYX"
    tifffile.imwrite(path, planes, photometric="minisblack", metadata={"axes": axes})
