"""SimCLR against NT-Xent, with several kernels and negatives."""

import pytest
import torch
from torch import nn

from viewsmith.frameworks import SimCLR
from viewsmith.losses import nt_xent
from viewsmith.networks import MLP
from viewsmith.views import PositivePair

B, D = 6, 4


def framework(dtype=torch.float64, norm="none", **options):
    torch.manual_seed(0)
    return SimCLR(MLP(D, [8, 5], norm=norm), MLP(5, [3]), **options).to(dtype)


def pair(dtype=torch.float64, ids=True):
    x = torch.randn(2, B, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)
    rows = torch.tensor([4, 1, 0, 9, 3, 2])
    return PositivePair(x[0], x[1], (rows, rows.roll(1)) if ids else None)


every_setting = pytest.mark.parametrize(
    "options",
    [
        {"kernel": "cosine", "temperature": 0.1, "negatives": "all"},
        {"kernel": "cosine", "temperature": 0.5, "negatives": "cross"},
        {"kernel": "cauchy", "temperature": 1.0, "negatives": "cross"},
        {"kernel": "cauchy", "temperature": 0.5, "negatives": "all"},
    ],
    ids=lambda options: "-".join(str(value) for value in options.values()),
)


@every_setting
@pytest.mark.parametrize("ids", [True, False])
def test_simclr_equals_nt_xent_of_the_projections(options, ids):
    simclr, views = framework(**options), pair(ids=ids)
    losses = simclr(views)
    z0, z1 = simclr.head(simclr.encoder(views.first)), simclr.head(simclr.encoder(views.second))
    expected = nt_xent(z0, z1, ids=views.ids, **options)
    assert losses.shape == (B,)
    torch.testing.assert_close(losses, expected, rtol=1e-12, atol=1e-12)
    parameters = list(simclr.parameters())
    for one, other in zip(
        torch.autograd.grad(losses.mean(), parameters), torch.autograd.grad(expected.mean(), parameters), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
        assert one.abs().max() > 0


@every_setting
def test_losses_keep_the_order_of_the_batch(options):
    simclr, views = framework(**options), pair()
    order = torch.tensor([3, 5, 0, 2, 4, 1])
    moved = PositivePair(views.first[order], views.second[order], (views.ids[0][order], views.ids[1][order]))
    losses = simclr(views)
    torch.testing.assert_close(simclr(moved), losses[order], rtol=1e-12, atol=1e-12)
    assert len(losses.unique()) == B


@every_setting
def test_the_loss_is_computed_in_float32_under_autocast(options):
    simclr, views = framework(torch.float32, **options), pair(torch.float32)
    x = torch.cat([views.first, views.second])
    with torch.autocast("cpu", torch.bfloat16):
        losses = simclr(views)
        z = simclr.head(simclr.encoder(x))
    assert z.dtype == torch.bfloat16 and losses.dtype == torch.float32
    # Only the networks are computed in bfloat16. The loss of their projections is exact.
    torch.testing.assert_close(losses, nt_xent(*z.float().chunk(2), ids=views.ids, **options), rtol=1e-6, atol=1e-6)
    losses.mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in simclr.parameters())


def test_both_views_share_their_batch_norm_statistics():
    simclr, views = framework(norm="batch", temperature=0.5), pair()
    norm = next(m for m in simclr.encoder if isinstance(m, nn.BatchNorm1d))
    simclr(views)
    assert int(norm.num_batches_tracked) == 1
    seen = simclr.encoder[0](torch.cat([views.first, views.second])).mean(0)
    torch.testing.assert_close(norm.running_mean, 0.1 * seen)


def test_samples_of_zeros_are_legal():
    simclr = framework(temperature=0.1)
    losses = simclr(PositivePair(torch.zeros(B, D).double(), pair().second))
    losses.mean().backward()
    assert losses.isfinite().all() and all(p.grad.isfinite().all() for p in simclr.parameters())
