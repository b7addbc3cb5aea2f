"""The notebooks of the documentation are executed, small, and have no traces of the machine."""

import json
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def cells(name):
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]


def test_there_are_four():
    index = (FOLDER.parent / "index.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) == 4 and all(f"notebooks/{name}\n" in index for name in NOTEBOOKS)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_cell_was_executed_in_order_without_errors(name):
    code = [cell for cell in cells(name) if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert not [out for cell in code for out in cell["outputs"] if out["output_type"] == "error"]
    for cell in code:
        compile("".join(cell["source"]), name, "exec")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_small_and_names_no_machine(name):
    text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    assert len(text) < 500_000
    assert not re.search(r"/(home|root|work|tmp|Users|venv)/", text)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_links_of_a_notebook_exist(name):
    text = "".join("".join(cell["source"]) for cell in cells(name) if cell["cell_type"] == "markdown")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if not link.startswith("http")]
    assert not [link for link in links if not (FOLDER / link).exists()]
