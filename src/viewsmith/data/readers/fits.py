"""Images of astronomy in FITS files, of which the first image with two axes or more is read."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, require
from viewsmith.data.formats import reader
from viewsmith.data.image_files import OPTIONS, ImageFile, opening
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import FileContents
from viewsmith.data.tiles import read_file
from viewsmith.data.unread import FITS

AXES = "TZQYX"  # the last ones; what the third one is, a file does not say


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
    if len(shape) > len(AXES):
        raise InputError(f"{path} has an image of shape {shape}, expected 2 to {len(AXES)} axes")

    def pixels() -> np.ndarray:
        with warnings.catch_warnings(action="ignore"), fits.open(path) as file:
            return np.asarray(file[number].data).astype(dtype)

    def opened() -> Any:
        with warnings.catch_warnings(action="ignore"):
            return fits.open(path)[number].section  # reads what is asked for

    return ImageFile(path, shape, AXES[-len(shape) :], dtype, pixels, opened=opened)


@reader(
    "fits",
    *FITS,
    help="a FITS file of several images, or one that is cut into tiles",
    noun="a FITS file",
    modality="images",
    options=OPTIONS,
    extra="astronomy",
    example="field.fits --tile 64",
    header=fits_file,
)
def read_fits(path: Path, request: DataOptions) -> FileContents:
    """Images of a FITS file."""
    return read_file(path, request)
