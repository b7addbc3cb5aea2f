"""Where a model of CRL-TAC finds something in the samples of a data set, and what is there, as files."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError
from viewsmith.core.messages import pluralize
from viewsmith.data import Dataset
from viewsmith.data.write_places import check_crops_path, check_places_path, write_crops, write_places
from viewsmith.estimators import CRLTAC
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.workflows.runs import split_rows


def locate_to(path: Path, model: ViewsmithEstimator, dataset: Dataset, n: int = 1) -> pd.DataFrame:
    """Write where something is found in the samples of a data set, a row each, and return the table.

    Parameters
    ----------
    path : Path
        See `viewsmith.data.write_places.write_places`.
    model : ViewsmithEstimator
    dataset : Dataset
    n : int
        Places of each sample, at most.

    Raises
    ------
    InputError
        The model is not of CRL-TAC, or the name of the file does not suit.
    """
    check_places_path(path, dataset.domain)
    found = _of_crl_tac(model).locate(dataset.x, n)
    places = table_of(dataset, found)
    if missing := len(dataset.x) - places.index.nunique():
        warnings.warn(f"{_nothing(missing, dataset)}, which have no row", UserWarning, stacklevel=2)
    write_places(path, dataset, places)
    return places


def crop_to(path: Path, model: ViewsmithEstimator, dataset: Dataset, n: int = 1) -> pd.DataFrame:
    """Write what is at these places, as data for other methods, and return the table of places.

    See `locate_to` and `viewsmith.data.write_places.write_crops`.

    Raises
    ------
    InputError
        Also where nothing is found in any sample.
    """
    check_crops_path(path, dataset.domain)
    crops, found = _of_crl_tac(model).crops(dataset.x, n)
    places = table_of(dataset, found)
    missing = len(dataset.x) - places.index.nunique()
    if not len(places):
        raise InputError(f"{_nothing(missing, dataset)}: there is nothing to crop; look at the report of the run")
    if missing:
        warnings.warn(f"{_nothing(missing, dataset)}, of which there are no crops", UserWarning, stacklevel=2)
    write_crops(path, dataset, places, crops[_order(dataset, found)])
    return places


def table_of(dataset: Dataset, found: np.ndarray) -> pd.DataFrame:
    """Places in the samples of a data set as a table: train rows first, then test rows, each in input order.

    Parameters
    ----------
    dataset : Dataset
    found : structured array
        What `CRLTAC.locate` says of ``dataset.x``.

    Returns
    -------
    DataFrame
        Columns ``index`` (number of the sample in its array or table), ``split``, ``name`` where rows have names, and
        those of `found`, features by name where they have names. Its index is the row of ``dataset.x``.
    """
    frame = pd.DataFrame(found[_order(dataset, found)]).set_index("sample", drop=True)
    rows = frame.index.to_numpy()
    index, is_test = np.empty(len(dataset.x), np.int64), np.zeros(len(dataset.x), bool)
    for split, side in (("train", dataset.train_index), ("test", dataset.test_index)):
        if side is not None:
            index[side] = split_rows(dataset, split)[1]
    if dataset.test_index is not None:
        is_test[dataset.test_index] = True
    if "feature" in frame and dataset.feature_names is not None:
        frame["feature"] = [dataset.feature_names[feature] for feature in frame["feature"]]
    if dataset.row_names is not None:
        frame.insert(0, "name", [dataset.row_names[row] for row in rows])
    frame.insert(0, "split", np.where(is_test[rows], "test", "train"))
    frame.insert(0, "index", index[rows])
    return frame


def _order(dataset: Dataset, found: np.ndarray) -> np.ndarray:
    """Places of train rows before those of test rows, those of a sample as they are."""
    test = np.zeros(len(dataset.x), bool)
    if dataset.test_index is not None:
        test[dataset.test_index] = True
    return np.argsort(test[found["sample"]], kind="stable")


def _of_crl_tac(model: ViewsmithEstimator) -> CRLTAC:
    if not isinstance(model, CRLTAC):
        raise InputError(f"the run is of {model.name}, which does not say where to look: give one of crl-tac")
    return model


def _nothing(count: int, dataset: Dataset) -> str:
    of = pluralize(len(dataset.x), "sample")
    return f"nothing is found in {count:,} of {of} of {dataset.source}: P(T|x) singles out no place there"
