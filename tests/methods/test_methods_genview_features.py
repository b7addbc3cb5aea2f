"""Foreground and quality from features of CLIP or of a custom module: view caches, trainings, loaded models."""

import shutil

import numpy as np
import pytest
import torch
from torch import nn

import viewsmith
from cases import slow
from clip_toys import save_clip
from refusals import refusal
from viewsmith import DiffAug, GenView
from viewsmith.core.tensors import load_tensors
from viewsmith.data import load_dataset
from viewsmith.data.view_cache import ViewCacheFolder
from viewsmith.losses.quality import map_pools, pair_quality
from viewsmith.methods.genview.clip import load_clip
from viewsmith.views.generated.noise_level import adaptive_levels, foreground_fractions
from viewsmith.workflows.generate import generate_cache

N = 24
TINY = {"epochs": 2, "n_components": 8, "batch_size": 12, "random_state": 0}


def images():
    return np.random.default_rng(0).integers(0, 256, (N, 16, 16, 3), dtype=np.uint8)


def stripes():
    """A custom module that returns feature maps."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(3, 5, 3, 2), nn.BatchNorm2d(5), nn.ReLU())


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clip") / "clip"
    save_clip(folder)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data set of images, and a run with a generator on it."""
    folder = tmp_path_factory.mktemp("data")
    np.savez(folder / "x.npz", X=images())
    np.savez(folder / "views.npz", views=(255 - images())[:, None])
    DiffAug(phases="AB", **TINY).fit(images(), run=folder / "run")
    return load_dataset(folder / "x.npz"), folder / "run", folder / "views.npz"


def direct_quality(network, rows, views):
    """Noise tolerances, foreground axis and quality from the feature maps of rows in [0, 1], computed directly."""
    maps, other = (network(torch.from_numpy(each).movedim(3, 1) / 255).movedim(1, 3) for each in (rows, views))
    fraction, axis = foreground_fractions(lambda index: maps[index], len(maps))
    return fraction, axis, pair_quality(map_pools(maps, axis), map_pools(other, axis))


@pytest.mark.parametrize("noise", ["adaptive", slow("random")])
@torch.no_grad()
def test_a_view_cache_with_features_of_clip(data, clip, tmp_path, noise):
    dataset, run, _ = data
    cache = generate_cache(dataset, tmp_path / "cache", run=run, noise=noise, features=f"clip:{clip}")
    fraction, _, q = direct_quality(
        load_clip(str(clip), torch.zeros(3), torch.ones(3)), dataset.x_train, cache.read("views")[:, 0].numpy()
    )
    found, level = cache.read_levels()
    torch.testing.assert_close(found, fraction, atol=1 / 16, rtol=0)  # a patch on the threshold
    assert float((found - fraction).abs().mean()) < 0.01
    assert torch.equal(level[:, 0], adaptive_levels(found)) == (noise == "adaptive")
    torch.testing.assert_close(cache.read("quality")[:, 0], q, atol=1e-3, rtol=0)
    recorded = cache.read_record()["generator"]["features"]
    assert recorded["name"] == f"clip:{clip}" and len(recorded["weights"]) == 16
    # It is continued only with the same features.
    cache.block(0).unlink()
    again = generate_cache(dataset, tmp_path / "cache", run=run, noise=noise, features=f"clip:{clip}")
    torch.testing.assert_close(again.read("quality")[:, 0], q, atol=1e-3, rtol=0)
    assert "has another view cache" in refusal(generate_cache, dataset, tmp_path / "cache", run=run, noise=noise)
    save_clip(tmp_path / "clip", seed=1)
    shutil.copytree(tmp_path / "cache", tmp_path / "other")
    message = refusal(
        generate_cache, dataset, tmp_path / "other", run=run, noise=noise, features=f"clip:{tmp_path}/clip"
    )
    assert "features" in message


@pytest.mark.parametrize("custom", [False, True])
@torch.no_grad()
def test_quality_of_a_folder_of_views(data, clip, tmp_path, custom):
    dataset, _, views = data
    module = stripes()
    cache = generate_cache(
        dataset, tmp_path / "cache", generator=f"folder:{views}", features=module if custom else f"clip:{clip}"
    )
    fraction, level = cache.read_levels()
    assert (level == -1).all() and torch.isfinite(cache.read("quality")).all() and len(fraction.unique()) > 2
    if custom:  # it gets images scaled as for an encoder
        x = torch.from_numpy(dataset.x_train).double().flatten(0, 2) / 255
        center, scale = x.mean(0).float(), x.std(0, correction=0).float()
        scaled = ((torch.from_numpy(each) / 255 - center) / scale for each in (dataset.x_train, 255 - images()))
        maps, other = (module.eval()(each.movedim(3, 1)).movedim(1, 3) for each in scaled)
        expected, axis = foreground_fractions(lambda index: maps[index], N)
        torch.testing.assert_close(fraction, expected)
        torch.testing.assert_close(
            cache.read("quality")[:, 0], pair_quality(map_pools(maps, axis), map_pools(other, axis))
        )
        assert cache.read_record()["generator"]["features"]["name"] == "module:Sequential"
    line = (tmp_path / "cache" / "manifest.csv").read_text().splitlines()[1].split(",")
    assert "" not in line


def test_quality_in_training_with_features_of_clip(data, clip, tmp_path):
    dataset, _, views = data
    cache = generate_cache(dataset, tmp_path / "cache", generator=f"folder:{views}")
    options = {**TINY, "view_cache": str(cache.path), "features": f"clip:{clip}", "color_strength": 0.0}
    model = GenView(**options).fit(images(), run=tmp_path / "run")
    assert [row["phase"] for row in model.metrics_] == ["train"] * 2 and "quality" in model.metrics_[0]
    # CLIP gets images in data units, and its weights are not saved.
    network = load_clip(str(clip), torch.zeros(3), torch.ones(3)).eval()
    with torch.no_grad():
        _, axis, q = direct_quality(network, images(), 255 - images())
    torch.testing.assert_close(model.method_.quality.axis.double(), axis, atol=1e-3, rtol=0)
    np.testing.assert_allclose(model.generated_views(images())["quality"][:, 0], q, atol=1e-3)
    names = load_tensors(tmp_path / "run" / "model.safetensors").keys()
    assert {name for name in names if "quality" in name} == {"method.quality.numbers.ready", "method.quality.axis"}
    # Stopped and resumed, it is the same.
    for _ in range(2):
        GenView(**options, minutes=1e-9).fit(images(), run=tmp_path / "parts", resume=(tmp_path / "parts").exists())
    again = GenView(**options).fit(images(), run=tmp_path / "parts", resume=True)
    assert np.array_equal(again.transform(images()), model.transform(images()))
    assert not np.array_equal(
        GenView(**options | {"features": "encoder"}).fit(images()).transform(images()), model.transform(images())
    )


def test_a_loaded_model_loads_clip_by_name(data, clip, tmp_path):
    dataset, _, views = data
    here = shutil.copytree(clip, tmp_path / "clip")
    cache = generate_cache(dataset, tmp_path / "cache", generator=f"folder:{views}")
    GenView(**TINY, view_cache=str(cache.path), features=f"clip:{here}").fit(images(), run=tmp_path / "run")
    loaded = viewsmith.load(tmp_path / "run")
    quality = loaded.generated_views(images())["quality"]
    shutil.move(here, tmp_path / "away")
    loaded = viewsmith.load(tmp_path / "run")
    assert loaded.transform(images()).shape == (N, 8)  # does not need CLIP
    assert f"no CLIP at '{here}'" in refusal(loaded.generated_views, images())
    refused = GenView(**TINY, view_cache=str(cache.path), features=f"clip:{here}").fit
    assert f"no CLIP at '{here}'" in refusal(refused, images(), run=tmp_path / "new")
    assert not (tmp_path / "new").exists()
    save_clip(here, seed=1)  # another model with the same name
    assert "its weights differ from those in fit" in refusal(loaded.generated_views, images())
    shutil.rmtree(here)
    shutil.move(tmp_path / "away", here)
    assert np.array_equal(loaded.generated_views(images())["quality"], quality)


@pytest.mark.slow
def test_a_custom_feature_extractor(tmp_path):
    module = stripes()
    module.train()
    model = GenView(**TINY, features=module, quality_features="cached").fit(images(), run=tmp_path / "run")
    assert module.training and next(module.parameters()).requires_grad  # the module was copied
    assert model.generates and [row["phase"] for row in model.metrics_] == ["first", "generator", "train"]
    assert "quality" in model.metrics_[0]
    found = model.generated_views(images(), 2)
    module.eval()
    x = model.samples(images())[:]
    with torch.no_grad():
        maps = module(x).movedim(1, 3)
    fraction, _ = foreground_fractions(lambda index: maps[index], N)
    assert np.array_equal(found["level"][:, 0], adaptive_levels(fraction))  # the module also gives the noise levels
    loaded = viewsmith.load(tmp_path / "run", features=module)
    assert np.array_equal(loaded.generated_views(images(), 2)["quality"], found["quality"])
    without = viewsmith.load(tmp_path / "run")
    assert np.array_equal(without.transform(images()), model.transform(images()))
    assert "are custom (Sequential)" in refusal(without.generated_views, images(), 2)
    other = viewsmith.load(tmp_path / "run", features=nn.Sequential(nn.Conv2d(3, 5, 3, 2)))
    assert "its weights differ from those in fit" in refusal(other.generated_views, images(), 2)
    untrained = model.untrained(images())
    assert untrained.method_.quality.maps is model.method_.quality.maps


@pytest.mark.slow
def test_a_report_uses_the_given_feature_extractor(data, tmp_path):
    dataset, _, views = data
    cache = generate_cache(dataset, tmp_path / "cache", generator=f"folder:{views}")
    module = stripes()
    GenView(**TINY, view_cache=str(cache.path), features=module).fit(images(), run=tmp_path / "run")
    with pytest.warns(UserWarning, match="no maps and galleries: .*are custom \\(Sequential"):
        viewsmith.report(tmp_path / "run", images())
    page = viewsmith.report(tmp_path / "run", images(), features=module)
    assert "quality -" in page.read_text() or "quality 0" in page.read_text()


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"features": "resnet"}, "expected encoder, clip:FOLDER or clip:OWNER/NAME"),
        ({"features": "clip"}, "which needs weights: give clip:FOLDER"),
        ({"features": "clip:"}, "which needs weights: give clip:FOLDER"),
        ({"features": "clip:nowhere"}, "no CLIP at 'nowhere'"),
        ({"features": nn.Flatten()}, "expected maps"),
        ({"features": stripes(), "quality_features": "encoder"}, "cannot use the features of Sequential"),
    ],
)
def test_invalid_features_are_refused(options, part):
    assert part in refusal(GenView(**TINY, **options).fit, images())


def test_features_are_refused_for_vectors_and_dna(clip, data, tmp_path):
    x = np.random.default_rng(0).normal(size=(N, 5)).astype(np.float32)
    dna = np.random.default_rng(0).choice(np.frombuffer(b"ACGT", np.uint8), (N, 40))
    for rows, modality in ((x, "vectors"), (dna, "dna")):
        assert f"the data are {modality}" in refusal(GenView(**TINY, features=f"clip:{clip}").fit, rows)
        np.savez(tmp_path / "x.npz", X=rows)
        dataset = load_dataset(tmp_path / "x.npz")
        message = refusal(generate_cache, dataset, tmp_path / "cache", features=f"clip:{clip}")
        assert f"the data are {modality}" in message and not ViewCacheFolder(tmp_path / "cache").path.exists()
    message = refusal(generate_cache, data[0], tmp_path / "cache", generator="unclip:nowhere", features=f"clip:{clip}")
    assert "'unclip' has no option features" in message
    message = refusal(generate_cache, data[0], tmp_path / "cache", features="clip:nowhere")
    assert "no CLIP at" in message and not (tmp_path / "cache").exists()
    message = refusal(generate_cache, data[0], tmp_path / "cache", run=data[1], features="clip:nowhere")
    assert "no CLIP at" in message and not (tmp_path / "cache").exists()
