"""Common code of the studies: it trains and scores their rows, and runs their cells from the command line.

A study declares data sets, rows (trained models and baselines), the budget of training steps, and stages, which give
the order of the measurements. A cell is one row on one data set with one seed.
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
from benchmarks.common.tiny import tiny_data
from viewsmith import Contrastive
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.evaluation.baselines import pca, umap
from viewsmith.evaluation.label_free import neighbor_r2
from viewsmith.evaluation.protocol import evaluate_embedding

Scores = dict[str, Any]
PositivePair = tuple[np.ndarray, np.ndarray]  # of train and test rows

SEEDS = (0, 1, 2)
# Metrics whose last values are recorded, if the training has them.
RECORDED = (
    *("loss", "effective_rank", "noise_level", "noise_spread", "drift", "generated_similarity", "quality"),
    *("largest_weight", "feature_cosine", "margin", "information", "effective", "largest_p"),
)


@dataclass(frozen=True)
class Budget:
    """Encoder steps of a training on vectors, on images and DNA, and on wide vectors (None: as on other vectors)."""

    vectors: int = 0
    modalities: int = 0
    wide: int | None = None

    def epochs(self, dataset: DataSet, rows: int, batch: int) -> int:
        """Number of epochs with at least these steps."""
        steps = self.vectors if dataset.modality == "vectors" else self.modalities
        if dataset.wide and self.wide is not None:
            steps = self.wide
        return math.ceil(steps / max(1, rows // batch))


@dataclass(frozen=True)
class Search:
    """Search for the value of an option, for each training separately.

    Each value is trained with the budget of the search on 80 % of the train rows and scored with labels on the other
    20 % (mean of 1 %, linear and 5-nearest-neighbor accuracy). Test labels are not used. The value with the best
    neighbor R^2, which needs no labels, is recorded, too.
    """

    option: str
    values: tuple[float, ...]
    budget: Budget


@dataclass(frozen=True)
class Trained:
    """A row that is trained: an estimator and its options; `on` has additional options for some sets, by name."""

    estimator: type[ViewsmithEstimator]
    options: Mapping[str, Any] = field(default_factory=dict)
    on: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    search: Search | None = None
    budget: Budget | None = None
    random = True

    def model(self, name: str, dataset: DataSet, budget: Budget, rows: int, seed: int, **given: Any) -> Any:
        """The estimator for this number of train rows."""
        options = {**self.options, **self.on.get(name, {}), **given}
        if self.estimator is Contrastive and dataset.wide and dataset.modality == "vectors":
            options = LEARNED | options
        epochs = budget.epochs(dataset, rows, options.get("batch_size", 256))
        return self.estimator(**{"epochs": epochs, "random_state": seed} | options)


@dataclass(frozen=True)
class Baseline:
    """A row without training: `make` computes representations from features of train and test rows and a seed.

    The features are the best raw ones (`preferred`), or what `features` computes with the fitted reference.
    """

    make: Callable[[np.ndarray, np.ndarray, int], PositivePair]
    random: bool = True
    score: Callable[[np.ndarray, np.ndarray, Data], Scores] | None = None
    features: Callable[[Any, np.ndarray], np.ndarray] | None = None


@dataclass(frozen=True)
class Untrained:
    """The encoder of a row before training; None: of the reference."""

    of: Trained | None = None
    random = True


# Studies compare what is learned: without the other columns that `Contrastive` has on wide vectors by default.
LEARNED: dict[str, Any] = {"encoder_options": {"appended_pca": 0}}
RAW = Baseline(lambda x, x_test, seed: (x, x_test), random=False)
PCA = Baseline(lambda x, x_test, seed: pca(x, x_test), random=False)
UMAP = Baseline(lambda x, x_test, seed: umap(x, x_test, seed=seed))
UNTRAINED = Untrained()
Row = Trained | Baseline | Untrained


@dataclass(frozen=True)
class Stage:
    """Rows that are measured together, on all sets or some; rows without randomness have seed 0 only."""

    rows: Sequence[str]
    sets: Sequence[str] | None = None
    seeds: tuple[int, ...] = SEEDS


@dataclass(frozen=True)
class Study:
    """Sets, rows and stages, in the order in which they are measured.

    The reference computes the features of baselines. It is trained for one epoch on the first 512 images or sequences,
    or on the `first` rows of vectors (None: all). `score_more` adds scores of all representations, `extra` adds scores
    of a trained or untrained model.
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
        """All cells, in the order of the stages."""
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
        """The results of a cell."""
        torch.set_num_threads(1)
        data, kind = load(self.sets[name]), self.rows[row]
        if isinstance(kind, Trained):
            return self.trained(name, row, kind, data, seed)
        return self.fixed(name, row, kind, data, seed)

    def trained(self, name: str, row: str, kind: Trained, data: Data, seed: int) -> Scores:
        """Scores of a trained row, results of its search, and its last metrics."""
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
        """Scores of a row without training."""
        reference = (kind.of if isinstance(kind, Untrained) else None) or self.reference
        assert reference is not None
        dataset, x = self.sets[name], data.x
        few = self.first if dataset.modality == "vectors" else 512
        model = reference.model(name, dataset, self.budget, len(x), seed, epochs=1).fit(x[:few])
        if isinstance(kind, Untrained):
            return self.scores(row, model.untrained(x), data)
        started, extra = time.perf_counter(), {}
        if kind.features is not None:
            h, h_test = (kind.features(model, part) for part in (x, data.x_test))
        else:
            features, features_test = model.raw_features(x), model.raw_features(data.x_test)
            extra["raw"] = preferred(features, data.y)
            h, h_test = features[extra["raw"]], features_test[extra["raw"]]
        pair = kind.make(h, h_test, seed)
        seconds = round(time.perf_counter() - started, 2)
        return {**(kind.score or self.score)(*pair, data), **extra, "seconds_fit": seconds}

    def score(self, h: np.ndarray, h_test: np.ndarray, data: Data) -> Scores:
        """Scores of representations with the protocols of the study."""
        more = self.score_more(h, h_test, data) if self.score_more else {}
        return score(h, h_test, data, self.protocols) | more

    def scores(self, row: str, model: Any, data: Data) -> Scores:
        """`score` of the representations of a model, and its `extra` scores."""
        more = self.extra(row, model, data) if self.extra else {}
        return self.score(model.transform(data.x), model.transform(data.x_test), data) | more


def score(h: np.ndarray, h_test: np.ndarray, data: Data, protocols: Sequence[str]) -> Scores:
    """Scores of representations of train and test rows."""
    return rounded(evaluate_embedding(h, data.y, h_test, data.y_test, protocols=list(protocols)))


def rounded(numbers: Mapping[str, float], prefix: str = "") -> Scores:
    """Values with four digits after the point, and a prefix before their names."""
    return {f"{prefix}{key}": round(float(value), 4) for key, value in numbers.items()}


def last(metrics: Sequence[Mapping[str, float]]) -> Scores:
    """The last value of each metric in `RECORDED`."""
    merged: dict[str, float] = {}
    for row in metrics:
        merged |= {key: row[key] for key in RECORDED if key in row}
    return rounded(merged)


def search(row: Trained, name: str, dataset: DataSet, data: Data, seed: int) -> Scores:
    """The value whose short training has the best score, with labels, on a fifth of the train rows."""
    assert row.search is not None
    fit, rest, y_fit, y_rest = train_test_split(data.x, data.y, test_size=0.2, stratify=data.y, random_state=seed)
    labels, free = {}, {}
    for value in row.search.values:
        model = row.model(name, dataset, row.search.budget, len(fit), seed, **{row.search.option: value}).fit(fit)
        h, h_rest = model.transform(fit), model.transform(rest)
        numbers = evaluate_embedding(h, y_fit, h_rest, y_rest, protocols=["linear_1pct", "linear", "knn"])
        labels[value] = float(np.mean(list(numbers.values())))
        raw, raw_rest = (list(model.raw_features(part).values())[-1] for part in (fit, rest))
        free[value] = float(neighbor_r2(h, h_rest, raw, raw_rest))
    return chosen(labels, free)


def chosen(labels: dict[float, float], free: dict[float, float]) -> Scores:
    """The strength with the best score; the score that the label-free choice and a random choice lose."""
    best, by_r2 = max(labels, key=labels.__getitem__), max(free, key=free.__getitem__)
    return {
        "strength": best,
        "strength_label_free": by_r2,
        "regret_label_free": round(labels[best] - labels[by_r2], 4),
        "regret_random": round(labels[best] - float(np.mean(list(labels.values()))), 4),
    }


def preferred(features: Mapping[str, np.ndarray], y: np.ndarray) -> str:
    """Name of the raw features whose linear probe is best on a fifth of the train rows."""
    fit, rest = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=0)

    def linear(rows: np.ndarray) -> float:
        return float(evaluate_embedding(rows[fit], y[fit], rows[rest], y[rest], protocols=["linear"])["linear"])

    return max(features, key=lambda kind: linear(features[kind])) if len(features) > 1 else next(iter(features))


SAMPLER_STEPS = 20  # of a small study


def small(study: Study) -> Study:
    """A copy of the study to test it: one seed, few samples, one epoch for each training."""
    rows = {name: _short(row) if isinstance(row, Trained) else row for name, row in study.rows.items()}
    sets = {name: replace(known, train_rows=600, test_rows=300) for name, known in study.sets.items()}
    stages = [replace(stage, seeds=(0,)) for stage in study.stages]
    return replace(study, rows=rows, sets=sets, stages=stages, budget=Budget(1, 1))


def _short(row: Trained) -> Trained:
    search = row.search and replace(row.search, values=row.search.values[:2], budget=Budget(1, 1))
    options = dict(row.options)
    if options.get("sampler_steps", 0) > SAMPLER_STEPS:  # a thousand, as published
        options["sampler_steps"] = SAMPLER_STEPS
    return replace(row, search=search, budget=None, options=options)


def main(study: Study, doc: str | None, arguments: Sequence[str] | None = None) -> Path:
    """Run a study from the command line; return its results file."""

    def kind(name: str) -> object:
        return study.sets[name].modality, study.sets[name].wide

    return command(doc, study.path, lambda quick: (small(study) if quick else study).cells(), arguments, kind)


def command(
    doc: str | None,
    path: Path,
    cells: Callable[[bool], list[Cell]],
    arguments: Sequence[str] | None = None,
    kind: Callable[[str], object] = lambda name: None,
) -> Path:
    """Run the cells that a results file lacks; return the path.

    With --quick: small cells on tiny data, written to a temporary file; each row on the first set of each `kind`,
    without maps of umap-learn and pacmap, whose compiling takes longer than all cells.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minutes", type=float, nargs="?", help="no cell starts after this many minutes")
    parser.add_argument("names", nargs="*", metavar="name", help="sets and rows; default: all")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with its share of the cells; default 1")
    parser.add_argument("--results", type=Path, default=path.parent, help="folder of the results file")
    parser.add_argument("--quick", action="store_true", help="tiny data, few steps; writes no results")
    given = parser.parse_args(arguments)
    try:
        wanted = select_cells(cells(given.quick), given.names)
    except ValueError as error:
        parser.error(str(error))
    if given.quick:
        made = [cell for cell in wanted if not any(name in cell.method for name in ("umap", "pacmap"))]
        few = {(cell.method, kind(cell.dataset)): cell for cell in reversed(made)}
        wanted = list(few.values())[::-1]
    with tempfile.TemporaryDirectory() as folder, tiny_data(given.quick):
        path = (Path(folder) if given.quick else given.results) / path.name
        run(wanted, path, minutes=given.minutes, jobs=given.jobs)
        if given.quick and any("error" in row for row in rows(path)):
            raise SystemExit(1)
    return path


def select_cells(cells: Sequence[Cell], names: Sequence[str]) -> list[Cell]:
    """Cells of the named sets and rows; the part of a set's name after a comma may be left out."""

    def names_of_set(cell: Cell) -> set[str]:
        return {cell.dataset, cell.dataset.partition(",")[0]}

    sets = set(names) & set().union(*map(names_of_set, cells))
    rows = set(names) & {cell.method for cell in cells}
    if unknown := set(names) - sets - rows:
        raise ValueError(f"no such set or row: {', '.join(sorted(unknown))}")
    return [cell for cell in cells if (not sets or names_of_set(cell) & sets) and (not rows or cell.method in rows)]
