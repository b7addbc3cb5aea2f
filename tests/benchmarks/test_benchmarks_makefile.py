"""Every command of the targets of the Makefile that run studies or make tables has --quick, and runs with it."""

import os
import re
import runpy
import subprocess
import sys

import pytest

from benchmarks.common.runner import ROOT
from benchmarks.tables.pages import BLOCKS

FOLDERS = ("benchmarks/results", "docs")


def targets():
    """All targets of the Makefile that run a study or make a table; `make bench-quick` tests the others."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.findall(r"^([a-z-]+):(?!=).*\n((?:\t.*\n)+)", text, flags=re.MULTILINE)
    return [name for name, recipe in found if re.search(r"(benchmarks\.|call )(quality|tables)", recipe)]


def commands():
    """Module and options of each of their commands, by what `make` would run; without MINUTES, ARGS and devices."""
    plain = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "ARGS"))
    }  # without ARGS of ours
    made = subprocess.run(
        ["make", "--dry-run", "--always-make", *targets()],
        cwd=ROOT,
        env=plain,
        capture_output=True,
        text=True,
        check=True,
    )
    found = dict[tuple[str, ...], None]()
    for line in made.stdout.replace("\\\n", " ").splitlines():
        loop = re.search(r"for (\w+) in ([^;]*); do", line)
        name, values = loop.groups() if loop else ("", "-")
        for value in values.split():
            shown = line.replace(f"${name}", value) if loop else line
            for module, options in re.findall(r"-m (benchmarks\.[\w.]+)([^|;&]*)", shown):
                options = re.sub(r"--device \S+|--quick", "", options)
                found[module, *options.split()] = None
    return list(found)


COMMANDS = commands()
#: Some of the rows of the same networks: what differs between them are numbers, or is tested with small ones.
FEWER = {
    "benchmarks.quality.metaug_table1": ("5", "joint"),
    "benchmarks.quality.generated.genview_upper_bound": ("5", "framework", "wrong 0.3, weighted", "generator"),
}


def test_commands_are_found_in_the_makefile():
    modules = {module for module, *_ in COMMANDS}
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    called = re.findall(r"\$\(call quality,([\w.]+)\)", text)
    assert called and {f"benchmarks.quality.{name}" for name in called} <= modules
    assert {name for module, *names in COMMANDS if module == "benchmarks.tables.pages" for name in names} == {*BLOCKS}
    assert ("benchmarks.speed", "crop_embeddings") in COMMANDS and "benchmarks.quality.gpu_published" in modules
    assert not any("$" in part for command in COMMANDS for part in command)


def written():
    """Sizes and times of all files of the folders that commands write to."""
    return {
        path: (path.stat().st_size, path.stat().st_mtime_ns)
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_runs_with_quick_and_writes_nothing(command, monkeypatch):
    module, *options = command
    before = written()
    monkeypatch.delenv("VIEWSMITH_DATA", raising=False)
    monkeypatch.delenv("VIEWSMITH_TABLES", raising=False)
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", [module, *options, *FEWER.get(module, ()), "--quick"])
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as stopped:
        assert not stopped.code, f"{module} ended with {stopped.code}"
    assert written() == before
