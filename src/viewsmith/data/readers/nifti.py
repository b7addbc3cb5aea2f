"""Medical volumes in NIfTI files: each slice along the third axis, and each time, is an image."""

from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, require
from viewsmith.data.formats import reader
from viewsmith.data.image_files import OPTIONS, ImageFile, opening
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import FileContents
from viewsmith.data.tiles import read_file
from viewsmith.data.unread import NIFTI

AXES = "XYZTC"


def nifti_file(path: Path) -> ImageFile:
    """The header of a NIfTI file; values are scaled as it says."""
    require("nibabel", "medical", f"reading {path}, a NIfTI file,")
    import nibabel

    with opening(path, "a NIfTI file"):
        volume: Any = nibabel.load(path)
        slope, start = volume.header.get_slope_inter()
        stored, shape = volume.get_data_dtype(), tuple(map(int, volume.shape))
        spacing, unit = volume.header.get_zooms(), volume.header.get_xyzt_units()[0]
    if not 2 <= len(shape) <= len(AXES) or stored.fields is not None:
        raise InputError(f"{path} has numbers {stored} of shape {shape}, expected a volume of 2 to 5 axes of numbers")
    scaled = (slope or 1, start or 0) != (1, 0)
    dtype = np.dtype(np.float32) if scaled else stored.newbyteorder("=")

    def pixels() -> np.ndarray:
        return np.asarray(volume.dataobj).astype(dtype)

    in_millimeters = unit in ("mm", "unknown") and abs(spacing[0] - spacing[1]) < 1e-6
    side = float(1000 * spacing[0]) if in_millimeters and spacing[0] > 0 else None
    return ImageFile(path, shape, AXES[: len(shape)], dtype, pixels, micrometers=side, opened=lambda: volume.dataobj)


@reader(
    "nifti",
    *NIFTI,
    help="a NIfTI file, of which each slice along the third axis is an image",
    noun="a NIfTI file",
    modality="images",
    options=OPTIONS,
    extra="medical",
    example="brain.nii.gz --axes ZXY",
    header=nifti_file,
)
def read_nifti(path: Path, request: DataOptions) -> FileContents:
    """Images of a NIfTI file."""
    return read_file(path, request)
