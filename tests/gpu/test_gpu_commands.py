"""Commands on a GPU, as a user runs them; processes with NCCL; recordings, tables and rows that stay on disk."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from gpu_cases import DATA

from viewsmith import Contrastive, PiNDA

pytestmark = pytest.mark.gpu
SMALL = ("--epochs", "2", "--batch-size", "8", "--threads", "2")


def run(*arguments, program=(sys.executable, "-m", "viewsmith")):
    """Run a command; its output."""
    done = subprocess.run([*map(str, (*program, *arguments))], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def images(tmp_path):
    path = tmp_path / "images.npz"
    x = DATA["images"]()
    np.savez(path, X=x, y=np.arange(len(x)) % 2)
    return path


@pytest.fixture
def vectors(tmp_path):
    path = tmp_path / "vectors.npy"
    np.save(path, np.random.default_rng(0).normal(size=(64, 9)).astype(np.float32))
    return path


@pytest.mark.parametrize("precision", ["32", "bf16"])
def test_fit_embed_and_views(images, device, precision, tmp_path):
    out = tmp_path / "run"
    run("fit", images, "--method", "pinda", "--out", out, "--device", device, "--precision", precision, *SMALL)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["device"].startswith(device)
    run("embed", out, images, "--out", tmp_path / "h.npy")
    assert np.isfinite(np.load(tmp_path / "h.npy")).all()
    run("views", out, images, "--out", tmp_path / "views.npz", "--n", 2)
    with np.load(tmp_path / "views.npz") as written:
        assert written["views"].shape == (12, 2, 24, 24, 3)  # of the train rows


@pytest.mark.parametrize("flags", [(), ("--stream",)])
def test_a_process_group_of_one_with_nccl(vectors, device, flags, tmp_path):
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1")
    program = (*torchrun, "-m", "viewsmith")
    run("fit", vectors, "--out", tmp_path / "run", "--device", device, *SMALL, *flags, program=program)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["status"] == "finished"


def test_a_generator_trains_and_generates(vectors, device, tmp_path):
    cache = tmp_path / "views"
    run("generate", vectors, "--epochs", 2, "--device", device, "--out", cache, "--views-per-sample", 2)
    fit = ("fit", vectors, "--method", "genview", "--view-cache", cache, "--out", tmp_path / "run", "--device", device)
    run(*fit, *SMALL)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["status"] == "finished"


def table():
    """A table with a text column that has missing values."""
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.normal(size=64), "b": rng.choice(["x", "y", None], 64), "c": rng.normal(size=64)})


def recordings():
    """Recordings of three channels."""
    return np.random.default_rng(0).normal(size=(32, 3, 64)).astype(np.float32)


@pytest.mark.parametrize(
    ("method", "samples", "more"),
    [(Contrastive, table, {}), (PiNDA, table, {}), (Contrastive, recordings, {"modality": "series"})],
)
def test_recordings_and_mixed_tables(method, samples, more, device):
    x = samples()
    model = method(epochs=2, batch_size=16, device=device, random_state=0, **more).fit(x)
    assert model.summary_["device"].startswith(device) and np.isfinite(model.transform(x)).all()
