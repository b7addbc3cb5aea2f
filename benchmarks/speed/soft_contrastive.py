"""Time of the soft contrastive loss, forward and backward, against NT-Xent of the same batch.

Batches of 256, 1024 and 4096 pairs, float32, plain kernel, nu 0.1; projections and representations of 80 features, and,
as in training, projections of 32 or 2 features with representations of 256. Representations are drawn so that soft
labels are between 0.1 and 0.3 ("near"), or almost 0 ("far"). NT-Xent has projections of the same width and temperature
0.5. Interleaved rounds in random order; medians of the ratio. Target: at most 1.3 times NT-Xent for 4096 pairs of 80
features.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.soft_contrastive [--threads 1] [--device cuda] [--quick]
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from benchmarks.speed.nt_xent import Loss, passes
from benchmarks.speed.timing import Seconds, clock, milliseconds, parser, ratios, read, record, time_interleaved
from viewsmith.losses import nt_xent, soft_contrastive

# (width of z, width of y): batch and rounds.
ROUNDS = {(80, 80): {256: 60, 1024: 15, 4096: 5}, (32, 256): {256: 60}, (2, 256): {256: 60}}
# Mean squared distances of representations.
NEAR, FAR = 2.0, 200.0
# The plain form is measured up to this batch.
PLAIN = 1024


def losses(batch: int, width: int, device: str) -> dict[str, Loss]:
    y = torch.randn(batch, width, generator=torch.Generator().manual_seed(1)).to(device) / (2 * width) ** 0.5
    rows = torch.arange(batch, device=device)
    near, far = y * NEAR**0.5, y * FAR**0.5
    made: dict[str, Loss] = {
        "NT-Xent": lambda a, b: nt_xent(a, b, temperature=0.5),
        "near": lambda a, b: soft_contrastive(a, b, near),
        "near, rows known": lambda a, b: soft_contrastive(a, b, near, ids=(rows, rows)),
        "far": lambda a, b: soft_contrastive(a, b, far),
    }
    if batch <= PLAIN:
        made["near, plain form"] = lambda a, b: soft_contrastive(a, b, near, form="plain")
    return made


def measure(losses: dict[str, Loss], batch: int, width: int, rounds: int, device: str) -> Seconds:
    z = torch.randn(2, batch, width, generator=torch.Generator().manual_seed(0)).to(device)
    works = passes(losses, z)
    values = {name: work() for name, work in works.items()}
    assert abs(values["near"] / values.get("near, plain form", values["near, rows known"]) - 1) < 1e-4, values
    return time_interleaved(works, rounds, clock(device), shuffle=True)


def main(arguments: Sequence[str] | None = None) -> None:
    given = read(parser(__doc__, device=True), arguments)
    counts = {(2, 256): {256: 1}} if given.quick else ROUNDS
    seconds = {
        f"{batch} pairs, z {width}, y {target}": measure(
            losses(batch, target, given.device), batch, width, rounds, given.device
        )
        for (width, target), batches in counts.items()
        for batch, rounds in batches.items()
    }
    row = {
        "ms": {name: milliseconds(taken) for name, taken in seconds.items()},
        "ratio_to_nt_xent": {name: ratios(taken, "NT-Xent") for name, taken in seconds.items()},
        "target": {"4096 pairs, z 80, y 80": {"near, rows known": "at most 1.3"}},
        "rounds": {f"z {z}, y {y}": batches for (z, y), batches in counts.items()},
        "clock": "wall",
    }
    record("soft_contrastive", row, given)


if __name__ == "__main__":
    main()
