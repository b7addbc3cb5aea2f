"""The first hour of a user, from nothing: build, install, demo, and all code of the README, each timed.

    python tests/release.py [--work FOLDER] [--index URL ...] [--site FOLDER]

Wheel and sdist are built from the checkout, and the wheel is installed into a new environment, with torch for CPUs and
the extras that the README uses. Then everything runs in an empty folder. --site takes dependencies from the
site-packages of another environment instead of an index, without a network.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TORCH = "https://download.pytorch.org/whl/cpu"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)

#: Runs all blocks of the README in the new environment; Python keeps its names from block to block.
DRIVER = """
import json, os, subprocess, sys, time
taken, names = {}, {}
for kind, text in json.loads(sys.argv[1]):
    for line in [text] if kind == "python" else text.splitlines():
        began, cpu = time.perf_counter(), sum(os.times()[:4])
        if kind == "python":
            exec(compile(text, "<README>", "exec"), names)
        elif line.startswith("viewsmith "):
            subprocess.run(["bash", "-c", line.replace("viewsmith", sys.argv[2], 1)], check=True, stdout=2)
        else:
            continue
        name = "python, " + text.splitlines()[-1][:50] if kind else line.partition("#")[0].strip()
        taken[name] = time.perf_counter() - began, sum(os.times()[:4]) - cpu
print(json.dumps(taken))
"""


def run(command: list[str], where: Path, **environment: str) -> str:
    """Run a command that must succeed; its output."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(command, cwd=where, env=kept | environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)[:300]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(work: Path, python: str) -> Path:
    """Build wheel and sdist; the wheel. The package of the sdist is that of the wheel."""
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, "hatchling"], work)
    run([python, "-m", "hatchling", "build", "-d", str(work / "dist")], ROOT)
    (wheel,), (sdist,) = (work / "dist").glob("*.whl"), (work / "dist").glob("*.tar.gz")
    print(f"{wheel.name} {wheel.stat().st_size / 1e6:.1f} MB, {sdist.name} {sdist.stat().st_size / 1e6:.1f} MB")
    return wheel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="a new folder for everything; default: a temporary one")
    parser.add_argument("--index", nargs="*", default=[], help="options of pip, such as --index-url URL")
    parser.add_argument("--site", type=Path, help="site-packages with all dependencies: no network is used for them")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = given.work or Path(temporary)
        home = work / "home"
        home.mkdir(parents=True)
        python = str(work / "env" / "bin" / "python")
        began, cpu, taken = time.perf_counter(), 0.0, dict[str, tuple[float, float]]()

        def done(name: str) -> None:
            nonlocal began, cpu
            used = sum(os.times()[2:4])
            taken[name] = time.perf_counter() - began, used - cpu
            began, cpu = time.perf_counter(), used

        venv.create(work / "env", with_pip=True)
        wheel = build(work, python)
        done("build")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *given.index]
        if given.site:
            run([*pip, "--no-deps", str(wheel)], work)
            (site,) = (work / "env").glob("lib/python*/site-packages")
            (site / "dependencies.pth").write_text(f"{given.site.resolve()}\n")
        else:
            run([*pip, "torch", "--index-url", TORCH], work)
            run([*pip, f"{wheel}[image,tune]"], work)
        done("install")
        where = run([python, "-c", "import viewsmith; print(viewsmith.__file__, viewsmith.__version__)"], home)
        assert where.startswith(str(work / "env")), where
        command = str(work / "env" / "bin" / "viewsmith")
        run([command, "demo"], home)
        done("demo")
        found = run([python, "-W", "ignore", "-c", DRIVER, json.dumps(BLOCKS), command], home)
        taken |= json.loads(found.splitlines()[-1])
        for name, (wall, used) in taken.items():
            print(f"{name}: {wall:.0f} s, {used:.0f} s of CPU time")
        wall, used = (sum(each) for each in zip(*taken.values(), strict=True))
        print(f"in all: {wall:.0f} s, {used:.0f} s of CPU time")


if __name__ == "__main__":
    sys.exit(main())
