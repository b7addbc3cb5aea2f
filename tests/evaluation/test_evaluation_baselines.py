"""PCA and UMAP as baselines."""

import sys
import types
import warnings

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from viewsmith.core.errors import InputError, MissingExtra
from viewsmith.evaluation.baselines import pca, umap


def test_pca_agrees_with_the_full_decomposition(digits):
    train, test = digits[:700], digits[700:1000]
    peer = PCA(8, svd_solver="full").fit(train)
    ours, ours_test = pca(train, test, 8)
    signs = np.sign((ours * peer.transform(train)).sum(axis=0))
    np.testing.assert_allclose(ours * signs, peer.transform(train), atol=2e-3)
    np.testing.assert_allclose(ours_test * signs, peer.transform(test), atol=2e-3)


def test_pca_is_repeatable_on_wide_rows():
    # Wide enough for the randomized solver.
    x = np.random.default_rng(0).normal(size=(600, 1200)).astype(np.float32)
    assert np.array_equal(pca(x, x[:5], 16)[0], pca(x, x[:5], 16)[0])


@pytest.mark.parametrize(("n", "d", "expected"), [(9, 13, 8), (50, 13, 13), (50, 1, 1), (2, 13, 1), (1, 13, 1)])
def test_pca_has_at_most_the_dimensions_that_the_rows_span(wine, n, d, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the explained fraction of a single row is 0 / 0
        train, test = pca(wine[:n, :d], wine[60:64, :d])
    assert train.shape == (n, expected)
    assert test.shape == (4, expected)
    assert np.isfinite(train).all()


@pytest.mark.slow  # numba compiles UMAP for 20 seconds; the tests below do without
def test_umap_is_quiet_and_repeatable(digits, capfd):
    train, test = np.tile(digits[:120], (1, 4)), np.tile(digits[120:150], (1, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = umap(train, test, 3)
    second = umap(train, test, 3)
    assert [part.shape for part in first] == [(120, 3), (30, 3)]
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_umap_does_not_change_the_threads_of_torch(wine):
    torch.set_num_threads(1)
    umap(wine[:60], wine[60:70], 2)
    assert torch.get_num_threads() == 1


@pytest.mark.slow
def test_umap_of_few_rows(wine):
    train, test = umap(wine[:6], wine[6:9])
    assert train.shape == (6, 4)
    assert np.isfinite(train).all()
    assert np.isfinite(test).all()


@pytest.fixture
def umap_calls(monkeypatch):
    """Calls of umap-learn: options and arrays. It is replaced by a class that prints and changes torch's threads."""
    calls = []

    class UMAP:
        def __init__(self, **options):
            calls.append(options)

        def fit_transform(self, x):
            calls.append(x)
            print("compiling")
            warnings.warn("compiling", UserWarning, stacklevel=2)
            torch.set_num_threads(2)
            return x[:, :2]

        def transform(self, x):
            calls.append(x)
            return x[:, :2]

    monkeypatch.setitem(sys.modules, "umap", types.SimpleNamespace(UMAP=UMAP))
    return calls


@pytest.mark.parametrize(
    ("rows", "asked", "components", "neighbors"), [(60, 2, 2, 15), (60, 32, 32, 15), (16, 32, 14, 15), (6, 4, 4, 5)]
)
def test_umap_options_are_reduced_for_few_rows(wine, umap_calls, capfd, rows, asked, components, neighbors):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train, test = umap(wine[:rows], wine[60:70], asked, seed=3)
    assert umap_calls[0] == {"n_components": components, "n_neighbors": neighbors, "random_state": 3, "n_jobs": 1}
    assert np.array_equal(umap_calls[1], wine[:rows]) and np.array_equal(umap_calls[2], wine[60:70])
    assert np.array_equal(train, wine[:rows, :2]) and np.array_equal(test, wine[60:70, :2])
    assert capfd.readouterr() == ("", "") and torch.get_num_threads() == 1


def test_umap_gets_the_principal_axes_of_wide_rows(digits, umap_calls):
    for copies, width in ((3, 192), (4, 50)):
        umap_calls.clear()
        train, test = np.tile(digits[:120], (1, copies)), np.tile(digits[120:150], (1, copies))
        umap(train, test)
        assert [part.shape for part in umap_calls[1:]] == [(120, width), (30, width)]
    expected = pca(train, test, 50)
    assert all(np.array_equal(part, other) for part, other in zip(umap_calls[1:], expected, strict=True))


def test_umap_needs_four_rows(wine, umap_calls):
    with pytest.raises(InputError, match="3 train rows, expected at least 4"):
        umap(wine[:3], wine[3:6])


def test_missing_umap_names_its_extra(wine, monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(MissingExtra, match=r"UMAP baseline needs the package 'umap-learn'.*viewsmith\[viz\]"):
        umap(wine[:20], wine[20:])


def test_equal_rows_have_zero_coordinates_and_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train, test = pca(np.ones((6, 3), np.float32), np.ones((2, 3), np.float32))
    assert not train.any() and not test.any()


def test_pca_leaves_out_axes_that_are_rounding_errors():
    rng = np.random.default_rng(0)
    half = rng.normal(size=(50, 3)).astype(np.float32)
    rows = np.concatenate([half, half @ rng.normal(size=(3, 4)).astype(np.float32), np.zeros((50, 2), np.float32)], 1)
    h, h_test = pca(rows, rows[:5])
    assert h.shape == (50, 3) and h_test.shape == (5, 3)
    equal, _ = pca(np.ones((10, 4)), np.ones((2, 4)))
    assert equal.shape == (10, 1)
