"""Labels of tiles from a map of classes, an image of the size of the scene; and the fields that a split keeps whole."""

from pathlib import Path

import numpy as np

from viewsmith.core.errors import InputError, name_list, pluralize, say


def classes_of_tiles(classes: np.ndarray, places: np.ndarray, side: int, path: Path) -> np.ndarray:
    """The class of the center of each tile on the map of a scene, float64 (n,), NaN without one; `places`, (n, 3), has
    the row and column of the first pixel of each tile."""
    _, tops, lefts = places.T
    y = classes[tops + side // 2, lefts + side // 2].astype(np.float64)
    y[y == 0] = np.nan
    known = y[~np.isnan(y)]
    if not len(known):
        raise InputError(f"{path}: no tile has its center where the map has a class (0 is none)")
    if not (known == np.round(known)).all():
        raise InputError(
            f"{path} has {known[known != np.round(known)][0]:g}, expected whole numbers, which are classes; 0 or NaN "
            "where there is none"
        )
    say(
        f"{path}: {pluralize(len(np.unique(known)), 'class', 'classes')} for {len(known):,} of "
        f"{pluralize(len(y), 'tile')}, by their centers; 0 is no class"
    )
    return y


def fields_of_tiles(y: np.ndarray, places: np.ndarray, side: int, step: int) -> np.ndarray:
    """Number of the field of each tile of a scene, int64 (n,), -1 without a class: tiles of a class that share pixels
    or are neighbors are of one field."""
    from scipy.ndimage import label, maximum_filter

    rows, columns = (np.unique(places[:, axis], return_inverse=True)[1] for axis in (1, 2))
    grid = np.full((rows.max() + 1, columns.max() + 1), np.nan)
    grid[rows, columns] = y
    fields, count = np.full(grid.shape, -1, np.int64), 0
    for kind in np.unique(y[~np.isnan(y)]):
        # Of tiles that lie this many apart, the windows around them meet.
        near, number = label(maximum_filter(grid == kind, -(-side // step)), np.ones((3, 3)))
        of_kind = grid == kind
        fields[of_kind] = near[of_kind] - 1 + count
        count += number
    found: np.ndarray = fields[rows, columns]
    return found


def split_fields(
    y: np.ndarray, absent: np.ndarray, fields: np.ndarray, source_name: str, seed: int, fraction: float
) -> tuple[np.ndarray, np.ndarray | None]:
    """Train rows, and test rows (None: no class has two fields): of each class random whole fields, until they have a
    fraction of its tiles; one field of each stays for training."""
    test, alone = np.zeros(len(y), dtype=bool), []
    rng = np.random.default_rng(seed)
    for kind in np.unique(y[~absent]):
        members = ~absent & (y == kind)
        names, counts = np.unique(fields[members], return_counts=True)
        if len(names) < 2:
            alone.append(str(kind))
            continue
        order = rng.permutation(len(names))
        enough = int(np.searchsorted(counts[order].cumsum(), fraction * counts.sum())) + 1
        test |= members & np.isin(fields, names[order[: min(enough, len(names) - 1)]])
    if alone:
        one, held = len(alone) == 1, "whole fields are" if test.any() else "nothing is"
        say(
            f"{source_name}: {'class' if one else 'classes'} {name_list(alone, 8)} {'has' if one else 'have'} one "
            f"field {'' if one else 'each '}and {'is' if one else 'are'} not scored; {held} held out"
        )
    rows = np.arange(len(y))
    return (rows[~test], rows[test]) if test.any() else (rows, None)
