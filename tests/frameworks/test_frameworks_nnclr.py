"""NNCLR against a loop over neighbors and predictions of both directions, and its queue by hand."""

import pytest
import torch
from framework_cases import assert_value_and_gradient, build, length_one, pair
from torch import nn

from refusals import refusal
from viewsmith.frameworks import NNCLR, nnclr
from viewsmith.networks import MLP
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


def test_a_batch_larger_than_the_queue_is_rejected():
    framework = NNCLR(nn.Identity(), nn.Identity(), nn.Linear(2, 2), queue=3, width=2)
    x = torch.randn(4, 2)
    framework(PositivePair(x[:3], x[:3]))
    said = refusal(framework, PositivePair(x, x))
    assert said == "the queue has 3 keys, expected at least the 4 samples of a batch: enlarge it"


def test_published_heads():
    head, predictor = nnclr.projector(16), nnclr.predictor()
    for network, widths in ((head, [(16, 2048), (2048, 2048), (2048, 256)]), (predictor, [(256, 4096), (4096, 256)])):
        assert [(m.in_features, m.out_features) for m in network if isinstance(m, nn.Linear)] == widths
    assert len([m for m in head if isinstance(m, nn.BatchNorm1d)]) == 3
    assert len([m for m in predictor if isinstance(m, nn.BatchNorm1d)]) == 1
    framework = NNCLR(nn.Identity(), head, predictor, queue=8)
    assert framework.temperature == 0.1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"queue": 0}, "queue is 0, expected at least 1"),
        ({"temperature": -1}, "temperature is -1, expected a number above 0"),
    ],
)
def test_settings_out_of_range_are_rejected(options, said):
    assert refusal(build, "nnclr", **options) == said


def test_a_predictor_of_another_width_is_rejected():
    framework = build("nnclr")
    framework.predictor = MLP(3, [1]).double()
    assert refusal(framework, pair()) == "the predictor's output width is 1, expected that of the projections, 3"
