"""Objects found in clutter: the picture of examples/objects_in_clutter.py."""

from __future__ import annotations

import runpy
from pathlib import Path

from saving import save

EXAMPLE = Path(__file__).parents[2] / "examples" / "objects_in_clutter.py"

figure = runpy.run_path(str(EXAMPLE))["main"]()
save(figure, "objects")
