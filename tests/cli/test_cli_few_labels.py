"""`--supervise`, `--groups` and `--split-groups`, and what `evaluate` scores then."""

import json

import numpy as np
import pandas as pd
import pytest
from cli_tools import call, good

RNG = np.random.default_rng(0)
EPOCHS = ("--epochs", 1)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Three plates, two types; half of the rows have no type."""
    n = 120
    kind, plate = np.arange(n) % 2, np.repeat(["p1", "p2", "p3"], n // 3)
    frame = pd.DataFrame(RNG.normal(size=(n, 3)) + 4 * kind[:, None], columns=list("abc"))
    frame["type"], frame["plate"] = np.where(np.arange(n) % 4 < 2, np.where(kind, "x", "y"), ""), plate
    path = tmp_path_factory.mktemp("few") / "t.csv"
    frame.to_csv(path, index=False)
    return path


def evaluated(run, data):
    good("evaluate", run, data, "--json", "--protocols", "knn,linear_10pct")
    return json.loads((run / "evaluation.json").read_text())


def test_fit_and_evaluate_with_a_few_labels(tmp_path, table):
    run = tmp_path / "run"
    good("fit", table, "--supervise", "type", "--drop", "plate", "--out", run, *EPOCHS)
    assert "supervision by labels: 48 of 108 training rows (2 classes)" in (run / "report.html").read_text()
    found = evaluated(run, table)
    assert found["rows"]["train"] == 48 and found["rows"]["test"] == 12
    assert found["labels"]["test_rows_left_out"] == {"unlabeled": 0, "used_in_training": 0}
    assert "groups" not in found


def test_test_rows_whose_labels_were_used_are_not_scored(tmp_path, table):
    run, other = tmp_path / "run", tmp_path / "other.csv"
    good("fit", table, "--supervise", "type", "--drop", "plate", "--out", run, *EPOCHS)
    # The same rows in another order are split in another way.
    pd.read_csv(table).sample(frac=1, random_state=1).to_csv(other, index=False)
    left_out = evaluated(run, other)["labels"]["test_rows_left_out"]
    assert left_out["used_in_training"] > 0


def test_whole_groups_are_test_rows(tmp_path, table):
    run = tmp_path / "run"
    options = ("--groups", "plate", "--split-groups", "--supervise", "type", "--set", "group_mode=align")
    good("fit", table, *options, "--out", run, *EPOCHS)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["groups"]["mode"] == "align" and summary["split"]["kind"] == "groups"
    assert len(summary["split"]["test_index"]) == 40


def test_groups_are_scored_if_there_are_several_among_the_test_rows(tmp_path, table):
    many, run = tmp_path / "many.csv", tmp_path / "run"
    pd.read_csv(table).assign(plate=[f"p{i // 10}" for i in range(120)]).to_csv(many, index=False)
    good("fit", many, "--label", "type", "--groups", "plate", "--split-groups", "--out", run, *EPOCHS)
    found = evaluated(run, many)
    assert set(found["groups"]) == set(found["embeddings"]) - {"majority"}
    assert set(found["groups"]["representation"]) == {"group_mixing", "biology_kept"}
    assert np.isfinite(list(found["groups"]["representation"].values())).all()
    assert "group_mixing" in good("evaluate", run, many, "--protocols", "knn").out


def test_one_group_for_training_and_one_for_the_test(tmp_path, table):
    two, run = tmp_path / "two.csv", tmp_path / "run"
    rows = pd.read_csv(table)
    rows.assign(plate=np.arange(len(rows)) % 2, type=np.arange(len(rows)) // 60).to_csv(two, index=False)
    options = ("fit", two, "--label", "type", "--groups", "plate", "--split-groups", *EPOCHS)
    good(*options, "--out", run)
    assert "groups" not in evaluated(run, two)  # scores of groups need two of them among the test rows
    assert "nan" not in good("evaluate", run, two, "--protocols", "knn").out
    given = (*options, "--set", "group_mode=align", "--out", tmp_path / "aligned")
    assert call(*given).refused("groups has one group")
    assert call("fit", two, "--out", run, *EPOCHS).refused("two.csv' has changed, or has another label or role")


def test_test_rows_without_a_label_are_left_out(tmp_path, table):
    run = tmp_path / "run"
    good("fit", table, "--label", "type", "--groups", "plate", "--split-groups", "--out", run, *EPOCHS)
    good("report", run)
    assert "no label" in (run / "report.html").read_text()
    assert evaluated(run, table)["labels"]["test_rows_left_out"] == {"unlabeled": 20, "used_in_training": 0}
    assert "Test rows left out: 20 without a label." in good("evaluate", run, table, "--protocols", "knn").out


def test_gaps_in_a_label_that_is_not_used(tmp_path, table):
    run = tmp_path / "run"
    said = good("fit", table, "--label", "type", "--drop", "plate", "--out", run, *EPOCHS).err
    assert "60 of 120 rows have no label (NaN or empty), and are not scored" in said
    assert "labels" not in json.loads((run / "summary.json").read_text())
    assert len(json.loads((run / "summary.json").read_text())["split"]["test_index"]) == 12
    found = evaluated(run, table)
    assert (found["rows"]["train"], found["rows"]["test"], found["rows"]["classes"]) == (48, 12, 2)
    assert "labels" not in found  # nothing was left out
    for command in (("embed", run, table), ("views", run, table, "--n", 1)):
        assert "no label" not in good(*command, "--out", tmp_path / f"{command[0]}.npz").err
    assert "no label" not in good("report", run).err
    given = ("fit", table, "--label", "type", "--drop", "plate", "--framework", "supcon", "--out", tmp_path / "all")
    assert call(*given).refused("the labels hold 60 missing values, expected a label for each of the 108 rows")


def test_a_run_is_not_resumed_with_another_split(tmp_path, table):
    run, other = tmp_path / "run", tmp_path / "other.csv"
    options = ("--groups", "plate", "--split-groups", "--drop", "type", "--out", run, *EPOCHS)
    good("fit", table, *options)
    frame = pd.read_csv(table)
    frame.assign(plate=frame["plate"].sample(frac=1, random_state=0).to_numpy()).to_csv(other, index=False)
    assert call("fit", other, *options, "--resume").refused("another split of the rows, which labels or groups draw")
