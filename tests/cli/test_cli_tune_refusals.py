"""What the command tune refuses before a training, or because of its first one."""

import sys

import numpy as np
import pytest
from cli_tools import call

pytest.importorskip("optuna")

SMALL = ("--set", "epochs=1", "--set", "hidden=8", "--set", "n_components=4")
RATE = ("--search", "learning_rate=1e-4..1e-1")


@pytest.fixture(scope="module")
def file(data):
    """30 train rows of two classes, and 10 test rows."""
    return data / "given.npz"


def test_default_settings_that_do_not_work_with_the_data_are_refused(file, tmp_path):
    given = (*SMALL, "--set", "layer=counts", "--out", tmp_path / "out")
    assert call("tune", file, *given).refused("layer=counts has no effect")
    given = (*SMALL, "--set", "memory_size=3", "--out", tmp_path / "out", "--method", "metaug", "--set", "memory=bank")
    assert call("tune", file, *given).refused("memory_size is 3")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (("--search", "learning_rate=0.1..x"), ("'x' is not a finite number",)),
        (("--search", "learning_rate=1..0.1"), ("LOW below HIGH",)),
        (("--search", "learning_rate=-1..0.1"), ("learning_rate is -1", "greater than 0")),
        (("--search", "n_neighbors=2.0..9.0"), ("n_neighbors is", "expected integer")),
        (("--search", "norm=batch,layer"), ("norm is 'layer'", "'batch' or 'none'")),
        (("--search", "norm=batch,batch"), ("norm has 'batch' twice",)),
        (("--search", "encoder=mlp,vgg"), ("unknown encoder 'vgg'",)),
        (("--search", "random_state=0..9"), ("random_state cannot be searched: use --seed",)),
        (("--search", "impute=none,median"), ("impute cannot be searched, because the data are read once",)),
        ((*RATE, *RATE), ("--search has learning_rate twice",)),
        (("--set", "minutes=1"), ("--set minutes has no effect on a search: use --budget",)),
        (("--set", "random_state=1"), ("--set random_state has no effect on a search: use --seed",)),
        (("--label", "a", "--label", "b"), ("2 label columns are given, but a search has one score",)),
        (("--trials", 1), ("--trials is '1'",)),
        (("--set", "learning_rate=0.1", "--set", "n_neighbors=3"), ("no option is searched",)),
    ],
)
def test_bad_options_are_refused_before_any_training(given, parts, file, tmp_path):
    assert call("tune", file, "--out", tmp_path / "out", *given).refused(*parts)
    assert not (tmp_path / "out").exists()


def test_a_score_that_is_not_a_number_is_refused(file, tmp_path):
    x, y = np.random.default_rng(0).normal(size=(30, 5)), np.arange(30) % 3
    y[:14] = np.arange(14) + 10
    np.savez(tmp_path / "many.npz", X_train=x, y_train=y, X_test=x, y_test=y)
    given = ("tune", tmp_path / "many.npz", *SMALL, *RATE, "--metric", "nmi", "--out", tmp_path / "out")
    assert call(*given).refused("nmi of", "is not a number: take another --metric")
    assert not (tmp_path / "out").exists()


def test_data_without_labels_are_refused(file, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(9, 2)))
    assert call("tune", tmp_path / "x.npy", "--out", tmp_path / "out").refused("no train row has a label", "--label")
    with np.load(file) as data:
        np.savez(tmp_path / "few.npz", **{**data, "y_train": np.zeros(30, int)})
    given = ("tune", tmp_path / "few.npz", "--out", tmp_path / "out", *SMALL)
    assert call(*given).refused("30 labeled train rows, of which 6", "1 class")
    assert not (tmp_path / "out").exists()


def test_without_its_extra(file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    given = ("tune", file, "--out", tmp_path / "out")
    assert call(*given).refused("'optuna', which is not installed", "pip install 'viewsmith[tune]'")
    assert not (tmp_path / "out").exists()
