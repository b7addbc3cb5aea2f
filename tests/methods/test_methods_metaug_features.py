"""Generators of augmented features."""

import pytest
import torch

from refusals import refusal
from viewsmith.views import MetaFeatures


def projections(dtype=torch.float64, views=3):
    return torch.randn(views, 8, 6, generator=torch.Generator().manual_seed(0), dtype=dtype)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_each_view_has_its_generator(residual, dtype):
    torch.manual_seed(0)
    generators = MetaFeatures(3, 6, hidden=(10, 10), residual=residual).to(dtype)
    z = projections(dtype)
    a = generators(z)
    assert a.shape == z.shape and a.dtype == dtype
    torch.testing.assert_close(a.norm(dim=-1), torch.ones(3, 8, dtype=dtype))
    for j, network in enumerate(generators.networks):
        direction = z[j] / z[j].norm(dim=1, keepdim=True)
        expected = direction + network(direction) / 6**0.5 if residual else network(direction)
        torch.testing.assert_close(a[j], expected / expected.norm(dim=1, keepdim=True))
    # The length of a projection has no effect.
    torch.testing.assert_close(generators(2 * z), a)


@pytest.mark.parametrize("width", [32, 128])
def test_residual_generators_start_close_to_the_projection(width):
    torch.manual_seed(0)
    z = torch.randn(2, 200, width)
    cosine = torch.cosine_similarity(MetaFeatures(2, width)(z), z, dim=-1)
    assert 0.85 < cosine.mean() < 0.97
    assert MetaFeatures(2, width, residual=False)(z).mul(torch.nn.functional.normalize(z, dim=-1)).sum(-1).mean() < 0.3


def test_published_widths():
    shapes = [tuple(p.shape) for p in MetaFeatures(3, 128, hidden=(2048, 2048)).parameters() if p.ndim == 2]
    assert shapes == [(2048, 128), (2048, 2048), (128, 2048)] * 3
    assert sum(p.numel() for p in MetaFeatures(2, 128, hidden=(2048, 2048)).parameters()) // 2 == pytest.approx(
        4.73e6, rel=0.002
    )


def test_rows_of_zeros_are_finite():
    torch.manual_seed(0)
    for residual in (False, True):
        z = torch.zeros(2, 4, 6, dtype=torch.float64, requires_grad=True)
        a = MetaFeatures(2, 6, residual=residual).double()(z)
        (gradient,) = torch.autograd.grad(a.sum(), z)
        assert torch.isfinite(a).all() and torch.isfinite(gradient).all()


def test_one_view_is_refused():
    assert "1 view of each sample, expected at least 2" in refusal(MetaFeatures, 1, 6)
