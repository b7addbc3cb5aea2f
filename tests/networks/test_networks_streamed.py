"""Statistics and principal axes of rows that are read block by block: those of the same rows in memory."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from viewsmith.core import rows as row_source
from viewsmith.core.rows import ArrayRows, SparseRows
from viewsmith.core.samples import Samples
from viewsmith.modalities.checks import column_ranges
from viewsmith.networks import PrincipalAxes, Scaler
from viewsmith.networks import scaling as streamed

ROWS = np.random.default_rng(0).normal(size=(90, 24)).astype(np.float32) @ np.diag(1.5 ** np.arange(24)).astype("f4")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(row_source, "BLOCK_VALUES", 24 * 7)


def on_disk(rows, scaler=None):
    return Samples(ArrayRows(rows), scaler or torch.nn.Identity())


@pytest.mark.parametrize("scaling", ["auto", "standard", "global", "none"])
@pytest.mark.parametrize("kind", ["plain", "sparse", "offset", "missing"])
def test_statistics_of_blocks_are_those_of_the_whole(scaling, kind, monkeypatch):
    monkeypatch.setattr(streamed, "MEDIAN_BYTES", 90 * 4 * 5)
    x = {"offset": ROWS + 1e4, "sparse": np.where(ROWS.mean(0) + 1 < ROWS, ROWS, 0)}.get(kind, ROWS.copy())
    x[:, 3] = 7  # constant
    if kind == "missing":
        x[::3, 5] = x[60:, 9] = np.nan
        x[:, 2] = np.nan
    one, other = Scaler(24), Scaler(24)
    assert other.fit(ArrayRows(x), scaling) == one.fit(torch.from_numpy(x), scaling)
    for name, value in one.state_dict().items():
        torch.testing.assert_close(getattr(other, name), value, rtol=1e-6, atol=1e-6)
    if scaling == "auto":
        assert one.fit(torch.from_numpy(x), scaling) == ("global" if kind == "sparse" else "standard")


@pytest.mark.parametrize("columns", [256, 3])
def test_moments_of_blocks_are_those_of_numpy(monkeypatch, columns):
    monkeypatch.setattr(streamed, "COPIED_BYTES", columns * 8 * 28)
    x = np.random.default_rng(1).normal(1e3, 1, size=(50, 4))
    found = streamed.column_moments(torch.from_numpy(part) for part in np.split(x, [1, 2, 30]))
    np.testing.assert_allclose(found.mean, x.mean(0), rtol=1e-14)
    np.testing.assert_allclose(found.variance, x.var(0), rtol=1e-9)
    np.testing.assert_array_equal(found.low, x.min(0))
    np.testing.assert_array_equal(found.high, x.max(0))
    assert (found.rows, found.zeros) == (50, 0)


def test_moments_of_sparse_rows_are_those_of_dense_rows(monkeypatch):
    x = np.where(ROWS > 0.5, ROWS, 0)
    x[:, 3], x[:, 4], x[0, 5] = 0, 7, 0  # no value is stored, all are, and one is stored that is 0
    rows = SparseRows(sp.csr_array(x))
    rows.matrix.data[3] = x[0, rows.matrix.indices[3]] = 0
    dense = streamed.column_moments([torch.from_numpy(x)])
    for stored, blocks in ((10**6, 1), (40, 13)):  # rows of a dense block: 7
        monkeypatch.setattr(row_source, "STORED_VALUES", stored)
        assert len(list(rows.stored_blocks())) == blocks
        found = streamed.column_moments(rows.stored_blocks())
        assert (found.rows, found.zeros) == (dense.rows, dense.zeros)
        torch.testing.assert_close(found.mean, dense.mean, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(found.variance, dense.variance, rtol=1e-12, atol=1e-12)
        for name in ("low", "high", "first"):
            torch.testing.assert_close(getattr(found, name), getattr(dense, name), rtol=0, atol=0)
    twice = sp.csr_array((np.float32([1, 2, 5]), [1, 1, 0], [0, 2, 3]), shape=(2, 3))
    found = streamed.column_moments([twice])
    assert found.mean.tolist() == [2.5, 1.5, 0] and found.high.tolist() == [5, 3, 0] and found.zeros == 4


def test_chosen_rows_and_ranges_of_sparse_rows_are_those_of_dense_rows(monkeypatch):
    x = np.where(ROWS > 0.5, ROWS, 0).astype(np.float32)
    x[:, 3], x[:, 4], x[2, 5], x[:, 6] = 0, np.nan, np.nan, 7
    monkeypatch.setattr(row_source, "BLOCK", 3)
    for index in (np.flatnonzero(np.arange(len(x)) % 5 != 2), np.r_[:10, len(x) - len(x) // 2 : len(x)]):
        chosen = SparseRows(sp.csr_array(x)).select(index)
        blocks = list(chosen.stored_blocks())
        np.testing.assert_array_equal(np.concatenate([block.toarray() for block in blocks]), x[index])
        for found, dense in zip(column_ranges(chosen), column_ranges(x[index]), strict=True):
            np.testing.assert_array_equal(found, dense)
    few = SparseRows(sp.csr_array(x)).select(np.arange(0, len(x), 3))
    assert few.sparse(0, 2) is None and isinstance(next(iter(few.stored_blocks())), np.ndarray)


@pytest.mark.parametrize("wide", [False, True], ids=["covariance", "products"])
@pytest.mark.parametrize("offset", [0, 100])
def test_axes_of_blocks_are_those_of_the_whole(wide, offset, monkeypatch):
    if wide:
        monkeypatch.setattr(streamed, "COVARIANCE_UP_TO", 0)
        monkeypatch.setattr(streamed, "EXTRA", 2)
        monkeypatch.setattr(streamed, "CONVERGED", -1)
    x = ROWS + np.float32(offset)
    x[:, 3] = 7
    one, other = PrincipalAxes(24, 6), PrincipalAxes(24, 6)
    one.fit(torch.from_numpy(x))
    other.fit(on_disk(x))
    torch.testing.assert_close(other.mean, one.mean, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(other.axes, one.axes, rtol=1e-3, atol=2e-5)
    torch.testing.assert_close(other(torch.from_numpy(x)), one(torch.from_numpy(x)), rtol=1e-3, atol=2e-3)


def test_axes_of_sparse_rows_are_those_of_dense_rows(monkeypatch):
    monkeypatch.setattr(streamed, "COVARIANCE_UP_TO", 0)
    monkeypatch.setattr(streamed, "EXTRA", 2)
    x = np.where(ROWS.mean(0) < ROWS, ROWS, 0)
    x[:, 3], x[:, 5] = 0, 7  # constant
    scaler, fitted, read = Scaler(24), [], []
    assert scaler.fit(torch.from_numpy(x), "global") == "global"
    sparse = SparseRows.read_sparse
    monkeypatch.setattr(SparseRows, "sparse", lambda *given: read.append(len(fitted)) or sparse(*given))
    for source, complete in ((ArrayRows(x), True), (SparseRows(sp.csr_matrix(x)), True), (ArrayRows(x), False)):
        source.complete = complete  # without missing values
        axes = PrincipalAxes(24, 6)
        axes.fit(Samples(source, scaler))
        np.testing.assert_array_equal(source[:], x)
        fitted.append(axes)
    dense, by_products, by_blocks = fitted
    assert set(read) == {1}
    torch.testing.assert_close(by_products.mean, dense.mean)
    torch.testing.assert_close(by_products.axes, dense.axes, rtol=1e-3, atol=2e-5)
    assert torch.equal(by_blocks.axes, dense.axes)


def test_scaling_is_a_factor_only_where_zeros_stay_zeros():
    x = torch.from_numpy(np.where(ROWS.mean(0) < ROWS, ROWS, 0))
    x[:, 5] = 7
    scaler = Scaler(24)
    for scaling in ("none", "global"):
        scaler.fit(x, scaling)
        factor = scaler.factor()
        torch.testing.assert_close(x * factor, scaler(x))
    scaler.fit(x, "standard")
    assert scaler.factor() is None


def test_products_find_nearly_all_of_the_variance(monkeypatch):
    monkeypatch.setattr(streamed, "EXTRA", 4)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 300)).astype(np.float32)
    x[:, :20] += 2 * rng.normal(size=(400, 5)).astype(np.float32) @ rng.normal(size=(5, 20)).astype(np.float32)
    exact, passes = streamed._by_covariance(on_disk(x), 8), []
    times = streamed._covariance_times
    monkeypatch.setattr(streamed, "_covariance_times", lambda *given: passes.append(1) or times(*given))
    found = streamed._by_products(on_disk(x), 8)
    assert float(found.scale**2 / exact.scale**2) == pytest.approx(1, abs=0.02)
    assert found.scale <= exact.scale * (1 + 1e-6) and len(passes) <= streamed.PASSES
    torch.testing.assert_close(found.axes.T @ found.axes, torch.eye(8, dtype=torch.float64))


def test_rows_of_the_width_of_the_axes_are_coordinates():
    axes = PrincipalAxes(24, 6)
    axes.fit(torch.from_numpy(ROWS))
    coordinates = axes(torch.from_numpy(ROWS))
    assert axes(coordinates) is coordinates
    whole = PrincipalAxes(24, 24)
    whole.fit(torch.from_numpy(ROWS))
    assert not torch.equal(whole(torch.from_numpy(ROWS)), torch.from_numpy(ROWS))
