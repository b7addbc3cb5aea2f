"""Tables, gains and verdicts in Markdown, from the studies' results files.

A row beats another if the difference of their means over seeds is larger than a tie (`TIES`). The rule for a claim: the
row has three seeds and beats the best of the baselines that a page names.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scipy.stats import t as student
from scipy.stats import ttest_rel

from benchmarks.common.runner import progress, rows
from benchmarks.quality.suite import Study, Trained
from viewsmith.evaluation.differences import TIES as ALL_TIES

BEGIN, END = "<!-- written by benchmarks/tables -->", "<!-- end of tables -->"
TITLES = {
    "linear": "linear",
    "svm": "linear SVM",
    "knn": "kNN",
    "kmeans_accuracy": "k-means",
    "nmi": "NMI of k-means",
    "linear_1pct": "1 % labels",
    "linear_10pct": "10 % labels",
    "softmax_50": "softmax, 50 epochs",
}
TIES = {metric: ALL_TIES[metric] for metric in ("kmeans_accuracy", "linear_1pct", "knn", "linear")}
SEEDS_OF_A_CLAIM = 3

Table = dict[tuple[str, str], dict[int, dict[str, Any]]]
Lines = list[str]


def titles(*metrics: str) -> dict[str, str]:
    """Metrics with their titles."""
    return {metric: TITLES[metric] for metric in metrics}


def collect(path: Path) -> Table:
    """The lines of a results file by set and row, then by seed."""
    table: Table = defaultdict(dict)
    for row in rows(path):
        if "error" not in row:
            table[row["dataset"], row["method"]][row["seed"]] = row
    return table


def measured(table: Table, sets: Sequence[str]) -> list[str]:
    """The sets with at least one result."""
    return [name for name in sets if any(key[0] == name for key in table)]


def values(table: Table, dataset: str, method: str, metric: str) -> list[float]:
    """Values of a metric in the order of seeds, of the seeds that have it."""
    return [row[metric] for _, row in sorted(table.get((dataset, method), {}).items()) if metric in row]


def mean(table: Table, dataset: str, method: str, metric: str) -> float:
    """Mean over the seeds; NaN without any."""
    found = values(table, dataset, method, metric)
    return statistics.fmean(found) if found else math.nan


def entry(found: Sequence[float]) -> str:
    """Text with mean and standard deviation."""
    if not found:
        return "-"
    text = f"{statistics.fmean(found):.3f}"
    return text + (f" ± {statistics.stdev(found):.3f}" if len(found) > 1 else "")


def head(first: str, others: Sequence[str]) -> Lines:
    """The first two lines of a table."""
    corner = f"| {first} |" if first else "| |"
    return [f"{corner} {' | '.join(others)} |", "|---" * (len(others) + 1) + "|"]


def by_set(table: Table, metric: str, sets: Sequence[str], order: Sequence[str], *, bold: bool = True) -> Lines:
    """A table with a line for each set and a column for each method; the best value of a line is bold."""
    methods = [m for m in order if any((s, m) in table for s in sets)]
    lines = head("set", methods)
    for name in sets:
        best = max((mean(table, name, m, metric) for m in methods if (name, m) in table), default=math.nan)
        texts = []
        for method in methods:
            text = entry(values(table, name, method, metric))
            texts.append(f"**{text}**" if bold and mean(table, name, method, metric) == best else text)
        lines.append(f"| {name} | {' | '.join(texts)} |")
    return lines


def by_row(table: Table, metric: str, sets: Sequence[str], order: Sequence[str], first: str = "row") -> Lines:
    """A table with a line for each method that has the metric, and a column for each set; [] without any."""
    lines = head(first, sets)
    for method in order:
        found = [values(table, name, method, metric) for name in sets]
        if any(found):
            lines.append(f"| {method} ({max(map(len, found))}) | {' | '.join(entry(cell) for cell in found)} |")
    return lines if len(lines) > 2 else []


def section(title: str, *tables: Lines, text: str = "") -> Lines:
    """A heading, a text and the tables that have lines; [] if no table has."""
    found = [line for table in tables if table for line in ("", *table)]
    return ["", f"## {title}", *(["", text] if text else []), *found] if found else []


def gain(table: Table, one: str, other: str, sets: Sequence[str], metric: str, digits: int = 3) -> str:
    """Mean difference of two methods, paired by set and seed; half of its 95 % interval; number of pairs."""
    found = differences(table, one, other, sets, metric)
    return f"{gain_of(found, digits)} ({len(found)})" if len(found) >= 3 else "-"


def gain_of(found: Sequence[float], digits: int = 3) -> str:
    """Mean and half of the 95 % interval of at least three differences."""
    half = student.ppf(0.975, len(found) - 1) * statistics.stdev(found) / len(found) ** 0.5
    return f"{statistics.fmean(found):+.{digits}f} ± {half:.{digits}f}"


def differences(table: Table, one: str, other: str, sets: Sequence[str], metric: str) -> list[float]:
    """Differences of two methods, for each set and each seed that both have."""
    found = []
    for name in sets:
        a, b = table.get((name, one), {}), table.get((name, other), {})
        found += [a[seed][metric] - b[seed][metric] for seed in sorted(a.keys() & b.keys()) if metric in a[seed]]
    return found


def gains(
    table: Table, compared: Mapping[str, tuple[str, str, Sequence[str]]], metrics: Mapping[str, str], first: str = "row"
) -> Lines:
    """A table of `gain`: a line for each entry of `compared` (two methods and the sets), a column for each metric."""
    lines = head(first, list(metrics.values()))
    for name, (one, other, sets) in compared.items():
        found = [gain(table, one, other, sets, metric) for metric in metrics]
        if any(cell != "-" for cell in found):
            lines.append(f"| {name} | {' | '.join(found)} |")
    return lines if len(lines) > 2 else []


def measured_with(*paths: Path) -> str:
    """All processors of results files; threads, software and date of the last result."""
    found = [row for path in paths for row in rows(path)]
    last = max(found, key=lambda row: str(row["date"]))
    names = {row["processor"].replace("(R)", "").removesuffix(" Processor") for row in found}
    return f"{' or '.join(sorted(names))}, {last['threads']} thread, torch {last['torch']}, {last['date'][:10]}"


def verdicts(table: Table, method: str, baselines: Mapping[str, Sequence[str]]) -> Lines:
    """A table: whether a method beats, ties or loses to the best baseline, for each metric and measured set."""
    lines = head("set", [TITLES[metric] for metric in TIES])
    for name, expected in baselines.items():
        parts = []
        if (name, method) not in table:
            continue
        for metric, tie in TIES.items():
            scores = values(table, name, method, metric)
            others = {b: mean(table, name, b, metric) for b in expected if (name, b) in table}
            if len(scores) < SEEDS_OF_A_CLAIM or len(others) < len(expected):
                parts.append("open")
                continue
            best = max(others, key=others.__getitem__)
            difference = statistics.fmean(scores) - others[best]
            word = "ties" if abs(difference) <= tie else ("**beats**" if difference > 0 else "loses to")
            parts.append(f"{word} {best} ({difference:+.3f})")
        lines.append(f"| {name} | {' | '.join(parts)} |")
    return lines


def paired(table: Table, one: str, other: str, sets: Sequence[str]) -> Lines:
    """A table of differences paired by set and seed, with a paired t-test over the sets; [] for fewer than two sets."""
    lines = head("metric", ["mean difference", "sets better / tied / worse", "p (paired t, sets)"])
    for metric, tie in TIES.items():
        gaps = []
        for name in sets:
            a, b = table.get((name, one), {}), table.get((name, other), {})
            if seeds := sorted(a.keys() & b.keys()):
                gaps.append(statistics.fmean(a[s][metric] - b[s][metric] for s in seeds))
        if len(gaps) < 2:
            continue
        better, worse = sum(g > tie for g in gaps), sum(g < -tie for g in gaps)
        p = ttest_rel(gaps, [0.0] * len(gaps)).pvalue
        lines.append(
            f"| {TITLES[metric]} | {statistics.fmean(gaps):+.3f} | {better} / {len(gaps) - better - worse} / {worse} "
            f"| {p:.2f} ({len(gaps)} sets) |"
        )
    return lines if len(lines) > 2 else []


def regret(table: Table, searched: Sequence[str]) -> Lines:
    """A table of the validation score that the label-free choice of the strength and a random choice lose."""
    lines = head("row", ["searches", "label-free: mean, largest", "random choice: mean"])
    for method in searched:
        found = [r for (_, m), seeds in table.items() if m == method for r in seeds.values() if "strength" in r]
        if found:
            free = [r["regret_label_free"] for r in found]
            chance = statistics.fmean(r["regret_random"] for r in found)
            lines.append(f"| {method} | {len(found)} | {statistics.fmean(free):.3f}, {max(free):.3f} | {chance:.3f} |")
    return lines


def comparison(
    study: Study,
    *,
    table: Table,
    metrics: Sequence[str],
    order: Sequence[str],
    claims: Sequence[str],
    baselines: Mapping[str, Sequence[str]],
    against: str,
    pairs: Sequence[tuple[str, str]],
    of_pairs: Table | None = None,
) -> Lines:
    """The tables of a study that compares methods: each metric, seconds, verdicts on claims, paired differences.

    `of_pairs`: the table for the paired differences, if it is not `table`.
    """
    sets = measured(table, list(study.sets))
    lines = [
        "",
        f"{progress(study.cells(), study.path)}. {measured_with(study.path)}; the lines",
        "of the file name their commits. The machine was shared with other work: seconds are upper bounds.",
    ]
    for metric in metrics:
        lines += section(TITLES[metric], by_set(table, metric, sets, order))
    lines += section("Seconds to make the representation", by_set(table, "seconds_fit", sets, order, bold=False))
    for method in claims:
        if any((name, method) in table for name in sets):
            found = verdicts(table, method, {name: baselines[name] for name in sets})
            lines += section(f"Fair-claim verdicts: {method}", found, text=f"Against the best of {against}.")
    for one, other in pairs:
        lines += section(f"{one} minus {other}", paired(of_pairs or table, one, other, sets))
    searched = [name for name, row in study.rows.items() if isinstance(row, Trained) and row.search]
    text = "Validation score lost (mean of 1 %, linear and kNN accuracy on a fifth of the train rows)."
    return lines + section("Choosing the strength without labels", regret(table, searched), text=text)


def between(text: str, lines: Lines) -> str:
    """A page with these lines between its two comments."""
    before, rest = text.split(BEGIN)
    first = next(i for i, line in enumerate(lines) if line)  # a section begins with an empty line
    return "\n".join([before + BEGIN, "", *lines[first:], "", END]) + rest.split(END)[1]
