"""Readers of the files that microscopes write under names of their makers: CZI (Zeiss), LIF (Leica) and ND2 (Nikon);
and of MRC files, those of electron microscopes.

CZI and LIF files may have several images, called scenes or series. Those of the commonest shape are read; another one
is FILE::NAME.
"""

import contextlib
import warnings
import weakref
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, name_list, one_line, require
from viewsmith.data.image_files import ImageFile, chosen, opening
from viewsmith.data.places import MRC, PACKED, file_of
from viewsmith.data.tiles import image_reader

#: Wavelengths, emitted and excited, have these letters in liffile; they are channels.
WAVELENGTHS = "\N{GREEK SMALL LETTER LAMDA}\N{GREEK CAPITAL LETTER LAMDA}"
MRC_MODES = (0, 1, 2, 4, 6, 12)  # kinds of numbers; the others pack several
SCENES = "P"  # the letter of their axis, positions; of CZI files, I counts illuminations
LARGE = 2048  # pixels of a side of a scene above which its smaller resolutions are offered, too
#: By Zeiss's names, of one value and of three colors.
CZI_TYPES = {"Gray8": "u1", "Gray16": "u2", "Gray32Float": "f4", "Bgr24": "u1", "Bgr48": "u2", "Bgr96Float": "f4"}


@dataclass(frozen=True)
class Planes:
    """An image whose planes are read one at a time, as an array of which windows are read.

    Its index has a number or a slice for each of the leading axes, and slices of rows and columns.
    """

    leading: tuple[int, ...]  # lengths of the axes before the rows
    read: Callable[[tuple[int, ...], slice, slice], np.ndarray]

    def __getitem__(self, key: tuple[Any, ...]) -> np.ndarray:
        n = len(self.leading)
        places = [
            range(*at.indices(size)) if isinstance(at, slice) else (at,)
            for at, size in zip(key[:n], self.leading, strict=True)
        ]
        planes = [self.read(place, key[n], key[n + 1]) for place in product(*places)]
        kept = [len(of) for at, of in zip(key[:n], places, strict=True) if isinstance(at, slice)]
        return np.stack(planes).reshape(*kept, *planes[0].shape)


def of_planes(path: Path, shape: tuple[int, ...], axes: str, dtype: Any, opened: Callable[[], Planes]) -> ImageFile:
    """An image of which `opened` reads planes; all of them are its pixels."""
    every = (slice(None),) * len(shape)
    return ImageFile(path, shape, axes, np.dtype(dtype), lambda: opened()[every], opened=opened)


@image_reader(
    "czi",
    ".czi",
    help="a CZI file of Zeiss: images, or a scene or slide that is cut into tiles; one of its scenes is FILE::NUMBER",
    noun="a CZI file",
    extra="czi",
    example="slide.czi --tile 256",
)
def czi_file(path: Path) -> ImageFile:
    """The header of a CZI file."""
    require("pylibCZIrw", "czi", f"reading {path}, a CZI file,")
    from pylibCZIrw.czi import CziReader

    name = file_of(path)[0]
    with opening(path, "a CZI file"):
        file = CziReader(str(name))
        bounds, scenes = file.total_bounding_box, file.scenes_bounding_rectangle
        boxes = scenes if len(scenes) > 1 else {0: file.total_bounding_rectangle}
        types = {file.get_channel_pixel_type(i) for i in range(*bounds.get("C", (0, 1)))}
        names, side = _of_czi(file.raw_metadata)
        file.close()
        if len(types) > 1:
            raise InputError(f"{path} has channels of {name_list(sorted(types))}, expected one depth")
        (kind,) = types
        dtype, colors = CZI_TYPES[kind], [3] if kind.startswith("Bgr") else []
    taken, left_out = chosen(path, [((box.h, box.w),) for box in boxes.values()], [str(each) for each in boxes])
    parts = [list(boxes.items())[i] for i in taken]
    counted = {SCENES: (0, len(parts))} | {letter: of for letter, of in sorted(bounds.items()) if letter not in "CXY"}
    ranges = {letter: range(*of) for letter, of in (*counted.items(), ("C", bounds.get("C", (0, 1))))}
    leading = {letter: of for letter, of in ranges.items() if len(of) > 1}

    def of_level(level: int) -> ImageFile:
        height, width = parts[0][1].h >> level, parts[0][1].w >> level

        def opened() -> Planes:
            reader = CziReader(str(name))

            def read(place: tuple[int, ...], rows: slice, columns: slice) -> np.ndarray:
                at = {letter: of[i] for (letter, of), i in zip(leading.items(), place, strict=True)}
                scene, box = parts[at.pop(SCENES, 0)]
                (top, bottom, _), (left, right, _) = rows.indices(height), columns.indices(width)
                roi = box.x + (left << level), box.y + (top << level), right - left << level, bottom - top << level
                x = reader.read(roi=roi, plane=at, scene=scene if len(boxes) > 1 else None, zoom=0.5**level)
                return x[..., ::-1] if colors else x[..., 0]

            planes = Planes(tuple(map(len, leading.values())), read)
            weakref.finalize(planes, reader.close)
            return planes

        shape = (*map(len, leading.values()), height, width, *colors)
        return of_planes(path, shape, f"{''.join(leading)}YX{'S' if colors else ''}", dtype, opened)

    levels = [of_level(0)]
    while max(levels[-1].sides) > LARGE:
        levels.append(of_level(len(levels)))
    first = replace(levels[0], smaller=tuple(levels[1:]), micrometers=side, left_out=left_out, slide=len(levels) > 1)
    return replace(first, names=names) if len(names) == first.channels else first


def _of_czi(text: str) -> tuple[tuple[str, ...], float | None]:
    """Names of the channels, and the side of a pixel in micrometers, of the metadata of a CZI file."""
    root = ElementTree.fromstring(text)
    names = [each.get("Name") for each in root.iterfind(".//Image/Dimensions/Channels/Channel")]
    side = root.findtext(".//Scaling/Items/Distance[@Id='X']/Value")
    return tuple(each for each in names if each), 1e6 * float(side) if side and float(side) else None


@image_reader(
    "lif",
    ".lif",
    help="a LIF file of Leica: images, or a scene that is cut into tiles; one of its images is FILE::NAME",
    noun="a LIF file",
    extra="lif",
    example="project.lif --channels 0,2",
)
def lif_file(path: Path) -> ImageFile:
    """The header of a LIF file."""
    require("liffile", "lif", f"reading {path}, a LIF file,")
    from liffile import LifFile

    name = file_of(path)[0]
    with opening(path, "a LIF file"), LifFile(name) as file:
        images = list(file.images)
        sizes = [dict(each.sizes) for each in images]
        kinds = [
            (tuple(size for letter, size in of.items() if letter != "S")[-2:], *of.items(), each.dtype)
            for of, each in zip(sizes, images, strict=True)
        ]
        # Those in folders may have equal names, and FILE::NAME is no path.
        taken, left_out = chosen(path, kinds, [each.path.replace("/", ":") for each in images])
        of, dtype = sizes[taken[0]], images[taken[0]].dtype
        steps = np.diff(np.asarray(images[taken[0]].coords.get("X", ()))[:2])
    letters = "".join(of)
    for wavelength in (each for each in WAVELENGTHS if each in letters):
        letters = letters.replace(wavelength, "L" if "C" in letters else "C")
    if letters.removesuffix("S").endswith("ZX"):  # a section across the planes
        letters = letters.translate(str.maketrans("YZ", "ZY"))
    several = [len(taken)] if len(taken) > 1 else []

    def pixels() -> np.ndarray:
        with LifFile(name) as file:
            found = [file.images[i].asarray() for i in taken]
        return np.stack(found) if several else found[0]

    def opened() -> Any:
        with LifFile(name) as file:
            return file.images[taken[0]].asarray(out="memmap")

    side = 1e6 * float(steps[0]) if len(steps) and steps[0] > 0 else None
    shape, axes = (*several, *of.values()), SCENES * len(several) + letters
    found = ImageFile(path, shape, axes, np.dtype(dtype), pixels, micrometers=side, left_out=left_out)
    return found if several or "S" in of else replace(found, opened=opened)


@image_reader(
    "nd2",
    ".nd2",
    help="an ND2 file of Nikon: images, or a scene that is cut into tiles",
    noun="an ND2 file",
    extra="nd2",
    example="plate.nd2 --channels DAPI,GFP",
)
def nd2_file(path: Path) -> ImageFile:
    """The header of an ND2 file."""
    require("nd2", "nd2", f"reading {path}, an ND2 file,")
    from nd2 import ND2File

    name, named = file_of(path)
    if named:
        raise InputError(f"{name} has no images with names, expected no ::{one_line(named, 40)}")
    with opening(path, "an ND2 file"), ND2File(path) as file:
        sizes, dtype, names, side = dict(file.sizes), file.dtype, tuple[str, ...](), None
        with contextlib.suppress(Exception):  # its library does not know the metadata of some cameras
            names = tuple(str(each.channel.name) for each in file.metadata.channels or ())
            side = float(file.voxel_size().x) or None
    leading = {letter: size for letter, size in sizes.items() if letter not in "YXS"}
    frames = [size for letter, size in leading.items() if letter != "C"]  # a frame has all channels

    def opened() -> Planes:
        file = ND2File(path)

        def read(place: tuple[int, ...], rows: slice, columns: slice) -> np.ndarray:
            at, channel = place[: len(frames)], place[len(frames) :]
            frame: Any = file.read_frame(int(np.ravel_multi_index(at, frames)) if frames else 0)
            return np.array(frame[(*channel, rows, columns)])  # a copy: the file is closed with what was opened

        planes = Planes(tuple(leading.values()), read)
        weakref.finalize(planes, file.close)
        return planes

    found = replace(of_planes(path, tuple(sizes.values()), "".join(sizes), dtype, opened), micrometers=side)
    return replace(found, names=names) if len(names) == found.channels else found


@image_reader(
    "mrc",
    *MRC,
    help="an MRC file of an electron microscope: a micrograph that is cut into tiles, or planes of a volume or stack",
    noun="an MRC file",
    extra="mrc",
    example="micrograph.mrc --tile 128",
)
def mrc_file(path: Path) -> ImageFile:
    """The header of an MRC file, also of the map of EMDB."""
    require("mrcfile", "mrc", f"reading {path}, an MRC file,")
    import mrcfile

    packed = path.suffix.lower() in PACKED
    # Headers of older programs differ from the standard; their pixels are as they say.
    with opening(path, "an MRC file"), warnings.catch_warnings(action="ignore"):
        read = mrcfile.open if packed else mrcfile.mmap
        with read(path, permissive=True) as file:
            x, spacing = file.data, file.voxel_size
            if x is None:
                known = int(file.header.mode) in MRC_MODES
                raise ValueError("it ends before its pixels do" if known else f"mode {file.header.mode} is not read")
            shape, stored, start = x.shape, x.dtype, 1024 + int(file.header.nsymbt)
            sides = [float(each) for each in (spacing.x, spacing.y)]
    if stored.kind == "c" or not 2 <= len(shape) <= 4:
        raise InputError(f"{path} has numbers {stored} of shape {shape}, expected an image, planes or volumes")
    dtype = stored.newbyteorder("=")

    def pixels() -> np.ndarray:
        with warnings.catch_warnings(action="ignore"), mrcfile.open(path, permissive=True) as file:
            return np.asarray(file.data).astype(dtype)

    def opened() -> Any:
        return np.memmap(path, stored, "r", start, shape)

    square = sides[0] > 0 and abs(sides[0] - sides[1]) < 1e-3 * sides[0]
    side = round(sides[0] * 1e-4, 9) if square else None  # of angstroms
    found = ImageFile(path, shape, "TZYX"[-len(shape) :], dtype, pixels, micrometers=side)
    return found if packed else replace(found, opened=opened)
