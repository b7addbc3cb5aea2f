"""The cheapest row that is level with the best one, by set: writes docs/results/which_method.md."""

from __future__ import annotations

from collections import Counter

import numpy as np

from benchmarks.common.runner import RESULTS
from benchmarks.tables.formatting import Lines, Table, collect, command, write
from benchmarks.tables.level import level_at
from viewsmith.evaluation.advice import PURPOSE

#: Sets by kind of data, in the order of the page.
KINDS = {
    "a few columns": ("letter", "optdigits", "texture", "wisdm_har"),
    "single cells": ("sc_citeseq_cbmc", "sc_10x_pbmc"),
    "text, TF-IDF": ("text_20news_tfidf2000",),
    "pictures as vectors": ("mnist",),
    "images": ("fashion_mnist", "cifar10_small"),
    "DNA": ("dna_ienhancer2l", "dna_human_core_promoter"),
}
#: The cheapest first; the names that the studies of vectors, and of images and DNA, have for them.
ROWS = {
    "raw": ("raw", "raw"),
    "pca": ("pca", "pca"),
    "untrained": ("untrained", "untrained"),
    "contrastive": ("contrastive", "fixed views"),
    "pinda": ("pinda", "pinda + fixed views"),
    "umap": ("umap", "umap"),
}
PROTOCOLS = ("linear_1pct", "linear", "knn", "kmeans_accuracy")


def scores(table: Table, name: str, protocol: str, modality: bool) -> dict[str, dict[int, float]]:
    """Scores of the rows of a set by seed; a row without seeds has its score at all of them."""
    found = {row: table.get((name, both[modality]), {}) for row, both in ROWS.items()}
    seeds = {seed for of_row in found.values() for seed in of_row}
    values = {row: {seed: line[protocol] for seed, line in of_row.items()} for row, of_row in found.items()}
    once = {"raw", "pca"}
    return {
        row: dict.fromkeys(seeds, each[min(each)]) if row in once and each else each for row, each in values.items()
    }


def cell(values: dict[str, dict[int, float]], protocol: str) -> tuple[str, str]:
    """The cheapest row that is level with the best one, and it with its mean and the best one as text."""
    means = {row: float(np.mean([*each.values()])) for row, each in values.items() if each}
    cheapest, best = level_at(protocol, values)[0], max(means, key=lambda row: means[row])
    shown = f"{cheapest} {means[cheapest]:.3f}"
    return cheapest, shown if cheapest == best else f"{shown} ({best} {means[best]:.3f})"


def main() -> None:
    """Write the page."""
    tables = collect(RESULTS / "study.jsonl"), collect(RESULTS / "study_modalities.jsonl")
    lines: Lines = [
        "# The cheapest method that is level with the best",
        "",
        "Written by `benchmarks/tables/which_method.py` from the studies of [vectors](vectors.md) and of [images and",
        "DNA](modalities.md): the same encoder, steps and protocol for all trained rows of a set, three seeds.",
        "Each cell is the cheapest row that is level with the best one, as in the command `compare`",
        "([evaluation.md](../evaluation.md#several-methods)), with its score; in parentheses the best one, where it is",
        "another. The order of costs is raw, PCA, untrained, contrastive, pinda, UMAP. On your own data,",
        "`viewsmith compare DATA --label COLUMN --out DIR` makes the same choice.",
        "",
        f"| data | set | {' | '.join(PURPOSE[name] for name in PROTOCOLS)} |",
        "|---|---|" + "---|" * len(PROTOCOLS),
    ]
    counts: dict[str, Counter[str]] = {name: Counter() for name in PROTOCOLS}
    for kind, names in KINDS.items():
        modality = kind in ("images", "DNA")
        for name in names:
            shown = []
            for protocol in PROTOCOLS:
                cheapest, text = cell(scores(tables[modality], name, protocol, modality), protocol)
                counts[protocol][cheapest] += 1
                shown.append(text)
            lines.append(f"| {kind} | {name} | {' | '.join(shown)} |")
    total = sum(map(len, KINDS.values()))
    lines += ["", "## In words", ""]
    for protocol in PROTOCOLS:
        told = ", ".join(f"{row} on {count}" for row, count in counts[protocol].most_common())
        lines.append(f"- {PURPOSE[protocol].capitalize()} ({total} sets): {told}.")
    lines += [
        "",
        "On some of these sets the defaults of `contrastive` were chosen, on validation rows",
        "([which](../contrastive.md#limits)). Without labels no measure chose better than always taking `contrastive`",
        "([results](label_free.md)). When a learned view is better than a fixed one:",
        "[when views help](when_views_help.md).",
    ]
    write("results/which_method.md", lines)


if __name__ == "__main__":
    command(__doc__, main)
