"""Labels are read only if a framework needs them, and this is reported."""

import warnings

import numpy as np
import pytest
import torch

from refusals import refusal
from viewsmith import Contrastive, MetAug, load
from viewsmith.data import load_dataset
from viewsmith.frameworks import SupCon
from viewsmith.networks import MLP

TINY = {"epochs": 2, "hidden": (16,), "n_components": 8, "batch_size": 32, "random_state": 0, "view_maker": "noise"}


def clusters(n=64):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    return (rng.normal(size=(n, 6)) + 2 * y[:, None]).astype(np.float32), y


def test_supcon_reads_labels_and_reports_it(capsys, tmp_path):
    x, y = clusters()
    model = Contrastive(**TINY, framework="supcon", verbose=True).fit(x, np.array(["b", "a"])[y], run=tmp_path / "run")
    message = "the framework supcon reads the labels of 64 rows (2 classes)"
    assert message in capsys.readouterr().err.splitlines() and model.summary_["labels"] == message
    assert model.method_.framework.labels.tolist() == (1 - y).tolist()
    assert not [name for name in model.weights() if "labels" in name]
    loaded = load(tmp_path / "run")
    assert np.array_equal(loaded.transform(x), model.transform(x))
    other = Contrastive(**TINY, framework="supcon").fit(x, np.arange(64) // 32)
    assert not np.array_equal(other.transform(x), model.transform(x))


def test_supcon_without_labels_is_refused_in_one_line():
    x, y = clusters()
    asked = "framework is 'supcon', which reads labels, but no labels were given: call fit(X, y), or take another"
    assert refusal(Contrastive(**TINY, framework="supcon").fit, x).startswith(asked)
    message = refusal(MetAug(**TINY, framework="supcon").fit, x, y[:5])
    assert message == "the labels have shape (5,), expected one for each of the 64 rows"
    missing = y.astype(float)
    missing[:3] = np.nan
    message = refusal(Contrastive(**TINY, framework="supcon").fit, x, missing)
    assert message == "the labels hold 3 missing values, expected a label for each of the 64 rows"
    unlabeled = np.where(np.arange(64) < 5, -1, y)
    with pytest.warns(UserWarning, match="takes -1, the label of 5 rows, as a class.*supervision='labels'"):
        Contrastive(**TINY, framework="supcon").fit(x, unlabeled)
    with warnings.catch_warnings(action="error"):
        Contrastive(**TINY, framework="supcon").fit(x, 2 * y - 1)
    message = refusal(Contrastive(**TINY, supervision="labels").fit, x, 2 * y - 1)
    assert "have the label 1, and others none (-1, NaN or empty): expected at least two classes" in message


def test_a_framework_object_gets_labels_too():
    x, y = clusters()
    custom = SupCon(MLP(6, [8]), MLP(8, [4]))
    options = {name: value for name, value in TINY.items() if name not in ("n_components", "hidden")}
    model = Contrastive(**options, framework=custom).fit(x, y)
    assert model.summary_["labels"].startswith("the framework SupCon reads")
    assert torch.equal(model.method_.framework.labels, torch.from_numpy(y))


def test_a_strength_is_chosen_with_the_labels_of_its_rows(monkeypatch):
    monkeypatch.setattr("viewsmith.estimator.resolve.TRIAL_STEPS", 2)
    x, y = np.random.default_rng(0).integers(0, 256, (80, 8, 8), dtype=np.uint8), np.arange(80) % 2
    options = {"epochs": 1, "batch_size": 16, "view_maker": "noise", "noise_strength": "auto", "random_state": 0}
    model = Contrastive(**options, framework="supcon").fit(x, y)
    assert set(model.fitted_["strength_scores"]) == {"0.25", "0.5", "1.0", "2.0"}


def test_labels_of_test_rows_are_not_read(tmp_path):
    x, y = clusters()
    np.savez(tmp_path / "data.npz", X_train=x[:48], y_train=y[:48], X_test=x[48:], y_test=y[48:])
    dataset = load_dataset(tmp_path / "data.npz")
    assert len(dataset.fit_labels(transductive=False)) == 48
    assert "would read the labels of the test rows" in refusal(dataset.fit_labels, transductive=True)
