"""The tables of docs/linear_contrast.md, from rows of quality/linear_contrast.py."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.common.runner import RESULTS
from benchmarks.quality.linear_contrast import (
    BANDS,
    BROUGHT,
    FAMILIES,
    IMAGES,
    LARGE,
    NO_TURNS,
    OF_ACTORS,
    OF_BANDS,
    PIXELS,
    SPEAKERS,
    SPLITS,
    UCR,
    UNEQUAL,
    WHOLE,
)
from benchmarks.tables.formatting import Lines, Table, collect, head, mean, measured_with, values

PATH = RESULTS / "linear_contrast.jsonl"
METRICS = {"linear": "linear", "knn": "5 neighbors", "linear_1pct": "1 % labels", "cpu_seconds": "seconds"}
TITLES = {
    "cifar10": "CIFAR-10, 50,000 train, 10,000 test",
    "cifar10_small": "CIFAR-10, 5,000 train, 1,000 test",
    "fashion_mnist": "Fashion-MNIST, 10,000 train, 5,000 test",
    "mnist": "MNIST, 10,000 train, 5,000 test",
    "ifc_jurkat_16bit": "cells of flow cytometry, 3 channels, 7 phases, 8-bit copies",
    "ifc_16_bits": "the same as they are, 16 bits",
    "ifc_16_bits_4_phases": "of these 4 phases, without the DNA channel",
}
OF_RECORDINGS = ("k-mers", "raw", "features", "linear-contrast", "contrastive")
PAIRS = {"linear / 5 neighbors": ("linear", "knn"), "ridge / 1 neighbor": ("ridge_classifier", "nearest")}


def short(found: Sequence[float], seconds: bool = False) -> str:
    """Mean over seeds: as fractions are printed, or whole seconds."""
    if not found:
        return ""
    mean = statistics.fmean(found)
    return f"{mean:.0f}" if seconds else f"{mean:.3f}".lstrip("0")


def of_images(table: Table) -> Lines:
    """A line for each set and row."""
    lines = head("data", [*METRICS.values(), "seeds"])
    for name in (*IMAGES, "ifc_jurkat_16bit", "ifc_16_bits", "ifc_16_bits_4_phases"):
        methods = sorted(
            {m for s, m in table if s == name and m != NO_TURNS}, key=lambda m: (m != "linear-contrast", m)
        )
        for method in methods:
            cells = [short(values(table, name, method, metric), metric == "cpu_seconds") for metric in METRICS]
            title = TITLES[name] if method == methods[0] else ""
            seeds = len(values(table, name, method, "linear"))
            lines.append(f"| {title} | {method} | {' | '.join(cells)} | {seeds} |")
    lines[0] = lines[0].replace("| data |", "| data | row |", 1)
    lines[1] += "---|"
    return lines


def of_recordings(table: Table, sets: Sequence[str], titles: Sequence[str]) -> Lines:
    """A line for each set, linear / neighbors, and the means of sets by both pairs of classifiers."""
    methods = [method for method in OF_RECORDINGS if all((name, method) in table for name in sets)]
    lines = head("set", [*methods, "seconds"])
    for name, title in zip(sets, titles, strict=True):
        cells = [pair([values(table, name, method, metric) for metric in ("linear", "knn")]) for method in methods]
        seconds = short(values(table, name, "linear-contrast", "cpu_seconds_fit"), seconds=True)
        lines.append(f"| {title} | {' | '.join(cells)} | {seconds} |")
    others = [f"{name}, split {split}" for name in sets for split in SPLITS]
    for which, of_mean in (("mean", sets), ("mean of five other splits", others)):
        for title, metrics in PAIRS.items():
            means = []
            for method in methods:
                found = [[values(table, name, method, metric) for name in of_mean] for metric in metrics]
                means.append(pair([[statistics.fmean(each) for each in of] if all(of) else [] for of in found]))
            if any(means) and (which != "mean" or all(means)):
                lines.append(f"| {which}, {title} | {' | '.join(means)} | |")
    return lines


def of_letters(table: Table) -> Lines:
    """The families of letters, once all of them are measured."""
    if not all((name, "linear-contrast") in table for name in FAMILIES):
        return []
    return [
        "Letters: 8 families of proteins (321 domains) and of RNA (2,650 sequences), a fifth scored, linear / 5",
        "neighbors. `k-mers` are frequencies of words, `raw` the best of them and of letters by place:",
        "",
        *of_recordings(table, FAMILIES, ("proteins", "RNA"))[: 2 + len(FAMILIES)],
        "",
    ]


BROUGHT_TITLES = {
    "emodb": "EmoDB, 7 emotions, each of ten actors held out (raw: log-mel)",
    "plaid": "PLAID, 11 appliances, published split",
    "peptides": "antimicrobial peptides or others, five folds",
    "transcripts": "transcripts that code or do not, DNA of 300 to 3,000 letters",
    "gene_families": "coding DNA of up to 5,000 letters, 7 families",
    "localization": "proteins of up to 1,000 letters, 10 places in a cell",
    "indian_pines": "Indian Pines, 200 bands, 9 classes, each third of the fields held out",
    "sign_digits": "digits of sign language, hands of 100 x 100 pixels, 10 classes",
    "omniglot": "letters, 105 x 105, 136 classes, five drawers held out",
    "expressions": "faces, 160 x 160, 5 expressions",
    "clothing": "clothes, 128 x 128, 10 kinds, published split",
    "pancreas_cells": "cells of the pancreas, 5 channels, 3 types, each of three images held out",
}


def of_brought(table: Table, folders: Sequence[str], baselines: Sequence[str]) -> Lines:
    """A line for each public set that does not lie with the data, means over its parts, once all are measured."""
    methods = (*baselines, "features", "linear-contrast")
    lines = head("set", [*methods, "seconds"])
    for folder in folders:
        names = BROUGHT[folder]
        if not all((name, "linear-contrast") in table for name in names):
            continue
        cells = []
        for method in methods:
            measured = all((name, method) in table for name in names)
            found = [statistics.fmean(mean(table, name, method, each) for name in names) for each in ("linear", "knn")]
            cells.append(pair([[each] for each in found]) if measured else "")
        seconds = [second for name in names for second in values(table, name, "linear-contrast", "cpu_seconds_fit")]
        lines.append(f"| {BROUGHT_TITLES[folder]} | {' | '.join(cells)} | {short(seconds, seconds=True)} |")
    return lines


def pair(found: Sequence[Sequence[float]]) -> str:
    """Linear / neighbors."""
    return " / ".join(map(short, found)) if found[0] else ""


def tables() -> Lines:
    """All tables of the page."""
    table = collect(PATH)
    return [
        "Images, means over seeds:",
        "",
        *of_images(table),
        "",
        "Recordings of the UCR and UEA archives, published splits, linear / 5 neighbors. `features` are MiniRocket's,",
        "which are mostly used with ridge regression or one nearest neighbor. Shorter recordings of the last two sets",
        "end in NaN, as they are read; filled with zeros these sets have .995 / .983 and .827 / .760:",
        "",
        *of_recordings(table, (*UCR, *UNEQUAL), (*UCR, *UNEQUAL)),
        "",
        "Spoken digits as sound, the speaker held out, seed 0 (settings were chosen on george, jackson and nicolas):",
        "",
        *of_recordings(table, [f"speaker {name}" for name in SPEAKERS], SPEAKERS),
        "",
        *of_letters(table),
        "Public sets that do not lie with the data, linear / 5 neighbors. Windows that keep their speed were chosen",
        "on train rows of PLAID. Contours of sound were chosen among actors 03 to 11 and three speakers of digits.",
        "The five other actors have .694 / .603, and without contours .678 / .595:",
        "",
        *of_brought(table, [name for name in BROUGHT if name not in (*BANDS, *LARGE)], ("raw", "k-mers", *OF_ACTORS)),
        "",
        "Larger images, which are reduced for the patches, linear / 5 neighbors. `pixels` are those of 32 x 32. The",
        "sides to which they are reduced were chosen on the first three sets; clothes were not looked at before:",
        "",
        *of_brought(table, LARGE, (PIXELS, WHOLE)),
        "",
        "Images of many channels that do not lie with the data, linear / 5 neighbors, three seeds (baselines: one):",
        "",
        *of_brought(table, BANDS, ("raw", *OF_BANDS)),
        "",
        f"{measured_with(PATH)}; the lines of the file name their commits.",
    ]
