"""DINO against loops over samples and views, and its center and schedules by hand."""

import pytest
import torch
from framework_cases import assert_value_and_gradient, build, length_one, pair, state


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


@pytest.mark.parametrize(("progress", "momentum"), [(0.0, 0.7), (0.5, 0.85), (1.0, 1.0)])
def test_the_momentum_of_the_copies_rises_to_one(progress, momentum):
    framework = build("dino")
    before = state(framework)
    framework(pair(), progress=progress)
    moved = [name for name in before if "_copy" in name]
    assert any("last_layer" in name for name in moved)
    for name in moved:
        source = before[name.replace("_copy", "")]
        torch.testing.assert_close(
            framework.state_dict()[name], momentum * before[name] + (1 - momentum) * source, rtol=1e-12, atol=1e-14
        )


def test_the_teacher_temperature_warms_up():
    framework = build("dino")
    for progress, expected in ((0.0, 0.04), (0.05, 0.055), (0.1, 0.07), (0.6, 0.07), (1.0, 0.07)):
        assert framework.teacher_temperature_at(progress) == pytest.approx(expected)
    assert build("dino", warmup=0.0).teacher_temperature_at(0.0) == 0.07
    batch = pair()
    losses = framework(batch, progress=0.05)
    slow = slow_dino(framework, batch, torch.zeros(5, dtype=torch.float64), tau_t=0.055)
    assert_value_and_gradient(framework, losses, slow)
