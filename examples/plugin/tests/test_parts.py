"""Equations against slow, simple loops, and properties of parts that need no estimator."""

import pytest
import torch
from viewsmith_example import AlignUniform, Drift
from viewsmith_example.denoising import FeatureNoise

from viewsmith.networks import MLP
from viewsmith.views import PositivePair

both_dtypes = pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 1e-4), (torch.float64, 1e-9)])


def rows(n, d, dtype=torch.float64, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@both_dtypes
def test_align_uniform_is_its_equation(dtype, rtol):
    torch.manual_seed(0)
    framework = AlignUniform(MLP(5, [4]), MLP(4, [3]), uniformity=0.7).to(dtype)
    pair = PositivePair(rows(6, 5, dtype), rows(6, 5, dtype, seed=1))
    views = [[z / z.norm() for z in framework.head(framework.encoder(x))] for x in (pair.first, pair.second)]
    slow = []
    for i in range(6):
        loss = ((views[0][i] - views[1][i]) ** 2).sum()
        for z in views:
            others = [torch.exp(-2 * ((z[i] - z[j]) ** 2).sum()) for j in range(6) if j != i]
            loss = loss + 0.7 / 2 * torch.log(sum(others) / 5)
        slow.append(loss)
    slow, fast, weights = torch.stack(slow), framework(pair), torch.arange(1, 7, dtype=dtype)
    torch.testing.assert_close(fast, slow, rtol=rtol, atol=1e-6 if dtype == torch.float32 else 1e-12)
    parameters = list(framework.parameters())
    for one, other in zip(
        torch.autograd.grad((weights * fast).sum(), parameters),
        torch.autograd.grad((weights * slow).sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=rtol, atol=1e-4 if dtype == torch.float32 else 1e-11)
        assert one.abs().max() > 0


@both_dtypes
def test_drift_is_straight_between_knots_and_can_be_replayed(dtype, rtol):
    x = rows(4, 9, dtype)
    maker = Drift(drift_strength=0.5, drift_knots=3)
    one, again, other = (maker(x, generator=torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert one.dtype == dtype and one.shape == x.shape
    assert torch.equal(one, again) and not torch.equal(one, other)
    knots = 0.5 * torch.randn(4, 1, 3, generator=torch.Generator().manual_seed(0), dtype=dtype)[:, 0]
    for row, (left, middle, right) in zip(one - x, knots, strict=True):
        for place in range(9):
            fraction = place / 4 if place <= 4 else (place - 4) / 4
            ends = (left, middle) if place <= 4 else (middle, right)
            torch.testing.assert_close(row[place], (1 - fraction) * ends[0] + fraction * ends[1], rtol=rtol, atol=1e-6)


def test_learned_noise_moves_to_features_that_do_not_matter_and_keeps_its_level():
    torch.manual_seed(0)
    noise, x = FeatureNoise(3, 0.5), rows(400, 3, torch.float32)
    optimizer = torch.optim.Adam(noise.parameters(), 0.1)
    for _ in range(30):
        view = noise(x, generator=torch.Generator().manual_seed(0))
        optimizer.zero_grad()
        (view - x)[:, 1:].square().mean().backward()  # the first feature is not restored at all
        optimizer.step()
    assert noise.scale.argmax() == 0 and noise.scale[0] > 4
    torch.testing.assert_close(noise.scale.prod(), torch.tensor(1.0))
    expected = 0.5 * noise.scale * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(noise(x, generator=torch.Generator().manual_seed(0)) - x, expected)
