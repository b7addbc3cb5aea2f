"""Feature maps of image encoders and of separate networks: the layer, values, no side effects."""

import copy
import re

import pytest
import torch
from torch import nn

from refusals import refusal
from viewsmith.modalities.images.encoders import SmallCNN, resnet18
from viewsmith.networks.features import FeatureMap, FrozenMaps


def images(n=2, side=32, channels=3):
    return torch.randn(n, channels, side, side, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("encoder", "side", "layer", "shape"),
    [
        (SmallCNN(), 32, "stages.1", (8, 8, 64)),
        (SmallCNN(), 64, "stages.2", (8, 8, 128)),
        (resnet18(), 32, "layer3", (8, 8, 256)),
        (resnet18(), 64, "layer4", (8, 8, 512)),
        (SmallCNN(), 8, "stages.0", (4, 4, 32)),
    ],
)
def test_the_chosen_layer(encoder, side, layer, shape):
    maps = FeatureMap(encoder, images(side=side))
    assert maps.layer.startswith(layer) and maps.shape == shape
    assert maps(images(3, side)).shape == (3, *shape)


def test_values_and_unchanged_modes():
    encoder = SmallCNN().train()
    x = images(4)
    maps = FeatureMap(encoder, x)
    found = maps(x)
    assert encoder.training and not found.requires_grad and not list(maps.parameters())
    assert all(not module._forward_hooks for module in encoder.modules())
    encoder.eval()
    with torch.no_grad():
        expected = encoder.stages[1](encoder.stages[0](x)).movedim(1, 3)
    torch.testing.assert_close(found, expected)


class Transformer(nn.Module):
    """Patches of 4 pixels with a class token and registers in front, and one layer on them."""

    def __init__(self, in_front=1):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.token = nn.Parameter(torch.zeros(1, in_front, 8))
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        rows = self.patches(x).flatten(2).mT
        return self.norm(torch.cat([self.token.expand(len(x), -1, 8), rows], dim=1))[:, 0]


@pytest.mark.parametrize("in_front", [1, 5])
@pytest.mark.parametrize("width", [32, 48])
def test_patches_of_a_transformer(in_front, width):
    encoder = Transformer(in_front)
    maps = FeatureMap(encoder, images())
    assert maps.layer == "norm" and maps.shape == (8, 8, 8)
    x = torch.randn(2, 3, 32, width)
    expected = encoder.norm(encoder.patches(x).movedim(1, 3))
    torch.testing.assert_close(maps(x), expected.detach())


class Windowed(nn.Module):
    """Features last, as in Swin transformers; then tokens, (B, heads, N, d), and their attention, (B, heads, N, N)."""

    def __init__(self):
        super().__init__()
        self.patches, self.norm, self.tokens = nn.Conv2d(3, 6, 4, 4), nn.LayerNorm(6), nn.Identity()
        self.queries, self.attention = nn.Identity(), nn.Softmax(-1)

    def forward(self, x):
        tokens = self.tokens(self.norm(self.patches(x).movedim(1, 3)).flatten(1, 2)[:, 1:])  # no square number of them
        heads = self.queries(tokens.unflatten(2, (2, 3)).transpose(1, 2))
        return (self.attention(heads @ heads.mT) @ heads).mean((1, 2))


@pytest.mark.parametrize("width", [32, 48])
def test_features_may_be_last_and_attention_is_no_map(width):
    encoder = Windowed()
    maps = FeatureMap(encoder, images())
    assert maps.layer == "norm" and maps.shape == (8, 8, 6)
    x = torch.randn(2, 3, 32, width)
    torch.testing.assert_close(maps(x), encoder.norm(encoder.patches(x).movedim(1, 3)).detach())


def test_an_encoder_without_maps_is_refused():
    flat = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 4))
    assert "no feature map" in refusal(FeatureMap, flat, images())


def strided(channels=3):
    """A network that returns maps with a quarter of the height and width."""
    return nn.Sequential(nn.Conv2d(channels, 6, 4, 4), nn.BatchNorm2d(6), nn.Dropout(0.5))


def test_maps_of_a_separate_network():
    network, x = strided(), images(70)
    network(x)  # changes the statistics of BatchNorm
    maps = FrozenMaps(lambda: network.train(), "Sequential", x=x)
    assert maps.shape == (8, 8, 6)
    found = maps.train()(x)
    with torch.no_grad():
        expected = network.eval()(x).movedim(1, 3)
    torch.testing.assert_close(found, expected)
    assert not found.requires_grad and not any(weights.requires_grad for weights in network.parameters())
    # The network is not part of the module that holds the maps.
    holder = nn.ModuleList([maps]).train()
    assert not holder.state_dict() and not list(holder.parameters()) and not network.training
    assert copy.deepcopy(holder)[0] is maps


def test_a_network_is_loaded_when_it_is_needed():
    calls = []

    def load():
        calls.append(1)
        return strided()

    maps = FrozenMaps(load, "Sequential", shape=(8, 8, 6))
    assert calls == [] and maps.shape == (8, 8, 6)
    assert torch.equal(maps(images()), maps(images())) and calls == [1]


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (nn.Flatten(), r"returned \(1, 3072\) for images \(1, 3, 32, 32\), expected maps \(1, features, h, w\)"),
        (nn.Conv2d(3, 4, 16, 16), r"returned \(1, 4, 2, 2\)"),
        (nn.Conv2d(1, 4, 3), "failed for images .*RuntimeError"),
        (nn.GRU(32, 4), "feature extractor GRU"),
    ],
)
def test_networks_that_return_no_maps_are_an_error(network, message):
    assert re.search(message, refusal(FrozenMaps, lambda: network, type(network).__name__, x=images()))
