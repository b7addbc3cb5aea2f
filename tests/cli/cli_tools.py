"""Run commands in this process or in a new one, and compare the files that they write."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer.main

from viewsmith.cli import main
from viewsmith.modalities import modality_of

# The tree of commands, which is made anew for each command, is always the same.
typer.main.get_command = functools.cache(typer.main.get_command)


def baselines_of(modality: str) -> list[str]:
    """The baselines that `compare` and `evaluate` have by default, without the untrained encoder."""
    features = ["features"] if modality_of(modality).default_features else []
    return ["majority", "raw", *features, "pca"]


@dataclass(frozen=True)
class Result:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    def refused(self, *parts: str) -> bool:
        """Whether the command refused bad input: exit code 2 and a message of one to three lines with all `parts`."""
        lines = self.err.splitlines()
        message = [line for line in lines if not line.startswith("warning: ")]
        assert self.code == 2, (self.code, self.err)
        assert 1 <= len(message) <= 3 and message[0].startswith("error: "), self.err
        assert "Traceback" not in self.err and "\x1b" not in self.err and self.out == ""
        for part in parts:
            assert part in message[0], (part, self.err)
        return True


def call(*arguments: Any) -> Result:
    """Run a command in this process, which saves the imports."""
    out, err = io.StringIO(), io.StringIO()
    with warnings.catch_warnings(action="always"), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            return Result(end.code, out.getvalue(), err.getvalue())
    raise AssertionError("main returned")


def good(*arguments: Any) -> Result:
    """Run a command that must succeed."""
    result = call(*arguments)
    assert result.code == 0, result.err
    return result


ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
MODULE = (sys.executable, "-m", "viewsmith")


def process(*arguments: Any, program: tuple[str, ...] = MODULE, **options: Any) -> Result:
    """Run a command in a new process, with its output in pipes."""
    environment = ENVIRONMENT | options.pop("env", {})
    command = [*program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, **options)
    return Result(done.returncode, done.stdout, done.stderr)


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Content and modification time of every file in a folder and its subfolders."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


def contents(folder: Path) -> dict[str, bytes]:
    """Content of the files of a view cache, without those of its generator."""
    return {name: content for name, (content, _) in files(folder).items() if not name.startswith("generator")}


def metrics(run: Path) -> list[dict[str, Any]]:
    """Metrics of a run but for the seconds."""
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]
