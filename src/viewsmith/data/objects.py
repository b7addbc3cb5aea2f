"""Objects of images, such as cells, as samples: squares around those that masks of a segmentation have."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from viewsmith.core.errors import InputError, name_list, pluralize, say

#: What programs of segmentation add to the name of an image (Cellpose, StarDist, CellProfiler).
ADDED = ("", "_mask", "_masks", "_cp_masks", "_label", "_labels", "_seg", "_instances", "_objects")
OF_SIZES = 90  # percent of the objects are not larger than the square that is chosen
SMALLEST, STEP = 16, 4  # pixels of its side


@dataclass(frozen=True)
class Objects:
    """The objects of the masks of all images."""

    places: np.ndarray  #: (n, 3): image, and row and column of the first pixel of the square
    numbers: np.ndarray  #: (n,): the number of each object in its mask
    side: int  #: of the squares, in pixels


def find_mask(masks: Path, name: str, *, alone: bool) -> Path:
    """The mask of an image: the file that is given, or in a folder the one that has its name, or with an addition."""
    if masks.is_file():
        if alone:
            return masks
        raise InputError(
            f"masks={masks} is a file, and there are several images: expected a folder with a mask for each"
        )
    if not masks.is_dir():
        raise InputError(f"masks={masks} does not exist; expected a file, or a folder with a mask for each image")
    stem = Path(name).name.split(".")[0]
    for place in dict.fromkeys((masks / Path(name).parent, masks)):
        beside = sorted(place.iterdir()) if place.is_dir() else []
        for added in ADDED:
            named = [file for file in beside if file.is_file() and file.name.split(".")[0] == stem + added]
            if named:
                return named[0]
    raise InputError(
        f"{masks} has no mask of {name}: expected an image {stem}.tif or .png, or one of {stem} with "
        f"{name_list(ADDED[1:], len(ADDED))}"
    )


def objects_of(masks: Iterable[np.ndarray], side: int | None, source_name: str) -> Objects:
    """The objects of masks, (H, W) each, of which a pixel has the number of its object, or 0; of a mask with one number
    alone its connected parts. Without a side the square holds most objects. It stays within the image."""
    from scipy.ndimage import find_objects, label

    boxes, numbers, image, sides = [], [], [], []
    for i, mask in enumerate(masks):
        sides.append(mask.shape)
        if mask.dtype.kind == "f" and not np.array_equal(mask, np.round(mask)):
            raise InputError(
                f"{source_name}: a mask has {mask.dtype} values with fractions, expected numbers of objects"
            )
        whole = mask.astype(np.int64)
        if len(np.unique(whole[whole != 0])) == 1 and (parts := label(whole))[1] > 1:
            whole = parts[0]
        for number, found in enumerate(find_objects(whole), 1):
            if found is not None:
                boxes.append((found[0].start, found[0].stop, found[1].start, found[1].stop))
                numbers.append(number)
                image.append(i)
    if not boxes:
        raise InputError(f"{source_name}: the masks have no objects, every pixel is 0")
    of, box = np.array(image), np.array(boxes)
    sizes = np.maximum(box[:, 1] - box[:, 0], box[:, 3] - box[:, 2])
    if side is None:
        side = max(SMALLEST, STEP * int(np.ceil(np.percentile(sizes, OF_SIZES) / STEP)))
        side = min(side, *map(min, sides))
    larger = int((sizes > side).sum())
    say(
        f"{source_name}: {pluralize(len(box), 'object')} of {sizes.min()} to {sizes.max()} pixels, each in a square of "
        f"{side}{f', {larger:,} are larger' if larger else ''} (another side: --tile)"
    )
    shapes = np.array(sides)[of]
    centers = np.stack([box[:, 0] + box[:, 1], box[:, 2] + box[:, 3]], 1) // 2
    starts = np.clip(centers - side // 2, 0, shapes - side)
    return Objects(np.column_stack([of, starts]), np.array(numbers), side)
