"""Can the size of crops be chosen without labels? CRL-TAC with three sizes on objects of one size.

Images and settings are those of `what_and_where.py` ("short"), the same steps for all sizes. Sizes are scales of images
(`crop_scales`): crops always have 20 pixels, a stride of 4 and the same encoder, so that numbers of different sizes can
be compared; a row is named by the side of its crops in pixels of the original images. Criteria, on 256 training images,
from 32 crops drawn from P(T|x) (beta 5, 64 images at a time):

information    equation 2
bound          its lower bound J
own - other    information, minus that with crops drawn from P(T|x) of another image: what the place contributes
retrieval      fraction of images whose first drawn crop is nearest to the second one of the same image

Scores: linear accuracy and CorLoc, as there.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.crl_tac.crop_sizes [minutes] [regime or row ...]
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.crl_tac.what_and_where import BATCH, FIRST, REGIMES, boxes_of, place_scores, samples
from benchmarks.quality.suite import SEEDS, Scores, command, rounded, score
from viewsmith import CRLTAC
from viewsmith.losses.info_max import info_max, info_max_bound

PATH = RESULTS / "crop_sizes.jsonl"
SIZES = {"20": 1.0, "28": 5 / 7, "40": 0.5}
ROWS, IMAGES, DRAWS, BETA = 256, 64, 32, 5.0


def information(z: Tensor, p: Tensor, generator: torch.Generator) -> dict[str, float]:
    """Information, bound and retrieval from crops drawn from `p`, (B, M), with projections `z`, (B, M, d)."""
    t = torch.multinomial(p, DRAWS, replacement=True, generator=generator)
    drawn = z.gather(1, t[..., None].expand(-1, -1, z.shape[2]))
    equal = torch.full_like(drawn[..., 0], 1 / DRAWS)
    nearest = (drawn[:, 0] @ drawn[:, 1].T).argmax(dim=1)
    return {
        "information": float(info_max(drawn, equal, BETA).mean()),
        "bound": float(info_max_bound(drawn, equal, BETA).mean()),
        "retrieval": float((nearest == torch.arange(len(z))).double().mean()),
    }


@torch.no_grad()
def criteria(model: CRLTAC, x: Tensor) -> dict[str, float]:
    """Means over images (n, C, H, W), `IMAGES` at a time."""
    method, parts, generator = model.method_.eval(), x.split(IMAGES), torch.Generator().manual_seed(0)
    total: dict[str, float] = {}
    for part in parts:
        z, p = method.every_projection(part), method.channel.log_p(part).exp()
        found = information(z, p, generator)
        other = information(z, p.roll(1, dims=0), generator)["information"]
        found |= {"own - other": found["information"] - other}
        total = {name: total.get(name, 0.0) + value / len(parts) for name, value in found.items()}
    return total


def measure(name: str, size: str, seed: int, *, quick: bool = False) -> Scores:
    """Train with crops of a size; criteria without labels, and scores."""
    torch.set_num_threads(1)
    data, _, boxes = samples(name, seed, quick)
    began = time.process_time()
    epochs = 1 if quick else REGIMES[name].short
    brief: dict[str, Any] = {"batch_size": BATCH, "epochs": epochs, "recurrence_weight": 0}  # as in the library
    model = CRLTAC(crop_scales=(SIZES[size],), random_state=seed, **brief).fit(data.x)
    found: Scores = {"cpu_seconds": round(time.process_time() - began, 1)}
    located = model.locate(data.x_test)
    found |= place_scores(located["sample"], boxes_of(located), boxes)
    found |= {"effective": round(model.metrics_[-1]["effective"], 2)}
    found |= rounded(criteria(model, torch.from_numpy(model.scaled(data.x[:ROWS]))))
    return found | score(model.transform(data.x), model.transform(data.x_test), data, ["linear"])


def cells(quick: bool = False) -> list[Cell]:
    """All sizes of seed 0 on three regimes; then the other seeds."""
    keys = [
        (name, size, seed) for seed in (SEEDS[:1] if quick else SEEDS) for name in FIRST for size in reversed(SIZES)
    ]
    return [Cell(name, size, seed, partial(measure, name, size, seed, quick=quick)) for name, size, seed in keys]


if __name__ == "__main__":
    command(__doc__, PATH, cells)
