"""One view of each of 1,024 rows of 561 features: the default sampler against all 1,000 ancestral steps.

The same VectorDenoiser, untrained, with a condition of 256 numbers, in batches of 1,024; DPM-Solver++ and DDIM in few
steps against DDPM as published. All in turn, medians of the ratio. Target: the default at least 100 times as fast.

    python benchmarks/diffusion_sampling.py [--threads 1] [--rounds 2]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from datetime import UTC, datetime

import torch
from runner import RESULTS, commit

from viewsmith.networks.denoisers.vectors import VectorDenoiser
from viewsmith.training.run import environment
from viewsmith.views.generated.diffusion import ConditionalDiffusion, Sampler, VectorCodes

ROWS, FEATURES, CONDITION = 1024, 561, 256
SAMPLERS: dict[str, tuple[Sampler, int]] = {
    "dpm, 10 steps (default)": ("dpm", 10),
    "dpm, 8 steps": ("dpm", 8),
    "dpm, 5 steps": ("dpm", 5),
    "ddim, 10 steps": ("ddim", 10),
    "ddpm, 1000 steps": ("ddpm", 1000),
}
SLOW = "ddpm, 1000 steps"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    x, y = torch.randn(ROWS, FEATURES), torch.randn(ROWS, CONDITION)
    denoiser, codes = VectorDenoiser(FEATURES, CONDITION), VectorCodes(FEATURES)
    generators = {}
    for name, (sampler, steps) in SAMPLERS.items():
        generators[name] = ConditionalDiffusion(denoiser, codes, condition=CONDITION, sampler=sampler, steps=steps)
        generators[name].fit(x, y)
    seconds: dict[str, list[float]] = {name: [] for name in SAMPLERS}
    for name, generator in generators.items():
        if name != SLOW:
            generator.sample(x, y, torch.Generator().manual_seed(0))
    for number in range(given.rounds):
        for name, generator in generators.items():
            # The quick ones are repeated, so that a hiccup of the machine does not decide.
            repeats = 1 if name == SLOW else 5
            taken = []
            for _ in range(repeats):
                started = time.process_time()
                generator.sample(x, y, torch.Generator().manual_seed(number))
                taken.append(time.process_time() - started)
            seconds[name].append(statistics.median(taken))
    row = {
        "ms": {name: round(statistics.median(taken) * 1e3, 1) for name, taken in seconds.items()},
        "times_as_fast": {
            name: round(statistics.median(slow / fast for slow, fast in zip(seconds[SLOW], taken, strict=True)), 1)
            for name, taken in seconds.items()
        },
        "target": {"dpm, 10 steps (default)": "at least 100"},
        "rows": ROWS,
        "features": FEATURES,
        "condition": CONDITION,
        "parameters": sum(p.numel() for p in denoiser.parameters()),
        "rounds": given.rounds,
        "threads": given.threads,
        "clock": "process time",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        **environment(),
    }
    print(json.dumps({k: v for k, v in row.items() if k not in ("versions", "hardware")}, indent=2))
    with (RESULTS / "diffusion_sampling.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
