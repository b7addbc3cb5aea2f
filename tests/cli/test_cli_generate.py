"""``viewsmith generate`` and ``viewsmith export``: continued view caches, exported encoders, and errors."""

import csv
import resource
import shutil

import numpy as np
import pytest
import torch
from cli_tools import call, contents, files, good
from PIL import Image

from viewsmith.data.view_cache import ViewCacheFolder


@pytest.fixture(scope="module")
def made(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("caches")
    result = good("generate", data / "given.npz", "--out", folder / "cache", "--epochs", 2, "--batch-size", 8)
    assert result.out.splitlines() == [str(folder / "cache")]
    return folder / "cache"


def test_the_files_of_a_view_cache(made):
    with (made / "manifest.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [int(line["sample"]) for line in lines] == list(range(30))  # the train rows
    assert {line["generator"] for line in lines} == {"diffusion"}
    assert len(list((made / "blocks").iterdir())) == 4


def test_a_continued_view_cache_has_identical_files(made, data):
    before = files(made)
    (made / "blocks" / "000001.safetensors").unlink()
    (made / "manifest.csv").unlink()
    good("generate", data / "given.npz", "--out", made, "--epochs", 2, "--batch-size", 8)
    assert {name: content for name, (content, _) in files(made).items()} == {
        name: content for name, (content, _) in before.items()
    }


def test_views_are_chosen_among_candidates(made, data, tmp_path):
    """Each view kept is one of the candidates, which are the views of a cache with as many views of each sample."""
    options = ("--run", made / "generator", "--batch-size", 8, "--noise", "constant:300")
    good("generate", data / "given.npz", "--out", tmp_path / "all", *options, "--views-per-sample", 6)
    good(
        "generate", data / "given.npz", "--out", tmp_path / "kept", *options, "--views-per-sample", 2, "--candidates", 3
    )
    everything, kept = (ViewCacheFolder(tmp_path / name) for name in ("all", "kept"))
    views, seeds = everything.read("views"), everything.read("seed")
    rows = np.load(data / "given.npz")["X_train"]
    moved = 0
    for row, (pair, chosen) in enumerate(zip(kept.read("views"), kept.read("seed").tolist(), strict=True)):
        for view, seed in zip(pair, chosen, strict=True):
            number = seeds[row].tolist().index(seed) if seed != -1 else -1
            expected = views[row, number] if seed != -1 else torch.from_numpy(rows[row])
            assert torch.equal(view, expected)
            moved += number > 1
    assert moved, "the first candidates were always kept"
    refused = call("generate", data / "given.npz", "--out", tmp_path / "kept", *options, "--views-per-sample", 2)
    assert refused.refused("candidates is 3 there, 1 now")


def test_the_time_limit_is_one_of_the_views_too(made, data, tmp_path):
    line = ("generate", data / "given.npz", "--out", tmp_path / "cache", "--run", made / "generator", "--batch-size", 8)
    for done in (1, 2, 3):
        stopped = call(*line, "--minutes", 1e-9)
        assert stopped.code == 130 and f"after {done} of 4 blocks of views: the same command" in stopped.err
        assert len(list((tmp_path / "cache" / "blocks").iterdir())) == done
        assert not (tmp_path / "cache" / "manifest.csv").exists()
    good(*line, "--minutes", 1e-9)  # the last one
    assert torch.equal(ViewCacheFolder(tmp_path / "cache").read("views"), ViewCacheFolder(made).read("views"))


def test_the_time_limit_ends_the_search_of_noise_levels(made, data, tmp_path, monkeypatch):
    monkeypatch.setattr("viewsmith.core.distributed.LEAST_LIMIT", 0.0)
    line = ("generate", data / "given.npz", "--out", tmp_path / "cache", "--run", made / "generator")
    stopped = call(*line, "--minutes", 1e-9, "--noise", "adaptive")
    assert stopped.code == 130 and "noise levels of all samples" in stopped.err
    assert not (tmp_path / "cache").exists()


def test_shards_are_merged(made, data, tmp_path):
    options = ("--run", made / "generator", "--batch-size", 8)
    parts = [tmp_path / "one", tmp_path / "two"]
    for number, part in enumerate(parts, start=1):
        said = good("generate", data / "given.npz", "--out", part, *options, "--shard", f"{number}/2").err
        assert "2 of 4 blocks are for other shards" in said and not (part / "manifest.csv").exists()
    merged = [each for part in parts for each in ("--merge", part)]
    result = good("generate", data / "given.npz", "--out", tmp_path / "cache", *merged)
    assert result.out.splitlines() == [str(tmp_path / "cache")] and result.err == ""
    assert contents(tmp_path / "cache") == contents(made)


def test_blocks_that_no_shard_has_made_are_generated(made, data, tmp_path):
    options = ("--run", made / "generator", "--batch-size", 8)
    good("generate", data / "given.npz", "--out", tmp_path / "one", *options, "--shard", "1/2")
    good("generate", data / "given.npz", "--out", tmp_path / "cache", *options, "--merge", tmp_path / "one")
    assert contents(tmp_path / "cache") == contents(made)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (("--scheduler", "dpm"), "has no option scheduler"),
        (("--candidates", "2", "--noise", "random"), "gives each view a level of its own: use adaptive or constant:L"),
        (("--candidates", "2", "--generator", "folder:x.npz"), "has no option candidates"),
        (("--run", "nowhere"), "no run at nowhere"),
        (("--generator", "folder:nowhere.npz"), "no views at nowhere.npz"),
    ],
)
def test_refused_commands_write_no_files(data, tmp_path, options, part):
    assert call("generate", data / "given.npz", "--out", tmp_path / "cache", *options).refused(part)
    assert not (tmp_path / "cache").exists()


FILES = [("view_cache.json", 0), ("levels.safetensors", 0), ("blocks/000000.safetensors", 0), ("manifest.csv", 4)]


@pytest.mark.parametrize(("name", "blocks"), FILES)
def test_a_full_disk(made, data, tmp_path, name, blocks):
    """Each file of a view cache is longer than the files before it; the disk is full one byte before the end of one."""
    out, size = tmp_path / "cache", (made / name).stat().st_size - 1
    command = ("generate", data / "given.npz", "--out", out, "--run", made / "generator", "--batch-size", 8)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        assert call(*command).refused(f"no space left to write {out}", "free some space")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(list(out.glob("blocks/*"))) == blocks and out.exists() == bool(blocks)
    good(*command)
    assert contents(out) == contents(made)


@pytest.fixture
def pictures(tmp_path):
    """A folder of six images and a folder of views of them."""
    rng = np.random.default_rng(0)
    for folder in ("images", "given"):
        (tmp_path / folder).mkdir()
        for name in "abcdef":
            image = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(image).save(tmp_path / folder / f"{name}.png")
    return tmp_path


def test_an_unreadable_view_does_not_affect_other_blocks(pictures):
    broken = pictures / "given" / "e.png"
    whole = broken.read_bytes()
    broken.write_bytes(whole[:100])
    generator = f"folder:{pictures / 'given'}"
    command = (
        "generate",
        pictures / "images",
        "--out",
        pictures / "cache",
        "--generator",
        generator,
        "--batch-size",
        2,
    )
    assert call(*command).refused(str(broken))
    there = files(pictures / "cache")
    assert {"blocks/000000.safetensors", "blocks/000001.safetensors"} <= there.keys()
    broken.write_bytes(whole)
    good(*command)
    after = files(pictures / "cache")
    assert "manifest.csv" in after and all(after[name] == there[name] for name in there)


def test_views_of_a_view_cache_of_resized_images(pictures):
    for number, name in enumerate("abcdef"):
        image = np.random.default_rng(number).integers(0, 256, (20 + number, 24, 3), dtype=np.uint8)
        Image.fromarray(image).save(pictures / "images" / f"{name}.png")
    command = (pictures / "images", "--image-size", 16)
    cache = ("generate", *command, "--out", pictures / "cache", "--generator", f"folder:{pictures / 'given'}")
    good(*cache)
    out = ("--out", pictures / "views.npz")
    good("views", pictures / "cache", *command, *out)
    with np.load(pictures / "views.npz") as arrays:
        assert arrays["samples"].shape == (6, 16, 16, 3) and arrays["views"].shape == (6, 1, 16, 16, 3)
    (pictures / "views.npz").unlink()
    assert call("views", pictures / "cache", pictures / "images", "--image-size", 20, *out).refused("of other rows")
    result = call("views", pictures / "cache", pictures / "images", *out)  # of 6 sizes, which a line says
    assert result.code == 2 and "of other rows" in result.err
    good("fit", *command, "--epochs", 1, "--out", pictures / "run")
    assert call("views", pictures / "run", *command, *out).refused("--image-size has no effect for a run")
    good("views", pictures / "run", pictures / "images", *out)


def test_export(data, tmp_path, runs):
    result = good("export", runs / "plain", "--out", tmp_path / "encoder.safetensors")
    assert result.out.splitlines() == [str(tmp_path / "encoder.safetensors")] and "encoder_" in result.err
    assert call("export", runs / "plain", "--out", tmp_path / "e", "--format", "timm").refused(
        "timm has no encoder like"
    )
    assert call("export", runs / "plain", "--out", tmp_path / "no" / "e").refused("does not exist")
    assert {path.name for path in tmp_path.iterdir()} == {"encoder.safetensors"}


def test_a_training_with_the_view_cache_and_its_report(made, data, tmp_path):
    run = tmp_path / "run"
    good("fit", data / "given.npz", "--method", "genview", "--view-cache", made, "--epochs", 2, "--out", run)
    good("embed", run, data / "given.npz", "--out", tmp_path / "h.npz")
    good("evaluate", run, data / "given.npz", "--protocols", "knn")
    out = ("--out", tmp_path / "views.npz")
    good("views", run, data / "given.npz", *out)
    with np.load(tmp_path / "views.npz") as arrays:
        assert set(arrays.files) == {"index", "samples", "views", "level", "quality"}
        assert np.array_equal(arrays["views"], ViewCacheFolder(made).read("views"))
        assert arrays["quality"].shape == (30, 1)
    assert call("views", run, data / "given.npz", "--n", 2, *out).refused("2 views of each sample", "has 1")
    assert good("views", run, data / "given.npz", "--split", "test", *out).err == ""
    good("report", run)
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Generated views" in page and "noise level 400" in page and "quality" in page
    shutil.move(made, tmp_path / "elsewhere")
    result = good("views", run, data / "given.npz", "--n", 2, *out)
    assert "warning: no view cache of these rows" in result.err and "using fixed views" in result.err
    good("report", run)
    assert "noise level 400" not in (run / "report.html").read_text(encoding="utf-8")
    shutil.move(tmp_path / "elsewhere", made)


def test_views_of_a_view_cache(made, data, tmp_path):
    out = ("--out", tmp_path / "views.npz")
    good("views", made, data / "given.npz", *out)
    with np.load(tmp_path / "views.npz") as arrays, np.load(data / "given.npz") as given:
        assert set(arrays.files) == {"index", "samples", "views", "level", "quality", "tolerance"}
        assert np.array_equal(arrays["samples"], given["X_train"]) and arrays["views"].shape == (30, 1, 4)
        assert np.array_equal(arrays["index"], np.arange(30))
        with (made / "manifest.csv").open(newline="") as file:
            lines = list(csv.DictReader(file))
        for name in ("level", "quality"):
            assert [float(line[name]) for line in lines] == arrays[name][:, 0].tolist()
        assert len(set(arrays["level"][:, 0].tolist())) == 5 and np.isfinite(arrays["quality"]).all()
    (tmp_path / "views.npz").unlink()
    assert call("views", made, data / "x.npz", *out).refused("is of other rows")
    assert call("views", made, data / "given.npz", "--n", 2, *out).refused("has 1")
    assert call("views", made, data / "given.npz", "--seed", 1, *out).refused("--seed has no effect for a view cache")
    assert list(tmp_path.iterdir()) == []


def test_the_message_of_the_published_setting_names_the_weights(pictures):
    command = ("fit", pictures / "images", "--method", "genview", "--preset", "paper", "--out", pictures / "run")
    assert call(*command).refused("needs views of Stable unCLIP", "--generator unclip:stabilityai", "--view-cache")
    generator = f"folder:{pictures / 'given'}"
    good("generate", pictures / "images", "--out", pictures / "cache", "--generator", generator)
    (pictures / "none").mkdir()
    command += ("--view-cache", pictures / "cache", "--features", f"clip:{pictures / 'none'}")
    assert call(*command).refused("cannot load CLIP", "open_clip_model.safetensors")
    assert not (pictures / "run").exists()


def test_export_by_the_ending(data, tmp_path, runs, monkeypatch):
    forms = []
    monkeypatch.setattr("viewsmith.workflows.export.export_encoder", lambda model, out, form: forms.append(form) or "")
    for name in ("e.onnx", "e.safetensors", "e"):
        good("export", runs / "plain", "--out", tmp_path / name)
    assert forms == ["onnx", "safetensors", "safetensors"]
