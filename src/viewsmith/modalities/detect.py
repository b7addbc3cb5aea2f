"""Detection of the modality from type, dtype and shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, join_names
from viewsmith.core.registry import entries, names
from viewsmith.core.rows import RowSource
from viewsmith.modalities.base import Modality, modality_of
from viewsmith.modalities.checks import check_array, to_rows
from viewsmith.modalities.vectors.modality import VECTORS


def detect(X: Any, modality: str = "auto") -> Modality:
    """The modality of samples given in Python.

    A list or column of strings is DNA. A list of arrays is images. The dtype and shape of an array determine its
    modality (`find_modality`). Everything else, such as DataFrames and sparse matrices, is vectors.
    """
    if modality != "auto":
        known = names("modality")
        if modality not in known:
            raise InputError(f"modality is {modality!r}, expected {join_names(['auto', *known])}")
        return modality_of(modality)
    if isinstance(X, RowSource):
        return find_modality(X)
    if hasattr(X, "detach"):
        X = to_rows(X)[0]
    if isinstance(X, np.ndarray) and X.size and (X.ndim in (3, 4) or (X.dtype == np.uint8 and X.ndim == 2)):
        return find_modality(X)
    return next((each for each in _all() if each.recognizes(X)), VECTORS)


def find_modality(x: np.ndarray | RowSource, modality: str | None = None, source_name: str = "the data") -> Modality:
    """The modality of an array, by its shape and dtype, or the given one after a check."""
    check_array(x, source_name)
    if isinstance(x, RowSource):
        found = next((each for each in _all() if each.name == "images" and x.dtype == np.uint8), VECTORS)
        if modality not in (None, found.name):
            raise InputError(
                f"{source_name}: rows that stay on disk are {found.name} here, not {modality}; leave modality out"
            )
        return found
    if modality is not None:
        known = modality_of(modality)
        known.check(x, source_name)
        return known
    for each in _all():
        if each.recognizes(x):
            return each
    for each in _all():
        each.near_miss(x, source_name)
    return VECTORS


def _all() -> list[Modality]:
    return [entry.build() for entry in entries("modality")]
