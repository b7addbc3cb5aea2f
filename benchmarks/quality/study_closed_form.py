"""Dictionary, regions, ridge and number of columns of `LinearContrast`, chosen without labels: how much is lost.

Images: a part of the train rows is fitted, another one of them scored (linear, 5 neighbors); the test part is not used.
Each cell is a dictionary (centers, regions) with its ridge chosen by held-out information; the row has the nats of all
ridges. In the default cell, "solved" has the scores of every ridge and of every number of columns.

"few recordings": sets of the UCR and UEA archives (AEON=folder of the datasets of the package aeon); a quarter of the
train rows is scored in turn, the mean of both numbers of features and of weights of appended principal components.
"beside a training": the columns of `LinearContrast`, of the default `Contrastive`, its 256 trained columns alone, and
side by side with squared lengths in a ratio; of recordings a half of the train rows is fitted, the other one scored.

The table has the regret, the best score of a grid less that of the choice: by the largest nats, and by the default.

    export VIEWSMITH_DATA=folder OMP_NUM_THREADS=1
    python -m benchmarks.quality.study_closed_form [minutes] [set or row ...] [--quick]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import StratifiedKFold, train_test_split

from benchmarks.common.data import DataSet, load
from benchmarks.common.runner import RESULTS, Cell, rows
from benchmarks.quality.linear_contrast import features, ucr
from benchmarks.quality.suite import command
from viewsmith import Contrastive, LinearContrast
from viewsmith.evaluation.protocol import evaluate_embedding
from viewsmith.networks.scaling import rotation

PATH = RESULTS / "study_closed_form.jsonl"
SETS = ("cifar10_small", "fashion_mnist", "mnist")
FITTED, SCORED = 1500, 1000  # train rows that are fitted, and others that are scored
DEFAULT = (256, 3)  # centers and regions
GRID = (DEFAULT, (128, 3), (512, 3), (256, 2), (256, 4))
RIDGES, WIDTHS = (0.01, 0.03, 0.1, 0.3, 1.0), (32, 64, 128, 256)
PROTOCOLS = ("linear", "knn")
FEW = ("GunPoint", "ArrowHead", "ItalyPowerDemand", "BasicMotions", "OSULeaf")
FEATURES, SHARES = (2000, 10_000), (0.03, 0.1, 0.3, 1.0, 3.0)
BESIDE = {"cifar10_small": 4000, "fashion_mnist": 3000, "GunPoint": 0, "ItalyPowerDemand": 0}  # images that are fitted
TRAINED, RATIOS = 256, (0.3, 1.0, 3.0)


def work(name: str, centers: int, regions: int, seed: int, quick: bool = False) -> dict[str, Any]:
    """Nats and scores of a dictionary."""
    torch.set_num_threads(1)
    data = load(DataSet(name, "images"))
    order = np.random.default_rng(0).permutation(len(data.x))[: FITTED + SCORED]
    chosen = (order[:60], order[60:120]) if quick else (order[:FITTED], order[FITTED:])
    (x, y), (x_scored, y_scored) = ((data.x[part], data.y[part]) for part in chosen)
    model = LinearContrast(random_state=seed, features_options={"centers": centers, "regions": regions}).fit(x)
    method: Any = model.method_

    def scores() -> dict[str, float]:
        h, h_scored = model.transform(x), model.transform(x_scored)
        found = evaluate_embedding(h, y, h_scored, y_scored, protocols=PROTOCOLS)
        return {name: round(value, 4) for name, value in found.items()}

    facts = dict(method.facts)
    result: dict[str, Any] = {"ridge": facts["ridge"], "columns": facts["columns"], "nats": facts["held_out_nats"]}
    result |= scores()
    if (centers, regions) == DEFAULT:
        grid = [(ridge, None) for ridge in RIDGES] + [(facts["ridge"], width) for width in WIDTHS]
        solved = []
        for ridge, width in grid:
            method.ridge, method.n_components = ridge, width if width is None else min(width, len(x) - 1)
            method.use(method.sums)
            solved.append({"ridge": ridge, "width": width, **scores()})
        result["solved"] = solved
    return result


def size(h: np.ndarray) -> float:
    """Root mean square length of rows."""
    return float(np.sqrt((h**2).sum(1).mean()))


def few_recordings(name: str) -> dict[str, Any]:
    """Mean scores over folds of train rows, by what the representation is made of."""
    torch.set_num_threads(1)
    data, found = ucr(name), dict[str, dict[str, list[float]]]()

    def add(row: str, scores: dict[str, float]) -> None:
        for protocol, value in scores.items():
            found.setdefault(row, {}).setdefault(protocol, []).append(value)

    folds = StratifiedKFold(min(4, np.bincount(data.y).min()), shuffle=True, random_state=0)
    for fitted, scored in folds.split(data.x, data.y):
        x, y, x_scored, y_scored = data.x[fitted], data.y[fitted], data.x[scored], data.y[scored]

        def scores(h: np.ndarray, h_scored: np.ndarray, y: Any = y, y_scored: Any = y_scored) -> dict[str, float]:
            return evaluate_embedding(h, y, h_scored, y_scored, protocols=PROTOCOLS)

        for number in FEATURES:
            options = {"modality": "series", "features_options": {"n_features": number}}
            model = LinearContrast(random_state=0, **options).fit(x)
            f, f_scored = features(model, x), features(model, x_scored)
            ridge = RidgeClassifierCV(np.logspace(-3, 3, 10)).fit(f, y).score(f_scored, y_scored)
            add(f"{number} features", scores(f, f_scored) | {"ridge": ridge})
            add(f"{number} default", scores(model.transform(x), model.transform(x_scored)))
            c, c_scored = (model.transform(part, output="projection") for part in (x, x_scored))
            turn = rotation(c.shape[1]).numpy()
            c, c_scored = c @ turn, c_scored @ turn
            add(f"{number} columns alone", scores(c, c_scored))
            k = min(64, len(x) - 1)
            axes = np.linalg.svd(f, full_matrices=False)[2][:k].T @ rotation(k).numpy()
            pcs, pcs_scored = f @ axes, f_scored @ axes
            for share in SHARES:
                weight = size(c) / size(pcs) * share**0.5
                both = np.c_[c, weight * pcs], np.c_[c_scored, weight * pcs_scored]
                add(f"{number} components x {share:g}", scores(*both))
    return {"scores": {row: {p: round(float(np.mean(v)), 4) for p, v in each.items()} for row, each in found.items()}}


def beside_a_training(name: str, rows_fitted: int) -> dict[str, Any]:
    """Scores of the closed form, of a training, and of both side by side."""
    torch.set_num_threads(1)
    if rows_fitted:
        data, given = load(DataSet(name, "images")), dict[str, Any]()
        order = np.random.default_rng(0).permutation(len(data.x))
        fitted, scored = order[:rows_fitted], order[rows_fitted : rows_fitted + SCORED]
    else:
        data, given = ucr(name), {"modality": "series"}
        halves: dict[str, Any] = {"test_size": 0.5, "random_state": 0, "stratify": data.y}
        fitted, scored = train_test_split(np.arange(len(data.x)), **halves)
    x, y, x_scored, y_scored = data.x[fitted], data.y[fitted], data.x[scored], data.y[scored]
    closed, trained = (
        [model.transform(part) for part in (x, x_scored)]
        for model in (method(random_state=0, **given).fit(x) for method in (LinearContrast, Contrastive))
    )
    alone = [h[:, :TRAINED] for h in trained]
    made = {"closed form": closed, "trained": trained, "trained columns": alone}
    for ratio in RATIOS:
        weight = size(alone[0]) / size(closed[0]) * ratio**0.5
        made[f"side by side x {ratio:g}"] = [np.c_[a, weight * c] for a, c in zip(alone, closed, strict=True)]
    protocols = (*PROTOCOLS, "linear_1pct", "linear_10pct") if np.bincount(y).min() >= 10 else PROTOCOLS
    scores = {row: evaluate_embedding(h[0], y, h[1], y_scored, protocols=protocols) for row, h in made.items()}
    return {"scores": {row: {p: round(v, 4) for p, v in each.items()} for row, each in scores.items()}}


def regrets(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each set and seed and each grid, the best score less that of each choice, by protocol."""
    lines = []
    for name, seed in sorted({(row["dataset"], row["seed"]) for row in found}):
        of_set = [row for row in found if (row["dataset"], row["seed"]) == (name, seed) and "nats" in row]
        cells = {row["method"]: row for row in of_set}
        default = cells.get("{} centers, {} regions".format(*DEFAULT))
        if default is None:
            continue
        most = max(cells, key=lambda each: max(cells[each]["nats"].values()))
        of_ridge = {each["ridge"]: each for each in default["solved"] if each["width"] is None}
        of_width = [each for each in default["solved"] if each["width"] is not None]
        for protocol in PROTOCOLS:
            best = max(row[protocol] for row in cells.values())
            lines.append(
                {
                    "dataset": name,
                    "seed": seed,
                    "protocol": protocol,
                    "nats choose": most,
                    "by nats": best - cells[most][protocol],
                    "by default": best - default[protocol],
                    "ridge": max(each[protocol] for each in of_ridge.values()) - of_ridge[default["ridge"]][protocol],
                    "columns": max(default[protocol], *(each[protocol] for each in of_width)) - default[protocol],
                }
            )
    return lines


def table(found: Sequence[dict[str, Any]]) -> str:
    """The regrets as a Markdown table."""
    head = ["| set | protocol | dictionary of the most nats | its regret | regret of the default | ridge | columns |"]
    head.append("|---|---|---|---|---|---|---|")
    return "\n".join(
        head
        + [
            f"| {line['dataset']} | {line['protocol']} | {line['nats choose']} | "
            + " | ".join(f"{line[key]:.3f}" for key in ("by nats", "by default", "ridge", "columns"))
            + " |"
            for line in regrets(found)
        ]
    )


def cells(quick: bool = False) -> list[Cell]:
    """All cells: dictionaries, the default first; recordings; beside a training. With `quick` 60 tiny images."""
    if quick:
        return [Cell(SETS[0], "{} centers, {} regions".format(*DEFAULT), 0, partial(work, SETS[0], *DEFAULT, 0, True))]
    found = [Cell(name, f"{c} centers, {r} regions", 0, partial(work, name, c, r, 0)) for c, r in GRID for name in SETS]
    found += [Cell(name, "few recordings", 0, partial(few_recordings, name)) for name in FEW]
    found += [Cell(name, "beside a training", 0, partial(beside_a_training, name, n)) for name, n in BESIDE.items()]
    return found


if __name__ == "__main__":
    command(__doc__, PATH, cells)
    print(table(rows(PATH)))
