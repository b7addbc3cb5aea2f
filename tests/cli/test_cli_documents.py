"""What the documents tell people to type works."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from viewsmith.cli import app

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "Makefile", *sorted((ROOT / "docs").glob("*.md"))]
OPTIONS = {
    "fit": "method out framework encoder views epochs minutes batch-size preset seed device precision config set "
    "resume label labels layer image-size domain drop one-hot impute transductive threads checkpoint-every debug",
    "embed": "out label labels threads debug",
    "evaluate": "json umap protocols label labels threads debug",
    "views": "n out split seed threads debug",
    "report": "data label labels threads debug",
    "methods": "json debug",
}


def commands(path):
    """Command lines in a document's code, the synopsis with its placeholders left out."""
    text = path.read_text(encoding="utf-8")
    code = re.findall(r"^```\w*\n(.*?)^```|`([^`\n]+)`", text, re.DOTALL | re.MULTILINE)
    lines = text if path.name == "Makefile" else "\n".join(map("".join, code))
    for line in re.findall(r"^\s*(?:\$\(PY\) -m )?viewsmith (.*)$", lines, re.MULTILINE):
        words = shlex.split(line.replace("$(THREADS)", "2"), comments=True)
        if not {"...", "DATA", "RUN"} & set(words):
            yield words


FOUND = [(path.name, line) for path in DOCUMENTS for line in commands(path)]


@pytest.mark.parametrize(("document", "line"), FOUND, ids=[f"{name}-{line[0]}" for name, line in FOUND])
def test_command_lines_parse(document, line):
    command = typer.main.get_command(app)
    name, parser, rest = command.resolve_command(command.make_context("viewsmith", line), line)
    parser.make_context(name, rest)


def test_there_are_command_lines_to_parse():
    assert len([name for name, _ in FOUND if name == "README.md"]) >= 6
    assert len([name for name, _ in FOUND if name == "Makefile"]) == 3


@pytest.mark.parametrize("command", OPTIONS)
def test_the_options_are_those_agreed_on(command):
    parameters = typer.main.get_command(app).commands[command].params
    options = {name[2:] for parameter in parameters for name in parameter.opts if name.startswith("--")}
    assert options - {"help"} == set(OPTIONS[command].split())


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(block.replace("random_state=0", "random_state=0, epochs=1"), names)
    assert names["H"].shape == (297, 256) and names["V"].shape == (297, 4, 64)
    assert (names["model"].transform(names["X_new"]) == names["H"]).all()
    labels = (names["X"].sum(1) > 300).astype(int)
    assert names["few_labels"].fit(names["X"], labels).score(names["X"], labels) > 0.6
