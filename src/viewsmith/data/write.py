"""Writing representations, views of tables, and locations with their crops, in the formats that people read."""

import importlib
import importlib.util
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError, one_line, pluralize
from viewsmith.core.files import atomic_folder, atomic_path, spreadsheet_text, target_of, write_text_atomic
from viewsmith.data.dataset import Dataset, Tiles, Windows
from viewsmith.data.places import FASTA, check_parquet, check_representations_path
from viewsmith.data.readers.h5ad import write_h5ad
from viewsmith.modalities import DNA
from viewsmith.modalities.frames import with_columns
from viewsmith.modalities.tables import TableArray

# Rows and values of a table that are converted to text, or written as one group, at once: a few copies of them exist.
TABLE_ROWS, TABLE_VALUES = 65_536, 2**22


class RowStream:
    """Representations that are written block by block, in order; `shape` is that of all of them, (n, ...)."""

    def __init__(self, blocks: Iterable[np.ndarray], n_rows: int) -> None:
        self._blocks = iter(blocks)
        self._left = next(self._blocks)
        self.shape, self.dtype = (n_rows, *self._left.shape[1:]), self._left.dtype

    def take(self, n: int, at_once: int | None = None) -> Iterator[np.ndarray]:
        """The next n rows, as they come or so many at once."""
        while n > 0:
            wanted = n if at_once is None else min(n, at_once)
            parts = [self._some(wanted)]
            while at_once is not None and sum(map(len, parts)) < wanted:
                parts.append(self._some(wanted - sum(map(len, parts))))
            yield parts[0] if len(parts) == 1 else np.concatenate(parts)
            n -= sum(map(len, parts))

    def write_npy(self, file: Any, n: int | None = None) -> None:
        """Write the next n rows, or all, in numpy's format to an open file."""
        n = len(self) if n is None else n
        header = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False}
        np.lib.format.write_array_header_1_0(file, header | {"shape": (n, *self.shape[1:])})
        for part in self.take(n):
            file.write(np.ascontiguousarray(part).data)

    def __len__(self) -> int:
        return self.shape[0]

    def _some(self, most: int) -> np.ndarray:
        while len(self._left) == 0:
            self._left = next(self._blocks)
        part, self._left = self._left[:most], self._left[most:]
        return part


def write_representations(
    path: str | Path, dataset: Dataset, H: np.ndarray | Iterable[np.ndarray], *, prefix: str = "h"
) -> None:
    """Write one representation per row of `dataset`, with its split and labels, atomically.

    Parameters
    ----------
    path : str or Path
        ``.npz``: ``H_train``, ``H_test``, ``y_train``, ``y_test`` for a given split; otherwise ``H``, ``y`` and, for a
        stratified split, ``split`` with ``train`` or ``test`` for every row; also ``names`` (``names_train``,
        ``names_test``) of image files, FASTA records and cells. ``.npy``: the array only. ``.csv``, ``.parquet``:
        columns ``h0`` .., ``split``, ``label``, ``name``. Unknown labels, splits and names are left out. ``.h5ad``,
        for rows of an ``.h5ad`` file: a copy of that file with ``obsm["X_viewsmith"]``, or
        ``obsm["X_viewsmith_PREFIX"]`` for a prefix other than ``h``. Tables of windows of recordings also have
        ``recording``, the points ``first`` and ``last`` (outside), and, where the rate is known, ``begin_s`` and
        ``end_s``.
    dataset : Dataset
        The rows of the representations.
    H : ndarray, shape (n, ...), or iterable of ndarray
        Representations in input order, all at once or in blocks that follow each other; (n, d) for a table.
    prefix : str
        Prefix of column names; in capitals the name of arrays.

    Raises
    ------
    InputError
        Unknown extension, missing folder, or a shape that does not fit.
    MissingExtra
        Parquet without pyarrow, .h5ad without anndata.
    OSError
        Raised by the disk; an existing file stays unchanged.
    """
    path = Path(path)
    check_representations_path(path)
    writer = _WRITERS[path.suffix.lower()]
    n = len(dataset.x)
    if isinstance(H, np.ndarray) and len(H) != n:
        raise InputError(f"cannot write {path}: {pluralize(len(H), 'representation')} for {pluralize(n, 'row')}")
    writer(path, dataset, RowStream([H] if isinstance(H, np.ndarray) else H, n), prefix)


def write_npz(
    path: Path, members: Mapping[str, np.ndarray | tuple[RowStream, int]], *, compressed: bool = False
) -> None:
    """Write an .npz archive, atomically: arrays, and the next n rows of a stream."""
    kind = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with atomic_path(path) as temporary, temporary.open("wb") as whole, zipfile.ZipFile(whole, "w", kind) as archive:
        for name, member in members.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as opened:
                if isinstance(member, tuple):
                    member[0].write_npy(opened, member[1])
                else:
                    np.lib.format.write_array(opened, np.asarray(member), allow_pickle=False)


def _write_npz(path: Path, dataset: Dataset, H: RowStream, prefix: str) -> None:
    name = prefix.upper()
    arrays: dict[str, np.ndarray | tuple[RowStream, int]] = {}
    names = None if dataset.row_names is None else np.array(dataset.row_names, dtype=np.str_)
    if dataset.split == "given":
        n_train = len(dataset.train_index)
        arrays |= {f"{name}_train": (H, n_train), f"{name}_test": (H, len(H) - n_train)}
        if dataset.y is not None:
            arrays |= {"y_train": dataset.y[:n_train], "y_test": dataset.y[n_train:]}
        if names is not None:
            arrays |= {"names_train": names[:n_train], "names_test": names[n_train:]}
    else:
        arrays[name] = (H, len(H))
        if dataset.y is not None:
            arrays["y"] = dataset.y
        if names is not None:
            arrays["names"] = names
        if dataset.test_index is not None:
            arrays["split"] = _split_names(dataset)
        arrays |= {column: np.array(values) for column, values in _places(dataset).items()}
    write_npz(target_of(path), arrays)


def _write_npy(path: Path, dataset: Dataset, H: RowStream, prefix: str) -> None:
    with atomic_path(target_of(path)) as temporary, temporary.open("wb") as file:
        H.write_npy(file)


def _write_table(path: Path, dataset: Dataset, H: RowStream, prefix: str) -> None:
    check_parquet(path)
    if len(H.shape) != 2:
        raise InputError(
            f"cannot write {path}: the representations have shape {H.shape}, a table needs (n, d); use .npz"
        )
    write = _write_parquet if path.suffix.lower() == ".parquet" else _write_csv
    with atomic_path(target_of(path)) as temporary:
        write(temporary, _frames(dataset, H, prefix))


def _frames(dataset: Dataset, H: RowStream, prefix: str) -> Iterator[pd.DataFrame]:
    """The table, some rows at once."""
    split, places, start = _split_names(dataset), _places(dataset), 0
    for part in H.take(len(H), max(1, min(TABLE_ROWS, TABLE_VALUES // max(H.shape[1], 1)))):
        frame = pd.DataFrame(part, columns=[f"{prefix}{i}" for i in range(H.shape[1])])
        rows = slice(start, start + len(part))
        if dataset.test_index is not None:
            frame["split"] = split[rows]
        if dataset.y is not None:
            frame["label"] = dataset.y[rows]
        if dataset.row_names is not None:
            frame["name"] = dataset.row_names[rows]
        for column, values in places.items():
            frame[column] = values[rows]
        yield frame
        start = rows.stop


def _write_csv(path: Path, frames: Iterator[pd.DataFrame]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        for number, frame in enumerate(frames):
            spreadsheet_frame(frame).to_csv(file, index=False, header=number == 0)


def spreadsheet_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """A table for CSV whose texts a spreadsheet does not run, see `spreadsheet_text`."""
    texts = frame.select_dtypes(exclude="number").columns
    return with_columns(frame, {name: frame[name].map(spreadsheet_text) for name in texts})


def _write_parquet(path: Path, frames: Iterator[pd.DataFrame]) -> None:
    import pyarrow
    from pyarrow import parquet

    first = pyarrow.Table.from_pandas(next(frames), preserve_index=False)
    with parquet.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for frame in frames:
            writer.write_table(pyarrow.Table.from_pandas(frame, first.schema, preserve_index=False))


def _write_h5ad(path: Path, dataset: Dataset, H: RowStream, prefix: str) -> None:
    key = "X_viewsmith" if prefix == "h" else f"X_viewsmith_{prefix}"
    write_h5ad(path, dataset.source, H.shape, H.take(len(H)), key)


def _places(dataset: Dataset) -> dict[str, Any]:
    """Where tiles of scenes are: column and row of their first pixel, and coordinates of their center on a map; of
    windows of recordings, points and seconds."""
    tiles = dataset.windows
    if isinstance(tiles, Windows):
        return tiles.located(np.arange(len(dataset.x)), np.array(0), np.array(dataset.x.shape[2]))
    if not isinstance(tiles, Tiles):
        return {}
    center = (tiles.lefts + tiles.side / 2, tiles.tops + tiles.side / 2)
    objects = {} if tiles.objects is None else {"object": tiles.objects}
    return objects | {"left": tiles.lefts, "top": tiles.tops} | tiles.coordinates(tiles.of, *center)


def _split_names(dataset: Dataset) -> np.ndarray:
    names = np.full(len(dataset.x), "train")
    if dataset.test_index is not None:
        names[dataset.test_index] = "test"
    return names


_WRITERS: dict[str, Callable[[Path, Dataset, RowStream, str], None]] = {
    ".npz": _write_npz,
    ".npy": _write_npy,
    ".csv": _write_table,
    ".parquet": _write_table,
    ".h5ad": _write_h5ad,
}


def write_views_table(path: Path, arrays: dict[str, Any], rows: Any, names: list[str] | None) -> None:
    """Write views of vectors as a table, atomically: a line for each view, with the columns of the data."""
    views = arrays["views"]
    if isinstance(views, tuple):
        raise InputError(f"the views of rows on disk are not written to {path.suffix}: write them to a .npz file")
    letters = DNA.samples.is_type(views.dtype)
    if letters or views.ndim != 3 or rows.ndim != 2 or views.shape[2] != rows.shape[1]:
        given = "of letters" if letters and views.ndim == 3 else f"of shape {views.shape[2:]}"
        raise InputError(f"views {given} are not rows of a table: write them to a .npz file")
    flat = views.reshape(-1, views.shape[2])
    if isinstance(rows, TableArray) and rows.table is not None:
        frame = rows.table.decode(flat, rows.known)
    else:
        frame = pd.DataFrame(flat, columns=names or [f"x{i}" for i in range(flat.shape[1])])
    columns = {
        "row": np.repeat(arrays["index"], views.shape[1]),
        "view": np.tile(np.arange(views.shape[1]), len(views)),
    }
    for place, (name, values) in enumerate(columns.items()):
        while name in frame.columns:
            name += "_"
        frame.insert(place, name, values)
    with atomic_path(target_of(path)) as temporary:
        if path.suffix.lower() == ".parquet":
            frame.to_parquet(temporary, engine="pyarrow", index=False)
        else:
            separator = "\t" if path.suffix.lower() == ".tsv" else ","
            frame.to_csv(temporary, index=False, sep=separator, float_format="%.7g")


MAX_FOLDER_NAME = 200  # characters


def write_locations(path: Path, dataset: Dataset, locations: pd.DataFrame) -> None:
    """Write locations, one row for each, atomically."""
    if path.suffix.lower() != ".bed":
        with atomic_path(target_of(path)) as temporary:
            spreadsheet_frame(locations).to_csv(temporary, index=False, float_format="%.6g")
        return
    scores = (1000 * locations["probability"]).round()
    names = _sequence_names(dataset, locations)
    columns = zip(names, locations["start"], locations["end"], scores, strict=True)
    lines = (f"{name}\t{start}\t{end}\t.\t{score:.0f}\n" for name, start, end, score in columns)
    write_text_atomic(target_of(path), "".join(lines))


def write_crops(path: Path, dataset: Dataset, locations: pd.DataFrame, crops: np.ndarray) -> None:
    """Write the crops at locations in samples, as data for `fit` and other commands, atomically."""
    suffix = path.suffix.lower()
    write = _write_arrays if suffix == ".npz" else _write_fasta if suffix in FASTA else _write_images
    write(path, dataset, locations, crops)


def _write_arrays(path: Path, dataset: Dataset, locations: pd.DataFrame, crops: np.ndarray) -> None:
    arrays = {"X": crops, "index": locations["index"].to_numpy()}
    if dataset.y is not None:
        arrays["y"] = dataset.y[locations.index]
    if dataset.test_index is not None:
        masks = {split: (locations["split"] == split).to_numpy() for split in ("train", "test")}
        arrays = {f"{name}_{split}": array[mask] for name, array in arrays.items() for split, mask in masks.items()}
    with atomic_path(target_of(path)) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # the stub takes arrays for allow_pickle


def _write_fasta(path: Path, dataset: Dataset, locations: pd.DataFrame, crops: np.ndarray) -> None:
    records = []
    columns = [locations[name] for name in ("start", "end", "split")]
    names, rows = _sequence_names(dataset, locations), locations.index.tolist()
    for crop, name, row, start, end, split in zip(crops, names, rows, *columns, strict=True):
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
    write_text_atomic(target_of(path), "".join(records))


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


# Names of WFDB records may have these alone.
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")


def write_annotations(
    folder: Path, recordings: np.ndarray, first: np.ndarray, last: np.ndarray, texts: list[str], rate: float
) -> None:
    """Write a new folder with the events of each recording, in the order of time: `first` points, those after the
    `last`, and `texts`.

    ``NAME.txt``: labels of Audacity, begin and end in seconds and a text, separated by tabs. With edfio ``NAME.edf``:
    an EDF+ file of annotations alone. With wfdb ``NAME.atr``: comments at the middle of each event."""
    with atomic_folder(folder) as whole:
        for name in dict.fromkeys(recordings.tolist()):
            rows = np.flatnonzero(recordings == name)
            rows = rows[np.argsort(first[rows], kind="stable")]
            begin, end, said = first[rows] / rate, last[rows] / rate, [texts[i] for i in rows]
            stem = _OTHER.sub("_", Path(str(name)).with_suffix("").as_posix())
            lines = (f"{a:.6f}\t{b:.6f}\t{text}\n" for a, b, text in zip(begin, end, said, strict=True))
            (whole / f"{stem}.txt").write_text("".join(lines), encoding="utf-8")
            if importlib.util.find_spec("edfio") is not None:
                edfio: Any = importlib.import_module("edfio")
                events = [
                    edfio.EdfAnnotation(a, b - a, text)
                    for a, b, text in zip(begin.tolist(), end.tolist(), said, strict=True)
                ]
                edfio.Edf([], annotations=events).write(whole / f"{stem}.edf")
            if importlib.util.find_spec("wfdb") is not None:
                wfdb: Any = importlib.import_module("wfdb")
                middle = (first[rows] + last[rows]) // 2
                order = np.argsort(middle, kind="stable")
                notes, comments = [said[i] for i in order], ['"'] * len(rows)
                wfdb.wrann(stem, "atr", middle[order], symbol=comments, aux_note=notes, fs=rate, write_dir=str(whole))
