"""Folders of arrays, a sample each."""

import numpy as np

from refusals import refusal
from viewsmith.data import load_dataset


def test_folders_of_arrays(tmp_path):
    rng = np.random.default_rng(0)
    given = {
        "images": [rng.integers(0, 4000, (8, 9, 5)).astype("uint16") for _ in range(6)],
        "series": [rng.normal(size=(2, 10 + i)).astype("float32") for i in range(6)],
        "vectors": [rng.normal(size=7).astype("float32") for _ in range(6)],
    }
    for kind, arrays in given.items():
        for i, x in enumerate(arrays):
            place = tmp_path / kind / "ab"[i % 2] / f"{i}.npy"
            place.parent.mkdir(parents=True, exist_ok=True)
            np.save(place, x)
    data = load_dataset(tmp_path / "images")
    np.testing.assert_array_equal(data.x, np.stack([given["images"][i] for i in (0, 2, 4, 1, 3, 5)]))
    assert data.y.tolist() == list("aaabbb") and data.row_names[0] == "a/0.npy"
    data = load_dataset(tmp_path / "series", modality="series", rate=5)
    assert data.x.shape == (6, 2, 15) and data.y.tolist() == list("aaabbb") and data.schema["signal"]["rate"] == 5
    np.testing.assert_array_equal(data.x[3][:, :11], given["series"][1])
    data = load_dataset(tmp_path / "vectors", modality="vectors")
    np.testing.assert_array_equal(data.x[4], given["vectors"][3])
    assert data.y.tolist() == list("aaabbb")
    part = "an image (H, W) (--modality images) or a recording (channels, time) (--modality series)"
    assert part in refusal(load_dataset, tmp_path / "series")
    assert "kind of data is vectors: expected an image" in refusal(
        load_dataset, tmp_path / "images", modality="vectors"
    )
    np.save(tmp_path / "vectors" / "a" / "6.npy", np.zeros(3))
    assert "of shape (3,), and a/0.npy float32 of (7,)" in refusal(
        load_dataset, tmp_path / "vectors", modality="vectors"
    )


def test_a_folder_of_arrays_of_all_samples(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(10, 2, 40)).astype("float32"), np.arange(10) % 2
    for name, values in (("X_train", x[:6]), ("X_test", x[6:]), ("y_train", y[:6]), ("y_test", y[6:])):
        np.save(tmp_path / f"{name}.npy", values)
    for options in ({"modality": "series"}, {"rate": 10}):
        data = load_dataset(tmp_path, **options)
        np.testing.assert_array_equal(data.x_test, x[6:])
        assert data.y.tolist() == y.tolist()
    (tmp_path / "b").mkdir()
    np.save(tmp_path / "b" / "data.npy", x[:, 0])
    np.save(tmp_path / "b" / "labels.npy", y)
    assert load_dataset(tmp_path / "b").x.shape == (10, 40)
