"""Tables beside text and parquet: Excel, feather, lines of JSON, SQLite, other encodings, two tables in one file."""

import json
import re
import sqlite3
import zipfile

import numpy as np
import pandas as pd
import pytest

from refusals import refusal
from viewsmith.data import load_dataset

rng = np.random.default_rng(0)
FRAME = pd.DataFrame({"a": rng.normal(size=20), "b": rng.normal(size=20), "kind": ["u", "v"] * 10})


def same(data):
    """Whether a table is `FRAME`, with its kinds as labels."""
    np.testing.assert_allclose(data.x, FRAME[["a", "b"]], rtol=1e-6)
    return data.feature_names == ["a", "b"] and data.y.tolist() == FRAME["kind"].tolist()


def test_a_sheet_of_a_workbook(tmp_path):
    pytest.importorskip("openpyxl")
    path = tmp_path / "a.xlsx"
    with pd.ExcelWriter(path) as book:
        FRAME.to_excel(book, sheet_name="cells", index=False)
        pd.DataFrame().to_excel(book, sheet_name="Sheet2")
    assert same(load_dataset(path, label="kind"))
    with pd.ExcelWriter(path) as book:
        FRAME.to_excel(book, sheet_name="my cells", index=False)
        FRAME[["a"]].to_excel(book, sheet_name="others", index=False)
    assert same(load_dataset(f"{path}::my cells", label="kind"))
    assert f"the sheets my cells, others, expected one: give {path}::my cells" in refusal(load_dataset, path)
    assert "has no sheet 'other'; did you mean others?" in refusal(load_dataset, f"{path}::other")
    assert "x.xlsx does not exist" in refusal(load_dataset, tmp_path / "x.xlsx")


def test_two_tables_in_a_sheet(tmp_path):
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter(tmp_path / "a.xlsx") as book:
        FRAME.to_excel(book, sheet_name="s", index=False)
        FRAME.to_excel(book, sheet_name="s", index=False, startrow=24)
    assert "line 22 of the sheet is empty and others follow" in refusal(load_dataset, tmp_path / "a.xlsx")


def test_feather_and_lines_of_json(tmp_path):
    FRAME.to_feather(tmp_path / "a.feather")
    FRAME.to_json(tmp_path / "a.jsonl", orient="records", lines=True, double_precision=15)
    for name in ("a.feather", "a.jsonl"):
        assert same(load_dataset(tmp_path / name, label="kind"))
    (tmp_path / "b.jsonl").write_text('{"a": 1.5, "c": [1]}\n{"a": 2.5, "c": [2]}\n{"a": 3.5, "c": [3]}\n')
    assert "c have lists or objects" in refusal(load_dataset, tmp_path / "b.jsonl")
    rows = [{"a": i, "of": {"b": {"c": i / 2}, "d": "uv"[i % 2]}} for i in range(12)]
    texts = ["\n".join(map(json.dumps, rows)), json.dumps(rows), json.dumps({"n": 12, "results": rows})]
    for name, text in zip(("n.jsonl", "n.json", "of.json"), texts, strict=True):  # objects within objects
        (tmp_path / name).write_text(text)
        data = load_dataset(tmp_path / name, label="of.d")
        assert data.feature_names == ["a", "of.b.c"] and data.x[:, 1].tolist() == [i / 2 for i in range(12)]
    for found in ({"images": rows, "annotations": rows}, {"a": 1}, 5):
        (tmp_path / "no.json").write_text(json.dumps(found))
        assert "expected one, a row each (orient=" in refusal(load_dataset, tmp_path / "no.json")
    (tmp_path / "no.json").write_text(json.dumps([row | {"of.d": 1} for row in rows]))
    assert "columns with equal names: of.d" in refusal(load_dataset, tmp_path / "no.json")
    (tmp_path / "one.json").write_text(json.dumps(rows[3:4]))  # of a run
    assert load_dataset(tmp_path / "one.json", schema=data.schema).x.tolist() == [[3, 1.5]]
    assert load_dataset(tmp_path / "b.jsonl", drop=["c"]).x.shape == (3, 1)
    for name in ("c.feather", "c.jsonl", "c.db"):
        (tmp_path / name).write_bytes(b"nothing")
        assert f"cannot read {tmp_path / name}" in refusal(load_dataset, tmp_path / name)


def test_a_table_of_sqlite(tmp_path):
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as db:
        FRAME.to_sql("my cells", db, index=False)
    assert same(load_dataset(path, label="kind"))
    with sqlite3.connect(path) as db:
        db.execute('CREATE VIEW few AS SELECT a, b, kind FROM "my cells" LIMIT 12')
    assert load_dataset(f"{path}::few", label="kind").x.shape == (12, 2)
    assert f"has the tables few, my cells, expected one: give {path}::few" in refusal(load_dataset, path)
    assert "has no table 'fews'; did you mean few?" in refusal(load_dataset, f"{path}::fews")


@pytest.mark.parametrize(("encoding", "given"), [("cp1252", "cp1252"), ("utf-16", None)])
def test_encodings_are_given_or_marked_and_kept_for_a_run(tmp_path, encoding, given):
    text = "größe;alter\n" + "".join(f"{i},5;{i * i}\n" for i in range(12))
    (tmp_path / "a.csv").write_bytes(text.encode(encoding))
    with pytest.warns(UserWarning, match="separated by ';'"):
        data = load_dataset(tmp_path / "a.csv", encoding=given)
    assert data.feature_names == ["größe", "alter"] and data.x[3].tolist() == [3.5, 9.0]
    later = tmp_path / "b.csv"
    for written in (encoding, "utf-8"):
        later.write_bytes(text.encode(written))
        with pytest.warns(UserWarning, match="separated by ';'"):
            assert load_dataset(later, schema=data.schema).feature_names == data.feature_names


def test_a_wrong_encoding_is_said(tmp_path):
    (tmp_path / "a.csv").write_bytes("größe,b\n1,2\n3,4\n".encode("cp1252"))
    assert "line 1 is not UTF-8" in (message := refusal(load_dataset, tmp_path / "a.csv"))
    assert "--encoding latin-1" in message
    assert "encoding is 'nothing', expected one of Python" in refusal(
        load_dataset, tmp_path / "a.csv", encoding="nothing"
    )
    assert "cannot read" in refusal(load_dataset, tmp_path / "a.csv", encoding="ascii")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a,b\n1,2\n3,4\n\nname,size\n5,6\n", "line 5 begins another table after an empty line"),
        ("a,b\n1,2\n3,4\n,\n,\nname,size\n5,6\n", "line 6 begins another table"),
        ("a,b\n1,2\n3,4\na,b\n5,6\n", "row 3 (counted from 1, without the header) repeats the header"),
    ],
)
def test_two_tables_in_a_text_file(tmp_path, text, part):
    (tmp_path / "a.csv").write_text(text)
    assert part in refusal(load_dataset, tmp_path / "a.csv")


def test_empty_lines_between_rows_are_no_other_table(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n\n3,4\n5,6\n\n")
    assert load_dataset(tmp_path / "a.csv").x.tolist() == [[1, 2], [3, 4], [5, 6]]


def test_tables_of_stata(tmp_path, recwarn):
    frame = pd.DataFrame({"age": [20.0, 31.0, -9.0, 44.0], "smoker": [0, 1, 1, 0], "rest": [1.5, 2.0, np.nan, 0.5]})
    labels = {"age": {-9: "refused"}, "smoker": {0: "no", 1: "yes"}}
    frame = pd.concat([frame.astype({"age": "int16"})] * 5)
    frame.to_stata(tmp_path / "a.dta", write_index=False, value_labels=labels)
    data = load_dataset(tmp_path / "a.dta", label="smoker")
    assert data.y.tolist() == ["no", "yes", "yes", "no"] * 5 and data.x[:4, 0].tolist() == [20, 31, -9, 44]
    assert any("only some values have labels, and all are read as numbers: age" in str(w.message) for w in recwarn)


def test_columns_of_stata_of_which_one_has_a_label_twice(tmp_path):
    kinds = {"smoker": pd.Categorical(["no", "yes"] * 10), "work": pd.Categorical(["other1", "other2"] * 10)}
    pd.DataFrame(kinds | {"age": rng.normal(size=20)}).to_stata(tmp_path / "a.dta", write_index=False)
    (tmp_path / "a.dta").write_bytes((tmp_path / "a.dta").read_bytes().replace(b"other2", b"other1"))
    with pytest.warns(UserWarning, match="several values have the same label, and all are read as numbers: work"):
        data = load_dataset(tmp_path / "a.dta", label="smoker")
    assert data.y.tolist() == ["no", "yes"] * 10 and data.feature_names == ["work", "age"]


def test_a_zero_of_sas_is_zero(tmp_path, monkeypatch):
    (tmp_path / "a.xpt").write_bytes(b"")
    frame = pd.DataFrame({"sex": [5.397605e-79, 1] * 9, "age": rng.normal(size=18)})
    monkeypatch.setattr(pd, "read_sas", lambda path, encoding: frame)
    assert load_dataset(tmp_path / "a.xpt", label="sex").y.tolist() == [0, 1] * 9


def test_sas_for_transport_of_version_8_has_the_line_that_converts_it(tmp_path):
    (tmp_path / "a.xpt").write_bytes(b"HEADER RECORD*******LIBV8   HEADER RECORD!!!!!!!".ljust(80, b"0"))
    message = refusal(load_dataset, tmp_path / "a.xpt")
    assert "for transport, version 8, which is not read yet" in message and "pyreadstat.read_xport" in message


@pytest.fixture
def sheet(tmp_path):
    """Write rows of cells as a sheet of a workbook."""

    def write(rows):
        pd.DataFrame(rows).to_excel(tmp_path / "s.xlsx", header=False, index=False)
        return tmp_path / "s.xlsx"

    return write


ROWS = [["uv"[i % 2], *np.random.default_rng(i).normal(size=4)] for i in range(20)]


@pytest.mark.parametrize("above", [[], [["Table S1"], [None]]])
@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        (
            ["kind", "size", None, None, "weight"],
            [None, "a", "b", "c", "d"],
            ["size a", "size b", "size c", "weight d"],
        ),
        ([None, "old", "old", "new", "new"], ["kind", "a", "b", "a", "b"], ["old a", "old b", "new a", "new b"]),
    ],
)
def test_names_of_columns_in_two_lines_are_joined(sheet, capsys, first, second, names, above):
    rows = [list(row) for row in ROWS]
    rows[3][0] = None
    data = load_dataset(sheet([*above, first, second, *rows]), label="kind", few_labels=True)
    assert data.feature_names == names and data.y[:5].tolist() == ["u", "v", "u", "", "u"]
    np.testing.assert_allclose(data.x, np.array([row[1:] for row in ROWS]), rtol=1e-6)
    assert "the names of the columns are in two lines, and are joined: kind, " in capsys.readouterr().err


def test_one_line_of_names_is_not_joined(sheet):
    names = ["kind", "a", "b", "c", "d"]
    data = load_dataset(sheet([names, [None, "mm", "mm", "g", "g"], *ROWS]), label="kind")  # units
    assert data.feature_names == names[1:] and len(data.x) == 20
    texts = [[*row[:4], None, "done"] for row in ROWS]
    data = load_dataset(sheet([["kind", "a", "b", "c", None, "note"], *texts]), label="kind", drop=["note"])
    assert data.feature_names == ["a", "b", "c"] and len(data.x) == 20


def test_a_last_row_of_totals_below_categories_is_named(sheet):
    rows = [["kind", "a", "b", "c", "d"], *ROWS, ["Total", 1.0, 2.0, 3.0, 4.0]]
    with pytest.warns(UserWarning, match="the last 1 row may be of sums or notes"):
        load_dataset(sheet(rows), label="kind", few_labels=True)


def test_of_several_sheets_the_largest_is_named(tmp_path):
    with pd.ExcelWriter(tmp_path / "a.xlsx") as book:
        pd.DataFrame({"read": ["me", "first"]}).to_excel(book, sheet_name="README", index=False)
        pd.DataFrame(ROWS).to_excel(book, sheet_name="Data", index=False)
    assert "expected one: give" in (message := refusal(load_dataset, tmp_path / "a.xlsx"))
    assert message.endswith("a.xlsx::Data")


def test_orc(tmp_path):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"a": [1.5, 2, 3], "b": [1, 2, 4]}).to_orc(tmp_path / "a.orc")
    assert load_dataset(tmp_path / "a.orc").x.shape == (3, 2)


def test_a_sheet_without_its_size(tmp_path):
    """As programs write it that do not say how many rows a sheet has."""
    pytest.importorskip("openpyxl")
    pd.DataFrame({"a": np.arange(9.0), "b": np.arange(9.0) ** 2}).to_excel(tmp_path / "a.xlsx", index=False)
    with zipfile.ZipFile(tmp_path / "a.xlsx") as book, zipfile.ZipFile(tmp_path / "b.xlsx", "w") as other:
        for name in book.namelist():
            other.writestr(name, re.sub(rb"<dimension[^>]*/>", b"", book.read(name)))
    assert load_dataset(tmp_path / "b.xlsx").x.shape == (9, 2)
