"""Images in zarr folders: OME-Zarr, of whose resolutions the largest is read, or an array alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, require
from viewsmith.data.formats import reader
from viewsmith.data.image_files import OPTIONS, ImageFile, opening
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import FileContents
from viewsmith.data.tiles import read_file

MICROMETERS = {"nanometer": 1e-3, "micrometer": 1.0, "millimeter": 1e3}


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


@reader(
    "ome-zarr",
    ".ome.zarr/",
    help="a zarr folder of images: OME-Zarr, or an array alone (other zarr folders are of anndata)",
    noun="a zarr folder of images",
    modality="images",
    options=OPTIONS,
    extra="microscopy",
    example="slide.ome.zarr --tile 256",
    header=zarr_file,
)
def read_ome_zarr(path: Path, request: DataOptions) -> FileContents:
    """Images of a zarr folder."""
    return read_file(path, request)
