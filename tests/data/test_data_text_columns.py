"""Columns of text as pandas 3 has them: of a type of their own, in which what is missing stays missing."""

import numpy as np
import pandas as pd
import pytest

from refusals import refusal
from viewsmith import Contrastive
from viewsmith.data import load_dataset
from viewsmith.modalities import frames

ROWS = 40


@pytest.fixture(autouse=True)
def text_types():
    if int(pd.__version__.split(".")[0]) > 2:
        yield
        return
    with pd.option_context("future.infer_string", True):
        yield


@pytest.fixture
def table(csv):
    """A table with words, of which one is missing, and a column without a value."""
    towns = ["Oslo", "Bergen", "Rome", "Bonn"] * (ROWS // 4)
    towns[5] = ""
    values = np.random.default_rng(0).normal(size=(ROWS, 3)).round(3)
    lines = [
        f"{a},{b},{c},{town},,{'xy'[i % 2]}" for i, ((a, b, c), town) in enumerate(zip(values, towns, strict=True))
    ]
    return csv("a,b,c,town,none,kind\n" + "\n".join(lines) + "\n")


def test_words_are_categories_and_a_missing_one_is_none_of_them(table):
    assert pd.read_csv(table)["town"].dtype != object
    data = load_dataset(table, label="kind")
    assert sorted(set(data.y)) == ["x", "y"]
    names = ["town=Bergen", "town=Bonn", "town=Oslo", "town=Rome"]
    assert [name for name in data.feature_names if name.startswith("town=")][:4] == names
    one_hot = data.x[5, [data.feature_names.index(name) for name in names]]
    np.testing.assert_array_equal(one_hot, 0)


def test_the_message_quotes_the_value_that_is_no_number(csv):
    message = refusal(load_dataset, csv("a,b\n1,2\n?,3\n"), strict=True)
    assert "1 column that is not numbers: a (contains '?')" in message
    assert "a (contains '?'), b (contains 1)" in refusal(
        frames.check_no_text, pd.DataFrame({"a": ["1", "?"], "b": pd.Categorical([1, 2])}), ["a", "b"], "X"
    )


def test_a_column_without_a_value_is_named(csv):
    message = refusal(load_dataset, csv("a\tb\n1\t\n2\t\n", "t.tsv"), strict=True, one_hot=["b"])
    assert "column b has no value" in message


@pytest.mark.parametrize("first", ["0,2,3\n1,5,6\n", "1,2,3\n2,5,6\n", "x,2,3\ny,5,6\n", "1,2,NA\n2,5,NA\n"])
def test_a_field_that_the_header_does_not_name_is_refused(csv, first):
    """Row numbers would be taken for the names of rows, and the columns be shifted."""
    assert "rows have more fields than the header line has names (a, ...)" in refusal(
        load_dataset, csv("a,b\n" + first)
    )


def test_a_separator_at_the_end_of_every_row_is_no_field(csv):
    rows = np.random.default_rng(0).normal(size=(20, 2)).round(3)
    data = load_dataset(csv("a,b\n" + "".join(f"{a},{b},\n" for a, b in rows)))
    assert data.feature_names == ["a", "b"]
    np.testing.assert_array_equal(data.x, rows.astype(np.float32))


def test_ids_of_two_columns_with_a_gap_are_recordings(csv):
    lines = [f"{run},{'' if run == 'b' else 'left'},{t},{t % 7}" for run in "abc" for t in range(30)]
    path = csv("run,side,t,value\n" + "\n".join(lines) + "\n")
    data = load_dataset(path, modality="series", time="t", recording="run,side")
    assert data.x.shape == (3, 1, 30)


def test_a_table_of_labels_with_a_row_without_a_name(csv):
    values = np.random.default_rng(0).normal(size=(20, 3)).round(3)
    rows = "".join(f"s{i},{a},{b},{c}\n" for i, (a, b, c) in enumerate(values))
    labels = csv("name,kind\n" + "".join(f"s{i},{'uv'[i % 2]}\n" for i in range(20)) + ",u\n", "labels.csv")
    data = load_dataset(csv("id,a,b,c\n" + rows), labels=labels, label="kind")
    assert data.y.tolist() == ["u", "v"] * 10


def test_a_frame_with_words_is_fitted():
    X = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40.0) ** 2, "kind": ["u", None, "v", "w"] * 10})
    assert X["kind"].dtype != object
    H = Contrastive(epochs=1, random_state=0).fit_transform(X)
    assert H.shape[0] == 40 and np.isfinite(H).all()


def test_a_column_named_self_in_stata(tmp_path):
    values = np.random.default_rng(0).normal(size=20)  # numbers in order would be an identifier
    table = pd.DataFrame({"self": pd.Categorical(["no", "yes"] * 10), "a": values})
    table.to_stata(tmp_path / "t.dta", write_index=False)
    data = load_dataset(tmp_path / "t.dta", label="self")
    assert data.y.tolist() == ["no", "yes"] * 10 and data.feature_names == ["a"]


@pytest.mark.parametrize("name", ["82e72255267397b777a1afd44ea22755", "5e1111111111111", "1e2147483648"])
def test_names_that_look_like_huge_numbers_are_text(tmp_path, name):
    """Such as hashes of sequences, which end the process in pandas 2."""
    x = np.random.default_rng(0).normal(size=(60, 2))
    frame = pd.DataFrame(x, columns=["a", "b"])
    names = [f"{i:x}f{i:030x}" for i in range(60)]
    for place in (0, 30):
        frame.assign(name=[*names[:place], name, *names[place + 1 :]]).to_csv(tmp_path / "t.csv", index=False)
        assert load_dataset(tmp_path / "t.csv").x.shape == (60, 2)
    frame.rename(columns={"a": name}).to_csv(tmp_path / "h.csv", index=False)
    assert load_dataset(tmp_path / "h.csv").feature_names == [name, "b"]
    frame.rename(columns={"a": name}).assign(name=[name, *names[1:]]).to_excel(tmp_path / "h.xlsx", index=False)
    assert load_dataset(tmp_path / "h.xlsx").x.shape == (60, 2)
    data = load_dataset(tmp_path / "t.csv")
    frame.assign(name=name).to_csv(tmp_path / "t.csv", index=False)
    assert load_dataset(tmp_path / "t.csv", schema=data.schema, table=data.x.table).x.shape == (60, 2)
