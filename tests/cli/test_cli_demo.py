"""The first minutes: what is shown without arguments, and the demo."""

import re
import sys

import pytest
from cli_tools import call, files, good

from viewsmith import cli


def test_four_commands_are_shown_without_arguments():
    assert good().out.strip() == cli.FIRST
    named = re.findall(r"^  viewsmith (\w+)", cli.FIRST, re.MULTILINE)
    assert named == ["fit", "evaluate", "embed", "discover"]
    assert all(len(line) <= 100 for line in cli.FIRST.splitlines())


def test_the_demo_makes_a_run_a_report_embeddings_and_views(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["viewsmith.cli"], "DEMO_DATA", "wine")  # 178 rows
    out = tmp_path / "new"
    shown = re.findall(r"^\$ viewsmith (\w+)", good("demo", "--out", out, "--threads", 1).out, re.MULTILINE)
    assert shown == ["fit", "evaluate", "embed", "views"]
    names = {path.name for path in (*out.iterdir(), *(out / "run").iterdir())}
    assert {"embedded.csv", "views.csv", "report.html", "evaluation.json"} <= names
    before = files(out)
    assert call("demo", "--out", out).refused("--out is", "which exists: remove it")
    assert files(out) == before


def test_the_demo_ends_with_the_command_that_was_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(cli, "app", lambda args, **_: 130)
    with pytest.raises(cli.typer.Exit) as end:
        cli.demo.__wrapped__(out=tmp_path / "new")
    assert end.value.exit_code == 130
