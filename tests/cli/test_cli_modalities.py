"""Images, DNA and omics from the file to the report, as a user runs the commands."""

import gzip
import json

import numpy as np
import pytest
from cli_tools import baselines_of, call, good

from viewsmith.training.run import RunFolder

SMALL = ("--epochs", "1", "--batch-size", "8", "--set", "n_components=8")


def pictures(n=24, size=12, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    x = rng.integers(0, 120, (n, size, size, 3)) + 130 * y[:, None, None, None]
    return x.astype(np.uint8), y


def sequences(n=24, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    chance = {0: (0.4, 0.1, 0.1, 0.4), 1: (0.1, 0.4, 0.4, 0.1)}
    return ["".join(rng.choice(list("ACGT"), rng.integers(30, 44), p=chance[k])) for k in y], y


def image_folder(tmp_path):
    from PIL import Image

    x, y = pictures()
    for number, (image, label) in enumerate(zip(x, y, strict=True)):
        folder = tmp_path / "pictures" / ("dark", "bright")[label]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{number:02d}.png")
    return tmp_path / "pictures"


def image_array(tmp_path):
    x, y = pictures()
    np.savez(tmp_path / "pictures.npz", X=x, y=y)
    return tmp_path / "pictures.npz"


def fasta(tmp_path):
    texts, y = sequences()
    records = [f">s{i} label={'at' if k == 0 else 'gc'}\n{t[:20]}\n{t[20:].lower()}\n" for i, (t, k) in
               enumerate(zip(texts, y, strict=True))]  # fmt: skip
    with gzip.open(tmp_path / "x.fa.gz", "wt") as file:
        file.write("".join(records))
    return tmp_path / "x.fa.gz"


def dna_array(tmp_path):
    texts, y = sequences()
    x = np.frombuffer("".join(t[:30] for t in texts).encode(), np.uint8).reshape(-1, 30)
    np.savez(tmp_path / "dna.npz", X_train=x[:16], y_train=y[:16], X_test=x[16:], y_test=y[16:])
    return tmp_path / "dna.npz"


CASES = [
    (image_folder, (), "images", "uint8", (12, 12, 3)),
    (image_array, ("--method", "pinda"), "images", "uint8", (12, 12, 3)),
    (fasta, (), "dna", "uint8", None),
    (dna_array, ("--method", "pinda", "--framework", "simsiam", "--views", "mutation"), "dna", "uint8", (30,)),
]


# Rows have the names of their files and records.
NAMES = {
    image_folder: [f"bright/{i:02d}.png" for i in range(1, 24, 2)] + [f"dark/{i:02d}.png" for i in range(0, 24, 2)],
    fasta: [f"s{i}" for i in range(24)],
}


@pytest.mark.parametrize(("make", "options", "modality", "dtype", "shape"), CASES, ids=[c[0].__name__ for c in CASES])
def test_every_command_on_every_kind_of_file(tmp_path, make, options, modality, dtype, shape):
    data, run = make(tmp_path), tmp_path / "run"
    good("fit", data, "--out", run, *SMALL, *options)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["status"] == "finished" and f'modality = "{modality}"' in (run / "config.toml").read_text()

    good("embed", run, data, "--out", tmp_path / "h.npz")
    with np.load(tmp_path / "h.npz") as h:
        found = {key: h[key].shape for key in h.files}
        names = h["names"].tolist() if "names" in h.files else None
    assert names == NAMES.get(make)
    assert found["H_train"] == (16, 8) if "H_train" in found else found["H"] == (24, 8)

    result = json.loads(good("evaluate", run, data, "--json", "--protocols", "linear,knn").out)
    assert list(result["embeddings"]) == [*baselines_of(modality), "untrained", "representation"]
    raw = "pixels / 255" if modality == "images" else ("one-hot bases", "4-mer frequencies")
    assert result["raw"] in raw

    good("views", run, data, "--n", "2", "--out", tmp_path / "v.npz")
    with np.load(tmp_path / "v.npz") as made:
        views, index = made["views"], made["index"]
        extra = set(made.files) - {"views", "index"}
    assert views.dtype == dtype and views.shape[:2] == (len(index), 2) and (shape is None or views.shape[2:] == shape)
    assert extra == ({"sigma", "noise"} if "pinda" in options else set())
    if modality == "dna":
        assert set(views.flat) <= set(b"ACGTN\x00")

    good("report", run)
    report = (run / "report.html").read_text()
    assert "Views" in report and ("Learned noise" in report) == ("pinda" in options and modality == "images")
    again = good("fit", data, "--out", run, *SMALL, *options, "--resume")
    assert again.out == f"{run}\n"


def test_labels_of_a_fasta_file_from_a_second_file(tmp_path):
    texts, y = sequences()
    (tmp_path / "x.fasta").write_text("".join(f">s{i}\n{t}\n" for i, t in enumerate(texts)))
    (tmp_path / "labels.tsv").write_text("".join(f"s{i}\tclass{k}\n" for i, k in enumerate(y)))
    run = tmp_path / "run"
    good("fit", tmp_path / "x.fasta", "--out", run, *SMALL)
    given = ("evaluate", run, tmp_path / "x.fasta", "--json", "--protocols", "knn")
    assert call(*given).refused("no labels")
    result = json.loads(good(*given, "--labels", tmp_path / "labels.tsv").out)
    assert result["rows"]["classes"] == 2
    out = tmp_path / "v.npz"
    test_rows = ("views", run, tmp_path / "x.fasta", "--split", "test", "--n", "1", "--out", out)
    assert call(*test_rows).refused("no test rows")
    good(*test_rows, "--labels", tmp_path / "labels.tsv")
    assert len(np.load(out)["index"]) == result["rows"]["test"]


@pytest.fixture
def cells(tmp_path):
    import anndata
    import pandas as pd
    import scipy.sparse

    rng = np.random.default_rng(0)
    counts = scipy.sparse.random(40, 30, 0.3, format="csr", random_state=0, dtype=np.float32)
    kinds = pd.Categorical(np.where(np.arange(40) % 2, "b", "t"))
    obs = pd.DataFrame({"kind": kinds}, index=[f"c{i}" for i in range(40)])
    cells = anndata.AnnData(X=counts, obs=obs, var=pd.DataFrame(index=[f"g{i}" for i in range(30)]))
    cells.layers["log"] = scipy.sparse.csr_matrix(np.log1p(rng.poisson(1, (40, 30))).astype(np.float32))
    cells.write_h5ad(tmp_path / "cells.h5ad")
    return tmp_path / "cells.h5ad"


def test_single_cells_with_labels_a_layer_and_h5ad_output(tmp_path, cells):
    import anndata
    import pandas as pd

    run, out = tmp_path / "run", tmp_path / "out.h5ad"
    assert call("fit", cells, "--layer", "logs", "--out", run, *SMALL).refused("logs", "log")
    assert call("fit", cells, "--label", "species", "--out", run, *SMALL).refused("species", "kind")
    good("fit", cells, "--layer", "log", "--label", "kind", "--out", run, *SMALL)
    good("evaluate", run, cells, "--label", "kind", "--protocols", "knn")
    good("embed", run, cells, "--out", out)
    good("embed", run, cells, "--out", tmp_path / "h.csv")
    assert pd.read_csv(tmp_path / "h.csv")["name"].tolist() == [f"c{i}" for i in range(40)]
    written = anndata.read_h5ad(out)
    assert written.obsm["X_viewsmith"].shape == (40, 8) and list(written.obs["kind"][:2]) == ["t", "b"]
    good("report", run)


def test_compare_reads_the_layer_that_is_set(tmp_path, cells):
    import anndata

    data = anndata.read_h5ad(cells)
    data.layers["raw"] = np.random.default_rng(0).poisson(0.3, data.shape).astype(np.float32)
    data.layers["raw"][0, 0] = 2
    data.write_h5ad(cells)
    given = ("compare", cells, "--label", "kind", "--methods", "contrastive", "--seeds", 1, "--baselines", "raw")
    said = good(*given, "--protocols", "knn", "--set", "epochs=1", "--set", "layer=raw", "--out", tmp_path / "out").err
    config = RunFolder(tmp_path / "out" / "contrastive-0").read_config()
    assert "raw counts, log-normalized" in said and config["fitted"]["normalization"] == "log"


def test_generate_reads_the_layer_of_its_run(tmp_path, cells):
    run, cache = tmp_path / "run", tmp_path / "cache"
    good("fit", cells, "--method", "diffaug", "--layer", "log", "--out", run, *SMALL)
    good("generate", cells, "--run", run, "--steps", 2, "--out", cache)
    good("views", cache, cells, "--out", tmp_path / "v.npz")
    import anndata

    found, data = np.load(tmp_path / "v.npz"), anndata.read_h5ad(cells)
    np.testing.assert_array_equal(found["samples"], data.layers["log"].toarray()[found["index"]])
    good("fit", cells, "--method", "genview", "--layer", "log", "--view-cache", cache, "--out", tmp_path / "g", *SMALL)


def test_a_graph_in_an_h5ad_file_is_used_and_needed_for_resume(tmp_path, cells):
    import anndata
    import scipy.sparse

    data = anndata.read_h5ad(cells)
    ring = scipy.sparse.csr_matrix((np.ones(40), (np.arange(40), (np.arange(40) + 2) % 40)), shape=(40, 40))
    data.obsp["connectivities"] = ring + ring.T
    data.write_h5ad(cells)
    run = tmp_path / "run"
    assert call("fit", cells, "--neighbors", "distances", "--out", run, *SMALL).refused("distances", "connectivities")
    assert call("fit", "wine", "--neighbors", "distances", "--out", run, *SMALL).refused("not an .h5ad file")
    fit = ("fit", cells, "--label", "kind", "--out", run, *SMALL)
    good(*fit, "--neighbors", "connectivities")
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    assert summary["neighbor_graph"]["search"] == "precomputed" and summary["neighbor_graph"]["edges"] <= 64
    assert call(*fit, "--resume").refused("give it again", "--neighbors")
    good(*fit, "--neighbors", "connectivities", "--resume")
    good("embed", run, cells, "--out", tmp_path / "h.csv")
