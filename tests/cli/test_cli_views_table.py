"""The command views-table: its table, its files, what it refuses."""

import csv
import json

import numpy as np
import pytest
from cli_tools import call, good


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Vectors of two classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 80)
    path = tmp_path_factory.mktemp("views") / "x.npz"
    np.savez(path, X=(rng.normal(size=(80, 5)) + 2 * y[:, None]).astype("f4"), y=y)
    return path


def test_the_table_its_sentence_and_its_files(data, tmp_path):
    command = ("views-table", data, "--views", "noise,mixup", "--samples", 30)
    header, features, first, *lines = good(*command, "--out", tmp_path / "t.csv").out.splitlines()
    assert header.split() == [
        "views",
        "ratio",
        "moved",
        "correlation",
        "columns",
        "nats",
        "kNN",
        "gain",
        "linear",
        "gain",
    ]
    assert features.startswith("features ") and first.startswith("set neighbors ")
    names = ("alone noise noise_strength=0.25", "alone mixup", "added mixup")
    assert all(any(line.startswith(name) for line in lines) for name in names)
    assert "30 samples, 4 views of each, scored on 34 others" in lines[-2] and "ratio:" in lines[-1]
    with (tmp_path / "t.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == len(lines) - 1 and table[0]["view"] == "features" and 0 <= float(table[1]["knn"]) <= 1
    printed = json.loads(good(*command, "--json").out)
    good(*command, "--out", tmp_path / "t.json")
    written = json.loads((tmp_path / "t.json").read_text())
    for content in (printed, written):
        assert content["samples"] == 30 and content["scored"] == 34 and len(content["rows"]) == len(table)
        for row in content["rows"]:
            del row["seconds"]
    assert printed == written


def test_rows_can_be_chosen_and_labels_are_not_needed(data, tmp_path):
    np.save(tmp_path / "x.npy", np.load(data)["X"])
    out = good("views-table", tmp_path / "x.npy", "--views", "noise", "--uses", "alone").out
    assert "kNN" not in out and "alone noise" in out and "added" not in out


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (("--out", "t.txt"), "expected a file name that ends in .csv or .json"),
        (("--out", "none/t.csv"), "does not exist: create it first"),
        (("--modality", "images"), "images"),
    ],
)
def test_what_is_refused(data, given, line):
    assert call("views-table", data, *given).refused(line)


def test_why_a_view_has_no_numbers_is_said_once(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 4000, (40, 16, 16, 2)).astype("uint16"))
    lines = good("views-table", tmp_path / "x.npy", "--views", "light,blur", "--uses", "alone").out.splitlines()
    assert sum("'light' are for photographs" in line for line in lines) == 1
    assert sum(line.startswith("alone blur") for line in lines) == 2
