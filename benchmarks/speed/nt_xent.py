"""Time of NT-Xent, forward and backward, against one matmul with F.cross_entropy and against lightly's NTXentLoss.

Batches of 256, 1024 and 4096 pairs of 128 features, temperature 0.5, float32. Interleaved rounds; medians of the ratio.
Targets: at most 1.05 times the cross entropy; lightly takes at least 1.4 times as long as viewsmith.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.nt_xent [--threads 1] [--device cuda] [--peers FOLDER] [--quick]

FOLDER: site-packages folder with lightly and torchvision, searched after that of the environment. A library that cannot
be imported is recorded as absent.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.speed.timing import Seconds, clock, milliseconds, parser, ratios, read, record, time_interleaved
from viewsmith.losses import nt_xent

WIDTH, TEMPERATURE = 128, 0.5
ROUNDS = {256: 60, 1024: 15, 4096: 5}
Loss = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(z0: Tensor, z1: Tensor) -> Tensor:
    z, n = F.normalize(torch.cat([z0, z1]), dim=1), len(z0)
    logits = (z @ z.T / TEMPERATURE).fill_diagonal_(float("-inf"))
    return F.cross_entropy(logits, torch.arange(2 * n, device=z.device).roll(n))


def lightly() -> Loss | None:
    """lightly's loss, or None. The import of torchvision may fail if it was built for another torch; its operators are
    not needed here.
    """
    register = torch.library.register_fake

    def without_vision(name: object, *args: object, **options: object) -> object:
        return (
            (lambda function: function) if str(name).startswith("torchvision::") else register(name, *args, **options)
        )

    torch.library.register_fake = without_vision
    try:
        from lightly.loss import NTXentLoss
    except ImportError:
        return None
    finally:
        torch.library.register_fake = register
    return NTXentLoss(temperature=TEMPERATURE)


def passes(losses: dict[str, Loss], z: Tensor) -> dict[str, Callable[[], float]]:
    """Functions that run a loss forward and backward on a copy of both views, z (2, n, d), and return its mean."""

    def work(loss: Loss) -> Callable[[], float]:
        a, b = (view.clone().requires_grad_() for view in z)

        def both() -> float:
            a.grad = b.grad = None
            value = loss(a, b).mean()
            value.backward()
            return value.item()

        return both

    return {name: work(loss) for name, loss in losses.items()}


def measure(losses: dict[str, Loss], batch: int, rounds: int, device: str) -> Seconds:
    z = torch.randn(2, batch, WIDTH, generator=torch.Generator().manual_seed(0)).to(device)
    works = passes(losses, z)
    values = {name: work() for name, work in works.items()}
    assert max(values.values()) - min(values.values()) < 1e-4, values
    return time_interleaved(works, rounds, clock(device))


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, device=True)
    options.add_argument("--peers")
    given = read(options, arguments)
    if given.peers:
        sys.path.append(given.peers)
    losses: dict[str, Loss | None] = {
        "viewsmith": lambda x, y: nt_xent(x, y, temperature=TEMPERATURE),
        "viewsmith, plain": lambda x, y: nt_xent(x, y, temperature=TEMPERATURE, form="plain"),
        "cross entropy": cross_entropy,
        "lightly": lightly(),
    }
    present = {name: loss for name, loss in losses.items() if loss is not None}
    counts = {256: 1} if given.quick else ROUNDS
    seconds = {batch: measure(present, batch, rounds, given.device) for batch, rounds in counts.items()}
    row = {
        "ms": {batch: milliseconds(taken) for batch, taken in seconds.items()},
        "ratio_to_viewsmith": {batch: ratios(taken, "viewsmith") for batch, taken in seconds.items()},
        "absent": [name for name in losses if name not in present],
        "target": {"cross entropy": "at least 0.952", "lightly": "at least 1.4"},
        "rounds": counts,
        "clock": "wall",
    }
    record("nt_xent", row, given)


if __name__ == "__main__":
    main()
