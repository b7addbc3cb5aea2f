"""Layouts of fully connected networks."""

import pytest
import torch
from torch import nn

from viewsmith.networks import MLP


def layout(network):
    return [type(layer).__name__ for layer in network]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["Linear", "ReLU", "Linear"]),
        ({"last": "activated"}, ["Linear", "ReLU", "Linear", "ReLU"]),
        ({"norm": "batch"}, ["Linear", "BatchNorm1d", "ReLU", "Linear"]),
        ({"norm": "batch", "last": "activated"}, ["Linear", "BatchNorm1d", "ReLU", "Linear", "BatchNorm1d", "ReLU"]),
    ],
)
def test_layouts(options, expected):
    network = MLP(5, [4, 3], **options)
    assert layout(network) == expected
    linear = [layer for layer in network if isinstance(layer, nn.Linear)]
    assert [(layer.in_features, layer.out_features) for layer in linear] == [(5, 4), (4, 3)]
    following = [
        expected[i + 1] if i + 1 < len(expected) else None for i, name in enumerate(expected) if name == "Linear"
    ]
    # A BatchNorm removes the mean, and with it a bias before it.
    assert [layer.bias is not None for layer in linear] == [name != "BatchNorm1d" for name in following]
    assert network(torch.randn(6, 5)).shape == (6, 3)


def test_one_layer():
    assert layout(MLP(5, [3])) == ["Linear"]


def test_without_layers_it_is_the_identity():
    x = torch.randn(2, 5)
    assert torch.equal(MLP(5, [])(x), x)


@pytest.mark.parametrize("norm", ["none", "batch"])
def test_a_last_layer_may_be_normed_without_scale_and_shift(norm):
    network = MLP(5, [4, 3], norm=norm, last="normed")
    assert layout(network)[-2:] == ["Linear", "BatchNorm1d"] and layout(network)[-3] == "ReLU"
    assert ("BatchNorm1d" in layout(network)[:-1]) == (norm == "batch")
    assert network[-1].weight is None and network[-1].bias is None and network[-2].bias is None
    z = network(torch.randn(50, 5))
    torch.testing.assert_close(z.mean(0), torch.zeros(3), rtol=0, atol=1e-5)
    assert layout(MLP(5, [3], last="normed")) == ["Linear", "BatchNorm1d"]


def test_activations():
    assert layout(MLP(5, [4, 3], activation="gelu")) == ["Linear", "GELU", "Linear"]
    assert layout(MLP(5, [4], last="activated", activation="gelu")) == ["Linear", "GELU"]


def test_output_widths():
    assert MLP(5, [4, 3]).n_components == 3 and MLP(5, []).n_components == 5
