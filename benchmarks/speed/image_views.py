"""Time of image views against those of lightly, kornia and torchvision, on one batch of 256 x 3 x 32 x 32, scaled.

Every library makes one SimCLR view (crop .08-1, flip, jitter .4/.4/.4/.1 with probability .8, gray .2, normalize) in
interleaved rounds; medians, and medians of the ratio. lightly and torchvision process PIL images one by one; kornia and
viewsmith process a batch, which is a tensor. viewsmith's recipes byol and multicrop are timed as whole pairs. Targets:
10 times faster than lightly, 3 times faster than kornia. Libraries that are not installed are recorded as absent.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.image_views [--rounds 15] [--side 32] [--batch 256] [--device cuda]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any

import torch
from torch import Tensor

from benchmarks.speed.timing import clock, milliseconds, parser, ratios, read, record, time_interleaved
from viewsmith.modalities.images.views import image_recipe
from viewsmith.views import PositivePair

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TARGETS = {"lightly, image by image": 10, "kornia, batched": 3}
OURS = "viewsmith, simclr"
_LIBRARIES: list[Any] = []  # torch removes the operators of a library that is garbage-collected


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


def ours(x: Tensor, side: int) -> dict[str, Callable[[], Any]]:
    """Viewsmith's recipes by name."""
    generator = torch.Generator(x.device).manual_seed(0)
    recipes = {name: image_recipe(name, size=side, mean=MEAN, std=STD) for name in ("simclr", "moco")}
    pairs = {name: image_recipe(name, size=side, mean=MEAN, std=STD) for name in ("byol", "multicrop")}
    for maker in [*recipes.values(), *pairs.values()]:
        maker.to(x.device)
    return {f"viewsmith, {name}": lambda m=m: m(x, generator=generator) for name, m in recipes.items()} | {
        f"viewsmith, {name}, whole pair": lambda m=m: m.pair(PositivePair(x, x), generator=generator)
        for name, m in pairs.items()
    }


def peers(pixels: Tensor, side: int, device: torch.device) -> dict[str, Callable[[], Any]]:
    """The SimCLR views of the installed libraries; on a GPU only kornia's."""
    found: dict[str, Callable[[], Any]] = {}
    blur = 0.5 if side >= 64 else 0.0
    taps = 2 * max(1, side // 20) + 1
    on_cpu = device.type == "cpu"
    try:
        import_torchvision()
        from torchvision import transforms as tv
        from torchvision.transforms.functional import to_pil_image

        if on_cpu:
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


def main(arguments: Sequence[str] | None = None) -> None:
    given = read(parser(__doc__, device=True, rounds=15, side=32, batch=256), arguments)
    given.batch = 8 if given.quick else given.batch
    device = torch.device(given.device)
    # Smooth images resemble photographs more than random pixels do.
    coarse = torch.rand(given.batch, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    pixels = torch.nn.functional.interpolate(coarse, size=(given.side, given.side), mode="bicubic").clamp(0, 1)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))
    x = ((pixels - mean) / std).to(device)
    views = ours(x, given.side) | peers((pixels * 255).to(torch.uint8), given.side, device)
    # Random order: the time of a library depends on the memory that the one before it has freed.
    seconds = time_interleaved(views, given.rounds, clock(given.device), warm=3, shuffle=True)
    ms, times = milliseconds(seconds), ratios(seconds, OURS, 2)
    row = {
        "rows": {name: {"ms": ms[name], "ratio": times[name]} for name in seconds},
        "targets": TARGETS,
        "peers": {name: _version(name) for name in ("lightly", "kornia", "torchvision")},
        "clock": "wall time",
    }
    record("image_views", row, given)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"


if __name__ == "__main__":
    main()
