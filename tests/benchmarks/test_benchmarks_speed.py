"""The speed cases start, and --quick writes no results; timing, ratios and records are correct."""

import json
import statistics
import sys
import time
from pathlib import Path

import pytest

from benchmarks.speed import timing
from benchmarks.speed.__main__ import main
from cases import slow

# The others take longer or want data sets.
QUICK = ("crl_tac_memory", "crop_embeddings", "default_fit", "diffusion_sampling", "dna_views", "image_views")
QUICK += ("neighbor_graph", "nt_xent", "nt_xent_memory", "pinda_step", "small_fit", "soft_contrastive")


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(timing, "RESULTS", tmp_path)
    return tmp_path


def test_every_case_has_help(capsys):
    for name in timing.CASES:
        with pytest.raises(SystemExit) as stopped:
            main([name, "--help"])
        assert stopped.value.code == 0
        shown = capsys.readouterr().out
        assert shown.startswith(f"usage: {name}") and "--quick" in shown


@pytest.mark.parametrize(("given", "code"), [(["--help"], 0), ([], 2), (["none"], 2)])
def test_without_a_case_all_are_listed(given, code, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(given)
    assert stopped.value.code == code
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in timing.CASES)


LONG = ("nt_xent_memory", "pinda_step", "crl_tac_memory", "default_fit", "image_views", "crop_embeddings")
LONG += ("diffusion_sampling", "neighbor_graph")


@pytest.mark.parametrize("name", [slow(name) if name in LONG else name for name in QUICK])
def test_quick_runs_and_writes_nothing(name, results, capsys):
    main([name, "--quick"])
    assert '"threads": 1' in capsys.readouterr().out
    assert list(results.iterdir()) == []


@pytest.mark.slow
def test_quick_runs_on_real_data(results, data_dir):
    main(["discovery_images", "--quick"])
    assert list(results.iterdir()) == []


def test_functions_are_timed_interleaved_and_warm_up_rounds_are_not_recorded():
    ticks, calls = iter(range(1000)), []
    works = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    seconds = timing.time_interleaved(works, 3, lambda: next(ticks), warm=2, repeats={"b": 4})
    assert calls == ["a", *"bbbb"] * 5
    assert seconds == {"a": [1, 1, 1], "b": [0.25, 0.25, 0.25]}
    calls.clear()
    timing.time_interleaved(works, 20, lambda: next(ticks), warm=0, shuffle=True)
    pairs = [tuple(calls[i : i + 2]) for i in range(0, 40, 2)]
    assert set(pairs) == {("a", "b"), ("b", "a")}


def test_ratios_are_medians_of_ratios_not_ratios_of_medians():
    seconds = {"a": [1.0, 2.0, 4.0], "b": [3.0, 3.0, 3.0]}
    assert timing.ratios(seconds, "a") == {"a": 1.0, "b": 1.5}
    assert timing.ratio([1.0, 2.0, 6.0], [4.0, 4.0, 3.0]) == 2.0 != statistics.median([4, 4, 3]) / 2 * 2
    assert timing.milliseconds({"a": [0.001, 0.002, 0.5]}) == {"a": 2.0}


def test_a_row_has_options_commit_and_machine(results, capsys):
    case = timing.Case(lambda given: [], {"rounds": 7}, device=True, options={})
    given = case.read(["--rounds", "2"])
    timing.record("name", {"ms": {256: 1.5}}, given)
    line = json.loads((results / "name.jsonl").read_text(encoding="utf-8"))
    assert (line["rounds"], line["threads"], line["device"], line["ms"]) == (2, 1, "cpu", {"256": 1.5})
    assert {"date", "commit", "versions", "hardware"} <= line.keys()
    assert "quick" not in line and "quick" not in capsys.readouterr().out
    assert case.read(["--quick"]).rounds == 1


def test_seconds_and_memory_of_a_process():
    work = "x = bytearray(b'1') * 200_000_000; t = __import__('time'); c = t.process_time\nwhile c() < 0.5: pass"
    mine = bytearray(b"1") * 600_000_000  # memory of this process does not count
    found = timing.process(sys.executable, "-c", work)
    del mine
    assert 0.5 <= found["cpu"] < 3
    assert found["wall"] >= 0.4
    assert 0.2 <= found["peak_gb"] < 0.5
    assert "more_than" not in found


def test_a_process_beyond_its_limit_is_ended_and_one_that_fails_is_an_error():
    found = timing.process(sys.executable, "-c", "while True: pass", limit=1)
    assert 0.9 <= found["more_than"] <= min(1, found["cpu"])
    with pytest.raises(RuntimeError, match="ended with 3"):
        timing.process(sys.executable, "-c", "raise SystemExit(3)", limit=1)


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux only")
def test_memory_of_processes_below_a_process():
    found: dict[str, float] = {}
    before: dict[str, float] = {}
    with timing.watched(before):  # other tests may have left processes that wait
        time.sleep(0.6)
    below = "import time; x = bytearray(b'1') * 100_000_000; time.sleep(2)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {below!r}])"
    with timing.watched(found):
        timing.process(
            sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"
        )
    assert 0.1 <= found["peak_gb"] - before["peak_gb"] < 0.2
