"""`fit(X, neighbors=graph)`: a precomputed neighbor graph."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone

import viewsmith
from refusals import refusal
from viewsmith import CRLTAC, Contrastive, MetAug
from viewsmith.estimator.inputs import graph_record, read_neighbors
from viewsmith.training.engine import Trainer
from viewsmith.views import nearest_neighbors

TINY = {"epochs": 2, "hidden": (16,), "n_components": 8, "projector_dims": (4,), "batch_size": 32, "random_state": 0}
X = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
NEAR = nearest_neighbors(torch.from_numpy(X), 5).numpy()


def ring(n=60, k=2):
    """The next k rows as neighbors of each row, (n, k)."""
    return (np.arange(n)[:, None] + np.arange(1, k + 1)) % n


def matrix(edges, values=1.0):
    rows = np.repeat(np.arange(len(edges)), edges.shape[1])
    data = np.broadcast_to(values, rows.shape)
    return sp.csr_matrix((data, (rows, edges.ravel())), shape=(len(edges), len(edges)))


FORMS = {
    "array": ring,
    "int32": lambda: ring().astype(np.int32),
    "list": lambda: ring().tolist(),
    "csr": lambda: matrix(ring()),
    "csc array": lambda: sp.csc_array(matrix(ring())),
    "coo": lambda: matrix(ring()).tocoo(),
    "lil": lambda: matrix(ring()).tolil(),
    "distances of zero": lambda: matrix(ring(), 0.0),
    "with itself": lambda: np.concatenate([np.arange(60)[:, None], ring()], axis=1),
    "twice": lambda: np.concatenate([ring(), ring()], axis=1),
    "boolean": lambda: matrix(ring()).astype(bool),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_graph(form):
    given = FORMS[form]()
    before = given.copy()
    graph = read_neighbors(given, 60)
    rows = graph.ends.view(60, 2).numpy()
    assert graph.degrees.tolist() == [2] * 60
    np.testing.assert_array_equal(rows, np.sort(ring(), axis=1))
    assert graph_record(graph) == graph_record(read_neighbors(ring(), 60))
    difference = before != given
    assert not (difference.nnz if sp.issparse(given) else np.any(difference))


def test_neighbors_none_is_no_graph():
    assert read_neighbors(None, 60) is None and graph_record(None) == {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (ring(59), ("(59, 2)", "60 rows")),
        (matrix(ring(59)), ("(59, 59)", "60 rows")),
        (sp.csr_matrix((60, 50)), ("(60, 50)", "60 rows")),
        (np.where(ring() == 7, -1, ring()), ("-1", "row 5", "0 to 59")),
        (np.where(ring() == 7, 60, ring()), ("60 in row 5", "0 to 59")),
        (matrix(ring(), np.where(np.arange(120) == 3, np.nan, 1.0)), ("not finite",)),
        (matrix(ring(), np.inf), ("not finite",)),
        (np.eye(60), ("float64 (60, 60)", "csr_array")),
        (np.arange(60), ("(60,)", "(n, k)")),
        (np.zeros((60, 0), dtype=int), ("(60, 0)",)),
        ("connectivities", ("str", "(n, k)")),
        (np.arange(60)[:, None], ("no edges",)),
        (sp.csr_matrix((60, 60)), ("no edges",)),
    ],
)
def test_invalid_graphs_are_refused(given, expected):
    message = refusal(Contrastive(**TINY).fit, X, neighbors=given)
    assert all(part in message for part in ("neighbors", *expected)), message


def test_a_damaged_matrix_is_refused():
    damaged = matrix(ring())
    damaged.indices[5] = 99
    assert "damaged" in refusal(Contrastive(**TINY).fit, X, neighbors=damaged)


def test_training_uses_the_edges_of_the_graph():
    given = Contrastive(**TINY).fit(X, neighbors=NEAR)
    other = Contrastive(**TINY).fit(X, neighbors=ring())
    assert not np.array_equal(given.transform(X), other.transform(X))
    assert np.array_equal(given.transform(X), Contrastive(**TINY).fit(X, neighbors=matrix(NEAR)).transform(X))
    assert given.summary_["neighbor_graph"] == {"search": "precomputed", "edges": 300, "isolated_rows": 0}
    assert given.views(X[:4]).shape == (4, 4, 5)
    # The graph is an argument of fit, like the data, so a clone does not have it (scikit-learn's convention).
    assert "neighbors" not in clone(given).get_params()
    assert np.array_equal(Contrastive(**TINY).fit_transform(X, neighbors=ring()), other.transform(X))


@pytest.mark.parametrize("options", [{"view_maker": "neighbors+noise"}, {"view_maker": "noise+neighbor-mix"}])
def test_other_views_beside_the_graph(options):
    model = Contrastive(**TINY, **options).fit(X, neighbors=ring())
    assert model.summary_["neighbor_graph"]["search"] == "precomputed"


def test_other_methods_accept_a_graph():
    model = MetAug(epochs=1, batch_size=32, random_state=0).fit(X, neighbors=ring())
    assert model.summary_["neighbor_graph"]["search"] == "precomputed"


def test_a_graph_without_effect_is_refused():
    message = refusal(Contrastive(**TINY, view_maker="noise").fit, X, neighbors=ring())
    assert "noise" in message and "neighbor-mix" in message
    assert "neighbor_space" in refusal(Contrastive(**TINY, neighbor_space="encoder").fit, X, neighbors=ring())
    assert "neighbors" in refusal(CRLTAC(epochs=1).fit, X, neighbors=ring())


def test_rows_without_neighbors_give_a_warning():
    graph = matrix(ring()).tolil()
    graph[[4, 9]] = 0
    with pytest.warns(UserWarning, match="2 rows of 60 without neighbors"):
        model = Contrastive(**TINY).fit(X, neighbors=graph)
    assert model.summary_["neighbor_graph"] == {"search": "precomputed", "edges": 116, "isolated_rows": 2}
    assert np.isfinite(model.transform(X)).all()


def test_resume_needs_the_graph_again(tmp_path):
    run = tmp_path / "run"
    model = Contrastive(**TINY).fit(X, neighbors=ring(), run=run)
    assert "neighbors" not in json.dumps(model.configuration()["parameters"]).replace("n_neighbors", "")
    loaded = viewsmith.load(run)
    assert np.array_equal(loaded.transform(X), model.transform(X))
    again = {"run": run, "resume": True}
    assert "give it again with neighbors" in refusal(Contrastive(**TINY).fit, X, **again)
    assert "another neighbor graph" in refusal(Contrastive(**TINY).fit, X, neighbors=NEAR, **again)
    resumed = Contrastive(**TINY).fit(X, neighbors=matrix(ring()), **again)
    assert np.array_equal(resumed.transform(X), model.transform(X))
    plain = tmp_path / "plain"
    Contrastive(**TINY).fit(X, run=plain)
    assert "without a neighbor graph" in refusal(Contrastive(**TINY).fit, X, neighbors=ring(), run=plain, resume=True)


def test_a_run_is_resumed_exactly_with_its_graph(tmp_path, monkeypatch):
    options, graph = TINY | {"epochs": 6, "checkpoint_every": 0}, matrix(ring())
    whole = Contrastive(**options).fit(X, neighbors=graph, run=tmp_path / "whole")
    original, steps = Trainer._update, iter(range(3))

    def update(self, run, batch):
        if next(steps, None) is None:
            raise KeyboardInterrupt
        original(self, run, batch)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "_update", update)
        Contrastive(**options).fit(X, neighbors=graph, run=tmp_path / "cut")
    again = {"run": tmp_path / "cut", "resume": True}
    assert "give it again" in refusal(Contrastive(**options).fit, X, **again)
    resumed = Contrastive(**options).fit(X, neighbors=ring(), **again)
    assert np.array_equal(resumed.transform(X), whole.transform(X))
