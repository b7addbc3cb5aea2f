"""NNCLR against a loop over neighbors and predictions of both directions, and its queue by hand."""

import pytest
import torch
from framework_cases import assert_value_and_gradient, build, length_one, pair
from torch import nn

from viewsmith.frameworks import NNCLR, nnclr
from viewsmith.views import PositivePair

TAU = 0.3


def slow_nnclr(framework, batch, keys):
    x = (batch.first, batch.second)
    neighbors, p = [], []
    for view in (0, 1):
        z = [length_one(row.detach()) for row in framework.head(framework.encoder(x[view]))]
        neighbors.append([length_one(max(keys, key=lambda key: float((key * row).sum()))) for row in z])
        p.append([length_one(row) for row in framework.predictor(framework.head(framework.encoder(x[view])))])
    losses = []
    for i in range(len(x[0])):
        directions = []
        for view in (0, 1):
            other, total = 1 - view, 0
            for j in range(len(x[0])):
                if j != i and batch.ids is not None and int(batch.ids[other][j]) in [int(n[i]) for n in batch.ids]:
                    continue
                total = total + torch.exp((neighbors[view][i] * p[other][j]).sum() / TAU)
            attraction = torch.exp((neighbors[view][i] * p[other][i]).sum() / TAU)
            directions.append(-torch.log(attraction / total))
        losses.append((directions[0] + directions[1]) / 2)
    return losses


@pytest.mark.parametrize("ids", [True, False])
def test_nnclr_equals_the_loop(ids):
    framework = build("nnclr")
    for seed in (1, 2, 3):  # three batches of 6 pass the end of 14 keys
        batch, keys = pair(ids=ids, seed=seed), framework.keys.clone()
        losses = framework(batch)
        assert_value_and_gradient(framework, losses, slow_nnclr(framework, batch, keys))


def test_nearest_by_hand():
    support = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    z = torch.tensor([[5.0, 1.0], [-1.0, 0.5], [1.0, 1.2]])
    assert torch.equal(nnclr.nearest(z, support), support[[0, 1, 2]])


def test_the_queue_stores_the_first_views():
    framework = NNCLR(nn.Identity(), nn.Identity(), nn.Linear(2, 2), queue=5, width=2)
    last = framework.keys[3:].clone()
    first = torch.tensor([[3.0, 4.0], [0.0, 2.0], [-1.0, 0.0]])
    unit = torch.tensor([[0.6, 0.8], [0.0, 1.0], [-1.0, 0.0]])
    framework(PositivePair(first, -first))
    assert torch.equal(framework.keys, torch.cat([unit, last])) and int(framework.pointer) == 3
    framework(PositivePair(first, -first))
    assert torch.equal(framework.keys, unit[[2, 1, 2, 0, 1]]) and int(framework.pointer) == 1
