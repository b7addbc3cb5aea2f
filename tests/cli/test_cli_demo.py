"""The first minutes: what is shown without arguments, and the demo."""

import re
import sys

import pytest
from cli_tools import call, good

from viewsmith import cli


def test_four_commands_are_shown_without_arguments():
    assert good().out.strip() == cli.FIRST
    named = re.findall(r"^  viewsmith (\w+)", cli.FIRST, re.MULTILINE)
    assert named == ["fit", "evaluate", "embed", "discover"]
    assert all(len(line) <= 100 for line in cli.FIRST.splitlines())


def assert_demo(out, words):
    shown = re.findall(r"^\$ viewsmith (\w+)", good("demo", "--out", out, *words).out, re.MULTILINE)
    assert shown == ["fit", "evaluate", "embed", "views"]
    names = {path.name for path in out.iterdir()} | {path.name for path in (out / "run").iterdir()}
    assert {"embedded.csv", "views.csv", "report.html", "evaluation.json"} <= names


def test_the_demo_makes_a_run_a_report_embeddings_and_views(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["viewsmith.cli"], "DEMO_DATA", "wine")  # 178 rows
    assert_demo(tmp_path / "new", ["--threads", "1"])
    before = (tmp_path / "new" / "views.csv").stat().st_mtime_ns
    assert call("demo", "--out", tmp_path / "new").refused("--out is", "which exists: remove it")
    assert (tmp_path / "new" / "views.csv").stat().st_mtime_ns == before


def test_the_demo_ends_with_the_command_that_was_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(cli, "app", lambda args, **_: 130)
    with pytest.raises(cli.typer.Exit) as end:
        cli.demo.__wrapped__(out=tmp_path / "new")
    assert end.value.exit_code == 130


@pytest.mark.slow
def test_the_demo_on_digits(tmp_path):
    assert_demo(tmp_path / "demo", [])
