"""DNA views against EvoAug's on a batch of 256 sequences of 200 bases, one-hot, the same parameters.

Every edit of ours and its EvoAug counterpart in turn, medians and medians of the ratio of neighbors. EvoAug's
recipe is `RobustModel`'s: per sequence, two of its six augmentations. Target: mutation and deletion 4 times as fast.
EvoAug is not installed by default: pip install --no-deps evoaug; without it, its column says so.

    python benchmarks/dna_views.py [--threads 1] [--rounds 40] [--device cuda]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata

import torch
from runner import RESULTS, commit
from torch import Tensor

from viewsmith.training.run import environment
from viewsmith.views.fixed import dna

BATCH, LENGTH, WARM_UP = 256, 200, 5
View = Callable[[Tensor], Tensor]


def peers() -> dict[str, View]:
    """EvoAug's augmentations under our names; none when it is not installed."""
    try:
        from evoaug import augment
    except ImportError:
        return {}
    edits: dict[str, View] = {
        "deletion": augment.RandomDeletion(0, 20),
        "reverse-complement": augment.RandomRC(0.5),
        "insertion": augment.RandomInsertion(0, 20),
        "translocation": augment.RandomTranslocation(0, 20),
        "mutation": augment.RandomMutation(0.05),
        "noise": augment.RandomNoise(0.0, 0.2),
    }

    def recipe(x: Tensor) -> Tensor:
        # As RobustModel does it; the class itself needs pytorch_lightning. Sequences come back 20 longer or not.
        listed, rows = list(edits.values()), []
        for sequence in x:
            row = sequence[None]
            for number in sorted(torch.randperm(len(listed))[:2].tolist()):
                row = listed[number](row)
            rows.append(row)
        return torch.cat([row[:, :, :LENGTH] for row in rows])

    return edits | {
        "inversion": augment.RandomInversion(0, 20),
        "recipe (loop of the published algorithm)": recipe,
    }


def ours(device: str) -> dict[str, View]:
    generator = torch.Generator(device).manual_seed(0)
    makers = {name: make() for name, make in dna.DNA_VIEWS.items()} | {"noise": dna.DNANoise(0.2)}
    makers["recipe (loop of the published algorithm)"] = dna.DNAViews(noise=0.2)
    return {name: lambda x, maker=maker: maker(x, generator=generator) for name, maker in makers.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    letters = torch.randint(4, (BATCH, LENGTH), generator=torch.Generator().manual_seed(0))
    x = torch.eye(4)[letters].mT.contiguous().to(given.device)
    own, other = ours(given.device), peers()
    seconds: dict[str, dict[str, list[float]]] = {name: {"ours": [], "evoaug": []} for name in own}
    for round_ in range(given.rounds + WARM_UP):
        for name, view in own.items():
            for who, run in (("ours", view), ("evoaug", other.get(name))):
                if run is None:
                    continue
                started = time.perf_counter()
                run(x)
                if given.device != "cpu":
                    torch.cuda.synchronize()
                if round_ >= WARM_UP:
                    seconds[name][who].append(time.perf_counter() - started)
    row = {
        "ms": {
            name: {who: round(statistics.median(v) * 1e3, 3) for who, v in both.items() if v}
            for name, both in seconds.items()
        },
        "ratio": {
            name: round(statistics.median(b / a for a, b in zip(both["ours"], both["evoaug"], strict=True)), 2)
            for name, both in seconds.items()
            if both["evoaug"]
        },
        "target": 4,
        "evoaug": metadata.version("evoaug") if other else "absent",
        "batch": BATCH,
        "length": LENGTH,
        "rounds": given.rounds,
        "threads": given.threads,
        "device": given.device,
        "clock": "wall time",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        **environment(),
    }
    print(json.dumps({k: v for k, v in row.items() if k not in ("versions", "hardware")}, indent=2))
    name = "dna_views" if given.device == "cpu" else "dna_views_cuda"
    with (RESULTS / f"{name}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
