"""The code of the notebooks of the documentation runs, with few epochs."""

import json
import sys
import types
from pathlib import Path

import pytest

from cases import slow

NOTEBOOKS = sorted(Path(__file__).parents[2].glob("docs/notebooks/*.ipynb"))


@pytest.mark.parametrize("path", [slow(path, id=path.stem) for path in NOTEBOOKS])
def test_the_code_of_a_notebook_runs(path, data_dir, monkeypatch, brief):
    monkeypatch.chdir(data_dir)
    shown = types.SimpleNamespace(display_png=lambda data, raw: data.startswith(b"\x89PNG") or pytest.fail("no PNG"))
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    names = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), path.name, "exec"), names)
