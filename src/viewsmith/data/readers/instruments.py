"""Readers of images of microscopes, clinics and telescopes, in the units of their instruments, of one picture, and of
idx files, in which MNIST and the data sets after it (Fashion-MNIST, EMNIST, KMNIST) are published.

Each slice of a volume (NIfTI) along its third axis is an image; of FITS files the images of the commonest name and
shape are read, of OME-Zarr that of the highest resolution.
"""

import gzip
import json
import math
import re
import struct
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, name_list, require
from viewsmith.core.rows import check_size
from viewsmith.data.damaged import Unreadable
from viewsmith.data.image_files import ImageFile, chosen, opening
from viewsmith.data.options import DataOptions
from viewsmith.data.places import DICOM, FITS, INSTRUMENTS, JPEG2000, NIFTI, SUFFIXES, TIFF, file_of, first_bytes
from viewsmith.data.reading import FileContents, deep, reader, reading
from viewsmith.data.tiles import image_reader
from viewsmith.data.unread import named, refuse, sentence, sentence_of_all
from viewsmith.modalities.images.modality import Images


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


@image_reader(
    "jpeg2000",
    *JPEG2000,
    help="a JPEG 2000 image, such as a band of Sentinel-2, that is cut into tiles; several: `--channel-files`",
    noun="a JPEG 2000 file",
    extra="microscopy",
    example="T32TQM_B08_10m.jp2 --tile 64",
)
def jpeg2000_file(path: Path) -> ImageFile:
    """The header of a JPEG 2000 file, which has its size, channels and bits, signed or not, after the word ihdr."""
    require("imagecodecs", "microscopy", f"reading {path}, a JPEG 2000 file,")
    import imagecodecs

    with opening(path, "a JPEG 2000 file"), path.open("rb") as file:
        start = file.read(512)
        height, width, channels, bits = struct.unpack_from(">IIHB", start, start.index(b"ihdr") + 4)
    dtype = np.min_scalar_type(-(2 ** (bits & 127)) if bits & 128 else 2 ** (bits + 1) - 1)
    shape = (height, width, *([channels] if channels > 1 else []))
    return ImageFile(path, shape, "YXS"[: len(shape)], dtype, lambda: imagecodecs.jpeg2k_decode(path.read_bytes()))


def refuse_waveforms(folder: Path, files: Sequence[Path]) -> None:
    """Raise InputError for a folder whose first file is a recording in DICOM, with the line that converts all."""
    if len(files) < 2 or any(file.suffix.lower() != DICOM[0] for file in files):
        return
    try:
        dicom_file(files[0])
    except Waveform as error:
        raise InputError(sentence_of_all(folder, files, DICOM[0], named("waveform"))) from error
    except InputError:  # which is told with those of the others
        return


class Waveform(InputError):
    """A DICOM file has a recording in place of an image."""


@image_reader(
    "dicom",
    *DICOM,
    help="a DICOM file of several images; folders of DICOM files are read as those of images",
    noun="a DICOM file",
    extra="medical",
    example="scan.dcm --image-size 64",
)
def dicom_file(path: Path) -> ImageFile:
    """The header of a DICOM file."""
    require("pydicom", "medical", f"reading {path}, a DICOM file,")
    import pydicom

    with opening(path, "a DICOM file"):
        header = pydicom.dcmread(path, stop_before_pixels=True)
        if "Rows" not in header:
            kind = header.get("Modality", "no modality")  # such as the report beside a series
            if "WaveformSequence" in header:
                raise Waveform(sentence(path, named("waveform")))
            raise Unreadable(f"{path} is a DICOM file without an image ({kind}): leave it out", f"no image: {kind}")
        frames, colors = int(header.get("NumberOfFrames") or 1), int(header.get("SamplesPerPixel") or 1)
        slope, start = float(header.get("RescaleSlope", 1) or 1), float(header.get("RescaleIntercept", 0) or 0)
        rescaled = (slope, start) != (1.0, 0.0)
        stored = np.dtype(f"{'i' if header.get('PixelRepresentation') else 'u'}{max(8, header.BitsAllocated) // 8}")
        # Of some radiographs the largest number is black.
        inverted = header.get("PhotometricInterpretation") == "MONOCHROME1" and not rescaled and stored.kind == "u"
        spacing = [1000 * float(side) for side in header.get("PixelSpacing") or []]
        shape = [*([frames] if frames > 1 else []), int(header.Rows), int(header.Columns)]
        white = 2 ** int(header.get("BitsStored") or 8 * stored.itemsize) - 1
        patient = str(header.get("PatientID") or "")

    def pixels() -> np.ndarray:
        from pydicom.pixels import pixel_array

        x = pixel_array(path)
        if rescaled:
            return np.asarray(x * np.float64(slope) + start, np.float32)
        return (white - x).astype(stored) if inverted else x

    axes = ("Z" if frames > 1 else "") + ("YXS" if colors > 1 else "YX")
    side: Any = spacing[0] if len(spacing) == 2 and spacing[0] == spacing[1] else None
    shape += [colors] if colors > 1 else []
    dtype = np.dtype(np.float32) if rescaled else stored
    return ImageFile(path, tuple(shape), axes, dtype, pixels, micrometers=side, patient=patient)


NIFTI_AXES = "XYZTC"


@image_reader(
    "nifti",
    *NIFTI,
    help="a NIfTI file, of which each slice along the third axis is an image",
    noun="a NIfTI file",
    extra="medical",
    example="brain.nii.gz --axes ZXY",
)
def nifti_file(path: Path) -> ImageFile:
    """The header of a NIfTI file; values are scaled as it says."""
    require("nibabel", "medical", f"reading {path}, a NIfTI file,")
    import nibabel

    with opening(path, "a NIfTI file"):
        volume: Any = nibabel.load(path)
        slope, start = volume.header.get_slope_inter()
        stored, shape = volume.get_data_dtype(), tuple(map(int, volume.shape))
        spacing, unit = volume.header.get_zooms(), volume.header.get_xyzt_units()[0]
    if not 2 <= len(shape) <= len(NIFTI_AXES) or stored.fields is not None:
        raise InputError(f"{path} has numbers {stored} of shape {shape}, expected a volume of 2 to 5 axes of numbers")
    scaled = (slope or 1, start or 0) != (1, 0)
    dtype = np.dtype(np.float32) if scaled else stored.newbyteorder("=")

    def pixels() -> np.ndarray:
        return np.asarray(volume.dataobj).astype(dtype)

    in_millimeters = unit in ("mm", "unknown") and abs(spacing[0] - spacing[1]) < 1e-6
    side = float(1000 * spacing[0]) if in_millimeters and spacing[0] > 0 else None
    axes = NIFTI_AXES[: len(shape)]
    return ImageFile(path, shape, axes, dtype, pixels, micrometers=side, opened=lambda: volume.dataobj)


FITS_AXES = "TZQYX"  # the last ones; what the third one is, a file does not say


@image_reader(
    "fits",
    *FITS,
    help="a FITS file of several images, or one that is cut into tiles",
    noun="a FITS file",
    extra="astronomy",
    example="field.fits --tile 64",
)
def fits_file(path: Path) -> ImageFile:
    """The header of a FITS file."""
    refuse(path, path.suffix, texts=False)
    require("astropy", "astronomy", f"reading {path}, a FITS file,")
    from astropy.io import fits

    # Old keywords are no fault of the image.
    place = file_of(path)[0]
    with opening(path, "a FITS file"), warnings.catch_warnings(action="ignore"), fits.open(place) as file:
        images = [(i, each) for i, each in enumerate(file) if each.is_image and len(each.shape) >= 2]
        if not images:
            raise InputError(f"{path} is a FITS file without an image of two axes or more")
        # Extensions of one name are alike, such as chips; an image, its errors and its flags have other names.
        called = [each.name or str(i) for i, each in images]
        named_images = [(name, each) for name, (_, each) in zip(called, images, strict=True)]
        kinds = [(each.shape[-2:], each.shape, name.rstrip("0123456789")) for name, each in named_images]
        numbered = [f"{name},{each.ver}" if called.count(name) > 1 else name for name, each in named_images]
        taken, left_out = chosen(path, kinds, numbered)
        numbers, image = [images[i][0] for i in taken], images[taken[0]][1]
        shape = tuple(map(int, image.shape))
        dtype = np.asarray(image.section[tuple(slice(0, 1) for _ in shape)]).dtype.newbyteorder("=")
    if len(shape) > len(FITS_AXES):
        raise InputError(f"{path} has an image of shape {shape}, expected 2 to {len(FITS_AXES)} axes")
    several = [len(taken)] if len(taken) > 1 else []

    def pixels() -> np.ndarray:
        with warnings.catch_warnings(action="ignore"), fits.open(place) as file:
            found = [np.asarray(file[number].data).astype(dtype) for number in numbers]
        return np.stack(found) if several else found[0]

    def opened() -> Any:
        with warnings.catch_warnings(action="ignore"):
            return fits.open(place)[numbers[0]].section  # reads what is asked for

    axes = "P" * len(several) + FITS_AXES[-len(shape) :]
    found = ImageFile(path, (*several, *shape), axes, dtype, pixels, left_out=left_out)
    return found if several else replace(found, opened=opened)


ENVI_TYPES = {1: "u1", 2: "i2", 3: "i4", 4: "f4", 5: "f8", 12: "u2", 13: "u4", 14: "i8", 15: "u8"}
ENVI_AXES = {"bsq": "CYX", "bil": "YCX", "bip": "YXC"}
ENVI_DATA = ("", ".img", ".dat", ".raw", ".bin", *(f".{each}" for each in ENVI_AXES))


def _envi_header(path: Path) -> Path | None:
    """The header of ENVI that a path is, or that lies beside it."""
    named = path.name and path.suffix.lower() in ENVI_DATA  # the folder "." has no name
    beside = (path.with_suffix(".hdr"), path.with_name(f"{path.name}.hdr")) if named else ()
    for place in (path, *beside):
        if place.suffix.lower() == ".hdr" and place.is_file() and first_bytes(place, 4) == b"ENVI":
            return place
    return None


@image_reader(
    "envi",
    ".hdr",
    help="a scene of ENVI, such as one of a spectrometer: its header, with the file of the pixels beside it",
    noun="a scene of ENVI",
    example="scene.hdr --tile 9 --overlap 5 --labels classes.hdr",
    recognizes=lambda path: _envi_header(path) is not None,
)
def envi_file(path: Path) -> ImageFile:
    """The header of a scene of ENVI."""
    header = _envi_header(path)
    if header is None:
        refuse(path, ".hdr")
        raise InputError(f"{path} is no header of ENVI, which begins with ENVI")
    text = header.read_text(encoding="utf-8", errors="replace").replace("\r", "")
    found = {
        key.strip().lower(): value.strip() for key, value in re.findall(r"^([^={}\n]+)=\s*(\{[^}]*\}|.*)$", text, re.M)
    }
    lists = {key: [part.strip() for part in value.strip("{}").split(",")] for key, value in found.items()}
    with reading(str(header), "a header of ENVI"):
        sizes = {"Y": int(found["lines"]), "X": int(found["samples"]), "C": int(found.get("bands", 1))}
        axes = ENVI_AXES[found.get("interleave", "bsq").lower()]
        stored = np.dtype(("<", ">")[int(found.get("byte order", 0))] + ENVI_TYPES[int(found["data type"])])
        start = int(found.get("header offset", 0))
        empty = float(found["data ignore value"]) if "data ignore value" in found else None
        place = None if len(lists.get("map info", ())) < 7 else [float(each) for each in lists["map info"][1:7]]
    shape = tuple(sizes[letter] for letter in axes)
    data = next((file for end in ENVI_DATA if (file := header.with_suffix(end)).is_file() and file != header), None)
    if data is None:
        raise InputError(f"{header} lies without the file of its pixels: expected {header.with_suffix('.img').name}")
    if data.stat().st_size < start + math.prod(shape) * stored.itemsize:
        raise InputError(
            f"{data} ends within its pixels, {axes} {' x '.join(map(str, shape))} {stored.newbyteorder('=')}"
        )

    def opened() -> np.ndarray:
        return np.memmap(data, stored, "r", start, shape)

    names = next((lists[key] for key in ("band names", "wavelength") if len(lists.get(key, ())) == sizes["C"]), ())
    transform = None
    if place is not None and not any(each.startswith("rotation") for each in lists["map info"]):
        column, row, x, y, width, height = place
        transform = (x - (column - 1) * width, width, 0.0, y + (row - 1) * height, 0.0, -height)
    dtype = stored.newbyteorder("=")
    scene = ImageFile(header, shape, axes, dtype, lambda: opened().astype(dtype), tuple(names), opened=opened)
    return replace(scene, transform=transform, empty=empty)


MICROMETERS = {"nanometer": 1e-3, "micrometer": 1.0, "millimeter": 1e3}


def _is_zarr_image(folder: Path) -> bool:
    """Whether a folder is one of zarr, and has an image, an array or OME-Zarr, rather than cells of anndata."""
    if folder.suffix.lower() != ".zarr":
        return False
    found: dict[str, Any] = {}
    for name in ("zarr.json", ".zarray", ".zattrs"):
        try:
            found |= json.loads((folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError, TypeError):
            continue
    found |= found.get("attributes") or {}
    keys = found.keys() | (found.get("ome") or {}).keys()
    return found.get("node_type") == "array" or bool(keys & {"chunks", "multiscales", "plate"})


@image_reader(
    "ome-zarr",
    ".ome.zarr/",
    help="a zarr folder of images: OME-Zarr, or an array alone (other zarr folders are of anndata)",
    noun="a zarr folder of images",
    extra="microscopy",
    recognizes=_is_zarr_image,
    example="slide.ome.zarr --tile 256",
)
def zarr_file(path: Path) -> ImageFile:
    """The header of an image in a zarr folder."""
    require("zarr", "microscopy", f"reading {path}, a zarr folder,")
    import zarr

    with opening(path, "a zarr folder"):
        node: Any = zarr.open(path, mode="r")
        given = dict(node.attrs)
        given |= given.get("ome") or {}
        if "plate" in given:
            first = next((well.get("path") for well in given["plate"].get("wells", [])), "A/1")
            raise InputError(f"{path} is a plate of wells, expected one image: give {path / first / '0'}")
        names, lower = list[str](), list[Any]()
        if hasattr(node, "shape"):
            found, axes, side = node, "TZQYX"[-node.ndim :] if 2 <= node.ndim <= 5 else "", None
        elif given.get("multiscales"):
            scales = given["multiscales"][0]
            largest, *rest = scales["datasets"]
            found, lower = node[largest["path"]], [node[each["path"]] for each in rest]
            listed = scales.get("axes") or [{"name": name} for name in "tczyx"[-found.ndim :]]
            kinds = [each if isinstance(each, dict) else {"name": each} for each in listed]
            axes = "".join(str(each["name"])[:1].upper() for each in kinds)
            side = _side(kinds, largest)
            names = [str(each.get("label") or "") for each in (given.get("omero") or {}).get("channels", [])]
        else:
            raise InputError(f"{path} is a zarr folder without an image: expected an array, or OME-Zarr (multiscales)")
        shape, dtype = tuple(map(int, found.shape)), np.dtype(found.dtype)
    if len(axes) != len(shape) or not {"Y", "X"} <= set(axes):
        raise InputError(f"{path} has an array of shape {shape} with the axes {axes or 'unknown'}: expected Y and X")

    def of(array: Any) -> ImageFile:
        return ImageFile(
            path, tuple(map(int, array.shape)), axes, dtype, lambda: np.asarray(array[...]), opened=lambda: array
        )

    result = replace(of(found), micrometers=side, smaller=tuple(map(of, lower)), slide=bool(lower))
    return replace(result, names=tuple(names)) if len(names) == result.channels and all(names) else result


def _side(axes: list[dict[str, Any]], dataset: dict[str, Any]) -> float | None:
    """Side of a pixel in micrometers, if the metadata say it and pixels are squares."""
    scale = next((t["scale"] for t in dataset.get("coordinateTransformations") or [] if t.get("type") == "scale"), None)
    if scale is None:
        return None
    sides = {
        step * MICROMETERS.get(str(axis.get("unit")), np.nan)
        for step, axis in zip(scale, axes, strict=True)
        if axis["name"] in ("x", "y")
    }
    (side, *others) = sides
    return None if others or not np.isfinite(side) else float(side)


_IDX = re.compile(r"(?P<of>.+)[-.]idx(?P<axes>\d)-ubyte(\.gz)?")
_IDX_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def _samples(folder: Path) -> list[Path]:
    """The idx files of a folder that are no labels; of a plain and a compressed one of one name the plain one."""
    found = {
        file.name.removesuffix(".gz"): file
        for file in sorted(folder.iterdir(), reverse=True)
        if (name := _IDX.fullmatch(file.name)) and name["axes"] != "1"
    }
    return sorted(found.values())


def _recognized(path: Path) -> bool:
    return bool(_samples(path)) if path.is_dir() else bool(_IDX.fullmatch(path.name)) and path.is_file()


@reader(
    "idx",
    *(".idx3-ubyte", ".idx2-ubyte"),
    help="files of MNIST: NAME-images-idx3-ubyte with the labels beside it; of a folder train and t10k (or test)",
    noun="an idx file",
    recognizes=_recognized,
    example="MNIST/raw/",
)
def read_idx(path: Path, request: DataOptions) -> FileContents:
    """Arrays (n, ...) with the labels of the file beside them; of a folder both splits."""
    request.check_no_table_options(str(path), "labels are in the file NAME-labels-idx1-ubyte")
    if path.is_file():
        return FileContents(_array(path), _labels(path))
    files = _samples(path)
    train = [file for file in files if "train" in file.name]
    test = [file for file in files if file not in train and re.search("t10k|test", file.name)]
    if len(files) == 1:
        return FileContents(_array(files[0]), _labels(files[0]))
    if len(train) != 1 or len(test) != 1 or len(files) != 2:
        raise InputError(f"{path} has {name_list([file.name for file in files])}, expected one split: give one of them")
    x, y = [_array(file) for file in (*train, *test)], [_labels(file) for file in (*train, *test)]
    labels = None if y[0] is None or y[1] is None else np.concatenate([y[0], y[1]])
    return FileContents(np.concatenate(x), labels, n_train=len(x[0]))


def _labels(file: Path) -> np.ndarray | None:
    """The labels in the file beside one of samples, None without one."""
    near = re.sub(r"idx\d", "idx1", file.name.replace("images", "labels")).removesuffix(".gz")
    found = [each for name in (near, near + ".gz") if (each := file.with_name(name)) != file and each.is_file()]
    return _array(found[0]) if found else None


def _array(file: Path) -> np.ndarray:
    """The array of a file: two zeros, type, number of axes, their lengths and the values, the largest byte first."""
    with reading(str(file), "an idx file"), (gzip.open if file.suffix == ".gz" else open)(file, "rb") as opened:
        start = opened.read(4)
        if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in _IDX_TYPES:
            raise InputError(f"{file} is not an idx file: it starts with {start!r}")
        shape = np.frombuffer(opened.read(4 * start[3]), ">u4").tolist()
        dtype = np.dtype(_IDX_TYPES[start[2]])
        size = math.prod(shape) * dtype.itemsize
        check_size(size, f"{file}, {' x '.join(map(str, shape))} values,", "write fewer samples")
        values = opened.read(size)
    if len(values) < size:
        raise InputError(f"{file} has {len(values):,} bytes of values, expected {size:,}: copy it again")
    return np.frombuffer(values, dtype).reshape(shape).astype(dtype.newbyteorder("="))
