"""Time that `import viewsmith` and importing its estimators add to `import torch`, each in a new Python process.

Interleaved rounds. Target: `import viewsmith` adds at most 0.3 s. The estimators need scikit-learn, whose import is
timed separately.

    python -m benchmarks.speed.import_time [--rounds 7] [--quick]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Sequence
from functools import partial

from benchmarks.speed.timing import clock, parser, read, record, time_interleaved

STATEMENTS = {
    "torch": "import torch",
    "torch + viewsmith": "import torch, viewsmith",
    "torch + viewsmith.losses, views": "import torch, viewsmith.losses, viewsmith.views",
    "torch + sklearn.base": "import torch, sklearn.base",
    "torch + viewsmith.PiNDA": "import torch; from viewsmith import PiNDA",
}


def main(arguments: Sequence[str] | None = None) -> None:
    given = read(parser(__doc__, rounds=7), arguments)
    works = {
        name: partial(subprocess.run, [sys.executable, "-c", statement], check=True)
        for name, statement in STATEMENTS.items()
    }
    # The round that is not recorded fills the disk cache.
    seconds = time_interleaved(works, given.rounds, clock(), warm=0 if given.quick else 1)
    base = seconds.pop("torch")
    row = {
        "median_s": {name: round(statistics.median(taken), 3) for name, taken in {"torch": base, **seconds}.items()},
        "added_s": {
            name: round(statistics.median(b - a for a, b in zip(base, taken, strict=True)), 3)
            for name, taken in seconds.items()
        },
        "target_s": 0.3,
    }
    record("import_time", row, given)


if __name__ == "__main__":
    main()
