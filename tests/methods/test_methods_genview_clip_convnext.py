"""The ConvNeXt of a CLIP model, from folders in the layouts of OpenCLIP and timm, against transformers."""

import json
import re

import pytest
import torch
from safetensors.torch import save_file

from refusals import refusal
from viewsmith.methods.genview.clip import MEAN, SIZE, STD, load_clip

NAMES = [
    (r"embeddings\.patch_embeddings\.", "stem.0."),
    (r"embeddings\.layernorm\.", "stem.1."),
    (r"encoder\.stages\.(\d+)\.downsampling_layer\.", r"stages.\1.downsample."),
    (r"encoder\.stages\.(\d+)\.layers\.(\d+)\.", r"stages.\1.blocks.\2."),
    (r"\.dwconv\.", ".conv_dw."),
    (r"\.layernorm\.", ".norm."),
    (r"\.pwconv(\d)\.", r".mlp.fc\1."),
    (r"layer_scale_parameter$", "gamma"),
    (r"^layernorm\.", "head.norm."),
]


def renamed(name):
    for pattern, replacement in NAMES:
        name = re.sub(pattern, replacement, name)
    return name


@pytest.fixture(scope="module")
def reference():
    """The network of transformers with random weights, and its weights with the names of timm."""
    torch.manual_seed(0)
    transformers = pytest.importorskip("transformers")
    config = transformers.ConvNextConfig(depths=[1, 2, 1, 1], hidden_sizes=[8, 12, 16, 20])
    network = transformers.ConvNextModel(config).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return network, {renamed(name): value.clone() for name, value in network.state_dict().items()}


def save(folder, weights, layout):
    folder.mkdir()
    if layout == "open_clip":
        config = {
            "model_cfg": {"vision_cfg": {"timm_model_name": "convnext_base", "image_size": 256}},
            "preprocess_cfg": {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]},
        }
        weights = {f"visual.trunk.{name}": value for name, value in weights.items()}
        save_file(weights | {"logit_scale": torch.ones(1)}, folder / "open_clip_model.safetensors")
        (folder / "open_clip_config.json").write_text(json.dumps(config))
    else:
        save_file(weights, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps({"architecture": "convnext_base", "num_classes": 640}))
    return str(folder)


@pytest.mark.parametrize("layout", ["open_clip", "timm"])
@torch.no_grad()
def test_maps_equal_those_of_transformers(reference, tmp_path, layout):
    network, weights = reference
    center, scale = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.5, 0.6, 0.7])
    maps = load_clip(save(tmp_path / "clip", weights, layout), center, scale)
    x = torch.rand(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    found = maps((x - center[:, None, None]) / scale[:, None, None])
    mean, std = ([0.5, 0.4, 0.3], [0.2, 0.3, 0.4]) if layout == "open_clip" else (MEAN, STD)
    expected = network((x - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]).last_hidden_state
    assert found.shape == (2, 20, 7, 7)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    # Smaller gray images are enlarged and repeated to three channels.
    assert load_clip(str(tmp_path / "clip"), torch.zeros(1), torch.ones(1))(x[:, :1, :32, :32]).shape == (2, 20, 7, 7)


def test_invalid_folders_are_refused(reference, tmp_path):
    weights = reference[1]

    def load(folder):
        return refusal(load_clip, str(folder), torch.zeros(3), torch.ones(3))

    folder = tmp_path / "clip"
    save(folder, weights, "open_clip")
    (folder / "open_clip_model.safetensors").rename(folder / "open_clip_pytorch_model.bin")  # never read
    assert "the file open_clip_model.safetensors is missing" in load(folder)
    (folder / "open_clip_model.safetensors").write_bytes(b"none")
    assert "open_clip_model.safetensors is damaged" in load(folder)
    save_file({"stem.0.weight": torch.ones(1)}, folder / "open_clip_model.safetensors")
    assert "no stages of a ConvNeXt" in load(folder)
    save_file({n: t for n, t in weights.items() if n != "stem.1.bias"}, folder / "open_clip_model.safetensors")
    assert "missing 'embeddings.layernorm.bias'" in load(folder)
