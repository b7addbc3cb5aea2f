"""Time of discovery in images: dense features, and the whole search, on a CPU or a GPU.

Blood smears of 96 x 128 pixels, mirrored and turned, in memory. "features": images per second whose dense features are
computed, in batches as in a search: patches, and a ResNet-50 (layer2; with timm) with random weights. "search": seconds
of `fit` and of `locate` with patches, wall time. Medians.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.speed.methods.discovery_images [--images 1000]
        [--rounds 1] [--device cpu|cuda] [--threads 1] [--quick]
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from benchmarks.quality.study_discovery import many_smears
from benchmarks.speed.timing import clock, parser, read, record
from viewsmith import Discovery
from viewsmith.data.any_size import as_images


def main(arguments: Sequence[str] | None = None) -> None:
    given = read(parser(__doc__, device=True, images=1000, rounds=1), arguments)
    n = 64 if given.quick else given.images
    turned = many_smears(n, (96, 128))
    x = np.stack([turned.read(i, None) for i in range(n)])
    now = clock(given.device)
    features: dict[str, float] = {}
    searched: dict[str, Any] = {"fit": [], "locate": []}
    for name, more in (("patches", {}), ("timm:resnet50", {"feature_weights": "random", "feature_layer": "layer2"})):
        if name != "patches" and find_spec("timm") is None:
            continue
        some = x if given.device != "cpu" or name == "patches" else x[:64]
        model = Discovery(modality="images", features=name, device=given.device, **more)
        model.modality_ = "images"
        search, seconds = model._search(3), []
        search._features(as_images(x[:64]), np.arange(64))
        for _ in range(given.rounds + 1):
            began = now()
            for start in range(0, len(some), search._block):
                search.dense(some[start : start + search._block]).cpu()
            seconds.append(now() - began)
        features[name] = round(len(some) / statistics.median(seconds[1:]), 1)
    for _ in range(given.rounds):
        model, began = Discovery(device=given.device), now()
        model.fit(x)
        fitted = now()
        found = model.locate(x)
        searched["fit"].append(fitted - began)
        searched["locate"].append(now() - fitted)
    result = {
        "images": n,
        "located": round(len(np.unique(found["sample"])) / n, 4),
        "device": torch.cuda.get_device_name() if given.device == "cuda" else "cpu",
        "features_per_second": features,
        "search_seconds": {key: round(statistics.median(value), 2) for key, value in searched.items()},
        "clock": "wall time",
    }
    record("discovery_images", result, given)


if __name__ == "__main__":
    main()
