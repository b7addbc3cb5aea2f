"""What commands do with a CRL-TAC model: write the locations that it finds, or crops at them; average over views."""

from pathlib import Path

import numpy as np
import pandas as pd

from viewsmith.core.errors import InputError, pluralize, warn
from viewsmith.data import Dataset
from viewsmith.data.places import check_crops_path, check_locations_path
from viewsmith.data.write import write_crops, write_locations
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.methods.crl_tac.building import with_inference
from viewsmith.methods.crl_tac.estimator import CRLTAC
from viewsmith.workflows.runs import split_rows


def locate_to(path: Path, model: ViewsmithEstimator, dataset: Dataset, n: int = 1) -> pd.DataFrame:
    """Write the locations that a model finds in the samples of a data set, and return them as a table."""
    check_locations_path(path, dataset.modality)
    found = _of_crl_tac(model).locate(dataset.x, n)
    locations = table_of(dataset, found)
    if missing := len(dataset.x) - locations.index.nunique():
        warn(f"{_no_location(missing, dataset)}; these samples have no row")
    write_locations(path, dataset, locations)
    return locations


def crop_to(path: Path, model: ViewsmithEstimator, dataset: Dataset, n: int = 1) -> pd.DataFrame:
    """Write crops at locations that a model finds, as data for other methods; return the table (`locate_to`)."""
    check_crops_path(path, dataset.modality)
    crops, found = _of_crl_tac(model).crops(dataset.x, n)
    locations = table_of(dataset, found)
    missing = len(dataset.x) - locations.index.nunique()
    if not len(locations):
        raise InputError(f"{_no_location(missing, dataset)}; there is nothing to crop: see the report of the run")
    if missing:
        warn(f"{_no_location(missing, dataset)}; these samples have no crops")
    write_crops(path, dataset, locations, crops[_order(dataset, found)])
    return locations


def table_of(dataset: Dataset, found: np.ndarray) -> pd.DataFrame:
    """Locations in the samples of a data set as a table: train rows first, then test rows, each in input order."""
    frame = pd.DataFrame(found[_order(dataset, found)]).set_index("sample", drop=True)
    rows = frame.index.to_numpy()
    index, is_test = np.empty(len(dataset.x), np.int64), _in_test(dataset)
    for split, split_index in (("train", dataset.train_index), ("test", dataset.test_index)):
        if split_index is not None:
            index[split_index] = split_rows(dataset, split)[1]
    if "feature" in frame and dataset.feature_names is not None:
        frame["feature"] = [dataset.feature_names[feature] for feature in frame["feature"]]
    if dataset.row_names is not None:
        frame.insert(0, "name", [dataset.row_names[row] for row in rows])
    frame.insert(0, "split", np.where(is_test[rows], "test", "train"))
    frame.insert(0, "index", index[rows])
    return frame


def _order(dataset: Dataset, found: np.ndarray) -> np.ndarray:
    """Order that puts locations in train rows before locations in test rows, and changes nothing else."""
    return np.argsort(_in_test(dataset)[found["sample"]], kind="stable")


def _in_test(dataset: Dataset) -> np.ndarray:
    test = np.zeros(len(dataset.x), bool)
    if dataset.test_index is not None:
        test[dataset.test_index] = True
    return test


def inferring(model: ViewsmithEstimator, inference: str | None) -> ViewsmithEstimator:
    """The model, with another average over views as its representation if `inference` is not None."""
    if inference is None:
        return model
    lacks = "has no distribution of views to average over: leave --inference out, or"
    return with_inference(_of_crl_tac(model, lacks), inference)


def _of_crl_tac(model: ViewsmithEstimator, lacks: str = "finds no locations:") -> CRLTAC:
    if not isinstance(model, CRLTAC):
        raise InputError(f"the run was fitted with {model.name}, which {lacks} give a run of crl-tac")
    return model


def _no_location(count: int, dataset: Dataset) -> str:
    of = pluralize(len(dataset.x), "sample")
    return f"no location is found in {count:,} of {of} of {dataset.source}: P(T|x) is too close to uniform"
