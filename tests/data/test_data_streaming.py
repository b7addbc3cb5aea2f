"""Rows that stay on disk: every format gives the rows that it gives in memory, in ranges and by index."""

import threading
import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from refusals import refusal
from viewsmith.core import rows as row_source
from viewsmith.core.rows import ArrayRows, JoinedRows, RowSource, SparseRows, as_source, read_ahead
from viewsmith.data import load_dataset, write_representations
from viewsmith.data.readers import tables

anndata = pytest.importorskip("anndata")
rng = np.random.default_rng(0)
COUNTS = rng.poisson(0.4, size=(60, 7)).astype(np.float32)
LABELS = np.repeat(["a", "b", "c"], 20)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(row_source, "BLOCK_VALUES", 7 * 13)
    monkeypatch.setattr(tables, "BATCH_VALUES", 7 * 8)


def npy(path):
    np.save(path := path / "x.npy", COUNTS.astype(np.float64))
    return path


def npz(path):
    np.savez(path := path / "x.npz", X=COUNTS, y=LABELS)
    return path


def npz_split(path):
    np.savez(path := path / "x.npz", X_train=COUNTS[:40], X_test=COUNTS[40:], y_train=LABELS[:40], y_test=LABELS[40:])
    return path


def cells(matrix):
    obs = pd.DataFrame({"kind": LABELS}, index=[f"cell{i}" for i in range(60)])
    return anndata.AnnData(matrix, obs=obs, var=pd.DataFrame(index=[f"gene{i}" for i in range(7)]))


def h5ad_csr(path):
    cells(sp.csr_matrix(COUNTS)).write_h5ad(path := path / "x.h5ad", compression="gzip")
    return path


def h5ad_dense(path):
    cells(COUNTS).write_h5ad(path := path / "x.h5ad")
    return path


def zarr(path):
    pytest.importorskip("zarr")
    cells(sp.csr_matrix(COUNTS)).write_zarr(path := path / "x.zarr")
    return path


def parquet(path):
    frame = pd.DataFrame(COUNTS, columns=[f"c{i}" for i in range(7)]).assign(kind=LABELS)
    frame.to_parquet(path := path / "x.parquet", row_group_size=17)
    return path


FORMATS = {make.__name__: make for make in (npy, npz, npz_split, h5ad_csr, h5ad_dense, zarr, parquet)}
INDICES = ([3], [5, 6, 7], [0, 13, 14, 59], [59, 0, 30, 30, 2])


@pytest.mark.parametrize("form", FORMATS)
def test_rows_on_disk_are_those_in_memory(form, tmp_path):
    path = FORMATS[form](tmp_path)
    label = {"label": "kind"} if form.startswith(("h5ad", "zarr", "parquet")) else {}
    one, other = load_dataset(path, **label), load_dataset(path, **label, stream=True)
    assert isinstance(one.x, np.ndarray) and isinstance(other.x, RowSource)
    assert other.x.shape == one.x.shape and other.x.dtype == one.x.dtype == np.float32
    assert np.array_equal(np.concatenate(list(other.x.blocks())), one.x)
    assert np.array_equal(other.x[:], one.x) and np.array_equal(np.asarray(other.x), one.x)
    for index in INDICES:
        assert np.array_equal(other.x[np.array(index)], one.x[index])
    for start, stop in ((20, 31), (0, 5), (58, 99), (7, 7)):
        assert np.array_equal(other.x[start:stop], one.x[start:stop])
    assert np.array_equal(other.x[17], one.x[17])
    assert np.array_equal(other.x_train[:], one.x_train)
    assert (other.x_test is None) == (one.x_test is None)
    if one.x_test is not None:
        assert np.array_equal(other.x_test[:], one.x_test) and np.array_equal(other.x_test[[1, 5]], one.x_test[[1, 5]])
    assert other.schema == one.schema and other.feature_names == one.feature_names
    assert (one.y is None and other.y is None) or np.array_equal(other.y, one.y)


@pytest.mark.parametrize("form", FORMATS)
def test_processes_share_files_that_are_read_by_index(form, tmp_path, monkeypatch):
    path = FORMATS[form](tmp_path)
    label = {"label": "kind"} if form.startswith(("h5ad", "zarr", "parquet")) else {}
    one, shared = load_dataset(path, **label), load_dataset(path, **label, shared=True)
    assert isinstance(shared.x, RowSource) == (form != "parquet")
    assert np.array_equal(shared.x[:], one.x) and np.array_equal(shared.x_train[:], one.x_train)
    if form != "parquet":
        assert shared.x.small and shared.x_train.small
        assert not load_dataset(path, **label, shared=True, stream=True).x.small
        monkeypatch.setattr(row_source, "STREAM_ABOVE", one.x.nbytes - 1)
        assert not load_dataset(path, **label, shared=True).x.small


def test_tables_of_several_processes_are_in_memory(tmp_path):
    pd.DataFrame({"a": [1.0, 2, 3], "b": ["x", "y", "x"]}).to_parquet(tmp_path / "x.parquet")
    assert isinstance(load_dataset(tmp_path / "x.parquet", shared=True).x, np.ndarray)


@pytest.mark.parametrize("form", ["h5ad_csr", "h5ad_dense", "parquet"])
def test_columns_come_in_the_order_of_the_run(form, tmp_path):
    first = load_dataset(FORMATS[form](tmp_path), label="kind")
    if form == "parquet":
        frame = pd.read_parquet(tmp_path / "x.parquet")
        frame[[*frame.columns[::-1]]].assign(more=1).to_parquet(tmp_path / "later.parquet")
        later = tmp_path / "later.parquet"
    else:
        made = anndata.read_h5ad(tmp_path / "x.h5ad")
        made[:, ::-1].copy().write_h5ad(later := tmp_path / "later.h5ad")
    found = load_dataset(later, schema=first.schema, stream=True)
    assert isinstance(found.x, RowSource) and np.array_equal(found.x[:], first.x)


def test_categories_are_those_of_all_rows(tmp_path):
    frame = pd.DataFrame({"a": np.arange(30.0), "kind": ["u"] * 29 + ["v"]})
    frame.to_parquet(path := tmp_path / "x.parquet", row_group_size=4)
    one, other = (load_dataset(path, one_hot=["kind"], strict=True, stream=stream) for stream in (False, True))
    assert other.feature_names == ["a", "kind=u", "kind=v"]
    assert np.array_equal(other.x[:], one.x)


@pytest.mark.parametrize("form", ["npy", "h5ad_csr", "h5ad_dense", "parquet"])
def test_damage_is_one_line(form, tmp_path):
    path = FORMATS[form](tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert "damaged" in refusal(load_dataset, path, stream=True, label=None if form == "npy" else "kind")


def test_missing_values_are_counted_in_all_rows(tmp_path):
    frame = pd.DataFrame({"a": np.arange(30.0), "b": 1.0})
    frame.loc[[3, 28], "b"] = np.nan
    frame.to_parquet(path := tmp_path / "x.parquet", row_group_size=4)
    assert "2 missing values (NaN) in 1 column: b" in refusal(load_dataset, path, stream=True)
    assert np.isnan(load_dataset(path, stream=True, impute="median").x[:]).sum() == 2


def test_a_sample_of_rows_on_disk_keeps_split_and_labels(tmp_path, monkeypatch):
    monkeypatch.setattr("viewsmith.data.dataset.SAMPLE_VALUES", 7 * 20)
    data = load_dataset(npz_split(tmp_path), stream=True)
    sample = data.in_memory()
    assert sample.x.shape == (20, 7) and sample.split == "given" and data.in_memory().x.tobytes() == sample.x.tobytes()
    assert len(sample.x_train) + len(sample.x_test) == 20 and len(sample.y_train) == len(sample.x_train)
    pairs = {(tuple(row), label) for row, label in zip(COUNTS.tolist(), LABELS, strict=True)}
    assert {(tuple(row), label) for row, label in zip(sample.x.tolist(), sample.y, strict=True)} <= pairs
    assert sample.in_memory() is sample


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".csv", ".parquet", ".h5ad"])
def test_blocks_are_written_as_one_array_is(suffix, tmp_path, monkeypatch):
    monkeypatch.setattr("viewsmith.data.write.TABLE_ROWS", 11)
    path = h5ad_csr(tmp_path)
    data = load_dataset(path, label="kind")
    H = rng.normal(size=(60, 3)).astype(np.float32)
    one, other = tmp_path / f"one{suffix}", tmp_path / f"other{suffix}"
    write_representations(one, data, H)
    write_representations(other, data, (H[start : start + 7] for start in range(0, 60, 7)))
    if suffix == ".parquet":
        pd.testing.assert_frame_equal(pd.read_parquet(other), pd.read_parquet(one))
    elif suffix == ".h5ad":
        found = anndata.read_h5ad(other).obsm["X_viewsmith"]
        assert np.array_equal(found, H) and np.array_equal(anndata.read_h5ad(one).obsm["X_viewsmith"], H)
    else:
        assert other.read_bytes() == one.read_bytes()


# ---- sources --------------------------------------------------------------------------------------------------------


def test_only_large_maps_and_sparse_matrices_stay_where_they_are(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", COUNTS)
    mapped, matrix = np.load(tmp_path / "x.npy", mmap_mode="r"), sp.csc_matrix(COUNTS)
    assert as_source(mapped) is None and as_source(matrix) is None and as_source(COUNTS, always=True) is None
    monkeypatch.setattr(row_source, "STREAM_ABOVE", COUNTS.nbytes - 1)
    assert as_source(COUNTS) is None
    for given, kind in ((mapped, ArrayRows), (matrix, SparseRows)):
        source = as_source(given)
        assert isinstance(source, kind) and np.array_equal(source[[4, 2]], COUNTS[[4, 2]])
        assert np.array_equal(source[10:20], COUNTS[10:20]) and as_source(source) is source


def test_joined_and_selected_rows():
    joined = JoinedRows([ArrayRows(COUNTS[:25]), ArrayRows(COUNTS[25:26]), ArrayRows(COUNTS[26:])])
    assert np.array_equal(joined[:], COUNTS)
    index = np.array([0, 24, 25, 26, 40, 41, 59])
    assert np.array_equal(joined[index[::-1]], COUNTS[index[::-1]])
    some = joined.select(index)
    assert len(some) == 7 and np.array_equal(some[:], COUNTS[index]) and np.array_equal(some[[1, 6]], COUNTS[[24, 59]])
    assert np.array_equal(np.concatenate(list(some.blocks())), COUNTS[index])


@pytest.mark.parametrize("key", [[60], [-1], slice(0, 10, 2)], ids=str)
def test_rows_that_are_not_there(key):
    with pytest.raises(IndexError):
        ArrayRows(COUNTS)[key]


@pytest.mark.parametrize("ahead", [1, 4])
def test_as_many_items_as_wanted_are_made_ahead(ahead):
    made, enough = [], threading.Event()

    def items():
        for number in range(10):
            made.append(number)
            if number == ahead:  # the item in hand is number 0
                enough.set()
            yield number

    found = read_ahead(items(), ahead)
    assert next(found) == 0
    assert enough.wait(10)
    time.sleep(0.05)
    assert made == list(range(ahead + 1))
    assert list(found) == list(range(1, 10))


@pytest.mark.parametrize("ahead", [1, 4])
def test_an_error_of_the_reader_is_raised_in_its_turn(ahead):
    def items():
        yield 1
        yield 2
        raise OSError("the disk")

    found = read_ahead(items(), ahead)
    assert [next(found), next(found)] == [1, 2]
    with pytest.raises(OSError, match="the disk"):
        next(found)
