"""Tables of plain numbers for the commands: roles of columns, and columns of later files that are not needed."""

import json

import numpy as np
import pandas as pd
import pytest
from cli_tools import good

N = 60


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A file with a column of names, two of numbers, and classes."""
    i = np.arange(1, N + 1)
    path = tmp_path_factory.mktemp("plain") / "plain.csv"
    table = {"id": [f"p{k}" for k in i], "a": i * 37 % 100 / 100, "b": i * 53 % 97 / 10, "kind": i % 2}
    pd.DataFrame(table).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("options", [("--columns", "id=drop"), ("--columns", "b=numeric", "--drop", "id")])
def test_roles_do_as_drop_does_where_the_rest_is_numbers(plain, tmp_path, options):
    for name, given in (("roles", options), ("drop", ("--drop", "id"))):
        run = tmp_path / name
        good("fit", plain, "--label", "kind", *given, "--epochs", 1, "--out", run)
        good("embed", run, plain, "--out", tmp_path / f"{name}.npz")
    with np.load(tmp_path / "roles.npz") as found, np.load(tmp_path / "drop.npz") as expected:
        np.testing.assert_array_equal(found["H"], expected["H"])
    good("evaluate", tmp_path / "roles", plain, "--protocols", "knn")
    good("fit", plain, "--label", "kind", *options, "--epochs", 1, "--out", tmp_path / "roles", "--resume")


def test_roles_of_plain_numbers_in_compare_and_tune(plain, tmp_path):
    given = (plain, "--label", "kind", "--columns", "id=drop", "--set", "epochs=1")
    good("compare", *given, "--methods", "contrastive", "--seeds", 1, "--protocols", "knn", "--out", tmp_path / "c")
    assert "contrastive" in json.loads((tmp_path / "c" / "compare.json").read_text())["rows"]
    said = good("tune", *given, "--search", "batch_size=16,32", "--trials", 2, "--out", tmp_path / "t").out
    config = tmp_path / "t" / "best.toml"
    assert str(config) in said
    good("fit", plain, "--label", "kind", "--config", config, "--out", tmp_path / "best")
