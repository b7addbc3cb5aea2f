"""Tables of plain numbers for the commands: roles of columns, and columns of later files that are not needed."""

import json

import numpy as np
import pandas as pd
import pytest
from cli_tools import call, good

N = 60


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A file with a column of names, two of numbers, and classes."""
    i = np.arange(1, N + 1)
    path = tmp_path_factory.mktemp("plain") / "plain.csv"
    table = {"id": [f"p{k}" for k in i], "a": i * 37 % 100 / 100, "b": i * 53 % 97 / 10, "kind": i % 2}
    pd.DataFrame(table).to_csv(path, index=False)
    return path


def test_roles_of_plain_numbers_in_compare_and_tune(plain, tmp_path):
    given = (plain, "--label", "kind", "--columns", "id=drop", "--set", "epochs=1")
    good("compare", *given, "--methods", "contrastive", "--seeds", 1, "--protocols", "knn", "--out", tmp_path / "c")
    assert "contrastive" in json.loads((tmp_path / "c" / "leaderboard.json").read_text())["rows"]
    said = good("tune", *given, "--search", "batch_size=16,32", "--trials", 2, "--out", tmp_path / "t").out
    config = tmp_path / "t" / "best.toml"
    assert str(config) in said
    good("fit", plain, "--label", "kind", "--config", config, "--out", tmp_path / "best")


def test_lists_of_columns_given_several_times_add_up(plain, tmp_path):
    given = ("--drop", "id", "--drop", "a", "--columns", "b=drop", "--columns", "kind=category")
    said = good("fit", plain, *given, "--epochs", 1, "--out", tmp_path / "run").err
    assert "category kind" in said and "b" not in said.partition("left out")[0].partition("columns: ")[2]
    assert "numeric" not in said


# ---- labels of later files, which most commands do not need ---------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory, plain):
    """Runs on plain numbers and on a table with categories, with the label kind."""
    folder = tmp_path_factory.mktemp("labeled")
    pd.read_csv(plain).assign(town=np.array(["Oslo", "Rome"])[np.arange(N) // 2 % 2]).to_csv(folder / "mixed.csv")
    given = ("--label", "kind", "--epochs", 1)
    good("fit", plain, *given, "--drop", "id", "--out", folder / "plain")
    good("fit", folder / "mixed.csv", *given, "--out", folder / "mixed")
    good("fit", folder / "mixed.csv", *given, "--method", "crl-tac", "--out", folder / "located")
    return folder


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("plain", None),
        ("mixed", np.where(np.arange(N) == 3, np.inf, 0.5)),
        ("plain", np.where(np.arange(N) % 2, -1, np.nan)),
    ],
)
def test_later_labels_that_cannot_be_used_are_left_out(runs, tmp_path, name, labels):
    known = pd.read_csv(runs / "mixed.csv").iloc[::-1]  # the rows of the training in its order have its split
    known.assign(kind=labels).to_csv(tmp_path / "new.csv", index=False)
    known.drop(columns="kind").to_csv(tmp_path / "none.csv", index=False)
    said = good("embed", runs / name, tmp_path / "new.csv", "--out", tmp_path / "h.csv").err
    good("embed", runs / name, tmp_path / "none.csv", "--out", tmp_path / "expected.csv")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "h.csv"), pd.read_csv(tmp_path / "expected.csv"))
    assert ("label column 'kind'" in said and "left out" in said) == (labels is not None)
    good("views", runs / name, tmp_path / "new.csv", "--n", 1, "--out", tmp_path / "v.csv")
    assert len(pd.read_csv(tmp_path / "v.csv")) == N
    message = "the data have no labels" if labels is None else "label column 'kind'"
    assert call("evaluate", runs / name, tmp_path / "new.csv").refused(message)
    # What was asked for is not left out.
    given = ("embed", runs / name, tmp_path / "new.csv", "--label", "kind", "--out", tmp_path / "h.csv")
    assert call(*given).refused("label column 'kind'")


def test_gaps_in_later_arrays_have_advice_that_works(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    gaps = np.where(np.arange(40)[:, None] % 9, x, np.nan)
    for name, rows in (("a", x), ("gaps", gaps)):
        np.savez(tmp_path / f"{name}.npz", X=rows)
    good("fit", tmp_path / "a.npz", "--epochs", 1, "--out", tmp_path / "run")
    given = (tmp_path / "gaps.npz", "--out", tmp_path / "h.npz")
    assert call("embed", tmp_path / "run", *given).refused("fill them, or fit the model with", "(fit --impute median)")
    good("fit", tmp_path / "a.npz", "--impute", "median", "--epochs", 1, "--out", tmp_path / "filled")
    good("embed", tmp_path / "filled", *given)


def test_locate_needs_no_labels(runs, tmp_path):
    pd.read_csv(runs / "mixed.csv").assign(kind=None).to_csv(tmp_path / "new.csv", index=False)
    good("locate", runs / "located", tmp_path / "new.csv", "--out", tmp_path / "l.csv")
    assert list(pd.read_csv(tmp_path / "l.csv")) == ["index", "split", "feature", "probability"]


def test_later_labels_of_an_archive_of_arrays(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    np.savez(tmp_path / "a.npz", X=x, y=np.arange(40) % 2)
    np.savez(tmp_path / "new.npz", X=x[::-1], y=np.where(np.arange(40) == 3, np.inf, np.arange(40) / 7))
    good("fit", tmp_path / "a.npz", "--epochs", 1, "--out", tmp_path / "run")
    assert "left out" in good("embed", tmp_path / "run", tmp_path / "new.npz", "--out", tmp_path / "h.npz").err
    with np.load(tmp_path / "h.npz") as written:
        assert list(written) == ["H"]
    assert call("evaluate", tmp_path / "run", tmp_path / "new.npz").refused("1 infinite number")
