"""CPU time per training step that the engine adds to a hand-written loop with the same model.

The network is small, so that the overhead is visible: 561 features, batch 32, width 16, NT-Xent, AdamW. Interleaved
rounds; process time, which excludes other work on the machine. Target: at most 0.1 ms.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.engine_overhead [--rounds 7] [--quick]
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import torch

from benchmarks.speed.timing import clock, parser, read, record, time_interleaved
from viewsmith.core.schedule import Optimizer
from viewsmith.frameworks import SimCLR
from viewsmith.methods import ContrastiveMethod
from viewsmith.networks import MLP
from viewsmith.training import History, Trainer
from viewsmith.views import GaussianNoise, PairMaker

ROWS, FEATURES, BATCH, EPOCHS = 6400, 561, 32, 3


def method() -> ContrastiveMethod:
    torch.manual_seed(0)
    framework = SimCLR(MLP(FEATURES, [16, 16]), MLP(16, [16]), temperature=0.5)
    return ContrastiveMethod(framework, PairMaker([GaussianNoise()]), epochs=EPOCHS, optimizer=Optimizer())


def bare(x: torch.Tensor) -> None:
    """The hand-written loop."""
    model = method()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.0, fused=True)
    generator = torch.Generator().manual_seed(0)
    for _ in range(EPOCHS):
        order = torch.randperm(len(x), generator=generator)
        for start in range(0, len(x), BATCH):
            index = order[start : start + BATCH]
            pair = model.views(x[index], index=index, generator=generator)
            loss = model.framework(pair).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()


def engine(x: torch.Tensor) -> None:
    """The same training with `Trainer`."""
    Trainer(method(), seed=0, batch_size=BATCH, callbacks=[History()]).fit(x)


def main(arguments: Sequence[str] | None = None) -> None:
    given = read(parser(__doc__, rounds=7), arguments)
    rows = ROWS // 10 if given.quick else ROWS
    x = torch.randn(rows, FEATURES, generator=torch.Generator().manual_seed(0))
    seconds = time_interleaved({"bare": lambda: bare(x), "engine": lambda: engine(x)}, given.rounds, clock(wall=False))
    steps = EPOCHS * rows // BATCH
    bare_ms, engine_ms = ([1e3 * taken / steps for taken in seconds[name]] for name in ("bare", "engine"))
    added = [b - a for a, b in zip(bare_ms, engine_ms, strict=True)]
    row = {
        "bare_ms": round(statistics.median(bare_ms), 4),
        "engine_ms": round(statistics.median(engine_ms), 4),
        "overhead_ms": round(statistics.median(added), 4),
        "overhead_range_ms": [round(min(added), 4), round(max(added), 4)],
        "target_ms": 0.1,
        "steps": steps,
    }
    record("engine_overhead", row, given)


if __name__ == "__main__":
    main()
