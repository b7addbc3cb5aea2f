"""The studies: committed results belong to their cells, recorded budgets are the declared ones, rows run."""

import json

import numpy as np
import pytest

from benchmarks.common import data
from benchmarks.common.runner import Cell, done, rows
from benchmarks.quality import (
    metaug_table1,
    pinda_table2,
    study_acceptance,
    study_closed_form,
    study_discovery,
    study_modalities,
    study_pieces,
    study_q,
    suite,
    views_in_closed_form,
)
from benchmarks.quality.crl_tac import crl_tac_mnist
from benchmarks.quality.generated import diffaug_preset, genview_upper_bound
from benchmarks.quality.vectors import study
from viewsmith import CRLTAC

STUDIES = [module.STUDY for module in (study, study_modalities, pinda_table2, diffaug_preset, metaug_table1)]
CELLS = {known.path: known.cells() for known in STUDIES} | {
    module.PATH: module.cells()
    for module in (
        crl_tac_mnist,
        genview_upper_bound,
        study_acceptance,
        study_closed_form,
        study_discovery,
        study_pieces,
        study_q,
        views_in_closed_form,
    )
}
SIZES = {
    "study": 200,
    "study_modalities": 77,
    "diffaug_preset": 93,
    "pinda_table2": 120,
    "metaug_table1": 22,
    "crl_tac_mnist": 39,
    "study_discovery": 297,
    "study_pieces": 39,
    "study_q": 7,
    "study_acceptance": 743,
    "study_closed_form": 24,
    "genview_upper_bound": 117,
    "views_in_closed_form": 378,
}


@pytest.mark.parametrize("path", CELLS, ids=lambda path: path.stem)
def test_recorded_results_belong_to_cells_of_the_study(path):
    keys = [cell.key for cell in CELLS[path]]
    assert len(keys) == len(set(keys)) == SIZES[path.stem]
    recorded = [(row["dataset"], row["method"], row["seed"]) for row in rows(path)]
    # Rows of CRL-TAC beside discovery are of an earlier study.
    assert recorded and {key for key in recorded if not key[1].startswith("crl-tac") or key in keys} <= set(keys)
    assert done(path) == set(recorded), "a committed line holds an error"


@pytest.mark.parametrize("known", STUDIES[:2], ids=lambda known: known.name)
def test_recorded_trainings_had_the_declared_budget(known):
    lines = [line for line in rows(known.path) if "steps" in line]
    assert lines
    for line in lines:
        row, dataset = known.rows[line["method"]], known.sets[line["dataset"]]
        steps = (row.budget or known.budget).epochs(dataset, 1, batch=1)
        assert steps <= line["steps"] < 1.1 * steps, line


@pytest.mark.parametrize("known", STUDIES, ids=lambda known: known.name)
def test_rows_have_options_of_their_estimators(known):
    rows = [row for row in (*known.rows.values(), known.reference) if isinstance(row, suite.Trained)]
    for name, dataset in known.sets.items():
        for row in rows:
            given = {row.search.option: row.search.values[0]} if row.search else {}
            assert isinstance(row.model(name, dataset, known.budget, 1000, 0, **given), row.estimator)


@pytest.mark.parametrize("row", crl_tac_mnist.OPTIONS)
def test_rows_of_mnist_have_options_of_crl_tac(row):
    options = crl_tac_mnist.OPTIONS[row] | crl_tac_mnist.PLAIN
    assert options.items() <= CRLTAC(**options).get_params().items()


def test_budget_in_whole_epochs():
    budget = suite.Budget(vectors=2000, modalities=300, wide=800)
    vectors, wide, images = data.DataSet("a"), data.DataSet("b", wide=True), data.DataSet("c", "images")
    assert [budget.epochs(known, 2560, 256) for known in (vectors, wide, images)] == [200, 80, 30]
    assert budget.epochs(vectors, 2559, 256) == 223
    assert budget.epochs(images, 100, 256) == 300
    assert suite.Budget(vectors=2000).epochs(wide, 2560, 256) == 200


def test_chosen_strength_and_regret_of_other_choices():
    found = suite.chosen({0.5: 0.7, 1.0: 0.9, 2.0: 0.8}, {0.5: 0.1, 1.0: 0.2, 2.0: 0.3})
    assert found == {"strength": 1.0, "strength_label_free": 2.0, "regret_label_free": 0.1, "regret_random": 0.1}


def test_cells_are_selected_by_set_and_row():
    cells = [Cell(name, row, 0, dict) for name in ("a, x", "a, y", "b, x") for row in ("r", "s")]
    assert suite.select_cells(cells, []) == cells
    assert [cell.key[:2] for cell in suite.select_cells(cells, ["a", "s"])] == [("a, x", "s"), ("a, y", "s")]
    assert [cell.key[:2] for cell in suite.select_cells(cells, ["b, x"])] == [("b, x", "r"), ("b, x", "s")]
    with pytest.raises(ValueError, match="no such set or row: c"):
        suite.select_cells(cells, ["a", "c"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Small data sets: clustered vectors, and sequences with a motif; half of their test rows are copies."""
    rng = np.random.default_rng(0)
    y = np.arange(160) % 4
    vectors = (rng.normal(size=(4, 12))[y] * 3 + rng.normal(size=(160, 12))).astype(np.float32)
    sequences = rng.choice(np.frombuffer(b"ACGT", np.uint8), (160, 40))
    sequences[:, 5:9] = np.frombuffer(b"TATAGGGGACACCCTT", np.uint8).reshape(4, 4)[y]
    for name, x, more in (
        ("texture", vectors, {}),
        ("optdigits", vectors, {}),
        ("dna_ienhancer2l", sequences, {"test_in_train": np.arange(40) % 2}),
    ):
        np.savez(tmp_path / name, X_train=x[:120], y_train=y[:120], X_test=x[120:], y_test=y[120:], **more)
    monkeypatch.setenv("VIEWSMITH_DATA", str(tmp_path))
    yield tmp_path


def test_rows_beyond_the_limits_and_copies_are_dropped(folder):
    whole = data.load(data.DataSet("texture"))
    few = data.load(data.DataSet("texture", train_rows=50, test_rows=10))
    assert (len(few.x), len(few.y), len(few.x_test), len(few.y_test)) == (50, 50, 10, 10)
    assert {row.tobytes() for row in few.x} < {row.tobytes() for row in whole.x}
    own = data.load(data.DataSet("dna_ienhancer2l", "dna"))
    assert own.x.dtype == np.uint8 and own.x_test.shape == (20, 40)
    with np.load(folder / "dna_ienhancer2l.npz") as stored:
        np.testing.assert_array_equal(own.x_test, stored["X_test"][::2])
    with pytest.raises(SystemExit, match="VIEWSMITH_DATA"), pytest.MonkeyPatch.context() as patch:
        patch.delenv("VIEWSMITH_DATA")
        data.data_folder()


def test_an_untrained_row_has_its_own_encoder(folder):
    cells = {cell.key: cell for cell in suite.small(diffaug_preset.STUDY).cells()}
    widths = [suite.small(diffaug_preset.STUDY).rows[f"{name}, untrained"].of.options for name in ("paper", "paper2d")]
    assert [options["n_components"] for options in widths] == [300, 80]
    found = [cells["texture", f"{name}, untrained", 0].work() for name in ("paper", "paper2d")]
    assert found[0] != found[1] and {"svm", "z_svm", "z_knn"} <= found[0].keys()


def test_rows_of_a_small_study_run_and_write_no_results(folder, capsys):
    """All rows of all studies run in test_benchmarks_makefile.py."""
    before, names = study.STUDY.path.read_bytes(), ("contrastive", "raw", "pca", "untrained")
    suite.main(study.STUDY, None, ["1", "texture", *names, "--quick"])
    assert "all 4 cells done" in capsys.readouterr().out and study.STUDY.path.read_bytes() == before


def test_a_cell_records_scores_search_and_last_metrics(folder, tmp_path):
    small = suite.small(study.STUDY)
    (cell,) = [cell for cell in small.cells() if cell.key == ("texture", "pinda", 0)]
    found = cell.work()
    assert {*study.PROTOCOLS, "strength", "regret_random", "noise_level", "effective_rank", "steps"} <= found.keys()
    assert found["strength"] in study.STRENGTHS[:2]
    assert json.loads(json.dumps(found)) == found


def test_a_quick_study_with_an_error_ends_with_one(monkeypatch):
    monkeypatch.setattr(suite.Study, "work", lambda *arguments: 1 / 0)
    with pytest.raises(SystemExit) as stopped:
        suite.main(study.STUDY, None, ["1", "letter", "raw", "--quick"])
    assert stopped.value.code == 1


def test_quick_has_each_row_on_each_kind_of_data_without_a_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("VIEWSMITH_DATA", str(tmp_path))
    found = []
    monkeypatch.setattr(suite, "run", lambda cells, path, **how: found.extend(cells) or data.data_folder())
    suite.main(study_modalities.STUDY, None, ["--quick"])
    kinds = {(cell.method, study_modalities.SETS[cell.dataset].modality) for cell in found}
    assert len(kinds) == len(found) < len(study_modalities.STUDY.cells())
    assert {kind for _, kind in kinds} == {"images", "dna"}
    # umap-learn compiles for longer than all other cells take.
    assert {row for row, _ in kinds} == {cell.method for cell in study_modalities.STUDY.cells()} - {"umap"}
    assert data.data_folder() == tmp_path  # the folder of tiny data is gone


def test_regrets_of_the_closed_form_are_the_best_score_less_that_of_the_choice():
    def row(centers, nats, linear, **more):
        scores = {"linear": linear, "knn": 0.5}
        of = {"dataset": "set", "seed": 0, "method": f"{centers} centers, 3 regions"}
        return of | {"nats": {"0.1": nats}, "ridge": 0.1} | scores | more

    solved = [{"ridge": 0.1, "width": None, "linear": 0.6, "knn": 0.5}]
    solved += [{"ridge": 1.0, "width": None, "linear": 0.65, "knn": 0.4}]
    solved += [{"ridge": 0.1, "width": 64, "linear": 0.7, "knn": 0.2}]
    found = [row(256, 9.0, 0.6, solved=solved), row(512, 10.0, 0.8), row(128, 1.0, 0.9)]
    linear, knn = study_closed_form.regrets([*found, {"dataset": "set", "seed": 0, "method": "few recordings"}])
    assert linear["nats choose"] == "512 centers, 3 regions"
    kinds = ("by nats", "by default", "ridge", "columns")
    assert [round(linear[kind], 6) for kind in kinds] == [0.1, 0.3, 0.05, 0.1]
    assert [knn[kind] for kind in kinds] == [0, 0, 0, 0]
    assert "| set | linear | 512 centers, 3 regions | 0.100 |" in study_closed_form.table(found)
