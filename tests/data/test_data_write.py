"""Representations on disk: every format is read back, and an error does not change an existing file."""

import os
import sys

import numpy as np
import pandas as pd
import pytest

from viewsmith.core.errors import InputError, MissingExtra
from viewsmith.data import load_dataset, write_representations
from viewsmith.data.write import write_locations

rng = np.random.default_rng(0)
X = rng.normal(size=(20, 3)).astype(np.float32)
Y = np.array(["a", "b"] * 10)
H = rng.normal(size=(20, 4)).astype(np.float32)


@pytest.fixture
def data(tmp_path):
    """A data set with each kind of split."""
    os.mkdir(tmp_path / "in")

    def make(split):
        arrays = {
            "given": {"X_train": X[:15], "X_test": X[15:], "y_train": Y[:15], "y_test": Y[15:]},
            "stratified": {"X": X, "y": Y},
            "none": {"X": X},
        }[split]
        np.savez(tmp_path / "in" / "d.npz", **arrays)
        return load_dataset(tmp_path / "in" / "d.npz")

    return make


def test_npz_with_a_given_split(data, tmp_path):
    write_representations(tmp_path / "o.npz", data("given"), H)
    with np.load(tmp_path / "o.npz") as read:
        assert sorted(read.files) == ["H_test", "H_train", "y_test", "y_train"]
        np.testing.assert_array_equal(read["H_train"], H[:15])
        np.testing.assert_array_equal(read["H_test"], H[15:])
        np.testing.assert_array_equal(read["y_test"], Y[15:])
        assert read["H_train"].dtype == np.float32


def test_npz_with_a_stratified_split_and_without_a_split(data, tmp_path):
    drawn = data("stratified")
    write_representations(tmp_path / "o.npz", drawn, H)
    with np.load(tmp_path / "o.npz") as read:
        assert sorted(read.files) == ["H", "split", "y"]
        np.testing.assert_array_equal(read["H"], H)
        np.testing.assert_array_equal(np.flatnonzero(read["split"] == "test"), drawn.test_index)
        np.testing.assert_array_equal(np.flatnonzero(read["split"] == "train"), drawn.train_index)
    write_representations(tmp_path / "o.npz", data("none"), H)
    with np.load(tmp_path / "o.npz") as read:
        assert read.files == ["H"]


def test_npy_has_only_the_array(data, tmp_path):
    write_representations(tmp_path / "o.npy", data("given"), H)
    np.testing.assert_array_equal(np.load(tmp_path / "o.npy"), H)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".CSV"])
def test_tables(data, tmp_path, suffix):
    path = tmp_path / f"o{suffix}"
    read = pd.read_parquet if suffix == ".parquet" else pd.read_csv
    write_representations(path, data("given"), H)
    table = read(path)
    assert list(table) == ["h0", "h1", "h2", "h3", "split", "label"]
    np.testing.assert_array_equal(table.iloc[:, :4].to_numpy(np.float32), H)
    assert table["label"].tolist() == Y.tolist() and table["split"].tolist() == ["train"] * 15 + ["test"] * 5
    write_representations(path, data("none"), H, prefix="z")
    assert list(read(path)) == ["z0", "z1", "z2", "z3"]


def test_the_prefix_names_arrays_in_capitals(data, tmp_path):
    write_representations(tmp_path / "o.npz", data("given"), H, prefix="z")
    with np.load(tmp_path / "o.npz") as read:
        assert {"Z_train", "Z_test"} <= set(read.files)


@pytest.mark.parametrize(
    ("name", "rows", "part"),
    [
        ("o.txt", H, "expected one of .npz .npy .csv .parquet .h5ad"),
        ("o", H, "no extension"),
        ("none/o.npz", H, "does not exist: create it first"),
        ("in.npz", H, "it is a folder"),
        ("o.npz", H[:5], "5 representations for 20 rows"),
        ("o.h5ad", H, "is written as a copy of the .h5ad file of the rows"),
        ("o.csv", H[:, None], "shape (20, 1, 4), a table needs (n, d)"),
    ],
)
def test_refused_without_output(data, tmp_path, name, rows, part):
    given = data("given")
    os.mkdir(tmp_path / "in.npz")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(InputError) as caught:
        write_representations(tmp_path / name, given, rows)
    assert part in str(caught.value) and "\n" not in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == before


def test_parquet_without_pyarrow(data, tmp_path, monkeypatch):
    given = data("none")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"viewsmith\[parquet\]"):
        write_representations(tmp_path / "o.parquet", given, H)


def test_names_and_labels_are_no_formulas_in_a_spreadsheet(tmp_path):
    labels = np.array(["=1+2", "-0.5", "-", "b"] * 5)
    records = [f">{'@x' if i == 0 else i} label={label}\nACGTACGTAA{'ACGT'[i % 4]}\n" for i, label in enumerate(labels)]
    (tmp_path / "x.fa").write_text("".join(records))
    dataset = load_dataset(tmp_path / "x.fa")
    write_representations(tmp_path / "h.csv", dataset, H)
    read = pd.read_csv(tmp_path / "h.csv", dtype={"label": str, "name": str})
    assert read["label"].tolist() == ["'=1+2", "-0.5", "-", "b"] * 5 and read["name"][0] == "'@x"
    np.testing.assert_allclose(read[["h0", "h1", "h2", "h3"]], H, rtol=1e-6)
    table = pd.DataFrame({"self": ["=A1", "x"], "start": [0, 1], "probability": [-0.5, 0.5]})
    write_locations(tmp_path / "l.csv", dataset, table)
    assert pd.read_csv(tmp_path / "l.csv").to_numpy().tolist() == [["'=A1", 0, -0.5], ["x", 1, 0.5]]
