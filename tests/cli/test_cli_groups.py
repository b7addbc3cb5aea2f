"""Commands in several processes, as torchrun starts them: one of them dies, or their number changes."""

import json
import os
import signal
import socket
import time
from pathlib import Path

import numpy as np
import pytest
from cli_forked import as_program
from cli_tools import good

from viewsmith.core.peers import LOST
from viewsmith.training import RunFolder

FIT = (
    "--epochs",
    "40",
    "--batch-size",
    "32",
    "--set",
    "hidden=8",
    "--set",
    "n_components=4",
    "--checkpoint-every",
    "0",
)


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


@pytest.mark.slow
def test_one_process_reports_for_all(start, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(128, 5)).astype(np.float32))
    members, messages = start(2, "fit", tmp_path / "x.npy", "--out", tmp_path / "run", *FIT)
    assert wait(members) == [0, 0]
    assert [Path(out).read_text() for out, _ in messages] == [f"{tmp_path / 'run'}\n", ""]
    assert (tmp_path / "run" / "report.html").exists()
