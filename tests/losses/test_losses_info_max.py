"""Objectives of CRL-TAC against slow sums and against each other."""

import importlib
import math

import pytest
import torch
import torch.nn.functional as F

from refusals import refusal
from slow_info_max import BETA, series, slow_bound, slow_info_max, slow_near, slow_recurrence, slow_sampled
from viewsmith.losses.info_max import (
    entropy,
    importance_weights,
    info_max,
    info_max_bound,
    log_marginal,
    near_info_max_bound,
    recurrence,
    sampled_info_max,
)
from viewsmith.losses.nt_xent import nt_xent

module = importlib.import_module("viewsmith.losses.info_max")

DTYPES = (torch.float64, torch.float32)


def projections(n, m, d=4, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    z = F.normalize(torch.randn(n, m, d, generator=generator, dtype=torch.float64), dim=-1)
    p = torch.softmax(2 * torch.randn(n, m, generator=generator, dtype=torch.float64), dim=1)
    return z.to(dtype).requires_grad_(), p.to(dtype).requires_grad_()


STORED = F.normalize(torch.randn(7, 4, generator=torch.Generator().manual_seed(9), dtype=torch.float64), dim=1)
# The second sample has no stored projections of others.
OWN = torch.tensor([[0, 0, 1, 0, 0, 0, 1], [1] * 7, [0] * 7, [0, 1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0]]).bool()
NEAR = torch.tensor([[True, True, False], [True, True, True], [False, True, True]])
CASES = {
    "equation 2": (lambda z, p: info_max(z, p, BETA), slow_info_max),
    "bound": (lambda z, p: info_max_bound(z, p, BETA), slow_bound),
    "distinct": (lambda z, p: info_max_bound(z, p, BETA, distinct=True), lambda z, p: slow_bound(z, p, distinct=True)),
    "near": (lambda z, p: near_info_max_bound(z, p, NEAR, BETA), lambda z, p: slow_near(z, p, NEAR)),
    "near, series": (
        lambda z, p: near_info_max_bound(z, p, NEAR, BETA, order=2),
        lambda z, p: slow_near(z, p, NEAR, exp=series),
    ),
    "recurrence": (
        lambda z, p: recurrence(z, p, STORED.to(z.dtype), OWN),
        lambda z, p: slow_recurrence(z, p, STORED, OWN),
    ),
    "sampled": (lambda z, p: sampled_info_max(z, BETA, 3 * p), lambda z, p: slow_sampled(z, 3 * p)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_objectives_equal_the_slow_sums_in_value_and_gradient(name, dtype):
    fast, slow = CASES[name]
    z, p = projections(5, 3, dtype=dtype)
    z_slow, p_slow = projections(5, 3)
    value, expected = fast(z, p), slow(z_slow, p_slow)
    tolerance = 1e-10 if dtype is torch.float64 else 1e-5
    assert value.dtype is dtype and value.shape == (5,)
    torch.testing.assert_close(value.double(), expected, atol=tolerance, rtol=tolerance)
    weight = torch.arange(1.0, 6)
    (weight.to(dtype) * value).sum().backward()
    (weight * expected).sum().backward()
    for found, slow_input in ((z, z_slow), (p, p_slow)):
        assert slow_input.grad.abs().max() > 1e-3
        torch.testing.assert_close(found.grad.double(), slow_input.grad, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_objectives_are_in_float32_under_autocast(name):
    z, p = projections(5, 3, dtype=torch.float32)
    expected = CASES[name][0](z, p)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(CASES[name][0](z, p), expected)


def test_the_first_term_of_near_positives_is_linear_in_p_and_that_of_the_bound_is_not():
    """Two of many transformations agree: at uniform P, their gain is 1 / M with near positives, and 1 / M^2 else."""
    m = 20
    z = F.one_hot(torch.arange(m), m).double()[None]
    z[0, 1] = z[0, 0]
    near = torch.eye(m, dtype=torch.bool)
    near[0, 1] = near[1, 0] = True
    p = torch.full((1, m), 1 / m, dtype=torch.float64, requires_grad=True)

    def advantage(value):
        (slope,) = torch.autograd.grad(value.sum(), p)
        return float(slope[0, 0] - slope[0, 2])

    beta = 1e-3  # so that the marginal is as good as linear
    marginal = -log_marginal(z, p, beta)
    common = advantage((p * marginal).sum(1))
    near[2, 3] = near[3, 2] = True  # near, but without agreement
    assert advantage(near_info_max_bound(z, p, near, beta)) - common == pytest.approx(beta * (1 - 1 / 2))
    assert advantage(info_max_bound(z, p, beta)) - common == pytest.approx(2 * beta / m)


def test_the_bound_is_below_equation_2_and_equal_for_a_channel_with_one_transformation():
    z, p = projections(20, 6, seed=1)
    assert (info_max_bound(z, p, BETA) < info_max(z, p, BETA)).all()
    one = torch.zeros_like(p)
    one[:, 2] = 1
    torch.testing.assert_close(info_max_bound(z, one, BETA), info_max(z, one, BETA))
    assert info_max(z, one, BETA).mean() <= BETA * 2  # the upper bound


def test_values_and_gradients_are_finite_at_probability_zero():
    z, _ = projections(3, 4)
    p = torch.tensor([[1.0, 0, 0, 0]] * 3, dtype=torch.float64, requires_grad=True)
    for distinct in (False, True):
        for objective in (info_max(z, p, BETA), info_max_bound(z, p, BETA, distinct=distinct)):
            (gradient,) = torch.autograd.grad(objective.sum(), p)
            assert torch.isfinite(objective).all() and torch.isfinite(gradient).all()
    pairs = info_max_bound(z, p, BETA, distinct=True) + (p * log_marginal(z, p, BETA)).sum(1)
    assert pairs.abs().max() == 0  # there is no pair of different transformations


def test_zero_projections_have_no_information():
    """The projection of an empty view is zero: it has similarity 0 with every projection, including itself."""
    z = torch.zeros(4, 3, 5, dtype=torch.float64)
    p = torch.full((4, 3), 1 / 3, dtype=torch.float64)
    assert info_max(z, p, BETA).abs().max() < 1e-15 and info_max_bound(z, p, BETA).abs().max() < 1e-15


@pytest.mark.parametrize(("order", "error"), [(1, 0.15), (2, 0.025)])
def test_the_error_of_the_series_is_that_of_the_truncated_exponential(order, error):
    z, p = projections(16, 5, d=3, seed=2)
    exact, series = log_marginal(z, p, BETA), log_marginal(z, p, BETA, order=order)
    # exp(s) on [-.5, .5] against 1 + s (+ s^2 / 2); the mean of exponentials is at least exp(-.5).
    assert 0 < (exact.exp() - series.exp()).abs().max() < error
    total = 0.0
    for q, others in zip(p, z, strict=True):
        s = BETA * z[0, 0] @ others.T
        total = total + (q * (1 + s + (s**2 / 2 if order == 2 else 0))).sum() / len(z)
    assert series[0, 0].item() == pytest.approx(math.log(total.item()), abs=1e-12)


def test_the_gradient_of_the_series_is_close_to_that_of_the_exponential():
    z, p = projections(16, 5, d=3, seed=2)
    exact = torch.autograd.grad(info_max_bound(z, p, BETA).sum(), p)[0]
    series = torch.autograd.grad(info_max_bound(z, p, BETA, order=2).sum(), p)[0]
    assert F.cosine_similarity(exact.flatten(), series.flatten(), dim=0) > 0.999


@pytest.mark.parametrize("name", ["bound", "recurrence"])
def test_blocks_change_neither_value_nor_gradient(name, monkeypatch):
    loss, (z, p) = CASES[name][0], projections(5, 3)
    whole = loss(z, p)
    gradients = torch.autograd.grad(whole.sum(), (z, p))
    monkeypatch.setattr(module, "MAX_SIMILARITIES", 4 * 15)  # of 4 projections
    monkeypatch.setattr(module, "CACHED_SIMILARITIES", 2 * 3 * len(STORED))  # of 2 samples
    parts = loss(z, p)
    torch.testing.assert_close(parts, whole, atol=1e-14, rtol=0)
    for found, expected in zip(torch.autograd.grad(parts.sum(), (z, p)), gradients, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-14, rtol=0)


def test_keys_of_all_processes_give_rows_of_the_full_result():
    z, p = projections(6, 3)
    whole = info_max_bound(z, p, BETA)
    half = info_max_bound(z[:3], p[:3], BETA, (z, p))
    torch.testing.assert_close(half, whole[:3])
    w = 3 * p
    torch.testing.assert_close(sampled_info_max(z[:3], BETA, w[:3], (z, w)), sampled_info_max(z, BETA, w)[:3])


# ---- the sampled form ---------------------------------------------------------------------------------------------


def test_two_uniform_draws_equal_info_nce_of_equation_20():
    """beta z1.z2 - (1/2) sum over both views of log (1/2N) sum over all 2N of exp(beta z.z')."""
    z, _ = projections(7, 2, seed=3)
    first, second = z[:, 0], z[:, 1]
    every = torch.cat([first, second])
    value = BETA * (first * second).sum(1)
    for view in (first, second):
        value = value - 0.5 * torch.log(torch.exp(BETA * view @ every.T).sum(1) / len(every))
    torch.testing.assert_close(sampled_info_max(z, BETA), value, atol=1e-12, rtol=0)
    # NT-Xent at temperature 1 / beta has 2N - 1 terms: it excludes the product of each projection with itself, beta.
    logits = BETA * every @ every.T
    logits.fill_diagonal_(-math.inf)
    pairs = torch.log(torch.exp(logits).sum(1)) - BETA * (first * second).sum(1).repeat(2)
    torch.testing.assert_close(nt_xent(first, second, temperature=1 / BETA), pairs.view(2, -1).mean(0))
    added = torch.log(torch.exp(logits).sum(1) + math.exp(BETA)) - BETA * (first * second).sum(1).repeat(2)
    torch.testing.assert_close(
        math.log(len(every)) - added.view(2, -1).mean(0), sampled_info_max(z, BETA), atol=1e-12, rtol=0
    )


@pytest.mark.parametrize("normalized", [False, True])
def test_importance_weights(normalized):
    log_p = torch.log_softmax(torch.randn(4, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), 1)
    drawn = torch.tensor([[0, 3, 3], [8, 1, 2], [4, 4, 4], [5, 6, 7]])
    weights = importance_weights(log_p.gather(1, drawn), 9, normalized=normalized)
    p = log_p.exp().gather(1, drawn)
    torch.testing.assert_close(weights, 3 * p / p.sum(1, keepdim=True) if normalized else 9 * p)


def test_terms_that_are_linear_in_plain_weights_are_unbiased():
    """Over all uniform draws of m = 2 of M = 3: the pair term, and the mean inside the logarithm."""
    z, p = projections(2, 3, seed=4)
    z, p = z.detach(), p.detach()
    pairs, inside = torch.zeros(2, dtype=torch.float64), 0.0
    draws = torch.cartesian_prod(torch.arange(3), torch.arange(3))
    for draw in draws:
        t = draw.expand(2, -1)
        taken = z.gather(1, t[..., None].expand(-1, -1, z.shape[2]))
        weights = importance_weights(p.log().gather(1, t), 3)
        marginal = (weights / 2 * log_marginal(taken, weights / 2, BETA)).sum(1)
        pairs += (sampled_info_max(taken, BETA, weights) + marginal) / len(draws)
        inside = inside + log_marginal(z, p, BETA, (taken, weights / 2)).exp() / len(draws)
    expected = BETA * (p[..., None] * z).sum(1).square().sum(1)
    torch.testing.assert_close(pairs, expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(inside, log_marginal(z, p, BETA).exp(), atol=1e-12, rtol=0)


def test_the_pair_term_is_unbiased_for_draws_from_p():
    z, p = projections(1, 3, seed=5)
    z, p = z.detach(), p.detach()
    mean = 0.0
    for a in range(3):
        for b in range(3):
            taken = z[:, [a, b]]
            marginal = log_marginal(taken, torch.full((1, 2), 0.5, dtype=torch.float64), BETA).mean(1)
            mean = mean + p[0, a] * p[0, b] * (sampled_info_max(taken, BETA) + marginal)
    torch.testing.assert_close(mean, BETA * (p[..., None] * z).sum(1).square().sum(1), atol=1e-12, rtol=0)


def test_pairs_need_two_draws():
    assert "expected at least 2: the loss compares pairs" in refusal(sampled_info_max, torch.ones(3, 1, 2), BETA)


# ---- entropy ------------------------------------------------------------------------------------------------------


def test_entropy_of_uniform_deterministic_and_mixed_channels():
    p = torch.tensor([[0.25] * 4, [1.0, 0, 0, 0], [0.5, 0.5, 0, 0]], dtype=torch.float64)
    torch.testing.assert_close(entropy(p.log()).exp(), torch.tensor([4.0, 1.0, 2.0], dtype=torch.float64))


def test_entropy_of_a_deterministic_channel_has_a_finite_gradient():
    logits = torch.tensor([[800.0, 0.0, 0.0]], requires_grad=True)
    value = entropy(F.log_softmax(logits, 1))
    value.sum().backward()
    assert value.item() == 0 and torch.isfinite(logits.grad).all()
