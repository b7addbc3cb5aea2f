"""Counts of cells in loom, h5mu and mtx files: the same cells as of AnnData, genes and cells told apart."""

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse
from anndata.io import write_elem

from refusals import refusal
from viewsmith.data import load_dataset

rng = np.random.default_rng(0)
CELLS = ["".join(rng.choice([*"ACGT"], 12)) + "-1" for _ in range(60)]
GENES = [f"ENSG{i:011d}" for i in range(30)]
COUNTS = rng.poisson(0.4, (60, 30)).astype(np.float32)
COUNTS[:2] += 1
KINDS = ["u", "v"] * 30


def test_a_loom_file(tmp_path):
    path = tmp_path / "c.loom"
    with h5py.File(path, "w") as file:
        file["matrix"], file["layers/spliced"] = COUNTS.T, 2 * COUNTS.T
        file["row_attrs/Gene"], file["col_attrs/CellID"] = np.array(GENES, "S"), np.array(CELLS, "S")
        file["col_attrs/kind"], file["col_attrs/map"] = np.array(KINDS, "S"), np.zeros((60, 2))
    data = load_dataset(path, label="kind", normalization="none")
    assert np.array_equal(data.x, COUNTS) and data.feature_names == GENES and data.row_names == CELLS
    assert data.y.tolist() == KINDS
    layer = load_dataset(path, layer="spliced", normalization="none")
    assert np.array_equal(layer.x, 2 * COUNTS) and layer.schema["layer"] == "spliced"
    assert "has no layer 'x'; its layers are spliced" in refusal(load_dataset, path, layer="x")
    assert "no column 'kinds'" in refusal(load_dataset, path, label="kinds")
    with h5py.File(path, "r+") as file:
        del file["row_attrs/Gene"]
    assert "has no names of genes, expected an attribute Gene" in refusal(load_dataset, path)


def test_a_modality_of_a_mudata_file(tmp_path):
    path, obs = tmp_path / "m.h5mu", pd.DataFrame({"kind": KINDS}, index=CELLS)
    with h5py.File(path, "w") as file:
        file.create_group("mod")
        for name, x in (("prot", COUNTS[:, :5]), ("rna", COUNTS)):
            cells = anndata.AnnData(x, obs[[]], pd.DataFrame(index=GENES[: x.shape[1]]))
            write_elem(file["mod"], name, cells)
        write_elem(file, "obs", obs.iloc[::-1])
    data = load_dataset(f"{path}::rna", label="kind", normalization="none")
    assert np.array_equal(data.x, COUNTS) and data.feature_names == GENES and data.y.tolist() == KINDS
    assert load_dataset(f"{path}::prot", normalization="none").x.shape == (60, 5)
    assert f"has the modalities prot, rna, expected one: give {path}::rna" in refusal(load_dataset, path)
    assert "has no modality 'rnb'; did you mean rna?" in refusal(load_dataset, f"{path}::rnb")


@pytest.mark.parametrize("names", ["both", "genes"])
@pytest.mark.parametrize("genes", ["rows", "columns"])
def test_genes_of_a_matrix_are_told_by_names(tmp_path, genes, names):
    scipy.io.mmwrite(tmp_path / "c.mtx", scipy.sparse.coo_array(COUNTS.T if genes == "rows" else COUNTS))
    (tmp_path / "c_genes.tsv").write_text("\n".join(f"{gene}\tsymbol{i}" for i, gene in enumerate(GENES)))
    if names == "both":
        (tmp_path / "c_cells.csv").write_text("cell,kind\n" + "\n".join(f"{cell},u" for cell in CELLS))
    with pytest.warns(UserWarning, match=f"genes are {genes} and cells .*, by the names in c_genes.tsv"):
        data = load_dataset(tmp_path / "c.mtx", normalization="none")
    assert np.array_equal(data.x, COUNTS) and data.feature_names == GENES
    assert data.row_names == (CELLS if names == "both" else [str(i) for i in range(60)])


def test_a_matrix_without_names_is_refused(tmp_path):
    scipy.io.mmwrite(tmp_path / "c.mtx", scipy.sparse.coo_array(COUNTS))
    assert "a matrix of 60 x 30 whose genes cannot be told from its cells" in refusal(load_dataset, tmp_path / "c.mtx")
    (tmp_path / "genes.txt").write_text("\n".join(f"g{i}" for i in range(30)))  # as the message says
    with pytest.warns(UserWarning, match="genes are columns and cells rows, by the names in genes.txt"):
        assert load_dataset(tmp_path / "c.mtx").feature_names[3] == "g3"
