"""Write the results of torchvision for a few small images: fixtures/torchvision_images.npz.

It needs torchvision: python -m tests.views.make_image_fixture
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import numpy as np
import torch

from benchmarks.speed.views import import_torchvision

TARGET = Path(__file__).parent / "fixtures" / "torchvision_images.npz"
BOXES = [(0, 0, 9, 12), (2, 3, 5, 7), (5, 1, 3, 11), (8, 11, 1, 1)]
FACTORS = [0.0, 0.6, 1.0, 1.7]
HUES = [-0.5, -0.1, 0.0, 0.2]
SIGMAS = [0.3, 0.8, 1.5, 3.0]


def main() -> None:
    import_torchvision()
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms import functional as tv

    x = torch.rand(4, 3, 9, 12, generator=torch.Generator().manual_seed(0))
    arrays = {"x": x, "boxes": torch.tensor(BOXES), "factors": torch.tensor(FACTORS)}
    arrays |= {"hues": torch.tensor(HUES), "sigmas": torch.tensor(SIGMAS)}
    arrays["hflip"] = tv.hflip(x)
    arrays["gray"] = tv.rgb_to_grayscale(x, 3)
    for name, size in (("same", [9, 12]), ("small", [4, 5]), ("large", [14, 13])):
        arrays[f"crop_{name}"] = torch.stack(
            [
                tv.resized_crop(image, *box, size, InterpolationMode.BILINEAR, antialias=False)
                for image, box in zip(x, BOXES, strict=True)
            ]
        )
    for name in ("brightness", "contrast", "saturation"):
        adjust = getattr(tv, f"adjust_{name}")
        arrays[name] = torch.stack([adjust(image, factor) for image, factor in zip(x, FACTORS, strict=True)])
    arrays["hue"] = torch.stack([tv.adjust_hue(image, turns) for image, turns in zip(x, HUES, strict=True)])
    for taps in (3, 7):
        arrays[f"blur_{taps}"] = torch.stack(
            [tv.gaussian_blur(image, [taps, taps], [s, s]) for image, s in zip(x, SIGMAS, strict=True)]
        )
    arrays["solarize"] = torch.stack([tv.solarize(image, 0.25 * k) for k, image in enumerate(x, 1)])
    plain = {name: value.numpy() for name, value in arrays.items()}
    with TARGET.open("wb") as file:
        np.savez_compressed(file, torchvision=metadata.version("torchvision"), **plain)  # type: ignore[arg-type]
    print(TARGET, TARGET.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
