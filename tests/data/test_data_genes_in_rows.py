"""Tables with genes in rows and samples in columns: refused, or told."""

import numpy as np
import pandas as pd
import pytest
from advised_lines import follow

from refusals import refusal
from viewsmith.data import load_dataset

rng = np.random.default_rng(0)


def counts(cells=60, genes=80):
    levels = np.exp(rng.normal(-2, 1.5, genes))
    x = rng.poisson(levels * np.exp(rng.normal(0, 0.2, (cells, 1))))
    x[0] += 1  # no gene is constant
    return x


def gene_table(x, names="ENSG"):
    cells = ["".join(rng.choice(list("ACGT"), 14)) + "-1" for _ in x]
    genes = [f"ENSG{i:011d}" if names == "ENSG" else f"G{i}" for i in range(x.shape[1])]
    return pd.DataFrame(x.T, index=genes, columns=cells if names == "ENSG" else [f"c{i}" for i in range(len(x))])


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".parquet"])
def test_a_table_with_genes_in_rows_is_refused(tmp_path, monkeypatch, suffix):
    x, path = counts(), tmp_path / f"t{suffix}"
    frame = gene_table(x).rename_axis("gene").reset_index()
    if suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
    message = refusal(load_dataset, path)
    assert "rows are genes" in message
    data = follow(message, tmp_path, monkeypatch)
    assert data.x.shape == x.shape
    np.testing.assert_allclose(data.x, np.log1p(x / x.sum(1, keepdims=True) * 1e4), rtol=1e-5)
    assert load_dataset(path, drop=["gene"]).x.shape == x.T.shape


def test_totals_that_look_like_those_of_genes_are_a_warning(tmp_path, recwarn):
    gene_table(counts(), "G").rename_axis("name").to_csv(tmp_path / "t.csv")
    assert len(load_dataset(tmp_path / "t.csv").x) == 80
    assert any("rows may be genes" in str(w.message) for w in recwarn)
    recwarn.clear()
    gene_table(counts(), "G").T.rename_axis("name").to_csv(tmp_path / "t.csv")
    assert len(load_dataset(tmp_path / "t.csv").x) == 60
    assert not any("genes" in str(w.message) for w in recwarn)


def test_values_of_genes_in_rows_that_are_no_counts_are_a_warning(tmp_path, monkeypatch, recwarn):
    x = rng.gamma(1, 10, (12, 80))
    gene_table(x).to_csv(tmp_path / "t.csv")
    assert load_dataset(tmp_path / "t.csv").x.shape == (80, 12)
    gene_table(x).rename_axis("#OTU ID").to_csv(tmp_path / "a.refseq.tsv", sep="\t")
    assert load_dataset(tmp_path / "a.refseq.tsv").x.shape == (80, 12)
    assert all("python -c" in str(w.message) for w in recwarn if "may be genes" in str(w.message))
    message = next(
        str(w.message) for w in recwarn if "rows may be genes and columns samples, by their names" in str(w.message)
    )
    assert follow(message, tmp_path, monkeypatch).x.shape == (12, 80)
    assert "--normalization" not in message


def test_an_h5ad_with_genes_in_rows_is_refused(tmp_path, monkeypatch):
    import anndata

    from viewsmith import Contrastive

    cells = anndata.AnnData(gene_table(counts()).astype(np.float32))
    cells.write_h5ad(tmp_path / "t.h5ad")
    message = refusal(load_dataset, tmp_path / "t.h5ad")
    with pytest.warns(UserWarning, match="log-normalized"):
        assert follow(message, tmp_path, monkeypatch).x.shape == (60, 80)
    assert "give adata.T" in refusal(Contrastive().fit, cells)


def test_counts_of_samples_whose_totals_differ_are_a_warning(tmp_path, recwarn):
    made = np.random.default_rng(0)  # rng of this file is shared between tests
    x = made.poisson(made.lognormal(3, 2, 150) * made.uniform(0.5, 2, (12, 1)))
    for values, warned in ((x, True), (x + 0.5, False), (x[:, :90], False), (np.minimum(x, 255), False)):
        pd.DataFrame(values).add_prefix("locus_").to_csv(tmp_path / "t.csv", index=False)
        assert load_dataset(tmp_path / "t.csv").x.shape == values.shape
        assert warned == any("--normalization log takes shares" in str(w.message) for w in recwarn)
        recwarn.clear()
    pd.DataFrame(x).add_prefix("v").assign(kind=list("uv") * 6).to_csv(tmp_path / "t.csv", index=False)
    load_dataset(tmp_path / "t.csv")  # with categories they are measures
    assert not any("--normalization log" in str(w.message) for w in recwarn)
    pd.DataFrame(x).add_prefix("ENSG0000000").T.rename_axis("gene").to_csv(tmp_path / "t.csv")
    load_dataset(tmp_path / "t.csv")
    assert any(str(w.message).endswith("t_cells.csv --normalization log") for w in recwarn)


@pytest.mark.parametrize("ending", [".csv", ".txt"])
def test_sites_beside_numbers_of_rows_and_annotations(tmp_path, monkeypatch, recwarn, ending):
    """As processed tables of methylation arrays are: few samples, p-values of detection, what is known of the sites."""
    beta = rng.uniform(size=(50, 3)).round(4)
    frame = pd.DataFrame(beta, columns=["s1", "s2", "s3"])
    frame.insert(1, "s1 Detection Pval", rng.uniform(size=50) / 1000)
    frame.insert(0, "ID_REF", [f"cg{i:08d}" for i in range(50)])
    frame.insert(1, "gene", [f"g{i % 20}" for i in range(50)])
    frame["MAPINFO"] = rng.integers(0, 10**8, 50)
    path = tmp_path / f"t{ending}"
    frame.to_csv(path, sep="," if ending == ".csv" else "\t")  # with the numbers of the rows
    load_dataset(path)
    message = next(str(w.message) for w in recwarn if "columns samples, by their names" in str(w.message))
    data = follow(message, tmp_path, monkeypatch)
    np.testing.assert_allclose(data.x, beta.T, rtol=1e-6)
    assert list(data.feature_names) == frame.ID_REF.tolist()


def test_few_samples_of_genes_are_told_by_the_name_of_their_column(tmp_path, recwarn):
    frame = pd.DataFrame(rng.normal(size=(100, 4)), columns=list("abcd"))
    frame.assign(Gene_Symbol=[f"N{i}" for i in range(100)]).to_csv(tmp_path / "t.csv", index=False)
    load_dataset(tmp_path / "t.csv")
    assert any("rows may be genes and columns samples" in str(w.message) for w in recwarn)
    recwarn.clear()
    frame.assign(person=[f"N{i}" for i in range(100)]).to_csv(tmp_path / "t.csv", index=False)
    load_dataset(tmp_path / "t.csv")
    assert not any("rows may be" in str(w.message) for w in recwarn)


@pytest.mark.parametrize("described", [True, False])
def test_symbols_of_which_some_are_in_several_rows(tmp_path, monkeypatch, described):
    """The line adds up their counts, since columns with equal names are refused."""
    x = rng.integers(0, 999, (4, 200))
    frame = pd.DataFrame(x.T, columns=list("abcd"))
    frame.insert(0, "gene_symbol", ["MATR3", "MATR3", *(f"SYM{i}" for i in range(198))])
    if described:
        frame.insert(1, "description", [f"protein {i}" for i in range(200)])
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.warns(UserWarning, match="rows may be genes and columns samples, by their names") as said:
        load_dataset(tmp_path / "t.csv")
    message = next(str(w.message) for w in said if "may be genes" in str(w.message))
    data = follow(message, tmp_path, monkeypatch, normalization="none")
    assert data.x.shape == (4, 199)
    np.testing.assert_array_equal(data.x[:, data.feature_names.index("MATR3")], x[:, :2].sum(1))
