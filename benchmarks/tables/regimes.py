"""Where a learned or generated view beats the best fixed one: writes docs/results/when_views_help.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.common.runner import RESULTS, done
from benchmarks.quality import study_metaug
from benchmarks.quality.crl_tac.what_and_where import TREND
from benchmarks.quality.decisive import cell_views, few_label_views, few_rows, generated_views
from benchmarks.quality.generated import study_diffaug, study_genview
from benchmarks.quality.suite import Study
from benchmarks.tables import decisive
from benchmarks.tables.formatting import TIES, Lines, Table, collect, command, differences, gain_of, head, write

DNA = ("dna_human_core_promoter", "dna_ienhancer2l")
METRICS = {"knn": "kNN", "linear": "linear", "kmeans_accuracy": "k-means", "linear_1pct": "1 % labels"}
# Kinds of data, in the order of the map.
UNKNOWN_PLACE = "a digit at an unknown place, on black"
CLUTTER = "an object in clutter"
EVENTS = "an event in noise and drift"
DETRENDED = "an event in drift, detrended windows"
GROUPS = "vectors, test rows of other persons"
BATCHES = "vectors, test rows of other batches"
VECTORS = "vectors, same population"
FEW = "vectors, 100 to 1,000 rows"
PROBES = "views as training data on h, 1 % labels"
GENES = "cells: views as training data on genes, 1 % labels"
CELLS = "single cells"
IMAGES = "images of one object"
SEQUENCES = "DNA"


def of_file(name: str) -> Table:
    """Results of a file."""
    return collect(RESULTS / f"{name}.jsonl")


def of_study(study: Study) -> Table:
    """Results of the sets all of whose cells are measured."""
    cells, measured = study.cells(), done(study.path)
    missing = {cell.dataset for cell in cells if cell.key not in measured}
    return {key: seeds for key, seeds in collect(study.path).items() if key[0] not in missing}


def of_mnist() -> Table:
    """CRL-TAC on MNIST: the encoder averaged over the learned and over the uniform distribution."""
    found, name = of_file("crl_tac_mnist"), "mnist 84 x 84"
    return {
        (name, row): {seed: {"linear": line[f"f {how} std"]} for seed, line in found[name, row].items()}
        for row, how in (("crl-tac", "learned"), ("uniform", "uniform"))
    }


def of_probes() -> Table:
    """Probes on h with 1 % of the labels."""
    found = decisive.labels_table()
    return {key: {seed: {"linear_1pct": row["h"]} for seed, row in seeds.items()} for key, seeds in found.items()}


def of_genes() -> Table:
    """Probes on genes with 1 % of the labels."""
    found = decisive.cells_table()
    return {key: {seed: {"linear_1pct": row["raw"]} for seed, row in seeds.items()} for key, seeds in found.items()}


@dataclass(frozen=True)
class Regime:
    """A kind of data, a method, and the row it is compared with, in a table of results on some sets."""

    data: str
    method: str
    against: str
    table: Callable[[], Table]
    one: str
    other: str
    sets: Sequence[str]

    def differences(self) -> dict[str, list[float]]:
        """Differences by metric, for each set and seed."""
        table = self.table()
        return {metric: differences(table, self.one, self.other, self.sets, metric) for metric in METRICS}


def of_crl_tac(data: str, against: str, *sets: str, end: str = "") -> Regime:
    rows = ("crl-tac" + end, "uniform" + end)
    return Regime(data, "CRL-TAC", against, partial(of_file, "what_and_where"), *rows, sets)


def of_diffaug(data: str, sets: Sequence[str]) -> Regime:
    against = "its encoder without generated positives"
    return Regime(data, "DiffAug", against, partial(of_file, "study_diffaug"), "diffaug", "phase A", sets)


def of_genview(data: str, *sets: str) -> Regime:
    table = decisive.ladder_table if set(sets) <= set(generated_views.SETS) else partial(of_study, study_genview.STUDY)
    return Regime(data, "GenView", "its framework alone", table, "+ quality", "framework", sets)


def of_metaug(data: str, *sets: str) -> Regime:
    return Regime(
        data,
        "MetAug",
        "the contrast of its framework",
        partial(of_study, study_metaug.STUDY),
        "metaug",
        "contrast",
        sets,
    )


def of_pinda(data: str, *sets: str) -> Regime:
    against = "neighbors and noise of a tuned strength"
    return Regime(data, "PiNDA", against, decisive.noise_table, "pinda", "noise", sets)


def on_fixed_views(data: str, against: str, sets: Sequence[str]) -> Regime:
    return Regime(
        data, "PiNDA", against, partial(of_file, "study_modalities"), "pinda + fixed views", "fixed views", sets
    )


REGIMES = (
    Regime(
        *(UNKNOWN_PLACE, "CRL-TAC", "uniform crops of the same grid"),
        *(of_mnist, "crl-tac", "uniform", ("mnist 84 x 84",)),
    ),
    of_crl_tac(CLUTTER, "uniform crops of the same grid", "mnist", "fashion", "cifar"),
    of_crl_tac(EVENTS, "uniform windows", "events", end=TREND),
    of_crl_tac(DETRENDED, "uniform windows", "events"),
    of_pinda(GROUPS, *decisive.SUBJECTS),
    of_pinda(BATCHES, "gas_drift"),
    Regime(
        *(VECTORS, "PiNDA", "neighbors and noise of a tuned strength", partial(of_file, "study")),
        *("pinda", "neighbors + noise", ("optdigits", "texture", "letter", "sc_10x_pbmc")),
    ),
    of_diffaug(VECTORS, study_diffaug.VECTORS),
    of_metaug(GROUPS, "wisdm_har"),
    of_metaug(VECTORS, "letter"),
    Regime(
        *(FEW, "DiffAug", "its encoder without generated positives", decisive.rows_table, "diffaug", "phase A"),
        [name for count in few_rows.ROWS for name in decisive.sets_of(few_rows.SETS, count, "rows")],
    ),
    of_genview(FEW, *study_genview.FEW),
    *(
        Regime(
            PROBES, method, "labeled rows alone", of_probes, row, "none", decisive.sets_of(few_label_views.SETS, 1, "%")
        )
        for method, row in (("PiNDA", "pinda"), ("DiffAug", "diffaug"))
    ),
    Regime(
        *(GENES, "DiffAug", "mixtures of neighbors as training data", of_genes, "diffaug", "neighbor mix"),
        decisive.sets_of(cell_views.SETS, 1, "%"),
    ),
    Regime(
        *(CELLS, "CRL-TAC", "uniform masks", partial(of_file, "study_crl_tac")),
        *("learned", "uniform", ("sc_citeseq_cbmc",)),
    ),
    of_genview(CELLS, "sc_citeseq_cbmc, simclr"),
    on_fixed_views(IMAGES, "crops and colors alone", ("cifar10_small", "fashion_mnist")),
    of_diffaug(IMAGES, ("cifar10_small", "fashion_mnist")),
    of_genview(IMAGES, *(name for name in generated_views.SETS if not name.startswith("dna"))),
    of_metaug(IMAGES, "cifar10_small"),
    on_fixed_views(SEQUENCES, "random edits alone", DNA),
    of_diffaug(SEQUENCES, DNA),
    of_genview(SEQUENCES, "dna_human_core_promoter, simclr"),
)
INTRODUCTION = """# When do learned views help?

Every method of viewsmith learns or generates views. This page says on which kinds of data that was better than the best
fixed view we could put in its place, with one measured number each. It is written by `benchmarks/tables/regimes.py`
from the files in `benchmarks/results`, so that it cannot say more than they do.

![Kinds of data by methods: mean differences to fixed views, better, tied or worse](../_static/map.png)

*The map: mean difference of accuracy (named below each number) to the fixed view of the table below. Blue: better,
orange: worse, gray: a tie. Empty: not measured. Made by `docs/pictures/map.py` from the same files.*"""
READING = """## How to read it

Each number is the mean difference of accuracy on test rows, method minus the row it is compared with, at the same
number of training steps, over pairs of a set and a seed; ± is half of the 95 % interval, which one or two pairs do not
have. The seeds of one set are not independent, so the true intervals are wider. The verdict is a tie if the mean is at
most .015 (kNN, linear), .05 (k-means) or .03 (1 % labels), or if the interval has a zero
([evaluation.md](../evaluation.md)).
Sets and rows by name, with all metrics: [vectors](vectors.md), [images and DNA](modalities.md),
[CRL-TAC](crl_tac.md) and [in clutter](what_and_where.md), [DiffAug](diffaug.md),
[GenView](genview.md), [MetAug](metaug.md),
[few rows, other persons and batches, few labels](decisive.md)."""
ANSWERS = """The questions, and what would count as a yes, were written down before the experiments were run
(`benchmarks/quality/PLAN.md`); the one about genes was added after the one about few labels was answered. Mean
difference ± half of the 95 % interval, paired by set and seed; one thread of an AMD EPYC or Intel Xeon, torch
2.13.0."""
RULE = """## Rule of thumb

- **What matters is at an unknown place in an image**: train `crl-tac`. A learned view is clearly better there, because
  a fixed crop mostly shows something else ([objects in clutter](../discovery.md#objects-in-clutter)). In recordings
  with drift it ties, and is better with windows without trend ([recordings](../recordings.md)).
- **New rows come from other persons, machines or batches** than the training rows: learned noise ties with none, too.
  With a column that names them, compare `--groups` ([groups](../labels_and_groups.md)) with the default on rows
  held out by group. Random noise of equal strength on all features can cost accuracy at few labels; learned noise does
  not ([pinda.md](../pinda.md#measured)).
- **Few labeled cells, and a classifier on genes**: generate ten views of each labeled cell with `diffaug`, trained on
  all cells without labels, and fit the classifier on them, too ([diffaug.md](../diffaug.md#views-as-training-data)). A
  classifier on the representation is as good or better, without views.
- **Everything else**: take the default of `contrastive`. Learned noise and generated samples tie with fixed views on
  vectors, images and DNA, or lose (MetAug on images, GenView on DNA), and cost more time. They say something about the
  data all the same: which features matter least, and what a sample's neighbors could have been."""


def word(found: Sequence[float], metric: str) -> str:
    """Better, tie or worse: the mean is beyond the width of a tie, and from three pairs on its interval has no 0."""
    mean = sum(found) / len(found)
    half = float(gain_of(found, 6).split(" ± ")[1]) if len(found) >= 3 else 0.0
    if abs(mean) <= max(TIES[metric], half):
        return "tie"
    return "better" if mean > 0 else "worse"


def verdict(found: dict[str, list[float]]) -> str:
    """At which metrics a method is better or worse."""
    words = {METRICS[metric]: word(gaps, metric) for metric, gaps in found.items() if gaps}
    texts = [
        f"{'**better**' if kind == 'better' else kind} at {title}" for title, kind in words.items() if kind != "tie"
    ]
    return ", ".join(texts) or "tie"


def shown(found: dict[str, list[float]]) -> tuple[str, str]:
    """The metric that the map shows, and its verdict: the first that is no tie, else the first."""
    words = {metric: word(gaps, metric) for metric, gaps in found.items() if gaps}
    return next(((m, kind) for m, kind in words.items() if kind != "tie"), next(iter(words.items())))


def lines() -> Lines:
    """A line for each regime with results."""
    made = head("data", ["method", "compared with", *METRICS.values(), "pairs", "verdict"])
    for regime in REGIMES:
        found = regime.differences()
        if pairs := max(map(len, found.values())):
            cells = [regime.data, regime.method, regime.against, *map(interval, found.values()), str(pairs)]
            made.append(f"| {' | '.join([*cells, verdict(found)])} |")
    return made


def interval(found: Sequence[float]) -> str:
    """Mean and half of the 95 % interval, which fewer than three differences do not have."""
    if len(found) < 3:
        return f"{sum(found) / len(found):+.3f}" if found else "-"
    return gain_of(found)


def main() -> None:
    answers = ["## Answers", "", ANSWERS, "", *decisive.answers()]
    write("results/when_views_help.md", [INTRODUCTION, "", *lines(), "", READING, "", *answers, "", RULE])


if __name__ == "__main__":
    command(__doc__, main)
