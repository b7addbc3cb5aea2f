"""Barlow Twins against its loss."""

import pytest
import torch
from framework_cases import build, pair

from viewsmith.losses import barlow_twins


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
