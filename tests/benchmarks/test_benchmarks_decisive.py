"""The decisive experiments: their cells, the noise of one view, splits by group, and answers from results."""

import json

import numpy as np
import pytest
import torch

from benchmarks.common.runner import done, rows
from benchmarks.quality.decisive import cell_views, few_label_views, few_rows, generated_views, learned_noise
from benchmarks.quality.vectors import study_labels
from benchmarks.tables import decisive, regimes
from viewsmith.views.base import PairMaker

SIZES = {few_rows: 18, few_label_views: 18, learned_noise: 13, cell_views: 9, generated_views: 12}


@pytest.mark.parametrize("script", SIZES, ids=lambda script: script.PATH.stem)
def test_recorded_results_belong_to_cells(script):
    keys = {cell.key for cell in script.cells()}
    assert len(keys) == SIZES[script]
    found = rows(script.PATH)
    assert {(row["dataset"], row["method"], row["seed"]) for row in found} <= keys
    assert len(done(script.PATH)) == len(found), "a committed line holds an error"


def test_all_questions_have_at_most_200_cells():
    assert sum(len(question.cells) for question in decisive.QUESTIONS) <= 200


def test_noise_is_on_the_first_view_and_the_second_is_a_neighbor():
    x = torch.arange(12.0)[:, None].repeat(1, 3)
    sigma = torch.tensor([0.0, 1.0, 3.0])
    pair = PairMaker([learned_noise.OneNoisyView(sigma)])
    pair.prepare(x)
    index = torch.arange(12).repeat(2000)
    made = pair(x[index], index=index, generator=torch.Generator().manual_seed(0))
    noise = made.first - x[index]
    torch.testing.assert_close(noise.std(0), sigma, atol=0.02, rtol=0.02)
    assert set(made.second[index == 0][:, 0].tolist()) == {1.0, 2.0, 3.0, 4.0, 5.0}


def test_variance_between_groups_against_a_loop():
    rng = np.random.default_rng(0)
    x, groups = rng.normal(size=(30, 4)), np.arange(30) % 3
    x[:, 1], x[:, 2] = groups, 0
    expected = []
    for column in x.T:
        total = sum((value - column.mean()) ** 2 for value in column)
        means = {group: column[groups == group].mean() for group in (0, 1, 2)}
        among = sum((means[group] - column.mean()) ** 2 for group in groups)
        expected.append(among / total if total else 0)
    np.testing.assert_allclose(learned_noise.between(x, groups), expected)
    assert expected[1] == pytest.approx(1) and expected[2] == 0


@pytest.fixture
def subjects(tmp_path, monkeypatch):
    """Rows of ten subjects; eight are for training."""
    rng = np.random.default_rng(0)
    subject, y = np.arange(400) // 40, np.arange(400) % 3
    x = (rng.normal(size=(3, 6))[y] * 2 + rng.normal(size=(400, 6))).astype(np.float32)
    train = subject < 8
    parts = {"X": x, "y": y, "subject": subject}
    np.savez(
        tmp_path / "wisdm_har",
        **{f"{key}_train": value[train] for key, value in parts.items()},
        **{f"{key}_test": value[~train] for key, value in parts.items()},
    )
    monkeypatch.setenv("VIEWSMITH_DATA", str(tmp_path))
    yield


def test_fifths_of_subjects_cover_all_once(subjects):
    tests = [set(learned_noise.split("wisdm_har, fifths", fifth).groups_test) for fifth in learned_noise.SEEDS]
    assert sorted(subject for test in tests for subject in test) == list(range(10))
    for fifth, test in enumerate(tests):
        split = learned_noise.split("wisdm_har, fifths", fifth)
        assert not test & set(split.groups) and len(split.x) + len(split.x_test) == 400
    own = learned_noise.split("wisdm_har", 0)
    assert set(own.groups_test) == {8, 9} == set(study_labels.grouped("wisdm_har").groups_test)


def test_a_small_cell_of_learned_noise_has_all_rows(subjects):
    found = learned_noise.measure("wisdm_har", 0, quick=True)
    assert {f"{metric} {row}" for metric in learned_noise.METRICS for row in learned_noise.ROWS} <= found.keys()
    assert {len(value) for value in found["features"].values()} == {6}
    assert found["strength pinda"] in learned_noise.STRENGTHS and found["weight"] in learned_noise.WEIGHTS
    assert json.loads(json.dumps(found)) == found


def test_results_of_several_rows_are_unfolded(tmp_path):
    line = {"dataset": "letter", "method": "few rows", "seed": 1, "knn phase A 300": 0.5, "linear diffaug 1000": 0.25}
    (tmp_path / "a.jsonl").write_text(json.dumps(line) + "\n")
    found = decisive.unfolded(tmp_path / "a.jsonl", ends=" rows")
    assert found == {
        ("letter, 300 rows", "phase A"): {1: {"knn": 0.5}},
        ("letter, 1000 rows", "diffaug"): {1: {"linear": 0.25}},
    }
    assert decisive.unfolded(tmp_path / "a.jsonl")["letter", "phase A 300"] == {1: {"knn": 0.5}}


def test_an_answer_needs_a_tie_width_and_an_interval():
    def table(*gaps):
        return {
            ("s", "a"): {seed: {"knn": 0.5 + gap, "linear": 0.5} for seed, gap in enumerate(gaps)},
            ("s", "b"): {seed: {"knn": 0.5, "linear": 0.5} for seed in range(len(gaps))},
        }

    assert decisive.clear(table(0.02, 0.021, 0.022), "a", "b", ["s"])
    assert not decisive.clear(table(0.01, 0.011, 0.012), "a", "b", ["s"])  # below the width of a tie
    assert not decisive.clear(table(0.0, 0.0, 0.1), "a", "b", ["s"])  # the interval has a zero
    assert decisive.intervals(table(0.0, 0.0, 0.0), "a", "b", ["s"], {"knn": "kNN"}) == "kNN +0.000 ± 0.000, 3 pairs"


def test_verdicts_of_the_map():
    assert regimes.word([0.02, 0.021, 0.022], "knn") == "better"
    assert regimes.word([0.0, 0.0, 0.1], "knn") == "tie"
    assert regimes.word([0.02, 0.021, 0.022], "kmeans_accuracy") == "tie"
    assert regimes.word([-0.05], "linear") == "worse"  # one pair has no interval
    found = {"knn": [0.001], "linear": [-0.05], "kmeans_accuracy": []}
    assert regimes.shown(found) == ("linear", "worse")
    assert regimes.shown({"knn": [0.001]}) == ("knn", "tie")
    assert regimes.verdict(found) == "worse at linear"


def test_a_small_cell_of_generated_views_has_all_rows(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(150) % 3
    x = rng.poisson(np.exp(rng.normal(size=(3, 70)))[y]).astype(np.float32)
    np.savez(tmp_path / "sc_citeseq_cbmc", X_train=x[:120], y_train=y[:120], X_test=x[120:], y_test=y[120:])
    monkeypatch.setenv("VIEWSMITH_DATA", str(tmp_path))
    found = cell_views.measure("sc_citeseq_cbmc", 0, quick=True)
    rows = ("none", "neighbor mix", "diffaug")
    assert {f"{kind} {row} {percent}" for kind in cell_views.KINDS for row in rows for percent in (1, 5)} == set(found)
    assert all(0 <= value <= 1 for value in found.values())


def test_probes_have_the_penalty_of_the_labeled_rows_alone():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 4)), np.arange(20) % 2
    alone = few_label_views.probe(x, y, 20)
    copied = few_label_views.probe(np.repeat(x, 3, axis=0), np.repeat(y, 3), 20)
    np.testing.assert_allclose(copied.coef_, alone.coef_, atol=1e-3)


def test_mixtures_are_weighted_by_their_share():
    rng = np.random.default_rng(0)
    x, y = np.eye(3), np.arange(3)
    mixed, classes, weights = few_label_views.mixup(x, y, rng)
    assert len(mixed) == len(classes) == len(weights) == 3 + 2 * 3 * few_label_views.VIEWS
    for row, of, weight in zip(mixed, classes, weights, strict=True):
        # Rows are unit vectors, so the share of a class is the coordinate; two rows of one class share it.
        assert row[of] == pytest.approx(weight) or row[of] == pytest.approx(1)


def test_a_small_cell_of_the_ladder_has_all_rows(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.choice(np.frombuffer(b"ACGT", np.uint8), (90, 30))
    y = np.arange(90) % 2
    np.savez(tmp_path / "dna_human_core_promoter", X_train=x[:60], y_train=y[:60], X_test=x[60:], y_test=y[60:])
    monkeypatch.setenv("VIEWSMITH_DATA", str(tmp_path))
    monkeypatch.setattr(generated_views, "CACHES", tmp_path / "caches")
    monkeypatch.setattr(generated_views, "BATCH", 16)
    found = generated_views.measure("dna_human_core_promoter, simclr", 0, quick=True)
    assert {f"{metric} {arm}" for metric in ("linear", "knn", "loss") for arm in generated_views.ARMS} <= set(found)
    assert len({found[f"loss {arm}"] for arm in generated_views.ARMS}) == 4
