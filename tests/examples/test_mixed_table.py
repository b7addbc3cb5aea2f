"""The example of a mixed table gives readable views."""

import runpy
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "mixed_table.py"


def test_views_are_rows_of_the_table(capsys):
    views = runpy.run_path(str(EXAMPLE))["main"](epochs=1)
    assert list(views) == ["age", "plan", "active", "joined"] and len(views) == 6
    assert "left out customer (identifier)" in capsys.readouterr().out
