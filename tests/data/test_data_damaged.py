"""Damaged files of images: a few of many are left out by name, and rows, labels, groups and splits stay together."""

import warnings

import numpy as np
import pytest

from refusals import refusal
from viewsmith.data import load_dataset
from viewsmith.data.any_size import read_samples

pillow = pytest.importorskip("PIL.Image")
rng = np.random.default_rng(0)

CONTENTS = {
    "empty": lambda whole: b"",
    "other": lambda whole: b"no image",
    "cut": lambda whole: whole[: len(whole) // 2],
}


@pytest.fixture
def photos(tmp_path):
    """Two classes of 15 images of 40 x 30 pixels, the first pixel of each with its number."""
    for k, kind in enumerate(("cat", "dog")):
        (tmp_path / "photos" / kind).mkdir(parents=True)
        for i in range(15):
            pixels = rng.integers(0, 256, (40, 30, 3), dtype=np.uint8)
            pixels[0, 0] = 15 * k + i, 0, 1
            pillow.fromarray(pixels).save(tmp_path / "photos" / kind / f"{i:02d}.png")
    return tmp_path / "photos"


@pytest.fixture
def hurt():
    def damage(file, how="cut"):
        file.write_bytes(CONTENTS[how](file.read_bytes()))

    return damage


def read(path, **options):
    """A data set, and the warnings of reading it."""
    with warnings.catch_warnings(record=True, action="always") as said:
        data = load_dataset(path, **options)
    return data, [str(each.message) for each in said]


@pytest.mark.parametrize("how", CONTENTS)
@pytest.mark.parametrize("cached", [False, True])
def test_a_few_are_left_out_by_name(photos, hurt, tmp_path, how, cached):
    hurt(photos / "cat/03.png", how)
    hurt(photos / "dog/14.png", "cut")
    for _ in range(2):  # the second time from the cache
        data, said = read(photos, **({"cache": tmp_path / "cache"} if cached else {}))
        (line,) = said
        assert "2 files of 30 cannot be read as images, left out" in line and "cat/03.png, dog/14.png (" in line
        numbers = [i for i in range(30) if i not in (3, 29)]
        assert data.x[:][:, 0, 0, 0].tolist() == numbers
        assert data.row_names == [f"{'cat' if i < 15 else 'dog'}/{i % 15:02d}.png" for i in numbers]
        assert data.y.tolist() == [i // 15 for i in numbers] or list(data.y) == ["cat"] * 14 + ["dog"] * 14


def test_too_many_are_refused(photos, hurt):
    for i in range(4):
        hurt(photos / f"cat/{i:02d}.png", "other" if i else "cut")
    message = refusal(load_dataset, photos)
    assert "cannot be read: copy them again" in message and "more than a tenth" in message
    for i in range(4):
        assert f"{i:02d}.png" in message
    assert "more than a tenth" in refusal(read_samples, str(photos))


def test_discovery_has_the_same_rule(photos, hurt):
    hurt(photos / "cat/03.png")
    with pytest.warns(UserWarning, match="1 file of 30 cannot be read as an image, left out.*cat/03.png"):
        samples = read_samples(str(photos))
    assert len(samples.rows) == len(samples.names) == 29 and samples.rows.read(3, None)[0, 0, 0] == 4


def test_tables_and_splits_stay_with_their_rows(photos, hurt, tmp_path):
    table = photos / "labels.csv"
    names = [f"{kind}/{i:02d}.png" for kind in ("cat", "dog") for i in range(15)]
    table.write_text("file,plate,age\n" + "".join(f"{name},p{i % 3},{i}\n" for i, name in enumerate(names)))
    hurt(photos / "cat/00.png")
    for source, options in ((photos, {"labels": table}), (table, {"modality": "images"})):
        data, said = read(source, label="age", groups="plate", target="number", **options)
        assert sum("left out" in line for line in said) == 1
        assert np.array_equal(data.x[:, 0, 0, 0], data.y) and len(data.y) == 29
        assert [str(each) for each in data.groups] == [f"p{int(i) % 3}" for i in data.y]
    (tmp_path / "split/test").mkdir(parents=True)
    (photos / "dog").rename(tmp_path / "split/test/dog")
    photos.rename(tmp_path / "split/train")
    data, said = read(tmp_path / "split")
    assert "no row is of it: train/cat/00.png (" in said[-1]
    assert len(data.x_train) == 14 and len(data.x_test) == 15 and data.x_test[0, 0, 0, 0] == 15


def test_instruments_channels_and_tiles(tmp_path, hurt):
    tifffile = pytest.importorskip("tifffile")
    for i in range(12):
        for channel in (1, 2):
            image = rng.integers(0, 60_000, (32, 32), dtype=np.uint16)
            image[0, 0] = 100 * channel + i
            tifffile.imwrite(tmp_path / f"s{i:02d}_w{channel}.tif", image)
    hurt(tmp_path / "s04_w2.tif")
    data, said = read(tmp_path)
    assert len(data.x) == 23 and data.x[:, 0, 0, 0].tolist() == [
        100 * c + i for i in range(12) for c in (1, 2) if (i, c) != (4, 2)
    ]
    pattern = {"channel_files": "{name}_w{channel}.tif"}
    for options in ({}, {"cache": tmp_path.parent / "cache"}):
        data, said = read(tmp_path, **pattern, **options)
        assert data.x[:][:, 0, 0].tolist() == [[100 + i, 200 + i] for i in range(12) if i != 4]
        assert data.row_names == [f"s{i:02d}" for i in range(12) if i != 4]
    data, said = read(tmp_path, tile=16, overlap=0)
    assert len(data.x) == 23 * 4 and sum("left out, so that" in line for line in said) == 1
    with pytest.warns(UserWarning, match="1 file of 24 cannot be read"):
        assert len(read_samples(str(tmp_path), **pattern).rows) == 11


def test_discovery_refuses_damaged_arrays(tmp_path):
    x = rng.integers(0, 255, (30, 16, 16), dtype=np.uint8)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "y.npz", x=x)
    for name in ("x.npy", "y.npz"):
        content = bytearray((tmp_path / name).read_bytes())
        content[2000:3000] = bytes(1000)
        (tmp_path / name).write_bytes(content[:-1] if name == "x.npy" else content)
        assert f"{name} as an" in refusal(read_samples, str(tmp_path / name))


@pytest.mark.parametrize(
    ("option", "line"),
    [
        ({"width": 9}, "so width=9 has no effect; leave width out"),
        ({"time": "t"}, "so time=t has no effect; leave time out"),
        ({"alphabet": "AB"}, "on which alphabet=AB has no effect; leave it out"),
        ({"overlap": 4}, "overlap is for tiles: give their side, too"),
        ({"encoding": "latin-1"}, "so encoding=latin-1 has no effect; leave encoding out"),
    ],
)
def test_discovery_refuses_options_without_an_effect(photos, option, line):
    for path in (photos, photos / "cat/00.png"):
        assert line in refusal(read_samples, str(path), **option)
