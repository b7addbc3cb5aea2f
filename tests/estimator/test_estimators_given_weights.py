"""Encoders that start from given weights: read, named, frozen in parts or as a whole."""

import sys
import types

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from refusals import refusal
from viewsmith import Contrastive, LinearContrast, load
from viewsmith.core.tensors import save_tensors
from viewsmith.networks import resnet18

TINY = {"epochs": 2, "batch_size": 16, "random_state": 0}
IMAGES = np.random.default_rng(0).integers(0, 256, (20, 16, 16, 3), dtype=np.uint8)
ROWS = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)


def encoder_of(model):
    return model.method_.framework.encoder


def trained_module(width=4):
    """A network with BatchNorm that has seen data, its weights and statistics."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, width))
    network(torch.randn(64, 6) * 3 + 1)
    return network


def same(one, other):
    return all(torch.equal(value, other[name]) for name, value in one.items())


def test_a_frozen_encoder_gives_what_it_was_given_as():
    given = trained_module()
    model = Contrastive(**TINY, encoder=given, freeze="all").fit(ROWS)
    assert same(given.state_dict(), encoder_of(model).state_dict())
    expected = given.eval()(torch.from_numpy(model.scaled(ROWS))).detach()
    np.testing.assert_allclose(model.transform(ROWS), expected, atol=1e-6)
    head = [name for name in model.weights() if ".head." in name and name.endswith("weight")]
    assert head and any(not torch.equal(model.weights()[name], model.initial_[name]) for name in head)


def test_what_the_user_has_frozen_does_not_drift():
    given = trained_module()
    given[:2].requires_grad_(False)
    model = Contrastive(**TINY, encoder=given).fit(ROWS)
    after = encoder_of(model).state_dict()
    changed = {name for name, value in given.state_dict().items() if not torch.equal(value, after[name])}
    assert changed == {"4.weight", "4.bias"}


def test_first_layers_keep_weights_and_statistics():
    model = Contrastive(**TINY, hidden=(8, 8), freeze=1).fit(ROWS)
    start = {name: value for name, value in model.initial_.items() if ".encoder." in name}
    changed = [name for name, value in start.items() if not torch.equal(value, model.weights()[name])]
    norms = [name.removesuffix("running_mean") for name in start if name.endswith("running_mean")]
    first = [name for name in start if name.startswith(norms[0])]
    assert len(first) == 5 and not set(first) & set(changed)
    assert f"{norms[1]}running_mean" in changed and f"{norms[1]}weight" in changed


def test_a_copied_frozen_module_stays_in_evaluation_mode():
    model = Contrastive(**TINY, framework="byol", encoder=trained_module(), freeze="all").fit(ROWS)
    model.method_.train()
    norms = [m for m in model.method_.framework.modules() if isinstance(m, nn.BatchNorm1d) and m.num_features == 8]
    assert norms and not any(norm.training for norm in encoder_of(model).modules() if isinstance(norm, nn.BatchNorm1d))
    assert encoder_of(model)[1] is not trained_module()[1]


def test_published_weights_without_counts_of_batches(tmp_path):
    torch.manual_seed(1)
    network = resnet18(stem="standard")
    network(torch.rand(8, 3, 32, 32))
    weights = {name: value for name, value in network.state_dict().items() if not name.endswith("num_batches_tracked")}
    save_tensors(tmp_path / "w.safetensors", weights | {"fc.weight": torch.zeros(10, 512)})
    options = TINY | {"encoder": "resnet18", "encoder_weights": str(tmp_path / "w.safetensors"), "epochs": 1}
    model = Contrastive(**options, stem="standard", freeze="all").fit(IMAGES)
    assert all(torch.equal(value, encoder_of(model).state_dict()[name]) for name, value in weights.items())
    # The row of an evaluation with these weights has their statistics, not those of the new data.
    started = model.untrained(IMAGES)
    np.testing.assert_allclose(started.transform(IMAGES), model.transform(IMAGES), atol=1e-5)
    message = refusal(Contrastive(**options).fit, IMAGES)
    assert "has the first layer of stem='standard' (7 x 7 pixels): set stem='standard'" in message


@pytest.fixture
def timm(monkeypatch):
    """A library with the functions of timm that are used, and a network whose published weights are 0.5."""
    calls = []
    module, builder = types.ModuleType("timm"), types.ModuleType("timm.models._builder")

    def create_model(name, *, num_classes, in_chans):
        if name != "tiny":
            raise RuntimeError("unknown")
        return nn.Sequential(nn.Conv2d(in_chans, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def load_pretrained(network, *, num_classes, in_chans):
        calls.append(in_chans)
        if in_chans == 1:
            raise OSError("no network")
        for p in network.parameters():
            nn.init.constant_(p, 0.5)

    module.create_model, builder.load_pretrained = create_model, load_pretrained
    monkeypatch.setitem(sys.modules, "timm", module)
    monkeypatch.setitem(sys.modules, "timm.models._builder", builder)
    return calls


def test_pretrained_weights_of_timm_are_loaded_once(timm, tmp_path):
    options = TINY | {"encoder": "timm:tiny", "encoder_weights": "pretrained", "freeze": "all", "epochs": 1}
    model = Contrastive(**options).fit(IMAGES, run=tmp_path / "run")
    assert timm == [3] and all((p == 0.5).all() for p in encoder_of(model).parameters())
    again = load(tmp_path / "run")
    assert timm == [3]  # the weights are those of the run
    assert np.array_equal(again.transform(IMAGES), model.transform(IMAGES))
    message = refusal(Contrastive(**options).fit, IMAGES[..., 0])
    assert "timm cannot load pretrained weights of 'tiny' (no network): see timm.list_pretrained()" in message


def test_weights_of_timm_from_a_file(timm, tmp_path):
    weights = {"0.weight": torch.full((4, 3, 3, 3), 0.25), "0.bias": torch.zeros(4)}
    save_tensors(tmp_path / "w.safetensors", weights)
    options = {"encoder": "timm:tiny", "encoder_weights": str(tmp_path / "w.safetensors"), "freeze": "all"}
    model = Contrastive(**TINY, **options).fit(IMAGES)
    assert same(weights, encoder_of(model).state_dict()) and timm == []


def test_published_weights_of_colors_fit_other_channels_and_have_a_classifier(timm, tmp_path):
    colors = torch.rand(4, 3, 3, 3)
    published = {"0.weight": colors, "0.bias": torch.zeros(4), "head.fc.weight": torch.zeros(10, 4)}
    published |= {"aux_head.bias": torch.zeros(10), "1.attn.relative_position_index": torch.zeros(4, 4)}
    save_tensors(tmp_path / "w.safetensors", published)
    options = TINY | {"encoder": "timm:tiny", "encoder_weights": str(tmp_path / "w.safetensors"), "freeze": "all"}
    first = encoder_of(Contrastive(**options).fit(IMAGES[..., 0]))[0]
    assert torch.equal(first.weight, colors.sum(1, keepdim=True))
    first = encoder_of(Contrastive(**options).fit(np.concatenate([IMAGES, IMAGES], axis=3)[..., :5]))[0]
    torch.testing.assert_close(first.weight, colors[:, [0, 1, 2, 0, 1]] * 3 / 5)


def test_statistics_of_given_features_stay_and_their_row_is_that_of_the_features(timm, tmp_path, monkeypatch):
    def create_model(name, *, num_classes, in_chans):
        layers = nn.Conv2d(in_chans, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        network = nn.Sequential(*layers)
        network.pretrained_cfg = {"input_size": (3, 32, 32)}
        return network

    monkeypatch.setattr(sys.modules["timm"], "create_model", create_model)
    published = create_model("tiny", num_classes=0, in_chans=3)
    published[1].running_mean.fill_(0.5)  # with no batches behind it, as weights from TensorFlow have
    save_tensors(tmp_path / "w.safetensors", published.state_dict())
    model = LinearContrast(features="timm:tiny", weights=str(tmp_path / "w.safetensors"), random_state=0).fit(IMAGES)
    initial = model.untrained(IMAGES).method_.framework.encoder.features.network
    assert (initial[1].running_mean == 0.5).all()
    (features,) = model.fixed_features(IMAGES)
    pixels = F.interpolate(torch.from_numpy(IMAGES).permute(0, 3, 1, 2) / 255, (32, 32), mode="bilinear")
    np.testing.assert_allclose(features, published.eval()(pixels).detach(), atol=1e-5)


def test_weights_of_another_network_are_refused(timm, tmp_path):
    weights = {"0.weight": torch.zeros(4, 3, 3, 3), "0.bias": torch.zeros(4)}
    save_tensors(tmp_path / "w.safetensors", weights | {"1.weight": torch.zeros(4)})
    message = refusal(LinearContrast(features="timm:tiny", weights=str(tmp_path / "w.safetensors")).fit, IMAGES)
    assert "does not fit the network timm:tiny: 1 names differ (unknown '1.weight')" in message
    torch.save(weights, tmp_path / "w.pth")
    message = refusal(LinearContrast(features="timm:tiny", weights=str(tmp_path / "w.pth")).fit, IMAGES)
    assert "w.pth (weights of features_options) is damaged or not a safetensors file" in message
