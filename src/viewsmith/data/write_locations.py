"""Write the locations of objects in samples as tables or BED, and their crops as images, FASTA or arrays."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from viewsmith.core.errors import InputError, MissingExtra
from viewsmith.core.files import atomic_folder, atomic_path, write_text_atomic
from viewsmith.core.messages import one_line
from viewsmith.data.dataset import Dataset

if TYPE_CHECKING:
    import pandas as pd

TABLES, BED = (".csv",), ".bed"
FASTA = (".fa", ".fasta", ".fna")
MAX_FOLDER_NAME = 200  # characters


def check_locations_path(path: Path, domain: str) -> None:
    """Raise InputError unless locations in samples of this domain can be written to a file of this name."""
    suffix = path.suffix.lower()
    if suffix == BED and domain != "dna":
        raise InputError(f"--out is {str(path)!r}, but BED is a format for sequences, not for {domain}: give a .csv")
    if suffix not in (*TABLES, BED):
        raise InputError(f"--out is {str(path)!r}, expected a file name that ends in .csv, or .bed for sequences")
    _check_parent(path)


def write_locations(path: Path, dataset: Dataset, locations: pd.DataFrame) -> None:
    """Write locations, one row for each, atomically.

    Parameters
    ----------
    path : Path
        ``.csv``; for sequences also ``.bed``: name, start (from 0), end (after the last base), "." and the score, 1,000
        times the probability.
    dataset : Dataset
    locations : DataFrame
        Its index is the row of ``dataset.x``; see `viewsmith.workflows.locate.table_of`.
    """
    if path.suffix.lower() != BED:
        with atomic_path(path) as temporary:
            locations.to_csv(temporary, index=False, float_format="%.6g")
        return
    columns = zip(
        _sequence_names(dataset, locations),
        locations["start"],
        locations["end"],
        (1000 * locations["probability"]).round(),
        strict=True,
    )
    lines = (f"{name}\t{start}\t{end}\t.\t{score:.0f}\n" for name, start, end, score in columns)
    write_text_atomic(path, "".join(lines))


def check_crops_path(path: Path, domain: str) -> None:
    """Raise InputError unless crops of samples of this domain can be written to this path."""
    suffix = path.suffix.lower()
    if domain not in ("images", "dna", "series"):
        raise InputError(
            f"the samples are {domain}, but only images, sequences and recordings have crops: `viewsmith views` draws "
            "views"
        )
    if domain == "dna" and suffix not in (".npz", *FASTA):
        raise InputError(f"--out is {str(path)!r}, expected a file name that ends in .fasta, .fa, .fna or .npz")
    if domain == "series" and suffix != ".npz":
        raise InputError(f"--out is {str(path)!r}, expected a file name that ends in .npz")
    if domain == "images" and suffix in FASTA:
        raise InputError(
            f"--out is {str(path)!r}, but the samples are images: give a folder, or a file that ends in .npz"
        )
    _check_parent(path)
    if suffix == ".npz" or suffix in FASTA:
        if path.is_dir():
            raise InputError(f"--out is {str(path)!r}, a folder: give the name of a file")
        return
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"--out is {str(path)!r}, which exists and is not an empty folder: give another path")
    if importlib.util.find_spec("PIL") is None:
        raise MissingExtra("pillow", "image", "writing images")


def write_crops(path: Path, dataset: Dataset, locations: pd.DataFrame, crops: np.ndarray) -> None:
    """Write the crops at locations in samples, as data for `fit` and other commands, atomically.

    Parameters
    ----------
    path : Path
        ``.npz``: ``X``, the labels ``y`` and ``index``; with a split, each as ``X_train``, ``X_test`` and so on.
        ``.fasta``, ``.fa``, ``.fna``: records NAME:START-END with split and label. Otherwise a folder of .png files:
        with the names of the original files, or SPLIT/LABEL/INDEX.png; if a sample has several locations, -1, -2 ..
        follows the name.
    dataset : Dataset
    locations : DataFrame
        As in `write_locations`.
    crops : ndarray of uint8
        Images (k, side, side[, 1 or 3]) or letters (k, L), in the order of `locations`.
    """
    suffix = path.suffix.lower()
    if suffix == ".npz":
        _write_arrays(path, dataset, locations, crops)
    elif suffix in FASTA:
        _write_fasta(path, dataset, locations, crops)
    else:
        _write_images(path, dataset, locations, crops)


def _write_arrays(path: Path, dataset: Dataset, locations: pd.DataFrame, crops: np.ndarray) -> None:
    arrays = {"X": crops, "index": locations["index"].to_numpy()}
    if dataset.y is not None:
        arrays["y"] = dataset.y[locations.index]
    if dataset.test_index is not None:
        masks = {split: (locations["split"] == split).to_numpy() for split in ("train", "test")}
        arrays = {f"{name}_{split}": array[mask] for name, array in arrays.items() for split, mask in masks.items()}
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # the stub takes arrays for allow_pickle


def _write_fasta(path: Path, dataset: Dataset, locations: pd.DataFrame, crops: np.ndarray) -> None:
    records = []
    columns = (
        _sequence_names(dataset, locations),
        locations["start"],
        locations["end"],
        locations["split"],
        locations.index.tolist(),
    )
    for crop, name, start, end, split, row in zip(crops, *columns, strict=True):
        header = f"{name}:{start}-{end}" + ("" if dataset.test_index is None else f" split={split}")
        if dataset.y is not None:
            label = str(dataset.y[row])
            if not label or label.split() != [label]:
                raise InputError(
                    f"the label {one_line(label, 60)!r} cannot be in a FASTA header: give a file that ends in .npz"
                )
            header += f" label={label}"
        letters = crop.tobytes().rstrip(b"\0").decode()
        records.append(f">{header}\n{letters}\n")
    write_text_atomic(path, "".join(records))


def _write_images(path: Path, dataset: Dataset, locations: pd.DataFrame, crops: np.ndarray) -> None:
    from PIL import Image

    with atomic_folder(path) as folder:
        for name, crop in zip(_image_names(dataset, locations), crops, strict=True):
            file = folder / f"{name}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(crop[..., 0] if crop.shape[2:] == (1,) else crop).save(file)


def _image_names(dataset: Dataset, locations: pd.DataFrame) -> list[str]:
    """Paths of crops without suffix, in the layout of `viewsmith.data.readers.folders`."""
    if dataset.row_names is None:
        width = len(str(len(dataset.x)))
        labels = None if dataset.y is None else [_folder_name(label) for label in dataset.y.tolist()]
        numbers = zip(locations.index.tolist(), locations["index"], strict=True)
        stems = [(f"{labels[row]}/" if labels else "") + f"{index:0{width}d}" for row, index in numbers]
    else:
        short = [name.rpartition(".")[0] for name in dataset.row_names]
        twice = {name for name in short if short.count(name) > 1} if len(set(short)) < len(short) else set()
        stems = [dataset.row_names[row] if short[row] in twice else short[row] for row in locations.index.tolist()]
    if dataset.test_index is not None and not (dataset.split == "given" and dataset.row_names is not None):
        stems = [f"{split}/{stem}" for split, stem in zip(locations["split"], stems, strict=True)]
    if locations.index.is_unique:
        return stems
    rank = locations.groupby(level=0, sort=False).cumcount() + 1
    return [f"{stem}-{number}" for stem, number in zip(stems, rank, strict=True)]


def _folder_name(label: object) -> str:
    name = str(label)
    if not name or name[0] == "." or len(name) > MAX_FOLDER_NAME or not name.isprintable() or set(name) & set("/\\"):
        raise InputError(
            f"the label {one_line(name, 60)!r} cannot be the name of a folder: write the crops to a file that ends in "
            ".npz"
        )
    return name


def _sequence_names(dataset: Dataset, locations: pd.DataFrame) -> list[str]:
    """Name of the sequence of each location: the name of its record, or its split and its number in the split."""
    known = dataset.row_names or [""] * len(dataset.x)
    columns = zip(locations.index.tolist(), locations["split"], locations["index"], strict=True)
    return [known[row] or f"{split}-{index}" for row, split, index in columns]


def _check_parent(path: Path) -> None:
    if not path.absolute().parent.is_dir():
        raise InputError(f"the folder {path.absolute().parent} does not exist: create it first")
