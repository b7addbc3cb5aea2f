"""Stable unCLIP as a generator of views, against the pipeline itself: the real class with tiny random weights."""

import numpy as np
import pytest
import torch
from unclip_toys import tiny_pipeline

from cases import slow
from refusals import refusal
from viewsmith.losses.quality import attention_pools, foreground_map, pair_quality
from viewsmith.methods.genview.clip import StableUnCLIP

# Slow, because diffusers and transformers take seconds to import.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::FutureWarning")]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    return tiny_pipeline(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def images():
    """Smooth images of 24 x 24 pixels, uint8 (5, 24, 24, 3)."""
    waves = np.random.default_rng(0).uniform(0, 1, (5, 3, 3, 3))
    position = np.linspace(0, 3, 24)
    field = sum(
        waves[:, i, 0, None, None, :] * np.sin(i + position[:, None, None] * waves[:, i, 1, None, None, :] * 3)
        + np.cos(position[None, :, None] * waves[:, i, 2, None, None, :] * 4)
        for i in range(3)
    )
    field = (field - field.min()) / (field.max() - field.min())
    return torch.from_numpy((field * 255).astype(np.uint8))


def streams(rows):
    return [torch.Generator().manual_seed(int(row)) for row in rows]


LEVELS = torch.tensor([0, 100, 400, 100, 300])


def test_embeddings_equal_those_of_the_pipelines_processor(pipeline, images):
    from PIL import Image

    model = StableUnCLIP(pipeline)
    found, maps = model.encode_images(images)
    pictures = [Image.fromarray(image.numpy()) for image in images]
    pixels = pipeline.feature_extractor(images=pictures, return_tensors="pt").pixel_values
    with torch.no_grad():
        expected = pipeline.image_encoder(pixels).image_embeds
    torch.testing.assert_close(found, expected, atol=0.02, rtol=0.02)
    assert maps.shape == (5, 4, 4, 32)
    # Patches are in order: a change of the upper left corner changes the upper left patch most.
    changed = images.clone()
    changed[:, :6, :6] = 255 - changed[:, :6, :6]
    moved = (model.encode_images(changed)[1] - maps).norm(dim=-1).mean(0).flatten()
    assert int(moved.argmax()) == 0


@pytest.mark.parametrize(("scheduler", "guidance"), [(None, 1.0), (None, 10.0), ("euler", 1.0)])
def test_views_equal_those_of_the_pipeline_at_each_level(pipeline, images, monkeypatch, scheduler, guidance):
    model = StableUnCLIP(pipeline, steps=3, scheduler=scheduler, guidance=guidance)
    if scheduler == "euler":  # it scales the initial noise
        assert float(model.scheduler.init_noise_sigma) > 2
        monkeypatch.setattr(pipeline, "scheduler", model.scheduler)
    embedding = model.encode_images(images)[0]
    latents = model.latents(model.noisy_condition(embedding, LEVELS, draws := streams(range(5))), draws)
    for row in range(5):
        expected = pipeline(
            image_embeds=embedding[row : row + 1],
            prompt=[""],
            num_inference_steps=3,
            guidance_scale=guidance,
            noise_level=int(LEVELS[row]),
            generator=streams([row]),
            output_type="latent",
        ).images
        torch.testing.assert_close(latents[row : row + 1], expected, atol=1e-4, rtol=1e-4)


def test_a_view_depends_on_its_stream_and_not_on_its_batch(pipeline, images):
    model = StableUnCLIP(pipeline, steps=2)
    together = model.generate(images, None, 0, LEVELS, streams(range(5)))
    assert together.shape == images.shape and together.dtype == torch.uint8
    assert torch.equal(model.generate(images, None, 0, LEVELS, streams(range(5))), together)
    order = [3, 0]
    some = model.generate(images[order], None, 0, LEVELS[order], streams(order))
    assert (some.int() - together[order].int()).abs().max() <= 1  # one gray level
    assert not torch.equal(model.generate(images, None, 0, LEVELS, streams(range(1, 6))), together)


def test_images_and_the_prompt_are_encoded_once(pipeline, images, monkeypatch):
    model = StableUnCLIP(pipeline, steps=1)
    calls = []
    encode = model.encode_images
    monkeypatch.setattr(model, "encode_images", lambda rows: calls.append(len(rows)) or encode(rows))
    expected = model.generate(images, None, 0, LEVELS, streams(range(5)))
    monkeypatch.setattr(pipeline, "encode_prompt", None)
    assert torch.equal(model.generate(images, None, 0, LEVELS, streams(range(5))), expected)
    assert calls == [5]
    model.generate(images.flip(0), None, 0, LEVELS, streams(range(5)))
    assert calls == [5, 5]


def test_foreground_fractions_and_quality(pipeline, images):
    model = StableUnCLIP(pipeline)
    fractions, axis = model.noise_tolerance(images)
    assert fractions.shape == (5,) and fractions.dtype == torch.float64
    assert float(fractions.mean()) == pytest.approx(0.4, abs=0.05)
    # q of pairs of images in the same features, along the same axis.
    features = model.encode_images(images)[1].flatten(1, 2)
    pools = attention_pools(features, foreground_map(features, axis.float()))
    expected = pair_quality(pools, tuple(each.flip(0) for each in pools))
    torch.testing.assert_close(model.quality(images, images.flip(0), axis), expected)


@pytest.mark.parametrize("scheduler", ["ddim", slow("ddpm"), slow("dpm"), slow("pndm"), "euler"])
def test_every_scheduler_and_gray_images(pipeline, images, scheduler):
    model = StableUnCLIP(pipeline, steps=2, scheduler=scheduler, guidance=1.0)
    for gray in (images[..., 0], images[..., :1]):
        views = model.generate(gray, None, 0, LEVELS, streams(range(5)))
        assert views.shape == gray.shape
        assert torch.equal(model.generate(gray, None, 0, LEVELS, streams(range(5))), views)


def test_a_saved_pipeline_can_be_loaded(pipeline, images, tmp_path):
    pipeline.save_pretrained(tmp_path / "weights", safe_serialization=True)
    model = StableUnCLIP.load(str(tmp_path / "weights"), steps=2)
    expected = StableUnCLIP(pipeline, steps=2).generate(images, None, 0, LEVELS, streams(range(5)))
    assert torch.equal(model.generate(images, None, 0, LEVELS, streams(range(5))), expected)
    assert model.describe()["weights"] == str(tmp_path / "weights") and model.describe()["steps"] == 2
    (tmp_path / "weights" / "model_index.json").unlink()
    assert "cannot load" in refusal(StableUnCLIP.load, str(tmp_path / "weights"))


def test_invalid_arguments_are_refused(pipeline, tmp_path):
    assert "no weights" in refusal(StableUnCLIP.load, str(tmp_path / "nowhere"))
    assert "no weights" in refusal(StableUnCLIP.load, "somewhere")
    assert "steps is 0" in refusal(StableUnCLIP, pipeline, steps=0)
    assert "at least 1" in refusal(StableUnCLIP, pipeline, guidance=0.5)
    assert "one of ddim" in refusal(StableUnCLIP, pipeline, scheduler="fast")
    assert "multiple of 2" in refusal(StableUnCLIP, pipeline, size=33)


def test_a_missing_extra_is_named(monkeypatch, tmp_path):
    import sys

    monkeypatch.setitem(sys.modules, "diffusers", None)
    assert "viewsmith[unclip]" in refusal(StableUnCLIP.load, str(tmp_path))
