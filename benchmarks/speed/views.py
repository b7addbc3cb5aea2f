"""Speed of view makers, and of what is computed from their views."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.speed.timing import Row, case, clock, milliseconds, ratio, ratios, time_interleaved
from viewsmith.modalities.dna import views as dna
from viewsmith.modalities.images.views import image_recipe
from viewsmith.modalities.vectors.networks import VectorDenoiser, VectorLatents
from viewsmith.networks import CropCNN, DenseResNet18
from viewsmith.views import Crops, PositivePair, ViewMaker
from viewsmith.views.generated.diffusion import ConditionalDiffusion, Sampler

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_LIBRARIES: list[Any] = []  # torch removes the operators of a library that is garbage-collected
View = Callable[[Tensor], Tensor]
Work = Callable[[], Tensor]


def version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"


def import_torchvision() -> None:
    """Import torchvision even if its compiled operators do not load; no transform needs them."""
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "FRAGMENT")
        _LIBRARIES.append(library)
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision  # noqa: F401


def our_image_views(x: Tensor, side: int) -> dict[str, Callable[[], Any]]:
    """Viewsmith's recipes by name."""
    generator = torch.Generator(x.device).manual_seed(0)
    names = ("simclr", "moco", "byol", "multicrop")
    made = {name: image_recipe(name, size=side, mean=MEAN, std=STD).to(x.device) for name in names}
    return {f"viewsmith, {name}": lambda m=made[name]: m(x, generator=generator) for name in names[:2]} | {
        f"viewsmith, {name}, whole pair": lambda m=made[name]: m.pair(PositivePair(x, x), generator=generator)
        for name in names[2:]
    }


def peers(pixels: Tensor, side: int, device: torch.device) -> dict[str, Callable[[], Any]]:
    """The SimCLR views of the installed libraries; on a GPU only kornia's."""
    found: dict[str, Callable[[], Any]] = {}
    blur, taps = 0.5 if side >= 64 else 0.0, 2 * max(1, side // 20) + 1
    try:
        import_torchvision()
        from torchvision import transforms as tv
        from torchvision.transforms.functional import to_pil_image

        if device.type == "cpu":
            images = [to_pil_image(image) for image in pixels]
            chain = tv.Compose(
                [
                    tv.RandomResizedCrop(side, scale=(0.08, 1)),
                    tv.RandomHorizontalFlip(),
                    tv.RandomApply([tv.ColorJitter(0.4, 0.4, 0.4, 0.1)], 0.8),
                    tv.RandomGrayscale(0.2),
                    tv.RandomApply([tv.GaussianBlur(taps)], blur),
                    tv.ToTensor(),
                    tv.Normalize(MEAN, STD),
                ]
            )
            found["torchvision, image by image"] = lambda: torch.stack([chain(image) for image in images])
            from lightly.transforms import SimCLRViewTransform

            single = SimCLRViewTransform(
                input_size=side,
                cj_strength=0.5,  # of lightly's .8, .8, .8, .2
                gaussian_blur=blur,
                normalize={"mean": list(MEAN), "std": list(STD)},
            )
            found["lightly, image by image"] = lambda: torch.stack([single(image) for image in images])
    except ImportError:
        pass
    try:
        from kornia import augmentation as ka

        batched = torch.nn.Sequential(
            ka.RandomResizedCrop((side, side), scale=(0.08, 1)),
            ka.RandomHorizontalFlip(),
            ka.ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8),
            ka.RandomGrayscale(p=0.2),
            *([ka.RandomGaussianBlur((taps, taps), (0.1, 2.0), p=0.5)] if blur else []),
            ka.Normalize(torch.tensor(MEAN), torch.tensor(STD)),
        ).to(device)
        x = pixels.to(device).float() / 255
        found["kornia, batched"] = lambda: batched(x)
    except ImportError:
        pass
    return found


@case(device=True, rounds=15, side=32, batch=256)
def image_views(given: argparse.Namespace) -> Iterator[Row]:
    """Image views against those of lightly, kornia and torchvision, on one batch of 256 x 3 x 32 x 32, scaled.

    Every library makes one SimCLR view (crop .08-1, flip, jitter .4/.4/.4/.1 with probability .8, gray .2, normalize)
    in interleaved rounds; medians, and medians of the ratio. lightly and torchvision process PIL images one by one;
    kornia and viewsmith process a batch, which is a tensor. viewsmith's recipes byol and multicrop are timed as whole
    pairs. Targets: 10 times faster than lightly, 3 times faster than kornia. Missing libraries are recorded as absent.
    """
    given.batch = 8 if given.quick else given.batch
    device = torch.device(given.device)
    # Smooth images resemble photographs more than random pixels do.
    coarse = torch.rand(given.batch, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    pixels = torch.nn.functional.interpolate(coarse, size=(given.side, given.side), mode="bicubic").clamp(0, 1)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))
    x = ((pixels - mean) / std).to(device)
    views = our_image_views(x, given.side) | peers((pixels * 255).to(torch.uint8), given.side, device)
    # Random order: the time of a library depends on the memory that the one before it has freed.
    seconds = time_interleaved(views, given.rounds, clock(given.device), warm=3, shuffle=True)
    ms, times = milliseconds(seconds), ratios(seconds, "viewsmith, simclr", 2)
    yield {
        "rows": {name: {"ms": ms[name], "ratio": times[name]} for name in seconds},
        "targets": {"lightly, image by image": 10, "kornia, batched": 3},
        "peers": {name: version(name) for name in ("lightly", "kornia", "torchvision")},
        "clock": "wall time",
    }


def evoaug(length: int) -> dict[str, View]:
    """EvoAug's augmentations by viewsmith's names; empty if EvoAug is not installed."""
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
        # The algorithm of RobustModel; the class itself needs pytorch_lightning. Insertions make sequences 20 longer.
        augmentations, rows = list(edits.values()), []
        for sequence in x:
            row = sequence[None]
            for number in sorted(torch.randperm(len(augmentations))[:2].tolist()):
                row = augmentations[number](row)
            rows.append(row)
        return torch.cat([row[:, :, :length] for row in rows])

    return edits | {"inversion": augment.RandomInversion(0, 20), "recipe (loop of the published algorithm)": recipe}


@case(device=True, rounds=40)
def dna_views(given: argparse.Namespace) -> Iterator[Row]:
    """DNA views against EvoAug's, on a batch of 256 one-hot sequences of 200 bases, with the same parameters.

    Every edit and its EvoAug counterpart, in interleaved rounds; medians, and medians of the ratio. EvoAug's recipe is
    that of `RobustModel`: two of its six augmentations for each sequence. Target: mutation and deletion 4 times faster.
    EvoAug is not installed by default (pip install --no-deps evoaug); without it, it is recorded as absent.
    """
    batch, length = 8 if given.quick else 256, 200
    letters = torch.randint(4, (batch, length), generator=torch.Generator().manual_seed(0))
    x = torch.eye(4)[letters].mT.contiguous().to(given.device)
    generator = torch.Generator(given.device).manual_seed(0)
    makers: dict[str, ViewMaker] = {
        "dna": dna.DNAViews(),
        "reverse-complement": dna.ReverseComplement(),
        "mutation": dna.Mutation(),
        "insertion": dna.Insertion(),
        "deletion": dna.Deletion(),
        "translocation": dna.Translocation(),
        "inversion": dna.Inversion(),
        "noise": dna.DNANoise(0.2),
        "recipe (loop of the published algorithm)": dna.DNAViews(noise=0.2),
    }
    seconds, theirs = {}, evoaug(length)
    for name, maker in makers.items():
        works = {"ours": partial(maker, x, generator=generator)}
        works |= {"evoaug": partial(theirs[name], x)} if name in theirs else {}
        seconds[name] = time_interleaved(works, given.rounds, clock(given.device), warm=5)
    yield {
        "ms": {name: milliseconds(taken, 3) for name, taken in seconds.items()},
        "ratio": {name: ratio(taken["ours"], taken["evoaug"], 2) for name, taken in seconds.items() if name in theirs},
        "target": 4,
        "evoaug": version("evoaug"),
        "batch": batch,
        "length": length,
        "clock": "wall time",
    }


SAMPLERS: dict[str, tuple[Sampler, int]] = {
    "dpm, 10 steps (default)": ("dpm", 10),
    "dpm, 8 steps": ("dpm", 8),
    "dpm, 5 steps": ("dpm", 5),
    "ddim, 10 steps": ("ddim", 10),
    "ddpm, 1000 steps": ("ddpm", 1000),
}


@case(rounds=2)
def diffusion_sampling(given: argparse.Namespace) -> Iterator[Row]:
    """One view of each of 1,024 rows of 561 features: samplers with few steps against DDPM's 1,000 steps.

    All samplers use the same untrained VectorDenoiser with a condition of 256 numbers, in batches of 1,024:
    DPM-Solver++ and DDIM with at most 10 steps, and DDPM as published. Interleaved rounds; process time; medians of the
    ratio. Target: the default sampler at least 100 times faster.
    """
    rows, features, condition = 2 if given.quick else 1024, 561, 256
    x, y = torch.randn(rows, features), torch.randn(rows, condition)
    denoiser, codes = VectorDenoiser(features, condition), VectorLatents(features)
    works, slow = {}, "ddpm, 1000 steps"
    for name, (sampler, steps) in SAMPLERS.items():
        generator = ConditionalDiffusion(denoiser, codes, condition=condition, sampler=sampler, steps=steps)
        generator.fit(x, y)
        works[name] = partial(generator.sample, x, y, torch.Generator().manual_seed(0))
        if name != slow:
            works[name]()
    # Several calls of the fast samplers in each round, so that a short pause of the machine has little effect.
    repeats = {name: 5 for name in SAMPLERS if name != slow}
    seconds = time_interleaved(works, given.rounds, clock(wall=False), warm=0, repeats=repeats)
    yield {
        "ms": milliseconds(seconds, 1),
        "speedup": {name: ratio(taken, seconds[slow], 1) for name, taken in seconds.items()},
        "target": {"dpm, 10 steps (default)": "at least 100"},
        "rows": rows,
        "features": features,
        "condition": condition,
        "parameters": sum(p.numel() for p in denoiser.parameters()),
        "clock": "process time",
    }


def crops(quick: bool) -> dict[str, tuple[Row, Work, Work]]:
    """Sizes, fast and separate computation of every case, by name."""
    encoder, residual = CropCNN(bias=False), DenseResNet18(1).eval()
    few, many = (2, 4) if quick else (32, 256)

    def every_crop(
        images: int, side: int = 84, crop: int = 20, stride: int = 4, encoder: nn.Module = encoder
    ) -> tuple[Row, Work, Work]:
        family, x = Crops(side, side, crop=crop, stride=stride), torch.rand(images, 1, side, side)
        assert family.is_dense(encoder)
        return (
            {"images": images, "crops": family.size},
            lambda: family.embed(encoder, x),
            lambda: encoder(family.all_views(x).flatten(0, 1)).unflatten(0, (images, family.size)),
        )

    def drawn(side: int) -> tuple[Row, Work, Work]:
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


@case(rounds=7, options={"--case": {"action": "append", "help": "only this case; may be repeated"}})
def crop_embeddings(given: argparse.Namespace) -> Iterator[Row]:
    """CRL-TAC's encoder on crops of images: the fast implementation against cropping first ("separate").

    - all: all 289 crops of each of 32 images of 84 x 84 pixels, in one dense pass. Target: at least 8 times faster.
    - all, 28 pixels: crops of 28 x 28 pixels, each the mean of nine of the encoder's smallest crops.
    - all, 224 x 224: all 2,704 crops of 20 x 20 pixels of each of 4 images.
    - all, resnet18-dense: as "all", 4 images and the residual network without padding, in eval mode.
    - drawn, 84 x 84: 8 crops of each of 256 images, drawn from 8 neighboring crops; each is embedded once.
    - drawn, 28 x 28: 8 crops of each of 256 images, drawn from all nine, in one dense pass.

    Forward without gradient, and forward and backward. Interleaved rounds; medians of CPU seconds and of their ratio,
    and the largest difference of the embeddings.
    """
    found, kinds = crops(given.quick), {"": forward, ", with gradient": with_gradient}
    for case_name in given.case or found:
        sizes, *both = found[case_name]
        with torch.no_grad():
            row: Row = {"largest difference": float((both[0]() - both[1]()).abs().max())}
        computations = dict(zip(("fast", "separate"), both, strict=True))
        works = {
            computation + kind: partial(run, work)
            for computation, work in computations.items()
            for kind, run in kinds.items()
        }
        seconds = time_interleaved(works, given.rounds, clock(wall=False))
        for kind in kinds:
            times = [b / a for a, b in zip(seconds["fast" + kind], seconds["separate" + kind], strict=True)]
            row |= {which + kind: round(statistics.median(seconds[which + kind]), 4) for which in computations}
            row[f"ratio{kind}"] = [round(number, 2) for number in (statistics.median(times), min(times), max(times))]
        yield {"case": case_name, **sizes, **row}
