"""Do measures without labels tell which training is best? Writes docs/results/label_free.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from benchmarks.common.runner import rows as read
from benchmarks.quality.study_label_free import NAMES, PATH, PROTOCOLS, STEPS
from benchmarks.tables.formatting import TITLES, command, write

#: Measures and whether more (1) or less (-1) is said to be better; alpha-ReQ: close to 1 is.
MEASURES = {
    "effective_rank": 1,
    "rankme": 1,
    "lidar": 1,
    "alpha": 0,
    "alignment": -1,
    "uniformity": -1,
    "neighbor_r2": 1,
    "stability_seeds": 1,
    "stability_halves": 1,
    "told_apart": -1,
}
NAMED = {
    "effective_rank": "effective rank",
    "rankme": "RankMe",
    "lidar": "LiDAR",
    "alpha": "alpha-ReQ",
    "alignment": "alignment",
    "uniformity": "uniformity",
    "neighbor_r2": "neighbor R²",
    "stability_seeds": "stability between seeds",
    "stability_halves": "stability between halves",
    "told_apart": "views told apart",
}
DEFAULT = "contrastive"
Table = dict[str, dict[str, Mapping[str, float]]]


def complete(path: Path = PATH) -> Table:
    """By set and row, the measured values of the sets all of whose rows are measured, in the order of the study."""
    from benchmarks.quality.study_label_free import OF_MODALITIES, OF_VECTORS, SETS

    found: Table = {name: {} for name in NAMES}
    for line in read(path):
        if "error" not in line:
            found[line["dataset"]][line["method"]] = line
    expected = {name: OF_VECTORS if SETS[name].modality == "vectors" else OF_MODALITIES for name in NAMES}
    return {name: rows for name, rows in found.items() if rows.keys() == expected[name].keys()}


def oriented(measure: str, value: float) -> float:
    """The value, turned so that more is said to be better; NaN is worst."""
    sign = MEASURES[measure]
    turned = -abs(value - 1) if sign == 0 else sign * value
    return -np.inf if np.isnan(turned) else turned


def correlation(rows: Mapping[str, Mapping[str, float]], measure: str, score: str) -> float:
    """Spearman's correlation of a measure with a score over the rows of a set; 0 if one of them is constant."""
    pairs = [(oriented(measure, row[measure]), row[score]) for row in rows.values()]
    one, two = map(list, zip(*pairs, strict=True))
    return float(spearmanr(one, two).statistic) if len(set(one)) > 1 and len(set(two)) > 1 else 0.0


def regret(rows: Mapping[str, Mapping[str, float]], score: str, chosen: str | None) -> float:
    """The best score of a set minus that of the chosen row; None: minus the mean of all, which is chance."""
    values = {name: row[score] for name, row in rows.items()}
    of_choice = float(np.mean(list(values.values()))) if chosen is None else values[chosen]
    return max(values.values()) - of_choice


def choice(rows: Mapping[str, Mapping[str, float]], measure: str) -> str:
    """The row with the best value of a measure; "always" is the default row."""
    if measure == "always":
        return DEFAULT
    return max(rows, key=lambda name: oriented(measure, rows[name][measure]))


def mean_regret(table: Table, measure: str | None, score: str | None = None) -> float:
    """Mean over sets, and over the scores if none is named, of the regret of choosing by a measure; None: by chance."""
    return float(
        np.mean(
            [
                regret(rows, name, None if measure is None else choice(rows, measure))
                for rows in table.values()
                for name in ([score] if score else PROTOCOLS)
            ]
        )
    )


def best_rule(table: Table) -> str:
    """The measure, or "always", with the smallest mean regret; for ties the default."""
    return min(("always", *MEASURES), key=lambda measure: mean_regret(table, measure))


def halves(table: Table) -> list[tuple[str, float, float, float]]:
    """Rule fitted on every second set, its regret on the others, and there that of the default and of chance."""
    names, found = list(table), []
    for fitted in (names[::2], names[1::2]):
        rule = best_rule({name: table[name] for name in fitted})
        rest = {name: table[name] for name in names if name not in fitted}
        found.append((rule, mean_regret(rest, rule), mean_regret(rest, "always"), mean_regret(rest, None)))
    return found


def page(table: Table) -> Sequence[str]:
    """The lines of the page."""
    heads = [TITLES[score] for score in PROTOCOLS]
    rule = "|---|" + "---|" * len(heads)
    count = sum(map(len, table.values()))
    lines = [
        "# Choosing without labels",
        "",
        "Is there a number that tells, without labels, which of several trainings is best? Written by",
        "`benchmarks/tables/label_free.py` from `benchmarks/results/study_label_free.jsonl`.",
        "",
        f"{count} rows on {len(table)} of {len(NAMES)} sets: seven methods and views of",
        f"vectors, four of images and DNA, each trained on 1,000 rows for {STEPS} steps (images and DNA 100) with two",
        "seeds and on two halves of the rows. Measures are of 400 test rows without labels, scores of up to 1,000",
        "with them, means of two seeds; one thread of an AMD EPYC, torch 2.13.0.",
        "Definitions and papers: `viewsmith.evaluation.label_free`.",
        "",
        "## Rank correlation",
        "",
        "Spearman's correlation over the rows of a set, mean over sets; in parentheses the number of sets where it is",
        "positive. Each measure is turned so that more is what its paper calls better.",
        "",
        f"| measure | {' | '.join(heads)} |",
        rule,
    ]
    for measure, name in NAMED.items():
        cells = []
        for score in PROTOCOLS:
            each = [correlation(rows, measure, score) for rows in table.values()]
            cells.append(f"{np.mean(each):+.2f} ({sum(value > 0 for value in each)} of {len(each)})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += [
        "",
        "## Regret of a choice",
        "",
        "The best score of a set minus that of the row with the best value of the measure, mean over sets.",
        "",
        f"| choose by | {' | '.join(heads)} | mean |",
        rule + "---|",
    ]
    for measure, name in [("always", "always `contrastive`"), (None, "chance"), *NAMED.items()]:
        cells = [f"{mean_regret(table, measure, score):.3f}" for score in PROTOCOLS]
        lines.append(f"| {name} | {' | '.join(cells)} | {mean_regret(table, measure):.3f} |")
    lines += ["", "## A rule for new sets", ""]
    for i, (rule_name, own, always, chance) in enumerate(halves(table)):
        shown = NAMED.get(rule_name, "always `contrastive`")
        lines.append(
            f"- Fitted on the {'first, third, ...' if i == 0 else 'second, fourth, ...'} set: {shown}; on "
            f"the others its regret is {own:.3f}, that of always `contrastive` {always:.3f}, of chance {chance:.3f}."
        )
    return [*lines, "", verdict(table)]


def verdict(table: Table) -> str:
    """Whether a rule that was fitted on half of the sets beats the default on the others, both ways."""
    better = [own < always - 0.005 for _, own, always, _ in halves(table)]
    if all(better):
        return "On both halves a fitted rule is better than always `contrastive`."
    return (
        "No rule that was fitted on half of the sets is better than always `contrastive` on both others (by .005): "
        "without labels, take the default of `contrastive`."
    )


def main() -> None:
    """Write the page."""
    write("results/label_free.md", list(page(complete())))


if __name__ == "__main__":
    command(__doc__, main)
