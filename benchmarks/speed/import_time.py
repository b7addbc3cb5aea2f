"""What `import viewsmith` and its estimators add to `import torch`, in fresh interpreters, in turn.

Target: `import viewsmith` adds at most 0.3 s. The estimators need scikit-learn, which is shown beside them.

    python -m benchmarks.speed.import_time [--rounds 7] [--quick]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Sequence
from functools import partial

from benchmarks.speed.timing import clock, in_turn, parser, read, record

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
    # The round that does not count warms the disk cache.
    seconds = in_turn(works, given.rounds, clock(), warm=0 if given.quick else 1)
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
