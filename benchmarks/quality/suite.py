"""What the studies share: rows and how they are trained, searched and scored; cells, and the command of a study.

A study is a declaration: data sets, rows (trained ones and baselines), the budget of training steps, and stages, which
say what is measured first. A cell is one row on one set with one seed.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from benchmarks.common.data import Data, DataSet, load
from benchmarks.common.runner import RESULTS, Cell, rows, run
from viewsmith.estimators import ViewsmithEstimator
from viewsmith.evaluation.baselines import pca, umap
from viewsmith.evaluation.label_free import neighbor_r2
from viewsmith.evaluation.protocol import evaluate_embedding

Scores = dict[str, Any]
Pair = tuple[np.ndarray, np.ndarray]  # of train and test rows

SEEDS = (0, 1, 2)
# What is kept of the last metrics of a training that has them.
KEPT = (
    *("loss", "effective_rank", "noise_level", "noise_spread", "drift", "generated_similarity", "quality"),
    *("largest_weight", "feature_cosine", "margin", "information", "effective", "largest_p"),
)


@dataclass(frozen=True)
class Budget:
    """Encoder steps of a training: on vectors (`wide` of them apart, if given), and on images and DNA."""

    vectors: int = 0
    domains: int = 0
    wide: int | None = None

    def epochs(self, dataset: DataSet, rows: int, batch: int) -> int:
        """At least so many steps in whole epochs."""
        steps = self.vectors if dataset.domain == "vectors" else self.domains
        if dataset.wide and self.wide is not None:
            steps = self.wide
        return math.ceil(steps / max(1, rows // batch))


@dataclass(frozen=True)
class Search:
    """An option that each training chooses for itself.

    Each value is trained with the search's own budget on 80 % of the train rows and scored with labels on the other
    20 % (mean of 1 %, linear and 5-nearest-neighbor accuracy). Test labels choose nothing. What the best neighbor R^2,
    which needs no labels, would have chosen is recorded beside it.
    """

    option: str
    values: tuple[float, ...]
    budget: Budget


@dataclass(frozen=True)
class Trained:
    """A row that is trained: an estimator and its options; `on` has the options of some sets alone, by name."""

    estimator: type[ViewsmithEstimator]
    options: Mapping[str, Any] = field(default_factory=dict)
    on: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    search: Search | None = None
    budget: Budget | None = None
    random = True

    def model(self, name: str, dataset: DataSet, budget: Budget, rows: int, seed: int, **given: Any) -> Any:
        """The estimator for a number of train rows."""
        options = {**self.options, **self.on.get(name, {}), **given}
        epochs = budget.epochs(dataset, rows, options.get("batch_size", 256))
        return self.estimator(**{"epochs": epochs, "random_state": seed} | options)


@dataclass(frozen=True)
class Baseline:
    """A row that learns nothing: representations made of train and test rows' features and a seed.

    Features are the preferred raw ones, or those that `features` takes from the fitted reference.
    """

    make: Callable[[np.ndarray, np.ndarray, int], Pair]
    random: bool = True
    score: Callable[[np.ndarray, np.ndarray, Data], Scores] | None = None
    features: Callable[[Any, np.ndarray], np.ndarray] | None = None


@dataclass(frozen=True)
class Untrained:
    """The reference's encoder before training."""

    random = True


RAW = Baseline(lambda x, x_test, seed: (x, x_test), random=False)
PCA = Baseline(lambda x, x_test, seed: pca(x, x_test), random=False)
UMAP = Baseline(lambda x, x_test, seed: umap(x, x_test, seed=seed))
UNTRAINED = Untrained()
Row = Trained | Baseline | Untrained


@dataclass(frozen=True)
class Stage:
    """Rows that are measured together, on all sets or some; a row without randomness with seed 0 alone."""

    rows: Sequence[str]
    sets: Sequence[str] | None = None
    seeds: tuple[int, ...] = SEEDS


@dataclass(frozen=True)
class Study:
    """Sets, rows and stages, in the order in which they are measured.

    The reference, trained for an epoch, gives baselines their features; `first` rows of vectors and 512 images or
    sequences are enough for it. `extra` scores a trained or an untrained model beyond its representations.
    """

    name: str
    sets: Mapping[str, DataSet]
    rows: Mapping[str, Row]
    stages: Sequence[Stage]
    budget: Budget
    protocols: tuple[str, ...]
    reference: Trained | None = None
    first: int | None = None
    score_more: Callable[[np.ndarray, np.ndarray, Data], Scores] | None = None
    extra: Callable[[str, Any, Data], Scores] | None = None

    @property
    def path(self) -> Path:
        return RESULTS / f"{self.name}.jsonl"

    def cells(self) -> list[Cell]:
        """All cells, those a claim rests on first."""
        found: dict[Any, Cell] = {}
        for stage in self.stages:
            for name in self.sets if stage.sets is None else stage.sets:
                for seed in stage.seeds:
                    for row in stage.rows:
                        if seed == SEEDS[0] or self.rows[row].random:
                            cell = Cell(name, row, seed, partial(self.work, name, row, seed))
                            found.setdefault(cell.key, cell)
        return list(found.values())

    def work(self, name: str, row: str, seed: int) -> Scores:
        """What a cell measures."""
        torch.set_num_threads(1)
        data, kind = load(self.sets[name]), self.rows[row]
        if isinstance(kind, Trained):
            return self.trained(name, row, kind, data, seed)
        return self.fixed(name, row, kind, data, seed)

    def trained(self, name: str, row: str, kind: Trained, data: Data, seed: int) -> Scores:
        """Scores of a trained row, what its search found, and its last metrics."""
        found = search(kind, name, self.sets[name], data, seed) if kind.search else {}
        given = {kind.search.option: found["strength"]} if kind.search else {}
        model = kind.model(name, self.sets[name], kind.budget or self.budget, len(data.x), seed, **given)
        started = time.perf_counter()
        model.fit(data.x, data.y if model.reads_labels() else None)
        seconds = time.perf_counter() - started
        return {
            **self.scores(row, model, data),
            **found,
            **last(model.metrics_),
            "seconds_fit": round(seconds, 2),
            "steps": model.summary_["steps"],
            "warnings": model.warnings_,
        }

    def fixed(self, name: str, row: str, kind: Baseline | Untrained, data: Data, seed: int) -> Scores:
        """Scores of a row that learns nothing."""
        assert self.reference is not None
        dataset, x = self.sets[name], data.x
        few = self.first if dataset.domain == "vectors" else 512
        model = self.reference.model(name, dataset, self.budget, len(x), seed, epochs=1).fit(x[:few])
        if isinstance(kind, Untrained):
            return self.scores(row, model.untrained(x), data)
        started, extra = time.perf_counter(), {}
        if kind.features is not None:
            h, h_test = (kind.features(model, part) for part in (x, data.x_test))
        else:
            features, of_test = model.raw_features(x), model.raw_features(data.x_test)
            extra["raw"] = preferred(features, data.y)
            h, h_test = features[extra["raw"]], of_test[extra["raw"]]
        pair = kind.make(h, h_test, seed)
        seconds = round(time.perf_counter() - started, 2)
        return {**(kind.score or self.score)(*pair, data), **extra, "seconds_fit": seconds}

    def score(self, h: np.ndarray, h_test: np.ndarray, data: Data) -> Scores:
        """The study's protocols on representations."""
        more = self.score_more(h, h_test, data) if self.score_more else {}
        return score(h, h_test, data, self.protocols) | more

    def scores(self, row: str, model: Any, data: Data) -> Scores:
        """`score` of what a model makes of the rows, and what the study measures of it beside."""
        more = self.extra(row, model, data) if self.extra else {}
        return self.score(model.transform(data.x), model.transform(data.x_test), data) | more


def score(h: np.ndarray, h_test: np.ndarray, data: Data, protocols: Sequence[str]) -> Scores:
    """Protocols on representations of train and test rows."""
    return rounded(evaluate_embedding(h, data.y, h_test, data.y_test, protocols=list(protocols)))


def rounded(numbers: Mapping[str, float], prefix: str = "") -> Scores:
    return {f"{prefix}{key}": round(float(value), 4) for key, value in numbers.items()}


def last(metrics: Sequence[Mapping[str, float]]) -> Scores:
    """The last value of each metric that is kept."""
    merged: dict[str, float] = {}
    for row in metrics:
        merged |= {key: row[key] for key in KEPT if key in row}
    return rounded(merged)


def search(row: Trained, name: str, dataset: DataSet, data: Data, seed: int) -> Scores:
    """The value whose short training scores best, with labels, on a fifth of the train rows."""
    assert row.search is not None
    fit, held, y_fit, y_held = train_test_split(data.x, data.y, test_size=0.2, stratify=data.y, random_state=seed)
    labels, free = {}, {}
    for value in row.search.values:
        model = row.model(name, dataset, row.search.budget, len(fit), seed, **{row.search.option: value}).fit(fit)
        h, h_held = model.transform(fit), model.transform(held)
        numbers = evaluate_embedding(h, y_fit, h_held, y_held, protocols=["linear_1pct", "linear", "knn"])
        labels[value] = float(np.mean(list(numbers.values())))
        raw, raw_held = (list(model.raw_features(part).values())[-1] for part in (fit, held))
        free[value] = float(neighbor_r2(h, h_held, raw, raw_held))
    return chosen(labels, free)


def chosen(labels: dict[float, float], free: dict[float, float]) -> Scores:
    """The strength that the labels choose, and what the label-free choice and a random one lose against it."""
    best, by_r2 = max(labels, key=labels.__getitem__), max(free, key=free.__getitem__)
    return {
        "strength": best,
        "strength_label_free": by_r2,
        "regret_label_free": round(labels[best] - labels[by_r2], 4),
        "regret_random": round(labels[best] - float(np.mean(list(labels.values()))), 4),
    }


def preferred(features: Mapping[str, np.ndarray], y: np.ndarray) -> str:
    """The raw features with the better linear probe on a fifth of the train rows."""
    fit, held = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=0)

    def linear(rows: np.ndarray) -> float:
        return float(evaluate_embedding(rows[fit], y[fit], rows[held], y[held], protocols=["linear"])["linear"])

    return max(features, key=lambda kind: linear(features[kind])) if len(features) > 1 else next(iter(features))


def small(study: Study) -> Study:
    """The study with every row once on few rows, an epoch of each training: to see that all of it runs."""
    rows = {name: _short(row) if isinstance(row, Trained) else row for name, row in study.rows.items()}
    sets = {name: replace(known, train_rows=600, test_rows=300) for name, known in study.sets.items()}
    stages = [replace(stage, seeds=(0,)) for stage in study.stages]
    return replace(study, rows=rows, sets=sets, stages=stages, budget=Budget(1, 1))


def _short(row: Trained) -> Trained:
    search = row.search and replace(row.search, values=row.search.values[:2], budget=Budget(1, 1))
    return replace(row, search=search, budget=None)


def main(study: Study, doc: str | None, arguments: Sequence[str] | None = None) -> Path:
    """The command of a study; its results file."""
    return command(doc, study.path, lambda quick: (small(study) if quick else study).cells(), arguments)


def command(
    doc: str | None, path: Path, cells: Callable[[bool], list[Cell]], arguments: Sequence[str] | None = None
) -> Path:
    """Do the cells that a results file lacks, or with --quick small ones for a file of their own; the file."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minutes", type=float, nargs="?", help="no cell starts after so many")
    parser.add_argument("names", nargs="*", metavar="name", help="sets and rows; default: all")
    parser.add_argument("--results", type=Path, default=path.parent, help="folder of the results file")
    parser.add_argument("--quick", action="store_true", help="few rows and steps; nothing is kept")
    given = parser.parse_args(arguments)
    try:
        wanted = asked(cells(given.quick), given.names)
    except ValueError as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory() as folder:
        path = (Path(folder) if given.quick else given.results) / path.name
        run(wanted, path, minutes=given.minutes)
        if given.quick and any("error" in row for row in rows(path)):
            raise SystemExit(1)
    return path


def asked(cells: Sequence[Cell], names: Sequence[str]) -> list[Cell]:
    """Cells of the named sets and rows; a set is named with or without what stands behind its comma."""

    def of_set(cell: Cell) -> set[str]:
        return {cell.dataset, cell.dataset.partition(",")[0]}

    sets = set(names) & set().union(*map(of_set, cells))
    rows = set(names) & {cell.method for cell in cells}
    if unknown := set(names) - sets - rows:
        raise ValueError(f"no such set or row: {', '.join(sorted(unknown))}")
    return [cell for cell in cells if (not sets or of_set(cell) & sets) and (not rows or cell.method in rows)]
