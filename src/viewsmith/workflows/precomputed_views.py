"""Views that the user has already, in a folder of images or an array, as a generator of view caches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.data.folders import SUFFIXES, read_images
from viewsmith.domains.images import same_shape
from viewsmith.estimators.build.feature_extractor import FeatureExtractor, described


class PrecomputedViews:
    """Views that the user has already: a folder of images like the folder of the data, or an array.

    Parameters
    ----------
    path : Path
        A folder that has, for each image of the data, an image under the same name, whatever its suffix; for several
        views of each, subfolders 0, 1, ... of that kind. Or an .npz file with ``views``, (n, K, ...), as
        `viewsmith views` writes it.
    rows : ndarray, shape (n, ...)
        The samples.
    names : list of str, optional
        Their file names.
    given : FeatureExtractor, optional
        Finds fractions of foreground and quality; without it they are unknown.

    Raises
    ------
    InputError
        Views are missing, or are not like the samples.
    """

    device = torch.device("cpu")

    def __init__(
        self, path: Path, rows: np.ndarray, names: list[str] | None, given: FeatureExtractor | None = None
    ) -> None:
        self.path, self.like, self.given = path, rows[:1], given
        self.views: np.ndarray | None = None
        self.files: list[list[Path]] = []
        if path.is_dir():
            if names is None:
                raise InputError(f"{path} is a folder, and the data are none of images: give an .npz file with views")
            sides = sorted((each for each in path.iterdir() if each.name.isdigit()), key=lambda each: int(each.name))
            self.files = [[_image(side, name) for name in names] for side in (sides or [path])]
            self.n_views = len(self.files)
        else:
            self.views = _array(path, rows)
            self.n_views = self.views.shape[1]

    def describe(self) -> dict[str, Any]:
        return {"name": "folder", "version": "1", "path": str(self.path)} | described(self.given)

    def noise_tolerance(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        if self.given is None:
            raise InputError("views that are there already have no noise level: leave the noise out, or give features")
        return self.given.noise_tolerance(rows)

    def quality(self, rows: Tensor, views: Tensor, axis: Tensor) -> Tensor:
        if self.given is None:
            raise InputError("views that are there already have no axis to tell quality by: give features")
        return self.given.quality(rows, views, axis)

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


def _array(path: Path, rows: np.ndarray) -> np.ndarray:
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
        raise InputError(f"the views of {path} are {views.dtype}, expected {rows.dtype} as the data")
    return views.reshape(*views.shape[:2], *rows.shape[1:])
