"""Commands in several processes, as torchrun starts them: one of them dies, or their number changes."""

import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_forked import as_program
from cli_tools import good

from viewsmith.core.distributed import LOST
from viewsmith.training import RunFolder

FIT = ("--epochs", 40, "--batch-size", 32, "--checkpoint-every", 0, "--set", "hidden=8", "--set", "n_components=4")


@pytest.fixture
def start(processes, tmp_path):
    """Starts a command in each process of a group; returns the processes and the files of their messages."""

    def run(size, *arguments):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        members, messages = [], []
        for rank in range(size):
            files = [str(tmp_path / f"{port}-{rank}.{kind}") for kind in ("out", "err")]
            environment = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
            environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            command = [str(argument) for argument in arguments]
            members.append(processes.Process(target=as_program, args=(command, *files, environment)))
            members[-1].start()
            messages.append(files)
        return members, messages

    return run


def wait(members, seconds=60):
    for member in members:
        member.join(seconds)
        if member.is_alive():
            member.kill()
            pytest.fail("a process did not end")
    return [member.exitcode for member in members]


def epochs_of(run):
    path = run / "metrics.jsonl"
    return [json.loads(line)["epoch"] for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.slow
@pytest.mark.parametrize("dies", [0, 1])
def test_a_process_that_dies_ends_the_other_with_one_line_and_the_run_resumes(start, tmp_path, dies):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(128, 5)).astype(np.float32))
    run = tmp_path / "run"
    command = ("fit", tmp_path / "x.npy", "--out", run, *FIT, "--resume")
    members, messages = start(2, *command)
    deadline = time.monotonic() + 90
    while len(epochs_of(run)) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(members[dies].pid, signal.SIGKILL)
    assert wait(members)[1 - dies] == 1 and members[dies].exitcode == -signal.SIGKILL
    lines = Path(messages[1 - dies][1]).read_text().splitlines()
    lines = [line for line in lines if not line.startswith(("warning: ", "["))]  # gloo logs in brackets
    assert lines == [f"error: {LOST}"]
    done = RunFolder(run).checkpoint.load()[1]["epoch"]
    assert 2 <= done < 40
    # The same command continues in one process, with the other half of each batch.
    good(*command)
    assert epochs_of(run) == list(range(1, 41))
    assert json.loads((run / "summary.json").read_text())["status"] == "finished"


def peak(members):
    """Largest sum of the memory of living processes, pages that they share counted once, in MB."""
    largest = 0.0
    while any(member.is_alive() for member in members):
        now = 0.0
        for member in members:
            with contextlib.suppress(OSError):  # it has ended
                rollup = Path(f"/proc/{member.pid}/smaps_rollup").read_text()
                now += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) / 1000
        largest = max(largest, now)
        time.sleep(0.02)
    assert wait(members) == [0] * len(members)
    return largest


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the memory of a process is in /proc on Linux alone")
@pytest.mark.parametrize(
    ("suffix", "views"), [("npy", ("mixup", "--set", "input_components=20")), ("parquet", ("noise",))], ids=str
)
def test_two_processes_share_what_they_keep_of_the_data(start, tmp_path, suffix, views):
    short = ("--epochs", 1, "--views", *views, "--set", "n_components=4", "--set", "hidden=16", "--batch-size", 512)
    taken = {}
    for name, n in (("few", 256), ("many", 16000)):
        rows = np.random.default_rng(0).normal(size=(n, 800)).astype(np.float32)
        path = tmp_path / f"{name}.{suffix}"
        if suffix == "npy":
            np.save(path, rows)
        else:
            pytest.importorskip("pyarrow")
            pd.DataFrame(rows, columns=[f"c{i}" for i in range(800)]).to_parquet(path)
        for size in (1, 2):
            # The least of two: how much freed memory a process still has depends on the other one's time.
            runs = [tmp_path / f"{name}-{size}-{again}" for again in range(2)]
            taken[name, size] = min(peak(start(size, "fit", path, "--out", run, *short)[0]) for run in runs)
    one, two = (taken["many", size] - taken["few", size] for size in (1, 2))
    assert one > 51 and two < 1.2 * one, taken  # the rows have 51 MB
