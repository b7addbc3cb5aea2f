"""Recordings in arrays of files: cut, with rates, groups and splits."""

import h5py
import numpy as np
import pytest
import scipy.io

from refusals import refusal
from viewsmith.core.rows import RowSource
from viewsmith.data import load_dataset, recording_files

rng = np.random.default_rng(0)


@pytest.mark.parametrize("form", ["npy", "npz", "h5", "mapped"])
def test_arrays_are_cut_by_a_length(tmp_path, monkeypatch, capsys, form):
    x = rng.normal(size=(3, 1050)).astype("float32")
    path = tmp_path / f"x.{form.replace('mapped', 'npy')}"
    if form == "npz":
        np.savez(path, eeg=x.T, fs=100.0)
    elif form == "h5":
        with pytest.importorskip("h5py").File(path, "w") as file:
            file["eeg"], file["fs"] = x, [100.0]
    else:
        np.save(path, x)
    if form == "mapped":
        monkeypatch.setattr(recording_files, "IN_MEMORY", 0)
    rate = {"rate": 100} if path.suffix == ".npy" else {}
    data = load_dataset(path, length="2s", step="1s", channels=["0", "2"], **rate)
    assert "is one recording of 3 channels and 1,050 points" in capsys.readouterr().err
    assert data.modality == "series" and data.x.shape == (9, 2, 200) and data.row_names[1].endswith("@1 s")
    np.testing.assert_array_equal(data.x[1], x[[0, 2], 100:300])
    assert isinstance(data.x, np.ndarray) == (form != "mapped")
    later = load_dataset(path, schema=data.schema)
    np.testing.assert_array_equal(later.x[:], data.x[:])


def test_arrays_of_several_recordings_have_a_rate(tmp_path):
    x, y = rng.normal(size=(10, 2, 50)).astype("float32"), np.arange(10) % 2
    np.savez(tmp_path / "x.npz", X_train=x[:6], X_test=x[6:], y_train=y[:6], y_test=y[6:])
    data = load_dataset(tmp_path / "x.npz", rate=10)
    np.testing.assert_array_equal(data.x_test, x[6:])
    assert data.y.tolist() == y.tolist() and data.schema["signal"]["rate"] == 10
    np.savez(tmp_path / "own.npz", X=x, sr=20, subject=np.arange(10) // 2)
    data = load_dataset(tmp_path / "own.npz", length="1s", groups="subject", split_by_groups=True)
    assert [*map(int, data.groups)] == (np.arange(10) // 2).repeat(2).tolist()
    assert load_dataset(tmp_path / "own.npz").schema["signal"]["rate"] == 20
    assert load_dataset(tmp_path / "own.npz", modality="vectors").x.shape == (10, 100)
    np.savez(tmp_path / "rows.npz", X=x[:, 0], y=y)
    data = load_dataset(tmp_path / "rows.npz", length="25")
    assert data.x.shape == (20, 1, 25) and data.y.tolist() == y.repeat(2).tolist()
    assert "give their length, too" in refusal(load_dataset, tmp_path / "x.npz", step="5")
    np.save(tmp_path / "text.npy", np.array(["ACGT"]))
    assert "<U4 of shape (1,), expected recordings" in refusal(load_dataset, tmp_path / "text.npy", length="5")


@pytest.mark.parametrize(
    ("arrays", "part"),
    [
        ({"fs": [10] * 5 + [20] * 5}, "fs has 2 values"),
        ({"fs": 0}, "fs is 0, expected a number of points"),
        ({"fs": "10 Hz"}, "fs is 10 Hz"),
        ({"fs": []}, "fs is empty"),
        ({"subject": [1, 2], "fs": 10}, "subject has 2 values for 10 recordings"),
        ({"X": np.ones((10, 2, 50)) * 1j, "fs": 10}, "complex128"),
        ({"X": np.full((10, 2, 50), "a"), "fs": 10}, "<U1"),
        ({"X": np.ones((10, 50, 2)), "fs": 10}, "if the 50 channels are points in time"),
        ({"X_train": np.ones((10, 2, 50)), "fs": 10}, "X_train without X_test"),
        ({"X_train": np.ones((9, 2, 50)), "X_test": np.ones((9, 2, 50)), "y_train": [1] * 9, "fs": 10}, "without y_te"),
    ],
)
def test_arrays_of_recordings_that_are_refused(tmp_path, arrays, part):
    split = {} if "X_train" in arrays else {"X": np.cumsum(rng.normal(size=(10, 2, 50)), 2)}
    np.savez(tmp_path / "x.npz", **(split | arrays))
    groups = "subject" if "subject" in arrays else None
    assert part in refusal(load_dataset, tmp_path / "x.npz", modality="series", groups=groups)


def test_rates_of_hdf5_are_attributes_or_single_values(tmp_path, capsys):
    x, seen = np.cumsum(rng.normal(size=(10, 2, 50)), 2), []
    for where in ("value", "file", "array"):
        with h5py.File(tmp_path / f"{where}.h5", "w") as file:
            file["data"] = x
            if where == "value":
                file["fs"] = 10
            else:
                (file if where == "file" else file["data"]).attrs["fs"] = 10
        data = load_dataset(tmp_path / f"{where}.h5")
        seen.append((data.modality, data.schema["signal"]["rate"]))
    assert seen == [("series", 10)] * 3


@pytest.mark.parametrize("stored", ["whole", "chunks", "zip"])
def test_arrays_of_recordings_stay_in_one_piece(tmp_path, stored, recwarn):
    x = np.cumsum(rng.normal(size=(10, 2, 50)), 2)
    path = tmp_path / ("x.npz" if stored == "zip" else "x.h5")
    if stored == "zip":
        np.savez_compressed(path, X=x, fs=10)
    else:
        with h5py.File(path, "w") as file:
            file.create_dataset("X", data=x, chunks=(4, 2, 50) if stored == "chunks" else None)
            file["fs"] = 10
    data = load_dataset(path, stream=True)
    np.testing.assert_allclose(data.x[:], x, atol=1e-6)
    assert isinstance(data.x, RowSource) is (stored == "whole")
    assert sum("into memory, in spite of stream" in str(each.message) for each in recwarn) == (stored != "whole")


def test_a_rate_beside_that_of_the_run_is_of_the_file(tmp_path):
    x = np.sin(np.arange(800) / 20)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "half.npy", x[::2])
    schema = load_dataset(tmp_path / "x.npy", length="50", rate=100).schema
    with pytest.warns(UserWarning, match="1 recording of 50 Hz is resampled to 100 Hz"):
        data = load_dataset(tmp_path / "half.npy", schema=schema, rate=50)
    np.testing.assert_allclose(data.x[:].ravel()[50:-50], x[50:-50], atol=0.02)
    np.savez(tmp_path / "own.npz", X=x[None], fs=100)
    assert "rate is 50 Hz, that of the run is 100 Hz, and X has 100 Hz: leave" in refusal(
        load_dataset, tmp_path / "own.npz", schema=schema, rate=50
    )


def test_recordings_of_matlab_have_groups_and_splits(tmp_path, capsys):
    x, subject = np.cumsum(rng.normal(size=(10, 2, 50)), 2), np.arange(10) // 2
    scipy.io.savemat(tmp_path / "x.mat", {"X": x, "fs": 10, "subject": subject})
    assert [*map(int, load_dataset(tmp_path / "x.mat", groups="subject").groups)] == subject.tolist()
    scipy.io.savemat(tmp_path / "split.mat", {"X_train": x[:6], "X_test": x[6:], "fs": 10})
    assert load_dataset(tmp_path / "split.mat", length="2.5s").x_test.shape == (8, 2, 25)
    for others in ({"other": x}, {}):
        scipy.io.savemat(tmp_path / "c.mat", {"X": x + 1j, **others})
        assert "X is complex" in refusal(load_dataset, tmp_path / "c.mat", modality="series")
    np.savez(tmp_path / "x.npz", X=x[0], fs=10)
    assert load_dataset(tmp_path / "x.npz").modality == "vectors"
    assert "read as rows of features; if it is recordings" in capsys.readouterr().err


def test_options_of_arrays_are_of_recordings_or_images(tmp_path):
    np.save(tmp_path / "x.npy", np.cumsum(rng.normal(size=(2, 400)), 1))
    assert "length is of recordings, and tile of images" in refusal(
        load_dataset, tmp_path / "x.npy", length="50", tile=8
    )
    data = load_dataset(tmp_path / "x.npy", length=50)
    assert data.x.shape == (8, 2, 50)
