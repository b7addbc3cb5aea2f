"""The report of a run on handwritten digits, on a desktop and on a phone; a report that is there may be given."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from saving import SCREENSHOT, beside, save, screenshot

with tempfile.TemporaryDirectory() as folder:
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "demo" / "run" / "report.html"
    if not page.exists():
        subprocess.run([sys.executable, "-m", "viewsmith", "demo", "--out", str(Path(folder) / "demo")], check=True)
    figure = beside([screenshot(page, 1280, 1560), screenshot(page, 390, 1560)], 8.0)
    save(figure, "run_report", SCREENSHOT)
