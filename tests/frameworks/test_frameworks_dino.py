"""DINO and SwAV against loops over samples and views; center and schedules by hand."""

import pytest
import torch
from framework_cases import AnySize, B, assert_value_and_gradient, build, length_one, pair
from torch import nn

from viewsmith.frameworks import SwAV
from viewsmith.losses.self_distillation import sinkhorn
from viewsmith.views import PositivePair


def scores_of(x, encoder, head, last_layer):
    z = torch.stack([length_one(row) for row in head(encoder(x))])
    return z @ torch.stack([length_one(row) for row in last_layer.weight]).T


def teacher_scores(framework, batch):
    with torch.no_grad():
        return [
            scores_of(x, framework.encoder_copy, framework.head_copy, framework.last_layer_copy)
            for x in (batch.first, batch.second)
        ]


def slow_dino(framework, batch, center, tau_s=0.1, tau_t=0.04):
    views = [batch.first, batch.second]
    if batch.local is not None:
        views += [batch.local[:, v] for v in range(batch.local.shape[1])]
    student = [scores_of(x, framework.encoder, framework.head, framework.last_layer) for x in views]
    teacher = teacher_scores(framework, batch)
    losses = []
    for i in range(len(batch.first)):
        terms = []
        for t in (0, 1):
            target = torch.exp((teacher[t][i] - center) / tau_t)
            for s in range(len(views)):
                if s != t:
                    p = torch.exp(student[s][i] / tau_s)
                    terms.append(-(target / target.sum() * torch.log(p / p.sum())).sum())
        losses.append(sum(terms) / len(terms))
    return losses


@pytest.mark.parametrize("crops", [0, 2])
def test_dino_equals_the_loop(crops):
    framework, batch = build("dino"), pair(crops=crops)
    framework.center.copy_(torch.tensor([0.3, -0.2, 0.1, 0.0, -0.4]))
    center = framework.center.clone()
    losses = framework(batch)
    assert_value_and_gradient(framework, losses, slow_dino(framework, batch, center))


def test_the_center_is_a_running_mean_of_the_teacher():
    framework, center = build("dino"), torch.zeros(5, dtype=torch.float64)
    for seed in (1, 2):
        batch = pair(seed=seed, crops=2)
        framework(batch)
        center = 0.9 * center + 0.1 * torch.cat(teacher_scores(framework, batch)).mean(0)
        torch.testing.assert_close(framework.center, center, rtol=1e-10, atol=1e-14)


def test_the_teacher_temperature_warms_up():
    framework = build("dino")
    for progress, expected in ((0.0, 0.04), (0.05, 0.055), (0.1, 0.07), (0.6, 0.07), (1.0, 0.07)):
        assert framework.teacher_temperature_at(progress) == pytest.approx(expected)
    assert build("dino", warmup=0.0).teacher_temperature_at(0.0) == 0.07
    batch = pair()
    losses = framework(batch, progress=0.05)
    slow = slow_dino(framework, batch, torch.zeros(5, dtype=torch.float64), tau_t=0.055)
    assert_value_and_gradient(framework, losses, slow)


def swav_scores_of(framework, x):
    z = torch.stack([length_one(row) for row in framework.head(framework.encoder(x))])
    return z @ torch.stack([length_one(row) for row in framework.prototypes.weight]).T


def slow_swav(framework, batch, tau=0.1, epsilon=0.05, iterations=3):
    views = [batch.first, batch.second]
    if batch.local is not None:
        views += [batch.local[:, v] for v in range(batch.local.shape[1])]
    scores = [swav_scores_of(framework, x) for x in views]
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
    framework = SwAV(encoder := AnySize(), nn.Linear(3, 3), prototypes=4, width=3)
    whole = torch.randn(2, B, 5)
    small = torch.randn(B, 3, 4)
    losses = framework(PositivePair(whole[0], whole[1], local=small))
    assert encoder.calls == [(2 * B, 5), (3 * B, 4)]
    for expected, found in zip(
        slow_swav(framework, PositivePair(whole[0], whole[1], local=small)), losses, strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    encoder.calls.clear()
    framework(PositivePair(whole[0], whole[1], local=torch.randn(B, 3, 5)))
    assert encoder.calls == [(5 * B, 5)]


def test_the_loss_does_not_depend_on_the_length_of_prototypes():
    framework, batch = build("swav"), pair()
    before = framework(batch)
    framework.prototypes.weight.data *= torch.arange(1, 6, dtype=torch.float64)[:, None]
    torch.testing.assert_close(framework(batch), before)
