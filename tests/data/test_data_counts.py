"""Raw counts: recognized by their values, normalized as a loop does it, in files and arrays."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from refusals import refusal
from viewsmith.data import load_dataset
from viewsmith.modalities import log_normalize
from viewsmith.modalities.vectors.counts import check_counts, looks_like_counts

FORMS = {"dense": np.asarray, "csr": sp.csr_matrix, "csc": sp.csc_array, "coo": sp.coo_array, "lil": sp.lil_array}
rng = np.random.default_rng(0)
COUNTS = rng.poisson(rng.gamma(0.3, 2.0, (1, 30)) * rng.gamma(2.0, 0.5, (24, 1)))
COUNTS[6 + np.arange(30) % 18, np.arange(30)] += 2  # every gene is seen
COUNTS[5] = 0
NAMES = [f"gene{i}" for i in range(30)]


def loop(counts):
    made = np.zeros(counts.shape)
    for i, row in enumerate(counts.tolist()):
        for j, count in enumerate(row):
            made[i, j] = math.log1p(10_000 * count / sum(row)) if count else 0.0
    return made


@pytest.mark.parametrize(
    ("form", "dtype"),
    [*((form, np.float32) for form in FORMS), ("dense", np.uint8), ("csr", np.int64), ("csc", np.float64)],
)
def test_normalization_is_that_of_a_loop_and_keeps_the_storage(form, dtype):
    given = FORMS[form](COUNTS.astype(dtype))
    before = given.copy()
    made = log_normalize(given)
    assert made.dtype == np.float32 and sp.issparse(made) == (form != "dense")
    dense = made.toarray() if sp.issparse(made) else made
    np.testing.assert_allclose(dense, loop(COUNTS), rtol=1e-6)
    np.testing.assert_allclose(np.expm1(dense).sum(1)[COUNTS.sum(1) > 0], 10_000, rtol=1e-5)
    assert (before != given).sum() == 0  # the user's matrix is as it was


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (lambda x: x, True),
        (lambda x: x * 1.0, True),
        (lambda x: log_normalize(x), False),
        (lambda x: x - 1, False),
        (lambda x: np.minimum(x, 1), False),  # zero or one: presence, not counts
        (lambda x: x + 1, False),  # no zeros: any whole numbers
        (lambda x: np.where(x == x.max(), np.nan, x), False),
        (lambda x: np.zeros_like(x), False),
    ],
    ids=["counts", "as floats", "log-normalized", "negative", "binary", "without zeros", "missing", "empty"],
)
def test_counts_are_recognized_by_their_values_whatever_the_storage(form, change, counts):
    assert looks_like_counts(FORMS[form](change(COUNTS))) == counts


def test_other_values_are_named():
    check_counts(COUNTS, "X")
    assert "the layer has the value 0.5, expected raw counts" in refusal(check_counts, COUNTS / 2, "the layer")
    assert "the value -" in refusal(check_counts, sp.csr_matrix(-COUNTS.clip(0, 1)), "X")


# --- files


@pytest.fixture
def save(tmp_path):
    anndata = pytest.importorskip("anndata")
    import pandas as pd

    def write(x, **parts):
        cells = anndata.AnnData(x, var=pd.DataFrame(index=NAMES), **parts)
        cells.write_h5ad(tmp_path / "cells.h5ad")
        return tmp_path / "cells.h5ad"

    return write


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_counts_in_a_file_are_normalized_with_a_warning_and_saved(save, form):
    path = save(FORMS[form](COUNTS.astype(np.float32)))
    with pytest.warns(UserWarning, match=r"cells.h5ad: raw counts, log-normalized: each row to 10,000 counts") as said:
        data = load_dataset(path)
    assert len(said) == 1
    np.testing.assert_allclose(data.x, loop(COUNTS), rtol=1e-6)
    assert data.schema["normalization"] == "log"
    # New cells are normalized in the same way, whatever their values look like, and nothing is said again.
    few = save(FORMS[form](np.minimum(COUNTS, 1).astype(np.float32)))
    with warnings.catch_warnings(action="error"):
        later = load_dataset(few, schema=data.schema)
    np.testing.assert_allclose(later.x, loop(np.minimum(COUNTS, 1)), rtol=1e-6)
    wrong = save(FORMS[form](loop(COUNTS)))
    assert "expected raw counts" in refusal(load_dataset, wrong, schema=data.schema)


def test_counts_stay_where_asked_and_other_values_are_untouched(save):
    path = save(COUNTS.astype(np.float32), layers={"log": loop(COUNTS)}, obsm={"X_pca": COUNTS[:, :4] / 8})
    with warnings.catch_warnings(action="error"):
        kept = load_dataset(path, normalization="none")
        logged = load_dataset(path, layer="log")
        axes = load_dataset(path, use_rep="X_pca")
    np.testing.assert_array_equal(kept.x, COUNTS)
    np.testing.assert_allclose(logged.x, loop(COUNTS), rtol=1e-6)
    np.testing.assert_array_equal(axes.x, COUNTS[:, :4] / 8)
    assert all("normalization" not in data.schema for data in (kept, logged, axes))
    assert axes.feature_names is None and axes.schema["use_rep"] == "X_pca"
    np.testing.assert_array_equal(load_dataset(path, schema=axes.schema).x, axes.x)


def test_arrays_in_files_are_normalized_when_asked_alone(tmp_path):
    np.savez(tmp_path / "counts.npz", X=COUNTS.astype(np.float32))
    path = tmp_path / "counts.npz"
    np.testing.assert_array_equal(load_dataset(path).x, COUNTS)
    np.testing.assert_allclose(load_dataset(path, normalization="log").x, loop(COUNTS), rtol=1e-6)
    assert "expected auto, log or none" in refusal(load_dataset, path, normalization="cpm")


def test_missing_keys_name_those_there_are(save):
    path = save(COUNTS, obsm={"X_pca": COUNTS[:, :4]}, layers={"counts": COUNTS})
    missing = refusal(load_dataset, path, use_rep="X_umap")
    assert "no obsm key 'X_umap', given as use_rep; its obsm keys are: X_pca" in missing
    assert "leave one of them out" in refusal(load_dataset, path, use_rep="X_pca", layer="counts")
    np.savez(path.parent / "a.npz", X=COUNTS)
    assert "not an .h5ad file" in refusal(load_dataset, path.parent / "a.npz", use_rep="X_pca")


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_counts_that_stay_on_disk_are_normalized_where_they_are_read(save, form):
    path = save(FORMS[form](COUNTS.astype(np.float32)))
    with pytest.warns(UserWarning, match="raw counts, log-normalized"):
        whole, streamed = load_dataset(path), load_dataset(path, stream=True)
    assert not isinstance(streamed.x, np.ndarray) and streamed.schema["normalization"] == "log"
    np.testing.assert_array_equal(np.asarray(streamed.x), whole.x)
    np.testing.assert_array_equal(streamed.x[[7, 2, 7]], whole.x[[7, 2, 7]])
    sparse = streamed.x.sparse(2, 9)
    assert (sparse is None) == (form == "dense")
    if sparse is not None:
        np.testing.assert_array_equal(sparse.toarray(), whole.x[2:9])
        path.write_bytes(path.read_bytes() + b"more")
        assert "was changed while it was read" in refusal(streamed.x.sparse, 2, 9)


@pytest.mark.parametrize("kind", ["features", "sites", "standardized", "years", "samples"])
def test_values_of_features_in_rows_are_told(tmp_path, recwarn, kind):
    made = np.random.default_rng(0)
    x = made.beta(0.5, 0.5, (90, 1)) + made.normal(0, 0.1, (90, 12)) * made.uniform(0.5, 2, 12)
    if kind == "standardized":
        x = (x - x.mean(0)) / x.std(0)
    elif kind == "years":
        x = made.normal(size=(90, 1)) + np.cumsum(made.normal(0, 0.05, (90, 12)), axis=1)
    elif kind == "samples":
        x = x + made.normal(0, 1, 12)
    names = [f"cg{made.integers(10**8):08d}" if kind == "sites" else f"m{made.integers(10**6)}" for _ in x]
    pd.DataFrame(x, names).add_prefix("s").to_csv(tmp_path / "t.csv", index_label="name")
    load_dataset(tmp_path / "t.csv")
    said = [str(w.message) for w in recwarn if "columns samples" in str(w.message)]
    assert len(said) == (kind in ("features", "sites"))
    if said:
        by = (
            "genes and columns samples, by their names"
            if kind == "sites"
            else "features and columns samples, by their means"
        )
        assert f"rows may be {by}" in said[0] and said[0].endswith(", and give t_cells.csv")
