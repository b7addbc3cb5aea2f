"""Conditional corruption: replaced features, predictions, training and saving."""

import copy

import pytest
import torch

from drawn import draw
from refusals import refusal
from viewsmith.modalities.vectors.views import ConditionalCorruption
from viewsmith.views import PairMaker

D = 8


def correlated(rows, seed=0, dtype=torch.float32):
    """Eight features of standard deviation 1: functions of two latent variables, and independent noise of 0.3."""
    latent = torch.randn(rows, 2, generator=draw(seed), dtype=torch.float64)
    angles = torch.arange(D, dtype=torch.float64) * torch.pi / D
    x = latent @ torch.stack([angles.cos(), angles.sin()]) * (1 - 0.3**2) ** 0.5
    return (x + 0.3 * torch.randn(rows, D, generator=draw(seed + 100), dtype=torch.float64)).to(dtype)


@pytest.fixture(scope="module")
def learned():
    maker = ConditionalCorruption(D, 0.6, hidden=64)
    maker.prepare(correlated(1000))
    return maker


def test_the_fraction_of_replaced_features_is_the_rate(learned):
    x = correlated(4000, seed=1)
    replaced = (learned(x, generator=draw()) != x).double()
    assert float(replaced.mean()) == pytest.approx(0.6, abs=4 * (0.24 / replaced.numel()) ** 0.5)
    assert (replaced.mean(0) - 0.6).abs().max() < 4 * (0.24 / 4000) ** 0.5
    assert torch.corrcoef(replaced.T).fill_diagonal_(0).abs().max() < 0.07


@pytest.mark.parametrize(("rate", "kept"), [(0.0, 1.0), (1.0, 0.0)])
def test_extreme_rates(rate, kept):
    maker, x = ConditionalCorruption(D, rate, hidden=8, steps=3), correlated(50)
    maker.prepare(x)
    assert float((maker(x, generator=draw()) == x).double().mean()) == kept


def test_predictions_do_not_use_the_masked_features(learned):
    x, masked = correlated(50, seed=1), torch.zeros(50, D, dtype=torch.bool)
    masked[:, 2] = True
    other = x.clone()
    other[:, 2] = 99
    assert torch.equal(learned._predict(x, masked), learned._predict(other, masked))


def test_predictions_have_a_higher_likelihood_than_marginals(learned):
    # Gaussian log-likelihood, in nats a feature, of masked features of new rows.
    x = correlated(4000, seed=1)
    masked = torch.rand(x.shape, generator=draw()) < 0.6
    errors = (x - learned._predict(x, masked))[masked]
    scale = learned.residual.expand(4000, D)[masked]
    conditional = (-0.5 * (errors / scale).square() - scale.log()).mean()
    marginal = (-0.5 * ((x - x.mean(0)) / x.std(0)).square() - x.std(0).log())[masked].mean()
    assert conditional > marginal + 0.2
    # The residual is the standard deviation of the errors.
    assert float((errors / scale).square().mean()) == pytest.approx(1, abs=0.1)


def test_views_keep_variances_and_correlations(learned):
    x = correlated(4000, seed=1)
    view = learned(x, generator=draw())
    spread = view.std(0) / x.std(0)
    assert spread.min() > 0.85 and spread.max() < 1.15
    assert (torch.corrcoef(view.T) - torch.corrcoef(x.T)).abs().mean() < 0.15


def test_training_does_not_depend_on_the_global_generator():
    weights = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        maker = ConditionalCorruption(D, 0.5, hidden=16, steps=10)
        state = torch.get_rng_state()
        with torch.no_grad():
            maker.prepare(correlated(100))
        assert torch.equal(torch.get_rng_state(), state)
        weights.append(maker.state_dict())
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])


def test_the_network_is_trained_once_and_saved():
    maker = ConditionalCorruption(D, 0.5, hidden=16, steps=10)
    assert maker.needs_pool and PairMaker([maker]).needs_pool
    maker.prepare(correlated(100))
    assert not maker.needs_pool and maker.pool is None
    before = copy.deepcopy(maker.state_dict())
    maker.prepare(correlated(100, seed=5))
    loaded = ConditionalCorruption(D, 0.5, hidden=16)
    loaded.load_state_dict(before)
    assert not loaded.needs_pool
    x = correlated(10)
    assert torch.equal(loaded(x, generator=draw()), maker(x, generator=draw()))
    assert set(before) >= {"residual", "numbers.learned", "network.0.weight", "network.2.bias"}


def test_the_network_has_no_trainable_parameters(learned):
    assert not any(parameter.requires_grad for parameter in learned.parameters())
    assert all(parameter.grad is None for parameter in learned.parameters())
    assert not learned(correlated(5), generator=draw()).requires_grad


def test_two_rows_are_enough():
    maker = ConditionalCorruption(1, 0.5, hidden=4, steps=5)
    maker.prepare(torch.tensor([[1.0], [2.0]]))
    assert maker(torch.tensor([[1.0]]), generator=draw()).isfinite().all()


def test_refusals():
    maker = ConditionalCorruption(D)
    with pytest.raises(RuntimeError, match=r"call prepare\(rows\) first"):
        maker(correlated(3))
    assert "rows of shape (5,), expected (8,)" in refusal(maker.prepare, torch.zeros(10, 5))
    assert "rate is 1.5, expected a number from 0 to 1" in refusal(ConditionalCorruption, D, 1.5)
