"""Arrays in HDF5 files: as in .npz archives, in groups, in pieces that stay on disk; files of MATLAB 7.3."""

import numpy as np
import pytest

from refusals import refusal
from viewsmith import LinearContrast
from viewsmith.core.rows import RowSource
from viewsmith.data import load_dataset

h5py = pytest.importorskip("h5py")

rng = np.random.default_rng(0)
IMAGES, KINDS = rng.integers(0, 256, (60, 8, 8), np.uint8), np.arange(60) % 2


def write(path, **arrays):
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file.create_dataset(name.replace("__", "/"), data=values)
    return path


def test_arrays_by_their_usual_names(tmp_path):
    data = load_dataset(write(tmp_path / "a.h5", x=IMAGES, y=KINDS.reshape(-1, 1, 1, 1)))  # as PatchCamelyon has them
    np.testing.assert_array_equal(data.x, IMAGES)
    assert data.y.tolist() == KINDS.tolist() and data.modality == "images"
    groups = {"train__images": IMAGES[:40], "train__labels": KINDS[:40]}
    groups |= {"test__images": IMAGES[40:], "test__labels": KINDS[40:]}
    data = load_dataset(write(tmp_path / "b.hdf5", **groups))
    assert len(data.train_index) == 40 and data.y.tolist() == KINDS.tolist()


def test_the_largest_array_is_read_where_none_has_such_a_name(tmp_path, capsys):
    names = np.array([b"u", b"v"] * 30)
    data = load_dataset(write(tmp_path / "a.h5", features=IMAGES.reshape(60, 64) / 255.0, ids=KINDS, label=names))
    assert "features is read, the largest of features, ids, label" in capsys.readouterr().err
    assert data.x.shape == (60, 64) and data.y.tolist() == ["u", "v"] * 30


@pytest.mark.parametrize("chunks", [None, (4, 8, 8)])
def test_rows_on_disk_train_as_in_memory(tmp_path, chunks):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", data=IMAGES, chunks=chunks, compression=None if chunks is None else "gzip")
    kept, read = (load_dataset(tmp_path / "a.h5", stream=stream) for stream in (True, False))
    assert isinstance(kept.x, RowSource) and kept.x.by_index == (chunks is None) and kept.x.dtype == np.uint8
    models = [LinearContrast(random_state=0, features_options={"centers": 8}).fit(data.x) for data in (kept, read)]
    np.testing.assert_array_equal(models[0].transform(IMAGES), models[1].transform(IMAGES))


def test_files_of_others_and_links_are_not_taken(tmp_path):
    write(tmp_path / "weights.h5", model_weights__dense=np.eye(3))
    assert "without counts of 10x" in refusal(load_dataset, tmp_path / "weights.h5")
    write(tmp_path / "other.h5", X=IMAGES)
    with h5py.File(write(tmp_path / "a.h5", data=KINDS), "a") as file:
        file["X"] = h5py.ExternalLink("other.h5", "X")
    assert "without counts of 10x" in refusal(load_dataset, tmp_path / "a.h5")


def test_files_of_matlab_7_3(tmp_path):
    with h5py.File(tmp_path / "a.mat", "w", userblock_size=512) as file:
        file["X"], file["y"] = IMAGES.transpose(2, 1, 0), KINDS.reshape(1, -1)
    with (tmp_path / "a.mat").open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(512))
    data = load_dataset(tmp_path / "a.mat")
    np.testing.assert_array_equal(data.x, IMAGES)
    assert data.y.tolist() == KINDS.tolist()


def test_cells_of_matlab_7_3_are_recordings(tmp_path):
    signals = [rng.normal(size=(2, length)) for length in (30, 40, 50)]
    with h5py.File(tmp_path / "a.mat", "w", userblock_size=512) as file:
        stored = [file.create_dataset(f"#refs#/{i}", data=each.T).ref for i, each in enumerate(signals)]
        file.create_dataset("S", data=np.array(stored, dtype=object).reshape(1, -1), dtype=h5py.ref_dtype)
    with (tmp_path / "a.mat").open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(512))
    data = load_dataset(tmp_path / "a.mat", modality="series")
    assert data.x.shape == (3, 2, 50) and np.isnan(data.x[0, 0, 30:]).all()
    np.testing.assert_allclose(data.x[1, :, :40], signals[1], rtol=1e-6)


@pytest.mark.parametrize("several", [True, False])
def test_structs_of_matlab_7_3(tmp_path, several):
    """A struct with arrays, and an array of structs, whose fields have references."""
    signals = [rng.normal(size=(2, length)) for length in (30, 40, 50)]
    with h5py.File(tmp_path / "a.mat", "w", userblock_size=512) as file:

        def stored(name, value, kind):
            item = file.create_dataset(name, data=value)
            item.attrs["MATLAB_class"] = np.bytes_(kind)
            return item.ref

        def letters(text):
            return np.array([[ord(letter)] for letter in text], np.uint16)

        file.create_group("EEG").attrs["MATLAB_class"] = np.bytes_("struct")
        stored("srate", np.array([[100.0]]), "double")
        if several:
            x = [stored(f"#refs#/x{i}", each.T, "double") for i, each in enumerate(signals)]
            y = [stored(f"#refs#/y{i}", letters(text), "char") for i, text in enumerate(("on", "off", "on"))]
            for name, found in (("data", x), ("label", y)):
                file["EEG"].create_dataset(name, data=np.array(found, object).reshape(-1, 1), dtype=h5py.ref_dtype)
        else:
            stored("EEG/data", np.hstack(signals).T, "double")
            stored("EEG/by", letters("me"), "char")
    with (tmp_path / "a.mat").open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(512))
    data = load_dataset(tmp_path / "a.mat", modality="series", length=None if several else "200ms")
    assert data.schema["signal"]["rate"] == 100 and data.x.shape == ((3, 2, 50) if several else (6, 2, 20))
    expected = signals[1] if several else np.hstack(signals)[:, 20:]
    np.testing.assert_allclose(data.x[1, :, :20], expected[:, :20], rtol=1e-6)
    assert (data.y.tolist() == ["on", "off", "on"]) if several else data.y is None


def test_an_array_of_an_open_file_is_given_to_an_estimator(tmp_path):
    with h5py.File(write(tmp_path / "a.h5", x=np.repeat(IMAGES[..., None], 3, axis=3)), "r") as file:
        model = LinearContrast(random_state=0, features_options={"centers": 8}).fit(file["x"])
        assert model.transform(file["x"]).shape[0] == 60 and model.modality_.name == "images"
