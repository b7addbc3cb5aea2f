"""A continuous label column on the command line: fit, evaluate, compare, tune."""

import json

import numpy as np
import pandas as pd
import pytest
from cli_tools import call, good

QUICK = ("--epochs", 1)


@pytest.fixture(scope="module")
def table(data_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("targets") / "d.csv"
    frame = pd.read_csv(data_dir / "tables" / "diamonds.csv").sample(150, random_state=0)
    frame[["carat", "depth", "table", "price", "cut"]].to_csv(path, index=False)
    return path


def test_fit_evaluate_and_report(tmp_path, table):
    run = tmp_path / "run"
    good("fit", table, "--label", "price", "--target", "number", "--out", run, *QUICK)
    assert json.loads((run / "summary.json").read_text())["split"]["kind"] == "random"
    shown = good("evaluate", run, table)
    assert "r2" in shown.out and "labels are numbers" in shown.out and "R²" in shown.out
    found = json.loads((run / "evaluation.json").read_text())
    assert list(found["embeddings"]["raw"]) == ["r2", "mae", "knn_r2", "r2_1pct", "r2_10pct"]
    assert found["target"] == "number" and found["rows"] == {"train": 120, "test": 30}
    good("report", run)
    page = (run / "report.html").read_text()
    assert "but for MAE, in units of the target" in page and "standard error of an accuracy" not in page


def test_compare_and_tune(tmp_path, table):
    quick = ("--set", "epochs=1")
    given = (table, "--label", "carat", "--seeds", 1, "--out", tmp_path / "c", *quick)
    assert "mae" in good("compare", *given, "--methods", "contrastive", "--baselines", "raw").out
    search = ("--search", "temperature=0.1,0.5", "--trials", 2)
    good("tune", table, "--label", "carat", "--out", tmp_path / "t", *search, *quick)
    found = json.loads((tmp_path / "t" / "tune.json").read_text())
    assert found["metric"] == "knn_r2" and "classes" not in found["rows"]
    good("tune", table, "--label", "carat", "--out", tmp_path / "m", *search, *quick, "--metric", "mae")
    of_mae = json.loads((tmp_path / "m" / "tune.json").read_text())
    scores = [trial["score"] for trial in of_mae["trials"]]
    assert of_mae["best"] == int(np.argmin(scores)) and min(scores) > 0


def test_several_labels_of_one_run(tmp_path, table):
    run = tmp_path / "run"
    good("fit", table, "--label", "price", "--target", "number", "--drop", "cut", "--out", run, *QUICK)
    found = json.loads(good("evaluate", run, table, "--label", "cut", "--label", "price", "--json").out)
    of_cut, of_price = (found["labels_scored"][name] for name in ("cut", "price"))
    assert found["embeddings"] == of_cut["embeddings"] and "linear" in of_cut["protocols"]
    assert of_price["target"] == "number"
    alone = json.loads(good("evaluate", run, table, "--label", "price", "--json").out)
    assert alone["embeddings"] == of_price["embeddings"] and "labels_scored" not in alone
    shown = good("evaluate", run, table, "--label", "cut", "--label", "price").out
    assert shown.startswith("cut\n") and "\nprice\n" in shown and "5 classes" in shown and "labels are numbers" in shown


def test_supervision_by_numbers(tmp_path, table):
    run = tmp_path / "run"
    good("fit", table, "--supervise", "carat", "--out", run, *QUICK)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["labels"] == "supervision by numbers: 120 of 120 training rows"
    assert 'supervision = "numbers"' in (run / "config.toml").read_text()
    assert "30 test rows" in good("evaluate", run, table).out
    assert call("fit", table, "--label", "carat", "--set", "framework=supcon", "--out", tmp_path / "other").refused(
        "labels are numbers, but these settings need classes"
    )
    of_table = ("--methods", "contrastive", "--seeds", 1, "--baselines", "raw", "--set", "epochs=1")
    given = ("--label", "carat", "--set", "supervision=numbers", "--out", tmp_path / "c")
    assert "contrastive" in good("compare", table, *given, *of_table).out
