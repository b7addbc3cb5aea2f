"""BYOL and SimSiam against loops over samples and directions."""

import pytest
import torch
from framework_cases import assert_value_and_gradient, build, length_one, pair, state
from torch import nn

from viewsmith.frameworks import BYOL


def slow_byol(framework, batch):
    losses = []
    for first, second in zip(batch.first, batch.second, strict=True):
        directions = []
        for source, target in ((first, second), (second, first)):
            p = framework.predictor(framework.head(framework.encoder(source[None])))[0]
            with torch.no_grad():
                z = framework.head_copy(framework.encoder_copy(target[None]))[0]
            distance = length_one(p) - length_one(z)
            directions.append((distance * distance).sum())
        losses.append((directions[0] + directions[1]) / 2)
    return losses


def slow_simsiam(framework, batch):
    losses = []
    for first, second in zip(batch.first, batch.second, strict=True):
        z = [framework.head(framework.encoder(x[None]))[0] for x in (first, second)]
        p = [length_one(framework.predictor(row[None])[0]) for row in z]
        with torch.no_grad():
            targets = [length_one(row) for row in z]
        losses.append(-(p[0] * targets[1]).sum() / 2 - (p[1] * targets[0]).sum() / 2)
    return losses


@pytest.mark.parametrize(("name", "slow"), [("byol", slow_byol), ("simsiam", slow_simsiam)])
def test_byol_and_simsiam_equal_the_loops(name, slow):
    framework, batch = build(name), pair()
    losses = framework(batch)
    assert_value_and_gradient(framework, losses, slow(framework, batch))


@pytest.mark.parametrize("name", ["byol", "moco-v3"])
@pytest.mark.parametrize(("progress", "momentum"), [(0.0, 0.7), (0.5, 0.85), (1.0, 1.0)])
def test_the_momentum_of_the_copies_rises_to_one(name, progress, momentum):
    framework = build(name)
    before = state(framework)
    framework(pair(), progress=progress)
    for key, value in framework.state_dict().items():
        if "_copy" in key:
            source = before[key.replace("_copy", "")]
            torch.testing.assert_close(value, momentum * before[key] + (1 - momentum) * source)


def test_by_hand():
    # One prediction is orthogonal to the target, one is parallel: 2 - 2 cos is 2 and 0.
    class Fixed(nn.Module):
        def forward(self, z):
            return torch.tensor([[0.0, 3.0], [5.0, 0.0]], dtype=z.dtype)

    framework = BYOL(nn.Identity(), nn.Identity(), Fixed())
    x = torch.tensor([[1.0, 0.0]])
    batch = type(pair())(x, 4 * x)
    assert framework(batch).tolist() == [1.0]
