"""Images of clinics, telescopes and microscopes, in the units of their instruments.

DICOM files of scanners (Hounsfield units, counts, gray); volumes in NIfTI files, of which each slice along the third
axis, and each time, is an image; FITS files, of which the first image with two axes or more is read; zarr folders:
OME-Zarr, of whose resolutions the largest is read, or an array alone.
"""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, require
from viewsmith.data.image_files import ImageFile, opening
from viewsmith.data.tiles import image_reader
from viewsmith.data.unread import DICOM, FITS, NIFTI


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
            raise InputError(
                f"{path} is a DICOM file without an image ({header.get('Modality', 'no modality')}): leave it out"
            )
        frames, colors = int(header.get("NumberOfFrames") or 1), int(header.get("SamplesPerPixel") or 1)
        slope, start = float(header.get("RescaleSlope", 1) or 1), float(header.get("RescaleIntercept", 0) or 0)
        rescaled = (slope, start) != (1.0, 0.0)
        stored = np.dtype(f"{'i' if header.get('PixelRepresentation') else 'u'}{max(8, header.BitsAllocated) // 8}")
        # Of some radiographs the largest number is black.
        inverted = header.get("PhotometricInterpretation") == "MONOCHROME1" and not rescaled and stored.kind == "u"
        spacing = [1000 * float(side) for side in header.get("PixelSpacing") or []]
        shape = [*([frames] if frames > 1 else []), int(header.Rows), int(header.Columns)]
        white = 2 ** int(header.get("BitsStored") or 8 * stored.itemsize) - 1

    def pixels() -> np.ndarray:
        from pydicom.pixels import pixel_array

        x = pixel_array(path)
        if rescaled:
            return np.asarray(x * np.float64(slope) + start, np.float32)
        return (white - x).astype(stored) if inverted else x

    axes = ("Z" if frames > 1 else "") + ("YXS" if colors > 1 else "YX")
    side: Any = spacing[0] if len(spacing) == 2 and spacing[0] == spacing[1] else None
    shape += [colors] if colors > 1 else []
    return ImageFile(path, tuple(shape), axes, np.dtype(np.float32) if rescaled else stored, pixels, micrometers=side)


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
    return ImageFile(
        path, shape, NIFTI_AXES[: len(shape)], dtype, pixels, micrometers=side, opened=lambda: volume.dataobj
    )


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
    require("astropy", "astronomy", f"reading {path}, a FITS file,")
    from astropy.io import fits

    # Old keywords are no fault of the image.
    with opening(path, "a FITS file"), warnings.catch_warnings(action="ignore"), fits.open(path) as file:
        images = [(i, each) for i, each in enumerate(file) if each.is_image and len(each.shape) >= 2]
        if not images:
            raise InputError(f"{path} is a FITS file without an image of two axes or more")
        number, image = images[0]
        shape = tuple(map(int, image.shape))
        dtype = np.asarray(image.section[tuple(slice(0, 1) for _ in shape)]).dtype.newbyteorder("=")
    if len(shape) > len(FITS_AXES):
        raise InputError(f"{path} has an image of shape {shape}, expected 2 to {len(FITS_AXES)} axes")

    def pixels() -> np.ndarray:
        with warnings.catch_warnings(action="ignore"), fits.open(path) as file:
            return np.asarray(file[number].data).astype(dtype)

    def opened() -> Any:
        with warnings.catch_warnings(action="ignore"):
            return fits.open(path)[number].section  # reads what is asked for

    return ImageFile(path, shape, FITS_AXES[-len(shape) :], dtype, pixels, opened=opened)


MICROMETERS = {"nanometer": 1e-3, "micrometer": 1.0, "millimeter": 1e3}


@image_reader(
    "ome-zarr",
    ".ome.zarr/",
    help="a zarr folder of images: OME-Zarr, or an array alone (other zarr folders are of anndata)",
    noun="a zarr folder of images",
    extra="microscopy",
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
        names: list[str] = []
        if hasattr(node, "shape"):
            found, axes, side = node, "TZQYX"[-node.ndim :] if 2 <= node.ndim <= 5 else "", None
        elif given.get("multiscales"):
            scales = given["multiscales"][0]
            largest = scales["datasets"][0]
            found = node[largest["path"]]
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
    result = ImageFile(path, shape, axes, dtype, lambda: np.asarray(found[...]), micrometers=side, opened=lambda: found)
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
