"""One PiNDA step against one SimCLR step with fixed noise, the same encoder: three layers of 1024, 561 features.

Batch 256, representation 256, head 256-128, cosine kernel; the generator as PiNDA's default and as published. Steps of
all in turn, medians of the ratio; whole training steps (views, forward, backward, Adam).
Target: the default generator at most 1.25 times.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from datetime import UTC, datetime

import torch
from runner import RESULTS, commit

from viewsmith.core.method import Batch, Method, Optimizer
from viewsmith.frameworks import SimCLR
from viewsmith.methods import ContrastiveMethod, PiNDAMethod
from viewsmith.networks import MLP
from viewsmith.training.run import environment
from viewsmith.views import GaussianNoise, Identity, PiNoise, ViewPair

FEATURES, BATCH, ROUNDS = 561, 256, 40


def framework() -> SimCLR:
    torch.manual_seed(0)
    return SimCLR(MLP(FEATURES, [1024, 1024, 256]), MLP(256, [256, 128]), temperature=0.1)


def pinda(hidden: list[int], two_sided: bool) -> Method:
    return PiNDAMethod(
        framework(),
        ViewPair([Identity()]),
        PiNoise.for_vectors(FEATURES, hidden=hidden, strength=1.0),
        two_sided=two_sided,
        penalty="log_barrier",
        penalty_weight=1.0,
        epochs=1,
        optimizer=Optimizer(),
    )


def main() -> None:
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    torch.set_num_threads(threads)
    methods: dict[str, Method] = {
        "simclr, noise": ContrastiveMethod(
            framework(), ViewPair([GaussianNoise()]), epochs=1, optimizer=Optimizer(name="adam")
        ),
        "pinda, default generator (64)": pinda([64], two_sided=False),
        "pinda, default generator, noise on both views": pinda([64], two_sided=True),
        "pinda, published generator (1024, 1024)": pinda([1024, 1024], two_sided=False),
    }
    steps = {name: method.phases()[0].updates[0].step for name, method in methods.items()}
    optimizers = {name: torch.optim.Adam(m.parameters(), 1e-3, fused=True) for name, m in methods.items()}
    x = torch.randn(BATCH, FEATURES, generator=torch.Generator().manual_seed(0))
    index, generator = torch.arange(BATCH), torch.Generator().manual_seed(0)
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for round_ in range(ROUNDS + 5):
        for name, step in steps.items():
            started = time.process_time()
            losses, _ = step(Batch(x, index, generator))
            optimizers[name].zero_grad(set_to_none=True)
            losses.mean().backward()
            optimizers[name].step()
            if round_ >= 5:
                seconds[name].append(time.process_time() - started)
    base = seconds["simclr, noise"]
    row = {
        "ms": {name: round(statistics.median(v) * 1e3, 2) for name, v in seconds.items()},
        "ratio": {
            name: round(statistics.median(b / a for a, b in zip(base, v, strict=True)), 3)
            for name, v in seconds.items()
        },
        "target": 1.25,
        "rounds": ROUNDS,
        "threads": threads,
        "clock": "process time",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        **environment(),
    }
    print(json.dumps({k: v for k, v in row.items() if k not in ("versions", "hardware")}, indent=2))
    with (RESULTS / "pinda_step.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
