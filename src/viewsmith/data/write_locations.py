"""Writing where something was found in samples, and what is there: tables, BED, folders of images, FASTA, arrays."""

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
LONGEST = 200  # characters of a folder's name


def check_places_path(path: Path, domain: str) -> None:
    """Raise InputError unless places in samples of this domain can be written to a file of this name."""
    suffix = path.suffix.lower()
    if suffix == BED and domain != "dna":
        raise InputError(f"--out is {str(path)!r}, and BED is of sequences, not of {domain}: give a .csv")
    if suffix not in (*TABLES, BED):
        raise InputError(f"--out is {str(path)!r}, expected a file name that ends in .csv, or .bed for sequences")
    _check_parent(path)


def write_places(path: Path, dataset: Dataset, places: pd.DataFrame) -> None:
    """Write places, a row each, atomically.

    Parameters
    ----------
    path : Path
        ``.csv``; for sequences also ``.bed``: name, start (from 0), end (after the last base), ".", and as score 1,000
        times the probability.
    dataset : Dataset
    places : DataFrame
        Its index is the row of ``dataset.x``; see `viewsmith.workflows.locate.table_of`.
    """
    if path.suffix.lower() != BED:
        with atomic_path(path) as temporary:
            places.to_csv(temporary, index=False, float_format="%.6g")
        return
    columns = zip(
        _sequence_names(dataset, places),
        places["start"],
        places["end"],
        (1000 * places["probability"]).round(),
        strict=True,
    )
    lines = (f"{name}\t{start}\t{end}\t.\t{score:.0f}\n" for name, start, end, score in columns)
    write_text_atomic(path, "".join(lines))


def check_crops_path(path: Path, domain: str) -> None:
    """Raise InputError unless crops of samples of this domain can be written there."""
    suffix = path.suffix.lower()
    if domain not in ("images", "dna"):
        raise InputError(f"crops are of images and sequences, and these are {domain}: `viewsmith views` draws views")
    if domain == "dna" and suffix not in (".npz", *FASTA):
        raise InputError(f"--out is {str(path)!r}, expected a file name that ends in .fasta, .fa, .fna or .npz")
    if domain == "images" and suffix in FASTA:
        raise InputError(f"--out is {str(path)!r}, and these are images: give a folder, or a file that ends in .npz")
    _check_parent(path)
    if suffix == ".npz" or suffix in FASTA:
        if path.is_dir():
            raise InputError(f"--out is {str(path)!r}, a folder: give the name of a file")
        return
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"--out is {str(path)!r}, which is there already and not an empty folder: give another")
    if importlib.util.find_spec("PIL") is None:
        raise MissingExtra("pillow", "image", "writing images")


def write_crops(path: Path, dataset: Dataset, places: pd.DataFrame, crops: np.ndarray) -> None:
    """Write what is at places of samples, as data for `fit` and other commands, atomically.

    Parameters
    ----------
    path : Path
        ``.npz``: X_train, X_test or X, with labels ``y`` and ``index`` likewise. ``.fasta``, ``.fa``, ``.fna``: records
        NAME:START-END with split and label. Otherwise a folder of .png files, under the names of the files they are
        from, or SPLIT/LABEL/INDEX.png; with several places of a sample -1, -2 .. after the name.
    dataset : Dataset
    places : DataFrame
        As in `write_places`.
    crops : ndarray of uint8
        Images (k, side, side[, 1 or 3]) or letters (k, L), in the order of `places`.
    """
    suffix = path.suffix.lower()
    if suffix == ".npz":
        _write_arrays(path, dataset, places, crops)
    elif suffix in FASTA:
        _write_fasta(path, dataset, places, crops)
    else:
        _write_images(path, dataset, places, crops)


def _write_arrays(path: Path, dataset: Dataset, places: pd.DataFrame, crops: np.ndarray) -> None:
    arrays = {"X": crops, "index": places["index"].to_numpy()}
    if dataset.y is not None:
        arrays["y"] = dataset.y[places.index]
    if dataset.test_index is not None:
        sides = {side: (places["split"] == side).to_numpy() for side in ("train", "test")}
        arrays = {f"{name}_{side}": array[of] for name, array in arrays.items() for side, of in sides.items()}
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # the stub takes arrays for allow_pickle


def _write_fasta(path: Path, dataset: Dataset, places: pd.DataFrame, crops: np.ndarray) -> None:
    records = []
    columns = (_sequence_names(dataset, places), places["start"], places["end"], places["split"], places.index.tolist())
    for crop, name, start, end, split, row in zip(crops, *columns, strict=True):
        header = f"{name}:{start}-{end}" + ("" if dataset.test_index is None else f" split={split}")
        if dataset.y is not None:
            label = str(dataset.y[row])
            if not label or label.split() != [label]:
                raise InputError(f"the label {one_line(label, 60)!r} cannot be in a FASTA header: write a .npz")
            header += f" label={label}"
        letters = crop.tobytes().rstrip(b"\0").decode()
        records.append(f">{header}\n{letters}\n")
    write_text_atomic(path, "".join(records))


def _write_images(path: Path, dataset: Dataset, places: pd.DataFrame, crops: np.ndarray) -> None:
    from PIL import Image

    with atomic_folder(path) as folder:
        for name, crop in zip(_image_names(dataset, places), crops, strict=True):
            file = folder / f"{name}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(crop[..., 0] if crop.shape[2:] == (1,) else crop).save(file)


def _image_names(dataset: Dataset, places: pd.DataFrame) -> list[str]:
    """Paths of crops without suffix, in the layout that folders of images have."""
    if dataset.row_names is None:
        width = len(str(len(dataset.x)))
        labels = None if dataset.y is None else [_folder_name(label) for label in dataset.y.tolist()]
        numbers = zip(places.index.tolist(), places["index"], strict=True)
        stems = [(f"{labels[row]}/" if labels else "") + f"{index:0{width}d}" for row, index in numbers]
    else:
        short = [name.rpartition(".")[0] for name in dataset.row_names]
        twice = {name for name in short if short.count(name) > 1} if len(set(short)) < len(short) else set()
        stems = [dataset.row_names[row] if short[row] in twice else short[row] for row in places.index.tolist()]
    if dataset.test_index is not None and not (dataset.split == "given" and dataset.row_names is not None):
        stems = [f"{split}/{stem}" for split, stem in zip(places["split"], stems, strict=True)]
    if places.index.is_unique:
        return stems
    rank = places.groupby(level=0, sort=False).cumcount() + 1
    return [f"{stem}-{number}" for stem, number in zip(stems, rank, strict=True)]


def _folder_name(label: object) -> str:
    name = str(label)
    if not name or name[0] == "." or len(name) > LONGEST or not name.isprintable() or set(name) & set("/\\"):
        raise InputError(
            f"the label {one_line(name, 60)!r} cannot be the name of a folder: write the crops to a file that ends in "
            ".npz"
        )
    return name


def _sequence_names(dataset: Dataset, places: pd.DataFrame) -> list[str]:
    """Names of the sequences of places: those of their records, or the split and the number in it."""
    known = dataset.row_names or [""] * len(dataset.x)
    columns = zip(places.index.tolist(), places["split"], places["index"], strict=True)
    return [known[row] or f"{split}-{index}" for row, split, index in columns]


def _check_parent(path: Path) -> None:
    if not path.absolute().parent.is_dir():
        raise InputError(f"the folder {path.absolute().parent} does not exist: make it first")
