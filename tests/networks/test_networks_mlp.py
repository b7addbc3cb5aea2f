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


def test_no_layers_pass_rows_on():
    x = torch.randn(2, 5)
    assert torch.equal(MLP(5, [])(x), x)
