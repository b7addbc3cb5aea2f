"""The map of regimes: where a learned or generated view beats the best fixed one. Writes docs/when_views_help.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.runner import RESULTS
from benchmarks.quality import study_diffaug
from benchmarks.tables.formatting import TIES, Lines, Table, collect, differences, gain_of, head, write

VECTORS = ("optdigits", "texture", "letter", "sc_10x_pbmc")
DNA = ("dna_human_core_promoter", "dna_ienhancer2l")
METRICS = {"knn": "kNN", "linear": "linear", "kmeans_accuracy": "k-means"}


@dataclass(frozen=True)
class Regime:
    """A kind of data, a method, and the row it is compared with; `names` are keys of the results, if they differ."""

    data: str
    method: str
    against: str
    file: str
    one: str
    other: str
    sets: Sequence[str]
    names: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})

    @property
    def path(self) -> Path:
        return RESULTS / f"{self.file}.jsonl"

    def table(self) -> Table:
        """The results of both rows, under the names of `METRICS`."""
        found, made = collect(self.path), dict[tuple[str, str], dict[int, dict[str, Any]]]()
        for method, names in zip((self.one, self.other), self.names, strict=True):
            for name in self.sets:
                made[name, method] = {
                    seed: row | {to: row[key] for to, key in names.items() if key in row}
                    for seed, row in found.get((name, method), {}).items()
                }
        return made


REGIMES = (
    Regime(
        *("an object at an unknown place (digits, black background)", "CRL-TAC", "uniform crops of the same grid"),
        *("crl_tac_mnist", "crl-tac", "uniform", ("mnist 84 x 84",)),
        ({"linear": "f learned std"}, {"linear": "f uniform std"}),
    ),
    Regime(
        *("an object at an unknown place in clutter (digits, items of clothing, color)", "CRL-TAC"),
        *("uniform crops of the same grid", "what_and_where", "crl-tac", "uniform", ("mnist", "fashion", "cifar")),
    ),
    Regime(
        *("recordings with drift; an event at an unknown place", "CRL-TAC", "uniform windows"),
        *("what_and_where", "crl-tac", "uniform", ("events",)),
    ),
    Regime(
        *("vectors; test rows of other persons", "PiNDA", "neighbors and noise of a tuned strength"),
        *("study", "pinda", "neighbors + noise", ("wisdm_har",)),
    ),
    Regime(
        *("vectors; test rows of the same population", "PiNDA", "neighbors and noise of a tuned strength"),
        *("study", "pinda", "neighbors + noise", VECTORS),
    ),
    Regime(
        *("vectors", "DiffAug", "its encoder without generated positives"),
        *("study_diffaug", "diffaug", "phase A", study_diffaug.VECTORS),
    ),
    Regime(
        *("single cells", "GenView", "its framework alone"),
        *("study_genview", "+ quality", "framework", ("sc_citeseq_cbmc, simclr",)),
    ),
    Regime(
        *("single cells, masks of features", "CRL-TAC", "uniform masks"),
        *("study_crl_tac", "learned", "uniform", ("sc_citeseq_cbmc",)),
    ),
    Regime(
        *("images of one object", "PiNDA", "crops and colors alone"),
        *("study_domains", "pinda + fixed views", "fixed views", ("cifar10_small", "fashion_mnist")),
    ),
    Regime(
        *("images of one object", "DiffAug", "its encoder without generated positives"),
        *("study_diffaug", "diffaug", "phase A", ("cifar10_small", "fashion_mnist")),
    ),
    Regime(
        *("DNA", "PiNDA", "random edits alone"),
        *("study_domains", "pinda + fixed views", "fixed views", DNA),
    ),
    Regime(
        *("DNA", "DiffAug", "its encoder without generated positives"),
        *("study_diffaug", "diffaug", "phase A", DNA),
    ),
)
INTRODUCTION = """# When do learned views help?

Every method of viewsmith learns or generates views. This page says on which kinds of data that was better than the best
fixed view we could put in its place, with one measured number each. It is written by `benchmarks/tables/regimes.py`
from the files in `benchmarks/results`, so that it cannot say more than they do."""
READING = """## How to read it

Each number is the mean difference of accuracy on test rows, method minus the row it is compared with, at the same
number of training steps, over pairs of a set and a seed; ± is half of the 95 % interval, which one or two pairs do not
have. The seeds of one set are not independent, so the true intervals are wider. The verdict is a tie if the difference
is at most .015 (kNN, linear) or .05 (k-means): [evaluation.md](evaluation.md). Sets and rows by name, with all metrics:
[vectors](results.md), [images and DNA](results_domains.md), [CRL-TAC](results_crl_tac.md), also
[in clutter](results_what_and_where.md), [DiffAug](results_diffaug.md), [GenView](results_genview.md).

## Rule of thumb

- **What matters is at an unknown place** in an image, a sequence or a recording: train `crl-tac`. This is the one kind
  of data where a learned view is clearly better, because a fixed crop mostly shows something else
  ([objects in clutter](tutorial_objects.md)).
- **New rows come from other persons, machines or batches** than the training rows: compare `pinda` and, with a column
  that names them, `--groups` ([labels and groups](labels_and_groups.md)) with the default on rows held out by group.
  The gain of PiNDA was seen on one set.
- **Everything else**: take the default of `contrastive`. Learned noise and generated samples tie with it on vectors,
  images and DNA, and cost more time. They say something about the data all the same: which features matter least, and
  what a sample's neighbors could have been."""


def verdict(table: Table, regime: Regime) -> str:
    """Wins, ties or loses: mean differences against the width of a tie."""
    words = []
    for metric, title in METRICS.items():
        found = differences(table, regime.one, regime.other, regime.sets, metric)
        if found and abs(sum(found) / len(found)) > TIES[metric]:
            words.append(f"{'**better**' if sum(found) > 0 else 'worse'} at {title}")
    return ", ".join(words) or "tie"


def lines() -> Lines:
    """A line for each regime."""
    made = head("data", ["method", "compared with", *METRICS.values(), "pairs", "verdict"])
    for regime in REGIMES:
        table = regime.table()
        found = [differences(table, regime.one, regime.other, regime.sets, metric) for metric in METRICS]
        cells = [regime.data, regime.method, regime.against, *map(interval, found), str(max(map(len, found)))]
        made.append(f"| {' | '.join([*cells, verdict(table, regime)])} |")
    return made


def interval(found: Sequence[float]) -> str:
    """Mean and half of the 95 % interval, which fewer than three differences do not have."""
    if len(found) < 3:
        return f"{sum(found) / len(found):+.3f}" if found else "-"
    return gain_of(found)


def main() -> None:
    write("when_views_help.md", [INTRODUCTION, "", *lines(), "", READING])


if __name__ == "__main__":
    main()
