"""What the lowest layers import."""

import subprocess
import sys

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
"""
# The other dependencies of viewsmith; filelock and jinja2 come with torch.
OTHERS = "scipy sklearn threadpoolctl pandas pydantic typer rich matplotlib safetensors tomli_w PIL h5py anndata"


def test_the_lowest_layers_need_torch_and_numpy_alone():
    done = subprocess.run([sys.executable, "-c", CODE, OTHERS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.split() == ["core", "losses", "networks", "views"]
