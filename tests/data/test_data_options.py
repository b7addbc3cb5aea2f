"""Options of `load_dataset` of other types than theirs, and data that are no path."""

import re

import numpy as np
import pandas as pd
import pytest
import scipy

from tests.refusals import refusal
from viewsmith.data import load_dataset


@pytest.fixture
def table(tmp_path):
    pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=list("abc")).to_csv(tmp_path / "t.csv")
    return tmp_path / "t.csv"


@pytest.mark.parametrize(
    ("option", "given", "expected"),
    [
        ("label", 0, "label is 0, expected a text"),
        ("labels", 2.5, "labels is 2.5, expected a path"),
        ("rate", "1", "rate is '1', expected a number"),
        ("tile", True, "tile is True, expected a whole number"),
        ("strict", "no", "strict is 'no', expected True or False"),
        ("one_hot", "a", "one_hot is 'a', expected a list"),
        ("axes", ["Y", "X"], r"axes is \['Y', 'X'\], expected a text"),
        ("columns", ["a"], r"columns is \['a'\], expected a dict"),
        ("split_seed", -1, "split_seed is -1, expected at least 0"),
        ("drop", [7], "has no column '7'"),
    ],
)
def test_other_types_are_one_line(table, option, given, expected):
    message = refusal(load_dataset, table, **{option: given})
    assert re.search(expected, message), message


def test_numbers_of_numpy_and_none_are_taken(table):
    data = load_dataset(table, split_seed=np.int64(1), drop=None, rate=None, strict=np.True_)
    assert len(data.x) == 20


@pytest.mark.parametrize("names", [pd.Index(["a"]), pd.Series(["a"]), np.array(["a"]), {"a"}, {"a": 1}.keys()])
def test_lists_of_columns_are_of_any_kind(table, names):
    assert "a" not in load_dataset(table, drop=names).feature_names


@pytest.mark.parametrize(("length", "rate"), [(500.0, 100), (np.float64(500), np.float32(100)), ("5s", np.int64(100))])
def test_numbers_of_points_and_rates_may_be_of_any_type(tmp_path, length, rate):
    np.savez(tmp_path / "r.npz", X=np.random.default_rng(0).normal(size=(2, 6000)), fs=200.0)
    data = load_dataset(tmp_path / "r.npz", length=length, rate=rate)
    assert data.x.shape == (6, 2, 500)
    assert type(data.schema["signal"]["rate"]) in (int, float)


@pytest.mark.parametrize("given", [np.zeros((3, 2)), pd.DataFrame({"a": [1]}), None, 5])
def test_data_that_are_no_path_are_given_to_an_estimator(given):
    message = refusal(load_dataset, given)
    assert (
        f"of type {type(given).__name__}, expected a name, or the path" in message
        and "given to an estimator" in message
    )


def test_a_role_of_a_column_that_is_not_there(table):
    assert "has no column 'z', given in columns; its columns are" in refusal(load_dataset, table, columns={"z": "date"})


@pytest.mark.parametrize(
    ("name", "options", "line"),
    [
        ("x.npz", {"channels": "0"}, "on which channels=0 has no effect: give --modality series"),
        ("photos", {"overlap": 4}, "overlap is for tiles: give their side, too"),
        ("a.tif", {"channel_files": "{a}_{channel}.tif"}, "so channel_files={a}_{channel}.tif has no effect"),
        ("x.fasta", {"encoding": "latin-1"}, "so encoding=latin-1 has no effect"),
        ("words", {"one_hot": ["a"]}, "has no column for one_hot=('a',); leave one_hot out"),
        ("words", {"drop": ["a"]}, "has no column for drop=('a',); leave drop out"),
        ("photos", {"impute": "median"}, "and the data are images: leave impute out"),
        ("x.fasta", {"impute": "median"}, "and the data are dna: leave impute out"),
        ("cells", {"columns": {"a": "drop"}}, "has no column for columns={'a': 'drop'}; leave columns out"),
    ],
)
def test_options_without_an_effect_are_refused(tmp_path, name, options, line):
    pillow, tifffile, soundfile = map(pytest.importorskip, ("PIL.Image", "tifffile", "soundfile"))
    np.savez(tmp_path / "x.npz", X=np.ones((9, 4)))
    tifffile.imwrite(tmp_path / "a.tif", np.ones((3, 9, 9), np.uint16))
    (tmp_path / "x.fasta").write_text(">a\nACGT\n>b\nACCT\n")
    for folder in ("photos", "words", "cells"):
        (tmp_path / folder).mkdir()
    pillow.fromarray(np.zeros((9, 9), np.uint8)).save(tmp_path / "photos/a.png")
    pillow.fromarray(np.eye(9, dtype=np.uint8)).save(tmp_path / "photos/b.png")
    soundfile.write(tmp_path / "words/a.wav", np.sin(np.arange(99.0)) / 2, 8000)
    scipy.io.mmwrite(tmp_path / "cells/matrix.mtx", scipy.sparse.coo_array(np.eye(3)))
    for file, column in (("barcodes", "c"), ("genes", "g")):
        (tmp_path / f"cells/{file}.tsv").write_text("".join(f"{column}{i}\t{column}{i}\n" for i in range(3)))
    assert line in refusal(load_dataset, tmp_path / name, **options)
