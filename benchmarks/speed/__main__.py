"""Speed and memory, one case after another:

    OMP_NUM_THREADS=1 python -m benchmarks.speed NAME [options of the case] [--quick]

NAME --help says what a case measures; --quick tests it with one round of small sizes and writes no results.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence

from benchmarks.speed import commands, fits, losses, steps, views
from benchmarks.speed.timing import CASES, record

MODULES = (losses, views, steps, fits, commands)


def main(arguments: Sequence[str] | None = None) -> None:
    name, *options = sys.argv[1:] if arguments is None else arguments or [""]
    if name not in CASES:
        print(__doc__)
        for other, case in CASES.items():
            print(f"  {other:22}{(inspect.getdoc(case.measure) or '').splitlines()[0]}")
        raise SystemExit(0 if name in ("-h", "--help") else 2)
    given = CASES[name].read(options)
    for row in CASES[name].measure(given):
        record(name, row, given)


if __name__ == "__main__":
    main()
