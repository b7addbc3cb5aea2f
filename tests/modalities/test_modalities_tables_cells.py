"""Numbers that cells of text have: beside a unit, a limit or an error, as a range, a time or an angle."""

import warnings
from datetime import time

import numpy as np
import pandas as pd
import pytest

from refusals import refusal
from viewsmith.modalities.tables.cells import form_of, number_in
from viewsmith.modalities.tables.encoder import TableEncoder, fit_table
from viewsmith.modalities.tables.roles import choose_roles

N = 60
rng = np.random.default_rng(0)
x = rng.normal(20, 4, N).round(1)


def numbers_of(cells, match):
    frame = pd.DataFrame({"a": cells, "x": x})
    with pytest.warns(UserWarning, match=match) as said:
        roles = choose_roles(frame, source_name="t.csv")
    assert roles["a"] == "numeric" and len(said) == 1
    with warnings.catch_warnings(action="error"):
        encoder = TableEncoder.from_dict(fit_table(frame, roles, source_name="t.csv").as_dict())
        return np.asarray(encoder.encode(frame, "t.csv"))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([f"{v} ± 1.5" for v in x], x),
        ([f"{v} +/- 1.5 mg" for v in x], x),
        ([f"{v} (1.2-3.4)" for v in x], x),
        ([f"{v}".replace(".", ",") for v in x], x),
        ([f"{v} %".replace(".", ",") for v in x], x),
        ([f"1.{round(10 * v)},5" for v in x], 1000 + (10 * x).round() + 0.5),
        ([f"1 {round(10 * v)}" for v in x], 1000 + (10 * x).round()),
        ([f"1'{round(10 * v)}" for v in x], 1000 + (10 * x).round()),
        ([f"1,{round(10 * v)}.5 €" for v in x], 1000 + (10 * x).round() + 0.5),
        ([f"\u2212{v}" if i % 2 else f"{v}" for i, v in enumerate(x)], np.where(np.arange(N) % 2, -x, x)),
        ([f"{v} × 10^3" for v in x], 1000 * x),
        ([f"{v}·10⁻³ mol" for v in x], x / 1000),
        ([f"{v}*" if i % 3 else f"{v}" for i, v in enumerate(x)], x),
        ([f"~{v}" if i % 3 else v for i, v in enumerate(x)], x),  # as sheets have them, beside numbers
        ([f"{v} years" if v else "0" for v in x], x),
        ([f"{int(v):02d}:{int(v) + 5}" for v in x], [int(v) + (int(v) + 5) / 60 for v in x]),
        ([f"{int(v)}:30:36" for v in x], [int(v) + 0.51 for v in x]),
        ([time(int(v), 45) for v in x.clip(0, 23)], [int(v) + 0.75 for v in x.clip(0, 23)]),
        (
            [f"1{i % 3}:15 {'AP'[i % 2]}M" for i in range(N)],
            [(10 + i % 3) % 12 + 0.25 + 12 * (i % 2) for i in range(N)],
        ),
        (
            [f"{int(v)}h {i % 50 + 5}min" for i, v in enumerate(x)],
            [int(v) + (i % 50 + 5) / 60 for i, v in enumerate(x)],
        ),
        ([f"{i} h" if i % 2 else f"{i} min" for i in range(N)], [i if i % 2 else i / 60 for i in range(N)]),
        ([f"{int(v)}-{int(v) + 9}" for v in x], [int(v) + 4.5 for v in x]),
        (["<20", "20-29", "30–39", "40+"] * 15, [10, 24.5, 34.5, 40] * 15),
        (
            [f"{int(v)}°30'36\"{'NS'[i % 2]}" for i, v in enumerate(x)],
            [(int(v) + 0.51) * (-1) ** i for i, v in enumerate(x)],
        ),
        ([f"{v}° E" for v in x], x),
    ],
)
def test_numbers_in_text_are_read(cells, expected):
    np.testing.assert_allclose(numbers_of(cells, "t.csv: ")[:, 0], np.float32(expected), rtol=1e-5)


def test_what_stands_for_values_beyond_a_limit_is_said():
    cells = ["<0.5", "< 2", ">100", *x[3:].astype(str)]
    message = r"half of the limit .* \(below detection\) in a \(<0.5\); the limit stands for .* in a \(>100\)"
    np.testing.assert_allclose(numbers_of(cells, message)[:, 0], np.float32([0.25, 1, 100, *x[3:]]))


@pytest.mark.parametrize("word", ["<LOD", "BDL", "n.d.", "#DIV/0!"])
def test_words_for_no_number_are_gaps(word):
    rows = numbers_of([*x[:-9].astype(str), *[word] * 9], rf"cells without a number are missing in a \({word}\)")
    np.testing.assert_array_equal(rows[:, 1], np.arange(N) >= N - 9)


@pytest.mark.parametrize("cells", [["1", "2", "N.D."], ["007", "010"], ["1:100", "1:80"], ["3-1", "1-3"], ["A1", "B2"]])
def test_codes_and_categories_stay_text(cells):
    assert form_of(pd.Series(cells * 20)) is None


def test_later_cells_have_the_form_of_the_training_rows():
    frame = pd.DataFrame({"a": [f"{v} mg" for v in x], "x": x})
    with pytest.warns(UserWarning, match="a \\('.* mg' as "):
        encoder = fit_table(frame, choose_roles(frame))
    later = frame.assign(a=["7.5", "<3 mg", "8 (1) mg"][0])
    assert encoder.encode(later)[0, 0] == 7.5 and number_in("<3 mg", form_of(frame.a)) == 1.5
    assert "fitted on numbers with mg there" in refusal(encoder.encode, frame.assign(a="7 kg"), "t.csv")


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([f"{v} mg" if i % 2 else f"{v / 1000} g" for i, v in enumerate(x)], r"numbers of different units \(g, mg\)"),
        ([f"{v} mg" if i % 2 else f"{v}" for i, v in enumerate(x)], r"numbers of different units \(mg, none\)"),
        ([f"{100 + i}/{60 + i}" for i in range(N)], "two numbers in each cell, such as '100/60'"),
        ([f"{50 + v}, {8 + v}" for v in x], "two numbers in each cell"),
    ],
)
def test_numbers_that_are_not_read_are_told(cells, said):
    with pytest.warns(UserWarning, match=f"t.csv: column a has {said}"):
        assert choose_roles(pd.DataFrame({"a": cells, "x": x}), source_name="t.csv")["a"] != "numeric"


@pytest.mark.parametrize(
    ("cells", "days"),
    [
        (["2020Q3", "2020-Q4"], 92),
        (["Q3 2020", "Q4 2020"], 92),
        (["2021-05", "2021-06"], 31),
        (["05/2021", "06/2021"], 31),
        (["May 2021", "Jun 2021"], 31),
        (["2020-W52", "2020-W53"], 7),
        ([np.str_("2021-05-01"), np.str_("2021-05-04")], 3),
    ],
)
def test_months_quarters_and_weeks_are_dates(cells, days):
    frame = pd.DataFrame({"a": cells * 30, "x": x})
    encoder = fit_table(frame, choose_roles(frame, source_name="t.csv"))
    place = encoder.features.index("a elapsed")
    np.testing.assert_array_equal(np.asarray(encoder.encode(frame))[:2, place], [0, days])


@pytest.mark.parametrize(
    "cells",
    [[f"{200 + i}-{1000 + 7 * i}" for i in range(N)], [f"{i}-{i + 8}" for i in range(N)], ["1E", "2E", "3W"] * 20],
)
def test_telephones_pages_and_names_are_no_numbers(cells):
    assert form_of(pd.Series(cells)) is None


@pytest.mark.parametrize(
    "cells",
    [
        ["2x100", "1x100", "2x101"],  # two numbers, and no powers of 10
        ["5×10⁻", "6×10⁻"],
        ["1e400", "2e400"],
        ["1" * 400 + " kg", "5 kg"],
        ["5 (" + "1 " * 5000, "6 (1)"],
        [" " * 5000 + "x", "5 kg"],
    ],
)
def test_odd_cells_are_categories_at_once(cells):
    assert choose_roles(pd.DataFrame({"a": pd.Series(cells * 20, dtype=object)}))["a"] == "category"
