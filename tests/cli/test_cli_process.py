"""Commands in new processes: output, signals, closed pipes, and killed runs."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cli_forked import as_program
from cli_tools import ENVIRONMENT, MODULE, Result, call, files, good, metrics, process

from cases import slow
from viewsmith.cli.errors import show_warning
from viewsmith.core import __version__

FIT = ("fit", "digits", "--epochs", 20, "--set", "hidden=64", "--set", "n_components=32", "--out")
WEIGHTS = "model.safetensors"
SCRIPT = (str(Path(sys.executable).with_name("viewsmith")),)


def same(run, other):
    return (run / WEIGHTS).read_bytes() == (other / WEIGHTS).read_bytes() and metrics(run) == metrics(other)


@pytest.fixture(scope="module")
def start(processes, tmp_path_factory):
    """Starts a command in a new process in which torch is already imported; returns it and its output files."""

    def run(*arguments, out=None, err=None, env=None, preexec_fn=None):
        folder = tmp_path_factory.mktemp("output")
        out, err = out or folder / "out", err or folder / "err"
        arguments = [str(argument) for argument in arguments]
        command = processes.Process(target=as_program, args=(arguments, out, err, env or {}, preexec_fn))
        command.start()
        return command, Path(out), Path(err)

    return run


@pytest.fixture(scope="module")
def forked(start):
    """Exit code and output of a command in a new process."""

    def run(*arguments, **options):
        command, out, err = start(*arguments, **options)
        command.join(60)
        return Result(command.exitcode, out.read_text(), err.read_text())

    return run


@pytest.fixture(scope="module")
def stopped(start):
    """Starts a training and sends it a signal after some epochs; returns its exit code and output."""

    def run(number, epochs, *arguments):
        metrics = Path(arguments[-1]) / "metrics.jsonl"
        training, out, err = start(*arguments, "--checkpoint-every", 0)
        end = time.monotonic() + 60
        while len(metrics.read_bytes().splitlines() if metrics.exists() else []) < epochs:
            assert training.is_alive() and time.monotonic() < end
            time.sleep(0.005)
        os.kill(training.pid, number)
        training.join(60)
        return training.exitcode, out.read_text(), err.read_text()

    return run


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, forked):
    """The run that was not interrupted."""
    run = tmp_path_factory.mktemp("runs") / "whole"
    assert forked(*FIT, run).code == 0
    return run


@pytest.mark.slow
def test_the_script_makes_the_same_run(tmp_path, uninterrupted):
    run = tmp_path / "run"
    result = process(*FIT, run, program=SCRIPT)
    # In a pipe there is no progress bar, only the warning about columns and what comes next.
    assert (result.code, result.out) == (0, f"{run}\n")
    warning, following = result.err.splitlines()
    assert warning == "warning: digits: 4 constant columns: pixel_0_0, pixel_3_0, pixel_4_0, pixel_4_7, ignored"
    assert following.startswith(f"next: open {run}/report.html, `viewsmith evaluate {run} digits`")
    assert same(run, uninterrupted)


def test_the_version_and_the_help_of_a_command_come_without_torch():
    code = """
import sys
from viewsmith.cli import app, main
from typer.main import get_command
commands = list(get_command(app).commands)
for arguments in (["--version"], ["--help"], *([command, "--help"] for command in commands)):
    try:
        main(arguments)
    except SystemExit as end:
        assert end.code == 0
    assert not {"torch", "numpy", "pandas", "sklearn"} & sys.modules.keys(), arguments
assert len(commands) > 15
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"{__version__}\n") and said.count("Usage:") > 16
    assert "barlow-twins, byol" in said and not set(said) & set("\x1b│╭─")


def test_the_script_and_the_module_do_the_same():
    for command, code in (("--help", 0), ("fit", 2)):
        one, other = (process(command, program=program) for program in (SCRIPT, MODULE))
        assert one == other and one.code == code and one.out + one.err


@pytest.mark.parametrize("epochs", [slow(3), slow(12)])
def test_a_killed_run_is_resumed_to_the_same_weights(tmp_path, uninterrupted, stopped, forked, epochs):
    run = tmp_path / "run"
    code, out, _ = stopped(signal.SIGKILL, epochs, *FIT, run)
    assert code == -signal.SIGKILL and out == ""
    assert epochs <= len(metrics(run)) < 20 and not (run / WEIGHTS).exists()
    assert call("embed", run, "digits", "--out", tmp_path / "h.npy").refused("has no model yet", "--resume")
    assert call(*FIT, run).refused("already has this run", "add --resume")
    result = forked(*FIT, run, "--resume")
    assert result.code == 0 and same(run, uninterrupted)


def test_a_run_stopped_by_ctrl_c_is_usable_and_can_be_resumed(tmp_path, uninterrupted, stopped, forked):
    run = tmp_path / "run"
    code, out, err = stopped(signal.SIGINT, 5, *FIT, run)
    assert code == 130 and out == f"{run}\n"
    assert "warning: training ended early (interrupted)" in err and f"--out {run} --resume" in err
    assert "Traceback" not in err and not same(run, uninterrupted)
    assert json.loads((run / "summary.json").read_text())["status"] == "interrupted"
    good("embed", run, "digits", "--out", tmp_path / "h.npy")
    assert np.isfinite(np.load(tmp_path / "h.npy")).all()
    result = forked(*FIT, run, "--resume")
    assert result.code == 0 and same(run, uninterrupted)
    before = files(run)
    good(*FIT, run, "--resume")
    assert files(run) == before


def test_only_json_on_stdout(runs, data, forked):
    result = forked("evaluate", runs / "given", data / "given.npz", "--json")
    assert result.code == 0 and set(json.loads(result.out)) >= {"embeddings", "protocols"}


def test_errors_are_plain_on_a_terminal_too(tmp_path, forked):
    colorful = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "40"}
    assert forked("fit", "wine", "--out", tmp_path / "run", "--epochs", -1, env=colorful).refused("epochs is '-1'")
    assert "\x1b" not in forked("fit", "--help", env=colorful).out


def test_a_closed_pipe():
    read, write = os.pipe()
    os.close(read)
    listing = subprocess.run([*MODULE, "--help"], stdout=write, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    os.close(write)
    assert (listing.returncode, listing.stderr) == (1, "")


INTERRUPTED = """
import sys
before = {"__future__", *sys.modules}
import viewsmith.__main__ as command
print(sorted(sys.modules.keys() - before))

class Interrupt:
    def find_spec(*arguments):
        raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt)
command.main()
"""


def test_an_interrupt_of_the_first_import_is_one_line():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, env=ENVIRONMENT)
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")
    assert done.stdout == "['viewsmith', 'viewsmith.__main__']\n"


def test_a_terminal_gets_a_progress_bar(tmp_path, start):
    ours, theirs = pty.openpty()
    short = ("fit", "wine", "--epochs", 3, "--out", tmp_path / "run")
    training, out, _ = start(*short, err=os.ttyname(theirs), env={"TERM": "xterm"})
    output = b""
    while training.is_alive() or select.select([ours], [], [], 0)[0]:
        if select.select([ours], [], [], 0.1)[0]:
            output += os.read(ours, 4096)
    os.close(ours)
    os.close(theirs)
    assert training.exitcode == 0 and out.read_text() == f"{tmp_path / 'run'}\n"
    assert b"loss" in output and b"samples/s" in output


@pytest.mark.parametrize(
    ("environment", "said"),
    [({}, True), ({"WORLD_SIZE": "2", "RANK": "0"}, True), ({"WORLD_SIZE": "2", "RANK": "1"}, False),
     ({"RANK": "1"}, True)],
)  # fmt: skip
def test_one_of_several_processes_warns(environment, said, monkeypatch, capsys):
    for name in ("WORLD_SIZE", "RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    lines = set()
    for _ in range(2):
        show_warning(UserWarning("two\nlines"), said=lines)
    assert capsys.readouterr().err == ("warning: two lines\n" if said else "")


def close_stderr():
    os.close(2)
    sys.stderr = None  # as in a program that is started without it


def test_a_closed_stderr_is_no_fault(tmp_path, forked):
    assert forked("fit", "wine", "--epochs", 1, "--out", tmp_path / "run", preexec_fn=close_stderr).code == 0
