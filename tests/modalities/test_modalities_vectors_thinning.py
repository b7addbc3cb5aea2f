"""Masking and binomial thinning, against slow loops."""

import math
from functools import reduce

import numpy as np
import pytest
import torch

from drawn import draw
from refusals import refusal
from viewsmith.modalities.vectors.thinning import count_unit, counted_as
from viewsmith.networks.scaling import Scaler
from viewsmith.views import Masking, Thinning

both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def counts_of_cells(cells=40, genes=30, seed=0):
    """Counts of very different depth; cells without a count, with equal counts, and with a smallest count of 3."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(rng.gamma(0.4, 2.0, (1, genes)) * rng.gamma(2.0, 1.0, (cells, 1))).astype(np.float64)
    counts[0] = 0
    counts[1, :2] = 900, 7
    counts[2] = 0
    counts[2, :4] = 3, 5, 0, 11
    return counts


def log_normalized(counts, total=1e4):
    made = np.zeros_like(counts)
    for i, row in enumerate(counts):
        for j, count in enumerate(row):
            made[i, j] = math.log1p(count / row.sum() * total) if count else 0.0
    return made


def scaled(rows, scaling, dtype):
    layer = Scaler(rows.shape[1]).to(dtype)
    x = torch.from_numpy(rows).to(dtype)
    layer.fit(x, scaling)
    return layer, layer(x)


# --- masking


@pytest.mark.parametrize(("scaling", "dtype"), [("global", torch.float64), ("standard", torch.float32)])
def test_masked_values_are_zero_in_the_units_of_the_data_and_others_unchanged(scaling, dtype):
    rows = np.random.default_rng(0).gamma(2.0, size=(400, 9)) + 0.5
    layer, x = scaled(rows, scaling, dtype)
    zero = layer(torch.zeros(1, 9, dtype=dtype))[0]
    view = Masking(0.3, zero)(x, generator=draw())
    drawn = torch.rand(x.shape, generator=draw(), dtype=dtype)
    for i in range(len(x)):
        for j in range(9):
            assert view[i, j] == (zero[j] if drawn[i, j] < 0.3 else x[i, j])
    masked = view != x
    assert float(masked.double().mean()) == pytest.approx(0.3, abs=4 * (0.21 / masked.numel()) ** 0.5)
    assert layer.inverse(view)[masked].abs().max() < 1e-6


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_masking_nothing_and_everything(rate):
    x = torch.randn(5, 4, generator=draw())
    assert torch.equal(Masking(rate)(x, generator=draw()), x * (1 - rate))


# --- the unit of counts


@both_dtypes
def test_the_unit_is_the_greatest_common_divisor_of_a_row(dtype):
    counts = counts_of_cells()
    counts[3, :3] = 2, 4, 8
    counts[3, 3:] = 0
    factors = np.random.default_rng(1).gamma(3.0, 4.0, len(counts))
    unit = count_unit(torch.from_numpy(counts * factors[:, None]).to(dtype))
    for row, factor, found in zip(counts.astype(int), factors, unit, strict=True):
        divisor = reduce(math.gcd, row.tolist()) or 1 / factor
        assert float(found) == pytest.approx(factor * divisor, rel=1e-5)


def test_counts_and_log_normalized_counts_are_distinguished():
    counts = counts_of_cells().astype(np.float32)
    assert counted_as(counts) == "counts"
    assert counted_as(log_normalized(counts).astype(np.float32)) == "log1p"
    # Normalized over more genes than are kept, as after a choice of variable genes.
    kept = log_normalized(counts_of_cells())[:, 5:25].astype(np.float32)
    assert counted_as(kept) == "log1p"


@pytest.mark.parametrize(
    ("change", "row"),
    [
        (lambda x: np.random.default_rng(0).random(x.shape), 0),
        (lambda x: x - np.eye(*x.shape), 0),
        (lambda x: np.where(np.arange(len(x))[:, None] == 9, x * 1.01, x), 9),
        (lambda x: np.where(np.arange(len(x))[:, None] == 4, np.nan, x), 4),
    ],
    ids=["fractions", "negative", "one other row", "missing"],
)
def test_other_values_are_refused_with_their_row(change, row):
    x = change(log_normalized(counts_of_cells())).astype(np.float32)
    line = refusal(counted_as, x)
    assert "views 'thinning' need counts" in line and f" row {row} (counted from 0) is neither" in line


# --- thinning


@pytest.mark.parametrize(("scaling", "dtype"), [("global", torch.float64), ("standard", torch.float32)])
def test_thinning_of_log_normalized_counts_is_that_of_a_loop(scaling, dtype):
    counts = counts_of_cells()
    layer, x = scaled(log_normalized(counts), scaling, dtype)
    view = Thinning(layer, 0.3, "log1p")(x, generator=draw())
    expected = torch.from_numpy(counts).to(dtype)
    kept = torch.binomial(expected, torch.full_like(expected, 0.3), generator=draw()).double().numpy()
    made = torch.from_numpy(log_normalized(kept)).to(dtype)
    tolerance = 1e-3 if dtype == torch.float32 else 1e-9
    torch.testing.assert_close(layer.inverse(view)[3:], made[3:], rtol=tolerance, atol=tolerance)
    assert torch.equal(layer.inverse(view)[0].round(decimals=4), torch.zeros_like(made[0]))


@both_dtypes
def test_raw_counts_stay_counts(dtype):
    counts = torch.from_numpy(counts_of_cells()).to(dtype)
    layer, x = scaled(counts_of_cells(), "global", dtype)
    view = layer.inverse(Thinning(layer, 0.5)(x, generator=draw()))
    kept = torch.binomial(counts, torch.full_like(counts, 0.5), generator=draw())
    torch.testing.assert_close(view, kept, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(Thinning(None, 0.5)(counts, generator=draw()), kept)


def test_thinned_counts_have_the_mean_and_variance_of_a_binomial():
    counts = torch.tensor([[20.0, 3.0, 1.0, 0.0]]).expand(20_000, -1)
    kept = Thinning(None, 0.25)(counts, generator=draw()).double()
    torch.testing.assert_close(kept.mean(0), 0.25 * counts[0].double(), rtol=0, atol=0.06)
    torch.testing.assert_close(kept.var(0), 0.1875 * counts[0].double(), rtol=0.05, atol=0)
    assert torch.corrcoef(kept[:, :3].T).fill_diagonal_(0).abs().max() < 0.03


def test_outside_of_training_other_values_are_refused():
    layer, _ = scaled(log_normalized(counts_of_cells()), "global", torch.float32)
    maker = Thinning(layer, 0.5, "log1p")
    others = torch.rand(3, 30, generator=draw())
    assert maker(others, generator=draw()).isfinite().all()
    assert "a sample is neither" in refusal(maker.eval(), others, generator=draw())
