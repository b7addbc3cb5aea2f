"""What GenView's parts cost, CPU time on one thread: unclip in batches, shares of foreground, quality, own generator.

unclip: views of 16 images by Stable unCLIP with tiny random weights (the real pipeline class, tests/views): in one
batch of ours against one call of the pipeline for each image, as published; 20 steps, guidance 10. Target: 3 times.
shares: foreground of 10,000 images of cifar10_small's size from the feature map of the default small CNN; bytes kept of
each image, and how much the peak memory of the process grows over that of 1,000 images.
quality: q of 256 pairs of SimCLR's views seen by the default small CNN, from kept maps against looking at every view;
after 24 steps of training on 2,048 rows of cifar10_small, with the rank agreement of both. Targets: 5 times, Spearman
0.95.
letter, cifar10_small: one view for each train row by the embedded generator, against the training of
encoder and generator for 300 steps each (measured over 40 and multiplied).

    VIEWSMITH_DATA=folder python benchmarks/genview_cost.py [unclip] [shares] [quality] [letter] [cifar10_small]
"""

from __future__ import annotations

import json
import math
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from runner import RESULTS, commit, data_folder
from scipy.stats import spearmanr

from viewsmith.core.samples import Samples
from viewsmith.estimators import Contrastive, DiffAug
from viewsmith.networks import Pixels, SmallCNN
from viewsmith.training.run import environment
from viewsmith.views import Pair, image_recipe
from viewsmith.views.adaptive import noise_shares, strength_of
from viewsmith.views.quality import ViewQuality
from viewsmith.views.unclip import StableUnCLIP

ROUNDS = 3


def seconds(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def unclip() -> dict[str, Any]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "views"))
    from unclip_toys import tiny_pipeline

    with tempfile.TemporaryDirectory() as folder:
        pipeline = tiny_pipeline(Path(folder))
    from PIL import Image

    images = np.random.default_rng(0).integers(0, 256, (16, 32, 32, 3), dtype=np.uint8)
    rows, level = torch.from_numpy(images), torch.arange(16) % 5 * 100
    pictures = [Image.fromarray(image) for image in images]
    model = StableUnCLIP(pipeline)

    def batch() -> None:
        streams = [torch.Generator().manual_seed(row) for row in range(16)]
        model.generate(rows.clone(), None, 0, level, streams)

    def single() -> None:
        for row, picture in enumerate(pictures):
            stream = torch.Generator().manual_seed(row)
            pipeline(picture, noise_level=int(level[row]), num_inference_steps=20, generator=stream)

    batch()
    pairs = [(seconds(single), seconds(batch)) for _ in range(ROUNDS)]
    return {
        "images_per_second": round(16 / statistics.median(b for _, b in pairs), 2),
        "times_as_fast": round(statistics.median(a / b for a, b in pairs), 2),
        "target": "at least 3",
    }


def cifar() -> np.ndarray:
    with np.load(data_folder() / "cifar10_small.npz") as archive:
        return archive["X_train"]


def shares() -> dict[str, Any]:
    few = torch.from_numpy(np.resize(cifar(), (10_000, 32, 32, 3)))
    scaler, encoder = Pixels((32, 32, 3)), SmallCNN().eval()
    scaler.fit(few, "auto")
    noise_shares(encoder, Samples(few[:1000], scaler))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = time.process_time()
    found = noise_shares(encoder, Samples(few, scaler))
    return {
        "images": len(few),
        "seconds": round(time.process_time() - taken, 2),
        "bytes_an_image": found.element_size(),
        "peak_growth_mib": round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, 1),
        "target": "at most 8 bytes an image",
    }


def quality() -> dict[str, Any]:
    return {**agreement("cnn", cifar()[:2048], 3), "target": "at least 5 times less, Spearman at least 0.95"}


def agreement(name: str, x: np.ndarray, epochs: int) -> dict[str, Any]:
    """Time and ranks of both ways to see quality, by an encoder after some epochs."""
    model = Contrastive(encoder=name, epochs=epochs, random_state=0).fit(x)
    scaled: Any = model._samples(x)
    encoder = model.method_.framework.encoder
    views, kept = (ViewQuality(encoder, scaled[:1], caches=caches) for caches in (False, True))
    for each in (views, kept):
        each.follow(encoder, scaled)
    keeping = seconds(lambda: kept.keep([scaled]))
    recipe = image_recipe("simclr", size=32, mean=model.fitted_["pixel_mean"], std=model.fitted_["pixel_scale"])
    index, nowhere = torch.arange(256), torch.zeros(256, dtype=torch.int64)
    ranks, times = [], []

    def measure(pair: Pair) -> None:
        crops = pair.crops
        assert crops is not None
        q = views(pair.first, pair.second), kept.cached(index, (nowhere, nowhere), crops)
        ranks.append(float(spearmanr(*q).statistic))
        slow = seconds(lambda: views(pair.first, pair.second))
        times.append((slow, seconds(lambda: kept.cached(index, (nowhere, nowhere), crops))))

    for round_ in range(ROUNDS):
        measure(recipe.pair(Pair(scaled[index], scaled[index]), generator=torch.Generator().manual_seed(round_)))
    return {
        "ms_views": round(1e3 * statistics.median(a for a, _ in times), 1),
        "ms_cached": round(1e3 * statistics.median(b for _, b in times), 1),
        "times_less": round(statistics.median(a / b for a, b in times), 1),
        "spearman": round(statistics.median(ranks), 3),
        "seconds_to_keep": round(keeping, 2),
        "rows": len(x),
    }


def generator(name: str) -> dict[str, Any]:
    with np.load(data_folder() / f"{name}.npz") as archive:
        x = archive["X_train"]
    x = x if x.dtype == np.uint8 and x.ndim > 2 else x.astype(np.float32)
    epochs = math.ceil(40 / max(1, len(x) // 256))
    model = DiffAug(phases="AB", epochs=epochs, generator_epochs=epochs, random_state=0)
    training = seconds(lambda: model.fit(x)) * 300 / (epochs * max(1, len(x) // 256))
    made: Any = model.method_.generated
    rows = model._samples(x)

    def views() -> None:
        with torch.no_grad():
            strength = strength_of(torch.arange(len(rows)) % 5 * 100)
            for part in torch.arange(len(rows)).split(256):
                made.make(rows[part], None, torch.Generator().manual_seed(0), strength[part])

    taken = seconds(views)
    return {
        "rows": len(x),
        "seconds_views": round(taken, 1),
        "seconds_training": round(training, 1),
        "share_of_training": round(taken / (taken + training), 3),
    }


def main() -> None:
    torch.set_num_threads(1)
    parts: dict[str, Callable[[], dict[str, Any]]] = {"unclip": unclip, "shares": shares, "quality": quality}
    parts |= {name: partial(generator, name) for name in ("letter", "cifar10_small")}
    for name in sys.argv[1:] or parts:
        row = {
            "part": name,
            **parts[name](),
            "clock": "process time",
            "threads": 1,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": commit(),
            **environment(),
        }
        print(json.dumps({k: v for k, v in row.items() if k not in ("versions", "hardware")}), flush=True)
        with (RESULTS / "genview_cost.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
