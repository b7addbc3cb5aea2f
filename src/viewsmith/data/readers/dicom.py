"""Medical images in DICOM files, in the units of their scanner: Hounsfield units, counts, gray."""

from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, require
from viewsmith.data.formats import reader
from viewsmith.data.image_files import OPTIONS, ImageFile, opening
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import FileContents
from viewsmith.data.tiles import read_file
from viewsmith.data.unread import DICOM


def dicom_file(path: Path) -> ImageFile:
    """The header of a DICOM file."""
    require("pydicom", "medical", f"reading {path}, a DICOM file,")
    import pydicom

    with opening(path, "a DICOM file"):
        header = pydicom.dcmread(path, stop_before_pixels=True)
        if "Rows" not in header:
            raise InputError(f"{path} is a DICOM file without an image ({header.get('Modality', 'no modality')})")
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


@reader(
    "dicom",
    *DICOM,
    help="a DICOM file of several images; folders of DICOM files are read as those of images",
    noun="a DICOM file",
    modality="images",
    options=OPTIONS,
    extra="medical",
    example="scan.dcm --image-size 64",
    header=dicom_file,
)
def read_dicom(path: Path, request: DataOptions) -> FileContents:
    """Images of a DICOM file."""
    return read_file(path, request)
