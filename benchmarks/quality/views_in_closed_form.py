"""The views of each method through the contrast in closed form: which are better than fixed ones, in seconds a cell.

A method is trained for `STEPS` steps. Its views of the train rows, `VIEWS` of each, are then the views of
`LinearContrast`, whose features, ridge and columns are chosen as always: what views are worth does not depend on a
network. Rows: "features" (no views), "fixed" (the default views of `LinearContrast`), "neighbors", "noise" (random
noise of deviation 1 on scaled samples), "pinda" (learned noise on the fixed views of the method), "diffaug" and
"genview" (generated samples), "crl-tac" (subsets or crops of a learned channel) and "uniform" (of a uniform one).

Sets have at most `ROWS` train and test rows, drawn with seed 0.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.views_in_closed_form [minutes] [set or row ...] [--quick]
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.common.data import SETS as ALL
from benchmarks.common.data import Data, DataSet, load
from benchmarks.common.runner import RESULTS, Cell
from benchmarks.quality.linear_contrast import features
from benchmarks.quality.suite import command, rounded
from viewsmith import CRLTAC, Contrastive, DiffAug, GenView, LinearContrast, PiNDA
from viewsmith.evaluation.protocol import evaluate_embedding
from viewsmith.views import ViewMaker

PATH = RESULTS / "views_in_closed_form.jsonl"
ROWS, STEPS, VIEWS = 1000, 200, 8
PROTOCOLS = ("linear", "knn", "linear_1pct")
SEEDS = (0, 1, 2)
SETS = {
    name: DataSet(known.file, known.modality, ROWS, ROWS, known.wide)
    for name, known in (ALL | {"mnist": DataSet("mnist", "images")}).items()
    if known.modality in ("vectors", "images")
}
METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    "neighbors": (Contrastive, {"view_maker": "neighbors"}),
    "noise": (Contrastive, {"view_maker": "noise", "noise_strength": 1.0}),
    "pinda": (PiNDA, {}),
    "diffaug": (DiffAug, {}),
    "genview": (GenView, {}),
    "crl-tac": (CRLTAC, {}),
    "uniform": (CRLTAC, {"channel": "uniform"}),
}
DRAWN = ("neighbors", "noise")  # from a maker that does not learn
CELLS = ("features", "fixed", *METHODS)


class Drawn(ViewMaker):
    """Views that were drawn before, (n, m, ...), of the rows of the pool; of other rows, the rows themselves."""

    def __init__(self, views: Tensor) -> None:
        super().__init__()
        self.register_buffer("views", views, persistent=False)

    def forward(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        if index is None:
            return x
        views: Any = self.views
        return views[index, torch.randint(views.shape[1], (len(x),), generator=generator)]


def views_of(method: Any, options: dict[str, Any], data: Data, seed: int, steps: int) -> Tensor:
    """Scaled views of the train rows by a trained method, (n, `VIEWS`, ...)."""
    epochs = max(1, round(steps / max(1, len(data.x) // 256)))
    model = method(random_state=seed, epochs=epochs, **options).fit(data.x)
    views = model.views(data.x, VIEWS)
    if views.shape[2:] != data.x.shape[1:]:  # crops are smaller than their images
        pixels = torch.from_numpy(views).float().reshape(-1, *views.shape[2:4], data.x[0, 0, 0].size).movedim(3, 1)
        pixels = F.interpolate(pixels, data.x.shape[1:3], mode="bilinear", antialias=True)
        views = pixels.round().byte().movedim(1, 3).reshape(len(views), VIEWS, *data.x.shape[1:]).numpy()
    scaled = torch.from_numpy(model.scaled(views.reshape(-1, *views.shape[2:])))
    return scaled.view(len(views), VIEWS, *scaled.shape[1:])


def work(name: str, row: str, seed: int, quick: bool = False) -> dict[str, Any]:
    """Scores of the closed form with the views of a row, and seconds of making them and of all."""
    torch.set_num_threads(1)
    data, started = load(SETS[name]), time.process_time()
    given: dict[str, Any] = {}
    if row in METHODS:
        method, options = METHODS[row]
        if quick and row in ("diffaug", "genview"):
            options = {"generator_epochs": 1, "sampler_steps": 1}
        views = views_of(method, options, data, seed, 1 if quick or row in DRAWN else STEPS)
        given = {"view_maker": Drawn(views)}
    made = time.process_time() - started
    # Columns alone: nothing that is appended tells what the views do not.
    model = LinearContrast(random_state=seed, appended_pca=0, **given).fit(data.x)
    if row == "features":
        pair = features(model, data.x), features(model, data.x_test)
    else:
        pair = model.transform(data.x), model.transform(data.x_test)
    scores = evaluate_embedding(pair[0], data.y, pair[1], data.y_test, protocols=PROTOCOLS)
    facts = {key: model.summary_[key] for key in ("ridge", "columns")} if row != "features" else {}
    nats = {"nats": max(model.summary_["held_out_nats"].values(), default=None)} if row != "features" else {}
    return {
        **rounded(scores),
        **facts,
        **nats,
        "seconds_views": round(made, 2),
        "seconds": round(time.process_time() - started, 2),
        "rows": len(data.x),
    }


def cells(quick: bool = False) -> list[Cell]:
    """All cells, one seed after another; the fixed features are those of every seed."""
    return [
        Cell(name, row, seed, partial(work, name, row, seed, quick))
        for seed in SEEDS[: 1 if quick else None]
        for row in CELLS
        for name in SETS
    ]


if __name__ == "__main__":
    command(__doc__, PATH, cells, kind=lambda name: SETS[name].modality)
