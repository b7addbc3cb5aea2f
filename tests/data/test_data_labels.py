"""What labels are, classes or numbers, and which columns say them."""

import warnings

import numpy as np
import pandas as pd
import pytest

from refusals import refusal
from viewsmith.core.errors import InputError
from viewsmith.data import load_dataset
from viewsmith.data.dataset import validation_split
from viewsmith.data.labels import _is_quantity, as_classes, numbers_of, repeating_columns


def spread(distinct, largest, n):
    """n integers with so many different values, from 0 to the largest."""
    values = np.append(np.arange(distinct - 1), largest)
    return np.resize(values, n)


@pytest.mark.parametrize(
    ("distinct", "largest", "n", "expected"),
    [
        (51, 101, 254, True),  # 102 values are possible, twice as many as there are
        (51, 100, 254, False),
        (51, 101, 255, False),  # five rows of each
        (50, 1000, 100, False),  # few values
    ],
)
def test_integers_are_a_quantity_if_many_differ_with_gaps(distinct, largest, n, expected):
    assert _is_quantity(spread(distinct, largest, n)) is expected
    assert _is_quantity(spread(distinct, largest, n) - 500) is expected


def test_columns_that_are_the_target_but_for_scale_and_sign():
    y = np.random.default_rng(0).normal(size=40)
    more = {"near": y + 0.1 * np.random.default_rng(1).normal(size=40), "few": np.where(np.arange(40) < 19, y, np.nan)}
    frame = pd.DataFrame({"up": 3 * y + 1, "down": -0.5 * y, "text": (2 * y).astype(str), "constant": 1.0} | more)
    assert repeating_columns(frame, y) == ["up", "down", "text"]


HALVES = np.arange(30) / 2


@pytest.mark.parametrize(
    "y",
    [HALVES, HALVES.astype(np.float32), np.array([0.5, None, 2], object), np.array([1.5, np.nan, -1])],
    ids=["float64", "float32", "objects", "gaps"],
)
def test_fractions_are_numbers(y):
    found = numbers_of(y)
    assert found.dtype == np.float64 and np.isnan(found).sum() == sum(v is None or v != v for v in y.tolist())


@pytest.mark.parametrize(
    "y",
    [np.arange(30), np.arange(30.0), np.array(["1.5", "2.5"] * 9), np.arange(30) > 3, np.array([1.0, np.nan, 2.0])],
    ids=["integers", "whole", "text", "booleans", "gaps"],
)
def test_others_are_classes_unless_it_is_said(y):
    assert numbers_of(y) is None
    assert numbers_of(y, target="number").dtype == np.float64
    assert numbers_of(HALVES, target="class") is None


def test_numbers_as_classes():
    assert as_classes(np.array([0.5, 1.0, np.nan]), "class").tolist() == ["0.5", "1", ""]
    assert as_classes(HALVES, None) is HALVES


@pytest.mark.parametrize(
    ("y", "target", "part"),
    [
        (np.array([*map(str, HALVES + 0.25), "high"]), None, "mixes 30 numbers and 1 texts, such as 'high'"),
        (np.array(["1", "2", "high"]), "number", "holds 'high', expected numbers"),
        (np.array([0.5, np.inf]), None, "1 infinite number"),
    ],
)
def test_mixed_and_infinite(y, target, part):
    with pytest.raises(InputError, match=part):
        numbers_of(y, target=target)


def test_a_constant_target_gives_no_warning_of_its_own(tmp_path):
    pd.DataFrame({"x": HALVES, "z": HALVES**2, "y": 0.5}).to_csv(tmp_path / "t.csv", index=False)
    with warnings.catch_warnings(action="error"):  # that nothing can be learned from it, the commands say
        assert load_dataset(tmp_path / "t.csv", label="y").target == "number"


def test_what_may_be_the_other_kind_is_said():
    with pytest.warns(UserWarning, match="3 different values, such as 0.5, taken as numbers"):
        numbers_of(np.array([0, 0.5, 1] * 10), say=True)
    with pytest.warns(UserWarning, match="300 different integers, taken as classes: give --target number"):
        numbers_of(np.arange(300), say=True)
    with warnings.catch_warnings(action="error"):
        numbers_of(np.arange(300))


@pytest.mark.parametrize("kind", [np.int64, np.float64, object])
def test_many_integers_with_gaps_are_a_quantity(kind):
    rng = np.random.default_rng(0)
    prices = rng.integers(300, 18_000, 200)
    assert numbers_of(prices.astype(kind)).tolist() == prices.tolist()
    for classes in (rng.integers(0, 120, 400), np.arange(200), rng.choice(prices[:40], 200), rng.choice(prices, 2000)):
        assert numbers_of(classes.astype(kind)) is None
    assert numbers_of(prices, target="class") is None


@pytest.fixture(scope="module")
def diamonds(data_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("diamonds") / "d.csv"
    frame = pd.read_csv(data_dir / "tables" / "diamonds.csv").sample(200, random_state=0)
    frame.loc[frame.index[:20], "carat"] = np.nan
    frame.assign(grams=frame["carat"] * 0.2).to_csv(path, index=False)
    return path


def test_a_table_with_a_continuous_label(diamonds):
    with pytest.warns(UserWarning) as said:
        data = load_dataset(diamonds, label="carat")
    texts = [str(each.message) for each in said]
    assert any("column grams repeats the target carat (correlation above 0.9999)" in text for text in texts)
    assert any("20 of 200 rows have no label" in text for text in texts)
    assert (data.target, data.split, data.schema["target"]) == ("number", "random", "number")
    assert data.y.dtype == np.float64 and np.isnan(data.y).sum() == 20 and not np.isnan(data.y_test).any()
    assert len(data.test_index) == 36 and np.isnan(data.y_train).sum() == 20
    assert "labels are numbers, but these settings need classes" in refusal(data.fit_labels, False)
    assert np.array_equal(data.fit_labels(False, numbers=True), data.y_train, equal_nan=True)
    again = load_dataset(diamonds, schema=data.schema, table=data.x.table)
    assert np.array_equal(again.test_index, data.test_index)
    validation = validation_split(data)
    assert len(validation.test_index) == 29 and not np.isnan(validation.y_test).any()


def test_the_kind_can_be_said(diamonds):
    number = load_dataset(diamonds, label="price", target="number", drop=["grams", "carat"])
    assert number.target == "number" and number.schema["target"] == "number"
    with pytest.warns(UserWarning, match=r"different integers with gaps, taken as numbers: give --target class"):
        assert load_dataset(diamonds, label="price", drop=["grams", "carat"]).target == "number"
    assert "expected auto, class or number" in refusal(load_dataset, diamonds, label="price", target="float")
    few = load_dataset(diamonds, label="cut", target="class")
    assert (few.target, few.split) == ("class", "stratified")


def test_equal_numbers_cannot_be_validated(tmp_path):
    np.savez(tmp_path / "c.npz", X=np.random.default_rng(0).normal(size=(40, 3)), y=np.full(40, 0.5))
    assert "all train rows have the target 0.5" in refusal(validation_split, load_dataset(tmp_path / "c.npz"))
