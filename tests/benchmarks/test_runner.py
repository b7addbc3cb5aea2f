"""The benchmark runner: cells are done once, failures are kept and tried again, progress says how many of how many."""

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def runner(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    sys.modules.pop("runner", None)
    import runner

    return runner


def test_cells_are_done_once_and_failures_again(runner, tmp_path, capsys):
    path, calls = tmp_path / "results.jsonl", []

    def work(name, fail=False):
        calls.append(name)
        if fail:
            raise ValueError("first line\nsecond line")
        return {"score": 0.5}

    cells = [
        runner.Cell("a", "m", 0, lambda: work("a")),
        runner.Cell("b", "m", 0, lambda: work("b", fail=len(calls) < 2)),
    ]
    runner.run(cells, path)
    assert "1 of 2 cells done" in runner.progress(cells, path)
    first = runner.rows(path)
    assert first[0]["score"] == 0.5
    assert {"commit", "date", "processor", "threads", "seed"} <= first[0].keys()
    assert first[1]["error"] == "ValueError: first line second line"

    runner.run(cells, path)
    assert calls == ["a", "b", "b"]
    assert "2 of 2 cells done" in runner.progress(cells, path)
    assert "2 of 2 cells done" in capsys.readouterr().out


def test_time_limit_stops_before_the_next_cell(runner, tmp_path):
    path = tmp_path / "results.jsonl"
    cells = [runner.Cell("a", "m", seed, lambda: {"score": 1.0}) for seed in range(3)]
    runner.run(cells, path, minutes=0)
    assert runner.rows(path) == []


def test_results_are_plain_json(runner, tmp_path):
    import numpy as np

    path = tmp_path / "results.jsonl"
    runner.run([runner.Cell("a", "m", 0, lambda: {"score": np.float32(0.25), "count": np.int64(3)})], path)
    row = json.loads(path.read_text())
    assert (row["score"], row["count"]) == (0.25, 3)


def test_study_lists_every_cell_once(runner, monkeypatch):
    for name in ("study", "tables"):
        sys.modules.pop(name, None)
    import study

    cells = study.cells(list(study.SETS))
    keys = [cell.key for cell in cells]
    assert len(set(keys)) == len(keys)
    per_set = 2 + len(study.SEEDS) * (2 + len(study.TRAINED))
    assert len(keys) == per_set * len(study.SETS) + (1 + len(study.SEEDS)) * len(study.WIDE)


def test_verdicts_follow_the_tie_widths(runner):
    sys.modules.pop("tables", None)
    import tables

    def rows(value):
        return {seed: dict.fromkeys(tables.METRICS, value) for seed in (0, 1, 2)}

    table = {("s", name): rows(0.80) for name in tables.BASELINES} | {("s", "pinda"): rows(0.82)}
    (line,) = [row for row in tables.verdicts(table, "pinda", ["s"]) if row.startswith("| s ")]
    km, few, knn, linear = [part.strip() for part in line.split("|")[2:-1]]
    assert km.startswith("ties") and few.startswith("ties")
    assert knn.startswith("**beats**") and linear.startswith("**beats**")
    del table["s", "umap"]
    assert "open" in tables.verdicts(table, "pinda", ["s"])[2]


def test_gains_pair_sets_and_seeds(runner):
    sys.modules.pop("tables", None)
    import tables

    def scores(*numbers):
        return {seed: {"knn": number} for seed, number in enumerate(numbers)}

    table = {("s", "a"): scores(0.5, 0.75), ("t", "a"): scores(0.5), ("s", "b"): scores(0.25, 0.25), ("t", "b"): {}}
    assert tables.gain(table, "a", "b", ["s", "t"], "knn") == "-"
    table["t", "b"] = scores(0.5, 0.9)
    # Differences 0.25, 0.5 and 0: mean 0.25, deviation 0.25, and 4.303 is Student's quantile at two degrees of freedom.
    assert tables.gain(table, "a", "b", ["s", "t"], "knn") == "+0.250 ± 0.621 (3)"
    found = tables.gains(table, {"a": ("a", "b", ["s", "t"]), "few": ("a", "b", ["s"])}, {"knn": "kNN"})
    assert found == ["| row | kNN |", "|---|---|", "| a | +0.250 ± 0.621 (3) |"]
    lines = tables.by_row(table, "knn", ["s", "t"], ("b", "a", "none"))
    assert lines[2:] == ["| b (2) | 0.250 ± 0.000 | 0.700 ± 0.283 |", "| a (2) | 0.625 ± 0.177 | 0.500 |"]
    assert tables.by_row(table, "svm", ["s"], ("a",)) == [] == tables.section("svm", [], text="nothing")
    assert tables.section("kNN", [], lines[:2], text="why") == ["", "## kNN", "", "why", "", *lines[:2]]
