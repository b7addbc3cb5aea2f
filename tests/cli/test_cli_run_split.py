"""Rows that a run was trained on are not scored as test rows without a word, whatever the labels now."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from cli_tools import call, good

import viewsmith
from viewsmith.training.run import RunFolder


@pytest.fixture(scope="module")
def ab(tmp_path_factory):
    """Folder with a table that has two label columns, the same rows in another order, and other rows."""
    folder = tmp_path_factory.mktemp("ab")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 4)), columns=list("cdef"))
    table["A"] = np.where(np.arange(60) % 2, "yes", "no")
    table["B"] = rng.choice(["x", "y", "z"], 60)
    table.to_csv(folder / "ab.csv", index=False)
    table.sample(frac=1, random_state=1).to_csv(folder / "shuffled.csv", index=False)
    other = table.assign(c=rng.normal(size=60))
    other.to_csv(folder / "other.csv", index=False)
    features = ["fit", folder / "ab.csv", "--epochs", 1, "--drop"]
    good(*features, "B", "--label", "A", "--out", folder / "labeled")
    good(*features, "A,B", "--out", folder / "unlabeled")
    good(*features, "B", "--label", "A", "--transductive", "--out", folder / "transductive")
    return folder


def drawn_by_embed(folder, run, name, *options):
    good("embed", folder / run, folder / name, "--out", folder / "h.csv", *options)
    frame = pd.read_csv(folder / "h.csv")
    return np.flatnonzero(frame["split"] == "test").tolist() if "split" in frame else None


def evaluation(folder, run, name, *options):
    result = good("evaluate", folder / run, folder / name, "--protocols", "knn", *options)
    return result.err, json.loads((folder / run / "evaluation.json").read_text())["rows"]["test"]


def test_the_split_of_the_same_rows_is_that_of_the_run_with_any_label(ab):
    drawn = json.loads((ab / "labeled" / "summary.json").read_text())["split"]["test_index"]
    assert drawn_by_embed(ab, "labeled", "ab.csv") == drawn
    assert drawn_by_embed(ab, "labeled", "ab.csv", "--label", "B") == drawn
    assert evaluation(ab, "labeled", "ab.csv", "--label", "B") == ("", 12)


def test_rows_without_their_labels_have_the_split_of_the_run(ab):
    pd.read_csv(ab / "ab.csv").drop(columns=["A", "B"]).to_csv(ab / "features.csv", index=False)
    assert drawn_by_embed(ab, "labeled", "features.csv") == drawn_by_embed(ab, "labeled", "ab.csv")


@pytest.mark.parametrize("run", ["labeled", "unlabeled"])
def test_rows_in_another_order_are_recognized(ab, run):
    err, n_test = evaluation(ab, run, "shuffled.csv", "--label", "A")
    test = drawn_by_embed(ab, run, "shuffled.csv", "--label", "A")
    rows = pd.read_csv(ab / "ab.csv")["c"].to_numpy()
    split = json.loads((ab / run / "summary.json").read_text())["split"]
    trained = rows if run == "unlabeled" else rows[split["train_index"]]
    count = int(np.isin(pd.read_csv(ab / "shuffled.csv")["c"].to_numpy()[test], trained).sum())
    assert n_test == 12 and count > 0 and err.count("warning: ") == 1
    assert f"shuffled.csv: {count} of 12 test rows are rows that the run was trained on" in err


def test_a_run_without_labels_was_trained_on_all_rows(ab):
    err, n_test = evaluation(ab, "unlabeled", "ab.csv", "--label", "A")
    assert n_test == 12 and err.count("warning: ") == 1
    assert "12 of 12 test rows are rows that the run was trained on" in err


def test_an_earlier_run_without_hashes_of_rows(ab, tmp_path):
    good("fit", ab / "ab.csv", "--drop", "A,B", "--epochs", 1, "--out", tmp_path / "run")
    RunFolder(tmp_path / "run").row_hashes.unlink()
    for name, expected in (("ab.csv", 1), ("shuffled.csv", 0)):
        result = good("evaluate", tmp_path / "run", ab / name, "--label", "A", "--protocols", "knn")
        assert result.err.count("warning: ") == expected


def test_other_rows_and_a_transductive_training_give_no_warning(ab):
    assert evaluation(ab, "labeled", "other.csv") == ("", 12)
    assert evaluation(ab, "unlabeled", "other.csv", "--label", "A") == ("", 12)
    # The user has asked for it, and the run says it.
    assert evaluation(ab, "transductive", "ab.csv", "--label", "B") == ("", 12)


def test_records_with_other_labels_than_those_of_the_training(tmp_path):
    rng = np.random.default_rng(0)
    letters = ["".join(rng.choice(list("ACGT"), 20 + i % 3)) for i in range(60)]
    lines = [f">r{i} label={'ab'[i % 2]}\n{sequence}\n" for i, sequence in enumerate(letters)]
    (tmp_path / "m.fa").write_text("".join(lines))
    (tmp_path / "labels.csv").write_text("".join(f"r{i},{'uv'[i // 30]}\n" for i in range(10, 60)))
    (tmp_path / "longer.fa").write_text("".join([*lines[::-1], f">long label=a\n{'ACGT' * 9}\n"]))
    good("fit", tmp_path / "m.fa", "--labels", tmp_path / "labels.csv", "--epochs", 1, "--out", tmp_path / "run")
    drawn = json.loads((tmp_path / "run" / "summary.json").read_text())["split"]["test_index"]
    assert len(drawn) == 10 and drawn_by_embed(tmp_path, "run", "m.fa") == drawn
    assert evaluation(tmp_path, "run", "m.fa") == ("", 10)
    # More padding does not hide the records.
    assert "test rows are rows that the run was trained on" in evaluation(tmp_path, "run", "longer.fa")[0]


def test_a_run_of_python_on_the_rows_of_a_file(ab, tmp_path):
    table = pd.read_csv(ab / "ab.csv")
    viewsmith.Contrastive(epochs=1, random_state=0).fit(table[list("cdef")], run=tmp_path / "run")
    result = good("evaluate", tmp_path / "run", ab / "ab.csv", "--label", "A", "--protocols", "knn")
    assert "12 of 12 test rows are rows that the run was trained on" in result.err


def test_a_mixed_table_is_recognized(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.normal(size=50), "color": rng.choice(["red", "blue", "green"], 50)})
    table["gap"] = np.where(rng.random(50) < 0.2, np.nan, rng.normal(size=50))
    table["A"], table["B"] = np.arange(50) % 2, rng.choice(["x", "y"], 50)
    table.to_csv(tmp_path / "t.csv", index=False)
    good("fit", tmp_path / "t.csv", "--label", "A", "--drop", "B", "--epochs", 1, "--out", tmp_path / "run")
    drawn = json.loads((tmp_path / "run" / "summary.json").read_text())["split"]["test_index"]
    assert drawn_by_embed(tmp_path, "run", "t.csv", "--label", "B") == drawn
    table.iloc[::-1].to_csv(tmp_path / "reversed.csv", index=False)
    assert "test rows are rows that the run was trained on" in evaluation(tmp_path, "run", "reversed.csv")[0]


@pytest.mark.parametrize("change", [{"train_index": [1, 2]}, {"train": "many"}])
def test_a_damaged_split(ab, tmp_path, change):
    shutil.copytree(ab / "labeled", tmp_path / "run")
    path = tmp_path / "run" / "summary.json"
    summary = json.loads(path.read_text())
    path.write_text(json.dumps(summary | {"split": summary["split"] | change}))
    refused = call("evaluate", tmp_path / "run", ab / "ab.csv", "--protocols", "knn")
    assert refused.refused("summary.json of the run is damaged: its split is not complete")


def test_a_split_by_groups_and_labels_that_cannot_be_split(tmp_path):
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=list("abc"))
    table = table.assign(who=np.arange(40) // 4, A=np.arange(40) % 2, target=[f"row {i}" for i in range(40)])
    table.to_csv(tmp_path / "t.csv", index=False)
    fit = ("fit", tmp_path / "t.csv", "--groups", "who", "--split-groups", "--label", "A", "--drop", "target")
    good(*fit, "--epochs", 1, "--out", tmp_path / "run")
    drawn = json.loads((tmp_path / "run" / "summary.json").read_text())["split"]["test_index"]
    table.drop(columns="who").to_csv(tmp_path / "alone.csv", index=False)
    assert drawn_by_embed(tmp_path, "run", "t.csv") == drawn_by_embed(tmp_path, "run", "alone.csv") == drawn
    refused = call("evaluate", tmp_path / "run", tmp_path / "alone.csv", "--label", "target", "--protocols", "knn")
    assert refused.refused("no test rows") and "the rows are not split" in refused.err
