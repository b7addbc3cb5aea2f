"""PCA and UMAP as baselines."""

import importlib.util
import sys
import types
import warnings

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from refusals import refusal
from viewsmith.core.errors import MissingExtra
from viewsmith.core.registry import find
from viewsmith.evaluation.baselines import BaselineContext, counts_of, pca, predictor_of, suits_by_itself, umap
from viewsmith.evaluation.protocol import DRAWS, evaluate_embedding, few_label_rows
from viewsmith.modalities import log_normalize


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
    with warnings.catch_warnings(action="error"):
        first = umap(train, test, 3)
    second = umap(train, test, 3)
    assert [part.shape for part in first] == [(120, 3), (30, 3)]
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert capfd.readouterr() == ("", "")


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
    with warnings.catch_warnings(action="error"):
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
    assert "3 train rows, expected at least 4" in refusal(umap, wine[:3], wine[3:6])


def test_equal_rows_have_zero_coordinates_and_no_warning():
    with warnings.catch_warnings(action="error"):
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


def computed(name, train, test):
    """Features of a baseline of two arrays that are their own raw features."""
    model = types.SimpleNamespace(raw_features=lambda rows: {"values": rows})
    return find("baseline", name).build(BaselineContext(model, "values", train, test))


def test_pacmap_maps_new_rows_on_the_basis_of_the_train_rows(wine, monkeypatch):
    class PaCMAP:
        def __init__(self, **options):
            assert options == {"n_components": 13, "random_state": 0}

        def fit_transform(self, x):
            print("random state is set")
            return x[:, :2]

        def transform(self, x, basis):
            assert np.array_equal(basis, wine[:60])
            return x[:, :2]

    monkeypatch.setitem(sys.modules, "pacmap", types.SimpleNamespace(PaCMAP=PaCMAP))
    train, test = computed("pacmap", wine[:60], wine[60:70])
    assert np.array_equal(train, wine[:60, :2]) and np.array_equal(test, wine[60:70, :2])


@pytest.mark.parametrize("normalized", [False, True])
def test_scvi_is_fitted_to_the_counts_of_the_train_rows(monkeypatch, normalized):
    pytest.importorskip("anndata")
    counts, seen = np.random.default_rng(0).poisson(1.0, (20, 8)).astype(np.float32), []
    counts[:, 0] = 1

    class SCVI:
        setup_anndata = staticmethod(lambda cells: seen.append(cells.X))

        def __init__(self, cells):
            pass

        def train(self, **options):
            assert options["accelerator"] == "cpu" and not options["enable_progress_bar"]

        def get_latent_representation(self, cells):
            return cells.X[:, :3]

    monkeypatch.setitem(
        sys.modules,
        "scvi",
        types.SimpleNamespace(model=types.SimpleNamespace(SCVI=SCVI), settings=types.SimpleNamespace(seed=None)),
    )
    given = log_normalize(counts) if normalized else counts
    train, test = computed("scvi", given[:15], given[15:])
    assert np.array_equal(seen[0], counts[:15])
    assert np.array_equal(train, counts[:15, :3]) and np.array_equal(test, counts[15:, :3])


def test_what_is_neither_counts_nor_log_normalized_is_refused(wine):
    for rows in (wine, -np.ones((3, 2)), np.random.default_rng(0).random((9, 4))):
        assert "scVI needs counts" in refusal(counts_of, rows)
    assert counts_of(np.array([[0.0, 0.0], [0.0, 3.0]])).tolist() == [[0, 0], [0, 3]]


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        *(("pacmap", "pacmap", "baselines"), ("scvi", "scvi", "scvi"), ("tabicl", "tabicl", "baselines")),
        *(("catch22", "pycatch22", "baselines"), ("umap", "umap", "viz")),
    ],
)
def test_a_package_that_is_missing_is_named_with_its_extra(name, module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    rows = np.arange(12.0).reshape(6, 2)
    with pytest.raises(MissingExtra, match=rf"{module}.*viewsmith\[{extra}\]"):
        computed(name, rows, rows) if name != "tabicl" else predictor_of(name)(rows, np.arange(6) % 2, rows, "class")


def test_catch22_is_of_what_is_known_of_each_channel(monkeypatch):
    def catch22_all(values, catch24):
        assert catch24 and not np.isnan(values).any()
        return {"values": [len(values), sum(values), *[np.nan] * 22]}

    monkeypatch.setitem(sys.modules, "pycatch22", types.SimpleNamespace(catch22_all=catch22_all))
    x = np.ones((3, 2, 12), np.float32)
    x[0, :, 9:], x[1, 1] = np.nan, np.nan
    train, test = computed("catch22", x, [x[0][:, :9], x[2]])
    assert train.shape == (3, 48) and np.isfinite(train).all()
    assert train[:, [0, 1, 24, 25]].tolist() == [[9, 9, 9, 9], [12, 12, 0, 0], [12, 12, 12, 12]]
    np.testing.assert_array_equal(test, train[[0, 2]])


def test_evaluations_of_recordings_have_catch22_where_it_is_installed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "pycatch22" or None)
    assert suits_by_itself(find("baseline", "catch22"), "series")
    assert not suits_by_itself(find("baseline", "catch22"), "images")
    assert not suits_by_itself(find("baseline", "pacmap"), "series")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not suits_by_itself(find("baseline", "catch22"), "series")


def test_gradient_boosting_learns_what_no_line_separates():
    x = np.random.default_rng(0).normal(size=(600, 2)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(int)
    options = {"protocols": ["linear", "linear_10pct", "knn"], "predict": predictor_of("gradient-boosting")}
    found = evaluate_embedding(x[:400], y[:400], x[400:], y[400:], **options)
    assert found["linear"] > 0.9 > evaluate_embedding(x[:400], y[:400], x[400:], y[400:])["linear"]
    assert np.isnan(found["knn"]) and found["linear"] > found["linear_10pct"] > 0.5
    number = evaluate_embedding(
        x[:400], y[:400] + 0.5, x[400:], y[400:] + 0.5, protocols=["r2", "mae", "r2_10pct"], predict=options["predict"]
    )
    assert number["r2"] > 0.7 and number["mae"] < 0.2 and number["r2"] > number["r2_10pct"]


def test_a_predictor_gets_the_labeled_rows_of_the_linear_probe(wine):
    y, seen = np.arange(100) % 3, []

    def predict(train, codes, test, target):
        seen.append(codes)
        assert target == "class" and len(train) == len(codes)
        return np.zeros(len(test), dtype=int)

    names = ["linear", "linear_10pct"]
    found = evaluate_embedding(wine[:100], y, wine[:10], y[:10], protocols=names, predict=predict)
    assert found == pytest.approx({"linear": 0.4, "linear_10pct": 0.4})
    expected = [y, *(y[few_label_rows(y, 0.1, draw)] for draw in DRAWS)]
    assert all(np.array_equal(one, other) for one, other in zip(seen, expected, strict=True))


def test_catch22_itself_where_it_is_installed():
    pycatch22 = pytest.importorskip("pycatch22")
    x = np.random.default_rng(0).normal(size=(4, 1, 200)).astype(np.float32)
    train, _ = computed("catch22", x, x)
    np.testing.assert_allclose(train[2], pycatch22.catch22_all(x[2, 0].tolist(), catch24=True)["values"], rtol=1e-6)
    np.testing.assert_allclose(train[:, 22], x[:, 0].mean(1), atol=1e-6)  # the mean


@pytest.mark.slow
def test_packages_that_are_installed(digits):
    """PaCMAP itself, where it is installed."""
    pytest.importorskip("pacmap")
    train, test = computed("pacmap", digits[:200], digits[200:220])
    assert train.shape == (200, 32) and test.shape == (20, 32) and np.isfinite(train).all() and np.isfinite(test).all()
