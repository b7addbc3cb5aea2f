"""Time of CRL-TAC's encoder on crops of images: all crops in one pass, against cutting out and embedding each crop.

all: the 289 crops of 84 x 84 images in one dense pass; 32 images. The plain way cuts all crops out and embeds them as
one batch. Target: at least 8 times faster.
drawn, 84 x 84: 8 crops of each of 256 images, drawn with repetition from 8 neighbors: each is embedded once.
drawn, 28 x 28: 8 crops of each of 256 images, drawn from all nine: one dense pass.

Forward in evaluation, and forward and backward. Interleaved rounds, medians of CPU seconds and of the ratio; the
largest difference of embeddings.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.crop_embeddings [--threads 1] [--rounds 7] [--quick]
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from benchmarks.speed.timing import clock, in_turn, parser, read, record
from viewsmith.networks import CropCNN
from viewsmith.views import Crops

Work = Callable[[], torch.Tensor]


def cases(quick: bool) -> dict[str, tuple[dict[str, Any], Work, Work]]:
    """The cases: crops to embed, the fast way and the plain way."""
    encoder = CropCNN(bias=False)
    few, many = (2, 4) if quick else (32, 256)

    def everything() -> tuple[dict[str, Any], Work, Work]:
        family, x = Crops(84, 84), torch.rand(few, 1, 84, 84)
        return (
            {"images": few, "crops": family.size},
            lambda: family.embed(encoder, x),
            lambda: encoder(family.all_views(x).flatten(0, 1)).unflatten(0, (few, family.size)),
        )

    def drawn(side: int) -> tuple[dict[str, Any], Work, Work]:
        family, x = Crops(side, side), torch.rand(many, 1, side, side)
        near = 8 if side == 84 else family.size
        t = torch.randint(family.size - near + 1, (many, 1)) + torch.randint(near, (many, 8))
        return (
            {"images": many, "crops": 8},
            lambda: family.embed_some(encoder, x, t),
            lambda: encoder(family.take(x, t).flatten(0, 1)).unflatten(0, t.shape),
        )

    return {"all": everything(), "drawn, 84 x 84": drawn(84), "drawn, 28 x 28": drawn(28)}


def forward(work: Work) -> None:
    with torch.no_grad():
        work()


def with_gradient(work: Work) -> None:
    work().square().mean().backward()


def measured(name: str, quick: Work, plain: Work, rounds: int) -> dict[str, Any]:
    with torch.no_grad():
        row: dict[str, Any] = {"largest difference": float((quick() - plain()).abs().max())}
    kinds = {"": forward, ", with gradient": with_gradient}
    ways = {"quick": quick, "plain": plain}
    works = {way + kind: partial(passes, work) for way, work in ways.items() for kind, passes in kinds.items()}
    seconds = in_turn(works, rounds, clock(wall=False))
    for kind in kinds:
        one, other = (seconds[way + kind] for way in ways)
        ratios = [b / a for a, b in zip(one, other, strict=True)]
        row[f"quick{kind}"], row[f"plain{kind}"] = (round(statistics.median(s), 4) for s in (one, other))
        row[f"ratio{kind}"] = [round(number, 2) for number in (statistics.median(ratios), min(ratios), max(ratios))]
        print(f"{name}, forward{kind}: {row[f'ratio{kind}']} times (median, least, most)")
    return row


def main(arguments: Sequence[str] | None = None) -> None:
    given = read(parser(__doc__, rounds=7), arguments)
    for name, (what, quick, plain) in cases(given.quick).items():
        record("crop_embeddings", {"case": name, **what, **measured(name, quick, plain, given.rounds)}, given)


if __name__ == "__main__":
    main()
