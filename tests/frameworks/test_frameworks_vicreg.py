"""VICReg and Barlow Twins against a loop and their loss."""

import pytest
import torch
from framework_cases import B, assert_value_and_gradient, build, pair

from viewsmith.losses import barlow_twins


def slow_vicreg(framework, batch, invariance=25.0, variance=25.0, covariance=1.0):
    """Losses with the derivatives of both covariance terms written out."""
    z = [framework.head(framework.encoder(x)) for x in (batch.first, batch.second)]
    d = z[0].shape[1]
    losses = [invariance * sum((a - b) ** 2 for a, b in zip(z[0][i], z[1][i], strict=True)) / d for i in range(B)]
    for view in z:
        mean = view.mean(0).detach()
        for j in range(d):
            for k in range(d):
                u, v = view[:, j] - mean[j], view[:, k] - mean[k]
                c = float((u * v).sum().detach() / (B - 1))
                if j != k:
                    value, slope = covariance * c**2 / d, covariance * 2 * c / d
                else:
                    root = (c + 1e-4) ** 0.5
                    value, slope = variance * max(0, 1 - root) / d / 2, -variance / (2 * root) / d / 2 * (root < 1)
                for i in range(B):
                    losses[i] = losses[i] + value + slope * (B / (B - 1) * u[i] * v[i] - c)
    return losses


@pytest.mark.parametrize("options", [{}, {"invariance_weight": 2.0, "variance_weight": 3.0, "covariance_weight": 0.5}])
def test_vicreg_equals_the_loop(options):
    framework, batch = build("vicreg", **options), pair()
    weights = {name.removesuffix("_weight"): value for name, value in options.items()}
    assert_value_and_gradient(framework, framework(batch), slow_vicreg(framework, batch, **weights))


@pytest.mark.parametrize("weight", [0.3, 2.0])
def test_it_is_the_loss_of_both_projections(weight):
    framework, batch = build("barlow-twins", off_diagonal_weight=weight), pair()
    z = [framework.head(framework.encoder(x)) for x in (batch.first, batch.second)]
    torch.testing.assert_close(framework(batch), barlow_twins(*z, off_diagonal_weight=weight))


def test_the_loss_does_not_depend_on_scale_and_shift_of_projections():
    framework, batch = build("barlow-twins"), pair()
    before = framework(batch)
    last = framework.head[0]
    with torch.no_grad():
        last.weight *= 50
        last.bias += 7
        # The 1e-5 that is added to the variance is negligible after scaling and small before.
        torch.testing.assert_close(framework(batch), before, rtol=0.02, atol=1e-3)
