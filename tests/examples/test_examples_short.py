"""Examples of parts in other people's loops: short, and they run."""

import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"
SHORT = [
    *("plain_pytorch", "lightning_module", "sklearn_search", "scanpy_cells", "trained_views", "mixed_table"),
    *("engines/ray_embed", "engines/spark_embed", "engines/dask_embed"),
]


def main(name):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]


@pytest.mark.parametrize("name", SHORT)
def test_an_example_has_at_most_60_lines(name):
    lines = (EXAMPLES / f"{name}.py").read_text().splitlines()
    assert len(lines) <= (24 if name.startswith("engines/") else 60)


def test_the_plain_loop_lowers_the_loss(digits):
    torch.manual_seed(0)
    x = torch.from_numpy(digits[:300] / 4)
    encoder, losses = runpy.run_path(str(EXAMPLES / "plain_pytorch.py"))["train"](x, steps=30, batch_size=64)
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.2
    with torch.no_grad():
        h = encoder(x)
    assert h.shape == (300, 256) and h.isfinite().all() and not encoder.training


def test_views_of_a_mixed_table_are_rows_of_it(capsys):
    views = main("mixed_table")(epochs=1)
    assert list(views) == ["age", "plan", "active", "joined"] and len(views) == 6
    assert "left out customer (identifier)" in capsys.readouterr().out


def test_a_search_chooses_among_representations(capsys):
    with warnings.catch_warnings(action="ignore"):
        search = main("sklearn_search")(rows=120, epochs=1, folds=2)
    assert len(search.cv_results_["params"]) == 6 and "best on test rows: 0." in capsys.readouterr().out


def test_learned_noise_is_an_augmentation_of_supervised_training():
    with warnings.catch_warnings(action="ignore"):
        means = main("trained_views")(epochs=1, steps=60, seeds=1)
    assert list(means)[::2] == ["no views", "learned noise"] and min(means.values()) > 0.4


def test_lightning_trains_the_parts(tmp_path, monkeypatch, capsys):
    pytest.importorskip("lightning")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(action="ignore"):
        main("lightning_module")(epochs=2, logger=False, enable_progress_bar=False)
    assert float(capsys.readouterr().out.split("digit: ")[1]) > 0.9


def test_scanpy_clusters_representations(capsys):
    pytest.importorskip("scanpy")
    pytest.importorskip("leidenalg")
    pytest.importorskip("igraph")
    with warnings.catch_warnings(action="ignore"):
        adata = main("scanpy_cells")(resolutions=(0.1,), epochs=1)
    assert adata.obsm["X_viewsmith"].shape[0] == 700 and adata.obs["leiden_X_viewsmith"].nunique() > 2
    assert capsys.readouterr().out.count("resolution 0.1: ") == 2
