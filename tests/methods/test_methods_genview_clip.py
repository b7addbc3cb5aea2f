"""CLIP's vision model from a folder, against transformers with tiny random weights."""

import json
import shutil
import sys

import numpy as np
import pytest
import torch

from clip_toys import processor, save_clip
from refusals import refusal
from viewsmith.core.errors import MissingExtra
from viewsmith.methods.genview.clip import load_clip
from viewsmith.modalities.images.pixels import Pixels

KINDS = ("CLIPVisionModel", "CLIPVisionModelWithProjection", "CLIPModel")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folder and model of each kind."""
    folder = tmp_path_factory.mktemp("clip")
    return {kind: (folder / kind, save_clip(folder / kind, kind)) for kind in KINDS}


def smooth(*shape):
    """Smooth images, uint8."""
    position = np.linspace(0, 3, shape[1])
    image = np.sin(position[:, None] * 2 + 1) + np.cos(position[None, : shape[2]] * 3)
    colors = np.arange(1, 1 + np.prod(shape[3:], dtype=int)).reshape(1, 1, 1, *shape[3:])
    image = (
        image.reshape(1, *shape[1:3], *[1] * (len(shape) - 3))
        * colors
        * np.arange(1, 1 + shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    )
    return torch.from_numpy(((np.sin(image) + 1) * 127).astype(np.uint8))


def scaled(images):
    scaler = Pixels(images.shape[1:])
    scaler.fit(images, "standard")
    return scaler(images), scaler.center, scaler.scale


@pytest.mark.parametrize("kind", KINDS)
def test_maps_are_the_last_patches_after_the_norm(models, kind):
    from PIL import Image

    folder, model = models[kind]
    images = smooth(3, 40, 40, 3)
    x, center, scale = scaled(images)
    found = load_clip(str(folder), center, scale).eval()(x)
    assert found.shape == (3, 32, 4, 4)
    vision = getattr(model, "vision_model", model)
    pixels = processor()(images=[Image.fromarray(image.numpy()) for image in images], return_tensors="pt").pixel_values
    with torch.no_grad():
        rows = vision(pixels).last_hidden_state
        expected = vision.post_layernorm(rows)[:, 1:].mT.unflatten(2, (4, 4))  # without the class token
    torch.testing.assert_close(found, expected, atol=0.03, rtol=0.03)  # the processor resizes uint8 images


@pytest.mark.parametrize("shape", [(2, 40, 40), (2, 40, 40, 1)])
def test_gray_images_are_repeated(models, shape):
    gray = smooth(*shape)
    x, center, scale = scaled(gray)
    color = gray.reshape(2, 40, 40, 1).expand(-1, -1, -1, 3)
    folder = str(models["CLIPVisionModel"][0])
    other, mean, spread = scaled(color)
    torch.testing.assert_close(
        load_clip(folder, center, scale)(x), load_clip(folder, mean, spread)(other), atol=1e-4, rtol=1e-4
    )


def test_images_that_are_not_square_are_cropped_to_their_center(models):
    model = load_clip(str(models["CLIPVisionModel"][0]), torch.zeros(3), torch.ones(3))
    x = smooth(2, 32, 32, 3).movedim(3, 1) / 255
    wide = torch.cat([torch.rand(2, 3, 32, 8), x, torch.rand(2, 3, 32, 8)], dim=3)
    torch.testing.assert_close(model(wide), model(x))


def test_nothing_is_printed(models, capfd):
    load_clip(str(models["CLIPModel"][0]), torch.zeros(3), torch.ones(3))
    assert capfd.readouterr() == ("", "")


def load(folder):
    return refusal(load_clip, str(folder), torch.zeros(3), torch.ones(3))


def test_invalid_folders_are_refused(models, tmp_path):
    good = models["CLIPVisionModel"][0]
    assert "no CLIP at 'nowhere'" in load("nowhere") and "no CLIP at" in load(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    assert "cannot load CLIP" in load(tmp_path / "empty")
    without = shutil.copytree(good, tmp_path / "without")
    (without / "preprocessor_config.json").unlink()
    assert "preprocessor_config.json" in load(without)
    broken = shutil.copytree(good, tmp_path / "broken")
    content = (broken / "model.safetensors").read_bytes()
    (broken / "model.safetensors").write_bytes(content[:-100])
    assert "SafetensorError" in load(broken)
    other = shutil.copytree(good, tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"model_type": "bert"}))
    assert "has the type 'bert'" in load(other)
    deeper = shutil.copytree(good, tmp_path / "deeper")
    (deeper / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    message = load(deeper)
    assert "lacks the weights" in message and "encoder.layers.2" in message


def test_nothing_is_unpickled(models, tmp_path):
    folder, model = models["CLIPVisionModel"]
    folder = shutil.copytree(folder, tmp_path / "clip")
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")  # valid, but never read
    assert "no file named model.safetensors" in load(folder)


def test_a_missing_extra_is_named(models, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match=r"viewsmith\[unclip\]"):
        load_clip(str(models["CLIPVisionModel"][0]), torch.zeros(3), torch.ones(3))
