"""Columns of numbers or dates with codes in some cells."""

import warnings

import numpy as np
import pandas as pd
import pytest

from viewsmith.data import load_dataset
from viewsmith.modalities.tables.roles import choose_roles

N = 100
ROWS = np.arange(N)


def said(values, **given):
    """Role of a column, and the warnings about it."""
    with warnings.catch_warnings(record=True, action="always") as found:
        roles = choose_roles(pd.DataFrame({"dose": values}), given, "t.csv")
    return roles["dose"], [str(each.message) for each in found]


@pytest.mark.parametrize("code", ["n/m", "low", "LOD", "?"])
@pytest.mark.parametrize("share", [0.11, 0.3, 0.5])
def test_numbers_with_codes_are_said(code, share):
    values = np.where(share * N > ROWS, code, (ROWS / 8).astype(str))
    role, messages = said(values)
    assert role in ("category", "text") and len(messages) == 1
    for part in ("t.csv: column dose has numbers in", f"{100 - 100 * share:.0f} % of its cells", f"read as {role}"):
        assert part in messages[0]
    assert repr(code) in messages[0] and "--columns dose=numeric takes the others as missing" in messages[0]
    assert said(values, dose=role) == (role, [])
    assert said(np.where(share * N > ROWS, None, values))[1] == []


def test_the_share_is_of_cells_that_are_not_missing():
    values = np.where(ROWS < 40, None, np.where(ROWS < 60, "low", (ROWS / 8).astype(str)))
    assert "in 67 % of its cells" in said(values)[1][0]


@pytest.mark.parametrize(
    "values",
    [
        np.where(ROWS < 51, "n.d.", (ROWS / 8).astype(str)),
        np.where(ROWS < 30, "n.d.", (ROWS % 10).astype(str)),
        np.where(ROWS < 30, "n.d.", np.char.zfill(ROWS.astype(str), 5)),
        np.where(ROWS < 50, "Oslo", "Rome"),
    ],
)
def test_codes_are_not_numbers(values):
    assert said(values)[1] == []


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y"])
def test_dates_with_codes_are_said(form):
    days = (pd.Timestamp("2024-01-01") + pd.to_timedelta(ROWS * 3, unit="D")).strftime(form)
    role, messages = said(np.where(ROWS < 30, "unknown", days))
    assert role in ("category", "text") and len(messages) == 1
    assert "column dose has dates in 70 % of its cells" in messages[0] and "'unknown'" in messages[0]
    assert "leave the other cells empty" in messages[0]
    assert said(np.where(ROWS < 51, "unknown", days))[1] == []
    assert said(np.where(ROWS < 30, None, days))[0] == "date"
    assert said(np.where(ROWS < 5, "unknown", days))[1] != []


def test_dates_of_two_formats_are_said():
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(ROWS * 3, unit="D")
    values = np.where(ROWS % 4 == 0, days.strftime("%d.%m.%Y"), days.strftime("%Y-%m-%d"))
    role, messages = said(values)
    assert role == "identifier" and "dates in 75 % of its cells, and is left out" in messages[0]
    assert "--columns dose=drop says that it is meant" in messages[0]


@pytest.mark.parametrize("other", ["oslo ", "Oslo", " OSLO"])
def test_values_that_differ_in_case_or_outer_spaces_are_named(tmp_path, other):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": rng.normal(size=60), "town": ["oslo", "rome", other] * 20, "kind": ["p", "q", "p "] * 20}
    )
    frame.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.warns(UserWarning) as found:
        data = load_dataset(tmp_path / "rows.csv", label="kind")
    said = [str(warning.message) for warning in found]
    assert [message for message in said if "'p' and 'p ', taken as different" in message and "'kind'" in message]
    assert [message for message in said if "column town: 1 value in forms" in message and repr(other) in message]
    assert sorted(set(data.y)) == ["p", "p ", "q"]


def test_spaces_within_values_are_not_named(tmp_path, recwarn):
    rng = np.random.default_rng(0)
    pd.DataFrame({"a": rng.normal(size=60), "kind": ["a b", "ab", " c"] * 20}).to_csv(
        tmp_path / "rows.csv", index=False
    )
    load_dataset(tmp_path / "rows.csv", label="kind")
    assert not [warning for warning in recwarn if "taken as different" in str(warning.message)]
