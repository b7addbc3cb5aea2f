"""How many steps does a training on few images or recordings need?

Sets: crops of cells of 364 blood smears, 16 x 16 pixels, red and white cells and platelets, equally many, 364 for
training and 567 of other images for tests; PickupGestureWiimoteZ, 50 recordings. Rows: numbers of steps, of which
1,500 is the default; "untrained": the encoder before training. CPU seconds of a fit beside the scores.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.few_samples [minutes] [set or row] [--quick]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.common.data import Data, data_folder
from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.linear_contrast import image_set, ucr, usage
from benchmarks.quality.suite import command
from viewsmith import Contrastive
from viewsmith.estimator.resolve import default_epochs
from viewsmith.evaluation.protocol import evaluate_embedding

SEEDS = (0, 1, 2)
SIDE, TRAIN, TEST = 16, 364, 600


def cells_of_smears() -> Data:
    """Crops of cells by their boxes, squares of the longer side, as many of each class; other images for tests."""
    import pandas as pd
    from PIL import Image

    folder = data_folder() / "objects" / "bccd"
    boxes = pd.read_csv(folder / "boxes.csv").sample(frac=1, random_state=0)
    files = sorted(boxes["file"].unique())
    in_train = boxes["file"].isin(files[::2])
    parts: list[np.ndarray] = []
    for rows, some in ((TRAIN, boxes[in_train]), (TEST, boxes[~in_train])):
        each = [group.head(-(-rows // 3)) for _, group in some.groupby("class")]
        chosen = pd.concat(each).sample(frac=1, random_state=0)[:rows]
        crops = []
        for box in chosen.itertuples():
            half = max(box.right - box.left, box.bottom - box.top) / 2
            x, y = (box.left + box.right) / 2, (box.top + box.bottom) / 2
            with Image.open(folder / "images" / box.file) as image:
                square = image.convert("RGB").crop((x - half, y - half, x + half, y + half))
            crops.append(np.asarray(square.resize((SIDE, SIDE), Image.Resampling.BOX)))
        parts += [np.stack(crops), np.unique(chosen["class"], return_inverse=True)[1]]
    return Data(*parts)


SETS: dict[str, Callable[[], Data]] = {
    "smears": cells_of_smears,
    "PickupGestureWiimoteZ": partial(ucr, "PickupGestureWiimoteZ"),
}
ROWS = {"1,500 steps": 1500, "500 steps": 500, "200 steps": 200, "untrained": 0}


def work(name: str, row: str, seed: int, small: int | None = None) -> dict[str, Any]:
    """The results of a cell."""
    torch.set_num_threads(1)
    data = image_set("cifar10_small") if small else SETS[name]()
    if small is not None:
        data = Data(data.x[:small], data.y[:small], data.x_test[:small], data.y_test[:small])
    modality = "images" if data.x.dtype == np.uint8 else "series"
    steps = min(2, ROWS[row]) if small else ROWS[row]
    started = usage()[0]
    with warnings.catch_warnings(action="ignore"):
        epochs = default_epochs(len(data.x), 256, max(1, steps))
        model: Any = Contrastive(random_state=seed, modality=modality, epochs=epochs).fit(data.x)
    fitted = usage()[0] - started
    if steps == 0:
        model = model.untrained(data.x)
    scores = evaluate_embedding(
        model.transform(data.x), data.y, model.transform(data.x_test), data.y_test, protocols=("linear", "knn")
    )
    return {
        **{metric: round(value, 4) for metric, value in scores.items()},
        "cpu_seconds_fit": round(fitted, 1),
        "steps": model.summary_["steps"],
        "rows": len(data.x),
    }


def cells(quick: bool = False) -> list[Cell]:
    """All cells; with `quick` of 60 tiny images."""
    small = 60 if quick else None
    return [
        Cell(name, row, seed, partial(work, name, row, seed, small)) for name in SETS for row in ROWS for seed in SEEDS
    ]


if __name__ == "__main__":
    command(__doc__, RESULTS / "few_samples.jsonl", cells)
