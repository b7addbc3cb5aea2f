"""locate, crop and generate on rows that stay on disk: the same files as from rows in memory, and refusals."""

import numpy as np
import pandas as pd
import pytest
from cli_tools import call, files, good
from PIL import Image
from safetensors.torch import save_file

import viewsmith
from cases import slow
from located_toys import bright, pointing
from viewsmith.core import rows as row_source
from viewsmith.core.rows import RowSource
from viewsmith.data.view_cache import ViewCacheFolder
from viewsmith.methods.crl_tac import figures as locations

SMALL = ("--epochs", 2, "--batch-size", 16)
SMALL += ("--set", "n_components=4", "--set", "hidden=8", "--set", "generator_epochs=1")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(row_source, "BLOCK_VALUES", 600)
    monkeypatch.setattr(locations, "BLOCK", 7)


def contents(folder):
    """Content of all files in a folder by path."""
    return {name: content for name, (content, _) in files(folder).items()}


@pytest.fixture
def only_sources(monkeypatch):
    """The rows of a view cache that is generated must not be read as a whole."""

    def refuse(self, *args, **kwargs):
        raise AssertionError(f"{self.name} was read as a whole")

    monkeypatch.setattr(RowSource, "__array__", refuse)


def located(folder, source, *options):
    """A run of crl-tac whose channel selects bright crops, or one mask."""
    good("fit", source, "--method", "crl-tac", "--epochs", 1, "--out", folder, "--set", "draws=2", *options)
    model = pointing(viewsmith.load(folder))
    save_file(model.weights(), folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images in a folder and as an array, and vectors, each with a run of crl-tac."""
    folder = tmp_path_factory.mktemp("streamed")
    x = bright(20)[0]
    x[3] = 0
    np.savez(folder / "images.npz", X=x)
    for row, image in enumerate(x):
        file = folder / "photos" / ("cat", "dog")[row % 2] / f"{row:02d}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)
    np.save(folder / "x.npy", np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32))
    located(folder / "of-photos", folder / "photos")
    located(folder / "of-x", folder / "x.npy", "--set", "masks=6")
    return folder


CASES = [("photos", "of-photos", "--cache"), ("images.npz", "of-photos", "--stream"), ("x.npy", "of-x", "--stream")]


@pytest.mark.parametrize(("source", "run", "option"), CASES)
def test_locations_in_rows_on_disk_are_those_in_memory(folder, tmp_path, only_sources, source, run, option):
    options = [option, tmp_path / "cache"] if option == "--cache" else [option]
    good("locate", folder / run, folder / source, "--out", tmp_path / "memory.csv", "--n", 2)
    good("locate", folder / run, folder / source, "--out", tmp_path / "disk.csv", "--n", 2, *options)
    assert (tmp_path / "disk.csv").read_bytes() == (tmp_path / "memory.csv").read_bytes()
    assert len(pd.read_csv(tmp_path / "disk.csv")) > 10
    assert (tmp_path / "cache").exists() == (option == "--cache")


@pytest.mark.parametrize(("source", "run", "option"), CASES[:2])
def test_crops_of_rows_on_disk_are_those_in_memory(folder, tmp_path, only_sources, source, run, option):
    options = [option, tmp_path / "cache"] if option == "--cache" else [option]
    good("locate", "--crops", folder / run, folder / source, "--out", tmp_path / "memory")
    good("locate", "--crops", folder / run, folder / source, "--out", tmp_path / "disk", *options)
    memory, disk = (contents(tmp_path / name) for name in ("memory", "disk"))
    assert memory == disk and len(memory) == 19


@pytest.fixture(scope="module")
def generators(tmp_path_factory):
    """Small images in a folder and vectors, and runs of diffaug on them."""
    folder, rng = tmp_path_factory.mktemp("generated"), np.random.default_rng(0)
    (folder / "photos").mkdir()
    for row in range(20):
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(folder / "photos" / f"{row:02d}.png")
    np.save(folder / "x.npy", rng.normal(size=(60, 5)).astype(np.float32))
    for name in ("photos", "x.npy"):
        good("fit", folder / name, "--method", "diffaug", "--out", folder / f"of-{name}", *SMALL)
    return folder


@pytest.mark.parametrize(
    ("source", "options"),
    [("photos", ()), slow("x.npy", ("--candidates", 2)), slow("x.npy", ("--noise", "random", "--views-per-sample", 2))],
    ids=str,
)
def test_views_of_rows_on_disk_are_those_of_rows_in_memory(generators, tmp_path, only_sources, source, options):
    command = ("generate", generators / source, "--run", generators / f"of-{source}", "--batch-size", 9, *options)
    good(*command, "--out", tmp_path / "memory")
    where = ("--cache", tmp_path / "images") if source == "photos" else ("--stream",)
    good(*command, "--out", tmp_path / "disk", *where)
    memory, disk = (contents(tmp_path / name) for name in ("memory", "disk"))
    assert memory == disk and "blocks/000002.safetensors" in memory
    assert (tmp_path / "images").exists() == (source == "photos")


def test_a_generator_is_trained_on_rows_on_disk(generators, tmp_path, only_sources):
    command = ("generate", generators / "x.npy", "--epochs", 1, "--stream", "--out", tmp_path / "cache")
    good(*command)
    assert ViewCacheFolder(tmp_path / "cache").read("views").shape == (60, 1, 5)
    before = contents(tmp_path / "cache")
    good(*command)
    assert contents(tmp_path / "cache") == before
    # A training in memory takes the views, whatever they were made from.
    model = viewsmith.GenView(epochs=1, view_cache=str(tmp_path / "cache"), random_state=0)
    model.fit(np.load(generators / "x.npy"))


def test_a_folder_of_views_for_images_on_disk(generators, tmp_path, only_sources):
    photos = generators / "photos"
    good("generate", photos, "--generator", f"folder:{photos}", "--cache", tmp_path / "i", "--out", tmp_path / "cache")
    rows = viewsmith.data.load_dataset(photos).x
    assert np.array_equal(ViewCacheFolder(tmp_path / "cache").read("views")[:, 0], rows)


@pytest.mark.parametrize("command", ["locate", "generate"])
def test_a_cache_for_anything_but_a_folder_is_refused(folder, tmp_path, command):
    run = () if command == "generate" else (folder / "of-photos",)
    result = call(command, *run, folder / "images.npz", "--cache", tmp_path / "i", "--out", tmp_path / "out.csv")
    assert result.refused("a folder of images, so cache", "leave cache out") and not list(tmp_path.iterdir())
