"""Large images by their tiles: fit, embed with a map, discover, locate and crop."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_tools import call

from viewsmith.data import tiles

tifffile = pytest.importorskip("tifffile")
pytestmark = pytest.mark.usefixtures("small_searches")

KEYS = [(34735, "H", 8, (1, 1, 0, 1, 1025, 0, 1, 1), True)]
PLACE = [(33550, "d", 3, (2.0, 2.0, 0.0), True), (33922, "d", 6, (0.0, 0, 0, 1000, 5000, 0), True)]


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """A scene of 16 bits and two channels with disks, of which the right quarter is empty; and their centers."""
    rng = np.random.default_rng(0)
    x = rng.normal(300, 5, (2, 240, 400))
    yy, xx = np.mgrid[:240, :400]
    places = [
        (r + rng.integers(-6, 7), c + rng.integers(-6, 7)) for r in range(24, 240, 48) for c in range(24, 300, 46)
    ]
    for row, column in places:
        disk = np.hypot(yy - row, xx - column) < 9
        x[0][disk] += 2000
        x[1][disk] += 1000 * (1 + np.sin(xx + yy))[disk]
    path = tmp_path_factory.mktemp("scene") / "scene.tif"
    tifffile.imwrite(
        path, x.astype("uint16"), photometric="minisblack", metadata={"axes": "CYX"}, extratags=KEYS + PLACE
    )
    return path, np.array(places)


def test_a_run_and_a_map_of_a_scene(scene, tmp_path):
    path, _ = scene
    result = call("fit", path, "--tile", 32, "--overlap", 8, "--set", "n_components=4", "--out", tmp_path / "run")
    assert result.code == 0 and "tiles of 32 x 32 pixels" in result.err and "empty ones left out" in result.err
    result = call("embed", tmp_path / "run", path, "--out", tmp_path / "h.csv", "--map", tmp_path / "map.tif")
    assert result.code == 0, result.err
    table = pd.read_csv(tmp_path / "h.csv")
    row = table.iloc[9]
    assert row["name"] == f"scene.tif@{row['left']},{row['top']}"
    assert row["x"] == 1000 + 2 * (row["left"] + 16) and row["y"] == 5000 - 2 * (row["top"] + 16)
    with tifffile.TiffFile(tmp_path / "map.tif") as file:
        grid, tags = file.asarray(), file.pages[0].geotiff_tags
    columns = [name for name in table if name[0] == "h"]
    assert grid.shape == (len(columns), 10, 17) and np.isnan(grid[0, :, -1]).all()
    np.testing.assert_allclose(grid[:, row["top"] // 24, row["left"] // 24], row[columns].astype(float), rtol=1e-4)
    tags["ModelTransformation"] = np.array(tags["ModelTransformation"])
    assert tags["ModelTransformation"][0, 0] == 48 and tags["GTRasterTypeGeoKey"] == 1
    assert tags["ModelTransformation"][0, 3] == 1000 + 2 * 4  # the left edge of what a pixel stands for
    assert (tmp_path / "map.png").exists()
    arrays = call("embed", tmp_path / "run", path, "--overlap", 0, "--out", tmp_path / "h.npz")
    assert arrays.code == 0
    with np.load(tmp_path / "h.npz") as found:
        assert set(found) == {"H", "names", "left", "top", "x", "y"} and found["left"].max() <= 320
    result = call("embed", tmp_path / "run", path, "--out", tmp_path / "h.csv", "--map", tmp_path / "map.jpg")
    assert result.refused("expected a file name that ends in .tif")


def test_a_map_replaces_no_data_and_no_other_picture(scene, tmp_path):
    path = Path(shutil.copy(scene[0], tmp_path))
    assert call("fit", path, "--tile", 32, "--set", "n_components=4", "--out", tmp_path / "run").code == 0
    embed = ("embed", tmp_path / "run", path, "--out", tmp_path / "h.csv", "--map")
    assert call(*embed, path).refused("--map is", "the data themselves")
    (tmp_path / "photo.png").write_text("mine")
    assert call(*embed, tmp_path / "photo.tif").refused("also writes", "photo.png", "give another name")
    assert (tmp_path / "photo.png").read_text() == "mine" and path.read_bytes() == scene[0].read_bytes()
    for _ in range(2):  # an earlier map is replaced
        assert call(*embed, tmp_path / "map.tif").code == 0


def test_labels_from_a_map_of_a_scene(scene, tmp_path):
    path, _ = scene
    classes = np.zeros((240, 400), np.uint8)
    for top in (0, 130):
        classes[top : top + 60, :150], classes[top : top + 60, 150:300] = 1, 2
    tifffile.imwrite(tmp_path / "map.tif", classes)
    flags = ("--labels", tmp_path / "map.tif")
    options = ("--tile", 32, "--overlap", 8, "--set", "n_components=4", "--out", tmp_path / "run")
    result = call("fit", path, *flags, *options)
    assert result.code == 0 and "whole fields" not in result.err  # each class has several
    assert f"`viewsmith evaluate {tmp_path / 'run'} {path} --labels {tmp_path / 'map.tif'}`" in result.err
    result = call("evaluate", tmp_path / "run", path, *flags, "--protocols", "knn")
    assert result.code == 0 and "2 classes" in result.out
    result = call("evaluate", tmp_path / "run", path)
    assert result.code == 2 and "--labels FILE (FASTA, names of files, a map of a scene)" in result.err


def test_a_map_is_of_tiles(tmp_path):
    x = np.random.default_rng(0).integers(0, 4000, (6, 8, 8, 2)).astype(np.uint16)
    np.save(tmp_path / "x.npy", x)
    assert call("fit", tmp_path / "x.npy", "--set", "n_components=2", "--out", tmp_path / "run").code == 0
    result = call(
        "embed", tmp_path / "run", tmp_path / "x.npy", "--out", tmp_path / "h.csv", "--map", tmp_path / "m.tif"
    )
    assert result.refused("--map is for tiles of a large image", "add --tile 256")


def test_things_in_one_scene_are_found_once_in_its_pixels(scene, tmp_path):
    path, places = scene
    out = tmp_path / "found"
    flags = ("--tile", 64, "--overlap", 24, "--image-size", 64, "--max-parts", 6)
    result = call("discover", path, *flags, "--out", out)
    assert result.code == 0, result.err
    table = pd.read_csv(out / "parts.csv")
    assert set(table["file"]) == {"scene.tif"} and len(table) > 0.7 * len(places)
    centers = np.stack([table["top"] + table["bottom"], table["left"] + table["right"]], 1) / 2
    nearest = np.linalg.norm(centers[:, None] - places, axis=2)
    assert np.median(nearest.min(1)) < 8
    assert np.mean((nearest < 8).sum(0) <= 1) > 0.9  # found once, also at the seams
    np.testing.assert_allclose(table["x"], 1000 + centers[:, 1] * 2)
    found = json.loads((out / "coco.json").read_text())
    assert found["images"] == [{"id": 1, "file_name": "scene.tif", "height": 240, "width": 400}]
    assert len(found["annotations"]) == len(table) == len(list((out / "crops").iterdir()))
    result = call("locate", out, path, "--tile", 64, "--overlap", 24, "--n", 6, "--out", tmp_path / "again.csv")
    assert result.code == 0, result.err
    assert (tmp_path / "again.csv").read_text() == (out / "parts.csv").read_text()
    result = call("locate", "--crops", out, path, "--tile", 64, "--overlap", 24, "--n", 6, "--out", tmp_path / "crops")
    assert result.code == 0 and len(list((tmp_path / "crops").iterdir())) == len(table)


def test_things_on_a_plain_background_need_no_tiles(scene, tmp_path):
    path, places = scene
    assert call("discover", path, "--out", tmp_path / "found").code == 0
    table = pd.read_csv(tmp_path / "found" / "parts.csv")
    centers = np.stack([table["top"] + table["bottom"], table["left"] + table["right"]], 1) / 2
    nearest = np.linalg.norm(centers[:, None] - places, axis=2)
    assert len(table) == len(places) and nearest.min(0).max() < 3


def test_tiles_that_stay_in_the_file_give_the_same_representations(scene, tmp_path, monkeypatch):
    path, _ = scene
    for name, most in (("memory", tiles.KEPT), ("file", 0)):
        monkeypatch.setattr(tiles, "KEPT", most)
        run = tmp_path / name
        result = call("fit", path, "--tile", 40, "--set", "n_components=4", "--out", run)
        assert result.code == 0, result.err
        assert call("embed", run, path, "--out", tmp_path / f"{name}.npy").code == 0
    found = [np.load(tmp_path / f"{name}.npy") for name in ("memory", "file")]
    np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-3)


def test_a_run_on_the_objects_of_a_mask(scene, tmp_path):
    path, places = scene
    yy, xx = np.mgrid[:240, :400]
    numbers = np.zeros((240, 400), np.uint16)
    for number, (row, column) in enumerate(places, 1):
        numbers[np.hypot(yy - row, xx - column) < 9] = number
    tifffile.imwrite(tmp_path / "mask.tif", numbers)
    masks = ("--masks", tmp_path / "mask.tif")
    result = call("fit", path, *masks, "--set", "n_components=4", "--out", tmp_path / "run")
    assert result.code == 0 and f"--masks {tmp_path / 'mask.tif'}" in result.err, result.err
    assert call("embed", tmp_path / "run", path, *masks, "--out", tmp_path / "h.csv").code == 0
    table = pd.read_csv(tmp_path / "h.csv")
    centers = table[["top", "left"]].to_numpy() + 10  # a square of 20 holds a disk of 17
    np.testing.assert_array_equal(centers, np.array(places)[table["object"] - 1].clip(10, [230, 390]))
    assert call("report", tmp_path / "run", *masks).code == 0
    refused = call("embed", tmp_path / "run", path, *masks, "--out", tmp_path / "h.csv", "--map", tmp_path / "m.tif")
    assert refused.code == 2 and "--map is for tiles of a grid" in refused.err
    assert "the samples of the run are objects" in call("embed", tmp_path / "run", path, "--out", "h.csv").err
