"""Read a data set from a built-in name, a file or a folder, and check it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, suggest_names, warn
from viewsmith.core.rows import AnyRows, RowSource, is_large
from viewsmith.data.dataset import Dataset, split_by_groups, split_by_label
from viewsmith.data.labels import check_target, group_names, kind_of, without_label
from viewsmith.data.readers.arrays import BUILTIN, read_builtin, read_npy, read_npz
from viewsmith.data.readers.fasta import read_fasta
from viewsmith.data.readers.folders import read_folder
from viewsmith.data.readers.h5ad import read_h5ad
from viewsmith.data.readers.tables import advice, read_csv, read_parquet, read_tsv
from viewsmith.data.reading import FileContents, Reader, ReadOptions, find_labels, labels_may_lack, read_once
from viewsmith.modalities.base import modality_of
from viewsmith.modalities.checks import Impute
from viewsmith.modalities.detect import find_modality
from viewsmith.modalities.images.modality import SMALLEST_SIDE
from viewsmith.modalities.vectors.counts import (
    NORMALIZED,
    Normalization,
    check_counts,
    log_normalized,
    looks_like_counts,
)
from viewsmith.modalities.vectors.modality import VECTORS

if TYPE_CHECKING:
    from viewsmith.modalities.tables.encoder import TableEncoder

READERS: dict[str, Reader] = {
    ".npz": read_npz,
    ".npy": read_npy,
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".parquet": read_parquet,
    ".csv.gz": read_csv,
    ".tsv.gz": read_tsv,
    ".h5ad": read_h5ad,
    ".zarr": read_h5ad,
    **dict.fromkeys((".fa", ".fasta", ".fna", ".fa.gz", ".fasta.gz", ".fna.gz"), read_fasta),
}

TABLES = tuple(suffix for suffix, reader in READERS.items() if reader in (read_csv, read_tsv, read_parquet))

# Files that one of several processes reads for all: the others need not decode them again.
_READ_ONCE = (read_csv, read_tsv, read_parquet, read_fasta)

# Options that apply to one kind of source only: the option, its reader, and the source in messages.
_SOURCE_OPTIONS = (
    ("labels", read_fasta, "a FASTA file"),
    ("layer", read_h5ad, "an .h5ad file"),
    ("neighbors", read_h5ad, "an .h5ad file"),
    ("use_rep", read_h5ad, "an .h5ad file"),
    ("image_size", read_folder, "a folder of images"),
    ("cache", read_folder, "a folder of images"),
)


def load_dataset(
    source: str | Path,
    *,
    label: str | None = None,
    modality: str | None = None,
    drop: Sequence[str] = (),
    one_hot: Sequence[str] = (),
    impute: Impute = "none",
    schema: dict[str, Any] | None = None,
    labels: str | Path | None = None,
    layer: str | None = None,
    image_size: int | None = None,
    neighbors: str | None = None,
    stream: bool = False,
    cache: str | Path | None = None,
    cache_if_large: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    strict: bool = False,
    table: TableEncoder | None = None,
    groups: str | None = None,
    split_by_groups: bool = False,
    few_labels: bool = False,
    use_rep: str | None = None,
    normalization: Normalization = "auto",
    shared: bool = False,
    target: str | None = None,
    split_seed: int | None = None,
) -> Dataset:
    """Rows, labels and split from a built-in name, a file or a folder of images.

    Parameters
    ----------
    source : str or Path
        The text ``digits``, ``breast_cancer`` or ``wine`` (a Path, or ``./digits``, is never one of these), or a file
        with an extension in `READERS`. An ``.npz`` holds ``X_train`` and ``X_test`` (``y_train``, ``y_test``) or ``X``
        (``y``). A folder holds ``CLASS/*.png``, or ``train/CLASS/*.png`` and ``test/CLASS/*.png``, or images without
        labels. Headers of a FASTA file may have ``label=VALUE`` and ``split=train`` or ``split=test``.
    label : str, optional
        Column of the labels, in a table or in ``obs`` of an .h5ad file; it is never a feature.
    modality : str, optional
        Name of a modality. Default: the modality that `find_modality` detects.
    drop, one_hot : sequence of str
        Columns of a table to leave out, and to encode as one indicator column per category.
    impute : {"none", "median"}
        "none": missing values of arrays are an error; in tables they become the median and an indicator. "median": they
        stay NaN in `Dataset.x`, or become the median without an indicator in a table that is not plain numbers.
    schema : dict, optional
        ``Dataset.schema`` of the data that a run was fitted on. The file must have the same columns, in any order.
        Labels are then optional, and left out if they cannot be used (`Dataset.label_fault`) and `label` is not given;
        a single row is allowed, and rows too few to split are not split. Images must have the same shape; DNA may have
        any length. `layer` and `image_size` default to those of the fitted data.
    labels : str or Path, optional
        Labels of the records of a FASTA file: lines of name and label, separated by a tab or a comma.
    layer : str, optional
        Layer of an .h5ad file to use instead of its ``X``.
    image_size : int, optional
        Crop the center square of every image of a folder and resize it to this number of pixels per side.
    neighbors : str, optional
        Key of a sparse matrix in ``obsp`` of an .h5ad file, such as scanpy's ``connectivities``: `Dataset.neighbors`.
    columns : mapping, optional
        Roles of columns of a table by name, in place of those that are inferred: numeric, category, text, date or drop.
    strict : bool
        Refuse a table with columns that are not numbers and neither dropped nor one-hot encoded, and missing values.
    table : TableEncoder, optional
        Encoder of the table that a model was fitted on, ``model.table_`` or ``data.x.table``: a table is read by it.
    use_rep : str, optional
        Key of ``obsm`` of an .h5ad file to use instead of its ``X``.
    normalization : {"auto", "log", "none"}
        "log": rows are counts, which are log-normalized (`viewsmith.modalities.log_normalize`). "auto": "log" for an
        .h5ad file with raw counts, which is said, else "none". With `schema`: what was done with the fitted data.
    stream : bool
        Leave vectors on disk, and read them as they are needed, whatever their size. Rows that take more than a GiB as
        float32 are always read so (`viewsmith.core.rows.STREAM_ABOVE`).
    shared : bool
        Several processes read these data: arrays, .h5ad files and images with a cache stay on disk, where they share
        them, and the model that is trained on them is that of rows in memory. With `cache_if_large`, one process reads
        tables of numbers and FASTA files, and the others its copy of the rows there.
    cache : str or Path, optional
        Folder in which the decoded images of a folder of images are kept, to be read by index from there; they are
        decoded again if the names, sizes or dates of the files have changed.
    cache_if_large : str or Path, optional
        The same for images that take more than a GiB. Without any of the two, images are read into memory.
    groups : str, optional
        Column of the groups (batches, subjects) in a table or in ``obs``, which is no feature; or an array of an .npz
        file: ``NAME``, or ``NAME_train`` and ``NAME_test``.
    split_by_groups : bool
        Whole groups are test rows.
    few_labels : bool
        Labels may be missing (-1, NaN or empty); `Dataset.y` then has -1 or "". `label` may be "y" for files that hold
        labels without a name.
    target : {"auto", "class", "number"}, optional
        What labels are. "auto", the default: numbers if they are of a numeric type and some have a fraction, else
        classes. Numbers are float64 in `Dataset.y`, NaN where they are missing; -1 is then no missing label.
    split_seed : int, optional
        Seed of the random split of data that have none, default 0; what a mixed table is encoded by is fitted on the
        train rows of this split. If it is given, rows without labels are split, too.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        The data or options are invalid; the message is one line.
    MissingExtra
        Parquet without pyarrow, .h5ad without anndata, a folder of images without pillow.
    """
    request, modality = _request(label, modality, drop, one_hot, impute, schema)
    request = dataclasses.replace(
        request,
        labels=None if labels is None else Path(labels),
        layer=layer,
        image_size=_check_image_size(image_size),
        neighbors=neighbors,
        stream=stream,
        shared=shared,
        cache=None if cache is None else Path(cache),
        cache_if_large=None if cache_if_large is None else Path(cache_if_large),
        groups=groups,
        few_labels=few_labels or None,
        split_by_groups=split_by_groups,
        use_rep=use_rep,
        normalization=normalization,
        target=check_target(target),
        split_seed=split_seed,
    )
    if columns is not None or strict or table is not None:
        request = dataclasses.replace(
            request, columns=None if columns is None else dict(columns), strict=strict, table=table
        )
    if split_by_groups and groups is None:
        raise InputError("the split is by groups, but no groups were given: add groups (--groups COLUMN)")
    name = _name(source)
    return _dataset(_read(name, request), request, modality, name, split_by_groups)


def _dataset(found: FileContents, request: ReadOptions, modality: str | None, name: str, by_groups: bool) -> Dataset:
    """Check what a reader found, and split it into train and test rows."""
    schema = request.schema
    kind = find_modality(found.x, modality, name)
    names = found.names if kind.named_features else None
    x = kind.from_file(found.x, names, request.impute, name)
    normalization = _normalization(x, found, request, kind.name, name)
    if normalization == "log":
        x = log_normalized(x)
    if isinstance(x, RowSource):
        x.small = request.shared and not request.stream and not is_large(x.shape, x.dtype)
    new_schema = {
        **(found.table or {"columns": None, "one_hot": {}, "drop": [], "label": None}),
        "modality": kind.name,
        "impute": request.impute,
        "row_shape": kind.required_shape(x.shape[1:]),
        "feature_names": names,
        **found.options,
        **_about_rows(request, by_groups),
        **({"normalization": "log"} if normalization == "log" else {}),
    }
    if schema is not None:
        _check_schema(x, names, schema, name)
    y, partial, fault = None, False, None
    try:
        y, partial = find_labels(found, request, len(x), name)
    except InputError as error:
        if not labels_may_lack(request):
            raise
        fault = str(error)
    if request.groups is not None and found.groups is None:
        raise InputError(f"{name} has no column {one_line(request.groups, 60)!r}, given as groups; leave groups out")
    groups = None if found.groups is None else group_names(found.groups, len(x), f"the groups in {name}")
    if by_groups or (schema is not None and schema.get("split_by_groups") and groups is not None):
        train, test, split = split_by_groups(
            groups, found.n_train, name, fresh=schema is None, seed=request.split_seed or 0
        )
    else:
        labeled = np.arange(len(x)) if y is None or not partial else np.flatnonzero(~without_label(y))
        train, test, split = split_by_label(
            len(x), y, labeled, found.n_train, name, fresh=schema is None, seed=request.split_seed
        )
    if (y is not None and kind_of(y) == "number") or request.target is not None:
        new_schema["target"] = "class" if y is None else kind_of(y)
    dataset = Dataset(
        x=x,
        y=y,
        train_index=train,
        test_index=test,
        split=split,
        modality=kind.name,
        source=name,
        feature_names=names,
        schema=new_schema if schema is None else schema,
        label_name=new_schema["label"],
        row_names=found.row_names,
        neighbors=found.neighbors,
        groups=groups,
        partly_labeled=partial,
        label_fault=fault,
    )
    if schema is None:
        _check_train_rows(dataset)
    return dataset


def _about_rows(request: ReadOptions, by_groups: bool) -> dict[str, Any]:
    """What later files of a run are read with: groups, how they split rows, and whether labels may be missing."""
    given = {"groups": request.groups, "split_by_groups": by_groups or None, "few_labels": request.few_labels}
    return {name: value for name, value in given.items() if value is not None}


def _request(
    label: str | None,
    modality: str | None,
    drop: Sequence[str],
    one_hot: Sequence[str],
    impute: str,
    schema: dict[str, Any] | None,
) -> tuple[ReadOptions, str | None]:
    if impute not in get_args(Impute):
        raise InputError(f"unknown impute {one_line(impute, 60)!r}, expected one of {name_list(get_args(Impute))}")
    for option, value in (("drop", drop), ("one_hot", one_hot)):
        if isinstance(value, str):
            raise InputError(f"{option} is the text {one_line(value, 60)!r}, expected a list of column names")
    if schema is None:
        return ReadOptions(label, tuple(drop), tuple(one_hot), impute), modality  # type: ignore[arg-type]
    for option, given, fitted in (
        ("modality", modality, schema["modality"]),
        ("drop", list(drop) or None, schema["drop"]),
        ("one_hot", list(one_hot) or None, list(schema["one_hot"])),
        ("impute", None if impute == "none" else impute, schema["impute"]),
    ):
        if given is not None and given != fitted:
            raise InputError(
                f"{option}={one_line(given, 60)}, but the run was fitted with {one_line(fitted, 60)}; leave it out"
            )
    return ReadOptions(label, impute=schema["impute"], schema=schema), schema["modality"]


def _normalization(
    x: AnyRows, found: FileContents, request: ReadOptions, modality: str, source_name: str
) -> Normalization:
    """Whether rows are counts to be log-normalized; says so where they are recognized."""
    wanted = request.normalization if request.schema is None else request.schema.get("normalization", "none")
    if wanted not in get_args(Normalization):
        raise InputError(f"unknown normalization {wanted!r}, expected one of {name_list(get_args(Normalization))}")
    if wanted == "auto" and found.cells and looks_like_counts(x):
        warn(f"{source_name}: {NORMALIZED}")
        return "log"
    if wanted == "log":
        if modality != VECTORS.name:
            raise InputError(
                f"{source_name}: normalization='log' is for counts, but the data are {modality}; leave it out"
            )
        check_counts(x, source_name)
        return "log"
    return "none"


def _check_image_size(image_size: int | None) -> int | None:
    if image_size is not None and image_size < SMALLEST_SIDE:
        raise InputError(f"image_size is {image_size}, expected a side of at least {SMALLEST_SIDE} pixels")
    return image_size


def _name(source: str | os.PathLike[str]) -> str:
    """The source as text, in which a path is never a built-in name."""
    name = str(source)
    return name if isinstance(source, str) or name not in BUILTIN else os.path.join(os.curdir, name)


def _read(name: str, request: ReadOptions) -> FileContents:
    if name in BUILTIN:
        if Path(name).exists():
            warn(
                f"{name!r} is the built-in data set, not the file or folder of this name here: give "
                f"{os.path.join(os.curdir, name)} for that"
            )
        _check_source_options(name, request, None)
        return read_builtin(name, request)
    path = Path(name)
    reader = read_folder if path.is_dir() and path.suffix.lower() != ".zarr" else _reader(path)
    _check_source_options(name, request, reader)
    if request.shared and request.cache_if_large is not None and reader in _READ_ONCE and request.table is None:
        return read_once(reader, path, request, request.cache_if_large)
    return reader(path, request)


def _reader(path: Path) -> Reader:
    """The reader of a file, by its extension."""
    # Compressed files have two extensions: reads.fa.gz
    extension = "".join(path.suffixes[-2:]) if path.suffix.lower() == ".gz" else path.suffix
    reader = READERS.get(extension.lower())
    if reader is None:
        if not path.exists() and str(path) in BUILTIN:
            raise InputError(
                f"the path {path} does not exist; expected a file or folder; give the text {str(path)!r} for the "
                "built-in data set"
            )
        known = " ".join(READERS)
        if not path.suffix and not path.exists():
            hint = suggest_names(str(path), BUILTIN, "built-in")
            raise InputError(
                f"unknown data set {one_line(path, 100)!r}; {hint}, or give a file, {known}, or a folder of images"
            )
        given = f"the extension {extension!r}" if extension else "no extension"
        hint = advice(extension, path)
        raise InputError(
            f"{path} has {given}; {hint and hint + '; '}expected {known}, a folder of images, or one of the built-in "
            f"{', '.join(BUILTIN)}"
        )
    if not (path.is_file() or (path.is_dir() and path.suffix.lower() == ".zarr")):
        raise InputError(f"{path} does not exist; expected a {extension} file")
    return reader


def _check_source_options(name: str, request: ReadOptions, reader: Reader | None) -> None:
    for option, reader_of_option, kind in _SOURCE_OPTIONS:
        value = getattr(request, option)
        if value is not None and reader is not reader_of_option:
            raise InputError(
                f"{name} is not {kind}, so {option}={one_line(value, 60)} has no effect; leave {option} out"
            )


def _check_schema(x: AnyRows, names: list[str] | None, schema: dict[str, Any], source_name: str) -> None:
    """Raise InputError if the shape of the rows or the names of the columns differ from those of the fitted data."""
    expected = tuple(schema["row_shape"])
    if not modality_of(schema["modality"]).same_shape(x.shape[1:], expected):
        if len(expected) == 1:
            raise InputError(
                f"{source_name} has {pluralize(x.shape[1], 'feature')} per row, but the run was fitted on {expected[0]}"
            )
        raise InputError(f"{source_name} has rows of shape {x.shape[1:]}, but the run was fitted on {expected}")
    fitted = schema["feature_names"]
    if names is not None and fitted is not None and names != fitted:
        i = next(i for i, pair in enumerate(zip(names, fitted, strict=True)) if pair[0] != pair[1])
        raise InputError(
            f"{source_name}: feature {i} (counted from 0) is {one_line(names[i], 60)}, but the run was fitted on "
            f"{one_line(fitted[i], 60)} there; give the same features in the same order"
        )


def _check_train_rows(dataset: Dataset) -> None:
    """Check rows to fit on. Rows for a fitted run are not checked: they may be a single row, or all equal."""
    x, names, source_name = dataset.x_train, dataset.feature_names, dataset.source
    if len(x) < 2:
        raise InputError(
            f"{source_name} has {pluralize(len(x), 'row')} for training (n_samples={len(x)}), expected at least 2"
        )
    modality_of(dataset.modality).check_training_rows(x, names, source_name)
