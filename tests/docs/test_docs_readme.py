"""Every Python block and every command of README.md runs, in an empty folder, in the order of the page."""

import re
import shlex
from pathlib import Path

import pytest

from viewsmith.cli import main

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
COMMANDS = [shlex.split(line, comments=True) for kind, code in BLOCKS if not kind for line in code.splitlines() if line]


def test_the_blocks_of_the_readme_are_python_and_commands():
    assert {kind for kind, _ in BLOCKS} == {"", "python"}
    assert {words[0] for words in COMMANDS} == {"pip", "viewsmith"}
    assert {words[1] for words in COMMANDS} >= {"fit", "evaluate", "compare", "tune", "embed", "views", "report"}


def test_the_wheel_of_torch_for_cpus_comes_first():
    first, *others = [words for words in COMMANDS if words[0] == "pip"]
    assert first == ["pip", "install", "torch", "--index-url", "https://download.pytorch.org/whl/cpu"]
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    for *_, package in others:
        name, _, extras = package.rstrip("]").partition("[")
        assert name == "viewsmith" and all(f"\n{extra} = [" in project for extra in extras.split(",") if extra)


def test_all_code_of_the_readme_runs_in_an_empty_folder(tmp_path, monkeypatch, brief, blank_pictures):
    monkeypatch.chdir(tmp_path)
    names, shapes = {}, []
    for kind, code in BLOCKS:
        if kind == "python":
            exec(compile(code.replace("epochs=20", "epochs=1"), "<README>", "exec"), names)
            shapes.append([names[name].shape for name in "HV" if name in names])
            continue
        for line in code.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] != ["viewsmith"]:
                continue
            short = {"tune": ["--trials", "2"], "compare": ["--seeds", "1"]}.get(words[1], [])
            short += ["--epochs", "1"] if "--epochs" in words else []
            with pytest.raises(SystemExit) as end:
                main([*words[1:], *short])
            assert end.value.code == 0, line
    assert shapes[0] == [(297, 256), (297, 4, 64)] and names["H"].shape == (2, 256)
    made = {path.name for path in tmp_path.iterdir()}
    assert made >= {"runs", "cells.csv", "new.csv", "embedded.csv", "views.npz", "photos", "enhancers.fa"}
    assert (tmp_path / "runs" / "cells" / "report.html").exists()


@pytest.mark.slow
def test_the_first_commands_of_the_readme_run_as_they_are_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(next(code for kind, code in BLOCKS if kind == "python" and "cells.csv" in code), {})
    for words in COMMANDS:
        if words[1] in ("fit", "evaluate", "embed") and "runs/cells" in words:
            with pytest.raises(SystemExit) as end:
                main(words[1:])
            assert end.value.code == 0, words
    assert (tmp_path / "embedded.csv").exists()
