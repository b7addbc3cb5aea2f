"""Barlow Twins against the loss of the whole batch, and its published settings."""

import pytest
import torch
from framework_cases import B, build, pair, trainable
from torch import nn

from viewsmith.frameworks import BarlowTwins, FrameworkContext, barlow_twins


def slow_barlow_twins(framework, batch, weight):
    """The loss of the batch with BatchNorm without scale and shift, as in the authors' program."""
    z = [framework.head(framework.encoder(x)) for x in (batch.first, batch.second)]
    standardized = [nn.functional.batch_norm(view, None, None, training=True, eps=1e-5) for view in z]
    c = standardized[0].T @ standardized[1] / B
    loss = 0
    for j in range(len(c)):
        for k in range(len(c)):
            loss = loss + ((1 - c[j, k]) ** 2 if j == k else weight * c[j, k] ** 2)
    return loss


@pytest.mark.parametrize("weight", [0.3, 0.0, 2.0])
def test_the_mean_equals_the_published_loss(weight):
    framework, batch = build("barlow-twins", off_diagonal_weight=weight), pair()
    found, expected = framework(batch).mean(), slow_barlow_twins(framework, batch, weight)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    for one, other in zip(
        torch.autograd.grad(found, trainable(framework), allow_unused=True),
        torch.autograd.grad(expected, trainable(framework), allow_unused=True),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-11)
    assert torch.autograd.grad(framework(batch).mean(), framework.encoder[0].weight)[0].abs().max() > 0


def test_published_settings():
    with torch.device("meta"):
        head = barlow_twins.projector(16)
    linear = [m for m in head if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in linear] == [(16, 8192), (8192, 8192), (8192, 8192)]
    assert all(m.bias is None for m in linear) and len(head) == 7
    assert [m.affine for m in head if isinstance(m, nn.BatchNorm1d)] == [True, True]
    assert BarlowTwins(nn.Identity(), head).off_diagonal_weight == 0.0051


def test_the_loss_does_not_depend_on_scale_and_shift_of_projections():
    framework, batch = build("barlow-twins"), pair()
    before = framework(batch)
    last = framework.head[0]
    with torch.no_grad():
        last.weight *= 50
        last.bias += 7
        # The 1e-5 that is added to the variance is negligible after scaling and small before.
        torch.testing.assert_close(framework(batch), before, rtol=0.02, atol=1e-3)


@pytest.mark.parametrize(
    ("published", "widths", "expected"), [(True, [8192, 8192, 8192], 0.0051), (False, [512, 512, 128], 0.08)]
)
def test_head_and_off_diagonal_weight_depend_on_the_encoder(published, widths, expected):
    with torch.device("meta"):
        built = BarlowTwins.build(FrameworkContext(nn.Identity(), 16, published))
        custom = BarlowTwins.build(
            FrameworkContext(nn.Identity(), 16, published), off_diagonal_weight=2, projector_dims=(8, 4)
        )
    assert [m.out_features for m in built.head if isinstance(m, nn.Linear)] == widths
    assert [m.out_features for m in custom.head if isinstance(m, nn.Linear)] == [8, 8, 4]
    assert (built.off_diagonal_weight, custom.off_diagonal_weight) == (expected, 2)
