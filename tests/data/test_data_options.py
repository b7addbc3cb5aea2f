"""Options of `load_dataset` of other types than theirs, and data that are no path."""

import re

import numpy as np
import pandas as pd
import pytest

from tests.refusals import refusal
from viewsmith.data import load_dataset


@pytest.fixture
def table(tmp_path):
    pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=list("abc")).to_csv(tmp_path / "t.csv")
    return tmp_path / "t.csv"


@pytest.mark.parametrize(
    ("option", "given", "expected"),
    [
        ("label", 0, "label is 0, expected a text"),
        ("labels", 2.5, "labels is 2.5, expected a path"),
        ("rate", "1", "rate is '1', expected a number"),
        ("tile", True, "tile is True, expected a whole number"),
        ("strict", "no", "strict is 'no', expected True or False"),
        ("one_hot", "a", "one_hot is 'a', expected a list"),
        ("axes", ["Y", "X"], r"axes is \['Y', 'X'\], expected a text"),
        ("columns", ["a"], r"columns is \['a'\], expected a dict"),
        ("split_seed", -1, "split_seed is -1, expected at least 0"),
        ("drop", [7], "has no column '7'"),
    ],
)
def test_other_types_are_one_line(table, option, given, expected):
    message = refusal(load_dataset, table, **{option: given})
    assert re.search(expected, message), message


def test_numbers_of_numpy_and_none_are_taken(table):
    data = load_dataset(table, split_seed=np.int64(1), drop=None, rate=None)
    assert len(data.x) == 20


@pytest.mark.parametrize("given", [np.zeros((3, 2)), pd.DataFrame({"a": [1]}), None, 5])
def test_data_that_are_no_path_are_given_to_an_estimator(given):
    message = refusal(load_dataset, given)
    assert (
        f"of type {type(given).__name__}, expected a name, or the path" in message
        and "given to an estimator" in message
    )
