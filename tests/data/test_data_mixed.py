"""Tables of mixed columns from files: roles, the split, later files, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from people import N
from people import people as people_table
from refusals import refusal
from viewsmith.data import load_dataset
from viewsmith.modalities.tables import table_of


def people() -> pd.DataFrame:
    return people_table("id", "age", "town", "zip", "kind")


def test_works_without_options(save):
    data = load_dataset(save(people()), label="kind")
    table = table_of(data.x)
    assert table.roles == {"id": "identifier", "age": "numeric", "town": "category", "zip": "category"}
    assert data.feature_names == table.features and "zip=0150" in table.features
    assert data.modality == "vectors" and data.split == "stratified" and data.y.tolist() == people()["kind"].tolist()
    assert table_of(data.x_train) is table and data.x_train.shape == (48, data.n_features)
    assert not np.isnan(data.x).any()


@pytest.mark.parametrize("given", [{}, {"split_seed": 1}, {"label": None, "split_seed": 2}, {"gaps": 20}])
def test_the_encoder_is_fitted_to_the_train_rows(save, given):
    frame, options = people(), {"label": "kind"} | given
    frame.loc[: options.pop("gaps", 0) - 1, "kind"] = None
    if options["label"] is None:
        frame = frame.drop(columns="kind")
    data = load_dataset(save(frame), **options)
    assert len(data.test_index) >= 8
    median = table_of(data.x).columns[0].median
    assert median == frame["age"].iloc[data.train_index].median()
    changed = frame.copy()
    changed.loc[data.test_index, ["age", "town"]] = [1000.0, "Lund"]
    assert table_of(load_dataset(save(changed), **options).x).as_dict() == table_of(data.x).as_dict()


def test_plain_numbers_stay_plain(save):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(N, 3)).astype(np.float32), columns=list("abc"))
    data = load_dataset(save(frame.assign(note="text")), columns={"note": "drop"})
    assert table_of(data.x) is None and type(data.x) is np.ndarray and data.feature_names == list("abc")
    np.testing.assert_allclose(data.x, frame, rtol=1e-6)


def test_given_roles(save):
    path = save(people())
    data = load_dataset(path, columns={"town": "drop", "zip": "drop", "kind": "drop", "age": "category"})
    assert {c.name: c.role for c in table_of(data.x).columns} == {"age": "category"}
    assert "'twon'" in refusal(load_dataset, path, columns={"twon": "drop"})
    assert "expected 'numeric'" in refusal(load_dataset, path, columns={"town": "word"})
    assert "both drop and text" in refusal(load_dataset, path, drop=["town"], columns={"town": "text"})
    assert "is the label and has a role" in refusal(load_dataset, path, label="kind", columns={"kind": "drop"})


def test_strict_refuses_what_is_not_a_number(save):
    path = save(people())
    assert "2 columns that are not numbers: town" in refusal(load_dataset, path, drop=["zip"], strict=True)
    message = refusal(load_dataset, path, drop=["town", "zip", "kind"], strict=True)
    assert "9 missing values (NaN) in 1 column: age" in message


def test_a_feature_of_a_mixed_table_is_not_the_label_of_a_later_one(save):
    data = load_dataset(save(people()))
    later = {"schema": data.schema, "table": table_of(data.x), "label": "town"}
    assert "so it cannot be the label: fit a run with --label town" in refusal(load_dataset, save(people()), **later)


@pytest.mark.filterwarnings("error:.*missing value")
def test_median_without_an_indicator(save):
    data = load_dataset(save(people()), label="kind", impute="median")
    assert data.feature_names[0] == "age" and "age missing" not in data.feature_names
    assert not np.isnan(data.x).any()


def test_a_later_file(save, recwarn):
    data = load_dataset(save(people()), label="kind")
    table = table_of(data.x)
    later = people()[["zip", "kind", "age", "town", "id"]]
    again = load_dataset(save(later, "later"), schema=data.schema, table=table)
    np.testing.assert_array_equal(again.x, data.x)
    np.testing.assert_array_equal(again.test_index, data.test_index)
    assert not recwarn.list
    unlabeled = load_dataset(save(later.drop(columns="kind")[:1], "one"), schema=data.schema, table=table)
    assert unlabeled.x.shape == (1, data.n_features) and unlabeled.y is None
    with pytest.warns(UserWarning, match="town has 1 value that the model does not know, taken as other: Lund"):
        new = later[:3].assign(town=["Lund", "Oslo", "Rome"])
        load_dataset(save(new, "new"), schema=data.schema | {"label": None}, table=table)
    with pytest.warns(UserWarning, match=r"town has none of the values that are known .*, but 'Lund', 'Pisa': all are"):
        new = later[:2].assign(town=["Lund", "Pisa"])
        assert len(load_dataset(save(new, "new"), schema=data.schema | {"label": None}, table=table).x) == 2
    assert "give it, too" in refusal(load_dataset, save(later), schema=data.schema)
    assert "lacks 1 column" in refusal(load_dataset, save(later.drop(columns="age")), schema=data.schema, table=table)
    assert "no column 'sort'" in refusal(load_dataset, save(later), schema=data.schema, table=table, label="sort")


def test_a_label_that_leaks(save):
    frame = people().assign(same=np.where(people()["kind"] == "x", "yes", "no"))
    with pytest.warns(UserWarning, match="column same says the label kind"):
        load_dataset(save(frame), label="kind")


def test_codes_with_leading_zeros_are_text(csv):
    data = load_dataset(csv("code,x\n" + "".join(f"{i % 3:03d},{i / 2}\n" for i in range(N))))
    assert data.feature_names == ["code=000", "code=001", "code=002", "code=other", "x"]


def test_mixed_encodings(csv):
    lines = [f"caf\u00e9 {i % 5},{i / 2}\n" for i in range(N)]
    good = b"name,x\n" + "".join(lines).encode()
    assert load_dataset(csv(good)).x.shape[0] == N
    mixed = b"name,x\n" + b"".join(line.encode("latin-1" if i in (7, 9) else "utf-8") for i, line in enumerate(lines))
    message = refusal(load_dataset, csv(mixed))
    assert "table.csv: line 9 is not UTF-8, as 2 lines of 61 (near 'caf\u00e9 2" in message
    assert "give its encoding (--encoding latin-1), or correct these lines if encodings are mixed" in message


def test_equal_names(csv):
    assert "equal names: a" in refusal(load_dataset, csv("a,b,a\n1,x,3\n"))


def test_roles_are_for_tables(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((3, 2)))
    assert "not a table" in refusal(load_dataset, tmp_path / "a.npy", columns={"a": "drop"})


# ---- quotes that are not closed -------------------------------------------------------------------------------------


def with_quotes(*rows: int) -> str:
    lines = [f'{i}.5,"abc' if i in rows else f"{i * 7 % 13}.5,k{i % 3}" for i in range(1, 101)]
    return "a,c\n" + "\n".join(lines) + "\n"


@pytest.mark.parametrize("rows", [(20, 60), (20, 30), (1, 11)])
def test_a_quote_that_is_not_closed_is_said(csv, rows):
    match = f"column c has a cell of {rows[1] - rows[0] + 1} lines, in row {rows[0]} .*a quote may not be closed"
    with pytest.warns(UserWarning, match=match):
        data = load_dataset(csv(with_quotes(*rows)))
    assert len(data.x) == 100 - rows[1] + rows[0]
    with pytest.warns(UserWarning, match=match):
        load_dataset(csv(with_quotes(*rows)), schema=data.schema, table=table_of(data.x))


@pytest.mark.filterwarnings("error:.*quote")
def test_cells_of_some_lines_are_not_suspect(csv):
    assert len(load_dataset(csv(with_quotes(20, 29))).x) == 91
    assert len(load_dataset(csv(with_quotes())).x) == 100


def test_a_quote_that_is_not_closed_in_the_header_is_said(csv):
    text = with_quotes(60).replace("a,c", 'a,"c')
    with pytest.warns(UserWarning, match="a column name of 61 lines; a quote may not be closed"):
        load_dataset(csv(text))


# ---- the separator line of Excel ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "name"),
    [("sep=;\n", "t.csv"), ("\ufeffsep=;\r\n", "t.tsv"), ('"sep=;"\n', "t.csv"), ("SEP=;\n", "t.tsv")],
)
def test_the_separator_line_of_excel(csv, first, name):
    rows = "".join(f"{i}_{i % 3};0{i % 3};{i / 4};{i % 2}\n" for i in range(N))
    expected = load_dataset(csv("name;code;x;kind\n" + rows, "plain.csv"), label="kind")
    with pytest.warns(UserWarning, match="columns are separated by ';'"):
        found = load_dataset(csv(first + "name;code;x;kind\n" + rows, name), label="kind")
    np.testing.assert_array_equal(found.x, expected.x)
    assert found.feature_names == expected.feature_names and "code=00" in found.feature_names
    later = load_dataset(csv(first + "name;code;x;kind\n" + rows, name), schema=found.schema, table=table_of(found.x))
    np.testing.assert_array_equal(later.x, expected.x)


@pytest.mark.filterwarnings("error:.*separated")
def test_a_separator_line_that_says_what_is_usual(csv):
    data = load_dataset(csv("sep=,\na,b\n" + "".join(f"{i / 4},{i % 7 / 2}\n" for i in range(N))))
    assert data.feature_names == ["a", "b"] and len(data.x) == N
    assert "is empty" in refusal(load_dataset, csv("sep=,\n"))
