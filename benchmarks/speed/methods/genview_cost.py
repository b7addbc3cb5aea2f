"""Time and memory of the parts of GenView: Stable unCLIP, foreground, quality, and viewsmith's generator.

- unclip: views of 16 images by Stable unCLIP, with tiny random weights in the published pipeline class (tests/methods),
  20 steps, guidance 10. All images in one batch, against one call of the published pipeline for each image, which
  encodes prompt and image in every call and returns a PIL image. Also with DPM-Solver++ in 10 steps, which gives other
  views. `network_ms_per_row` is the time of the denoising network for one row of a batch; an image has 2 rows in each
  step. Target: 3 times faster.
- foreground: fractions of foreground of 10,000 images as large as those of cifar10_small, from the feature map of the
  default small CNN; bytes saved for each image, and growth of the peak memory compared with 1,000 images.
- quality: q of 256 pairs of SimCLR views with the default small CNN: `quality_features` "encoder" and "cached" against
  "views"; time, and Spearman correlation of q. The encoder is copied halfway through a training of 12 epochs on 2,048
  rows of cifar10_small. "encoder" is compared at every 6th of the 48 steps after that, "cached" at the end, with
  SimCLR's views and with their crops without color changes. Targets: 5 times faster, correlation 0.95.
- letter, cifar10_small: one view of each train row by viewsmith's generator, against the training of encoder and
  generator for 300 steps each (extrapolated from 40 steps).

CPU time with one thread; wall time with --threads 2, because CPU time does not include waiting.

    export VIEWSMITH_DATA=folder
    python -m benchmarks.speed.methods.genview_cost [--threads 1] [--quick] [unclip] [foreground] ...
"""

from __future__ import annotations

import itertools
import math
import resource
import statistics
import sys
import tempfile
import unittest.mock
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

from benchmarks.common.data import load, sets
from benchmarks.common.runner import ROOT
from benchmarks.common.tiny import tiny_data
from benchmarks.speed.timing import clock, parser, read, record
from viewsmith import DiffAug, GenView
from viewsmith.core.samples import Samples
from viewsmith.methods.genview.quality import ViewQuality
from viewsmith.methods.genview.training import GenViewMethod
from viewsmith.methods.genview.unclip import StableUnCLIP
from viewsmith.modalities.images.operations import crop
from viewsmith.networks import Pixels, SmallCNN
from viewsmith.views import PositivePair, image_recipe
from viewsmith.views.generated.noise_level import level_to_strength, noise_tolerance


def seconds(work: Callable[[], Any]) -> float:
    """Seconds of a call."""
    now = clock(wall=torch.get_num_threads() > 1)
    started = now()
    work()
    return now() - started


def unclip(quick: bool) -> dict[str, Any]:
    """Time of Stable unCLIP in a batch and image by image."""
    rounds = 1 if quick else 3
    sys.path.insert(0, str(ROOT / "tests" / "methods"))
    from unclip_toys import tiny_pipeline

    with tempfile.TemporaryDirectory() as folder:
        pipeline = tiny_pipeline(Path(folder))
    from PIL import Image

    images = np.random.default_rng(0).integers(0, 256, (16, 32, 32, 3), dtype=np.uint8)
    rows, level = torch.from_numpy(images), torch.arange(16) % 5 * 100
    pictures = [Image.fromarray(image) for image in images]
    model, short = StableUnCLIP(pipeline), StableUnCLIP(pipeline, scheduler="dpm", steps=10)

    def batch(model: StableUnCLIP) -> None:
        streams = [torch.Generator().manual_seed(row) for row in range(16)]
        model.generate(rows.clone(), None, 0, level, streams)

    def single() -> None:
        for row, picture in enumerate(pictures):
            stream = torch.Generator().manual_seed(row)
            pipeline(picture, noise_level=int(level[row]), num_inference_steps=20, generator=stream)

    def network(n: int) -> float:
        prompt = pipeline.encode_prompt("", "cpu", 1, False)[0].expand(n, -1, -1)
        x, code = torch.zeros(n, 4, 16, 16), torch.zeros(n, 64)
        with torch.no_grad():
            work = partial(pipeline.unet, x, 500, encoder_hidden_states=prompt, class_labels=code)
            return 1e3 * min(seconds(work) for _ in range(2 * rounds)) / n

    batch(model)
    taken = [(seconds(single), *map(seconds, (partial(batch, model), partial(batch, short)))) for _ in range(rounds)]
    return {
        "images_per_second": round(16 / statistics.median(b for _, b, _ in taken), 2),
        "speedup": round(statistics.median(a / b for a, b, _ in taken), 2),
        "speedup_dpm_10_steps": round(statistics.median(a / c for a, _, c in taken), 2),
        "ms_per_image_alone": round(1e3 * statistics.median(a for a, _, _ in taken) / 16, 1),
        "ms_per_image_in_batch": round(1e3 * statistics.median(b for _, b, _ in taken) / 16, 1),
        "network_ms_per_row": {n: round(network(n), 2) for n in (1, 2, 8, 32)},
        "target": "at least 3",
    }


def train_rows(name: str) -> np.ndarray:
    """All train rows of a data set."""
    return load(sets(name, train_rows=None)[name]).x


def foreground(quick: bool) -> dict[str, Any]:
    """Time and memory of fractions of foreground."""
    images = torch.from_numpy(np.resize(train_rows("cifar10_small"), (100 if quick else 10_000, 32, 32, 3)))
    scaler, encoder = Pixels((32, 32, 3)), SmallCNN().eval()
    scaler.fit(images, "auto")
    noise_tolerance(encoder, Samples(images[:1000], scaler))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found: list[torch.Tensor] = []
    taken = seconds(lambda: found.extend(noise_tolerance(encoder, Samples(images, scaler))))
    return {
        "images": len(images),
        "seconds": round(taken, 2),
        "bytes_per_image": found[0].element_size(),
        "peak_growth_mib": round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, 1),
        "target": "at most 8 bytes per image",
    }


def quality(quick: bool) -> dict[str, Any]:
    """Time and rank correlation of quality from encoder features and from cached maps."""
    x = train_rows("cifar10_small")[: 64 if quick else 2048]
    model, encoder = _from_encoder(x, 1 if quick else 12)
    cached = _from_cache(model, x, 1 if quick else 6)
    return {**encoder, **cached, "target": "at least 5 times faster, Spearman at least 0.95"}


def _from_encoder(x: np.ndarray, epochs: int) -> tuple[GenView, dict[str, Any]]:
    """Quality from the features that the encoder computes in training, while the encoder moves away from its copy."""
    ranks, times, steps, weights = [], [], itertools.count(), GenViewMethod.weights

    def with_timing(method: GenViewMethod, batch: Any, pair: PositivePair, sources: Any, passes: Any) -> Any:
        if passes is not None and next(steps) % 6 == 0:
            q, n = method.quality, len(batch.x)
            assert q is not None
            ranks.append(_correlation(q(pair.first, pair.second), q.from_passes(passes, n)))
            slow = seconds(lambda: q(pair.first, pair.second))
            times.append((slow, seconds(lambda: q.from_passes(passes, n))))
        return weights(method, batch, pair, sources, passes)

    with unittest.mock.patch.object(GenViewMethod, "weights", with_timing):
        model = GenView(encoder="cnn", epochs=epochs, alpha=0.0, quality_features="encoder", random_state=0).fit(x)
    return model, {
        "ms_views": _ms(a for a, _ in times),
        "ms_encoder": _ms(b for _, b in times),
        "speedup_encoder": round(statistics.median(a / b for a, b in times), 1),
        "spearman_encoder": [round(rank, 3) for rank in ranks],
    }


def _from_cache(model: GenView, images: np.ndarray, rounds: int) -> dict[str, Any]:
    """Quality from cached feature maps."""
    quality: Any = model.method_.quality
    rows: Any = model.samples(images)
    scaler: Any = model.scaler_
    caching = seconds(lambda: quality.cache_maps([rows]))
    recipe: Any = image_recipe("simclr", size=32, mean=scaler.center.tolist(), std=scaler.scale.tolist())
    index = torch.arange(min(256, len(rows)))
    source = torch.zeros_like(index)  # 0: the sample
    ranks, times = [], []
    for round_ in range(rounds):
        x = rows[index]
        pair = recipe.pair(PositivePair(x, x), generator=torch.Generator().manual_seed(round_))
        full = quality(pair.first, pair.second)
        crops = quality(*(crop(x, each.boxes * 32, flip=each.flip) for each in pair.crops))
        cached = quality.from_cached_maps(index, (source, source), pair.crops)
        ranks.append((_correlation(full, cached), _correlation(crops, cached), _correlation(full, crops)))
        times.append(_times(quality, pair, index, source))
    return {
        "ms_cached": _ms(b for _, b in times),
        "speedup_cached": round(statistics.median(a / b for a, b in times), 1),
        "spearman_cached": round(statistics.median(a for a, _, _ in ranks), 3),
        "spearman_cached_crops_alone": round(statistics.median(b for _, b, _ in ranks), 3),
        "spearman_views_and_crops_alone": round(statistics.median(c for _, _, c in ranks), 3),
        "seconds_to_cache": round(caching, 2),
        "rows": len(rows),
    }


def _times(quality: ViewQuality, pair: Any, index: torch.Tensor, source: torch.Tensor) -> tuple[float, float]:
    slow = seconds(lambda: quality(pair.first, pair.second))
    return slow, seconds(lambda: quality.from_cached_maps(index, (source, source), pair.crops))


def _correlation(q: torch.Tensor, other: torch.Tensor) -> float:
    return float(spearmanr(q, other).statistic)


def _ms(times: Iterable[float]) -> float:
    return round(1e3 * statistics.median(times), 2)


def generator(name: str, quick: bool) -> dict[str, Any]:
    """Time of generated views compared with the training."""
    x = train_rows(name)[: 300 if quick else None]
    epochs = 1 if quick else math.ceil(40 / max(1, len(x) // 256))
    model = DiffAug(phases="AB", epochs=epochs, generator_epochs=epochs, random_state=0)
    training = seconds(lambda: model.fit(x)) * 300 / (epochs * max(1, len(x) // 256))
    generated: Any = model.method_.generated
    rows = model.samples(x)

    def views() -> None:
        with torch.no_grad():
            strength = level_to_strength(torch.arange(len(rows)) % 5 * 100)
            for part in torch.arange(len(rows)).split(256):
                generated.generate(rows[part], None, torch.Generator().manual_seed(0), strength[part])

    taken = seconds(views)
    return {
        "rows": len(x),
        "seconds_views": round(taken, 1),
        "seconds_training": round(training, 1),
        "fraction_of_training": round(taken / (taken + training), 3),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parts: dict[str, Callable[[bool], dict[str, Any]]] = {
        "unclip": unclip,
        "foreground": foreground,
        "quality": quality,
    }
    parts |= {name: partial(generator, name) for name in ("letter", "cifar10_small")}
    options = parser(__doc__)
    options.add_argument("parts", nargs="*", metavar="part", help=", ".join(parts))
    given = read(options, arguments)
    for name in given.parts or parts:
        clock_name = "process time" if given.threads == 1 else "wall"
        with tiny_data(given.quick):
            found = parts[name](given.quick)
        record("genview_cost", {"part": name, **found, "clock": clock_name}, given)


if __name__ == "__main__":
    main()
