"""What `import viewsmith` and its estimators add to `import torch`, in fresh interpreters, in turn.

Target: `import viewsmith` adds at most 0.3 s. The estimators need scikit-learn, which is shown beside them.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime

from runner import RESULTS, commit

STATEMENTS = {
    "torch": "import torch",
    "torch + viewsmith": "import torch, viewsmith",
    "torch + viewsmith.losses, views": "import torch, viewsmith.losses, viewsmith.views",
    "torch + sklearn.base": "import torch, sklearn.base",
    "torch + viewsmith.PiNDA": "import torch; from viewsmith import PiNDA",
}
ROUNDS = 7


def main() -> None:
    seconds: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for round_ in range(ROUNDS + 1):
        for name, statement in STATEMENTS.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", statement], check=True)
            if round_:  # the first round warms the disk cache
                seconds[name].append(time.perf_counter() - started)
    medians = {name: round(statistics.median(values), 3) for name, values in seconds.items()}
    paired = {
        name: round(statistics.median(b - a for a, b in zip(seconds["torch"], values, strict=True)), 3)
        for name, values in seconds.items()
        if name != "torch"
    }
    row = {
        "median_s": medians,
        "added_s": paired,
        "target_s": 0.3,
        "rounds": ROUNDS,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
    }
    print(json.dumps(row, indent=2))
    with (RESULTS / "import_time.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
