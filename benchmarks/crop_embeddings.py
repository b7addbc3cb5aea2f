"""Embeddings of crops the quick way against cutting each out and embedding it, by CRL-TAC's encoder without biases.

all: the 289 crops of 84 x 84 images in one dense pass; 32 images. The other side cuts all crops out and embeds them as
one batch (the plain way). Target: at least 8 times faster.
drawn, 84 x 84: 8 crops of each of 256 images, drawn with repetition from 8 neighbors: each is embedded once.
drawn, 28 x 28: 8 crops of each of 256 images, drawn from all nine: one dense pass.

Forward in evaluation, and forward and backward. Interleaved rounds, medians of CPU seconds and of the ratio; the
largest difference of embeddings.

    python benchmarks/crop_embeddings.py [--threads 1] [--rounds 7]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import torch
from runner import RESULTS, commit

from viewsmith.networks import CropCNN
from viewsmith.training.run import environment
from viewsmith.views import Crops

Work = Callable[[], torch.Tensor]


def cases() -> dict[str, tuple[dict[str, Any], Work, Work]]:
    """What is embedded, the quick way and the plain one."""
    encoder = CropCNN(bias=False)

    def everything() -> tuple[dict[str, Any], Work, Work]:
        family, x = Crops(84, 84), torch.rand(32, 1, 84, 84)
        return (
            {"images": 32, "crops": family.size},
            lambda: family.embed(encoder, x),
            lambda: encoder(family.every(x).flatten(0, 1)).unflatten(0, (32, family.size)),
        )

    def drawn(side: int) -> tuple[dict[str, Any], Work, Work]:
        family, x = Crops(side, side), torch.rand(256, 1, side, side)
        near = 8 if side == 84 else family.size
        t = torch.randint(family.size - near + 1, (256, 1)) + torch.randint(near, (256, 8))
        return (
            {"images": 256, "crops": 8},
            lambda: family.embed_some(encoder, x, t),
            lambda: encoder(family.take(x, t).flatten(0, 1)).unflatten(0, t.shape),
        )

    return {"all": everything(), "drawn, 84 x 84": drawn(84), "drawn, 28 x 28": drawn(28)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    for name, (what, quick, plain) in cases().items():
        row = {"case": name, **what} | measured(name, quick, plain, options.rounds)
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


def measured(name: str, quick: Work, plain: Work, rounds: int) -> dict[str, Any]:
    with torch.no_grad():
        difference = float((quick() - plain()).abs().max())
    seconds: dict[str, list[float]] = {}
    for _ in range(rounds + 1):
        for way, work in (("quick", quick), ("plain", plain)):
            with torch.no_grad():
                started = time.process_time()
                work()
                seconds.setdefault(way, []).append(time.process_time() - started)
            started = time.process_time()
            work().square().mean().backward()
            seconds.setdefault(f"{way}, with gradient", []).append(time.process_time() - started)
    row: dict[str, Any] = {"largest difference": difference}
    for kind in ("", ", with gradient"):
        one, other = (seconds[way + kind][1:] for way in ("quick", "plain"))
        ratios = [b / a for a, b in zip(one, other, strict=True)]
        row[f"quick{kind}"], row[f"plain{kind}"] = (round(statistics.median(s), 4) for s in (one, other))
        row[f"ratio{kind}"] = [round(number, 2) for number in (statistics.median(ratios), min(ratios), max(ratios))]
        print(f"{name}, forward{kind}: {row[f'ratio{kind}']} times (median, least, most)")
    return row


if __name__ == "__main__":
    main()
