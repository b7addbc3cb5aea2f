"""CPU time per step of the engine over a bare hand-written loop on the same model.

A small network, so that the engine's own cost shows: 561 features, batch 32, width 16, NT-Xent, AdamW; one thread;
rounds of both in turn; process time, so that other work on the machine does not count. Target: at most 0.1 ms.
"""

from __future__ import annotations

import json
import statistics
import time
from datetime import UTC, datetime

import torch
from runner import RESULTS, commit

from viewsmith.core.method import Optimizer
from viewsmith.frameworks import SimCLR
from viewsmith.methods import ContrastiveMethod
from viewsmith.networks import MLP
from viewsmith.training import History, Trainer
from viewsmith.training.run import environment
from viewsmith.views import GaussianNoise, ViewPair

ROWS, FEATURES, BATCH, EPOCHS, ROUNDS = 6400, 561, 32, 3, 7


def method() -> ContrastiveMethod:
    torch.manual_seed(0)
    framework = SimCLR(MLP(FEATURES, [16, 16]), MLP(16, [16]), temperature=0.5)
    return ContrastiveMethod(framework, ViewPair([GaussianNoise()]), epochs=EPOCHS, optimizer=Optimizer())


def bare(x: torch.Tensor) -> int:
    model = method()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.0, fused=True)
    generator = torch.Generator().manual_seed(0)
    steps = 0
    for _ in range(EPOCHS):
        order = torch.randperm(len(x), generator=generator)
        for start in range(0, len(x), BATCH):
            index = order[start : start + BATCH]
            pair = model.views(x[index], index=index, generator=generator)
            loss = model.framework(pair).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            steps += 1
    return steps


def engine(x: torch.Tensor) -> int:
    trainer = Trainer(method(), seed=0, batch_size=BATCH, callbacks=[History()])
    trainer.fit(x)
    return trainer.steps


def per_step(work) -> float:
    started = time.process_time()
    steps = work()
    return (time.process_time() - started) / steps * 1e3


def main() -> None:
    torch.set_num_threads(1)
    x = torch.randn(ROWS, FEATURES, generator=torch.Generator().manual_seed(0))
    bare(x), engine(x)
    pairs = [(per_step(lambda: bare(x)), per_step(lambda: engine(x))) for _ in range(ROUNDS)]
    difference = statistics.median(b - a for a, b in pairs)
    row = {
        "bare_ms": round(statistics.median(a for a, _ in pairs), 4),
        "engine_ms": round(statistics.median(b for _, b in pairs), 4),
        "overhead_ms": round(difference, 4),
        "overhead_range_ms": [round(min(b - a for a, b in pairs), 4), round(max(b - a for a, b in pairs), 4)],
        "target_ms": 0.1,
        "rounds": ROUNDS,
        "steps": EPOCHS * ROWS // BATCH,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        **environment(),
    }
    print(json.dumps({k: v for k, v in row.items() if k not in ("versions", "hardware")}))
    with (RESULTS / "engine_overhead.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
