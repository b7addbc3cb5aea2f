"""Data for a fitted run, read as its configuration says: before the model is loaded, whose imports take seconds."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.core.files import parse_json
from viewsmith.data.dataset import Dataset
from viewsmith.data.labels import without_label
from viewsmith.data.options import DataOptions
from viewsmith.data.places import config_of
from viewsmith.data.sources import read_dataset

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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `read_for_run` says what is to be said of the data
        try:
            found = read_dataset(data, DataOptions(label=column, few_labels=True), split=False)
        except InputError as error:
            raise InputError(str(error).replace("given as label", "given as color")) from error
    if found.y is None:
        raise InputError(f"{data} has no column {column!r}, given as color")
    values = found.y.astype(object)
    values[without_label(found.y)] = None
    return values
