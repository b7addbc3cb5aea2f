"""Input scaling and principal axes as parts of a model."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from viewsmith.networks import PrincipalAxes, Scaler

KINDS = ("standard", "global", "none")


def fitted(x, scaling):
    x = torch.as_tensor(x)
    scaler = Scaler(x.shape[1])
    return scaler, scaler.fit(x, scaling), x


def test_standard_equals_numpy(wine):
    scaler, used, x = fitted(wine, "standard")
    expected = (wine - wine.mean(0, dtype=np.float64)) / wine.std(0, dtype=np.float64)
    assert used == "standard"
    np.testing.assert_allclose(scaler(x), expected, atol=2e-6)


def test_global_has_one_scale_and_keeps_zeros(digits):
    scaler, used, x = fitted(digits, "global")
    expected = digits / np.sqrt(digits.var(0, dtype=np.float64).mean())
    assert used == "global"
    np.testing.assert_allclose(scaler(x), expected, rtol=1e-6)
    assert ((scaler(x) == 0) == (x == 0)).all()


def test_none_changes_nothing_but_constant_features(digits):
    scaler, used, x = fitted(digits, "none")
    assert used == "none"
    assert torch.equal(scaler(x), x)
    scaler, _, x = fitted(np.column_stack([digits[:, 10], np.full(len(digits), 5, np.float32)]), "none")
    assert torch.equal(scaler(x)[:, 0], x[:, 0]) and (scaler(x)[:, 1] == 0).all()


@pytest.mark.parametrize(("zeros", "expected"), [(10, "standard"), (11, "global"), (0, "standard"), (19, "global")])
def test_auto_is_global_if_more_than_half_are_zero(zeros, expected):
    x = torch.arange(1.0, 21.0)
    x[torch.randperm(20, generator=torch.Generator().manual_seed(0))[:zeros]] = 0
    assert fitted(x.view(5, 4), "auto")[1] == expected


@pytest.mark.parametrize("scaling", KINDS)
def test_constant_features_are_ignored_and_restored(wine, scaling):
    x = np.column_stack([wine, np.full(len(wine), 0.1, np.float32), np.zeros(len(wine), np.float32)])
    scaler, _, x = fitted(x, scaling)
    scaled = scaler(x)
    assert (scaled[:, -2:] == 0).all()
    assert scaled.isfinite().all()
    # Also if the feature varies later, in new rows or by noise.
    assert (scaler(x + 1)[:, -2:] == 0).all()
    assert torch.equal(scaler.inverse(scaled + 3)[:, -2:], x[:, -2:])


@pytest.mark.parametrize("scaling", KINDS)
def test_inverse_undoes_scaling(wine, scaling):
    scaler, _, x = fitted(wine, scaling)
    torch.testing.assert_close(scaler.inverse(scaler(x)), x, rtol=1e-5, atol=1e-5)
    moved = scaler(x) + 0.5
    expected = x + 0.5 * scaler.scale
    torch.testing.assert_close(scaler.inverse(moved), expected, rtol=1e-5, atol=1e-5)


def test_missing_values_become_the_median_of_the_training_rows(wine):
    x = wine[:177].copy()
    x[::2, 0] = np.nan
    x[3:6, 4] = np.nan
    x[:, 12] = np.nan
    scaler, _, given = fitted(x, "none")
    filled = scaler(given)
    assert filled.isfinite().all()
    assert filled[0, 0] == np.nanmedian(x[:, 0]) and filled[4, 4] == np.nanmedian(x[:, 4])
    assert (filled[:, 12] == 0).all()  # without any value, the feature is constant
    seen = ~np.isnan(x)
    assert np.array_equal(filled.numpy()[seen], x[seen])
    new = torch.full((1, 13), torch.nan)
    assert scaler(new)[0, 0] == np.nanmedian(x[:, 0])


def test_imputed_values_count_in_the_statistics(wine):
    x = wine.copy()
    x[:50, 0] = np.nan
    filled = np.where(np.isnan(x), fitted(x, "none")[0].fill.numpy(), x)
    one, other = fitted(x, "standard")[0], fitted(filled, "standard")[0]
    assert torch.equal(one.center, other.center) and torch.equal(one.scale, other.scale)


def test_the_deviation_is_precise_with_a_large_offset():
    x = 1e6 + torch.randn(1000, 1, generator=torch.Generator().manual_seed(0))
    scaler, _, _ = fitted(x, "standard")
    assert float(scaler.scale) == pytest.approx(float(x.double().std(correction=0)), rel=1e-6)


def test_scaler_and_axes_have_buffers_and_no_parameters(wine):
    scaler, _, x = fitted(wine, "standard")
    axes = PrincipalAxes(13, 4)
    axes.fit(scaler(x))
    assert not list(scaler.parameters()) and not list(axes.parameters())
    assert set(scaler.state_dict()) == {"center", "scale", "fill", "varies"}
    assert set(axes.state_dict()) == {"mean", "axes"}
    y = x[:3].clone().requires_grad_()
    assert torch.autograd.grad(axes(scaler(y)).square().sum(), y)[0].abs().sum() > 0
    assert not any(buffer.requires_grad for buffer in [*scaler.buffers(), *axes.buffers()])


# --- principal axes


def axes_of(x, k):
    layer = PrincipalAxes(x.shape[1], k)
    layer.fit(torch.as_tensor(x))
    return layer


def weighted(x):
    x = np.asarray(x, dtype=np.float64)
    deviation = x.std(0)
    return (x - x.mean(0)) / np.sqrt(np.where(deviation > 0, deviation, 1))


@pytest.mark.parametrize("rows", [178, 10], ids=["more rows than features", "more features than rows"])
def test_axes_equal_the_pca_of_the_weighted_rows(wine, rows):
    x, k = wine[:rows], 6
    found = axes_of(x, k)(torch.from_numpy(x)).double().numpy()
    expected = PCA(k, svd_solver="full").fit_transform(weighted(x))
    scale = np.sqrt((expected**2).mean())
    signs = np.sign((found * expected).sum(0))
    np.testing.assert_allclose(found, expected / scale * signs, atol=1e-4 * np.abs(expected / scale).max())
    assert np.sqrt((found**2).mean()) == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize("rows", [178, 10])
def test_axes_are_orthogonal_and_their_sign_is_fixed(wine, rows):
    x = torch.from_numpy(wine[:rows])
    layer = axes_of(x, 5)
    weight = x.double().std(0, correction=0).rsqrt()
    axes = layer.axes.double() / weight[:, None]
    gram = axes.T @ axes
    torch.testing.assert_close(gram / gram[0, 0], torch.eye(5, dtype=torch.float64), rtol=0, atol=1e-5)
    assert (axes.gather(0, axes.abs().argmax(0, keepdim=True)) > 0).all()
    # The axes of -x are the same up to their sign, which is fixed.
    torch.testing.assert_close(axes_of(-x, 5).axes, layer.axes, rtol=1e-3, atol=1e-5)
    assert torch.equal(axes_of(x, 5).axes, layer.axes)


def test_the_fits_of_wide_and_tall_data_agree():
    tall = torch.randn(30, 30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wide = torch.cat([tall, torch.zeros(30, 5, dtype=torch.float64)], dim=1)  # constant features change nothing
    one, other = PrincipalAxes(30, 4).double(), PrincipalAxes(35, 4).double()
    one.fit(tall)
    other.fit(wide)
    torch.testing.assert_close(other(wide), one(tall), rtol=1e-9, atol=1e-9)


def test_constant_features_have_weight_zero():
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    x[:, 2] = 7
    layer = axes_of(x, 2)
    assert layer.axes.isfinite().all()
    torch.testing.assert_close(layer.axes[2], torch.zeros(2))


@pytest.mark.parametrize("rows", [3, 5])
def test_more_axes_than_the_rank_are_finite(rows):
    x = torch.randn(rows, 8, generator=torch.Generator().manual_seed(0))
    x[-1] = x[0]
    found = axes_of(x, rows)(x)
    assert found.isfinite().all() and found.abs().max() < 10
    assert axes_of(torch.zeros(4, 3), 2)(torch.zeros(4, 3)).abs().max() == 0
