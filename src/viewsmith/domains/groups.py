"""Groups of rows: checked and numbered."""

from __future__ import annotations

from typing import Any

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.core.messages import name_list, pluralize
from viewsmith.domains.few_labels import missing_labels


def group_names(groups: Any, n_rows: int, what: str = "groups") -> np.ndarray:
    """The group of each row as text, (n,).

    Raises
    ------
    InputError
        Not one group for each row, or missing groups.
    """
    given = np.asarray(groups)
    if given.shape != (n_rows,):
        raise InputError(f"{what} has shape {given.shape}, expected one group per row, ({n_rows},)")
    missing = 0 if given.dtype.kind in "iub" else int(missing_labels(given).sum())
    if missing:
        raise InputError(
            f"{what} has {pluralize(missing, 'missing value')} (NaN or empty): give every row a group, or leave the "
            "groups out"
        )
    return given.astype(str)


def group_codes(groups: Any, n_rows: int, what: str = "groups", *, alone: bool = False) -> np.ndarray:
    """Group numbers from 0, int64 (n,), of training rows; groups of one row are valid if `alone`.

    Raises
    ------
    InputError
        As for `group_names`; or there are fewer than two groups, or a group has one row and is not `alone`.
    """
    names, codes, counts = np.unique(group_names(groups, n_rows, what), return_inverse=True, return_counts=True)
    if len(names) < 2:
        raise InputError(
            f"{what} has one group ({names[0]}) in {n_rows} rows: expected at least two, or leave them out"
        )
    if (counts == 1).any() and not alone:
        single = names[counts == 1]
        raise InputError(
            f"{what} has {pluralize(len(single), 'group')} of one row: {name_list(list(single), 5)}; join such rows "
            "with another group, or leave them out"
        )
    return codes.astype(np.int64)
