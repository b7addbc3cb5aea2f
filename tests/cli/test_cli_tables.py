"""Tables of mixed columns as a user gives them to the commands."""

import numpy as np
import pandas as pd
import pytest
from cli_tools import call, good

from people import ROWS
from people import people as people_table
from refusals import refusal
from viewsmith.data import split_indices
from viewsmith.data.write import write_views_table
from viewsmith.training.run import RunFolder


def people() -> pd.DataFrame:
    return people_table("id", "age", "town", "joined", "kind")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    people().to_csv(folder / "people.csv", index=False)
    fitted = good("fit", folder / "people.csv", "--label", "kind", "--out", folder / "run", "--epochs", 2)
    (folder / "said").write_text(fitted.err)
    return folder


def test_fit_prints_and_saves_the_roles(folder):
    line = "4 columns: numeric age; category town; date joined; left out id (identifier)"
    assert line in (folder / "said").read_text().splitlines()
    config = RunFolder(folder / "run").read_config()
    assert config["fitted"]["table"]["roles"] == {
        "id": "identifier",
        "age": "numeric",
        "town": "category",
        "joined": "date",
    }
    town = config["fitted"]["table"]["columns"][1]
    assert town["values"] == ["Bari", "Oslo", "Rome"]


@pytest.mark.parametrize("suffix", [".tsv", ".parquet"])
def test_views_are_a_table(folder, tmp_path, suffix):
    out = tmp_path / f"views{suffix}"
    good("views", folder / "run", folder / "people.csv", "--n", 2, "--out", out)
    if suffix == ".parquet":
        views = pd.read_parquet(out)
    else:
        views = pd.read_csv(out, sep="\t")
    assert list(views) == ["row", "view", "age", "town", "joined"] and len(views) == 2 * 48
    known = people()[["age", "town", "joined"]].astype(object).to_numpy().tolist()
    texts = {str([None if pd.isna(v) else v for v in row]) for row in known}
    for row in views[["age", "town", "joined"]].astype(object).to_numpy().tolist():
        assert str([None if pd.isna(v) else v for v in row]) in texts


def test_views_of_the_test_rows_and_as_arrays(folder, tmp_path):
    good("views", folder / "run", folder / "people.csv", "--n", 1, "--split", "test", "--out", tmp_path / "v.csv")
    assert len(pd.read_csv(tmp_path / "v.csv")) == 12
    good("views", folder / "run", folder / "people.csv", "--n", 1, "--out", tmp_path / "v.npz")
    with np.load(tmp_path / "v.npz") as arrays:
        assert arrays["views"].ndim == 3
    assert call("views", folder / "run", folder / "people.csv", "--out", tmp_path / "v.txt").refused(".npz", "'.csv'")


def test_views_of_plain_numbers_are_a_table_too(runs, data, tmp_path):
    good("views", runs / "table", data / "t.csv", "--n", 2, "--out", tmp_path / "v.csv")
    assert list(pd.read_csv(tmp_path / "v.csv")) == ["row", "view", "a", "b", "c", "d"]


def test_views_of_sequences_are_no_table(tmp_path):
    rows = np.frombuffer(b"ACGTTGCA", np.uint8).reshape(2, 4)
    arrays = {"views": np.stack([rows, rows], axis=1), "index": np.arange(2)}
    message = refusal(write_views_table, tmp_path / "v.csv", arrays, rows, None)
    assert "letters are not rows of a table: write them to a .npz file" in message and not any(tmp_path.iterdir())


def test_embed_takes_columns_by_name(folder, tmp_path):
    good("embed", folder / "run", folder / "people.csv", "--out", tmp_path / "a.npz")
    people()[["kind", "joined", "town", "age"]].assign(more=1).to_csv(tmp_path / "later.csv", index=False)
    result = good("embed", folder / "run", tmp_path / "later.csv", "--out", tmp_path / "b.npz")
    assert "1 column that the model does not know, ignored: more" in result.err
    with np.load(tmp_path / "a.npz") as a, np.load(tmp_path / "b.npz") as b:
        np.testing.assert_array_equal(a["H"], b["H"])


def test_evaluate_and_report(folder):
    assert "representation" in good("evaluate", folder / "run", folder / "people.csv").out
    good("report", folder / "run")
    assert "numeric age; category town" in (folder / "run" / "report.html").read_text()


def test_roles_by_option(folder, tmp_path):
    options = ("--columns", "id=drop,joined=category,kind=drop", "--epochs", 1, "--out", tmp_path / "run")
    assert "category town, joined; left out id, kind" in good("fit", folder / "people.csv", *options).err
    for text, part in (("id", "expected NAME=ROLE"), ("id=key", "id is 'key'"), ("ix=drop", "no column 'ix'")):
        given = ("fit", folder / "people.csv", "--columns", text, "--out", tmp_path / "other")
        assert call(*given).refused(part)
    assert not (tmp_path / "other").exists()


def test_cells_that_are_no_numbers_are_counted_in_rows_of_the_file(tmp_path):
    frame = pd.DataFrame({"dose": [str(i / 4) for i in ROWS], "kind": np.array(["a", "b"])[ROWS % 2]})
    _, test = split_indices(frame["kind"].to_numpy(np.str_))
    train = np.setdiff1d(ROWS, test)
    frame.loc[[train[-1], test[0]], "dose"] = "?"  # the one in a test row is missing, too
    frame.to_csv(tmp_path / "t.csv", index=False)
    given = (tmp_path / "t.csv", "--label", "kind", "--columns", "dose=numeric", "--epochs", 1)
    said = good("fit", *given, "--out", tmp_path / "run").err
    for row in (train[-1], test[0]):
        assert f"'?' in row {row + 1}" in said
    frame.loc[train[-1], "dose"] = "1"
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert f"'?' in row {test[0] + 1}" in good("fit", *given, "--out", tmp_path / "other").err


def test_the_roles_of_a_file_of_numbers_are_said(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).random((30, 3)), columns=["a", "b", "c"])
    frame.to_csv(path := tmp_path / "plain.csv.gz", index=False)
    said = good("fit", path, "--out", tmp_path / "run", "--epochs", 1).err
    assert "3 columns: numeric a, b, c" in said.splitlines()
