"""Tables of labels with a row for each object of a mask, as CellProfiler, Cellpose and scikit-image write them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, one_line, pluralize, say
from viewsmith.data.label_tables import forms, plain, read_table, tables
from viewsmith.data.options import DataOptions

#: Names of columns that number the objects of an image, without case and marks (CellProfiler, Cellpose, scikit-image).
NUMBERS = (
    *("objectnumber", "numberobjectnumber", "object", "objectid", "cellid", "cellnumber", "cell", "nucleus"),
    *("roi", "labelid", "instance", "mask", "maskid", "label", "number", "id"),
)


def table_of_objects(
    names: Sequence[str], numbers: np.ndarray, request: DataOptions, folder: Path | None, files: Sequence[str]
) -> Any:
    """The table of labels of objects of masks, in their order, given the image (and its file) and the number of each;
    None if there is none. ImageNumber of CellProfiler is that of the table of images beside it."""
    for known in (names, files):
        if (found := _objects_table(known, numbers, request, folder)) is not None:
            return found
    if request.labels is not None:
        raise InputError(
            f"{request.labels} has no row for each image or object, such as {names[0]}: expected a column of the names "
            "of images, and for objects one of their numbers in the masks (ObjectNumber)"
        )
    return None


def _objects_table(names: Sequence[str], numbers: np.ndarray, request: DataOptions, folder: Path | None) -> Any:
    for file, table in tables(request, folder):
        free = [c for c in table.columns if c not in (request.or_fitted("label"), request.or_fitted("groups"))]
        column = next((c for known in NUMBERS for c in free if plain(c) == known), None)
        if column is None or table[column].dtype.kind not in "iuf":
            continue
        of = _images_of(table, sorted(set(names)), file)
        if of is None:
            continue
        form, images = of
        keys = list(zip(images, table[column], strict=True))
        row_of = dict(zip(keys, range(len(keys)), strict=True))
        if len(row_of) < len(keys):
            twice = next(key for i, key in enumerate(keys) if row_of[key] != i)
            raise InputError(f"{file} has several rows of the object {twice[1]:g} of {twice[0]}: expected one for each")
        samples = zip(forms(names)[form], numbers.tolist(), strict=True)
        rows = np.array([row_of.get(key, -1) for key in samples], np.int64)
        if (rows < 0).all():
            raise InputError(
                f"{file}: no number of its column {one_line(column, 40)} is one of an object in the mask of its image, "
                f"such as {numbers[0]} of {names[0]}"
            )
        say(f"{file}: {int((rows >= 0).sum()):,} of {pluralize(len(rows), 'object')} by {one_line(column, 40)}")
        return table.reindex(rows).reset_index(drop=True)
    return None


def _images_of(table: Any, names: Sequence[str], file: Path) -> tuple[int, list[str]] | None:
    """The image of each row of a table of objects, and in which form of names; None if no column has them."""
    for column in table.columns:
        for form, keys in enumerate(forms(table[column].map(str).tolist())):
            if set(keys) & set(forms(names)[form]):
                return form, keys
    number = next((c for c in table.columns if plain(c) == "imagenumber"), None)
    if number is None:
        return (0, [names[0]] * len(table)) if len(names) == 1 else None
    for beside in sorted(file.parent.glob("*Image.csv")):
        images = read_table(beside)
        mine = next((c for c in images.columns if plain(c) == "imagenumber"), None)
        found = None if mine is None else _images_of(images.drop(columns=mine), names, beside)
        if found is not None and len(names) > 1:
            of = dict(zip(images[mine], found[1], strict=True))
            return found[0], [of.get(each, "") for each in table[number]]
    return None
