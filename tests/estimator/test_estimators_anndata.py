"""AnnData objects: read as files are, counts normalized, representations written back for scanpy."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import viewsmith
from refusals import refusal
from viewsmith import Contrastive
from viewsmith.modalities import log_normalize
from viewsmith.training.run import RunFolder
from viewsmith.workflows.runs import load_for

anndata = pytest.importorskip("anndata")
pytestmark = pytest.mark.filterwarnings("ignore:.*raw counts:UserWarning")

TINY = {"epochs": 1, "batch_size": 16, "n_components": 8, "random_state": 0, "hidden": (8,), "projector_dims": (4,)}
rng = np.random.default_rng(0)
COUNTS = rng.poisson(rng.gamma(0.3, 2.0, (1, 30)) * rng.gamma(2.0, 0.5, (32, 1))).astype(np.float32)
COUNTS[0, 0] = 3
NAMES = [f"gene{i}" for i in range(30)]


def cells(x=COUNTS, **parts):
    return anndata.AnnData(x, var=pd.DataFrame(index=NAMES[: x.shape[1]]), **parts)


def rich():
    axes = rng.normal(size=(32, 4))
    return cells(sp.csr_matrix(COUNTS), layers={"log": log_normalize(COUNTS)}, obsm={"X_pca": axes})


@pytest.mark.parametrize("form", [sp.csr_matrix, lambda x: x.astype(np.uint8)])
def test_it_is_fitted_on_its_normalized_counts(form, tmp_path):
    given = cells(form(COUNTS))
    with pytest.warns(UserWarning, match=r"X of the AnnData has raw counts, log-normalized: each row to 10,000"):
        model = Contrastive(**TINY).fit(given, run=tmp_path / "run")
    same = Contrastive(**TINY).fit(log_normalize(COUNTS))
    h = same.transform(log_normalize(COUNTS))
    assert np.array_equal(model.transform(given), h)
    assert np.array_equal(model.views(given, 2), same.views(log_normalize(COUNTS), 2))
    assert np.array_equal(model.scaled(given), same.scaled(log_normalize(COUNTS)))
    config = RunFolder(tmp_path / "run").read_config()
    assert config["fitted"]["normalization"] == "log" and config["fitted"]["feature_names"] == NAMES
    loaded = viewsmith.load(tmp_path / "run")
    with warnings.catch_warnings(action="error"):  # said once
        assert np.array_equal(loaded.transform(given), h)
    # Rows that were normalized by hand are taken as they are, counts in an array are not guessed at.
    assert np.array_equal(loaded.transform(log_normalize(COUNTS)), h)
    table = pd.DataFrame(log_normalize(COUNTS), columns=NAMES).assign(donor="a")
    with pytest.warns(UserWarning, match="donor"):
        assert np.array_equal(loaded.transform(table), h)
    assert "raw counts" in refusal(loaded.transform, COUNTS)
    for names in (NAMES, [*NAMES[15:], *NAMES[:15]]):
        assert "raw counts" in refusal(loaded.transform, given.to_df()[names].assign(donor="a"))
    assert "expected raw counts" in refusal(loaded.transform, cells(log_normalize(COUNTS)))


def test_counts_stay_counts_when_asked():
    model = Contrastive(**TINY, normalization="none").fit(cells())
    assert model.fitted_["normalization"] == "none"
    assert np.array_equal(model.transform(cells()), Contrastive(**TINY).fit(COUNTS).transform(COUNTS))


def test_counts_for_a_model_of_other_values_are_not_taken_without_a_word(tmp_path):
    cells().write_h5ad(tmp_path / "counts.h5ad")
    model = Contrastive(**TINY).fit(cells(log_normalize(COUNTS)))
    expected = "raw counts, but the run was fitted on other values"
    with pytest.warns(UserWarning, match=f"X of the AnnData has {expected}"):
        model.transform(cells())
    with pytest.warns(UserWarning, match=f"counts.h5ad has {expected}"):
        load_for(model, str(tmp_path / "counts.h5ad"))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*raw counts")
        model.transform(cells(log_normalize(COUNTS)))
        asked = Contrastive(**TINY, normalization="none").fit(cells())
        asked.transform(cells())
        load_for(asked, str(tmp_path / "counts.h5ad"))


@pytest.mark.parametrize(
    ("options", "matrix"),
    [({"layer": "log"}, lambda a: a.layers["log"]), ({"use_rep": "X_pca"}, lambda a: a.obsm["X_pca"])],
    ids=["layer", "representation"],
)
def test_a_layer_or_a_representation_in_place_of_x(options, matrix, tmp_path):
    given = rich()
    model = Contrastive(**TINY, **options).fit(given, run=tmp_path / "run")
    rows = matrix(given)
    assert model.fitted_["normalization"] == "none"
    h = Contrastive(**TINY).fit(rows).transform(rows)
    assert np.array_equal(model.transform(given), h)
    assert np.array_equal(viewsmith.load(tmp_path / "run").transform(given), h)


def test_genes_are_found_by_name():
    model = Contrastive(**TINY).fit(cells())
    more = anndata.AnnData(
        np.hstack([COUNTS[:, ::-1], COUNTS[:, :1]]), var=pd.DataFrame(index=[*NAMES[::-1], "another"])
    )
    with pytest.warns(UserWarning, match="1 feature that the run does not know, ignored: another"):
        assert np.array_equal(model.transform(more), model.transform(cells()))
    assert "lacks 1 feature that the run was fitted on: gene0" in refusal(model.transform, cells()[:, 1:])


def test_a_file_and_its_object_are_the_same_to_a_model(tmp_path):
    rich().write_h5ad(tmp_path / "cells.h5ad")
    for options in ({}, {"layer": "log"}, {"use_rep": "X_pca"}):
        model = Contrastive(**TINY, **options).fit(anndata.read_h5ad(tmp_path / "cells.h5ad"))
        data = load_for(model, str(tmp_path / "cells.h5ad"))
        expected = model.transform(anndata.read_h5ad(tmp_path / "cells.h5ad"))
        assert np.array_equal(model.transform(data.x), expected)
        backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
        assert np.array_equal(model.transform(backed), expected)
        backed.file.close()


@pytest.mark.slow
def test_a_run_of_the_command_reads_objects_as_it_read_the_file(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from viewsmith.cli import app

    rich().write_h5ad(tmp_path / "cells.h5ad")
    given = anndata.read_h5ad(tmp_path / "cells.h5ad")
    for number, options in enumerate(([], ["--layer", "log"], ["--use-rep", "X_pca"], ["--normalization", "none"])):
        run, out = tmp_path / f"run{number}", tmp_path / f"h{number}.npy"
        fit = ["fit", str(tmp_path / "cells.h5ad"), "--out", str(run), "--epochs", "1", *options]
        for command in (fit, ["embed", str(run), str(tmp_path / "cells.h5ad"), "--out", str(out)]):
            result = CliRunner().invoke(app, command)
            assert result.exit_code == 0, result.output
        model = viewsmith.load(run)
        assert np.array_equal(model.transform(given), np.load(out))
        config = RunFolder(run).read_config()
        schema = json.loads(config["data"]["schema"])
        assert (
            config["fitted"]["normalization"] == schema.get("normalization", "none") == ("none" if options else "log")
        )


# --- viewsmith.tl


def test_embed_writes_what_scanpy_reads(tmp_path):
    given = rich()
    model = viewsmith.tl.embed(given, **TINY, view_maker="mask", mask_rate=0.3)
    h = given.obsm["X_viewsmith"]
    assert h.shape == (32, 8) and h.dtype == np.float32 and np.array_equal(h, model.transform(given))
    kept = given.uns["X_viewsmith"]
    assert kept["method"] == "contrastive" and kept["params"]["view_options"] == {"mask_rate": 0.3}
    assert kept["fitted"]["normalization"] == "log" and kept["params"]["random_state"] == 0
    given.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    assert np.array_equal(again.obsm["X_viewsmith"], h)
    assert again.uns["X_viewsmith"]["fitted"]["view_maker"] == "mask"


def test_embed_takes_another_method_key_and_matrix():
    given = rich()
    model = viewsmith.tl.embed(given, "pinda", key_added="noise", use_rep="X_pca", **TINY)
    assert type(model) is viewsmith.PiNDA and given.obsm["noise"].shape == (32, 8)
    assert given.uns["noise"]["params"]["use_rep"] == "X_pca"


def test_embed_takes_a_graph_by_either_key():
    given = rich()
    graph = sp.csr_matrix(np.eye(32, k=1) + np.eye(32, k=-1))
    given.obsp["mine_connectivities"] = graph
    given.uns["mine"] = {"connectivities_key": "mine_connectivities"}
    made = [viewsmith.tl.embed(given, neighbors_key=key, **TINY).summary_ for key in ("mine", "mine_connectivities")]
    assert all(summary["neighbor_graph"]["search"] == "precomputed" for summary in made)
    assert made[0]["neighbor_graph"]["edges"] == 62


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"layer": "counts"}, "the AnnData has no layer 'counts', given as layer; its layers are: log"),
        ({"use_rep": "X_umap"}, "the AnnData has no obsm key 'X_umap', given as use_rep; its obsm keys are: X_pca"),
        ({"layer": "log", "use_rep": "X_pca"}, "leave one of them out"),
        ({"neighbors_key": "neighbors"}, "no obsp key 'neighbors', given as neighbors_key; it has none; run scanpy"),
        ({"normalization": "log", "layer": "log"}, "layer 'log' of the AnnData has the value"),
        ({"use_rep": "X_pca", "view_maker": "thinning"}, "the views 'thinning' need counts"),
        ({"mask_rate": 0.3}, "the view maker 'mask' has"),
        ({"method": "umap"}, "unknown method 'umap'"),
    ],
    ids=lambda value: None if isinstance(value, str) else "+".join(value),
)
def test_what_is_missing_is_named(options, says):
    assert says in refusal(viewsmith.tl.embed, rich(), **{**TINY, **options})


def test_other_objects_are_refused():
    assert "adata is of type ndarray, expected an AnnData" in refusal(viewsmith.tl.embed, COUNTS)
    assert "has no X: give a layer" in refusal(
        Contrastive(**TINY).fit, anndata.AnnData(obs=pd.DataFrame(index=list("abc")), layers={})
    )
    for options in ({"layer": "log"}, {"use_rep": "X_pca"}, {"normalization": "log"}):
        line = refusal(Contrastive(**TINY, **options).fit, COUNTS)
        assert "is for an AnnData, but X is of type ndarray: leave" in line


# --- views of counts


def test_thinning_of_cells(tmp_path):
    given = rich()
    model = Contrastive(**TINY, view_maker="thinning", view_options={"thinning_keep": 0.4}).fit(given, run=tmp_path)
    assert model.fitted_["view_derived"] == {"counted": "log1p"}
    views = model.views(given, 3)
    loaded = viewsmith.load(tmp_path)
    assert np.array_equal(loaded.views(given, 3), views)
    values = np.expm1(views.astype(np.float64))
    total = np.where(COUNTS.sum(1) > 0, 10_000, 0)[:, None]
    assert np.allclose(values.sum(2)[values.sum(2) > 1], np.broadcast_to(total, (32, 3))[values.sum(2) > 1], rtol=1e-4)
    assert (
        values[COUNTS == 0 if values.ndim == 2 else np.broadcast_to(COUNTS[:, None] == 0, values.shape)] < 1e-4
    ).all()
    raw = Contrastive(**TINY, view_maker="thinning", normalization="none").fit(given)
    thinned = raw.views(given, 2)
    assert raw.fitted_["view_derived"] == {"counted": "counts"}
    np.testing.assert_allclose(thinned, thinned.round(), atol=1e-5)
    assert (thinned <= COUNTS[:, None] + 1e-5).all()


# --- scanpy


def test_scanpy_builds_its_graph_on_the_representation():
    scanpy = pytest.importorskip("scanpy")
    given = rich()
    viewsmith.tl.embed(given, **TINY)
    scanpy.pp.neighbors(given, use_rep="X_viewsmith", n_neighbors=5)
    assert given.obsp["connectivities"].shape == (32, 32)
    viewsmith.tl.embed(given, key_added="again", neighbors_key="neighbors", **TINY)
    assert given.obsm["again"].shape == (32, 8)


def test_the_normalization_is_that_of_scanpy():
    scanpy = pytest.importorskip("scanpy")
    given = cells(COUNTS.copy())  # scanpy normalizes in place
    scanpy.pp.normalize_total(given, target_sum=1e4)
    scanpy.pp.log1p(given)
    np.testing.assert_allclose(given.X, log_normalize(COUNTS), rtol=1e-5)
