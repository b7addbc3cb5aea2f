"""SwAV against loops over samples and views."""

import pytest
import torch
from framework_cases import B, assert_value_and_gradient, build, length_one, pair
from torch import nn

from viewsmith.frameworks import SwAV
from viewsmith.losses.self_distillation import sinkhorn
from viewsmith.views import PositivePair


def scores_of(framework, x):
    z = torch.stack([length_one(row) for row in framework.head(framework.encoder(x))])
    return z @ torch.stack([length_one(row) for row in framework.prototypes.weight]).T


def slow_swav(framework, batch, tau=0.1, epsilon=0.05, iterations=3):
    views = [batch.first, batch.second]
    if batch.local is not None:
        views += [batch.local[:, v] for v in range(batch.local.shape[1])]
    scores = [scores_of(framework, x) for x in views]
    targets = [sinkhorn(scores[t].detach(), epsilon, iterations) for t in (0, 1)]
    losses = []
    for i in range(len(batch.first)):
        terms = []
        for t in (0, 1):
            for s in range(len(views)):
                if s != t:
                    p = torch.exp(scores[s][i] / tau)
                    terms.append(-(targets[t][i] * torch.log(p / p.sum())).sum())
        losses.append(sum(terms) / len(terms))
    return losses


@pytest.mark.parametrize("crops", [0, 2])
def test_swav_equals_the_loop(crops):
    framework, batch = build("swav"), pair(crops=crops)
    losses = framework(batch)
    assert_value_and_gradient(framework, losses, slow_swav(framework, batch))


def test_crops_of_another_size_share_one_pass():
    calls = []

    class AnySize(nn.Module):
        """The leading features of samples of any width."""

        def forward(self, x):
            calls.append(tuple(x.shape))
            return x[:, :3]

    framework = SwAV(AnySize(), nn.Linear(3, 3), prototypes=4, width=3)
    whole = torch.randn(2, B, 5)
    small = torch.randn(B, 3, 4)
    losses = framework(PositivePair(whole[0], whole[1], local=small))
    assert calls == [(2 * B, 5), (3 * B, 4)]
    for expected, found in zip(
        slow_swav(framework, PositivePair(whole[0], whole[1], local=small)), losses, strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    calls.clear()
    framework(PositivePair(whole[0], whole[1], local=torch.randn(B, 3, 5)))
    assert calls == [(5 * B, 5)]


def test_the_loss_does_not_depend_on_the_length_of_prototypes():
    framework, batch = build("swav"), pair()
    before = framework(batch)
    framework.prototypes.weight.data *= torch.arange(1, 6, dtype=torch.float64)[:, None]
    torch.testing.assert_close(framework(batch), before)
