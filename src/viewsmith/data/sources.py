"""Data from a name or a file: one function for all sources, and the rules that hold whatever the source."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.core.messages import name_list, one_line, pluralize, suggest_names
from viewsmith.data.arrays import read_npy, read_npz
from viewsmith.data.builtin import BUILTIN, read_builtin
from viewsmith.data.dataset import Dataset, Split, split_indices
from viewsmith.data.fasta import read_fasta
from viewsmith.data.folders import read_folder
from viewsmith.data.h5ad import read_h5ad
from viewsmith.data.reading import Found, Reader, Request
from viewsmith.data.tables import read_csv, read_parquet, read_tsv
from viewsmith.domains.base import domain_of
from viewsmith.domains.checks import Impute, check_labels
from viewsmith.domains.detect import find_domain
from viewsmith.domains.images import SMALLEST_SIDE

READERS: dict[str, Reader] = {
    ".npz": read_npz,
    ".npy": read_npy,
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".parquet": read_parquet,
    ".h5ad": read_h5ad,
    ".fa": read_fasta,
    ".fasta": read_fasta,
    ".fna": read_fasta,
    ".fa.gz": read_fasta,
    ".fasta.gz": read_fasta,
    ".fna.gz": read_fasta,
}
# Options that a single kind of source has.
_OWN_OPTIONS = (
    ("labels", read_fasta, "a FASTA file"),
    ("layer", read_h5ad, "an .h5ad file"),
    ("image_size", read_folder, "a folder of images"),
)


def load_dataset(
    source: str | Path,
    *,
    label: str | None = None,
    domain: str | None = None,
    drop: Sequence[str] = (),
    one_hot: Sequence[str] = (),
    impute: Impute = "none",
    schema: dict[str, Any] | None = None,
    labels: str | Path | None = None,
    layer: str | None = None,
    image_size: int | None = None,
) -> Dataset:
    """Rows, labels and split from a built-in name, a file or a folder of images.

    Parameters
    ----------
    source : str or Path
        ``digits``, ``breast_cancer``, ``wine``, or a file with an extension in `READERS`. An ``.npz`` holds
        ``X_train`` and ``X_test`` (``y_train``, ``y_test``) or ``X`` (``y``). A folder holds ``CLASS/*.png``, or
        ``train/CLASS/*.png`` and ``test/CLASS/*.png``, or images without labels. Headers of a FASTA file may have
        ``label=VALUE`` and ``split=train`` or ``split=test``.
    label : str, optional
        Column of a table, or of ``obs`` in an .h5ad file, that holds the labels; never a feature.
    domain : {"vectors", "images", "dna"}, optional
        Instead of the domain that `find_domain` sees.
    drop, one_hot : sequence of str
        Columns of a table to leave out, and to encode as one indicator column per category.
    impute : {"none", "median"}
        Missing values: refused, or left as NaN in `Dataset.x` for the model, which holds the medians.
    schema : dict, optional
        ``Dataset.schema`` of the data that a run was fitted on: this file has to give the same columns, whatever
        their order. Labels are optional then, a single row is enough, and rows too few to split stay unsplit. Images
        have to be of the same shape; DNA may be of any length. Where `layer` or `image_size` was given for those data,
        it holds here too unless another one is given.
    labels : str or Path, optional
        Labels of the records of a FASTA file: lines of name and label, separated by a tab or a comma.
    layer : str, optional
        Layer of an .h5ad file to take in place of its ``X``.
    image_size : int, optional
        Have the middle of every image of a folder cropped to a square and resized to this many pixels a side.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        One line: what was given, what was expected, what to do.
    MissingExtra
        Parquet without pyarrow, .h5ad without anndata, a folder of images without pillow.
    """
    request, domain = _request(label, domain, drop, one_hot, impute, schema)
    request = dataclasses.replace(
        request,
        labels=None if labels is None else Path(labels),
        layer=layer,
        image_size=_checked_size(image_size),
    )
    name = str(source)
    return _dataset(_read(name, request), request, domain, name)


def _dataset(found: Found, request: Request, domain: str | None, name: str) -> Dataset:
    """What a reader found, held to the rules for every source."""
    schema = request.schema
    kind = find_domain(found.x, domain, name)
    names = found.names if kind.named_features else None
    x = kind.from_file(found.x, names, request.impute, name)
    own_schema = {
        **(found.table or {"columns": None, "one_hot": {}, "drop": [], "label": None}),
        "domain": kind.name,
        "impute": request.impute,
        "row_shape": kind.kept_shape(x.shape[1:]),
        "feature_names": names,
        **found.options,
    }
    if schema is not None:
        _check_schema(x, names, schema, name)
    y = None if found.y is None else check_labels(found.y, len(x), f"y in {name}")
    train, test, split = _split(len(x), y, found.n_train, name, fresh=schema is None)
    dataset = Dataset(
        x=x,
        y=y,
        train_index=train,
        test_index=test,
        split=split,
        domain=kind.name,
        source=name,
        feature_names=names,
        schema=own_schema if schema is None else schema,
        label_name=own_schema["label"],
        row_names=found.row_names,
    )
    if schema is None:
        _check_train_rows(dataset)
    return dataset


def _request(
    label: str | None,
    domain: str | None,
    drop: Sequence[str],
    one_hot: Sequence[str],
    impute: str,
    schema: dict[str, Any] | None,
) -> tuple[Request, str | None]:
    if impute not in get_args(Impute):
        raise InputError(f"unknown impute {one_line(impute, 60)!r}, expected one of {name_list(get_args(Impute))}")
    for option, value in (("drop", drop), ("one_hot", one_hot)):
        if isinstance(value, str):
            raise InputError(f"{option} is the text {one_line(value, 60)!r}, expected a list of column names")
    if schema is None:
        return Request(label, tuple(drop), tuple(one_hot), impute), domain  # type: ignore[arg-type]
    for option, given, fitted in (
        ("domain", domain, schema["domain"]),
        ("drop", list(drop) or None, schema["drop"]),
        ("one_hot", list(one_hot) or None, list(schema["one_hot"])),
        ("impute", None if impute == "none" else impute, schema["impute"]),
    ):
        if given is not None and given != fitted:
            raise InputError(
                f"{option}={one_line(given, 60)}, but the run was fitted with {one_line(fitted, 60)}; leave it out"
            )
    return Request(label, impute=schema["impute"], schema=schema), schema["domain"]


def _checked_size(image_size: int | None) -> int | None:
    if image_size is not None and image_size < SMALLEST_SIDE:
        raise InputError(f"image_size is {image_size}, expected a side of at least {SMALLEST_SIDE} pixels")
    return image_size


def _read(name: str, request: Request) -> Found:
    if name in BUILTIN:
        _refuse_options_of_others(name, request, None)
        return read_builtin(name, request)
    path = Path(name)
    reader = read_folder if path.is_dir() else _reader(path)
    _refuse_options_of_others(name, request, reader)
    return reader(path, request)


def _reader(path: Path) -> Reader:
    """The reader of a file, by its extension."""
    # The extension of a compressed file is its last two: reads.fa.gz
    extension = "".join(path.suffixes[-2:]) if path.suffix.lower() == ".gz" else path.suffix
    reader = READERS.get(extension.lower())
    if reader is None:
        known = " ".join(READERS)
        if not path.suffix and not path.exists():
            hint = suggest_names(str(path), BUILTIN, "built-in")
            raise InputError(
                f"unknown data set {one_line(path, 100)!r}; {hint}, or give a file, {known}, or a folder of images"
            )
        given = f"the extension {extension!r}" if extension else "no extension"
        raise InputError(
            f"{path} has {given}; known are {known}, folders of images and the built-in {', '.join(BUILTIN)}"
        )
    if not path.is_file():
        raise InputError(f"{path} is no existing file; expected a {extension} file")
    return reader


def _refuse_options_of_others(name: str, request: Request, reader: Reader | None) -> None:
    for option, owner, kind in _OWN_OPTIONS:
        value = getattr(request, option)
        if value is not None and reader is not owner:
            raise InputError(f"{name} is not {kind}, so {option}={one_line(value, 60)} has no use; leave {option} out")


def _check_schema(x: np.ndarray, names: list[str] | None, schema: dict[str, Any], what: str) -> None:
    """Refuse rows of another shape than the run was fitted on, and columns of other names."""
    expected = tuple(schema["row_shape"])
    if not domain_of(schema["domain"]).same_shape(x.shape[1:], expected):
        if len(expected) == 1:
            raise InputError(
                f"{what} has {pluralize(x.shape[1], 'feature')} a row, but the run was fitted on {expected[0]}"
            )
        raise InputError(f"{what} has rows of shape {x.shape[1:]}, but the run was fitted on {expected}")
    fitted = schema["feature_names"]
    if names is not None and fitted is not None and names != fitted:
        i = next(i for i, pair in enumerate(zip(names, fitted, strict=True)) if pair[0] != pair[1])
        raise InputError(
            f"{what}: feature {i} (counted from 0) is {one_line(names[i], 60)}, but the run was fitted on "
            f"{one_line(fitted[i], 60)} there; give the same features in the same order"
        )


def _split(
    n: int, y: np.ndarray | None, n_train: int | None, what: str, fresh: bool
) -> tuple[np.ndarray, np.ndarray | None, Split]:
    rows = np.arange(n)
    if n_train is not None:
        return rows[:n_train], rows[n_train:], "given"
    if y is None or (fresh and n == 1):
        return rows, None, "none"
    try:
        return *split_indices(y), "stratified"
    except InputError as error:
        if fresh:
            raise InputError(f"{what}: {error}") from error
        # A run may embed a handful of new rows; only what needs a split has to refuse them.
        warnings.warn(f"{what}: all rows taken as one part, because {error}", UserWarning, stacklevel=3)
        return rows, None, "none"


def _check_train_rows(dataset: Dataset) -> None:
    """Rules for rows to fit on; new rows for a fitted run may be one, or all the same."""
    x, names, what = dataset.x_train, dataset.feature_names, dataset.source
    if len(x) < 2:
        raise InputError(
            f"{what} has {pluralize(len(x), 'row')} for training (n_samples={len(x)}), expected at least 2"
        )
    domain_of(dataset.domain).check_training_rows(x, names, what)
