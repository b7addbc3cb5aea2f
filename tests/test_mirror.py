"""Tests stand where the code is: those of a package in the folder of its name, with which their own names begin."""

import ast
import importlib
from pathlib import Path

import pytest

import viewsmith

ROOT = Path(__file__).parent
PACKAGES = {folder.name: folder for folder in Path(viewsmith.__file__).parent.iterdir() if folder.is_dir()}
OF_NO_PACKAGE = ("benchmarks", "docs", "examples", "gpu")  # of code that is not in src, or of several packages
FILES = [file for file in sorted(ROOT.glob("*/test_*.py")) if file.parent.name not in OF_NO_PACKAGE]


def defined_in(module, name):
    """The module in which a name is defined that may be imported from another one."""
    found = getattr(importlib.import_module(module), name, None)
    return getattr(found, "__module__", None) if callable(found) else module


def modules_of(file):
    """Modules of viewsmith of whose names a file, or a helper beside it, makes use."""
    packages = {"viewsmith": "viewsmith"}  # that are imported whole, by the name that they have here
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = str(node.module)
            beside = file.with_name(f"{module}.py")
            if module.split(".")[0] == "viewsmith":
                for name in node.names:
                    packages[name.asname or name.name] = f"{module}.{name.name}"
                    yield from (module, f"{module}.{name.name}", str(defined_in(module, name.name)))
            elif beside.exists() and beside != file:
                yield from modules_of(beside)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            package = packages.get(node.value.id, "")
            if package.rpartition(".")[2] in {"viewsmith", *PACKAGES}:
                yield str(defined_in(package, node.attr))


@pytest.mark.parametrize("package", sorted({file.parent.name for file in FILES}))
def test_tests_stand_where_the_code_is(package):
    assert package in PACKAGES, f"no package viewsmith.{package}"
    for file in (file for file in FILES if file.parent.name == package):
        assert file.stem.startswith(f"test_{package.rstrip('s')}"), file
        topic = file.stem.removeprefix(f"test_{package.rstrip('s')}").lstrip("s").lstrip("_")
        inner = [f.stem for f in PACKAGES[package].iterdir() if f.is_dir() and topic.startswith(f.name)]
        wanted = ".".join(["viewsmith", package, *inner[:1]])
        if package not in ("cli", "core", "estimator"):  # they run commands, read all files, or fit any estimator
            own = any(f"{module}.".startswith(f"{wanted}.") for module in modules_of(file))
            assert own, f"{file} tests nothing of {wanted}"
