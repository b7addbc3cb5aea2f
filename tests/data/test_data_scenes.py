"""Scenes of a spectrometer in files of arrays, as they are published, with maps of their classes."""

import re

import numpy as np
import pytest
import scipy.io

from refusals import refusal
from viewsmith.data import load_dataset
from viewsmith.data.dataset import check_split

RNG = np.random.default_rng(0)
CUBE = RNG.integers(900, 9000, (24, 40, 30)).astype("uint16")
MAP = np.zeros((24, 40), np.uint8)
for kind, left in ((1, 0), (2, 10), (1, 20), (2, 30)):
    MAP[2:22, left + 1 : left + 9] = kind
ASKED = "is one scene of 24 x 40 pixels and 30 channels"
UNLESS = "; if it is not: --modality images"
TILES = {"tile": 5, "overlap": 3}


def saved(path, arrays):
    if path.suffix == ".mat":
        scipy.io.savemat(path, arrays)
    elif path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array
    return path


def tiles_of(path, **options):
    with pytest.warns(UserWarning, match="have no label"):
        data = load_dataset(path, **TILES, **options)
    np.testing.assert_array_equal(data.x[0], CUBE[:5, :5].astype(data.x.dtype))
    centers = MAP[data.windows.tops + 2, data.windows.lefts + 2]
    np.testing.assert_array_equal(np.where(data.y == -1, 0, data.y), centers)
    assert data.split == "groups" and set(data.y_test) == {1, 2}
    return data


@pytest.mark.parametrize("dtype", ["uint16", "int16", "float64", "uint8"])
def test_a_map_beside_a_scene_is_named_with_the_command(tmp_path, dtype):
    path = saved(tmp_path / "Salinas_corrected.mat", {"salinas_corrected": CUBE.astype(dtype)})
    labels = saved(tmp_path / "Salinas_gt.mat", {"salinas_gt": MAP})
    message = refusal(load_dataset, path)
    assert message.endswith(
        f"{ASKED}, with a map of their classes, {labels}: cut it into tiles, --axes YXC --tile 4 "
        f"--labels {labels}{UNLESS if dtype != 'int16' else ''}"
    )
    if dtype != "int16":
        assert load_dataset(path, modality="images").x.shape == (24, 40, 30)
    if dtype != "uint8":
        tiles_of(path, axes="YXC", labels=labels)
    saved(labels, {"salinas_gt": MAP[:, :30]})  # of another scene
    assert dtype != "uint16" or load_dataset(path).x.shape == (24, 40, 30)


@pytest.mark.parametrize("ending", ["mat", "npz", "h5"])
@pytest.mark.parametrize("names", [("data", "gt"), ("X", "y")])
def test_a_map_in_the_file_of_its_scene_has_its_labels(tmp_path, capsys, ending, names):
    path = saved(tmp_path / f"scene.{ending}", dict(zip(names, (CUBE, MAP), strict=True)))
    message = refusal(load_dataset, path)
    told = f"with a map of their classes, {names[1]}: cut it into tiles, --axes YXC --tile 4{UNLESS}"
    assert message.endswith(f"{ASKED}, {told}")
    data = tiles_of(path)
    assert "2 classes for" in capsys.readouterr().err
    np.testing.assert_array_equal(load_dataset(path, schema=data.schema).y, data.y)
    asked = "overlap is for tiles" if ending == "mat" else "leave overlap out, or, of one scene, give the side"
    assert re.search(asked, refusal(load_dataset, path, overlap=3))


def test_several_maps_are_told_by_their_names(tmp_path):
    arrays = {"cube": CUBE, "TR": MAP // 2, "TE": MAP}
    assert load_dataset(saved(tmp_path / "a.mat", arrays), **TILES).y is None
    tiles_of(saved(tmp_path / "b.mat", arrays | {"cube_gt": MAP}))
    heights = {"cube": CUBE, "heights": np.arange(MAP.size).reshape(MAP.shape)}  # no classes
    assert load_dataset(saved(tmp_path / "c.mat", heights)).x.shape == CUBE.shape


@pytest.mark.parametrize("by_pixel", [False, True])
def test_pixels_in_one_axis_are_a_scene(tmp_path, by_pixel):
    pixels = CUBE.transpose(1, 0, 2).reshape(-1, 30)  # column by column, as MATLAB has them
    arrays = {"Y": pixels if by_pixel else pixels.T, "lines": 24, "cols": 40, "nBand": 224, "maxValue": 9000}
    path = saved(tmp_path / "jasperRidge2_R198.mat", arrays)
    assert refusal(load_dataset, path).endswith(f"{ASKED}: cut it into tiles, --axes YXC --tile 4")
    np.testing.assert_array_equal(load_dataset(path, axes="YXC", tile=24, overlap=0).x[0], CUBE[:, :24])
    saved(path, {"V" if name == "Y" else name: value for name, value in arrays.items()})
    assert refusal(load_dataset, path).endswith("; if it is not: --modality vectors") is by_pixel
    assert load_dataset(path, modality="vectors").x.shape == arrays["Y"].shape
    del arrays["nBand"]
    saved(path, arrays)
    assert "tile of 24 x 24 pixels" not in refusal(load_dataset, path)


def test_classes_of_one_field_leave_nothing_to_evaluate(tmp_path, capsys):
    path = saved(tmp_path / "scene.mat", {"data": CUBE, "gt": np.repeat(np.uint8([[1], [2]]), 12, 0).repeat(40, 1)})
    data = load_dataset(path, tile=5, overlap=0)
    assert data.test_index is None and "nothing is held out" in capsys.readouterr().err
    assert "no class of the map has two fields" in refusal(check_split, data)


@pytest.mark.parametrize("ending", ["mat", "npz", "h5"])
def test_discovery_takes_a_scene_by_tiles(tmp_path, ending):
    from viewsmith.data.any_size import read_samples

    path = saved(tmp_path / f"scene.{ending}", {"data": CUBE})
    samples = read_samples(str(path), "auto", axes="YXC", tile=12, overlap=0)
    assert len(samples.names) == 8 and samples.modality == "images"


def test_several_labels_of_each_image_and_bad_channels_are_no_map(tmp_path):
    images = {"X": RNG.integers(0, 255, (32, 16, 16)).astype("uint8"), "labels": RNG.integers(0, 2, (32, 16))}
    assert "one label per row" in refusal(load_dataset, saved(tmp_path / "a.npz", images))
    bad = np.repeat(RNG.integers(0, 2, (1, 8)), 32, axis=0)  # channels of all recordings
    recordings = {"X": RNG.normal(size=(32, 8, 100)), "bad": bad}
    for ending in ("mat", "npz"):
        assert "--modality series" in refusal(load_dataset, saved(tmp_path / f"b.{ending}", recordings))


def test_sizes_without_a_value_are_none(tmp_path):
    arrays = {"X": RNG.normal(size=(30, 120)), "nRow": np.nan, "nCol": 12, "nBand": 30}
    assert load_dataset(saved(tmp_path / "a.mat", arrays)).x.shape == (30, 120)
