"""Time that `import viewsmith` and importing its estimators add to `import torch`, and time of a command until it
reports an error; CPU seconds, each in a new Python process.

Interleaved rounds. Targets: `import viewsmith` adds at most 0.3 s; a command that names a missing file, an unknown part
or an unknown option ends after at most 0.5 s, one whose data are faulty after at most 1.5 s. The estimators need
scikit-learn, whose import is timed separately.

    python -m benchmarks.speed.import_time [--rounds 7] [--quick]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.speed.timing import parser, read, record, time_interleaved

SOURCE = str(Path(__file__).parents[2] / "src")
STATEMENTS = {
    "torch": "import torch",
    "torch + viewsmith": "import torch, viewsmith",
    "torch + viewsmith.losses, views": "import torch, viewsmith.losses, viewsmith.views",
    "torch + sklearn.base": "import torch, sklearn.base",
    "torch + viewsmith.PiNDA": "import torch; from viewsmith import PiNDA",
}

#: Arguments of commands that are refused: faults of the command line, and of data.
ERRORS = {
    "missing file": "fit none.csv --out run",
    "missing run": "embed none none.csv --out h.npz",
    "unknown framework": "fit digits --out run --framework byl",
    "unknown flag": "fit digits --out run --epoch 3",
    "table with one row": "fit one.csv --out run",
    "array with one row": "fit one.npy --out run",
    "array of five axes, with options": "fit five.npy --out run --epochs 3 --threads 1",
    "wrong letter in FASTA": "fit wrong.fa --out run",
    "damaged .h5ad": "fit damaged.h5ad --out run",
    "images of two sizes": "fit images --out run",
    "compare, table with one row": "compare one.csv --out run",
    "discover, two images": "discover images --out run",
}
FAULTY_DATA = tuple(ERRORS)[4:]


def cpu_time() -> float:
    """CPU seconds of all child processes that have ended: the time that they take on a core without other work."""
    times = os.times()
    return times.children_user + times.children_system


def refused(arguments: str, folder: str) -> None:
    """Run a command that must be refused."""
    command = [sys.executable, "-m", "viewsmith", *arguments.split()]
    done = subprocess.run(command, cwd=folder, capture_output=True, env=os.environ | {"PYTHONPATH": SOURCE})
    assert done.returncode == 2, done.stderr


def main(arguments: Sequence[str] | None = None) -> None:
    given = read(parser(__doc__, rounds=7), arguments)
    works: dict[str, Any] = {
        name: partial(subprocess.run, [sys.executable, "-c", statement], check=True)
        for name, statement in STATEMENTS.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "one.csv").write_text("a,b\n1,2\n")
        np.save(Path(folder) / "one.npy", np.ones((1, 3)))
        np.save(Path(folder) / "five.npy", np.ones((3, 2, 2, 2, 2)))
        (Path(folder) / "wrong.fa").write_text(">a\nACGT\n>b\nAC1T\n")
        (Path(folder) / "damaged.h5ad").write_text("none")
        (Path(folder) / "images").mkdir()
        for side in (16, 20):
            Image.new("RGB", (side, 16)).save(Path(folder) / "images" / f"{side}.png")
        works |= {name: partial(refused, line, folder) for name, line in ERRORS.items()}
        # The round that is not recorded fills the disk cache.
        seconds = time_interleaved(works, given.rounds, cpu_time, warm=0 if given.quick else 1)
    errors = {name: round(statistics.median(seconds.pop(name)), 3) for name in ERRORS}
    base = seconds.pop("torch")
    row = {
        "median_s": {name: round(statistics.median(taken), 3) for name, taken in {"torch": base, **seconds}.items()},
        "added_s": {
            name: round(statistics.median(b - a for a, b in zip(base, taken, strict=True)), 3)
            for name, taken in seconds.items()
        },
        "target_s": 0.3,
        "error_s": errors,
        "error_target_s": {name: 1.5 if name in FAULTY_DATA else 0.5 for name in ERRORS},
    }
    record("import_time", row, given)


if __name__ == "__main__":
    main()
