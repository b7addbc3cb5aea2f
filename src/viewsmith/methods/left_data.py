"""A warning for learned and generated views that have left the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: Distance of views from the data (`viewsmith.losses.diagnostics.view_distance`) above which training warns.
FAR = 2.0


def left_the_data(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line if the views of the last diagnostics are far from all samples."""
    last = next((row for row in reversed(rows) if "view_distance" in row), None)
    if last is None or last["view_distance"] < FAR:
        return []
    return [
        f"the views have left the data: they are {last['view_distance']:.1f} times as far from other samples as "
        f"samples are (told apart in {last['told_apart']:.0%}); use weaker noise or less strength, and compare with "
        "--method contrastive"
    ]
