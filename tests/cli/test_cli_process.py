"""Commands as processes of their own: output, signals, closed pipes, and runs that were killed."""

import json
import os
import pty
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cli_tools import ENVIRONMENT, MODULE, call, files, good, process

FIT = ("fit", "digits", "--epochs", 40, "--set", "hidden=64", "--set", "n_components=32", "--out")
WEIGHTS = "model.safetensors"


def metrics(run):
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def same(run, other):
    return (run / WEIGHTS).read_bytes() == (other / WEIGHTS).read_bytes() and metrics(run) == metrics(other)


def stopped(number, epochs, *arguments):
    """Start a training, send it a signal after so many epochs, and return how it ended and what it said."""
    run = Path(arguments[-1])
    command = [*MODULE, *map(str, arguments), "--checkpoint-every", "0"]
    training = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    end = time.monotonic() + 60
    while len((run / "metrics.jsonl").read_bytes().splitlines() if (run / "metrics.jsonl").exists() else []) < epochs:
        assert training.poll() is None and time.monotonic() < end
        time.sleep(0.005)
    training.send_signal(number)
    out, err = training.communicate(timeout=60)
    return training.returncode, out, err


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The run that nothing happened to, made by the module."""
    run = tmp_path_factory.mktemp("runs") / "whole"
    result = process(*FIT, run)
    # In a pipe there is no progress bar, only the warning about columns.
    assert (result.code, result.out) == (0, f"{run}\n")
    assert result.err == "warning: digits: 4 constant columns: pixel_0_0, pixel_3_0, pixel_4_0, pixel_4_7, ignored\n"
    return run


def test_the_script_and_the_module_do_the_same(tmp_path, uninterrupted):
    script = Path(sys.executable).with_name("viewsmith")
    result = process(*FIT, tmp_path / "run", program=(str(script),))
    assert result.code == 0 and result.out == f"{tmp_path / 'run'}\n"
    assert same(tmp_path / "run", uninterrupted)


@pytest.mark.parametrize("epochs", [3, 25])
def test_a_killed_run_goes_on_to_the_same_weights(tmp_path, uninterrupted, epochs):
    run = tmp_path / "run"
    code, out, _ = stopped(signal.SIGKILL, epochs, *FIT, run)
    assert code == -signal.SIGKILL and out == ""
    assert epochs <= len(metrics(run)) < 40 and not (run / WEIGHTS).exists()
    assert call("embed", run, "digits", "--out", tmp_path / "h.npy").refused("has no model yet", "--resume")
    assert call(*FIT, run).refused("already holds this run", "add --resume")
    result = process(*FIT, run, "--resume")
    assert result.code == 0 and same(run, uninterrupted)


def test_ctrl_c_leaves_a_usable_run_that_goes_on(tmp_path, uninterrupted):
    run = tmp_path / "run"
    code, out, err = stopped(signal.SIGINT, 5, *FIT, run)
    assert code == 130 and out == f"{run}\n"
    assert "warning: training ended early (interrupted)" in err and f"--out {run} --resume" in err
    assert "Traceback" not in err and not same(run, uninterrupted)
    assert json.loads((run / "summary.json").read_text())["status"] == "interrupted"
    good("embed", run, "digits", "--out", tmp_path / "h.npy")
    assert np.isfinite(np.load(tmp_path / "h.npy")).all()
    result = process(*FIT, run, "--resume")
    assert result.code == 0 and same(run, uninterrupted)
    before = files(run)
    good(*FIT, run, "--resume")
    assert files(run) == before


def test_json_alone_on_stdout(runs, data):
    result = process("evaluate", runs / "given", data / "given.npz", "--json")
    assert result.code == 0 and set(json.loads(result.out)) >= {"embeddings", "protocols"}


def test_errors_are_plain_on_a_terminal_too(tmp_path):
    colorful = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "40"}
    assert process("fit", "wine", "--out", tmp_path / "run", "--epochs", -1, env=colorful).refused("epochs is '-1'")
    assert "\x1b" not in process("fit", "--help", env=colorful).out


def test_a_full_disk(tmp_path, data, runs):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    for command in (("fit", "wine", "--epochs", 1), ("embed", runs / "plain", data / "x.npy")):
        out = tmp_path / "out.npy"
        assert process(*command, "--out", out, preexec_fn=limit).refused(f"no space left to write {out}")
        assert list(tmp_path.iterdir()) == []


def test_a_reader_that_has_gone():
    read, write = os.pipe()
    os.close(read)
    listing = subprocess.run([*MODULE, "methods"], stdout=write, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    os.close(write)
    assert (listing.returncode, listing.stderr) == (1, "")


def test_a_terminal_gets_a_progress_bar(tmp_path):
    ours, theirs = pty.openpty()
    command = [*MODULE, *map(str, FIT), str(tmp_path / "run")]
    training = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=ENVIRONMENT | {"TERM": "xterm"})
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux ends a terminal so
            break
        if not part:
            break
        shown += part
    out, _ = training.communicate(timeout=60)
    os.close(ours)
    assert training.returncode == 0 and out == f"{tmp_path / 'run'}\n".encode()
    assert b"loss" in shown and b"samples/s" in shown
