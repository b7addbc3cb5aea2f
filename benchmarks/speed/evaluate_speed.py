"""Time of all protocols of `viewsmith evaluate` on 10,000 x 2,000 data: raw rows, PCA and two 256-d embeddings.

The data are synthetic, for timing only: 20 Gaussian classes in 60 hidden dimensions, mapped linearly to 2,000 columns
plus noise; 8,000 train and 2,000 test rows. The embeddings are rectified random projections, as wide
as a default representation. Target: at most 2 minutes in total on two cores. Other work on the machine slows two
threads far more than one, so every result has the load of the machine at the start (`load_before`).

    OMP_NUM_THREADS=2 python -m benchmarks.speed.evaluate_speed [--threads 2] [--quick]
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.speed.timing import parser, read, record
from viewsmith.evaluation import PROTOCOLS, evaluate_embedding, label_free, pca

ROWS, FEATURES, HIDDEN, CLASSES = 10_000, 2_000, 60, 20
TARGET_SECONDS = 120


def synthetic(rows: int, features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, d), float32, and their classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, rows)
    centers = rng.normal(size=(CLASSES, HIDDEN)) * 0.5
    hidden = (centers[y] + rng.normal(size=(rows, HIDDEN))).astype(np.float32)
    mixing = rng.normal(size=(HIDDEN, features)).astype(np.float32) / np.float32(np.sqrt(2 * HIDDEN))
    return hidden @ mixing + rng.standard_normal((rows, features), dtype=np.float32), y


def projected(x: np.ndarray, seed: int) -> np.ndarray:
    """ReLU of a random projection, (n, 256)."""
    weights = np.random.default_rng(seed).standard_normal((x.shape[1], 256), dtype=np.float32)
    return np.maximum(x @ weights / np.float32(np.sqrt(x.shape[1])), 0)


def main(arguments: Sequence[str] | None = None) -> None:
    given = read(parser(__doc__, threads=2), arguments)
    load = os.getloadavg()[0]
    x, y = synthetic(*((500, 300) if given.quick else (ROWS, FEATURES)))
    train = 4 * len(x) // 5
    raw = x[:train], x[train:]
    makers = {
        "raw": lambda: raw,
        "pca": lambda: pca(*raw),
        "projection 1": lambda: (projected(raw[0], 1), projected(raw[1], 1)),
        "projection 2": lambda: (projected(raw[0], 2), projected(raw[1], 2)),
    }
    seconds: dict[str, float] = {}
    for name, make in makers.items():
        started = time.perf_counter()
        h, h_test = make()
        seconds[f"{name}: embed"] = time.perf_counter() - started
        # Protocols are timed one by one, except those that use the same k-means.
        for group in _groups():
            started = time.perf_counter()
            scores = evaluate_embedding(h, y[:train], h_test, y[train:], protocols=group)
            seconds[f"{name}: {group[0]}"] = time.perf_counter() - started
            text = ", ".join(f"{key} {value:.3f}" for key, value in scores.items())
            print(f"{name:14} {seconds[f'{name}: {group[0]}']:6.1f} s  {text}", flush=True)
        started = time.perf_counter()
        label_free(h_test)
        seconds[f"{name}: label-free"] = time.perf_counter() - started
    total = sum(seconds.values())
    print(f"total {total:.1f} s, target {TARGET_SECONDS} s: {'met' if total <= TARGET_SECONDS else 'MISSED'}")
    row = {
        "total_seconds": round(total, 1),
        "seconds": {part: round(value, 2) for part, value in seconds.items()},
        "load_before": round(load, 1),
    }
    record("evaluate_speed", row, given)


def _groups() -> list[list[str]]:
    clusters = ["kmeans_accuracy", "nmi", "ari"]
    clusters_l2 = [f"{name}_l2" for name in clusters]
    single = [[name] for name in PROTOCOLS if name not in (*clusters, *clusters_l2)]
    return [*single, clusters, clusters_l2]


if __name__ == "__main__":
    main()
