"""Rows of units below the names of columns, and marks of missing values in columns of numbers."""

import numpy as np
import pandas as pd
import pytest

from refusals import refusal
from viewsmith.data import load_dataset

rng = np.random.default_rng(0)


@pytest.fixture
def table():
    x = pd.DataFrame(rng.normal(size=(40, 3)).round(3), columns=["Na", "K", "weight"])
    return x.assign(who=list("ab") * 20)


@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_a_row_of_units_is_left_out(tmp_path, table, capsys, ending):
    units = pd.DataFrame([["mmol/l", "mmol/l", "kg", ""]], columns=table.columns)
    file = tmp_path / f"t.{ending}"
    write = {"csv": pd.DataFrame.to_csv, "xlsx": pd.DataFrame.to_excel}[ending]
    write(pd.concat([units, table]), file, index=False)
    data = load_dataset(file, label="who")
    assert "the first row has units (mmol/l, kg), and is left out" in capsys.readouterr().err
    np.testing.assert_allclose(data.x, table[["Na", "K", "weight"]], rtol=1e-6)
    assert data.y.tolist() == table.who.tolist()
    np.testing.assert_array_equal(load_dataset(file, schema=data.schema).x, data.x)
    recording = load_dataset(file, modality="series", length=10, drop=["who"])
    np.testing.assert_array_equal(recording.x[0].T, data.x[:10])


@pytest.mark.parametrize("mark", ["?", ".", " ?", "--"])
def test_marks_of_missing_values(tmp_path, table, capsys, mark):
    marked = table.assign(K=table.K.astype(str).where(np.arange(40) % 9 > 0, mark))
    marked.to_csv(tmp_path / "t.csv", index=False)
    data = load_dataset(tmp_path / "t.csv", label="who", impute="median")
    said = f"5 cells of K without a number ({mark!r}), taken as missing"
    assert said in capsys.readouterr().err and data.x.shape == (40, 3)
    whole = load_dataset(tmp_path / "t.csv", label="who")
    assert whole.x.shape == (40, 4)  # with an indicator
    np.testing.assert_array_equal(load_dataset(tmp_path / "t.csv", schema=whole.schema, table=whole.x.table).x, whole.x)
    assert load_dataset(tmp_path / "t.csv", label="who", columns={"K": "category"}).x.shape[1] > 4
    # Among categories it is one of them; other cells are refused.
    table.assign(who=np.where(np.arange(40) % 7, table.who, "?")).to_csv(tmp_path / "c.csv", index=False)
    assert load_dataset(tmp_path / "c.csv").x.shape == (40, 7)
    table.assign(K=table.K.astype(str).where(np.arange(40) > 0, "5x")).to_csv(tmp_path / "t.csv", index=False)
    assert "5x" in refusal(load_dataset, tmp_path / "t.csv")


@pytest.mark.parametrize("strict", [False, True])
def test_new_rows_have_the_marks_and_units_of_a_run(tmp_path, table, strict):
    """However few they are; categories of a run that are numbers and marks stay what they were."""
    table = table.drop(columns="who").assign(k=rng.choice(["1", "2", "?"], 40))
    table.assign(K=table.K.where(np.arange(40) % 9 > 0, "?")).to_csv(tmp_path / "t.csv", index=False)
    options = {"one_hot": ["k"], "strict": True, "impute": "median"} if strict else {"columns": {"k": "category"}}
    data = load_dataset(tmp_path / "t.csv", **options)
    known = {"schema": data.schema} | ({"impute": "median"} if strict else {"table": data.x.table})
    units, marks = pd.DataFrame([dict.fromkeys(table, "kg") | {"k": ""}]), table[:3].assign(K="?")
    for rows in (marks, pd.concat([units, marks]), table[:7].assign(K=["?"] * 6 + ["2.5"]), table[10:13]):
        rows.to_csv(tmp_path / "new.csv", index=False)
        x = np.asarray(load_dataset(tmp_path / "new.csv", **known).x)
        assert x.shape == (len(rows) - (rows.Na.iloc[0] == "kg"), data.x.shape[1])
    np.testing.assert_array_equal(x, np.asarray(data.x)[10:13])


def test_marks_in_tables_on_disk_and_in_new_recordings(tmp_path, table):
    marked = table.drop(columns="who").assign(K=table.K.astype(str).where(np.arange(40) % 9 > 0, "-"))
    marked.to_parquet(tmp_path / "t.parquet")
    assert "K" in refusal(load_dataset, tmp_path / "t.parquet", stream=True)
    marked.to_csv(tmp_path / "t.csv", index=False)
    options = {"modality": "series", "length": 10}
    data = load_dataset(tmp_path / "t.csv", **options)
    marked[:12].assign(K=["-"] * 10 + ["1", "2"]).to_csv(tmp_path / "new.csv", index=False)
    new = load_dataset(tmp_path / "new.csv", schema=data.schema, modality="series")
    assert new.x.shape == (1, 3, 10) and np.isnan(new.x[0, 1]).all()


@pytest.mark.parametrize("name", [[f"s{i}" for i in range(40)], ["left", "right"] * 20])
def test_a_first_row_with_a_name_or_category_is_a_sample(tmp_path, table, name):
    table = table.astype(object).assign(who=name)
    table.loc[0, ["Na", "K", "weight"]] = "small"
    table.to_csv(tmp_path / "t.csv", index=False)
    assert "as 'small' in row 1 of Na" in refusal(load_dataset, tmp_path / "t.csv")


@pytest.mark.parametrize("word", ["unknown", "not measured"])
def test_words_for_missing_values_are_no_units(tmp_path, table, word):
    first = table.astype(object)
    first.loc[0, ["Na", "K", "weight"]] = word
    first.to_csv(tmp_path / "t.csv", index=False)
    assert f"as {word!r} in row 1 of Na" in refusal(load_dataset, tmp_path / "t.csv", label="who")


@pytest.mark.parametrize(("last", "told"), [("Total", 1), ("Source: own data", 1), ("s1", 0), ("Totalis", 0)])
def test_rows_of_sums_at_the_end_are_told(tmp_path, table, recwarn, last, told):
    table.insert(0, "name", [f"s{i}" for i in range(39)] + [last])
    table.to_csv(tmp_path / "t.csv", index=False)
    load_dataset(tmp_path / "t.csv")
    assert told == sum(f"the last 1 row may be of sums or notes ({last})" in str(w.message) for w in recwarn)
