"""View caches of real data: the generator of a run on every modality, precomputed views, and errors."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from cases import slow
from refusals import refusal
from viewsmith import DiffAug, GenView, PiNDA
from viewsmith.data import load_dataset
from viewsmith.data.view_cache import ViewCacheFolder
from viewsmith.views.generated.noise_level import adaptive_levels, noise_tolerance
from viewsmith.workflows.generate import DiffusionGenerator, PrecomputedViews, generate_cache

N = 60
SMALL = {"epochs": 2, "n_components": 16, "batch_size": 32, "random_state": 0}


def save(modality: str, folder: Path) -> Path:
    """An .npz file of a modality, with test rows that must not be used."""
    rng = np.random.default_rng(0)
    x = {
        "vectors": rng.normal(size=(N + 5, 6)).astype(np.float32) * [1, 2, 3, 4, 5, 0] + 3,
        "images": rng.integers(0, 256, (N + 5, 16, 16, 3), dtype=np.uint8),
        "dna": rng.choice(np.frombuffer(b"ACGT", np.uint8), (N + 5, 40)),
    }[modality]
    x = x.astype(np.float32) if modality == "vectors" else x
    np.savez(folder / f"{modality}.npz", X_train=x[:N], X_test=x[N:])
    return folder / f"{modality}.npz"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """By modality: data set, run with a generator, and a view cache that it generated."""
    folder, found = tmp_path_factory.mktemp("runs"), {}
    for modality in ("vectors", "images", "dna"):
        dataset = load_dataset(save(modality, folder))
        DiffAug(phases="AB", **SMALL).fit(dataset.x_train, run=folder / modality)
        cache = generate_cache(
            dataset, folder / f"{modality} cache", run=folder / modality, views_per_sample=2, batch_size=16, steps=4
        )
        found[modality] = dataset, folder / modality, cache
    return found


@pytest.mark.parametrize("modality", ["vectors", slow("images"), "dna"])
def test_views_are_in_the_units_of_the_data(runs, modality):
    dataset, _, cache = runs[modality]
    views = cache.read("views").numpy()
    assert views.shape == (N, 2, *dataset.x.shape[1:]) and views.dtype == dataset.x.dtype
    assert not np.array_equal(views[:, 0], views[:, 1]) and not np.array_equal(views[:, 0], dataset.x_train)
    fraction, level = cache.read_levels()
    assert ((fraction >= 0) & (fraction <= 1)).all() and torch.equal(level[:, 0], adaptive_levels(fraction))
    if modality == "dna":
        assert set(np.unique(views)) <= set(b"ACGT")
    if modality == "vectors":
        assert (views[..., 5] == 3).all()  # the constant column


@pytest.mark.parametrize("modality", ["vectors", slow("images"), slow("dna")])
def test_a_continued_cache_and_shards_give_identical_files(runs, modality, tmp_path):
    dataset, run, cache = runs[modality]
    shutil.copytree(cache.path, tmp_path / "cache")
    for number in (0, 2):
        ViewCacheFolder(tmp_path / "cache").block(number).unlink()
    options = {"run": run, "views_per_sample": 2, "batch_size": 16, "steps": 4}
    again = generate_cache(dataset, tmp_path / "cache", **options)
    for part in (2, 1):
        shards = generate_cache(dataset, tmp_path / "shards", shard=(part, 2), **options)
    for number in cache.numbers():
        assert again.block(number).read_bytes() == cache.block(number).read_bytes()
        assert shards.block(number).read_bytes() == cache.block(number).read_bytes()


@pytest.mark.parametrize("modality", ["vectors", slow("images"), slow("dna")])
def test_another_batch_size_changes_only_rounding(runs, modality, tmp_path):
    dataset, run, cache = runs[modality]
    other = generate_cache(dataset, tmp_path / "cache", run=run, views_per_sample=2, batch_size=7, steps=4)
    one, two = cache.read("views").double(), other.read("views").double()
    if modality == "vectors":
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)
    elif modality == "images":
        assert (one - two).abs().max() <= 1
    else:
        assert (one != two).double().mean() < 0.01  # two codes are nearly equal, and rounding decides which is larger


def test_a_view_cache_with_the_foreground_of_equation_7(runs, tmp_path):
    dataset, run, _ = runs["images"]
    made = generate_cache(dataset, tmp_path / "cache", run=run, foreground="min-max")
    from viewsmith import load

    model = load(run)
    x, encoder = model.samples(dataset.x_train), model.method_.generated.encoder
    assert torch.equal(made.read_levels()[0], noise_tolerance(encoder, x, min_max=True)[0])
    assert not torch.equal(made.read_levels()[0], noise_tolerance(encoder, x)[0])
    assert "foreground" in refusal(generate_cache, dataset, tmp_path / "cache", run=run)
    for given in ({"noise": "random"}, {"generator": "folder:views"}):
        assert "adaptive noise" in refusal(generate_cache, dataset, tmp_path / "no", foreground="min-max", **given)


@pytest.mark.parametrize("modality", ["vectors", slow("images"), slow("dna")])
def test_views_on_disk_train_as_views_in_memory(runs, modality, monkeypatch):
    dataset, _, cache = runs[modality]

    def weights():
        options = {**SMALL, "epochs": 3, "quality_features": "views", "view_cache": str(cache.path)}
        return GenView(**options).fit(dataset.x_train).method_.state_dict()

    def in_memory(path, data):
        views = ViewCacheFolder(path).read("views")
        return [data.modality.scaled(views[:, number].contiguous(), data.layer) for number in range(views.shape[1])]

    on_disk = weights()
    monkeypatch.setattr("viewsmith.methods.genview.estimator._cached_views", in_memory)
    expected = weights()
    assert all(torch.equal(value, expected[name]) for name, value in on_disk.items())


def test_a_generator_trained_for_the_cache(runs, tmp_path):
    dataset, _, _ = runs["vectors"]
    cache = generate_cache(dataset, tmp_path / "cache", epochs=2, seed=5)
    assert (tmp_path / "cache" / "generator" / "model.safetensors").exists()
    views, stamp = cache.read("views"), (tmp_path / "cache" / "generator" / "model.safetensors").stat().st_mtime_ns
    cache.block(0).unlink()
    assert torch.equal(generate_cache(dataset, tmp_path / "cache", epochs=2, seed=5).read("views"), views)
    assert (tmp_path / "cache" / "generator" / "model.safetensors").stat().st_mtime_ns == stamp
    assert "shards need a trained generator" in refusal(generate_cache, dataset, tmp_path / "other", shard=(1, 2))
    assert not (tmp_path / "other").exists()


def test_views_of_a_folder(tmp_path):
    from PIL import Image

    sources, views = np.random.default_rng(0).integers(0, 256, (2, 12, 8, 8, 3), dtype=np.uint8)
    for folder, images, suffix in (("data", sources, "png"), ("views", views, "bmp")):
        for row, image in enumerate(images):
            file = tmp_path / folder / "ab"[row // 6] / f"{row % 6}.{suffix}"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(file)
    dataset = load_dataset(tmp_path / "data")
    cache = generate_cache(dataset, tmp_path / "cache", generator=f"folder:{tmp_path / 'views'}", transductive=True)
    assert np.array_equal(cache.read("views")[:, 0], views)
    assert cache.read_levels()[1].tolist() == [[-1]] * 12
    # Several of each.
    for side in ("0", "1"):
        shutil.copytree(tmp_path / "views", tmp_path / "both" / side)
    many = generate_cache(dataset, tmp_path / "many", generator=f"folder:{tmp_path / 'both'}", transductive=True)
    assert many.read("views").shape == (12, 2, 8, 8, 3)
    (tmp_path / "views" / "b" / "1.bmp").unlink()
    message = refusal(
        generate_cache, dataset, tmp_path / "new", generator=f"folder:{tmp_path / 'views'}", transductive=True
    )
    assert "no view of b/1.png" in message and not (tmp_path / "new").exists()


def test_views_of_an_array(runs, tmp_path):
    dataset, _, cache = runs["vectors"]
    np.savez(tmp_path / "views.npz", views=cache.read("views").numpy())
    given = generate_cache(dataset, tmp_path / "cache", generator=f"folder:{tmp_path / 'views.npz'}")
    assert torch.equal(given.read("views"), cache.read("views"))
    np.savez(tmp_path / "short.npz", views=cache.read("views").numpy()[:-1])
    assert "expected (60, K, 6)" in refusal(PrecomputedViews, tmp_path / "short.npz", dataset.x_train, None)
    assert "no views at" in refusal(PrecomputedViews, tmp_path / "none.npz", dataset.x_train, None)
    np.savez(tmp_path / "double.npz", views=cache.read("views").double().numpy())
    assert "float64" in refusal(PrecomputedViews, tmp_path / "double.npz", dataset.x_train, None)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"generator": "dalle"}, "expected unclip:WEIGHTS, diffusion or folder:PATH"),
        ({"generator": "unclip"}, "unclip needs weights"),
        ({"generator": "unclip:nowhere"}, "the data are vectors"),
        ({"generator": "folder"}, "needs a path"),
        ({"generator": "folder:views", "noise": "random"}, "has no option noise"),
        ({"guidance": 3.0}, "has no option guidance"),
        ({"noise": "loud"}, "expected adaptive"),
    ],
)
def test_invalid_options_are_refused(runs, tmp_path, options, part):
    assert part in refusal(generate_cache, runs["vectors"][0], tmp_path / "cache", **options)
    assert not (tmp_path / "cache").exists()


def test_unsuitable_runs_are_refused(runs, tmp_path):
    dataset, _, _ = runs["vectors"]
    model = PiNDA(**SMALL).fit(dataset.x_train, run=tmp_path / "pinda")
    assert "no generator" in refusal(DiffusionGenerator, model)
    assert "no generator" in refusal(generate_cache, dataset, tmp_path / "cache", run=tmp_path / "pinda")
    message = refusal(generate_cache, dataset, tmp_path / "cache", run=runs["dna"][1])
    assert "is of dna" in message and not (tmp_path / "cache").exists()
    plain = DiffAug(phases="A", **SMALL).fit(dataset.x_train)
    assert "no generator" in refusal(DiffusionGenerator, plain)


def test_view_caches_accept_gray_images_with_and_without_a_channel_dimension(tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (24, 16, 16), dtype=np.uint8)
    np.savez(tmp_path / "x.npz", X=x[..., None])
    np.savez(tmp_path / "views.npz", views=x[:, None, ::-1])
    dataset = load_dataset(tmp_path / "x.npz")
    cache = generate_cache(dataset, tmp_path / "cache", generator=f"folder:{tmp_path / 'views.npz'}")
    for given in (x, x[..., None]):
        model = GenView(epochs=1, batch_size=8, view_cache=str(tmp_path / "cache"), random_state=0).fit(given)
        assert np.array_equal(model.generated_views(given)["views"], given[:, None, ::-1])
        rows = SimpleNamespace(
            modality="images", x_train=given, x_test=None, y_train=None, fit_rows=lambda _, x=given: x
        )
        assert [each.title for each in model.figures(rows)[2:]] == ["Views", "Symmetries", "Generated views"]
    DiffAug(phases="AB", **SMALL).fit(x, run=tmp_path / "run")
    made = generate_cache(dataset, tmp_path / "made", run=tmp_path / "run")
    assert cache.read("views").shape == made.read("views").shape == (24, 1, 16, 16, 1)
