"""Map-style datasets of PyTorch and Hugging Face, collected into an array."""

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import Dataset as TorchDataset

from viewsmith.core.errors import InputError, join_names, name_list, one_line
from viewsmith.core.rows import is_pil, memory_limit
from viewsmith.modalities.dna.letters import AMINO_ACIDS, NUCLEOTIDES, is_text_of
from viewsmith.modalities.images.channels import pil_pixels
from viewsmith.modalities.images.modality import pixels_of_unit

# Kinds of columns of Hugging Face datasets that hold samples, by the class of their feature.
_SAMPLES = ("Image", "Sequence", "List", "LargeList", "Array2D", "Array3D")
SOME = 100  # cells by which a column of text is told


def is_map_style(X: Any) -> bool:
    """Whether an object is a dataset of PyTorch or Hugging Face, a column of one, or a loader, which `collect`
    refuses."""
    return isinstance(X, TorchDataset | DataLoader) or _is_hugging_face(X) or _is_column(X)


def collect(X: Any, modality: str = "auto") -> np.ndarray | list[str]:
    """All samples of a map-style dataset, in order.

    Labels are left out: of items that are tuples or lists the first part is taken, of a Hugging Face dataset the column
    of images, sequences or numbers. More samples than a quarter of the memory holds go to a memory map of a temporary
    file, which the system removes with the array.

    Parameters
    ----------
    X : torch.utils.data.Dataset, or a dataset of Hugging Face
        With a length; or a column of the latter. Items are tensors, arrays, PIL images or strings of DNA, all of one
        shape. Images are uint8, or floats that ``ToTensor`` made of 8-bit values; channels may come first.
    modality : str
        Of another modality than "auto" and "images", such as "series", arrays are taken as they are.

    Returns
    -------
    ndarray, shape (n, ...), or list of str
        Images are uint8 (n, H, W) or (n, H, W, C).

    Raises
    ------
    InputError
        A loader or an iterable dataset, items of another kind or of different shapes, no column or several columns of
        samples.
    """
    if isinstance(X, DataLoader):
        raise InputError(
            "X is a DataLoader, which gives shuffled batches, but training draws its own, with a seed, and needs every "
            "row by its number: give its dataset, X.dataset"
        )
    if isinstance(X, IterableDataset) or not (hasattr(X, "__len__") and hasattr(X, "__getitem__")):
        raise InputError(
            f"X is of type {type(X).__name__}, an iterable dataset, but training needs every row by its number: give a "
            "map-style dataset, with __len__ and __getitem__, or an array of its samples"
        )
    if _is_hugging_face(X):
        if isinstance(X, dict):
            raise InputError(f"X is a DatasetDict of the splits {name_list(list(X))}: give one of them, X['train']")
        column = _column(X)
        take: Callable[[int], Any] = lambda number: X[number][column]  # noqa: E731
    elif _is_column(X):
        take = lambda number: X[number]  # noqa: E731
    else:
        take = lambda number: _first(X[number])  # noqa: E731
    if len(X) == 0:
        raise InputError(f"X is an empty {type(X).__name__}, expected samples")
    first = take(0)
    if isinstance(first, str):
        if _is_hugging_face(X) and not _is_sequence(first):
            raise InputError(
                f"the column {column} of X has text ({one_line(repr(first), 40)}) that is neither DNA nor a "
                "protein: choose another one with X.select_columns([name]), or give X.to_pandas() if it is a table"
            )
        return [take(number) for number in range(len(X))]
    return _collected(take, len(X), pixels=modality in ("auto", "images"))


def _is_hugging_face(X: Any) -> bool:
    if isinstance(X, dict):
        # A sparse matrix of scipy may be a dictionary, too.
        return not hasattr(X, "tocsr") and bool(X) and all(_is_hugging_face(split) for split in X.values())
    return hasattr(X, "features") and hasattr(X, "column_names") and not hasattr(X, "columns")


def _is_column(X: Any) -> bool:
    """Whether an object is a column of a dataset of Hugging Face, whose items are read when they are asked for."""
    return isinstance(X, Sequence) and hasattr(X, "column_name") and hasattr(X, "source")


def _is_sequence(text: str) -> bool:
    """Whether a text is DNA, or a protein; in lower case many words are one."""
    return is_text_of(text, NUCLEOTIDES) or (text.isupper() and is_text_of(text, AMINO_ACIDS))


def _column(X: Any) -> str:
    """The column of a Hugging Face dataset that holds samples."""
    features = X.features or {}
    found = [name for name, kind in features.items() if type(kind).__name__ in _SAMPLES or isinstance(kind, list)]
    dtypes = {name: str(getattr(kind, "dtype", None)) for name, kind in features.items()}
    if not found:
        found = [name for name, dtype in dtypes.items() if dtype == "string"]
    if len(found) == 1 and dtypes[found[0]] == "string" and any(dtype.startswith("float") for dtype in dtypes.values()):
        import pandas as pd

        from viewsmith.modalities.tables.roles import sequences_of

        texts = pd.Series([X[number][found[0]] for number in range(min(len(X), SOME))])
        found = found if sequences_of(texts) is not None else []  # a table of numbers with a class in words
    if len(found) != 1:
        there = f"has the columns {join_names(found, 'and')}" if found else "has no column"
        raise InputError(
            f"X {there} of images or sequences, expected one (all columns: {name_list(list(features)) or 'none'}): "
            "choose it with X.select_columns([name]), or give X.to_pandas() if it is a table"
        )
    return str(found[0])


def _first(item: Any) -> Any:
    """The sample of an item that may be a pair of sample and label."""
    if isinstance(item, dict):
        raise InputError(
            f"the items of X are dictionaries with the keys {name_list(list(item))}, expected tensors or pairs of "
            "tensor and label: return the tensor in __getitem__"
        )
    if isinstance(item, list | tuple) and item and not isinstance(item[0], int | float):
        return item[0]
    return item


def _sample(item: Any, number: int, *, pixels: bool, color: bool = False) -> np.ndarray:
    """An item as an array; if items may be images (`pixels`), these get their channels last and 8 bits."""
    if isinstance(item, torch.Tensor):
        item = item.detach().cpu()
        made = (item.float() if item.dtype == torch.bfloat16 else item).numpy()
    elif is_pil(item):
        made = pil_pixels(item, f"item {number} of X", color=color)
    else:
        try:
            made = np.asarray(item)
        except ValueError:
            made = np.empty(0, dtype=object)
    if made.dtype.kind not in "biuf" or made.ndim not in (1, 2, 3):
        raise InputError(
            f"item {number} of X is {one_line(repr(item), 60)}, expected a tensor of 1 to 3 dimensions, an image or a "
            "string of DNA"
        )
    if pixels and made.ndim == 3 and made.shape[0] in (1, 3) and made.shape[2] not in (1, 3):
        made = np.moveaxis(made, 0, 2)
    if pixels and made.ndim in (2, 3) and made.dtype.kind == "f" and not is_pil(item):
        made = pixels_of_unit(made, f"item {number} of X", "; of recordings name modality='series'" * (made.ndim == 2))
    return made


def _collected(take: Callable[[int], Any], n: int, *, pixels: bool) -> np.ndarray:
    first = _sample(take(0), 0, pixels=pixels)
    shape, limit = (n, *first.shape), memory_limit()
    if limit is None or first.nbytes * n <= limit // 2:
        rows = np.empty(shape, first.dtype)
    else:
        with tempfile.TemporaryFile() as file:
            rows = np.memmap(file, dtype=first.dtype, mode="w+", shape=shape)
    rows[0] = first
    for number in range(1, n):
        row = _sample(take(number), number, pixels=pixels, color=first.shape[2:] == (3,))
        if row.shape != first.shape:
            raise InputError(
                f"item {number} of X has shape {row.shape}, and item 0 {first.shape}, expected one shape: resize, cut "
                "or convert them in the dataset"
            )
        if not np.can_cast(row.dtype, first.dtype, "same_kind" if first.dtype.kind == "f" else "safe"):
            raise InputError(
                f"item {number} of X is of {row.dtype}, and item 0 of {first.dtype}, expected one type: convert them "
                "in the dataset"
            )
        rows[number] = row
    return rows
