"""The table of GenView's published setting is the preset."""

import ast
from pathlib import Path

from viewsmith import GenView

PAGE = Path(__file__).parents[2] / "docs" / "genview.md"


def test_table_and_preset_agree():
    part = PAGE.read_text(encoding="utf-8").partition("## The published setting")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("| `")
    ]
    table = {}
    for name, paper, value, _ in rows:
        text = value.strip("`")
        try:
            table[name.strip("`")] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            table[name.strip("`")] = text
        assert "(" in paper, name  # where it stands in the paper
    assert table == GenView.presets["paper-images"]
