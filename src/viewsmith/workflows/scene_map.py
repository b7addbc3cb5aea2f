"""A map of the representations of a scene: a value for each tile, as TIFF and as a picture."""

from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, pluralize
from viewsmith.core.files import atomic_path, target_of
from viewsmith.data.dataset import Dataset, Tiles
from viewsmith.evaluation.baselines import pca
from viewsmith.modalities.images.channels import to_pixels

LARGEST = 1200  # pixels per side of the picture


def check_map(dataset: Dataset) -> Tiles:
    """The tiles of a scene; raises InputError for data that are none."""
    tiles = dataset.windows
    if not isinstance(tiles, Tiles):
        raise InputError(f"--map is for tiles of a large image, and {dataset.source} is read without: add --tile 256")
    if len(tiles.scenes) > 1:
        raise InputError(f"--map is for one image, and {dataset.source} has {pluralize(len(tiles.scenes), 'image')}")
    return tiles


def write_map(path: Path, dataset: Dataset, H: np.ndarray) -> None:
    """Write representations (n, d) of the tiles of a scene: a TIFF file (d, rows, columns) with a pixel for each tile,
    NaN where a tile was empty, in the coordinates of the scene; beside it ``.png``, whose red, green and blue are the
    three directions of the largest variance."""
    tiles = check_map(dataset)
    if H.ndim != 2:
        raise InputError(f"a map needs representations (n, d), and they have the shape {H.shape}")
    import tifffile
    from PIL import Image

    (height, width), step = tiles.shapes[0], tiles.step
    shape = [-(-(size - tiles.side) // step) + 1 for size in (height, width)]
    grid = np.full((*shape, H.shape[1]), np.nan, np.float32)
    at = -(-tiles.tops // step), -(-tiles.lefts // step)  # the last ones end at the edge
    grid[at] = H
    tags: Any = None if tiles.transforms[0] is None else _map_tags(tiles)
    with atomic_path(target_of(path)) as temporary, temporary.open("wb") as file:
        planes = np.ascontiguousarray(grid.transpose(2, 0, 1))
        tifffile.imwrite(file, planes, photometric="minisblack", metadata=None, extratags=tags)
    colors = np.zeros((len(H), 3), np.float32)
    main = pca(H, H, 3)[0]
    colors[:, : main.shape[1]] = main
    low, high = np.percentile(colors, (2, 98), axis=0)
    picture = np.zeros((*shape, 3))
    picture[at] = ((colors - low) / np.where(high > low, high - low, 1)).clip(0.004)  # black: no tile
    times = max(1, LARGEST // max(shape))
    with atomic_path(target_of(path.with_suffix(".png"))) as temporary:
        Image.fromarray(to_pixels(picture).repeat(times, 0).repeat(times, 1)).save(temporary, format="PNG")


def _map_tags(tiles: Tiles) -> list[tuple[int, str, int, tuple[float, ...], bool]]:
    """Tags of a GeoTIFF whose pixels are tiles: their place on the map, and which map that is."""
    x, a, b, y, c, d = tiles.transforms[0] or ()
    step, start = tiles.step, (tiles.side - tiles.step) / 2  # a pixel is the middle of its tile
    x, y = x + (a + b) * start, y + (c + d) * start
    matrix = (a * step, b * step, 0, x, c * step, d * step, 0, y, 0, 0, 0, 0, 0, 0, 0, 1)
    return [(34264, "d", 16, tuple(map(float, matrix)), True), *tiles.map_keys]
