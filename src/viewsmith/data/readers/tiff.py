"""Readers of TIFF files: those of microscopes, scanners and satellites, and of ImageJ; and what is written as TIFF."""

import contextlib
import logging
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, name_list, require
from viewsmith.data.damaged import Unreadable
from viewsmith.data.image_files import CHANNELS, ImageFile, chosen, opening
from viewsmith.data.places import SLIDES, TIFF, file_of
from viewsmith.data.tiles import image_reader
from viewsmith.data.unread import named, sentence

MICROMETERS = {"nm": 1e-3, "micron": 1.0, "um": 1.0, "mm": 1e3, "cm": 1e4}
GEO_KEYS = (34735, 34736, 34737)  # directory of the keys of a GeoTIFF, their numbers and texts


@image_reader(
    "tiff",
    *TIFF,
    *SLIDES,
    help="a TIFF, OME-TIFF or GeoTIFF file with several images, or a scene or whole slide that is cut into tiles",
    noun="a TIFF file",
    extra="microscopy",
    example="scene.tif --tile 256 --overlap 32 --channels DNA,0",
)
def tiff_file(path: Path) -> ImageFile:
    """The header of a TIFF file."""
    require("tifffile", "microscopy", "reading TIFF files of instruments")
    import tifffile

    name, wanted = file_of(path)
    if name.suffix.lower() == ".stk" and name.read_bytes()[:11] == b"# STOCKHOLM":  # rather than of MetaMorph
        raise InputError(sentence(path, named("alignment", "stockholm")))
    with opening(path, "a TIFF file"), _whole(path), tifffile.TiffFile(name) as file:
        every, _ = file.series, len(file.pages)
        taken, left_out, scanned = _taken(path, every, wanted)
        series, number = [every[i] for i in taken], taken[0]
        first = series[0]
        names, side = _names_and_side(file, first.keyframe, scanned)
        axes, shape = str(first.axes), tuple(map(int, first.shape))
        if len(series) > 1:  # images of one shape that no axis joins
            letter = "P" if file.ome_metadata else "I"  # positions; plain pages may be channels
            axes, shape = letter + axes, (len(series), *shape)
        bar = _rows_of_bar(file, axes, shape)
        if bar > 0:
            shape, left_out = (shape[0] - bar, shape[1]), f"the data bar, {bar} rows"
        dtype = np.dtype(first.dtype).newbyteorder("=")
        transform, empty = _map_of(first.keyframe)
        keys = [first.keyframe.tags.get(code) for code in GEO_KEYS]
        map_keys = tuple((tag.code, tag.dtype, tag.count, tag.value, True) for tag in keys if tag is not None)
        plain = len(series) == 1 and first.dataoffset is not None and first.dtype.isnative
        levels = [tuple(map(int, each.shape)) for each in first.levels] if len(series) == 1 else []

    def pixels(level: int = 0) -> np.ndarray:
        with tifffile.TiffFile(name) as file:
            if len(taken) == 1:
                x = np.asarray(file.series[number].levels[level].asarray())
                return x[: shape[0]] if bar > 0 else x
            return np.stack([file.series[i].asarray() for i in taken])

    def opened(level: int = 0) -> Any:
        if plain and level == 0:
            return tifffile.memmap(name, series=number, mode="r")
        require("zarr", "microscopy", f"reading windows of {path}")
        import zarr

        with tifffile.TiffFile(name) as file:
            return zarr.open_array(file.series[number].aszarr(level=level), mode="r")

    found = ImageFile(path, shape, axes, dtype, pixels, micrometers=side, transform=transform, empty=empty)
    slide = transform is None and bool((scanned and left_out) or len(levels) > 1)
    found = replace(found, map_keys=map_keys, left_out=left_out, slide=slide)
    if len(series) == 1:
        smaller = [
            replace(found, shape=size, pixels=partial(pixels, i), opened=partial(opened, i))
            for i, size in enumerate(levels)
        ]
        found = replace(found, opened=opened, smaller=tuple(smaller[1:]))
    channels = math.prod(size for size, letter in zip(shape, axes, strict=True) if letter in CHANNELS)
    return replace(found, names=tuple(names)) if len(names) == channels else found


def _taken(path: Path, every: Sequence[Any], wanted: str) -> tuple[list[int], str, bool]:
    """Which of the series of a file are the image, or images, what is left out, and whether it is of a scanner."""
    titles = [each.name if [of.name for of in every].count(each.name) < 2 else "" for each in every]
    titles = [each or str(i) for i, each in enumerate(titles)]
    number = max(range(len(every)), key=lambda i: every[i].size)
    # Of a slide the scanner keeps pictures of its label and of the whole beside it.
    scanned = every[number].is_pyramidal or every[number].name == "Baseline"
    if scanned and not wanted and len({each.shape for each in every}) > 1:
        rest = [f"{name} ({' x '.join(map(str, each.shape))})" for name, each in zip(titles, every, strict=True)]
        return [number], name_list([each for i, each in enumerate(rest) if i != number]), scanned
    sizes = [dict(zip(each.axes, each.shape, strict=True)) for each in every]
    kinds = [((of.get("Y", 1), of.get("X", 1)), *of.items(), every[i].dtype) for i, of in enumerate(sizes)]
    taken, left_out = chosen(path, kinds, titles)
    return taken, left_out, scanned


def _names_and_side(file: Any, page: Any, scanned: bool) -> tuple[list[str], float | None]:
    """Names of channels, and the side of a pixel in micrometers, as the program that wrote the file says them."""
    if file.ome_metadata:
        return _ome(file.ome_metadata)
    if file.imagej_metadata:
        return [str(label) for label in file.imagej_metadata.get("Labels") or []], _of_imagej(file)
    return [], _of_scanner(page) if scanned else _of_electrons(file)


def _rows_of_bar(file: Any, axes: str, shape: tuple[int, ...]) -> int:
    """Rows of the data bar below an image of an electron microscope of FEI."""
    rows = (file.fei_metadata or {}).get("Image", {}).get("ResolutionY") if file.is_fei else None
    bar = shape[0] - rows if axes == "YX" and isinstance(rows, int) else 0
    return bar if bar < shape[0] / 4 else 0  # else the image was made larger


def _of_scanner(page: Any) -> float | None:
    """Side of a pixel in micrometers, as Aperio writes it, or of pixels per centimeter."""
    if written := re.search(r"\bMPP\s*=\s*([\d.]+)", page.description):
        return float(written[1]) or None
    per_cm = page.get_resolution(unit="CENTIMETER")[0] if page.tags.get("ResolutionUnit") else 0
    return 1e4 / per_cm if per_cm > 1e3 else None  # fewer are of a printer


def _of_imagej(file: Any) -> float | None:
    """Side of a pixel in micrometers, of pixels per unit, as ImageJ writes them."""
    unit = str(file.imagej_metadata.get("unit", "")).replace("\\u00B5", "u").replace("\N{MICRO SIGN}", "u")
    across, down = file.pages[0].get_resolution()
    return MICROMETERS[unit] / across if unit in MICROMETERS and across > 0 and across == down else None


def _of_electrons(file: Any) -> float | None:
    """Side of a pixel in micrometers of a scanning electron microscope, as FEI (in meters) and Zeiss write it."""
    with contextlib.suppress(ValueError, TypeError):  # of a header that is not as theirs
        if file.is_fei:
            scan = (file.fei_metadata or {}).get("Scan", {})
            sides = scan.get("PixelWidth"), scan.get("PixelHeight")
            return 1e6 * float(sides[0]) if sides[0] and sides[0] == sides[1] else None
        if file.is_sem:
            _, side, unit = ((file.sem_metadata or {}).get("ap_image_pixel_size") or ("", 0, ""))[:3]
            return float(side) * MICROMETERS.get(unit.replace("\N{MICRO SIGN}", "u"), 0) or None
    return None


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
        raise Unreadable(
            f"{path} ends within its pages: it is damaged; copy it from its source again, or leave it out", lost[0]
        )


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
    if transform is not None and known.get("GTRasterTypeGeoKey") == 2:  # coordinates are those of a pixel's center
        x, a, b, y, c, d = transform
        transform = (x - (a + b) / 2, a, b, y - (c + d) / 2, c, d)
    text = getattr(page.tags.get("GDAL_NODATA"), "value", None)
    try:
        empty = None if text is None else float(str(text).strip("\0 "))
    except ValueError:
        empty = None
    return None if transform is None else tuple(map(float, transform)), empty


def write_tiff(path: Path, image: np.ndarray) -> None:
    """Write an image (H, W, C) as a TIFF file that the reader takes."""
    require("tifffile", "microscopy", "writing TIFF files")
    import tifffile

    planes = image[..., 0] if image.shape[2] == 1 else np.ascontiguousarray(image.transpose(2, 0, 1))
    axes = "YX" if planes.ndim == 2 else "CYX"
    tifffile.imwrite(path, planes, photometric="minisblack", metadata={"axes": axes})
