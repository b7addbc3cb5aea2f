"""Time to sample one view of each of 1,024 rows of 561 features: samplers with few steps against DDPM's 1,000 steps.

All samplers use the same untrained VectorDenoiser with a condition of 256 numbers, in batches of 1,024: DPM-Solver++
and DDIM with at most 10 steps, and DDPM as published. Interleaved rounds; process time; medians of the ratio. Target:
the default sampler at least 100 times faster.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.methods.diffusion_sampling [--threads 1] [--rounds 2] [--quick]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from benchmarks.speed.timing import clock, milliseconds, parser, ratio, read, record, time_interleaved
from viewsmith.modalities.vectors.latents import VectorLatents
from viewsmith.modalities.vectors.networks import VectorDenoiser
from viewsmith.views.generated.diffusion import ConditionalDiffusion, Sampler

ROWS, FEATURES, CONDITION = 1024, 561, 256
SAMPLERS: dict[str, tuple[Sampler, int]] = {
    "dpm, 10 steps (default)": ("dpm", 10),
    "dpm, 8 steps": ("dpm", 8),
    "dpm, 5 steps": ("dpm", 5),
    "ddim, 10 steps": ("ddim", 10),
    "ddpm, 1000 steps": ("ddpm", 1000),
}
SLOW = "ddpm, 1000 steps"


def main(arguments: Sequence[str] | None = None) -> None:
    given = read(parser(__doc__, rounds=2), arguments)
    rows = 2 if given.quick else ROWS
    x, y = torch.randn(rows, FEATURES), torch.randn(rows, CONDITION)
    denoiser, codes = VectorDenoiser(FEATURES, CONDITION), VectorLatents(FEATURES)
    works = {}
    for name, (sampler, steps) in SAMPLERS.items():
        generator = ConditionalDiffusion(denoiser, codes, condition=CONDITION, sampler=sampler, steps=steps)
        generator.fit(x, y)
        works[name] = partial(generator.sample, x, y, torch.Generator().manual_seed(0))
        if name != SLOW:
            works[name]()
    # Several calls of the fast samplers in each round, so that a short pause of the machine has little effect.
    repeats = {name: 5 for name in SAMPLERS if name != SLOW}
    seconds = time_interleaved(works, given.rounds, clock(wall=False), warm=0, repeats=repeats)
    row = {
        "ms": milliseconds(seconds, 1),
        "speedup": {name: ratio(taken, seconds[SLOW], 1) for name, taken in seconds.items()},
        "target": {"dpm, 10 steps (default)": "at least 100"},
        "rows": rows,
        "features": FEATURES,
        "condition": CONDITION,
        "parameters": sum(p.numel() for p in denoiser.parameters()),
        "clock": "process time",
    }
    record("diffusion_sampling", row, given)


if __name__ == "__main__":
    main()
