"""Reader of data sets of Hugging Face that `save_to_disk` wrote: tables, images, or lists of numbers."""

import dataclasses
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError, name_list, require, warn
from viewsmith.core.files import read_json
from viewsmith.core.memory import check_size
from viewsmith.data.formats import reader
from viewsmith.data.options import DataOptions
from viewsmith.data.readers.tables import check_column, table_rows
from viewsmith.data.reading import FileContents, reading
from viewsmith.modalities import frames

_LISTS = ("Sequence", "List", "LargeList", "Array2D", "Array3D")


@reader(
    "datasets",
    in_folders=(".arrow",),
    help="a data set of Hugging Face, written by `save_to_disk`: a table, images or lists of numbers",
    noun="a data set on disk",
    extra="parquet",
    example="saved/ --label label",
)
def read_saved_dataset(path: Path, request: DataOptions) -> FileContents:
    """Rows of the splits train and test, or of a data set without splits; classes by their names."""
    require("pyarrow", "parquet", "reading data sets on disk")
    folders = [path]
    if (path / "dataset_dict.json").is_file():
        with reading(str(path), "a data set on disk"):
            splits = [str(name) for name in read_json(path / "dataset_dict.json")["splits"]]
        used = [name for name in ("train", "test") if name in splits] if len(splits) > 1 else splits
        if "train" not in used and len(splits) > 1:
            raise InputError(f"{path} has the splits {name_list(splits)}, expected train: give {path / splits[0]}")
        if others := [name for name in splits if name not in used]:
            warn(f"{path}: the splits {name_list(others)} are left out")
        folders = [path / name for name in used]
    with reading(str(path), "a data set on disk"):
        tables = [_table(folder) for folder in folders]
        features = read_json(folders[0] / "dataset_info.json")["features"]
    kinds = {name: "List" if isinstance(kind, list) else str(kind.get("_type", "")) for name, kind in features.items()}
    frame = pd.concat([table.to_pandas() for table in tables], ignore_index=True)
    for name, kind in features.items():
        if kinds[name] == "ClassLabel":
            names = np.array([*kind["names"], ""])  # -1: no label
            frame[name] = names[frame[name].fillna(-1).to_numpy(int)]
    n_train = len(tables[0]) if len(tables) > 1 else None
    if sounds := [name for name, kind in kinds.items() if kind == "Audio" and name not in request.drop]:
        raise InputError(
            f"{path}: column {sounds[0]} has sound, which is read from files alone: write these (soundfile.write) and "
            f"give their folder, or leave it out (--drop {sounds[0]})"
        )
    samples = [name for name, kind in kinds.items() if kind in ("Image", *_LISTS) and name not in request.drop]
    if not samples:
        found = table_rows(frame, dataclasses.replace(request, n_train=n_train), str(path))
        return dataclasses.replace(found, n_train=n_train)
    if len(samples) > 1:
        raise InputError(
            f"{path} has images or lists in {name_list(samples)}, expected one such column: leave the others out "
            f"(--drop {','.join(samples[1:])})"
        )
    label = request.or_fitted("label")
    if request.label is not None:
        check_column("label", request.label, frame, str(path))
    of_images = kinds[samples[0]] == "Image"
    x = _stacked([_pixels(cell) if of_images else np.asarray(cell.tolist()) for cell in frame[samples[0]]], path)
    y = frames.labels(frame[label]) if label in frame.columns else None
    table: dict[str, Any] = {"columns": None, "one_hot": {}, "drop": list(request.drop), "label": label}
    return FileContents(x, y, n_train, table=table, modality="images" if of_images else None)


def _table(folder: Path) -> Any:
    """The rows of one split, whose files are listed in order."""
    import pyarrow as pa

    files = [folder / str(each["filename"]) for each in read_json(folder / "state.json")["_data_files"]]
    check_size(sum(file.stat().st_size for file in files), str(folder), "save fewer rows, or .parquet files")
    tables = []
    for file in files:
        with pa.memory_map(str(file)) as mapped:
            tables.append(pa.ipc.open_stream(mapped).read_all())
    return pa.concat_tables(tables)


def _pixels(cell: Any) -> np.ndarray:
    """The pixels of an image, of which the file is in the data set."""
    require("pillow", "image", "reading images")
    from PIL import Image

    if not cell or cell.get("bytes") is None:
        raise InputError("the data set has paths of images rather than images: save it again with the images embedded")
    with Image.open(io.BytesIO(cell["bytes"])) as image:
        return np.asarray(image if image.mode in ("L", "RGB") else image.convert("RGB"))


def _stacked(samples: list[np.ndarray], path: Path) -> np.ndarray:
    for row, sample in enumerate(samples):
        if sample.shape != samples[0].shape or sample.dtype.kind not in "biuf":
            raise InputError(
                f"{path}: row {row} (counted from 0) has shape {sample.shape}, and row 0 {samples[0].shape}, expected "
                "numbers of one shape: resize or cut them with Dataset.map"
            )
    return np.stack(samples)
