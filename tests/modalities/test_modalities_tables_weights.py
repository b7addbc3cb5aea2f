"""Weights of the columns of tables, and tables of other libraries."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from table_toys import ROLES, ROWS, encoder, people

from properties import examples
from refusals import refusal
from viewsmith.modalities.checks import check_container
from viewsmith.modalities.frames import as_frame
from viewsmith.modalities.tables import speaks_table
from viewsmith.modalities.tables.encoder import facts_for_views, known_values
from viewsmith.modalities.tables.roles import choose_roles
from viewsmith.modalities.tables.scaling import fit_scaler
from viewsmith.networks.scaling import Scaler

# --- weights


def weighted(frame: pd.DataFrame, scaling: str = "standard") -> np.ndarray:
    fitted = encoder(frame)
    x = torch.from_numpy(np.asarray(fitted.encode(frame)))
    layer = Scaler(x.shape[1])
    fit_scaler(layer, x, scaling, fitted)
    return layer(x).numpy()


def squared(x: np.ndarray) -> np.ndarray:
    return ((x[:, None] - x[None]) ** 2).sum(2)


@examples(30)
@given(
    kinds=hnp.arrays(np.int64, 25, elements=st.integers(0, 5)),
    numbers=hnp.arrays(np.float64, 25, elements=st.floats(-100, 100).map(lambda v: round(v, 2))),
)
def test_a_category_counts_like_a_standard_deviation_of_a_number(kinds, numbers):
    if len(set(kinds)) == 1 or numbers.std() < 0.1:
        return
    frame = pd.DataFrame({"kind": [f"k{i}" for i in kinds], "number": numbers})
    found = squared(weighted(frame))
    for i in range(25):  # the slow, obvious loop
        for j in range(25):
            expected = ((numbers[i] - numbers[j]) / numbers.std()) ** 2 + (kinds[i] != kinds[j])
            assert abs(found[i, j] - expected) < 1e-3 * max(1, expected)


def test_text_and_dates_count_like_a_number_on_average():
    frame = people()[["address", "joined"]]
    fitted = encoder(frame)
    x = weighted(frame)
    assert len(fitted.spans) == 2
    for first, end in fitted.spans:
        assert np.isclose(x[:, first:end].var(0).sum(), 1, atol=1e-3)


def test_a_gap_counts_like_a_standard_deviation():
    frame = pd.DataFrame({"a": [1.0, 2, 3, np.nan] * 10, "b": ["x", "y"] * 20})
    x = weighted(frame)
    assert np.isclose(abs(x[2, 1] - x[3, 1]), 1)


def test_auto_looks_at_numbers_alone():
    frame = people()  # most indicators are zero
    assert np.allclose(weighted(frame, "auto"), weighted(frame, "standard"))
    zeros = pd.DataFrame({"a": [0.0, 0, 0, 4] * 10, "b": [0.0, 0, 2, 0] * 10, "c": ["x", "y"] * 20})
    x = weighted(zeros, "auto")
    assert (x[0, :2] == 0).all()  # zeros stay zeros: one scale for all numbers
    assert np.isclose(squared(x[:, 2:])[0, 1], 1)


def test_plain_one_hot_without_scaling():
    x = weighted(people()[["town", "height"]], "none")
    assert set(np.unique(x[:, :5])) == {0, 1}


def test_facts_for_views():
    fitted = encoder(people()[["age", "town", "height"]])
    assert facts_for_views(fitted) == {"columns": [0, 0, 1, 1, 1, 1, 1, 2], "categories": [[2, 7]]}


# --- tables of other libraries


class Interchanged:
    """What speaks the interchange protocol alone."""

    def __init__(self, frame):
        self._frame = frame

    def __dataframe__(self, *args, **kwargs):
        return self._frame.__dataframe__(*args, **kwargs)


def test_the_interchange_protocol():
    frame = people()[["age", "height"]].assign(town=np.array(["Oslo", "Rome"])[ROWS % 2])
    pd.testing.assert_frame_equal(as_frame(Interchanged(frame)), frame, check_dtype=False)
    assert speaks_table(Interchanged(frame)) and not speaks_table(Interchanged)


def test_arrow_tables():
    pyarrow = pytest.importorskip("pyarrow")
    frame = people()
    table = pyarrow.Table.from_pandas(frame)
    assert speaks_table(table) and not speaks_table(table["age"]) and not speaks_table(pd.Series([1]))
    assert choose_roles(as_frame(table)) == ROLES
    np.testing.assert_array_equal(encoder(frame).encode(as_frame(table)), encoder(frame).encode(frame))


def test_polars_tables():
    polars = pytest.importorskip("polars")
    frame = people()
    table = polars.from_dict({name: frame[name].tolist() for name in frame})
    assert speaks_table(table) and not speaks_table(table["age"])
    assert choose_roles(as_frame(table)) == ROLES


def test_types_of_polars():
    polars = pytest.importorskip("polars")
    days = pd.date_range("2020-01-01", periods=60, freq="7D")
    table = polars.DataFrame(
        {
            "age": polars.Series([None if i % 9 == 0 else i for i in range(60)], dtype=polars.UInt16),
            "price": polars.Series([i / 4 for i in range(60)]).cast(polars.Decimal(10, 2)),
            "member": [i % 2 == 0 for i in range(60)],
            "town": polars.Series(["Oslo", "Rome", None] * 20, dtype=polars.Categorical),
            "grade": polars.Series(["u", "v"] * 30, dtype=polars.Enum(["u", "v"])),
            "since": [day.date() for day in days],
        }
    )
    frame = as_frame(table)
    expected = ["numeric", "numeric", "category", "category", "category", "date"]
    assert list(choose_roles(frame).values()) == expected
    same = pd.DataFrame({name: table[name].to_list() for name in table.columns})
    same["price"] = same["price"].astype(float)
    assert list(choose_roles(same).values()) == expected
    np.testing.assert_allclose(encoder(frame).encode(frame), encoder(same).encode(same), rtol=1e-6)


def test_a_query_has_no_rows_yet():
    class LazyFrame:
        collect = collect_schema = None

    assert "a LazyFrame, a query whose rows are not computed yet" in refusal(check_container, LazyFrame())


@pytest.mark.parametrize("x", [np.ones((2, 2)), [[1, 2]], torch.ones(2, 2), pd.Series([1, 2]), "text", None])
def test_no_tables(x):
    assert not speaks_table(x)


def test_equal_names_are_refused():
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    assert "equal names: a" in refusal(as_frame, frame)
    assert "equal names: 1" in refusal(as_frame, frame.set_axis([1, "1"], axis=1))


def test_known_values_are_those_of_text_and_dates():
    fitted = encoder(people())
    assert set(known_values(fitted.columns, people())) == {"address", "joined"}
    assert replace(fitted.columns[0], gaps=False).features == ["age"]
