"""Where things are in samples: locations and crops of a CRL-TAC model, and the map of the representations of a scene, a
value for each tile."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError, pluralize, warn
from viewsmith.core.files import atomic_path, target_of
from viewsmith.data.dataset import Dataset, Tiles
from viewsmith.data.places import check_crops_path, check_locations_path
from viewsmith.data.write import write_crops, write_locations
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.evaluation.baselines import pca
from viewsmith.methods.crl_tac.building import with_inference
from viewsmith.methods.crl_tac.estimator import CRLTAC
from viewsmith.modalities.images.channels import to_pixels
from viewsmith.workflows.runs import split_rows


def locate_to(path: Path, model: ViewsmithEstimator, dataset: Dataset, n: int = 1) -> pd.DataFrame:
    """Write the locations that a model finds in the samples of a data set, and return them as a table."""
    check_locations_path(path, dataset.modality)
    found = _of_crl_tac(model).locate(dataset.x, n)
    locations = table_of(dataset, found)
    if missing := len(dataset.x) - locations.index.nunique():
        warn(f"{_no_location(missing, dataset)}; these samples have no row")
    write_locations(path, dataset, locations)
    return locations


def crop_to(path: Path, model: ViewsmithEstimator, dataset: Dataset, n: int = 1) -> pd.DataFrame:
    """Write crops at locations that a model finds, as data for other methods; return the table (`locate_to`)."""
    check_crops_path(path, dataset.modality)
    crops, found = _of_crl_tac(model).crops(dataset.x, n)
    locations = table_of(dataset, found)
    missing = len(dataset.x) - locations.index.nunique()
    if not len(locations):
        raise InputError(f"{_no_location(missing, dataset)}; there is nothing to crop: see the report of the run")
    if missing:
        warn(f"{_no_location(missing, dataset)}; these samples have no crops")
    write_crops(path, dataset, locations, crops[_order(dataset, found)])
    return locations


def table_of(dataset: Dataset, found: np.ndarray) -> pd.DataFrame:
    """Locations in the samples of a data set as a table: train rows first, then test rows, each in input order."""
    frame = pd.DataFrame(found[_order(dataset, found)]).set_index("sample", drop=True)
    rows = frame.index.to_numpy()
    index, is_test = np.empty(len(dataset.x), np.int64), _in_test(dataset)
    for split, split_index in (("train", dataset.train_index), ("test", dataset.test_index)):
        if split_index is not None:
            index[split_index] = split_rows(dataset, split)[1]
    if "feature" in frame and dataset.feature_names is not None:
        frame["feature"] = [dataset.feature_names[feature] for feature in frame["feature"]]
    if dataset.row_names is not None:
        frame.insert(0, "name", [dataset.row_names[row] for row in rows])
    frame.insert(0, "split", np.where(is_test[rows], "test", "train"))
    frame.insert(0, "index", index[rows])
    return frame


def _order(dataset: Dataset, found: np.ndarray) -> np.ndarray:
    """Order that puts locations in train rows before locations in test rows, and changes nothing else."""
    return np.argsort(_in_test(dataset)[found["sample"]], kind="stable")


def _in_test(dataset: Dataset) -> np.ndarray:
    test = np.zeros(len(dataset.x), bool)
    if dataset.test_index is not None:
        test[dataset.test_index] = True
    return test


def inferring(model: ViewsmithEstimator, inference: str | None) -> ViewsmithEstimator:
    """The model, with another average over views as its representation if `inference` is not None."""
    if inference is None:
        return model
    lacks = "has no distribution of views to average over: leave --inference out, or"
    return with_inference(_of_crl_tac(model, lacks), inference)


def _of_crl_tac(model: ViewsmithEstimator, lacks: str = "finds no locations: use `viewsmith discover`, or") -> CRLTAC:
    if not isinstance(model, CRLTAC):
        raise InputError(f"the run was fitted with {model.name}, which {lacks} give a run of crl-tac")
    return model


def _no_location(count: int, dataset: Dataset) -> str:
    of = pluralize(len(dataset.x), "sample")
    return f"no location is found in {count:,} of {of} of {dataset.source}: P(T|x) is too close to uniform"


LARGEST = 1200  # pixels per side of the picture


def check_map(dataset: Dataset) -> Tiles:
    """The tiles of a scene; raises InputError for data that are none."""
    tiles = dataset.windows
    if not isinstance(tiles, Tiles):
        raise InputError(f"--map is for tiles of a large image, and {dataset.source} is read without: add --tile 256")
    if tiles.objects is not None:
        raise InputError("--map is for tiles of a grid, and these samples are objects of masks: write them to a table")
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
