"""Time of CRL-TAC's encoder on crops of images: the fast implementation against cropping first ("separate").

"separate" cuts out all crops and embeds them as one batch. Cases:

- all: all 289 crops of each of 32 images of 84 x 84 pixels, in one dense pass. Target: at least 8 times faster.
- all, 28 pixels: crops of 28 x 28 pixels, each the mean of nine of the encoder's smallest crops.
- all, 224 x 224: all 2,704 crops of 20 x 20 pixels of each of 4 images.
- all, resnet18-dense: as "all", 4 images and the residual network without padding, in eval mode.
- drawn, 84 x 84: 8 crops of each of 256 images, drawn with repetition from 8 neighboring crops; each distinct crop is
  embedded once.
- drawn, 28 x 28: 8 crops of each of 256 images, drawn from all nine, in one dense pass.

The forward pass without gradient, and the forward and backward pass. Interleaved rounds; medians of CPU seconds and of
their ratio. The largest difference of the embeddings is recorded, too.

    export OMP_NUM_THREADS=1
    python -m benchmarks.speed.methods.crop_embeddings [--threads 1] [--rounds 7] [--case all] ... [--quick]
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.speed.timing import clock, parser, read, record, time_interleaved
from viewsmith.networks import CropCNN, DenseResNet18
from viewsmith.views import Crops

Work = Callable[[], torch.Tensor]


def cases(quick: bool) -> dict[str, tuple[dict[str, Any], Work, Work]]:
    """Sizes, fast and separate computation of every case, by name."""
    encoder, residual = CropCNN(bias=False), DenseResNet18(1).eval()
    few, many = (2, 4) if quick else (32, 256)

    def every_crop(
        images: int, side: int = 84, crop: int = 20, stride: int = 4, encoder: nn.Module = encoder
    ) -> tuple[dict[str, Any], Work, Work]:
        family, x = Crops(side, side, crop=crop, stride=stride), torch.rand(images, 1, side, side)
        assert family.is_dense(encoder)
        return (
            {"images": images, "crops": family.size},
            lambda: family.embed(encoder, x),
            lambda: encoder(family.all_views(x).flatten(0, 1)).unflatten(0, (images, family.size)),
        )

    def drawn(side: int) -> tuple[dict[str, Any], Work, Work]:
        family, x = Crops(side, side), torch.rand(many, 1, side, side)
        neighbors = 8 if side == 84 else family.size
        t = torch.randint(family.size - neighbors + 1, (many, 1)) + torch.randint(neighbors, (many, 8))
        return (
            {"images": many, "crops": 8},
            lambda: family.embed_some(encoder, x, t),
            lambda: encoder(family.take(x, t).flatten(0, 1)).unflatten(0, t.shape),
        )

    found = {"all": every_crop(few), "drawn, 84 x 84": drawn(84), "drawn, 28 x 28": drawn(28)}
    if quick:
        return found | {"all, resnet18-dense": every_crop(1, 36, encoder=residual)}
    return found | {
        "all, 28 pixels": every_crop(few, crop=28),
        "all, 224 x 224": every_crop(4, 224),
        "all, resnet18-dense": every_crop(4, encoder=residual),
    }


def forward(work: Work) -> None:
    with torch.no_grad():
        work()


def with_gradient(work: Work) -> None:
    work().square().mean().backward()


def measured(case: str, fast: Work, separate: Work, rounds: int) -> dict[str, Any]:
    with torch.no_grad():
        row: dict[str, Any] = {"largest difference": float((fast() - separate()).abs().max())}
    kinds = {"": forward, ", with gradient": with_gradient}
    computations = {"fast": fast, "separate": separate}
    works = {
        name + kind: partial(passes, work) for name, work in computations.items() for kind, passes in kinds.items()
    }
    seconds = time_interleaved(works, rounds, clock(wall=False))
    for kind in kinds:
        ratios = [b / a for a, b in zip(seconds["fast" + kind], seconds["separate" + kind], strict=True)]
        row |= {name + kind: round(statistics.median(seconds[name + kind]), 4) for name in computations}
        row[f"ratio{kind}"] = [round(number, 2) for number in (statistics.median(ratios), min(ratios), max(ratios))]
        print(f"{case}, forward{kind}: {row[f'ratio{kind}']} times faster (median, smallest, largest)")
    return row


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, rounds=7)
    options.add_argument("--case", action="append", help="only this case; may be repeated")
    given = read(options, arguments)
    found = cases(given.quick)
    for name in given.case or found:
        sizes, fast, separate = found[name]
        record("crop_embeddings", {"case": name, **sizes, **measured(name, fast, separate, given.rounds)}, given)


if __name__ == "__main__":
    main()
