"""Counts of cells as 10x writes them: equal to the same cells in an .h5ad file, bit for bit."""

import gzip

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse

from refusals import refusal
from viewsmith.data import load_dataset
from viewsmith.data.readers import h5ad

NAMES = ["G0", "G1", "G1", "G1-1", "G1", *(f"G{i}" for i in range(5, 30))]
CELLS = [f"{letters}-1" for letters in ("".join(np.random.default_rng(i).choice(list("ACGT"), 14)) for i in range(60))]
LABELS = np.where(np.arange(60) % 3, "b", "t")

pytestmark = pytest.mark.filterwarnings("ignore:.*raw counts, log-normalized")


@pytest.fixture
def counts():
    return scipy.sparse.csr_array(np.random.default_rng(0).poisson(0.4, (60, 30)).astype(np.int32))


def folder(path, counts, version=3, kinds=None):
    path.mkdir(parents=True)
    ending = ".gz" if version == 3 else ""
    scipy.io.mmwrite(path / "matrix.mtx", scipy.sparse.coo_array(counts.T))
    kinds = kinds or ["Gene Expression"] * len(NAMES)
    rows = [(f"ENSG{i:05}", name, kind)[:version] for i, (name, kind) in enumerate(zip(NAMES, kinds, strict=True))]
    texts = {"barcodes.tsv": "\n".join(CELLS), ("features" if version == 3 else "genes") + ".tsv": "\n".join(
        "\t".join(row) for row in rows
    )}  # fmt: skip
    for name, text in texts.items():
        with (gzip.open if ending else open)(path / (name + ending), "wt") as file:
            file.write(text + "\n")
    if ending:
        with gzip.open(path / "matrix.mtx.gz", "wb") as file:
            file.write((path / "matrix.mtx").read_bytes())
        (path / "matrix.mtx").unlink()
    return path


def hdf5(path, counts, version=3):
    stored = scipy.sparse.csc_array(counts.T)
    with h5py.File(path, "w") as file:
        group = file.create_group("matrix" if version == 3 else "GRCh38")
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(stored, name)
        group["shape"] = stored.shape
        group["barcodes"] = np.array(CELLS, "S")
        genes = group.create_group("features") if version == 3 else group
        genes["name" if version == 3 else "gene_names"] = np.array(NAMES, "S")
        if version == 3:
            genes["feature_type"] = np.array(["Gene Expression"] * len(NAMES), "S")
    return path


def cells(path, counts):
    found = anndata.AnnData(
        X=counts.astype(np.float32),
        obs=pd.DataFrame({"kind": LABELS, "donor": np.arange(60) % 4}, index=CELLS),
        var=pd.DataFrame(index=NAMES),
    )
    found.var_names_make_unique()
    found.write_h5ad(path)
    return path


def table(path):
    order = np.random.default_rng(1).permutation(60)
    frame = pd.DataFrame({"barcode": CELLS, "kind": LABELS, "donor": np.arange(60) % 4}).iloc[order]
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("form", ["folder 3", "folder 2", "file 3", "file 2", "parent"])
def test_the_same_cells_as_of_an_h5ad_file(tmp_path, counts, form):
    version = 2 if form.endswith("2") else 3
    (tmp_path / "set").mkdir()
    if form.startswith("file"):
        path = hdf5(tmp_path / "set" / "cells.h5", counts, version)
    else:
        path = folder(tmp_path / "set" / "matrix", counts, version)
    table(tmp_path / "set" / "labels.csv")
    path = tmp_path / "set" if form == "parent" else path
    options = {"label": "kind", "groups": "donor"}
    expected = load_dataset(cells(tmp_path / "cells.h5ad", counts), **options)
    data = load_dataset(path, **options)
    assert np.array_equal(data.x, expected.x) and data.x.dtype == expected.x.dtype == np.float32
    for name in ("feature_names", "row_names", "modality", "schema"):
        assert getattr(data, name) == getattr(expected, name), name
    assert data.y.tolist() == expected.y.tolist() and data.groups.tolist() == expected.groups.tolist()
    assert np.array_equal(data.train_index, expected.train_index)
    again = load_dataset(path, schema=expected.schema)
    assert np.array_equal(again.x, expected.x)
    assert load_dataset(path, normalization="none").x.max() == counts.max()


def test_features_of_other_kinds_are_left_out(tmp_path, counts):
    kinds = ["Gene Expression"] * 28 + ["Antibody Capture"] * 2
    path = folder(tmp_path / "m", counts, kinds=kinds)
    with pytest.warns(UserWarning, match="2 features of other kinds are left out: Antibody Capture"):
        data = load_dataset(path, normalization="none")
    assert np.array_equal(data.x, counts.toarray()[:, :28]) and len(data.feature_names) == 28


@pytest.mark.parametrize("write", ["table", "csv"])
def test_names_that_r_writes_have_quotes_and_numbers(tmp_path, counts, write):
    """As of write.table and write.csv, with row names."""
    place = folder(tmp_path / "x", counts, version=2)
    genes = [f"Gene{i}" for i in range(30)]
    for file, names in (("barcodes.tsv", CELLS), ("genes.tsv", genes)):
        (place / file).write_text("".join(f'"{i}"\t"{name}"\n' for i, name in enumerate(names, 1)))
    if write == "csv":
        (place / "matrix.mtx").rename(place / "counts.mtx")
        for file, names in (("cells.csv", CELLS), ("genes.csv", genes)):
            lines = [f'"{i}","{name}"\n' for i, name in enumerate(names, 1)]
            (place / file).write_text('"","x"\n' + "".join(lines))
        for file in ("barcodes.tsv", "genes.tsv"):
            (place / file).unlink()
    pd.DataFrame({"cell": CELLS, "kind": LABELS}).to_csv(place / "metadata.csv", index=False)
    data = load_dataset(place / "counts.mtx" if write == "csv" else place, labels=place / "metadata.csv", label="kind")
    assert data.feature_names == genes and list(data.row_names) == CELLS and data.y.tolist() == LABELS.tolist()


@pytest.mark.parametrize("of_file", [True, False])
def test_proteins_among_the_genes_of_an_h5ad_file_are_named(tmp_path, counts, of_file):
    var = pd.DataFrame(
        {"feature_types": ["Gene Expression"] * 28 + ["Antibody Capture"] * 2}, index=map(str, range(30))
    )
    cells = anndata.AnnData(counts.astype(np.float32), pd.DataFrame(index=CELLS), var)
    cells.write_h5ad(tmp_path / "x.h5ad")
    with pytest.warns(UserWarning, match=r"other kinds \(Antibody Capture\) are scaled and learned with the genes"):
        load_dataset(tmp_path / "x.h5ad") if of_file else h5ad.matrix_of(cells, None, None)


@pytest.mark.parametrize("form", ["folder", "file", "matrix"])
def test_peaks_of_chromatin_that_are_open_or_not_are_log_normalized(tmp_path, counts, form):
    places = [("chr1", str(500 * i), str(500 * i + 200)) for i in range(30)]
    names, counts = [f"{chrom}:{start}-{end}" for chrom, start, end in places], (counts > 0).astype(np.int32)
    if form == "file":
        path = hdf5(tmp_path / "c.h5", counts)
        with h5py.File(path, "r+") as file:
            for key, texts in (("name", names), ("feature_type", ["Peaks"] * 30)):
                del file[f"matrix/features/{key}"]
                file[f"matrix/features/{key}"] = np.array(texts, "S")
    else:
        path = folder(tmp_path / "m", counts)
        (path / "features.tsv.gz").unlink()
        (path / "peaks.bed").write_text("".join("\t".join(place) + "\n" for place in places))
        if form == "matrix":
            path = (path / "matrix.mtx.gz").rename(path / "counts.mtx.gz")
    with pytest.warns(UserWarning, match="raw counts, log-normalized"):
        data = load_dataset(path)
    np.testing.assert_allclose(np.expm1(data.x).sum(1), 1e4 * (counts.sum(1) > 0), rtol=1e-4)
    assert data.feature_names == names


def test_refusals(tmp_path, counts):
    path = folder(tmp_path / "a" / "m", counts)
    assert f"which is read as a whole: give {path}" in refusal(load_dataset, path / "matrix.mtx.gz")
    assert "no table of labels for label=kind" in refusal(load_dataset, path, label="kind")
    table(path / "labels.csv")
    assert "did you mean kind?" in refusal(load_dataset, path, label="kinds")
    (path / "barcodes.tsv.gz").rename(path / "away")
    assert "without barcodes.tsv or barcodes.tsv.gz" in refusal(load_dataset, path)
    (path / "barcodes.tsv").write_text("\n".join(CELLS[1:]))
    message = refusal(load_dataset, path)
    assert "a matrix of 30 genes and 60 cells, but features.tsv.gz has 30 lines and barcodes.tsv 59" in message
    (path / "barcodes.tsv").write_text("\n".join(CELLS))
    turned = scipy.io.mmread(path / "matrix.mtx.gz").T
    scipy.io.mmwrite(path / "matrix.mtx", turned)
    with pytest.warns(UserWarning, match="genes are columns and cells rows, by the lines of features.tsv.gz"):
        np.testing.assert_array_equal(load_dataset(path, normalization="none").x, counts.toarray())
    (path / "matrix.mtx").rename(path.parent / "counts.mtx")
    (path / "matrix.mtx.gz").rename(path / "away.gz")
    assert "give its matrix alone, " in refusal(load_dataset, path.parent)
    (path.parent / "counts.mtx").unlink()
    (path / "matrix.mtx.gz").write_bytes(b"nothing")
    assert f"cannot read {path} as a 10x folder" in refusal(load_dataset, path)
    folder(tmp_path / "a" / "n", counts)
    assert "has the 10x folders m, n, expected one" in refusal(load_dataset, tmp_path / "a")
    whole = hdf5(tmp_path / "c.h5", counts)
    with h5py.File(whole, "r+") as file:
        file["matrix/indptr"][3] = 10**6
    assert "cannot read" in refusal(load_dataset, whole)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = 3
    assert "without counts of 10x" in refusal(load_dataset, tmp_path / "other.h5")


@pytest.mark.parametrize("write", [folder, hdf5])
def test_large_counts_stay_sparse(tmp_path, counts, write):
    path = write(tmp_path / "t.h5" if write is hdf5 else tmp_path / "t", counts)
    dense, found = load_dataset(path).x_train, load_dataset(path, stream=True).x_train
    assert found.sparse(0, 1).nnz <= dense.shape[1] and isinstance(dense, np.ndarray)
    np.testing.assert_array_equal(np.asarray(found), dense)
    np.testing.assert_array_equal(found[np.array([3, 1])], dense[[3, 1]])


def test_counts_that_do_not_fit_stay_sparse(tmp_path, counts, monkeypatch):
    path = hdf5(tmp_path / "t.h5", counts)
    monkeypatch.setattr(h5ad, "memory_limit", lambda: 4 * counts.shape[0] * counts.shape[1] - 1)
    assert load_dataset(path).x_train.sparse(0, 1) is not None


def test_a_folder_of_visium_has_spots(tmp_path, counts, capsys):
    (tmp_path / "spatial").mkdir()
    (tmp_path / "spatial" / "tissue_lowres_image.png").write_bytes(b"")
    folder(tmp_path / "filtered_feature_bc_matrix", counts)
    with pytest.warns(UserWarning, match="log-normalized"):
        data = load_dataset(tmp_path)
    assert data.x.shape == (60, 30) and "samples are the spots of filtered_feature_bc_matrix" in capsys.readouterr().err
