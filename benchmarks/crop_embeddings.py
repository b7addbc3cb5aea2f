"""All 289 crops of 84 x 84 images embedded in one dense pass, against one crop at a time cut out and embedded.

CRL-TAC's encoder without biases, 32 images, evaluation; and forward and backward. The one-by-one side cuts out all
crops and embeds them as one batch (the plain way). Interleaved rounds, medians of CPU seconds and of the ratio; the
largest difference of embeddings. Target: at least 8 times faster.

    python benchmarks/crop_embeddings.py [--threads 1] [--rounds 7]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from datetime import UTC, datetime

import torch
from runner import RESULTS, commit

from viewsmith.networks import CropCNN
from viewsmith.training.run import environment
from viewsmith.views import Crops

IMAGES = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    family, encoder = Crops(84, 84), CropCNN(bias=False)
    x = torch.rand(IMAGES, 1, 84, 84)

    def dense() -> torch.Tensor:
        return family.embed(encoder, x)

    def apart() -> torch.Tensor:
        return encoder(family.every(x).flatten(0, 1)).unflatten(0, (IMAGES, family.size))

    with torch.no_grad():
        difference = float((dense() - apart()).abs().max())
    seconds: dict[str, list[float]] = {}
    for _ in range(options.rounds + 1):
        for name, work in (("dense", dense), ("one by one", apart)):
            with torch.no_grad():
                started = time.process_time()
                work()
                seconds.setdefault(name, []).append(time.process_time() - started)
            started = time.process_time()
            work().square().mean().backward()
            seconds.setdefault(f"{name}, with gradient", []).append(time.process_time() - started)
    row: dict[str, object] = {"images": IMAGES, "crops": family.size, "largest difference": difference}
    for kind in ("", ", with gradient"):
        one, other = (seconds[name + kind][1:] for name in ("dense", "one by one"))
        ratios = [b / a for a, b in zip(one, other, strict=True)]
        row[f"dense{kind}"], row[f"one by one{kind}"] = (round(statistics.median(s), 4) for s in (one, other))
        row[f"ratio{kind}"] = [round(number, 2) for number in (statistics.median(ratios), min(ratios), max(ratios))]
        print(f"{'forward' + kind}: {row[f'ratio{kind}']} times (median, least, most)")
    where = environment()
    row |= {
        "rounds": options.rounds,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "processor": where["hardware"]["processor"],
        "threads": options.threads,
        "torch": where["versions"]["torch"],
    }
    with (RESULTS / "crop_embeddings.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
