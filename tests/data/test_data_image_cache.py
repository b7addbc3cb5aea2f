"""Folders of images that are decoded once into a file: the same pixels, and a changed folder is noticed."""

import os
import warnings

import numpy as np
import pytest

from refusals import refusal
from viewsmith.core import rows as row_source
from viewsmith.core.rows import RowSource
from viewsmith.data import decoding, load_dataset

pillow = pytest.importorskip("PIL.Image")
rng = np.random.default_rng(0)


@pytest.fixture
def photos(tmp_path):
    """Two classes of ten images, 8 x 10 pixels in color."""
    for kind in ("cat", "dog"):
        (tmp_path / "photos" / kind).mkdir(parents=True)
        for i in range(10):
            pixels = rng.integers(0, 256, (8, 10, 3), dtype=np.uint8)
            pillow.fromarray(pixels).save(tmp_path / "photos" / kind / f"{i}.png")
    return tmp_path / "photos"


@pytest.fixture
def count(monkeypatch):
    """Number of images that were decoded."""
    done = []
    decode = decoding._decode
    monkeypatch.setattr(decoding, "_decode", lambda *arguments: done.append(1) or decode(*arguments))
    return lambda: len(done)


@pytest.mark.parametrize("options", [{}, {"image_size": 6}], ids=str)
def test_images_are_decoded_once(options, photos, tmp_path, count):
    expected = load_dataset(photos, **options)
    first = load_dataset(photos, **options, cache=tmp_path / "cache")
    assert count() == 40 and isinstance(first.x, RowSource) and first.x.dtype == np.uint8
    again = load_dataset(photos, **options, cache=tmp_path / "cache")
    assert count() == 40
    for data in (first, again):
        assert data.x.shape == expected.x.shape and np.array_equal(data.x[:], expected.x)
        assert np.array_equal(data.x_train[:], expected.x_train) and np.array_equal(
            data.x_test[[1, 0]], data.x_test[:2][::-1]
        )
        assert data.schema == expected.schema and data.row_names == expected.row_names
    load_dataset(photos, image_size=7, cache=tmp_path / "cache")
    assert count() == 60


def read_shared(photos, place, done):
    """Report how many images this process decodes, and the sum of the pixels that it reads."""
    decoded, decode = [], decoding._decode
    decoding._decode = lambda *arguments: decoded.append(1) or decode(*arguments)
    data = load_dataset(photos, cache_if_large=place, shared=True)
    assert isinstance(data.x, RowSource) and data.x.small
    done.put((len(decoded), int(data.x[:].sum())))


def test_several_processes_decode_a_small_folder_once(photos, tmp_path, in_three_processes):
    found = in_three_processes(read_shared, photos, tmp_path / "run.cache")
    assert sorted(decoded for decoded, _ in found) == [0, 0, 20]
    assert {total for _, total in found} == {int(load_dataset(photos).x.sum())}


@pytest.mark.parametrize("change", ["removed", "renamed", "date", "size"])
def test_a_changed_folder_is_decoded_again(change, photos, tmp_path, count):
    load_dataset(photos, cache=tmp_path / "cache")
    file = photos / "cat" / "3.png"
    if change == "removed":
        file.unlink()
    elif change == "renamed":
        file.rename(photos / "cat" / "x.png")
    elif change == "date":
        os.utime(file, ns=(1, 1))
    else:
        pillow.fromarray(np.zeros((8, 10, 3), np.uint8)).save(file)
    with pytest.warns(UserWarning, match="other files than when its images were decoded"):
        data = load_dataset(photos, cache=tmp_path / "cache")
    assert count() == 20 + (19 if change == "removed" else 20)
    assert np.array_equal(data.x[:], load_dataset(photos).x)
    with warnings.catch_warnings(action="error"):
        load_dataset(photos, cache=tmp_path / "cache")


def test_only_large_folders_go_to_the_place_for_them(photos, tmp_path, monkeypatch):
    place = tmp_path / "run.cache"
    assert isinstance(load_dataset(photos, cache_if_large=place).x, np.ndarray) and not place.exists()
    monkeypatch.setattr(row_source, "STREAM_ABOVE", 20 * 8 * 10 * 3 - 1)
    assert isinstance(load_dataset(photos, cache_if_large=place).x, RowSource)
    assert sorted(path.suffix for path in place.iterdir()) == [".json", ".npy"]


def test_an_image_that_cannot_be_decoded_leaves_no_cache(photos, tmp_path):
    for i in (5, 6, 7):  # more than a tenth
        content = (photos / "dog" / f"{i}.png").read_bytes()
        (photos / "dog" / f"{i}.png").write_bytes(content[: len(content) // 2])
    assert "5.png as an image" in refusal(load_dataset, photos, cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_damaged_pixels_are_one_line(photos, tmp_path):
    load_dataset(photos, cache=tmp_path / "cache")
    file = next((tmp_path / "cache").glob("*.npy"))
    content = file.read_bytes()
    for damaged in (content[:500], content[:200] + content[300:400] + content[200:300] + content[400:]):
        file.write_bytes(damaged)
        assert "are damaged" in refusal(load_dataset, photos, cache=tmp_path / "cache")


def test_a_cache_is_for_folders_alone(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(4))
    assert "leave cache out" in refusal(load_dataset, tmp_path / "x.npy", cache=tmp_path / "cache")
