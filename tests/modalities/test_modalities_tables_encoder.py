"""Columns of tables: their roles, what each becomes, and that it is read back."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from table_toys import ROLES, ROWS, N, encoder, people

from properties import examples
from refusals import refusal
from viewsmith.data import labels
from viewsmith.data.labels import leaking_columns, warn_leaks
from viewsmith.modalities.frames import by_value
from viewsmith.modalities.tables import TableArray, roles, table_of
from viewsmith.modalities.tables.encoder import TableEncoder, fit_table
from viewsmith.modalities.tables.roles import choose_roles, describe_roles, infer_role
from viewsmith.modalities.tables.scaling import fit_scaler
from viewsmith.networks.scaling import Scaler

# --- roles


def test_every_role_is_inferred_and_printed():
    assert choose_roles(people()) == ROLES
    line = describe_roles(choose_roles(people(), {"height": "drop"}))
    assert line == (
        "8 columns: numeric age; category town, member; text address; date joined; "
        "left out id (identifier), source (constant), height"
    )


def test_long_columns_are_read_by_distinct_cells_and_most_formats_of_dates_by_few(monkeypatch):
    cells = pd.Series(["b", "a", "b", "c"], index=[3, 1, 0, 7])
    seen = []
    found = by_value(cells, lambda each: seen.extend(each) or each.str.upper())
    assert seen == ["b", "a", "c"] and found.equals(cells.str.upper())
    days, lengths, parse = pd.Series(["13.02.2020", "01.03.2021"] * roles.SAMPLE), [], roles.parse
    monkeypatch.setattr(roles, "parse", lambda text, form: lengths.append(len(text)) or parse(text, form))
    assert infer_role(days) == "date" and lengths.count(len(days)) == 1 and lengths.count(roles.SAMPLE) > 10


@pytest.mark.parametrize(
    ("values", "role"),
    [
        (ROWS % 3, "numeric"),  # few whole numbers are numbers
        (np.random.default_rng(0).permutation(N), "identifier"),
        (ROWS + 0.5, "numeric"),
        (ROWS * 3, "numeric"),  # does not count
        (np.delete(np.arange(N + 10), range(0, 50, 5)), "identifier"),  # rows of a split
        ([f"p{i}" for i in ROWS], "identifier"),
        ([f"the patient came on day {i} with a cough" for i in ROWS], "text"),
        ([f"p{i % 58}" for i in ROWS], "text"),
        ([f"p{i % 40}" for i in ROWS], "category"),
        (["a", *["b"] * (N - 1)], "category"),
        (["a"] * N, "constant"),
        ([None] * N, "constant"),
        ([None, *["a"] * (N - 1)], "category"),  # has a value or not
        (pd.Categorical(["a", "b"] * 30, categories=["a", "b", "c"]), "category"),
        (pd.array([True, None] * 30, dtype="boolean"), "category"),
        (pd.array([1, None] * 30, dtype="Int64"), "numeric"),
        (pd.array(["a", "b"] * 30, dtype="string"), "category"),
        (["2024-01-01", "2024-02-03"] * 30, "date"),
        (["01/31/2024", None] * 30, "date"),
        (["31.01.2024 10:30", "01.02.2024 11:00"] * 30, "date"),
        (["2024-01-01", "unknown"] * 30, "category"),
        ([1, 2.5, None] * 20, "numeric"),
        (pd.Series([True, False, None] * 20, dtype=object), "category"),
    ],
)
def test_the_role_of_a_column(values, role):
    assert infer_role(pd.Series(values, name="x")) == role


def test_molecules_are_text():
    molecules = ["C" * i + "O" for i in ROWS]
    assert infer_role(pd.Series(molecules, name="canonical_SMILES")) == "text"
    assert infer_role(pd.Series(molecules, name="compound")) == "identifier"


def test_names_of_identifiers_and_few_rows():
    numbers = np.random.default_rng(0).choice(10**6, N, replace=False)
    assert infer_role(pd.Series(numbers, name="PassengerId")) == "identifier"
    assert infer_role(pd.Series(numbers, name="rownames")) == "identifier"  # as R writes them
    assert infer_role(pd.Series([f"s{i}" for i in range(9)], name="sample")) == "identifier"
    assert infer_role(pd.Series(numbers, name="steps")) == "numeric"
    assert infer_role(pd.Series(range(19), name="x")) == "numeric"
    with warnings.catch_warnings(action="error"):  # infinity is refused where the values are checked
        assert infer_role(pd.Series([float("inf"), *range(N)], name="x")) == "numeric"


def test_codes_for_missing_values_are_named():
    answers = np.random.default_rng(0).integers(1, 6, (N, 3)).astype(float)
    frame = pd.DataFrame(answers, columns=["a", "b", "c"]).assign(age=np.arange(N) % 50 + 50.0)  # with 99 years
    with warnings.catch_warnings(action="error"):
        choose_roles(frame)
    frame.loc[3, ["a", "b"]], frame.loc[7, ["b", "c"]], frame.loc[9, "c"] = -9, 99, np.nan
    with pytest.warns(
        UserWarning, match="-9 and 99 may stand for missing values, such as -9 in a, b: they are read as"
    ):
        choose_roles(frame)


def test_a_column_of_many_values_that_few_rows_have_is_a_category():
    values = ["a", "b"] * 200 + [f"rare {i}" for i in range(41)]
    assert infer_role(pd.Series(values)) == "category"


@pytest.mark.parametrize(
    ("cells", "example"),
    [
        ([f"{i + 1},250 €" for i in range(60)], "'1,250 €'"),
        (["n/a", *(f"{i}%" for i in range(59))], "'0%'"),
        ([f"({i}.5)" if i % 2 else f"{i}.5" for i in range(60)], "'(1.5)'"),
    ],
)
def test_numbers_with_other_characters_are_named(cells, example):
    frame = pd.DataFrame({"share": cells, "x": np.linspace(0, 1, 60)})
    with pytest.warns(UserWarning) as said:
        role = choose_roles(frame, source_name="t.csv")["share"]
    assert role in ("identifier", "category", "text")
    taken, given = ("left out", "drop") if role == "identifier" else (f"read as {role}", role)
    assert [str(each.message) for each in said] == [
        f"t.csv: column share has numbers with other characters, such as {example}, and is {taken}: write plain "
        f"numbers of one unit to have them, or give the role (--columns share={given})"
    ]
    with warnings.catch_warnings(action="error"):
        assert choose_roles(frame, {"share": given})["share"] == given


@pytest.mark.parametrize(
    ("form", "marks"),
    [("{:.1f}%", "%"), ("{:.2f} %", "%"), ("€{:.0f}", "€"), ("{:.1f} mg/dL", "mg/dL"), ("${:,.2f}", "$")],
)
def test_numbers_with_the_same_characters_in_all_cells_are_numbers(form, marks):
    x = np.random.default_rng(0).normal(size=N) * 2000
    cells = pd.Series([form.format(value) for value in x], name="a")
    plain = np.array([float(re.sub(r"[^\d.-]", "", cell)) for cell in cells])
    cells[5] = np.nan
    frame = pd.DataFrame({"a": cells, "b": x})
    with pytest.warns(UserWarning, match="numbers are read from text in a") as said:
        roles = choose_roles(frame, source_name="t.csv")
    (line,) = said
    assert str(line.message).endswith("); --columns a=text keeps the text") and roles["a"] == "numeric"
    encoder = fit_table(frame, roles)
    again = TableEncoder.from_dict(encoder.as_dict())
    rows = np.asarray(again.encode(frame, "t.csv"))
    np.testing.assert_allclose(np.delete(rows[:, 0], 5), np.delete(plain, 5).astype(np.float32), rtol=1e-6)
    assert rows[5, 1] == 1 and np.array_equal(again.encode(frame.assign(a=plain), "t.csv")[:, 0], plain.astype("f4"))
    message = refusal(again.encode, frame.assign(a="5 kg"), "t.csv")
    assert f"the model was fitted on numbers with {marks} there" in message
    assert choose_roles(frame, {"a": "text"})["a"] == "text"


def test_numbers_of_rows_with_the_same_characters_are_no_features():
    frame = pd.DataFrame({"a": [f"{i}A" for i in range(N)], "x": np.linspace(0, 1, N)})
    with pytest.warns(UserWarning, match="column a has numbers with other characters, such as '0A', and is left out"):
        assert choose_roles(frame)["a"] == "identifier"


def test_a_column_of_lists_of_numbers_is_told():
    frame = pd.DataFrame({"pixels": [f"{i} 2 3.5 -4" for i in range(60)], "x": np.linspace(0, 1, 60)})
    with pytest.warns(UserWarning, match=r"t.csv: column pixels has lists of 4 numbers, and is left out: to use them"):
        choose_roles(frame, source_name="t.csv")
    with pytest.warns(UserWarning, match="column bbox has boxes, four numbers, and is left out") as said:
        choose_roles(frame.rename(columns={"pixels": "bbox"}), source_name="t.csv")
    assert len(said) == 1


@pytest.mark.parametrize(
    ("letters", "modality"), [("ACGT", "dna"), ("acgtn", "dna"), ("ACDEFGHIKLMNPQRSTVWY", "proteins")]
)
def test_a_column_of_sequences_is_told(letters, modality):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"s": ["".join(rng.choice([*letters], 20)) for _ in range(60)], "x": np.linspace(0, 1, 60)})
    with pytest.warns(UserWarning, match=rf"t.csv: column s has sequences \({modality}\), and is left out: --modality"):
        choose_roles(frame, source_name="t.csv")


@pytest.mark.parametrize("name", ["peptide", "junction_aa", "Modified Sequence"])
def test_a_column_that_is_named_so_may_have_short_sequences(name):
    rng = np.random.default_rng(0)
    cells = ["".join(rng.choice([*"ACDEFGHIKLMNPQRSTVWY"], 7 + i % 9)) for i in range(60)]
    frame = pd.DataFrame({name: cells, "x": np.linspace(0, 1, 60)})
    with pytest.warns(UserWarning, match=rf"t.csv: column {name} has sequences \(proteins\), and is left out"):
        choose_roles(frame, source_name="t.csv")
    with warnings.catch_warnings(action="error"):
        choose_roles(frame.rename(columns={name: "ticker"}))


@pytest.mark.parametrize(
    "cells",
    [
        [f"p{i}" for i in range(60)],  # an id
        [f"{'CATGCATTAGTAGACT'[: 3 + i % 9]}{'ACGT'[i % 4]}" for i in range(60)],  # short words
        [f"{i}{'abc'[i % 3]}" for i in range(60)],  # house numbers
        [f"0{i + 100}" for i in range(60)],  # a code with zeros
        [f"{i} elm street" for i in range(60)],
        [f"{i}-{i + 1}" for i in range(60)],
        [f"10.1.2.{i}" for i in range(60)],
        [f"192.168.1.{i + 100}" for i in range(60)],
        [f"1.234'{i + 100}" for i in range(60)],
        ["low", "12%", "high"] * 20,
    ],
)
def test_other_text_is_not_named(cells):
    with warnings.catch_warnings(action="error"):
        role = choose_roles(pd.DataFrame({"a": cells}))["a"]
    assert role != "numeric"


def test_numbers_but_for_three_cells():
    values = [str(i / 2) for i in range(N)]
    values[4], values[17], values[30] = "n.a.?", "12,5", "~3"
    message = refusal(infer_role, pd.Series(values, name="dose"), "t.csv")
    assert "dose is numbers but for 3 cells: 'n.a.?' in row 5, '12,5' in row 18, '~3' in row 31" in message
    assert "--columns dose=numeric" in message and "dose=category" in message
    several = refusal(choose_roles, pd.DataFrame({"dose": values, "x y": values, "z": range(N)}), source_name="t.csv")
    assert "2 columns are numbers but for some cells: dose, x y (as 'n.a.?' in row 5, " in several
    assert "--columns 'dose=numeric,x y=numeric'" in several
    frame = pd.DataFrame({"dose": values})
    with pytest.warns(UserWarning, match="dose has 3 cells that are not numbers, taken as missing: 'n.a"):
        fitted = encoder(frame, dose="numeric")
    assert fitted.encode(frame)[4, 1] == 1 and fitted.encode(frame)[4, 0] == np.float32(fitted.columns[0].median)


@pytest.mark.parametrize(
    ("frame", "roles", "part"),
    [
        ({"x": [1, 2]}, {"y": "drop"}, "no column 'y', given in columns; its columns are: x"),
        ({"x": [1, 2]}, {"x": "number"}, "expected 'numeric', 'category', 'text', 'date' or 'drop'"),
        ({"x": [[1], [2]]}, {}, "(--columns NAME=drop), or take it alone, as an array: numpy.stack(frame['x'])"),
        ({"x": [1j, 2j]}, {}, "column x is complex128"),
        ({"x": ["a"] * 30}, {}, "no feature, all columns are left out: x (constant)"),
        ({"x": ["a", "b"] * 30}, {"x": "date"}, "column x has no dates"),
        ({"x": ["a", "b"] * 30}, {"x": "numeric"}, "column x has no number"),
    ],
)
def test_columns_refused(frame, roles, part):
    table = pd.DataFrame(frame)
    assert part in refusal(lambda: fit_table(table, choose_roles(table, roles)))


def test_dates_that_may_be_of_either_order_are_a_warning():
    with pytest.warns(UserWarning, match="read as month/day"):
        assert infer_role(pd.Series(["01/02/2024", "03/04/2024"] * 30, name="day")) == "date"
    with warnings.catch_warnings(action="error"):
        assert infer_role(pd.Series(["01/02/2024", "13/04/2024"] * 30, name="day")) == "date"


# --- features


def test_features_of_every_role():
    fitted = encoder(people())
    x = fitted.encode(people())
    assert isinstance(x, TableArray) and x.dtype == np.float32 and np.isfinite(x).all()
    assert x.shape == (N, len(fitted.features)) and table_of(x[3:5]) is fitted and table_of(np.asarray(x)) is None
    names = fitted.features
    assert names[:2] == ["age", "age missing"]
    assert names[2:7] == ["town=Bari", "town=Oslo", "town=Rome", "town=other", "town missing"]
    assert names[7:10] == ["member=False", "member=True", "member=other"]
    assert "address axis 0" in names and names[-1] == "height"
    assert [name for name in names if name.startswith("joined")] == [
        f"joined {part}" for part in ("year", "month", "weekday", "hour", "elapsed")
    ]
    median = np.nanmedian(people()["age"])
    np.testing.assert_array_equal(x[0, :2], np.float32([median, 1]))
    np.testing.assert_array_equal(x[0, 2:7], [0, 0, 0, 0, 1])
    np.testing.assert_array_equal(x[1, 2:7], [0, 0, 1, 0, 0])
    day = people()["joined"][1]
    np.testing.assert_allclose(
        x[1, names.index("joined year") :][:5], [day.year, day.month, day.weekday(), day.hour, 37 + 1 / 24], rtol=1e-6
    )


def test_rare_values_and_unseen_ones_are_other():
    values = ["a"] * 30 + ["b"] * 28 + ["c", "d"]
    fitted = encoder(pd.DataFrame({"x": values, "y": np.arange(60) % 7.5}))
    assert fitted.columns[0].values == ("a", "b") and fitted.columns[0].rare == ("c", "d")
    later = pd.DataFrame({"x": ["c", "new", "b", None], "y": [1.0, 2, 3, 4]})
    with pytest.warns(UserWarning, match="column x has 1 missing value, and the training rows had none"):
        x = fitted.encode(later)
    np.testing.assert_array_equal(x[:, :3], [[0, 0, 1], [0, 0, 1], [0, 1, 0], [0, 0, 1]])
    with pytest.warns(UserWarning, match="column x has 1 value that the model does not know, taken as other: new$"):
        fitted.warn_unseen(later, "t")


@pytest.mark.parametrize("rows", [slice(0, 4), slice(0, 1), slice(1, 3)])
def test_unseen_values_are_other_whatever_the_rows_beside_them(rows):
    fitted = encoder(people())
    later = people().assign(town=np.array(["Pisa", "1.5", "Lund", "Oslo"])[ROWS % 4])[rows]
    x = np.asarray(fitted.encode(later))
    towns = [name for name in fitted.features if name.startswith("town")]
    start = fitted.features.index(towns[0])
    others = np.flatnonzero((later["town"] != "Oslo").to_numpy())
    np.testing.assert_array_equal(x[others, start + towns.index("town=other")], 1)
    assert all(x[others, start : start + len(towns)].sum(axis=1) == 1)
    match = "taken as other: " if len(later) == 4 else r"column town has none .* known \('Bari', 'Oslo', 'Rome'\), but"
    with pytest.warns(UserWarning, match=match):
        fitted.warn_unseen(later, "t")


def test_numbers_for_a_category_of_numbers():
    fitted = encoder(pd.DataFrame({"zip": ["10", "20", "30"] * 20, "x": ROWS / 7}), zip="category")
    x = fitted.encode(pd.DataFrame({"zip": [20, 40], "x": [1.0, 2.0]}))
    np.testing.assert_array_equal(np.asarray(x)[:, :4], [[0, 1, 0, 0], [0, 0, 0, 1]])


def test_text_of_like_spelling_is_near():
    words = ["strawberry", "raspberry", "blueberry", "hammer", "screwdriver"]
    column = [f"{words[i % 5]} {i % 41}" for i in range(410)]
    fitted = encoder(pd.DataFrame({"what": column}))
    later = pd.DataFrame({"what": ["strawberries 3", "strawbery 3", "hamer 3"]})
    x = np.asarray(fitted.encode(later))
    assert np.linalg.norm(x[0] - x[1]) < 0.5 * np.linalg.norm(x[0] - x[2])


def test_documents_are_told_by_their_words():
    kinds = [["goal", "team", "league", "striker"], ["gaol", "meat", "eagles", "trikes"]]  # of the same letters
    rng = np.random.default_rng(0)

    def documents(n, short=False):
        return [" ".join(rng.choice(kinds[i % 2] + ["and", "the"], 5 if short else 30)) for i in range(n)]

    fitted = encoder(pd.DataFrame({"report": documents(90), "note": documents(90, short=True)}), note="text")
    assert [(column.name, column.words) for column in fitted.columns] == [("report", True), ("note", False)]
    later = pd.DataFrame({"report": documents(12), "note": documents(12, short=True)})
    x = np.asarray(fitted.encode(later))[:, : fitted.columns[0].components]
    apart = np.linalg.norm(x[::2].mean(0) - x[1::2].mean(0))
    assert apart > 2 * np.linalg.norm(x[::2] - x[::2].mean(0), axis=1).mean()
    again = TableEncoder.from_dict(json.loads(json.dumps(fitted.as_dict())))
    again.arrays().load_state_dict(fitted.arrays().state_dict())
    np.testing.assert_array_equal(again.encode(later), fitted.encode(later))


@pytest.mark.parametrize("letters", ["ACDEFGHI", "01234567", "😀😃😄😁🙂🙃😉😊"])
def test_many_single_letters_are_no_words(letters):
    texts = [" ".join(letters[i * j % 8] for j in range(30 + i)) for i in range(60)]
    x = np.asarray(encoder(pd.DataFrame({"note": texts}), note="text").encode(pd.DataFrame({"note": texts})))
    assert x.std(0).max() > 0.01


# --- later tables


def test_columns_come_by_name_in_any_order():
    fitted = encoder(people())
    x = fitted.encode(people())
    with pytest.warns(UserWarning, match="1 column that the model does not know, ignored: more"):
        again = fitted.encode(people()[list(people())[::-1]].assign(more=1).drop(columns=["id", "source"]))
    np.testing.assert_array_equal(again, x)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda t: t.drop(columns=["age", "town"]), "lacks 2 columns that the model was fitted on: age, town"),
        (lambda t: t.assign(age="old"), "column age has 60 cells that are not numbers: 'old' in row 1"),
        (lambda t: t.assign(age=t["joined"]), "column age has 60 cells that are not numbers"),
        (lambda t: t.assign(town=ROWS * 1.5), "column town has numbers (float64), and the model was fitted on text"),
        (lambda t: t.assign(address=ROWS), "column address has numbers (int64), and the model was fitted on text"),
        (lambda t: t.assign(joined=ROWS), "column joined has numbers (int64), and the model was fitted on dates"),
        (lambda t: t.assign(joined="soon"), "column joined has 60 cells that are not dates"),
        (lambda t: t.assign(height=np.inf), "60 infinite values (infinity) in 1 column: height"),
    ],
)
def test_later_tables_refused(change, part):
    assert part in refusal(encoder(people()).encode, change(people()), "new.csv")


# --- back to values


def assert_same(table: pd.DataFrame, back: pd.DataFrame) -> None:
    for name in back:
        for given_value, value in zip(table[name], back[name], strict=True):
            both_missing = pd.isna(given_value) and pd.isna(value)
            assert both_missing or given_value == value, (name, given_value, value)


def test_values_are_read_back():
    fitted = encoder(people())
    x = fitted.encode(people())
    back = fitted.decode(np.asarray(x), x.known)
    assert list(back) == ["age", "town", "member", "address", "joined", "height"]
    assert_same(people(), back)
    noisy = np.asarray(x) + 0.2 * np.random.default_rng(0).normal(size=x.shape).astype(np.float32)
    assert set(fitted.decode(noisy, x.known)["town"].dropna()) <= {"Bari", "Oslo", "Rome", "other"}


def test_scaling_and_back_keeps_values():
    fitted = encoder(people())
    x = fitted.encode(people())
    layer = Scaler(x.shape[1])
    fit_scaler(layer, torch.from_numpy(np.asarray(x)), "auto", fitted)
    back = layer.inverse(layer(torch.from_numpy(np.asarray(x)))).numpy()
    assert_same(people(), fitted.decode(back, x.known))


CELLS = {
    "numbers": st.none() | st.integers(-(10**6), 10**6) | st.floats(-1e6, 1e6).map(lambda v: round(v, 3)),
    "texts": st.none() | st.text("abcdeäß ,;\"'=", max_size=4),
    "booleans": st.none() | st.booleans(),
}
COLUMNS = st.integers(2, 30).flatmap(
    lambda n: st.fixed_dictionaries({kind: st.lists(cells, min_size=n, max_size=n) for kind, cells in CELLS.items()})
)


@examples(60)
@given(table=COLUMNS)
def test_any_table_is_encoded_and_read_back(table):
    frame = pd.DataFrame({kind: pd.Series(values, dtype=object) for kind, values in table.items()})
    roles = choose_roles(frame)
    if all(role in ("constant", "identifier") for role in roles.values()):
        return
    fitted = fit_table(frame, roles)
    x = fitted.encode(frame)
    assert x.shape == (len(frame), len(fitted.features)) and np.isfinite(x).all()
    back = fitted.decode(np.asarray(x), x.known)
    for column in fitted.columns:
        if column.role == "numeric":
            expected = frame[column.name].astype(float).to_numpy()
            np.testing.assert_allclose(back[column.name].to_numpy(float), expected, rtol=1e-6, atol=1e-6)
        elif column.role == "category":
            kept = frame[column.name].astype(str).isin(column.values).to_numpy() & frame[column.name].notna().to_numpy()
            assert (back[column.name][kept] == frame[column.name][kept]).all()


def test_saved_and_loaded():
    fitted = encoder(people())
    plain = json.loads(json.dumps(fitted.as_dict()))
    again = TableEncoder.from_dict(plain)
    again.arrays().load_state_dict(fitted.arrays().state_dict())
    np.testing.assert_array_equal(again.encode(people()), fitted.encode(people()))
    assert again.as_dict() == plain and again.features == fitted.features


# --- leaks


def test_a_column_that_determines_the_label():
    frame = people().assign(label=np.array(["u", "v"])[ROWS % 2])
    assert leaking_columns(frame.drop(columns="label"), frame["label"].to_numpy()) == ["member"]
    with pytest.warns(UserWarning, match="column member says the label label .* --columns member=drop"):
        warn_leaks(frame.drop(columns="label"), frame["label"].to_numpy(), "label", "t.csv")
    assert leaking_columns(frame[["town", "height", "id"]], frame["label"].to_numpy()) == []
    assert leaking_columns(frame[["member"]], np.array(["u"] * N)) == []


@pytest.mark.parametrize("one", ["pure", "twice", "half", None])
def test_some_rows_tell_the_columns_that_do_not_say_the_label(one, monkeypatch):
    n, rng = 250_000, np.random.default_rng(3)
    y = rng.integers(0, 4, n)
    columns = {"unique": rng.normal(size=n), "two": y // 2, "parity": y % 2, "gap": np.where(y == 1, np.nan, 1.0)}
    columns |= {"nearly": np.where(rng.random(n) < 0.01, rng.integers(0, 40, n), 10 * y + rng.integers(0, 9, n))}
    columns |= {
        "once": np.where(rng.random(n) < 0.3, 0, np.arange(n)),
        "text": rng.choice(["a", "b", "c", "d", "e"], n),
    }
    more = {
        "pure": np.where(rng.random(n) < 5e-4, 3, 100 * y + rng.integers(0, 90, n)),
        "twice": (np.argsort(np.argsort(y, kind="stable")) // 3).astype(str),  # of three rows
        "half": np.argsort(np.argsort(y, kind="stable")) // 2,
    }
    frame = pd.DataFrame(columns | ({one: more[one]} if one else {}))
    found = leaking_columns(frame, y)
    monkeypatch.setattr(labels, "SAMPLED", n)
    assert found == leaking_columns(frame, y)
    assert found == ([one] if one in ("pure", "twice", "half") else ["two", "parity", "gap"])


@pytest.mark.parametrize("equal", [1, 3])
def test_a_column_of_different_values_determines_no_label(equal):
    values = np.random.default_rng(0).normal(size=N)
    values[:equal] = values[0]
    label = np.r_[[0] * equal, 1 : N - equal + 1]  # nearly as many labels as rows
    frame = pd.DataFrame({"a": values, "b": values * 2})
    assert leaking_columns(frame, label) == [] and leaking_columns(frame[["a"]], ROWS % 2) == []


def test_columns_that_determine_few_labels_by_chance_are_not_named():
    rng, label = np.random.default_rng(0), np.arange(8) % 2
    genes = pd.DataFrame(rng.integers(0, 2, (8, 2000))).add_prefix("ENSG0000000")
    same = (genes.to_numpy() == label[:, None]).all(0)
    assert same.any() and leaking_columns(genes, label) == leaking_columns(genes.loc[:, same].iloc[:, :1], label) == []
    label = np.arange(40) % 2
    assert leaking_columns(pd.DataFrame(rng.integers(0, 2, (40, 2000))).assign(same=label), label) == ["same"]


def test_columns_that_determine_the_label_together():
    frame, kind = people()[["town", "height"]], ROWS % 3
    for i in range(3):
        frame[f"is {i}"] = (kind == i).astype(int)
    label = np.array(["u", "v", "w"])[kind]
    assert leaking_columns(frame, label) == ["is 0", "is 1", "is 2"]
    with pytest.warns(UserWarning, match="columns is 0, is 1, is 2 say the label"):
        warn_leaks(frame, label, "label", "t.csv")
    assert leaking_columns(frame.drop(columns=["is 0", "is 2"]), label) == []
    assert leaking_columns(frame[:0], label[:0]) == []


@pytest.mark.parametrize("form", ["%d.%m.%Y", "%Y-%m-%d", None])
def test_other_dates_are_refused_with_an_example(form):
    days = pd.Series(pd.date_range("2021-03-14", periods=N, freq="D"), name="day")
    fitted = encoder((days if form is None else days.dt.strftime(form)).to_frame())
    example = days[(N - 1) // 2].strftime(form or "%Y-%m-%d")
    later = pd.DataFrame({"day": days.dt.strftime("%m/%d/%Y")})
    message = refusal(fitted.encode, later)
    assert "are not dates as in the training rows: '03/14/2021' in row 1" in message
    assert message.endswith(f"expected dates such as {example!r}")


def test_dates_may_be_more_than_292_years_apart():
    frame = pd.DataFrame({"born": np.array(["1500-01-01", "2300-06-01", "1950-03-02"] * 20, "M8[us]")})
    found = encoder(frame, born="date")
    x = found.encode(frame, "people")
    elapsed = x[:3, found.features.index("born elapsed")]
    assert elapsed.tolist() == pytest.approx([0, 292345, 164419])
    assert str(found.decode(x)["born"].iloc[2]) == "1950-03-02 00:00:00"


def test_numbers_of_days_are_dates():
    days = pd.Series(pd.date_range("2021-03-14", periods=N, freq="D"), name="day")
    numbers = days.dt.strftime("%Y%m%d").astype(int)
    fitted = encoder(numbers.to_frame())
    assert fitted.columns[0].role == "date"
    expected = fitted.encode(numbers.to_frame(), "the table")
    assert np.ptp(expected) > 0
    for other in (numbers.astype(str), numbers.astype(float)):
        assert np.array_equal(fitted.encode(other.to_frame(), "the table"), expected)


def test_roles_that_are_found_together_are_those_of_each_column_alone():
    rng, n = np.random.default_rng(0), 60
    columns = {
        "fraction": rng.random(n),
        "gap": np.where(np.arange(n) == 3, np.nan, rng.random(n)),
        "counts": rng.poisson(3, n),
        "counts with gaps": np.where(np.arange(n) == 3, np.nan, rng.poisson(3, n)),
        "infinite": np.where(np.arange(n) == 3, np.inf, np.arange(n)),
        "rows": np.arange(n),
        "far apart": 1000 * np.arange(n),
        "days": 20000101 + np.arange(n) % 20,
        "same": np.full(n, 0.5),
        "none": np.full(n, np.nan),
        "flag": rng.random(n) < 0.5,
        "word": ["a", "b"] * (n // 2),
    }
    for rows in (n, 10):
        frame = pd.DataFrame(columns).head(rows)
        found = roles._surely_numeric(frame)
        assert {"fraction", "gap", "counts", "infinite"} <= set(found)
        assert all(infer_role(frame[name]) == "numeric" for name in found)
        assert choose_roles(frame) == {name: infer_role(frame[name]) for name in frame}
    assert roles._surely_numeric(frame.head(0)) == []
