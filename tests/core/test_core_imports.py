"""What is imported: by the lowest layers, by reports, and by a training."""

import os
import subprocess
import sys

import pytest

CODE = """
import importlib, pkgutil, sys
import numpy, torch

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split():
            raise ImportError(f"{name} is imported")

sys.meta_path.insert(0, Refuse())
for layer in ("core", "losses", "networks", "views"):
    package = importlib.import_module("viewsmith." + layer)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
    print(layer)
del sys.meta_path[0]

import viewsmith.reports
print(*{"matplotlib", "jinja2", "sklearn"} & sys.modules.keys(), sep="\\n", end="")
viewsmith.reports.render_report(viewsmith.reports.ReportContent("t", "m", metrics=[{"epoch": 1, "loss": 1.0}]))

x = numpy.random.default_rng(0).random((30, 5))
for again in (False, True):
    viewsmith.Contrastive(epochs=1).fit(x, run=sys.argv[2], resume=again)
print(*{"matplotlib.pyplot", "torch._dynamo"} & sys.modules.keys(), sep="\\n", end="")
"""
# The other dependencies of viewsmith; filelock and jinja2 come with torch.
OTHERS = "scipy sklearn threadpoolctl pandas pydantic typer rich matplotlib safetensors tomli_w PIL h5py anndata"


def test_what_a_new_process_imports(tmp_path):
    """The lowest layers torch and numpy alone, reports slow packages on use and never pyplot, fit not the compiler."""
    command = [sys.executable, "-c", CODE, OTHERS, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.splitlines() == ["core", "losses", "networks", "views"]


@pytest.mark.parametrize(
    "given, expected",
    [
        ({}, ["1000", "16"]),
        ({"GOMP_SPINCOUNT": "5"}, ["5", "16"]),
        ({"OPENBLAS_THREAD_TIMEOUT": "20"}, ["1000", "20"]),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, ["None", "None"]),
    ],
)
def test_threads_that_wait_sleep_soon_unless_the_environment_says_how_they_wait(given, expected):
    names = ("GOMP_SPINCOUNT", "OPENBLAS_THREAD_TIMEOUT")
    code = f"import os, viewsmith; print(*map(os.environ.get, {names}))"
    inherited = {name: value for name, value in os.environ.items() if name not in (*names, "OMP_WAIT_POLICY")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=inherited | given)
    assert done.stdout.split() == expected, done.stderr
