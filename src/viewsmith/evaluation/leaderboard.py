"""Which rows of a comparison are level with the best: paired tests, ties, and the leaderboard as tables and text."""

import csv
import io
import itertools
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from viewsmith.core.files import spreadsheet_text
from viewsmith.evaluation.label_free import STUDY

CONFIDENCE, SIGNIFICANCE = 0.95, 0.05


@dataclass(frozen=True)
class Repeats:
    """How the trainings of a comparison repeat."""

    splits: tuple[int, ...]  # the number of the split of each repeat
    overlap: float = 0.0  # test rows over train rows, if several random splits of the same rows are drawn


@dataclass(frozen=True)
class Difference:
    """A mean of paired differences, its deviation, 95 % interval and p value; None where there are too few pairs."""

    mean: float
    deviation: float | None
    low: float | None
    high: float | None
    p: float | None


def paired_difference(values: ArrayLike, overlap: float = 0.0) -> Difference:
    r"""The corrected resampled t-test of Nadeau and Bengio (2003), equation 9, of paired differences.

    .. math:: t = \bar d / \sqrt{(1/J + n_2/n_1) S^2}

    with J - 1 degrees of freedom, where :math:`\bar d` and :math:`S^2` are mean and variance of the J differences, and
    n_2/n_1 is the ratio of test to train rows. Random splits of one data set share rows, so that their scores are not
    independent: without the correction, far too many differences are found. With `overlap` 0 it is the paired t-test.
    """
    d = np.asarray(values, dtype=np.float64)
    mean = float(d.mean())
    if len(d) < 2:
        return Difference(mean, None, None, None, None)
    deviation = float(d.std(ddof=1))
    if deviation <= 1e-12:
        return Difference(mean, 0.0, None, None, None)
    from scipy.stats import t

    error = deviation * math.sqrt(1 / len(d) + overlap)
    half = float(t.ppf((1 + CONFIDENCE) / 2, len(d) - 1)) * error
    return Difference(mean, deviation, mean - half, mean + half, float(2 * t.sf(abs(mean) / error, len(d) - 1)))


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """P values by the step-down method of Holm (1979): the i-th of m times m - i + 1, increasing, at most 1."""
    given = np.asarray(p, dtype=np.float64)
    adjusted = np.full(len(given), np.nan)
    order = np.argsort(given)[: np.isfinite(given).sum()]
    steps = given[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(steps)) if len(order) else steps
    return adjusted


def by_repeat(values: Sequence[float | None], repeats: Repeats) -> dict[int, float]:
    """Scores by what a test counts as a repeat: on several splits the mean of each split, on one those of each seed."""
    several, found = len(set(repeats.splits)) > 1, dict[int, list[float]]()
    for number, (value, split) in enumerate(zip(values, repeats.splits, strict=True)):
        if value is not None and math.isfinite(value):
            found.setdefault(split if several else number, []).append(value)
    return {key: float(np.mean(scores)) for key, scores in found.items()}


def all_pairs(
    scores: Mapping[str, Mapping[str, Sequence[float | None]]], protocols: Sequence[str], repeats: Repeats
) -> list[dict[str, Any]]:
    """All pairs of rows at all protocols, tested, with p values that are adjusted within a protocol."""
    found = []
    for protocol in protocols:
        values = {row: by_repeat(of_row[protocol], repeats) for row, of_row in scores.items()}
        tests: list[dict[str, Any]] = []
        for row, other in itertools.combinations(values, 2):
            one, two = values[row], values[other]
            if paired := [one[i] - two[i] for i in sorted(one.keys() & two.keys())]:
                result = paired_difference(paired, repeats.overlap)
                tests.append({"row": row, "other": other, "protocol": protocol, **vars(result)})
        adjusted = holm([math.nan if test["p"] is None else test["p"] for test in tests])
        for test, p in zip(tests, adjusted.tolist(), strict=True):
            found.append(test | {"p_holm": None if math.isnan(p) else p})
    return found


WIDTH = 120


def aligned(cells: Sequence[str], pad: Callable[[str, int], str] = str.ljust) -> list[str]:
    """The cells of a column, padded to one width."""
    width = max(map(len, cells))
    return [pad(cell, width) for cell in cells]


def marked(values: Sequence[float], *, lower: bool = False) -> list[str]:
    """Scores to three decimals, followed by ``*`` if equal to the best (highest, or `lower`) so written, or a space."""
    texts = [f"{value:.3f}" for value in values]
    finite = [text for text, value in zip(texts, values, strict=True) if math.isfinite(value)]
    best = (min if lower else max)(finite, key=float, default=None)
    return [text + ("*" if text == best else " ") for text in texts]


def beside(columns: Sequence[Sequence[str]]) -> str:
    """Columns of equal length beside each other, as lines of text."""
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def in_blocks(names: Sequence[str], columns: Sequence[Sequence[str]], width: int = WIDTH) -> list[str]:
    """One or more tables with the names of the rows and as many of the columns as fit."""
    first, blocks, used = aligned(["", *names]), list[list[Sequence[str]]](), width
    for column in columns:
        if used + len(column[0]) + 2 > width:
            blocks.append([first])
            used = len(first[0])
        blocks[-1].append(column)
        used += len(column[0]) + 2
    return [beside(block) for block in blocks]


#: Largest difference at each protocol that is a tie: nearly always within what another seed changes.
TIES: dict[str, float] = {
    **dict.fromkeys(("linear", "knn", "svm", "linear_10pct", "softmax_50", "r2", "knn_r2", "r2_10pct"), 0.015),
    **dict.fromkeys(("linear_1pct", "r2_1pct"), 0.03),
    **dict.fromkeys((measure + rows for rows in ("", "_l2") for measure in ("kmeans_accuracy", "nmi", "ari")), 0.05),
    "mae": 0.015,  # of the smallest error, because it has the unit of the target
}

# 0.955 - 0.940 is a tie of 0.015, although it is 0.0150...01 in binary floats.
ROUNDING = 1e-9


#: Protocols of which a lower score is better.
LOWER_IS_BETTER = frozenset({"mae"})


def best_of(protocol: str) -> Callable[..., Any]:
    """The function that finds the best score of a protocol: `max`, or `min` where lower is better."""
    return min if protocol in LOWER_IS_BETTER else max


def level_at(protocol: str, values: Mapping[str, Mapping[int, float]], overlap: float = 0.0) -> list[str]:
    """`level_rows` at a protocol, with its tie, also where lower is better."""
    if protocol not in LOWER_IS_BETTER:
        return level_rows(values, TIES[protocol], overlap)
    means = [
        float(np.mean([*each.values()])) for each in values.values() if each and np.isfinite([*each.values()]).all()
    ]
    negated = {row: {i: -score for i, score in scores.items()} for row, scores in values.items()}
    return level_rows(negated, TIES[protocol] * min(means, default=0.0), overlap)


def level_rows(values: Mapping[str, Mapping[int, float]], tie: float, overlap: float = 0.0) -> list[str]:
    """Rows level with that of the highest mean: behind are those whose mean difference, over repeats of both, is above
    `tie` and whose 95 % interval (from three repeats on) does not reach zero."""
    finite = {row: scores for row, scores in values.items() if scores and np.isfinite([*scores.values()]).all()}
    if not finite:
        return []
    best = finite[max(finite, key=lambda row: float(np.mean([*finite[row].values()])))]
    level = []
    for row, scores in finite.items():
        gaps = [best[i] - scores[i] for i in sorted(best.keys() & scores.keys())]
        found = paired_difference(gaps, overlap) if gaps else None
        if found and not (found.mean > tie + ROUNDING and (len(gaps) < 3 or found.low is None or found.low > 0)):
            level.append(row)
    return level


def sampling_error(test_rows: int | None) -> str:
    """The standard error of an accuracy, in words, if it is larger than a tie; else empty."""
    error = 0.5 / math.sqrt(test_rows) if test_rows else 0.0
    if not test_rows or error <= TIES["linear"]:
        return ""
    return f"The standard error of an accuracy on {test_rows:,} test rows is up to {error:.2g}."


#: Protocols that decide which rows are level with the best ones everywhere: few labels, many, neighbors and clusters.
MAIN = ("linear_1pct", "linear", "knn", "kmeans_accuracy", "r2_1pct", "r2", "knn_r2")

PURPOSE = {
    "linear_1pct": "few labels",
    "linear": "many labels",
    "knn": "neighbors",
    "kmeans_accuracy": "clusters",
    "r2_1pct": "few labels",
    "r2": "many labels",
    "knn_r2": "neighbors",
}


@dataclass
class Results:
    """Scores and costs by table row, as they are found."""

    repeats: int
    protocols: list[str]
    scores: dict[str, dict[str, list[float | None]]] = field(default_factory=dict)  # by row, protocol and repeat
    kinds: dict[str, str] = field(default_factory=dict)  # by row: "baseline", "untrained", "method" or "output"
    seconds: dict[str, dict[int, tuple[float | None, float | None]]] = field(
        default_factory=dict
    )  # embedding, training
    failed: dict[str, str] = field(default_factory=dict)  # by row, why it has no scores in some repeat

    def add(self, row: str, kind: str, repeat: int, scores: Mapping[str, float | None]) -> None:
        """Add the scores of a row in a repeat."""
        self.kinds[row] = kind
        table = self.scores.setdefault(row, {name: [None] * self.repeats for name in self.protocols})
        for name in self.protocols:
            value = scores.get(name)
            table[name][repeat] = None if value is None or not math.isfinite(value) else value

    def cost(self, row: str, repeat: int, embed: float | None, training: float | None) -> None:
        """Add the seconds of embedding all rows, and of training, in a repeat."""
        self.seconds.setdefault(row, {})[repeat] = (embed, training)

    def sort(self, order: Sequence[str]) -> None:
        """Bring the rows into an order; outputs of a method follow it, and rows that are not named are last."""

        def place(row: str) -> int:
            of = row if row in order else row.split(" ")[0]
            return order.index(of) if of in order else len(order)

        self.scores = {row: self.scores[row] for row in sorted(self.scores, key=place)}


def leaderboard(found: Results, repeats: Repeats, cells: Sequence[Mapping[str, Any]], out: str) -> dict[str, Any]:
    """The results of a comparison as plain values."""
    level = _level(found, repeats)
    main = [name for name in level if name in MAIN and level[name]] or list(level)
    rows = {row: {p: _summary(values, repeats) for p, values in table.items()} for row, table in found.scores.items()}
    first = level[main[0]] if main else []
    result: dict[str, Any] = {
        "protocols": found.protocols,
        "rows": rows,
        "leaderboard": _board(found, rows, main),
        "differences": all_pairs(found.scores, list(level), repeats),
        "level": level,
        "level_everywhere": [row for row in first if all(row in level[name] for name in main)],
        "failed": found.failed,
        "left_out": _left_out(cells),
        "cells": list(cells),
    }
    return result | {"next": _next_step(result, found.kinds, len(repeats.splits), out)}


def _summary(values: Sequence[float | None], repeats: Repeats) -> dict[str, Any]:
    """Mean and deviation of the scores that are there; a row that is computed once has no deviation."""
    known = [value for value in values if value is not None]
    # On one split a baseline has the same score in all repeats, which is no spread.
    once = len(set(repeats.splits)) == 1 and len(set(known)) == 1
    spread = float(np.std(known, ddof=1)) if len(known) > 1 and not once else None
    return {"mean": float(np.mean(known)) if known else None, "deviation": spread, "values": list(values)}


def _level(found: Results, repeats: Repeats) -> dict[str, list[str]]:
    """By protocol, the rows that are level with the best one, cheapest first; no further outputs of methods."""

    def cost(row: str) -> tuple[int, float]:
        kind = ("baseline", "untrained", "method").index(found.kinds[row])
        return kind, 0.0 if kind == 0 else _seconds(found, row.partition(" ")[0])[0] or 0.0

    ordered = sorted((row for row in found.scores if found.kinds[row] != "output"), key=cost)
    return {
        name: level_at(name, {r: by_repeat(found.scores[r][name], repeats) for r in ordered}, repeats.overlap)
        for name in found.protocols
        if name in TIES
    }


def _seconds(found: Results, row: str) -> tuple[float | None, float | None]:
    """Mean seconds of training and of embedding."""

    def mean(i: int) -> float | None:
        known = [value for pair in found.seconds.get(row, {}).values() if (value := pair[i]) is not None]
        return float(np.mean(known)) if known else None

    return mean(1), mean(0)


def _board(found: Results, rows: Mapping[str, Any], main: Sequence[str]) -> list[dict[str, Any]]:
    """The rows, the best mean of the main protocols first, and then those without all of these scores."""
    board = []
    for row, table in rows.items():
        means = [table[name]["mean"] for name in main]
        mean = None if None in means or not means else float(np.mean(means))
        training, embed = _seconds(found, row)
        count = max(sum(value is not None for value in table[name]["values"]) for name in found.protocols)
        board.append(
            {
                "row": row,
                "kind": found.kinds[row],
                "mean": mean,
                "train_seconds": training,
                "embed_seconds": embed,
                "repeats": count,
                "note": f"failed in a repeat: {found.failed[row]}" if row in found.failed else "",
            }
        )
    board.sort(key=lambda line: -math.inf if line["mean"] is None else line["mean"], reverse=True)
    for row, why in found.failed.items():
        if row not in rows:
            board.append({"row": row, "kind": "failed", "mean": None, "repeats": 0, "note": f"failed: {why}"})
    return [{"rank": None if line["mean"] is None else number} | line for number, line in enumerate(board, 1)]


def _left_out(cells: Sequence[Mapping[str, Any]]) -> str:
    """The trainings for which there was no time, in words; empty if there are none."""
    seeds: dict[str, list[str]] = {}
    for cell in cells:
        if cell["status"] == "left out":
            seeds.setdefault(cell["method"], []).append(str(cell["seed"]))
    return "; ".join(f"{method}, seed {', '.join(each)}" for method, each in seeds.items())


def _next_step(result: Mapping[str, Any], kinds: Mapping[str, str], repeats: int, out: str) -> str:
    """One sentence: what to do with the result."""
    more = ""
    if result["left_out"]:
        more = "; the same command trains what was left out"
    elif repeats < 3 and result["level"]:  # without scores, more seeds change nothing
        more = "; give --seeds 5 before you rely on it"
    everywhere = result["level_everywhere"]
    if not result["level"]:
        return without_labels(kinds, out) + more
    if not everywhere:
        best = {
            PURPOSE.get(name, name): rows[0] for name, rows in result["level"].items() if name in MAIN and rows
        } or {name: rows[0] for name, rows in result["level"].items() if rows}
        return f"Choose by purpose: {', '.join(f'{row} for {purpose}' for purpose, row in best.items())}{more}."
    row = everywhere[0]
    if kinds[row] in ("baseline", "untrained"):
        return f"Use {row}: no training is better by more than a tie{more}."
    return f"Use {row}: `viewsmith embed {out}/{row}-0 DATA --out FILE` writes its representation{more}."


def without_labels(kinds: Mapping[str, str], out: str) -> str:
    """What to do where there are no labels: the measured rule, and its regret."""
    use, written = "Add contrastive to --methods, and use it", ""
    if "contrastive" in kinds:
        use = "Use contrastive"
        written = f"`viewsmith embed {out}/contrastive-0 DATA --out FILE` writes its representation, and "
    return (
        f"{use}: there are no labels, and on {STUDY['sets']} sets no measure chose better than always taking "
        f"contrastive, whose mean accuracy was {STUDY['always']:.3f} below that of the best row (a random row: "
        f"{STUDY['chance']:.3f}); {written}--label compares the rows by a few labels"
    )


def as_csv(result: Mapping[str, Any]) -> str:
    """The leaderboard as CSV: a line for each row, with mean and deviation of each protocol."""
    plain = ("rank", "row", "kind", "mean")
    costs = ("train_seconds", "embed_seconds", "repeats", "level_everywhere", "note")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    scores = [title for name in result["protocols"] for title in (name, f"{name}_deviation")]
    writer.writerow([*plain, *scores, *costs])
    for line in result["leaderboard"]:
        table = result["rows"].get(line["row"], {})
        values = [table.get(name, {}).get(key) for name in result["protocols"] for key in ("mean", "deviation")]
        known = line | {"level_everywhere": line["row"] in result["level_everywhere"]}
        cells = [*(known[name] for name in plain), *values, *(known.get(name) for name in costs)]
        writer.writerow([f"{value:.6g}" if isinstance(value, float) else spreadsheet_text(value) for value in cells])
    return text.getvalue()


def spread_words(result: Mapping[str, Any]) -> str:
    """What means and deviations are over: ``mean and standard deviation of 3 seeds, each with its own split``."""
    count, splits = result["seeds"], result["split"]["splits"]
    if count == 1:
        return "one seed"
    own = ", each with its own split" if splits == count else f" on {splits} splits" if splits > 1 else " on one split"
    return f"mean and standard deviation of {count} seeds{own}"


def failures(result: Mapping[str, Any]) -> list[str]:
    """What failed, and why, in words."""
    rows = result["rows"]
    return [f"{row} failed{' in a repeat' if row in rows else ''}: {why}" for row, why in result["failed"].items()]


def main_level(result: Mapping[str, Any]) -> dict[str, list[str]]:
    """The rows that are level with the best one at the main protocols, or at all if none is a main one."""
    return {name: rows for name, rows in result["level"].items() if name in MAIN} or dict(result["level"])


def standard_error(result: Mapping[str, Any]) -> str:
    """The sampling error of an accuracy, in words, where the scores are accuracies."""
    numbers = {"r2", "mae", "knn_r2"} & set(result["protocols"])
    return "" if numbers or not result["level"] else sampling_error(result["test_rows"])


def _answer(result: Mapping[str, Any], width: int) -> str:
    """Which rows are level with the best one, and what to do next."""
    level, lines = main_level(result), []
    if level:
        ties = ", ".join(f"{name} {TIES[name]}" for name in level)
        lines.append(textwrap.fill(f"Level with the best, cheapest first (a tie is {ties}):", width))
    longest = max(map(len, level), default=0)
    for name, rows in level.items():
        start, indent = f"  {name:{longest}}  ", " " * (longest + 4)
        lines.append(textwrap.fill(", ".join(rows) or "-", width, initial_indent=start, subsequent_indent=indent))
    everywhere = result["level_everywhere"]
    if everywhere:
        lines.append(f"The cheapest that is level with the best everywhere: {everywhere[0]}.")
    elif level:
        lines.append("None is level with the best everywhere: choose by what the representation is for.")
    lines.append(standard_error(result))
    lines += failures(result)
    if result["left_out"]:
        lines.append(f"Left out, because the time of --budget was over: {result['left_out']}.")
    return "\n".join([*filter(None, lines), result["next"]])


def score_columns(result: Mapping[str, Any]) -> list[list[str]]:
    """For each score its name, and mean and deviation of each row, the best mean marked."""
    columns = []
    for protocol in result["protocols"]:
        scores = [row[protocol] for row in result["rows"].values()]
        spreads = ["" if s["deviation"] is None else f" ± {s['deviation']:.3f}" for s in scores]
        means = [math.nan if s["mean"] is None else s["mean"] for s in scores]
        scored = protocol in result["level"]
        marks = marked(means, lower=protocol in LOWER_IS_BETTER) if scored else [f"{mean:.3f} " for mean in means]
        texts = [f"{mean}{spread:8}" for mean, spread in zip(marks, spreads, strict=True)]
        columns.append(aligned([protocol, *texts]))
    return columns


def format_comparison(result: Mapping[str, Any], width: int = WIDTH) -> str:
    """A leaderboard as plain text: mean and standard deviation over the repeats, the best marked, the rows that are
    level with it, and what to do next."""
    tables = in_blocks(list(result["rows"]), score_columns(result), width)
    early = sum(cell["status"] == "time limit" for cell in result["cells"])
    note = spread_words(result)
    if result["level"]:
        intervals = ", with intervals," if result["seeds"] > 1 else ""
        note += f"; * best of the column; paired differences{intervals} are in report.html"
    if early:
        note += f"; {early} of {len(result['cells'])} trainings ended at the limit of their time"
    return "\n\n".join([*tables, textwrap.fill(note, width), _answer(result, width)])
