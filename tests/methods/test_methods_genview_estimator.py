"""GenView on real arrays: view caches, frameworks, ablations, and errors."""

import numpy as np
import pytest
import torch

import viewsmith
from cases import slow
from refusals import refusal
from registered import FRAMEWORKS, labels
from viewsmith import Contrastive, DiffAug, GenView
from viewsmith.data import load_dataset
from viewsmith.data.view_cache import ViewCacheFolder
from viewsmith.views.generated.noise_level import adaptive_levels, noise_tolerance
from viewsmith.workflows.generate import generate_cache

N = 48
TINY = {"epochs": 2, "n_components": 8, "batch_size": 16, "random_state": 0}


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (N, 16, 16, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def cache(tmp_path_factory, images):
    """A view cache of inverted images, two views of each, so that generated views are easy to recognize."""
    folder = tmp_path_factory.mktemp("cache")
    np.savez(folder / "data.npz", X_train=images, X_test=images[:2])
    np.savez(folder / "views.npz", views=np.stack([255 - images, (255 - images) // 2], axis=1))
    generate_cache(load_dataset(folder / "data.npz"), folder / "cache", generator=f"folder:{folder / 'views.npz'}")
    return str(folder / "cache")


@pytest.mark.parametrize("framework", [f if f in ("swav", "supcon", "soft") else slow(f) for f in FRAMEWORKS])
def test_every_framework_accepts_a_view_cache_and_weights(images, cache, framework):
    views = "multicrop" if framework in ("swav", "dino") else "auto"
    model = GenView(**TINY, view_cache=cache, framework=framework, view_maker=views)
    model.fit(images, labels(framework, images))
    assert {"quality", "largest_weight"} <= model.metrics_[-1].keys() and np.isfinite(model.metrics_[-1]["loss"])
    assert [row["phase"] for row in model.metrics_] == ["first", "train"]
    assert model.transform(images).shape == (N, 8) and not model.generates


def test_the_encoder_is_trained_on_views_of_the_cache(images, cache):
    plain = GenView(**TINY, view_cache=cache, alpha=0.0, quality=False).fit(images)
    alone = Contrastive(**TINY).fit(images)
    assert np.array_equal(plain.transform(images), alone.transform(images))  # the framework alone
    other = GenView(**TINY, view_cache=cache, quality=False).fit(images)
    weighted = GenView(**TINY, view_cache=cache, alpha=0.0, first_fraction=0.0).fit(images)
    for model in (other, weighted):
        assert not np.array_equal(model.transform(images), alone.transform(images))


def test_quality_from_cached_feature_maps(images, cache, tmp_path):
    model = GenView(**TINY, view_cache=cache, quality_features="cached").fit(images, run=tmp_path / "run")
    views = GenView(**TINY, view_cache=cache).fit(images)
    assert not np.array_equal(model.transform(images), views.transform(images))
    assert abs(model.metrics_[-1]["quality"] - views.metrics_[-1]["quality"]) < 0.2
    # Stopped within the last phase and resumed, it has the same weights: cached feature maps are computed again.
    parts = tmp_path / "parts"
    for _ in range(2):
        GenView(**TINY, view_cache=cache, quality_features="cached", minutes=1e-9).fit(
            images, run=parts, resume=parts.exists()
        )
    again = GenView(**TINY, view_cache=cache, quality_features="cached").fit(images, run=parts, resume=True)
    assert again.summary_["steps"] == 6 and np.array_equal(again.transform(images), model.transform(images))


@pytest.mark.parametrize("framework", ["simclr", "byol", slow("moco"), slow("swav")])
def test_quality_from_the_forward_pass_of_the_encoder(images, cache, framework):
    from_copy, from_pass = (
        GenView(**TINY, view_cache=cache, framework=framework, quality_features=features).fit(images)
        for features in ("views", "encoder")
    )
    assert abs(from_pass.metrics_[-1]["quality"] - from_copy.metrics_[-1]["quality"]) < 0.2
    assert not np.array_equal(from_pass.transform(images), from_copy.transform(images))


def test_generated_views_of_a_view_cache(images, cache):
    model = GenView(**TINY, view_cache=cache).fit(images)
    found = model.generated_views(images)
    assert np.array_equal(found["views"], np.stack([255 - images, (255 - images) // 2], axis=1))
    assert (found["level"] == -1).all() and found["level"].shape == (N, 2)
    for number in range(2):
        pair = (model.samples(rows)[:] for rows in (images, found["views"][:, number]))
        np.testing.assert_allclose(found["quality"][:, number], model.method_.quality(*pair), atol=1e-5)
    assert model.generated_views(images, 1)["views"].shape[:2] == (N, 1)
    assert "has 2" in refusal(model.generated_views, images, 3)
    assert model.generated_views(images[::-1]) is None
    blind = GenView(**TINY, view_cache=cache, quality=False).fit(images)
    assert np.isnan(blind.generated_views(images)["quality"]).all()
    assert GenView(**TINY, alpha=0.0).fit(images).generated_views(images) is None


def test_levels_of_min_max_are_those_of_equation_7(images, tmp_path):
    model = GenView(**TINY, foreground="min-max").fit(images)
    encoder, x = model.method_.generated.encoder, model.samples(images)
    expected = adaptive_levels(noise_tolerance(encoder, x, min_max=True)[0])
    raw = adaptive_levels(noise_tolerance(encoder, x)[0])
    assert model.generated_views(images, 1)["level"][:, 0].tolist() == expected.tolist() != raw.tolist()
    model.save(tmp_path / "run")
    loaded = viewsmith.load(tmp_path / "run").generated_views(images, 1)
    assert loaded["level"][:, 0].tolist() == expected.tolist()
    for options in ({"noise": "random"}, {"view_maker": "identity"}):
        rows = images if "noise" in options else images.reshape(N, -1).astype(np.float32)
        message = refusal(GenView(**TINY, foreground="min-max", **options).fit, rows)
        assert message.startswith("foreground is 'min-max', which is of images with adaptive noise, but the data are")


def test_a_run_is_saved_without_its_view_cache(images, cache, tmp_path):
    model = GenView(**TINY, view_cache=cache).fit(images, run=tmp_path / "run")
    assert sum(path.stat().st_size for path in (tmp_path / "run").glob("*.safetensors")) < 8_000_000
    loaded = viewsmith.load(tmp_path / "run")
    assert np.array_equal(loaded.transform(images), model.transform(images))
    assert np.array_equal(loaded.views(images[:3], 2), model.views(images[:3], 2))
    assert loaded.view_cache == cache


@pytest.mark.parametrize("noise", ["adaptive", slow("random"), slow("constant:100")])
def test_a_generator_trained_in_between(images, noise, tmp_path):
    model = GenView(**TINY, noise=noise, cached_views=2).fit(images, run=tmp_path / "run")
    assert model.generates and [row["phase"] for row in model.metrics_] == ["first", "generator", "train"]
    views = model.views(images[:4], 2)
    assert views.shape == (4, 2, 16, 16, 3) and views.dtype == np.uint8
    assert np.array_equal(viewsmith.load(tmp_path / "run").views(images[:4], 2), views)


def test_a_view_cache_of_vectors_from_the_generator_of_a_run(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32) * 3 + 1
    np.savez(tmp_path / "x.npz", X=x)
    DiffAug(phases="AB", **TINY).fit(x, run=tmp_path / "run")
    cache = generate_cache(load_dataset(tmp_path / "x.npz"), tmp_path / "cache", run=tmp_path / "run")
    model = GenView(**TINY, view_cache=str(cache.path)).fit(x)
    assert np.isfinite(model.transform(x)).all() and {"quality"} <= model.metrics_[-1].keys()


def test_view_caches_of_other_data_are_refused(images, cache, tmp_path):
    assert "views of 48 rows, but X has 47" in refusal(GenView(**TINY, view_cache=cache).fit, images[:-1])
    assert "in another order" in refusal(GenView(**TINY, view_cache=cache).fit, images[::-1])
    assert "is not a folder" in refusal(GenView(**TINY, view_cache=str(tmp_path / "none")).fit, images)
    part = ViewCacheFolder(tmp_path / "part")
    part.open_for({key: value for key, value in ViewCacheFolder(cache).read_record().items() if key != "layout"})
    assert "lacks 1 of 1 blocks" in refusal(GenView(**TINY, view_cache=str(part.path)).fit, images)


def test_a_first_phase_that_leaves_no_epochs_is_refused(images, cache):
    every = {"first_fraction": 1.0, "generator_epochs": 1}
    message = refusal(GenView(**TINY | every).fit, images)
    assert "none of the 2 epochs for generated views and weights" in message and "alpha=0, quality=False" in message
    assert "for generated views: " in refusal(GenView(**TINY | every, quality=False).fit, images)
    assert "for weights: " in refusal(GenView(**TINY | every, view_cache=cache).fit, images)
    assert "for weights: " in refusal(GenView(**TINY | every, alpha=0.0).fit, images)
    assert "epochs for" in refusal(GenView(**TINY | every | {"first_fraction": 0.76}).fit, images)
    model = GenView(**TINY | every, alpha=0.0, quality=False).fit(images)
    assert [row["phase"] for row in model.metrics_] == ["train"] * 2


def test_an_encoder_without_a_feature_map(images):
    flat = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(768, 8))
    options = {key: value for key, value in TINY.items() if key != "n_components"} | {"encoder": flat}
    message = refusal(GenView(**options).fit, images)
    assert "no feature map" in message and "quality=False" in message
    model = GenView(**options, quality=False, noise="constant:200").fit(images)
    assert model.generates
    assert "no feature map" in refusal(GenView(**options, quality=False).fit, images)
