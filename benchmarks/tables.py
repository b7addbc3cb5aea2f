"""Tables and verdicts from the studies' results files: writes docs/results.md and docs/results_domains.md.

A row beats another where the difference of the means over seeds is wider than a tie (0.015 linear and kNN, 0.03 1 %
labels, 0.05 k-means) and every cell has three seeds. The rule for a claim: better than the best of PCA, UMAP, SCARF,
tuned random noise and the untrained encoder. Raw features are shown beside them.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

import study
import study_domains
from runner import Cell, progress, rows
from scipy.stats import t as student
from scipy.stats import ttest_rel
from study import SEEDS, WIDE

METRICS = {"kmeans_accuracy": 0.05, "linear_1pct": 0.03, "knn": 0.015, "linear": 0.015}
TITLES = {"kmeans_accuracy": "k-means", "linear_1pct": "1 % labels", "knn": "kNN", "linear": "linear"}
BASELINES = ("pca", "umap", "scarf", "noise", "untrained")
SAME_INPUT = ("pca, same input", "umap, same input")
ORDER = (
    "raw",
    "pca",
    "pca, same input",
    "umap",
    "umap, same input",
    "untrained",
    "scarf",
    "noise",
    "neighbor mix",
    "contrastive",
    "neighbors + noise",
)
LEARNED = ("pinda", "pinda alone")
# On images and DNA: what is compared with, then what the methods of this library give.
DOMAIN_BASELINES = ("pca", "umap", "noise", "untrained", "fixed views")
DOMAIN_ORDER = (
    "raw",
    "pca",
    "umap",
    "untrained",
    "noise",
    "fixed views",
    "neighbors",
    "neighbors + fixed views",
    "pinda alone",
    "pinda + fixed views",
)
DOCS = Path(__file__).parents[1] / "docs"

Table = dict[tuple[str, str], dict[int, dict[str, Any]]]


def collect(path: Path) -> Table:
    table: Table = defaultdict(dict)
    for row in rows(path):
        if "error" not in row:
            table[row["dataset"], row["method"]][row["seed"]] = row
    return table


def values(table: Table, dataset: str, method: str, metric: str) -> list[float]:
    """Of each seed, in order; rows that did not measure it are left out."""
    return [row[metric] for _, row in sorted(table.get((dataset, method), {}).items()) if metric in row]


def mean(table: Table, dataset: str, method: str, metric: str) -> float:
    found = values(table, dataset, method, metric)
    return statistics.fmean(found) if found else math.nan


def entry(found: list[float]) -> str:
    if not found:
        return "-"
    text = f"{statistics.fmean(found):.3f}"
    return text + (f" ± {statistics.stdev(found):.3f}" if len(found) > 1 else "")


def main_table(
    table: Table, metric: str, sets: list[str], order: tuple[str, ...] = (*ORDER, *LEARNED), *, bold: bool = True
) -> list[str]:
    methods = [m for m in order if any((s, m) in table for s in sets)]
    lines = [f"| set | {' | '.join(methods)} |", "|---" * (len(methods) + 1) + "|"]
    for name in sets:
        best = max((mean(table, name, m, metric) for m in methods if (name, m) in table), default=math.nan)
        texts = []
        for method in methods:
            text = entry(values(table, name, method, metric))
            texts.append(f"**{text}**" if bold and mean(table, name, method, metric) == best else text)
        lines.append(f"| {name} | {' | '.join(texts)} |")
    return lines


def opening(title: str, method: str, cells: list[Cell], path: Path) -> list[str]:
    """Head of the page docs/results_METHOD.md, which tables_METHOD.py writes."""
    return [
        f"# Measured: {title}",
        "",
        f"Written by `benchmarks/tables_{method}.py` from `benchmarks/results/{path.name}`; the protocol is in",
        f"`benchmarks/study_{method}.py`. {progress(cells, path)}.",
        "",
        "Mean ± standard deviation over seeds; accuracy on test rows. The most seeds that a row has stand behind its",
        "name; entries without ± have one.",
    ]


def by_row(table: Table, metric: str, sets: list[str], order: tuple[str, ...], head: str = "row") -> list[str]:
    """A line for each method that has the metric, with its number of seeds, sets side by side; [] if none has."""
    lines = [f"| {head} | {' | '.join(sets)} |", f"|---|{'---|' * len(sets)}"]
    for method in order:
        found = [values(table, name, method, metric) for name in sets]
        if any(found):
            lines.append(f"| {method} ({max(map(len, found))}) | {' | '.join(entry(cell) for cell in found)} |")
    return lines if len(lines) > 2 else []


def section(title: str, *tables: list[str], text: str = "") -> list[str]:
    """A heading, its text and the tables that have lines; nothing at all where none has."""
    found = [line for table in tables if table for line in ("", *table)]
    return ["", f"## {title}", *(["", text] if text else []), *found] if found else []


def gain(table: Table, one: str, other: str, sets: list[str], metric: str) -> str:
    """Mean difference of the pairs of a set and a seed that both have, half of its 95 % interval, number of pairs."""
    differences = []
    for name in sets:
        a, b = table.get((name, one), {}), table.get((name, other), {})
        differences += [a[seed][metric] - b[seed][metric] for seed in sorted(a.keys() & b.keys()) if metric in a[seed]]
    if len(differences) < 3:
        return "-"
    half = student.ppf(0.975, len(differences) - 1) * statistics.stdev(differences) / len(differences) ** 0.5
    return f"{statistics.fmean(differences):+.3f} ± {half:.3f} ({len(differences)})"


def gains(
    table: Table, compared: dict[str, tuple[str, str, list[str]]], metrics: dict[str, str], head: str = "row"
) -> list[str]:
    """For each name (one method, the other, the sets they are compared on) a line of `gain` in every metric, if any."""
    lines = [f"| {head} | {' | '.join(metrics.values())} |", f"|---|{'---|' * len(metrics)}"]
    for name, (one, other, sets) in compared.items():
        found = [gain(table, one, other, sets, metric) for metric in metrics]
        if any(cell != "-" for cell in found):
            lines.append(f"| {name} | {' | '.join(found)} |")
    return lines if len(lines) > 2 else []


def verdicts(table: Table, method: str, sets: list[str], baselines: tuple[str, ...] = BASELINES) -> list[str]:
    """Beats, ties or loses against the best baseline, per set and metric."""
    lines = [f"| set | {' | '.join(TITLES.values())} |", "|---" * (len(TITLES) + 1) + "|"]
    for name in sets:
        parts = []
        for metric, tie in METRICS.items():
            own = values(table, name, method, metric)
            expected = (*baselines, *(SAME_INPUT if name in WIDE else ()))
            others = {b: mean(table, name, b, metric) for b in expected if (name, b) in table}
            if len(own) < len(SEEDS) or len(others) < len(expected):
                parts.append("open")
                continue
            best = max(others, key=others.__getitem__)
            difference = statistics.fmean(own) - others[best]
            word = "ties" if abs(difference) <= tie else ("**beats**" if difference > 0 else "loses to")
            parts.append(f"{word} {best} ({difference:+.3f})")
        lines.append(f"| {name} | {' | '.join(parts)} |")
    return lines


def paired(table: Table, one: str, other: str, sets: list[str]) -> list[str]:
    """Differences paired by set and seed, with a paired t-test over the means of the sets."""
    lines = ["| metric | mean difference | sets better / tied / worse | p (paired t, sets) |", "|---|---|---|---|"]
    for metric, tie in METRICS.items():
        gaps = []
        for name in sets:
            a, b = table.get((name, one), {}), table.get((name, other), {})
            shared = sorted(a.keys() & b.keys())
            if shared:
                gaps.append(statistics.fmean(a[s][metric] - b[s][metric] for s in shared))
        if len(gaps) < 2:
            continue
        better, worse = sum(g > tie for g in gaps), sum(g < -tie for g in gaps)
        p = ttest_rel(gaps, [0.0] * len(gaps)).pvalue
        lines.append(
            f"| {TITLES[metric]} | {statistics.fmean(gaps):+.3f} | {better} / {len(gaps) - better - worse} / {worse} "
            f"| {p:.2f} ({len(gaps)} sets) |"
        )
    return lines


def regret(table: Table, trained: list[str]) -> list[str]:
    """What the label-free choice of the strength costs in validation score, against a random choice from the grid."""
    lines = ["| row | searches | label-free: mean, largest | random choice: mean |", "|---|---|---|---|"]
    for method in trained:
        found = [r for (_, m), seeds in table.items() if m == method for r in seeds.values() if "strength" in r]
        if found:
            free = [r["regret_label_free"] for r in found]
            chance = statistics.fmean(r["regret_random"] for r in found)
            lines.append(f"| {method} | {len(found)} | {statistics.fmean(free):.3f}, {max(free):.3f} | {chance:.3f} |")
    return lines


def vectors() -> None:
    table = collect(study.PATH)
    sets = [name for name in study.SETS if any(s == name for s, _ in table)]
    done = progress(study.cells(list(study.SETS)), study.PATH)
    text = [
        "# Measured results: vectors",
        "",
        "Made by `benchmarks/tables.py` from `benchmarks/results/study.jsonl`; the protocol is that of",
        "[evaluation.md](evaluation.md) and of the head of `benchmarks/study.py`. Every trained row has the same",
        "encoder, batch and steps; noise rows have the same search over their strength. Mean ± standard deviation over",
        "seeds 0, 1, 2 (raw and PCA are deterministic). Test labels chose nothing in the study itself; which sets the",
        "neighbor recipe's own defaults were chosen on is said in [contrastive.md](contrastive.md).",
        "",
        *where(done, rows(study.PATH)[-1]),
    ]
    for metric, title in TITLES.items():
        text += ["", f"## {title}", "", *main_table(table, metric, sets)]
    text += ["", "## Seconds to make the representation", "", *main_table(table, "seconds_fit", sets, bold=False)]
    for method in ("contrastive", *LEARNED):
        text += ["", f"## Fair-claim verdicts: {method}", ""]
        text += ["Against the best of PCA and UMAP (either input), SCARF, tuned noise and the untrained encoder.", ""]
        text += verdicts(table, method, sets)
    # On narrow sets UMAP reads the same input as it is.
    for name in sets:
        if name not in WIDE and (name, "umap") in table:
            table[name, "umap, same input"] = table[name, "umap"]
    pairs = [("contrastive", "umap, same input"), ("pinda", "contrastive"), ("pinda", "neighbors + noise")]
    for one, other in [*pairs, ("pinda alone", "noise")]:
        lines = paired(table, one, other, sets)
        if len(lines) > 2:
            text += ["", f"## {one} minus {other}", "", *lines]
    text += ["", "## Choosing the strength without labels", ""]
    text += ["Validation score lost (mean of 1 %, linear and kNN accuracy on a fifth of the train rows).", ""]
    text += regret(table, list(study.TRAINED))
    write("results.md", text, done)


def domains() -> None:
    table = collect(study_domains.PATH)
    sets = [name for name in study_domains.SETS if any(s == name for s, _ in table)]
    done = progress(study_domains.cells(list(study_domains.SETS)), study_domains.PATH)
    text = [
        "# Measured results: images and DNA",
        "",
        "Made by `benchmarks/tables.py` from `benchmarks/results/study_domains.jsonl`; the protocol is that of",
        "[evaluation.md](evaluation.md) and of the head of `benchmarks/study_domains.py`. Every trained row has the",
        f"same small encoder for CPUs, batch 256 and {study_domains.STEPS} steps: a short budget, for comparison,",
        "far from what long training reaches. Rows with noise have the same search over its strength. Mean ± standard",
        "deviation over seeds 0, 1, 2 (raw and PCA are deterministic). Test labels chose nothing in the study; the",
        "temperature of DNA (0.1 against 0.2) was chosen on a fifth of the train rows of the two DNA sets, after",
        "it had been seen on the test rows of dna_human_core_promoter (one seed), and the small image encoder was",
        "chosen among nine on test rows of CIFAR-10.",
        "",
        *where(done, rows(study_domains.PATH)[-1]),
    ]
    for metric, title in TITLES.items():
        text += ["", f"## {title}", "", *main_table(table, metric, sets, DOMAIN_ORDER)]
    text += ["", "## 10 % labels", "", *main_table(table, "linear_10pct", sets, DOMAIN_ORDER)]
    seconds = main_table(table, "seconds_fit", sets, DOMAIN_ORDER, bold=False)
    text += ["", "## Seconds to make the representation", "", *seconds]
    for method in ("pinda + fixed views", "pinda alone", "neighbors", "neighbors + fixed views"):
        lines = verdicts(table, method, sets, DOMAIN_BASELINES)
        if any(word in line for line in lines for word in ("ties", "beats", "loses")):
            text += ["", f"## Fair-claim verdicts: {method}", ""]
            text += [
                "Against the best of PCA, UMAP, tuned noise, the untrained encoder and the fixed views.",
                "",
                *lines,
            ]
    pairs = [("pinda + fixed views", "fixed views"), ("pinda alone", "noise")]
    for one, other in [*pairs, ("neighbors + fixed views", "fixed views")]:
        lines = paired(table, one, other, sets)
        if len(lines) > 2:
            text += ["", f"## {one} minus {other}", "", *lines]
    text += ["", "## Choosing the strength without labels", ""]
    text += ["Validation score lost (mean of 1 %, linear and kNN accuracy on a fifth of the train rows).", ""]
    text += regret(table, list(study_domains.TRAINED))
    write("results_domains.md", text, done)


def where(done: str, row: dict[str, Any]) -> list[str]:
    """How much is done and on what it ran."""
    return [
        f"{done}. {row['processor']}, {row['threads']} thread, torch {row['torch']}, {row['date'][:10]}; rows hold",
        "their commit. Other work ran on the machine at the same time: seconds are upper bounds.",
    ]


def write(name: str, text: list[str], done: str) -> None:
    (DOCS / name).write_text("\n".join(text) + "\n", encoding="utf-8")
    print(DOCS / name, done)


if __name__ == "__main__":
    vectors()
    if study_domains.PATH.exists():
        domains()
