"""Read a data set from a built-in name, a file or a folder, and check it; for a fitted run, as its configuration says,
before the model is loaded, whose imports take seconds."""

import dataclasses
import os
import warnings
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, one_line, pluralize, say, warn
from viewsmith.core.files import parse_json
from viewsmith.core.registry import Entry, Normalization, declare, entries, find
from viewsmith.core.rows import AnyRows, RowSource, is_large
from viewsmith.data.dataset import TEST_FRACTION, Dataset, Split, Tiles, split_by_groups, split_by_label
from viewsmith.data.label_maps import split_fields
from viewsmith.data.labels import find_labels, group_names, kind_of, labels_may_lack, without_label
from viewsmith.data.options import DataOptions
from viewsmith.data.places import BUILTIN, SUFFIXES, config_of
from viewsmith.data.readers.arrays import read_builtin
from viewsmith.data.reading import FileContents, by_ending, find_reader, read_once
from viewsmith.data.unread import files_in, refuse_folder
from viewsmith.modalities.base import Modality, find_modality, modality_of
from viewsmith.modalities.checks import LONG, in_pieces
from viewsmith.modalities.dna.letters import is_rna
from viewsmith.modalities.vectors import counts


def load_dataset(source: str | Path, **options: Any) -> Dataset:
    """Rows, labels and split from a built-in name, a file or a folder.

    Parameters
    ----------
    source : str or Path
        The text ``digits``, ``breast_cancer`` or ``wine`` (a Path, or ``./digits``, is never one of these), or a file
        or folder that a reader takes; `viewsmith methods` lists them. An ``.npz`` holds ``X_train`` and ``X_test``
        (``y_train``, ``y_test``) or ``X`` (``y``). A folder holds ``CLASS/*.png``, or ``train/CLASS/*.png`` and
        ``test/CLASS/*.png``, or images without labels. Headers of a FASTA file may have ``label=VALUE`` and
        ``split=train`` or ``split=test``.
    [options]

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        The data or options are invalid; the message is one line.
    MissingExtra
        The library of a format is not installed; the message names the extra.
    """
    return read_dataset(source, DataOptions(**options))


declare(load_dataset, DataOptions)


def read_dataset(source: str | Path, options: DataOptions, *, split: bool = True) -> Dataset:
    """`load_dataset`, with its options as one object; without `split` all rows are for training."""
    request, name = options.checked(), _name(source)
    schema, found = request.schema, _read(name, request)
    kind = find_modality(found.x, request.modality or found.modality, name)
    names = found.names if kind.named_features else None
    x, normalization = _rows(found, request, kind, names, name)
    if schema is not None:
        _check_schema(x, names, schema, name)
    y, partial, fault = _labels(found, request, len(x), name)
    if request.groups is not None and found.groups is None:
        raise InputError(f"{name} has no column {one_line(request.groups, 60)!r}, given as groups; leave groups out")
    groups = None if found.groups is None else group_names(found.groups, len(x), f"the groups in {name}")
    seed, fresh = request.split_seed, schema is None
    kind_of_split: Split = "none"
    wholes = np.empty(0) if found.windows is None else found.windows.wholes
    if not split:
        train, test = np.arange(len(x)), None
    elif request.split_by_groups or (schema is not None and schema.get("split_by_groups") and groups is not None):
        train, test, kind_of_split = split_by_groups(groups, found.n_train, name, fresh=fresh, seed=seed or 0)
    elif y is not None and isinstance(found.windows, Tiles) and found.windows.fields is not None:
        train, test = split_fields(y, without_label(y), found.windows.fields, name, seed or 0, TEST_FRACTION)
        kind_of_split = "none" if test is None else "groups"
    elif y is not None and found.n_train is None and (parts := _by_files(y, found, name, fresh, seed or 0)):
        train, test, kind_of_split = parts
    elif y is not None and found.n_train is None and len(np.unique(wholes)) > 1:
        train, test, kind_of_split = _labeled_wholes(wholes, y, name, fresh, seed or 0)
    else:
        labeled = np.arange(len(x)) if y is None or not partial else np.flatnonzero(~without_label(y))
        train, test, kind_of_split = split_by_label(len(x), y, labeled, found.n_train, name, fresh=fresh, seed=seed)
    asked = {name: getattr(request, name) or None for name in ("groups", "split_by_groups", "few_labels")}
    asked |= normalization
    if (y is not None and kind_of(y) == "number") or request.target is not None:
        asked["target"] = "class" if y is None else kind_of(y)
    new_schema = {  # what later files of a run are read with
        **(found.table or {"columns": None, "one_hot": {}, "drop": [], "label": None}),
        "modality": kind.name,
        "impute": request.impute,
        "row_shape": kind.required_shape(x.shape[1:]),
        "feature_names": names,
        **found.options,
        **{name: value for name, value in asked.items() if value is not None},
    }
    dataset = Dataset(
        x=x,
        y=y,
        train_index=train,
        test_index=test,
        split=kind_of_split,
        modality=kind.name,
        source=name,
        feature_names=names,
        schema=new_schema if schema is None else schema,
        label_name=new_schema["label"],
        row_names=found.row_names,
        neighbors=found.neighbors,
        groups=groups,
        partly_labeled=partial,
        windows=found.windows,
        label_fault=fault,
        rna=kind.name == "dna" and is_rna(found.x),
    )
    if schema is None:
        _check_train_rows(dataset)
    return dataset


def _by_files(
    y: np.ndarray, found: FileContents, name: str, fresh: bool, seed: int
) -> tuple[np.ndarray, np.ndarray | None, Split] | None:
    """The split by whole files of several images, such as slices of a volume or frames of a movie, which are alike:
    of each class some, where a file has images of one. None where files cannot be kept together."""
    labeled, of_file, noun = ~without_label(y), found.of_file, found.whole
    if of_file is None or len(np.unique(of_file[labeled])) < 2:
        return None
    pairs = set(zip(of_file[labeled].tolist(), y[labeled].tolist(), strict=True))
    files, kinds = ({pair[i] for pair in pairs} for i in (0, 1))
    mixed = kind_of(y) == "number" or len(pairs) > len(files)
    if not mixed and len(kinds) == len(files):
        say(
            f"{name}: all images of a class are of one {noun}, and some of each are for tests, so that scores may be "
            f"too good: give several {noun}s of a class"
        )
        return None
    say(f"{name}: images of one {noun} are in one part of the split")
    if mixed:
        return _labeled_wholes(of_file, y, name, fresh, seed)
    test = split_fields(y, ~labeled, of_file, name, seed, TEST_FRACTION, noun=noun)[1]
    return (np.arange(len(y)), None, "none") if test is None else _with_others(of_file, of_file[test])


def _labeled_wholes(
    wholes: np.ndarray, y: np.ndarray, name: str, fresh: bool, seed: int
) -> tuple[np.ndarray, np.ndarray | None, Split]:
    """The split by whole files or recordings: of those with labels, so that some test rows have one."""
    labeled = np.flatnonzero(~without_label(y))
    if len(np.unique(wholes[labeled])) < 2:
        return split_by_groups(wholes, None, name, fresh=fresh, seed=seed)
    test = split_by_groups(wholes[labeled], None, name, fresh=fresh, seed=seed)[1]
    return _with_others(wholes, wholes[labeled[test]])


def _with_others(wholes: np.ndarray, held: np.ndarray) -> tuple[np.ndarray, np.ndarray, Split]:
    """The split that holds these files out, with their rows without label."""
    test = np.isin(wholes, held)
    return np.flatnonzero(~test), np.flatnonzero(test), "groups"


def _rows(
    found: FileContents, request: DataOptions, kind: Modality, names: list[str] | None, name: str
) -> tuple[AnyRows, dict[str, str]]:
    """Checked rows, counts log-normalized if they are to be, which is part of the schema."""
    kind.check_impute(request.impute, name)
    x = kind.from_file(found.x, names, request.impute, name)
    normalization = _normalization(x, found, request, kind, names, name)
    if normalization == "log":
        x = counts.log_normalized(x)
    if isinstance(x, RowSource):
        x.small = request.shared and not request.stream and not is_large(x.shape, x.dtype)
    return x, {"normalization": "log"} if normalization == "log" else {}


def _labels(
    found: FileContents, request: DataOptions, n_rows: int, name: str
) -> tuple[np.ndarray | None, bool, str | None]:
    """Labels, whether some may be missing, and why they are left out, if they are."""
    try:
        return *find_labels(found.y, request, n_rows, name), None
    except InputError as error:
        if not labels_may_lack(request):
            raise
        return None, False, str(error)


def _normalization(
    x: AnyRows, found: FileContents, request: DataOptions, kind: Modality, names: list[str] | None, source_name: str
) -> Normalization:
    """Whether rows are counts to be log-normalized; says so where they are recognized."""
    wanted = request.normalization if request.schema is None else request.schema.get("normalization", "none")
    if wanted == "auto" and found.cells and counts.looks_like_counts(x, found.names or ()):
        warn(f"{source_name}: {counts.NORMALIZED}")
        return "log"
    mixed = any(each.role in ("category", "text", "date") for each in getattr(getattr(x, "table", None), "columns", ()))
    many = names is not None and len(names) >= counts.MANY_COLUMNS and not mixed
    if wanted == "auto" and not found.cells and many and kind.named_features and request.schema is None:
        counts.warn_depth(x, source_name)
    if wanted == "log":
        if not kind.named_features:
            raise InputError(
                f"{source_name}: normalization='log' is for counts, but the data are {kind.name}; leave it out"
            )
        counts.check_counts(x, source_name)
        return "log"
    return "none"


def _name(source: str | os.PathLike[str]) -> str:
    """The source as text, in which a path is never a built-in name."""
    if not isinstance(source, str | os.PathLike):
        raise InputError(
            f"the data are of type {type(source).__name__}, expected a name, or the path of a file or folder; arrays "
            "and data frames are given to an estimator: LinearContrast().fit_transform(x)"
        )
    name = str(source)
    return name if isinstance(source, str) or name not in BUILTIN else os.path.join(os.curdir, name)


def _read(name: str, request: DataOptions) -> FileContents:
    if name in BUILTIN:
        if Path(name).exists():
            warn(
                f"{name!r} is the built-in data set, not the file or folder of this name here: give "
                f"{os.path.join(os.curdir, name)} for that"
            )
        check_effect(name, request, None)
        return read_builtin(name, request)
    path = Path(name)
    chosen = find_reader(path)
    if request.modality == "images" and chosen.tag("table") and names_images(path, request.encoding):
        chosen = find("reader", "images")
    if request.modality == "spectra" and path.is_dir() and chosen.name == "images":  # pictures beside spectra
        chosen = find("reader", "spectra")
    images = (file for file in files_in(path) if file.name.lower().endswith(SUFFIXES))
    if chosen.name == "images" and path.is_dir() and next(images, None) is None:
        refuse_folder(path, by_ending())  # of which no option is the fault
    check_effect(name, request, chosen)
    if request.shared and request.cache_if_large is not None and chosen.tag("once") and request.table is None:
        return read_once(chosen.build, path, request, request.cache_if_large)
    found = chosen.build(path, request)
    if not isinstance(found, FileContents):
        raise TypeError(f"the reader {chosen.name!r} returned {type(found).__name__}, expected FileContents")
    y, groups = (np.asarray(each) if isinstance(each, list | tuple) else each for each in (found.y, found.groups))
    return dataclasses.replace(found, y=y, groups=groups)


MANY_KINDS = 8  # of which a message does not name all


def check_effect(name: str, request: DataOptions, chosen: Entry | None) -> None:
    """Raise InputError for an option that has an effect with other readers only than the chosen one."""
    nouns: dict[str, list[str]] = {}
    for entry in entries("reader"):
        for option in entry.tag("takes"):
            nouns.setdefault(option, []).append(entry.tag("noun"))
    takes = set() if chosen is None else set(chosen.tag("takes"))
    of_recordings = {"time", "recording", "length", "step", "rate", "channels"}
    if chosen is not None and chosen.tag("table"):
        takes |= {"series": of_recordings, "spectra": {"time"}}.get(request.modality or "", set())
        takes |= {"labels"} if request.modality not in ("series", "images") else set()
    of_table = chosen is not None and chosen.name == "images" and Path(name).is_file()
    takes |= {"encoding"} if request.labels is not None or of_table else set()
    nouns |= {option: ["a table of recordings (--modality series)"] for option in ("time", "recording")}
    for option, known in nouns.items():
        value = getattr(request, option)
        if value is not None and option not in takes:
            if option in of_recordings and chosen is not None and chosen.tag("table"):
                raise InputError(
                    f"{name} is a table, of which {option}={one_line(value, 60)} needs recordings: give --modality "
                    "series, and --time COLUMN if each row is a moment; or leave it out"
                )
            fault, names = f"{option}={one_line(value, 60)} has no effect", list(dict.fromkeys(known))
            if len(names) > MANY_KINDS:
                own = "" if option != "labels" else ", or give the column that has them (--label COLUMN)"
                kind = "a built-in data set" if chosen is None else chosen.tag("noun")
                way = f"leave {option} out{own}"
                raise InputError(f"{name} is {kind}, on which {fault}; {way}")
            raise InputError(f"{name} is not {' or '.join(names)}, so {fault}; leave {option} out")


def names_images(path: Path, encoding: str | None = None) -> bool:
    """Whether a table has names of image files in a column, rather than pixels in many."""
    if path.suffix.lower() not in (".csv", ".tsv", ".parquet"):
        return False
    frame = import_module("viewsmith.data.readers.text_tables").first_rows(path, encoding)
    texts = (frame[name].map(str).str.lower() for name in frame.select_dtypes(exclude="number"))
    return any(column.str.endswith(SUFFIXES).all() for column in texts)


def _check_schema(x: AnyRows, names: list[str] | None, schema: dict[str, Any], source_name: str) -> None:
    """Raise InputError if the shape of the rows or the names of the columns differ from those of the fitted data."""
    expected = None if schema["row_shape"] is None else tuple(schema["row_shape"])
    if expected is not None and not modality_of(schema["modality"]).same_shape(x.shape[1:], expected):
        if len(expected) == 1:
            raise InputError(
                f"{source_name} has {pluralize(x.shape[1], 'feature')} per row, but the run was fitted on {expected[0]}"
            )
        given = f"{source_name} has rows of shape {x.shape[1:]}, but the run was fitted on {expected}"
        sizes = len(x.shape) == 4 and schema["modality"] == "images" and x.shape[1:3] != expected[:2]
        raise InputError(given + ": fit it with image_size (--image-size), which resizes later images, too" * sizes)
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
        way = ""
        if dataset.modality == "series" and "signal" in dataset.schema:
            way = f"; windows are cut from it by a length in points or seconds (--length {x.shape[2] // 8})"
            rate = dataset.schema["signal"].get("rate") or 0
            way += ", or are the sounds between silences (--length sounds)" if rate >= AUDIBLE else ""
        elif dataset.modality == "series" and x.shape[2] >= LONG:
            way = f"; one long recording, X[0]: {in_pieces(*x.shape[1:])}".replace("X[:", "X[0][:")
        raise InputError(
            f"{source_name} has {pluralize(len(x), 'row')} for training (n_samples={len(x)}), expected at least 2{way}"
        )
    modality_of(dataset.modality).check_training_rows(x, names, source_name)


AUDIBLE = 4000  # points a second, from which a recording may be of sounds

#: What `Dataset.schema` has at least.
KEYS = {"columns", "one_hot", "drop", "label", "modality", "impute", "row_shape", "feature_names"}


def schema_of(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """`Dataset.schema` in a record of data; None if it is not complete."""
    try:
        kept: dict[str, Any] = parse_json(record["schema"])
        return kept if kept.keys() >= KEYS else None
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def read_for_run(run: str | Path, data: str | Path, options: Mapping[str, Any]) -> Dataset | None:
    """Data in the form of those that the run was fitted on; None if only the model tells: for runs without a file, on
    tables with text, whose encoder is among the weights, and for damaged ones."""
    config = config_of(run)
    schema = schema_of(config.get("data", {}))
    if schema is None or not isinstance(config.get("fitted"), dict):
        return None
    table = config["fitted"].get("table")
    if isinstance(table, dict):
        from viewsmith.modalities.tables.encoder import TableEncoder  # imports pandas

        try:
            if any(column["role"] == "text" for column in table["columns"]):
                return None
            encoder = TableEncoder.from_dict(table)
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
        options = {**options, "table": encoder}
    return read_dataset(data, DataOptions(schema=schema, **options))


def column_of(data: str | Path, column: str) -> np.ndarray:
    """Any column of a table or of obs, also one that a model reads as a feature, for all rows in order."""
    with warnings.catch_warnings(action="ignore"):  # `read_for_run` says what is to be said of the data
        try:
            found = read_dataset(data, DataOptions(label=column, few_labels=True), split=False)
        except InputError as error:
            raise InputError(str(error).replace("given as label", "given as color")) from error
    if found.y is None:
        raise InputError(f"{data} has no column {column!r}, given as color")
    values = found.y.astype(object)
    values[without_label(found.y)] = None
    return values
