"""fit --processes N: processes that are forked from one train together, and share the memory of what is imported."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cli_tools import call, process

from viewsmith.core.distributed import LOST

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks")
FIT = ("--epochs", 2, "--batch-size", 32, "--set", "hidden=16", "--set", "n_components=4", "--threads", 1)


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.random.default_rng(0).normal(size=(128, 5)).astype(np.float32))
    return path


@pytest.mark.slow
def test_two_processes_train_together_and_report_once(rows, tmp_path):
    result = process("fit", rows, "--out", tmp_path / "run", *FIT, "--processes", 2)
    assert result.code == 0, result.err
    assert result.out == f"{tmp_path / 'run'}\n"
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["processes"] == 2 and summary["status"] == "finished"


@pytest.mark.slow
def test_bad_input_ends_all_with_its_exit_code(tmp_path):
    result = process("fit", tmp_path / "absent.npy", "--out", tmp_path / "run", *FIT, "--processes", 2)
    assert result.code == 2 and "absent.npy" in result.err and "Traceback" not in result.err
    assert not (tmp_path / "run").exists()


def test_torchrun_and_processes_together_are_refused(rows, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    result = call("fit", rows, "--out", tmp_path / "run", "--processes", 2)
    assert result.refused("--processes is 2", "torchrun")


@pytest.mark.slow
def test_a_process_that_dies_ends_the_other_with_one_line(rows, tmp_path):
    long = ("--epochs", 100_000, "--minutes", 2, *FIT[2:], "--processes", 2)
    command = [sys.executable, "-m", "viewsmith", "fit", rows, "--out", tmp_path / "run", *long]
    started = subprocess.Popen([str(part) for part in command], stderr=subprocess.PIPE, text=True)
    metrics, deadline = tmp_path / "run" / "metrics.jsonl", time.monotonic() + 60
    while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    members = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
    os.kill(int(members[1]), signal.SIGKILL)
    said = started.communicate(timeout=30)[1]
    assert started.returncode == 128 + signal.SIGKILL
    assert [line for line in said.splitlines() if line.startswith("error: ")] == [f"error: {LOST}"]


FORK = """
import os, sys, time
from viewsmith.core import distributed
distributed.GRACE, distributed.PRELOADED = 1, ()
distributed.fork_processes(2)
if os.environ["RANK"] == "1":
    sys.exit(3)
time.sleep(60)
"""


def test_a_process_that_fails_ends_one_that_would_not_notice():
    begun = time.monotonic()
    assert subprocess.run([sys.executable, "-c", FORK], timeout=50).returncode == 3
    assert time.monotonic() - begun < 40
