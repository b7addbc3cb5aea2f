"""Installs the example plug-in without a network, and runs work in processes that find it, or do not.

The registry is one for a process: a plug-in that was imported for one test would be there for all others.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin"
HERE = Path(__file__).parent


def install(folder: Path) -> Path:
    """The plug-in in a folder as pip would leave it: its package, and what its pyproject.toml says of entry points."""
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
    package = project["name"].replace("-", "_")
    shutil.copytree(PLUGIN / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    record = folder / f"{package}-{project['version']}.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = [
        line
        for group, named in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in named.items()))
    ]
    (record / "entry_points.txt").write_text("\n".join(points) + "\n")
    return folder


def environment(*folders: Path) -> dict[str, str]:
    """That of a process which finds the packages of these folders, and our own helpers."""
    paths = [*map(str, folders), str(HERE), str(HERE.parent / "cli"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}


def run(*arguments: str | Path, folders: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
    """A Python process with these arguments."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment(*folders), timeout=300)


def do(name: str, arguments: tuple[Path, ...], folders: tuple[Path, ...], out: Path) -> None:
    """Call a function of plugin_work.py in this process, which finds packages in these folders and draws nothing."""
    sys.path[:0] = [*map(str, folders), str(HERE.parent / "cli")]
    import plugin_work
    import torch

    from quick_reports import quick_reports

    torch.set_num_threads(1)
    quick_reports()
    out.write_text(json.dumps(getattr(plugin_work, name)(*arguments)))
