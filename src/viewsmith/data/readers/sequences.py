"""Sequences of letters in a column of a table, given by the modality."""

from typing import Any

import pandas as pd

from viewsmith.core.errors import InputError, name_list, one_line, warn
from viewsmith.data.options import DataOptions
from viewsmith.data.reading import FileContents
from viewsmith.modalities import frames
from viewsmith.modalities.base import modality_of
from viewsmith.modalities.dna.alphabet import Alphabet
from viewsmith.modalities.dna.letters import letter_rows, letters_of
from viewsmith.modalities.dna.modality import Letters

# Least part of the characters of a column that are letters: others, such as gaps, are then told with their place.
MOSTLY = 0.9


def alphabet_given(request: DataOptions) -> Alphabet | None:
    """The alphabet of the modality that was given, or that the run was fitted with; None for another modality."""
    given = None if request.modality is None else modality_of(request.modality)
    return given.alphabet if isinstance(given, Letters) else None


def read_sequences(
    frame: pd.DataFrame, request: DataOptions, alphabet: Alphabet, label: str | None, source_name: str
) -> FileContents:
    """The column with the most letters of the alphabet as rows, which it says; for a run, the column of the run."""
    column = None if request.schema is None else request.schema.get("sequences")
    if column is None:
        column = _column(
            frame.drop(columns=[*request.drop, *([] if label is None else [label])]), alphabet, source_name
        )
        warn(f"{source_name}: the sequences are those of the column {one_line(column, 60)}")
    elif column not in frame.columns:
        raise InputError(f"{source_name} has no column {one_line(column, 60)}, in which the run has its sequences")
    texts = frame[column]
    if texts.isna().any():
        row = int(texts.isna().to_numpy().argmax())
        raise InputError(f"{source_name}: row {row} (counted from 0) has no sequence: leave that row out")
    rows = letter_rows(texts.astype(str).str.strip().tolist(), source_name, alphabet)
    y = None if label is None else frames.labels(frame[label])
    table: dict[str, Any] = {"columns": None, "one_hot": {}, "drop": list(request.drop), "label": label}
    return FileContents(rows, y, table=table, options={"sequences": column}, modality=alphabet.name)


def _column(frame: pd.DataFrame, alphabet: Alphabet, source_name: str) -> str:
    """The text column with the most letters, among those that have hardly anything else."""
    found: dict[str, int] = {}
    for name in frame.columns:
        if pd.api.types.is_numeric_dtype(frame[name]):
            continue
        text = letters_of("".join(frame[name].dropna().astype(str)).encode("ascii", "replace"))
        known = int(alphabet.known[text].sum())
        if known and known >= MOSTLY * len(text):
            found[str(name)] = known
    if not found:
        raise InputError(
            f"{source_name}: no column has letters {alphabet} alone, expected one with the sequences; its columns are "
            f"{name_list(list(map(str, frame.columns)))}"
        )
    return max(found, key=lambda name: found[name])
