"""The benchmark runner: cells run once, failed cells run again, and the progress counts finished cells."""

import json
import os

import numpy as np

from benchmarks.common import runner


def test_cells_run_once_and_failed_cells_again(tmp_path, capsys):
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
    assert "all 2 cells done" in runner.progress(cells, path)
    assert "all 2 cells done" in capsys.readouterr().out


def test_time_limit_stops_before_the_next_cell(tmp_path):
    path = tmp_path / "results.jsonl"
    cells = [runner.Cell("a", "m", seed, lambda: {"score": 1.0}) for seed in range(3)]
    runner.run(cells, path, minutes=0)
    assert runner.rows(path) == []


def test_results_are_plain_json(tmp_path):
    path = tmp_path / "results.jsonl"
    runner.run([runner.Cell("a", "m", 0, lambda: {"score": np.float32(0.25), "count": np.int64(3)})], path)
    row = json.loads(path.read_text())
    assert (row["score"], row["count"]) == (0.25, 3)


def test_several_jobs_share_the_missing_cells(tmp_path):
    path = tmp_path / "results.jsonl"
    cells = [runner.Cell("a", "m", seed, lambda: {"process": os.getpid()}) for seed in range(5)]
    runner.run(cells[:1], path)
    runner.run(cells, path, jobs=2)
    found = runner.rows(path)
    assert sorted(row["seed"] for row in found) == [0, 1, 2, 3, 4]
    assert len({row["process"] for row in found}) == 3
