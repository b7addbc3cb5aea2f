"""Execute the notebooks of the documentation in place: `make notebooks` (VIEWSMITH_DATA=folder).

python execute.py [NAME ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
KEPT = ("kernelspec",)  # of the metadata: no versions and times, which would change with each execution

if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        if sys.argv[1:] and path.stem not in sys.argv[1:]:
            continue
        notebook = nbformat.read(path, as_version=4)
        NotebookClient(notebook, timeout=1800, store_widget_state=False, record_timing=False).execute()
        notebook.metadata = {name: notebook.metadata[name] for name in KEPT}
        nbformat.write(notebook, path)
        print(path.name, f"{path.stat().st_size / 1000:.0f} kB")
