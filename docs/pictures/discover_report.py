"""The report of `discover` in 60 blood smears, on a desktop and on a phone (VIEWSMITH_DATA=folder, or a report)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from saving import SCREENSHOT, beside, save, screenshot

with tempfile.TemporaryDirectory() as folder:
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "found" / "report.html"
    if not page.exists():
        (smears := Path(folder) / "smears").mkdir()
        for image in sorted((Path(os.environ["VIEWSMITH_DATA"]) / "objects" / "bccd" / "images").iterdir())[:60]:
            shutil.copy(image, smears)
        command = [sys.executable, "-m", "viewsmith", "discover", str(smears), "--out", str(page.parent)]
        subprocess.run(command, check=True)
    figure = beside([screenshot(page, 1280, 1000), screenshot(page, 390, 1000)], 8.0)
    save(figure, "discover_report", SCREENSHOT)
