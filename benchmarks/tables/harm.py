"""The default representation against raw features and PCA on all sets: writes docs/results/harm.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from benchmarks.common.runner import RESULTS
from benchmarks.quality.vectors.do_no_harm import (
    COPIES_5,
    FIRST,
    FOLDS,
    FURTHER,
    MODALITIES,
    OF_MODALITIES,
    PROTOCOLS,
    STUDY,
    VECTORS,
)
from benchmarks.tables.formatting import Lines, Table, collect, command, entry, gain_of, head, mean, values, write

LIMITED = {"linear": "linear", "knn": "kNN"}
METRICS = {**LIMITED, "linear_1pct": "1 % labels", "nmi": "NMI"}
# A set is harmed if the mean difference at linear or kNN is below this.
HARM = -0.02
FEATURES = ("raw", "pca")
# Where other studies have the same rows with the same settings: file, its row for ours, sets.
MEASURED = (
    ("short_training", {"short": "contrastive"}, FIRST),
    ("study", {row: row for row in FEATURES}, (*FIRST, "wisdm_har")),
    ("study_diffaug", {row: row for row in FEATURES}, ("gas_drift", "sc_human_kidney")),
    ("study_modalities", {row: row for row in FEATURES}, OF_MODALITIES),
)
KINDS = {
    "Vectors, cells and text": tuple(VECTORS),
    "Images and DNA, 300 steps": tuple(MODALITIES),
    "Near-duplicate vectors": tuple(COPIES_5),
}


def results(*, further: bool = True) -> Table:
    """Results on test rows by set and row; of wide vectors with columns that are not learned, or without."""
    table = collect(STUDY.path)
    for file, names, sets in MEASURED:
        found = collect(RESULTS / f"{file}.jsonl")
        table |= {(name, ours): found[name, theirs] for theirs, ours in names.items() for name in sets}
    for name in FURTHER if further else ():
        learned = table[name, "contrastive"]
        table[name, "contrastive"] = {
            seed: row | {"learned": learned[seed]} for seed, row in table[name, "further axes"].items()
        }
    return table


def of_folds(name: str) -> Table:
    """Means over the folds, for each row and seed."""
    folds = collect(STUDY.path)
    return {
        (name, ours): {
            seed: {metric: statistics.fmean(folds[fold, row][seed][metric] for fold in FOLDS) for metric in PROTOCOLS}
            for seed in folds[next(iter(FOLDS)), row]
        }
        for ours, row in {"contrastive": "further axes", "raw": "raw", "pca": "pca"}.items()
    }


def over_folds(whole: Table, name: str) -> str:
    """Mean difference over the folds, of means over seeds, with half of its 95 % interval."""
    folds, parts = collect(STUDY.path), []
    for metric, title in LIMITED.items():
        against = max(FEATURES, key=lambda row: mean(whole, name, row, metric))
        found = [mean(folds, fold, "further axes", metric) - mean(folds, fold, against, metric) for fold in FOLDS]
        parts.append(f"{title} {gain_of(found)}")
    return f"Differences of the five folds, mean ± half of the 95 % interval: {', '.join(parts)}."


def best(table: Table, name: str, metric: str) -> float:
    """The better of raw features and PCA."""
    return max(value for row in FEATURES for value in values(table, name, row, metric))


def gaps(table: Table, name: str, metric: str, row: str = "contrastive") -> list[float]:
    """Representation minus the better of raw features and PCA, for each seed."""
    return [value - best(table, name, metric) for value in values(table, name, row, metric)]


def worst(table: Table, name: str) -> float:
    """The smaller of the mean differences at linear and kNN."""
    return min(statistics.fmean(gaps(table, name, metric)) for metric in LIMITED)


def difference(found: Sequence[float], harm: bool) -> str:
    """Mean and standard deviation of differences; bold if they are harm."""
    center = statistics.fmean(found)
    text = f"{center:+.3f}" + (f" ± {statistics.stdev(found):.3f}" if len(found) > 1 else "")
    return f"**{text}**" if harm and center < HARM else text


def by_kind(table: Table, sets: Sequence[str], metrics: Mapping[str, str]) -> Lines:
    """A line for each set, the most harmed first: differences, and in brackets the better of raw features and PCA."""
    lines = head("set", [*metrics.values(), "neighbors kept"])
    for name in sorted(sets, key=lambda name: worst(table, name)):
        cells = [
            f"{difference(gaps(table, name, metric), metric in ('linear', 'knn'))} ({best(table, name, metric):.3f})"
            for metric in metrics
        ]
        kept = entry(values(table, name, "contrastive", "kept"))
        lines.append(f"| {name} | {' | '.join([*cells, kept])} |")
    return lines


def summary(table: Table) -> Lines:
    """How many sets are harmed and where; mean differences over the sets."""
    sets = [name for names in KINDS.values() for name in names]
    harmed = [name for name in sorted(sets, key=lambda name: worst(table, name)) if worst(table, name) < HARM]
    texts = []
    for name in harmed:
        found = {title: statistics.fmean(gaps(table, name, metric)) for metric, title in LIMITED.items()}
        texts.append(f"{name} ({', '.join(f'{title} {gap:+.3f}' for title, gap in found.items() if gap < HARM)})")
    means = {
        title: statistics.fmean(statistics.fmean(gaps(table, name, metric)) for name in sets)
        for metric, title in METRICS.items()
    }
    return [
        f"- {len(harmed)} of {len(sets)} sets lose more than {-HARM:.2f} at linear or kNN: {'; '.join(texts)}.",
        f"- Mean difference over the sets: {', '.join(f'{title} {gap:+.3f}' for title, gap in means.items())}.",
    ]


def gained(table: Table, sets: Sequence[str]) -> Lines:
    """All columns minus the learned ones alone, and in brackets those alone."""
    metrics = {**METRICS, "kmeans_accuracy": "k-means"}
    lines, every = head("set", list(metrics.values())), dict[str, list[float]]()
    for name in sets:
        seeds, cells = table[name, "contrastive"], []
        for metric in metrics:
            found = [row[metric] - row["learned"][metric] for _, row in sorted(seeds.items())]
            alone = statistics.fmean(row["learned"][metric] for row in seeds.values())
            every.setdefault(metric, []).append(statistics.fmean(found))
            cells.append(f"{difference(found, harm=False)} ({alone:.3f})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, f"| mean | {' | '.join(f'{statistics.fmean(found):+.3f}' for found in every.values())} |"]


# Numbers without labels (`do_no_harm.more`) that could foretell harm.
CRITERIA: dict[str, Callable[[dict[str, float]], bool]] = {
    "less than .3 of the neighbors kept": lambda row: row["kept"] < 0.3,
    "R^2 of neighbors .01 below that of PCA": lambda row: row["r2_h"] < row["r2_pca"] - 0.01,
    "R^2 of ridge regression below .8": lambda row: row["ridge_h"] < 0.8,
}


def foretold(table: Table) -> Lines:
    """How well criteria without labels foretell which sets are harmed: first seed, sets that have the numbers."""
    numbers = collect(STUDY.path)
    sets = [name for names in KINDS.values() for name in names if "r2_h" in numbers[name, "contrastive"].get(0, {})]
    rows = {name: numbers[name, "contrastive"][0] for name in sets}
    harmed = {name for name in rows if worst(table, name) < HARM}
    lines = head("criterion", ["sets with it", "of these harmed", "harmed without it"])
    for title, criterion in CRITERIA.items():
        found = {name for name, row in rows.items() if criterion(row)}
        lines.append(f"| {title} | {len(found)} | {len(found & harmed)} | {len(harmed - found)} |")
    return lines


def main() -> None:
    table, lines = results(), [*INTRODUCTION.splitlines(), "", *summary(results())]
    for title, sets in KINDS.items():
        lines += ["", f"## {title}", "", *by_kind(table, sets, METRICS)]
    name = "sc_pbmc68k_reduced, five folds"
    folds = of_folds(name)
    lines += ["", "## Few test rows", "", *FEW_ROWS.splitlines(), "", *by_kind(folds, [name], METRICS)]
    lines += ["", over_folds(folds, name)]
    lines += ["", "## Columns that are not learned", "", *COLUMNS.splitlines(), "", *gained(table, FURTHER)]
    lines += ["", *gained(table, tuple(MODALITIES))]
    lines += ["", "## Foretold without labels?", "", *FORETOLD.splitlines(), "", *foretold(results(further=False))]
    write("results/harm.md", lines)


INTRODUCTION = """# Measured: does the default harm?

Written by `benchmarks/tables/harm.py`. Protocol: `benchmarks/quality/vectors/do_no_harm.py`. The default of
`contrastive` minus the better of raw features (scaled) and PCA (64 axes) at the same probe: mean ± standard deviation
over seeds 0, 1, 2, test rows; in brackets the better of both. Bold: harm, more than .02 lost at linear or nearest
neighbors (kNN, cosine). Images and DNA are trained for 300 steps, a fifth of the default. "5 copies": every fifth row,
five times with noise; copies are together in train or in test. "neighbors kept": fraction of the 10 nearest rows of the
input that are nearest in the representation. cifar10 has the images of cifar10_small and is left out. AMD EPYC or Intel
Xeon, 1 thread, torch 2.13.0."""
FEW_ROWS = """sc_pbmc68k_reduced has 140 test rows; one of them is .007. Here each of its 560 train rows is scored
once, in the fifth that is left out: means over the five folds, of seeds 0, 1, 2."""
COLUMNS = """The last columns of the default representation of wide vectors are coordinates on up to 256 principal axes,
those of images and DNA coordinates of pixels, or of bases and 4-mers
([how](../contrastive.md#coordinates-of-the-input)). All columns minus the learned ones alone; in brackets the
learned ones."""
FORETOLD = """Numbers without labels, of seed 0 and the sets that have them: do they foretell harm? Those of
wide vectors, and their harm, are of the learned columns alone. R^2 of neighbors: 20 principal coordinates of a test
row, predicted by the mean over its ten nearest train rows; of ridge regression: 64 coordinates, predicted from the
representation. The thresholds were set when the numbers of some sets were known."""


if __name__ == "__main__":
    command(__doc__, main)
