"""The examples in docstrings give what they show."""

import doctest
import importlib
import warnings
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
WITH_EXAMPLES = [
    str(path.relative_to(SOURCE).with_suffix("")).replace("/", ".")
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_of_a_module(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    with warnings.catch_warnings(action="ignore"):
        failed, tried = doctest.testmod(importlib.import_module(name), optionflags=flags)
    assert tried > 0 and failed == 0


def test_every_method_has_an_example():
    assert len([name for name in WITH_EXAMPLES if name.startswith("viewsmith.methods.")]) == 8
