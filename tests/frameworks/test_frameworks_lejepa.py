"""LeJEPA against loops over samples, views, directions and knots, its directions and published settings."""

import math

import pytest
import torch
from framework_cases import AnySize, B, assert_value_and_gradient, build, pair, trainable
from torch import nn

from viewsmith.core.tensors import stream
from viewsmith.frameworks import LeJEPA, lejepa
from viewsmith.losses import random_directions
from viewsmith.views import PositivePair


def views_of(batch):
    crops = [] if batch.local is None else [batch.local[:, v] for v in range(batch.local.shape[1])]
    return [batch.first, batch.second, *crops]


def slow_lejepa(framework, batch, weight=0.2, draws=0):
    z = [framework.head(framework.encoder(x)) for x in views_of(batch)]
    d = z[0].shape[1]
    a = random_directions(d, 3, z[0], stream(5, "sigreg", draws))
    losses = []
    for i in range(B):
        center = (z[0][i] + z[1][i]) / 2
        losses.append((1 - weight) * sum(((view[i] - center) ** 2).sum() / d for view in z) / len(z))
    step = 3 / 16
    for view in z:
        for m in range(3):
            x = view @ a[:, m]
            for k in range(-16, 17):
                t = k * step
                normal = math.exp(-(t**2) / 2)
                scale = B * normal * step / (2 if abs(k) == 16 else 1) / len(z) / 3
                cosines, sines = torch.cos(t * x), torch.sin(t * x)
                c, s = float(cosines.detach().mean()), float(sines.detach().mean())
                for i in range(B):
                    value = (c - normal) ** 2 + s**2
                    change = 2 * (c - normal) * (cosines[i] - c) + 2 * s * (sines[i] - s)
                    losses[i] = losses[i] + weight * scale * (value + change)
    return losses


@pytest.mark.parametrize("crops", [0, 2])
def test_lejepa_equals_the_loop(crops):
    framework, batch = build("lejepa"), pair(crops=crops)
    assert_value_and_gradient(framework, framework(batch), slow_lejepa(framework, batch))


def test_views_predict_the_mean_of_the_full_ones():
    z = torch.tensor([[[1.0, 0]], [[3, 0]], [[2, 3]]])
    # The mean is (2, 0); distances 1, 1 and 9, over three views and two features.
    torch.testing.assert_close(lejepa.prediction(z), torch.tensor([11 / 6]))
    leaf = z.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(lejepa.prediction(leaf).sum(), leaf)
    # The gradient also flows through the mean: it moves the full views towards the crop, too.
    torch.testing.assert_close(gradient[2], torch.tensor([[0.0, 1.0]]))
    torch.testing.assert_close(gradient[:, 0].sum(0), torch.zeros(2))


def test_only_training_draws_new_directions():
    framework, batch = build("lejepa"), pair()
    with torch.no_grad():
        first = framework(batch)
        assert torch.equal(framework(batch), first)
    assert framework.stream.tolist() == [5, 0]
    assert torch.equal(framework(batch), first)  # a training forward uses these directions and increments the count
    assert framework.stream.tolist() == [5, 1]
    second = framework(batch)
    assert not torch.equal(second, first)
    torch.testing.assert_close(second, torch.stack(slow_lejepa(framework, batch, draws=1)))
    framework.eval()
    third = framework(batch)
    assert torch.equal(framework(batch), third) and not torch.equal(third, second)
    assert framework.stream.tolist() == [5, 2]


def test_a_resumed_training_draws_the_same_directions():
    framework, resumed, batch = build("lejepa"), build("lejepa", seed=77), pair()
    framework(batch), framework(batch)
    resumed.load_state_dict(framework.state_dict())
    assert torch.equal(resumed(batch), framework(batch))
    assert resumed.stream.tolist() == [5, 3]


def test_without_a_seed_the_directions_depend_on_the_global_generator():
    def streams(seed):
        torch.manual_seed(seed)
        return LeJEPA(nn.Identity(), nn.Identity()).stream

    assert torch.equal(streams(0), streams(0)) and not torch.equal(streams(0), streams(1))


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_each_term_separately(weight):
    framework, batch = build("lejepa", sigreg_weight=weight), pair()
    losses = framework(batch)
    torch.testing.assert_close(losses, torch.stack(slow_lejepa(framework, batch, weight)), rtol=1e-9, atol=1e-12)
    assert torch.autograd.grad(losses.mean(), trainable(framework)[0])[0].abs().max() > 0


def test_crops_of_another_size_share_one_pass():
    framework = LeJEPA(encoder := AnySize(), nn.Identity(), n_slices=4)
    whole = torch.randn(2, B, 5)
    assert framework(PositivePair(whole[0], whole[1], local=torch.randn(B, 3, 4))).shape == (B,)
    assert encoder.calls == [(2 * B, 5), (3 * B, 4)]
