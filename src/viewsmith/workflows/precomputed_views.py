"""Precomputed views, in a folder of images or an array, as a generator of view caches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.core.row_source import AnyRows, RowSource
from viewsmith.data.readers.folders import SUFFIXES, read_images
from viewsmith.domains.images import same_shape
from viewsmith.estimators.build.feature_extractor import FeatureExtractor, describe_extractor


class PrecomputedViews:
    """Precomputed views: a folder of images like the folder of the data, or an array.

    Parameters
    ----------
    path : Path
        A folder that has, for each image of the data, an image with the same name and any suffix; for several views of
        each image, one such subfolder for each view: 0, 1, ... Or an .npz file with ``views`` (n, K, ...), as written
        by `viewsmith views`.
    rows : ndarray or RowSource, shape (n, ...)
        The samples.
    names : list of str, optional
        File names of the samples.
    extractor : FeatureExtractor, optional
        Computes foreground fractions and quality; without it they are unknown.

    Raises
    ------
    InputError
        Views are missing, or their shape or dtype is not that of the samples.
    """

    device = torch.device("cpu")

    def __init__(
        self, path: Path, rows: AnyRows, names: list[str] | None, extractor: FeatureExtractor | None = None
    ) -> None:
        self.path, self.like, self.extractor = path, rows[:1], extractor
        self.views: np.ndarray | None = None
        self.files: list[list[Path]] = []
        if path.is_dir():
            if names is None:
                raise InputError(f"{path} is a folder, but the data are not images: give an .npz file with views")
            folders = sorted((each for each in path.iterdir() if each.name.isdigit()), key=lambda each: int(each.name))
            self.files = [[_image(folder, name) for name in names] for folder in (folders or [path])]
            self.n_views = len(self.files)
        else:
            self.views = _array(path, rows)
            self.n_views = self.views.shape[1]

    def describe(self) -> dict[str, Any]:
        return {"name": "folder", "version": "1", "path": str(self.path)} | describe_extractor(self.extractor)

    def noise_tolerance(self, rows: Tensor | RowSource) -> tuple[Tensor, Tensor]:
        if self.extractor is None:
            raise InputError("precomputed views have no noise level: leave the noise out, or give features")
        return self.extractor.noise_tolerance(rows)

    def quality(self, rows: Tensor, views: Tensor, axis: Tensor) -> Tensor:
        if self.extractor is None:
            raise InputError("precomputed views have no foreground axis to compute quality from: give features")
        return self.extractor.quality(rows, views, axis)

    def generate(
        self, rows: Tensor, index: Tensor, view: int, level: Tensor, streams: Sequence[torch.Generator]
    ) -> Tensor:
        if self.views is not None:
            return torch.from_numpy(self.views[index.numpy(), view])
        height, width = self.like.shape[1:3]
        files = [self.files[view][row] for row in index.tolist()]
        found = read_images(files, height if height == width else None, self.like.shape[3:] == (3,))
        if found.shape[1:3] != (height, width) or found[:1].size != self.like.size:
            raise InputError(
                f"views in {files[0].parent} have shape {found.shape[1:]}, expected {self.like.shape[1:]} as the data"
            )
        return torch.from_numpy(found.reshape(-1, *self.like.shape[1:]))


def _image(folder: Path, name: str) -> Path:
    base = folder / name
    for file in (base, *(base.with_suffix(suffix) for suffix in SUFFIXES)):
        if file.is_file():
            return file
    raise InputError(f"{folder} has no view of {name}: expected an image of that name, with any suffix")


def _array(path: Path, rows: AnyRows) -> np.ndarray:
    try:
        with np.load(path, allow_pickle=False) as content:
            views: np.ndarray = content["views"]
    except FileNotFoundError as error:
        raise InputError(f"no views at {path}: expected a folder of images, or an .npz file with views") from error
    except Exception as error:
        raise InputError(
            f"cannot read {path} as an .npz file with views ({type(error).__name__}): write it with numpy"
        ) from error
    if views.ndim < 2 or len(views) != len(rows) or not same_shape(views.shape[2:], rows.shape[1:]):
        expected = f"({len(rows)}, K, {', '.join(map(str, rows.shape[1:]))})"
        raise InputError(f"the views of {path} have shape {views.shape}, expected {expected} for these data")
    if views.dtype != rows.dtype:
        raise InputError(f"the views of {path} are {views.dtype}, expected {rows.dtype} as in the data")
    return views.reshape(*views.shape[:2], *rows.shape[1:])
