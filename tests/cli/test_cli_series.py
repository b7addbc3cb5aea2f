"""Commands on recordings (n, channels, time), which need --modality series."""

import numpy as np
import pandas as pd
import pytest
from cli_tools import call, good

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_commands(tmp_path):
    x = np.random.default_rng(0).normal(size=(24, 3, 48))
    source, y = tmp_path / "x.npz", np.arange(24) % 2
    np.savez(source, X=x, y=y)
    settings = ("--epochs", 1, "--batch-size", 8, "--set", "windows=5", "--set", "draws=2")
    good("fit", source, "--modality", "series", "--method", "crl-tac", "--out", tmp_path / "run", *settings)
    good("embed", tmp_path / "run", source, "--out", tmp_path / "h.npz", "--inference", "top")
    with np.load(tmp_path / "h.npz") as made:
        assert made["H"].shape == (24, 256)
    good("views", tmp_path / "run", source, "--n", 2, "--out", tmp_path / "v.npz")
    good("locate", tmp_path / "run", source, "--out", tmp_path / "w.csv")
    assert list(pd.read_csv(tmp_path / "w.csv"))[-3:] == ["start", "end", "probability"]
    assert call("locate", tmp_path / "run", source, "--out", tmp_path / "w.bed").refused("in series", ".csv")
    assert call("crop", tmp_path / "run", source, "--out", tmp_path / "c").refused("for crops of series", ".npz")
    good("evaluate", tmp_path / "run", source, "--protocols", "knn")
    assert '"raw"' in (tmp_path / "run" / "evaluation.json").read_text()
    good("report", tmp_path / "run")
    config = (tmp_path / "run" / "config.toml").read_text()
    assert 'start = "none"' in config and (tmp_path / "run" / "report.html").exists()  # no discovery in windows


def test_recordings_are_not_read_without_their_modality(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.zeros((8, 3, 20), np.float32))
    assert call("fit", tmp_path / "x.npz", "--out", tmp_path / "run").refused("--modality series")
    np.savez(tmp_path / "t.npz", X=np.zeros((8, 20), np.float32))
    refused = call("fit", tmp_path / "t.npz", "--modality", "series", "--out", tmp_path / "run")
    assert refused.refused("recordings are numbers (n, channels, time)", "X[:, None]")
    assert not (tmp_path / "run").exists()


def test_generate_says_that_recordings_have_no_generator(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.random.default_rng(0).normal(size=(24, 3, 48)))
    refused = call("generate", tmp_path / "x.npz", "--modality", "series", "--out", tmp_path / "cache", "--epochs", 1)
    assert refused.refused("there is no generator of views for series: use another method")
    assert not (tmp_path / "cache").exists()
