"""Logsumexp of products against autograd through the product."""

import pytest
import torch

from viewsmith.losses.numerics import logsumexp_of_products

V, B, K, D = 2, 5, 7, 3


def given(per_sample, masked, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    queries = torch.randn(V, B, D, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
    keys = torch.randn(*((B, K, D) if per_sample else (K, D)), generator=generator, dtype=torch.float64).to(dtype)
    excluded = torch.rand(B, K, generator=generator) < 0.4
    excluded[:, 0] = False
    return queries, keys, excluded if masked else None


def slow(queries, keys, excluded):
    rows = []
    for v in range(V):
        for i in range(B):
            of_sample = keys[i] if keys.ndim == 3 else keys
            counted = of_sample if excluded is None else of_sample[~excluded[i]]
            rows.append(torch.log(torch.exp((queries[v, i] * counted).sum(1)).sum()))
    return torch.stack(rows).view(V, B)


CASES = pytest.mark.parametrize(("per_sample", "masked"), [(False, False), (False, True), (True, False), (True, True)])


@CASES
def test_value_and_both_derivatives(per_sample, masked):
    queries, keys, excluded = given(per_sample, masked)
    weights = torch.randn(V, B, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = []
    for loss in (logsumexp_of_products, slow):
        value = loss(queries, keys, excluded)
        (gradient,) = torch.autograd.grad(value.square().sum(), queries, create_graph=True)
        (second,) = torch.autograd.grad((weights * gradient.sin()).sum(), queries)
        (once,) = torch.autograd.grad(loss(queries, keys, excluded).sum(), queries)
        found.append((value, gradient, second, once))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)
    assert torch.autograd.gradgradcheck(lambda q: logsumexp_of_products(q, keys, excluded), queries)


@CASES
def test_float32_and_large_products(per_sample, masked):
    queries, keys, excluded = given(per_sample, masked, torch.float32)
    found = logsumexp_of_products(100 * queries, keys, excluded)
    expected = slow(100 * queries.double(), keys.double(), excluded)
    assert found.dtype == torch.float32 and torch.isfinite(found).all()
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-3)


def test_a_sample_whose_keys_are_all_excluded_has_a_finite_gradient():
    queries, keys, _ = given(False, False)
    value = logsumexp_of_products(queries, keys, torch.ones(B, K, dtype=torch.bool))
    (gradient,) = torch.autograd.grad(torch.nn.functional.softplus(value).sum(), queries)
    assert (value < -1e8).all() and (gradient == 0).all()
