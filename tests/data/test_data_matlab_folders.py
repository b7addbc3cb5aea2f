"""Folders of files of MATLAB that are a recording each, and their channels."""

import numpy as np
import pandas as pd
import pytest
import scipy.io

from refusals import refusal
from viewsmith.data import load_dataset

rng = np.random.default_rng(0)


@pytest.fixture
def bearings(tmp_path):
    """Six files of two sensors, whose names begin with a number of the file, and a table of names."""
    for i in range(6):
        x = rng.normal(size=(2, 100)) + i
        names = {f"X{i:03d}_{sensor}_time": each[:, None] for sensor, each in zip(("DE", "FE"), x, strict=True)}
        (tmp_path / "set").mkdir(exist_ok=True)
        scipy.io.savemat(tmp_path / "set" / f"b{i}.mat", names | {f"X{i:03d}RPM": 1797})
    pd.DataFrame({"file": [f"b{i}.mat" for i in range(6)], "fault": list("uv") * 3}).to_csv(tmp_path / "y.csv")
    return tmp_path / "set"


def test_a_recording_in_each_file(bearings, capsys):
    options = {"modality": "series", "rate": 100, "labels": bearings.parent / "y.csv", "label": "fault"}
    data = load_dataset(bearings, **options)
    assert "6 recordings of 6 files, whose channels are DE, FE" in capsys.readouterr().err
    assert data.x.shape == (6, 2, 100) and data.y.tolist() == list("uv") * 3 and data.row_names[0] == "b0.mat"
    assert data.schema["signal"]["channels"] == ["DE", "FE"] and data.schema["signal"]["rate"] == 100
    later = load_dataset(bearings, schema=data.schema)
    np.testing.assert_array_equal(later.x, data.x)
    assert load_dataset(bearings, length="200ms", rate=100, channels=["FE"]).x.shape == (30, 1, 20)
    one = load_dataset(bearings / "b0.mat", length="200ms", rate=100)
    np.testing.assert_array_equal(one.x[0], data.x[0, :, :20])
    assert "if each is a recording: --modality series --rate 250" in refusal(load_dataset, bearings)


def test_trials_in_each_file_of_a_folder_for_each_class(tmp_path):
    for i, place in enumerate(("rest", "move")):
        (tmp_path / place).mkdir()
        x = {"X": rng.normal(size=(4, 3, 50)), "fs": 50.0} if i else {"EEG": {"data": np.ones((3, 50)), "srate": 50.0}}
        scipy.io.savemat(tmp_path / place / "s.mat", x)
    data = load_dataset(tmp_path, modality="series")
    assert data.x.shape == (5, 3, 50) and data.y.tolist() == ["move"] * 4 + ["rest"]
    assert data.schema["signal"]["rate"] == 50


def test_a_column_of_many_numbers_is_told(tmp_path):
    scipy.io.savemat(tmp_path / "x.mat", {"v": rng.normal(size=(1200, 1))})
    with pytest.warns(UserWarning, match="--length 2s takes them as a recording"):
        load_dataset(tmp_path / "x.mat")
