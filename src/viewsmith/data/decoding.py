"""Pixels of 8-bit image files that Pillow decodes: headers are checked before any is decoded."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from viewsmith.core.errors import InputError, name_list, pluralize
from viewsmith.core.rows import check_size
from viewsmith.data.damaged import LISTED, look_at_all, read_each
from viewsmith.data.reading import deep, planes_of, reading
from viewsmith.modalities.images.channels import SMALLEST_SIDE, WHITE, common_side, size_of
from viewsmith.modalities.images.modality import Images

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

LOOKED_AT, SMALL = 8, 64  # files in color before all are read as gray, and about their pixels of a side if JPEG


def read_images(files: list[Path], side: int | None, color: bool) -> np.ndarray:
    """Pixels of files of one size in memory, uint8 (n, H, W, 1 or 3); see `check_headers`, which comes before any is
    decoded."""
    shape, side = check_headers(files, side, color, str(files[0].parent), fitted=True)
    return filled(decoded(files, shape, side), shape)


def filled(images: Iterable[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    check_size(math.prod(shape), pluralize(shape[0], "image"), "give a smaller image_size (--image-size)")
    x = np.empty(shape, Images.samples.dtype)
    for row, pixels in zip(x, images, strict=True):
        row[:] = pixels
    return x


def check_headers(
    files: list[Path], side: int | None, color: bool, source_name: str, *, fitted: bool
) -> tuple[tuple[int, int, int, int], int | None]:
    """Shape of the pixels of all files, (n, H, W, 1 or 3), and the side to which they are resized (`common_side`)."""
    from PIL import Image

    sizes: list[tuple[int, int]] = []

    def look(file: Path) -> None:
        nonlocal color
        with reading(str(file), "an image"), Image.open(file) as image:
            color = is_color(image, file, files) or color
            rotated = _is_photo(image) and image.getexif().get(0x0112, 1) >= 5
            size = image.size[::-1] if rotated else image.size
        if min(size) < SMALLEST_SIDE:
            least = f"{SMALLEST_SIDE} x {SMALLEST_SIDE}"
            raise InputError(f"{file} has {size_of(size[::-1])}, expected at least {least}; leave it out")
        sizes.append(size)

    look_at_all(files, look)
    if side is None:
        side = common_side([(height, width) for width, height in sizes], source_name, fitted=fitted)
    width, height = sizes[0] if side is None else (side, side)
    return (len(files), height, width, 3 if color else 1), side


def decoded(files: list[Path], shape: tuple[int, ...], side: int | None) -> Iterator[np.ndarray]:
    """Pixels of each file, uint8 (H, W, 1 or 3)."""
    from PIL import Image

    def decode(file: Path) -> np.ndarray:
        with reading(str(file), "an image"), Image.open(file) as image:
            return _decode(image, "RGB" if shape[3] == 3 else "L", side)

    return (pixels.reshape(shape[1:]) for pixels in read_each(files, decode))


class InColor(Exception):
    """An image is in color."""


def decoded_gray(files: list[Path], shape: tuple[int, ...], side: int | None) -> Iterator[np.ndarray]:
    """The channel of each file in color whose channels are equal, uint8 (H, W, 1); raises `InColor` for others, after
    a look at a few."""
    from PIL import Image

    for file in files[:: -(-len(files) // LOOKED_AT)]:
        with contextlib.suppress(InputError):  # of a damaged file, which is named below, with others
            with reading(str(file), "an image"), Image.open(file) as image:
                image.draft("RGB", (SMALL, SMALL))
                pixels = np.asarray(on_white(image, "RGB"))
            _check_gray(pixels)
    for pixels in decoded(files, shape, side):
        _check_gray(pixels)
        yield pixels[..., :1]


def refuse_colored(files: Sequence[Path], source: Path) -> NoReturn:
    """Raise InputError with the names of the files whose channels differ, for a run that was fitted on gray ones, and
    for a folder with the line that makes them gray in a copy."""
    from PIL import Image

    found: list[Path] = []
    for file in files:
        with contextlib.suppress(InputError), reading(str(file), "an image"), Image.open(file) as image:
            image.draft("RGB", (SMALL, SMALL))
            pixels = np.asarray(on_white(image, "RGB"))
            found += [file] if (pixels[..., 1:] != pixels[..., :1]).any() else []
    way = "save them as gray, or leave them out"
    folder, names = str(source), [file.relative_to(source).as_posix() for file in found if source in file.parents]
    if names and not any(set(text) & set("'\"$`\\!\n\r") for text in (folder, *names)):
        endings = sorted({file.suffix for file in found})
        several = f"(p.relative_to(out) for p in out.rglob('*.*') if p.suffix in {endings})"
        these = f"for f in {names if len(names) <= LISTED else several}"
        code = (
            f"import shutil; from pathlib import Path; from PIL import Image; out = Path('{folder}_gray'); "
            f"shutil.copytree('{folder}', out); [Image.open(out / f).convert('L').save(out / f) {these}]"
        )
        way = f'make them gray in a copy, python -c "{code}", and give {folder}_gray; or leave them out'
    raise InputError(
        f"{source}: {pluralize(len(found), 'image')} of {len(files):,} in color, and the run was fitted on gray ones: "
        f"{name_list(names or [file.name for file in found], LISTED)}; {way}"
    )


def _check_gray(pixels: np.ndarray) -> None:
    if (pixels[..., 1:] != pixels[..., :1]).any():
        raise InColor


def is_color(image: ImageFile, file: Path, files: Sequence[Path]) -> bool:
    """Whether one of the image files is in color, by its header; raises InputError if it is not 8-bit gray or RGB, as
    the first one is."""
    planes = planes_of(image)
    if planes > 1 and image.format == "TIFF":
        raise InputError(
            f"{file} has {planes} pages or channels, and {files[0].name} one, or colors: expected files of one kind; "
            "give one of them, or a folder without the others"
        )
    if planes > 1:
        raise InputError(f"{file} has {pluralize(planes, 'frame')}, expected one; save a single frame as an image")
    if wide := deep(image):
        raise InputError(f"{file} has {wide}, and {files[0].name} 8 bits: expected files of one depth")
    alpha = image.mode in ("LA", "RGBA") and image.format == "TIFF"  # which may be a channel like the others
    if alpha and np.asarray(image.getchannel("A")).min() < WHITE:
        raise InputError(
            f"{file} has transparency (mode {image.mode}), expected gray or RGB; paste it on a background and save it "
            "again, or if it is a channel: --axes YXC"
        )
    if image.mode not in (*GRAY, *COLORED):
        raise InputError(f"{file} has the color mode {image.mode}, expected gray or RGB; convert it to RGB")
    return image.mode in COLORED


GRAY, COLORED = ("1", "L", "LA"), ("P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")  # modes of Pillow


def on_white(image: Any, mode: str) -> Any:
    """An image of Pillow in gray (L) or in color (RGB), whose transparent pixels are put on white."""
    from PIL import Image

    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image if image.mode == mode else image.convert(mode)  # which would copy


def _is_photo(image: ImageFile) -> bool:
    # Cameras write the orientation into JPEG files; reading it from a PNG file would decode the whole file.
    return image.format in ("JPEG", "MPO")


def _decode(image: ImageFile, mode: str, side: int | None) -> np.ndarray:
    from PIL import Image as pillow
    from PIL import ImageOps

    if side is not None and _is_photo(image):
        # Decoded at an eighth to all of its size, in a tenth of the time, with at least twice the pixels that are left.
        width, height = (-(-2 * side * length // min(image.size)) for length in image.size)
        image.draft(mode, (width, height))
    rotated = _is_photo(image) and image.getexif().get(0x0112, 1) > 1
    upright: Any = ImageOps.exif_transpose(image) if rotated else image
    pixels = on_white(upright, mode)
    if side is not None:
        width, height = pixels.size
        square = min(width, height)
        left, top = (width - square) // 2, (height - square) // 2
        # Cropped first, because resize(box=...) would use pixels outside the square at its edges.
        center = pixels.crop((left, top, left + square, top + square))
        pixels = center.resize((side, side), pillow.Resampling.BILINEAR)
    return np.asarray(pixels)
