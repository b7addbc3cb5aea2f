"""Do GenView's quality weights help on vectors and DNA, with and without `quality_diversity`? Paired by seed.

GenView without a view cache on 2,000 random train rows, 240 encoder steps (DNA: 120), batch 256; the encoder is copied
after a quarter of the steps. Linear and kNN (cosine, k = 5) accuracy on at most 1,000 test rows. Without weights, with
quality as the cosine similarity, and with `quality_diversity`; gamma 1 and 5; seeds 0 to 2. Every finished cell is a
line of the file --out and is not run again.

    VIEWSMITH_DATA=folder OMP_NUM_THREADS=1 python -m benchmarks.quality.generated.genview_diversity --out FILE
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from viewsmith import GenView

STEPS = {"optdigits": 240, "satimage": 240, "dna_human_core_promoter": 120}
ARMS: dict[str, dict[str, Any]] = {
    "none": {"quality": False},
    "cosine1": {"gamma": 1.0},
    "diverse1": {"gamma": 1.0, "quality_diversity": True},
    "cosine5": {"gamma": 5.0},
    "diverse5": {"gamma": 5.0, "quality_diversity": True},
}
ROWS, TEST_ROWS = 2000, 1000


def rows(name: str, split: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """At most `count` random rows of a split, and their classes."""
    with np.load(Path(os.environ["VIEWSMITH_DATA"]) / f"{name}.npz") as data:
        some = np.random.default_rng(0).permutation(len(data[f"X_{split}"]))[:count]
        return data[f"X_{split}"][some], data[f"y_{split}"][some]


def cell(name: str, arm: str, seed: int) -> dict[str, Any]:
    """One training and its scores."""
    began = time.process_time()
    (x, y), (x_test, y_test) = rows(name, "train", ROWS), rows(name, "test", TEST_ROWS)
    epochs = STEPS[name] * 256 // ROWS
    model = GenView(epochs=epochs, first_fraction=0.25, random_state=seed, **ARMS[arm]).fit(x)
    h, h_test = model.transform(x), model.transform(x_test)
    linear = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, max_iter=500)).fit(h, y)
    neighbors = KNeighborsClassifier(5, metric="cosine").fit(h, y)
    scores = {"linear": linear.score(h_test, y_test), "knn": neighbors.score(h_test, y_test)}
    weight = model.metrics_[-1].get("largest_weight")
    return {"cell": [name, arm, seed], **scores, "largest_weight": weight, "cpu": time.process_time() - began}


def main() -> None:
    parser = argparse.ArgumentParser(description="GenView's quality weights on vectors and DNA.")
    parser.add_argument("--out", type=Path, required=True, help="file of JSON lines")
    out = parser.parse_args().out
    warnings.simplefilter("ignore")
    done = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    for name in STEPS:
        for seed in range(3):
            for arm in ARMS:
                if [name, arm, seed] not in [each["cell"] for each in done]:
                    done.append(cell(name, arm, seed))
                    with out.open("a") as file:
                        file.write(json.dumps(done[-1]) + "\n")
        for arm in list(ARMS)[1:]:
            for score in ("linear", "knn"):
                values = {(each["cell"][1], each["cell"][2]): each[score] for each in done if each["cell"][0] == name}
                gains = [values[arm, seed] - values["none", seed] for seed in range(3)]
                print(f"{name} {arm} {score}: {np.mean(gains):+.3f} ({', '.join(f'{gain:+.3f}' for gain in gains)})")


if __name__ == "__main__":
    main()
