"""Seconds to score what `viewsmith evaluate` scores at 10,000 x 2,000: raw rows, PCA and two 256-d embeddings.

Synthetic timing data, no claim about quality: 20 classes as Gaussian clouds of 60 hidden dimensions, spread over
2,000 columns with noise of equal size; 8,000 train and 2,000 test rows. The embeddings are rectified random
projections, as wide as a representation. All protocols. Target: at most 2 minutes in total on two cores.

    OMP_NUM_THREADS=2 python benchmarks/evaluate_speed.py 2
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import scipy
import sklearn
import torch
from runner import RESULTS, commit

from viewsmith.evaluation import PROTOCOLS, evaluate_embedding, label_free, pca

ROWS, TRAIN, FEATURES, HIDDEN, CLASSES = 10_000, 8_000, 2_000, 60, 20
TARGET_SECONDS = 120


def synthetic(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows (10000, 2000), float32, and their classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, ROWS)
    centers = rng.normal(size=(CLASSES, HIDDEN)) * 0.5
    hidden = (centers[y] + rng.normal(size=(ROWS, HIDDEN))).astype(np.float32)
    mixing = rng.normal(size=(HIDDEN, FEATURES)).astype(np.float32) / np.float32(np.sqrt(2 * HIDDEN))
    return hidden @ mixing + rng.standard_normal((ROWS, FEATURES), dtype=np.float32), y


def projected(x: np.ndarray, seed: int) -> np.ndarray:
    """Rectified random projection, (n, 256)."""
    weights = np.random.default_rng(seed).standard_normal((x.shape[1], 256), dtype=np.float32)
    return np.maximum(x @ weights / np.float32(np.sqrt(x.shape[1])), 0)


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def main() -> None:
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    torch.set_num_threads(threads)
    load = os.getloadavg()[0]
    x, y = synthetic()
    raw = x[:TRAIN], x[TRAIN:]
    makers = {
        "raw": lambda: raw,
        "pca": lambda: pca(*raw),
        "projection 1": lambda: (projected(raw[0], 1), projected(raw[1], 1)),
        "projection 2": lambda: (projected(raw[0], 2), projected(raw[1], 2)),
    }
    seconds: dict[str, float] = {}
    for name, make in makers.items():
        started = time.perf_counter()
        train, test = make()
        seconds[f"{name}: embed"] = time.perf_counter() - started
        # Protocol by protocol to time the parts; the three numbers of one k-means are asked for together.
        for group in _groups():
            started = time.perf_counter()
            scores = evaluate_embedding(train, y[:TRAIN], test, y[TRAIN:], protocols=group)
            seconds[f"{name}: {group[0]}"] = time.perf_counter() - started
            shown = ", ".join(f"{key} {value:.3f}" for key, value in scores.items())
            print(f"{name:14} {seconds[f'{name}: {group[0]}']:6.1f} s  {shown}", flush=True)
        started = time.perf_counter()
        label_free(test)
        seconds[f"{name}: label-free"] = time.perf_counter() - started
    total = sum(seconds.values())
    print(f"total {total:.1f} s, target {TARGET_SECONDS} s: {'met' if total <= TARGET_SECONDS else 'MISSED'}")
    line = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "total_seconds": round(total, 1),
        "seconds": {part: round(value, 2) for part, value in seconds.items()},
        "threads": threads,
        # Other work on the machine slows two threads far more than one: a line is to be read with this beside it.
        "load_before": round(load, 1),
        "cpu": cpu_model(),
        "python": platform.python_version(),
        "versions": {module.__name__: module.__version__ for module in (torch, np, scipy, sklearn)},
    }
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "evaluate_speed.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _groups() -> list[list[str]]:
    clusters = ["kmeans_accuracy", "nmi", "ari"]
    clusters_l2 = [f"{name}_l2" for name in clusters]
    single = [[name] for name in PROTOCOLS if name not in (*clusters, *clusters_l2)]
    return [*single, clusters, clusters_l2]


if __name__ == "__main__":
    main()
