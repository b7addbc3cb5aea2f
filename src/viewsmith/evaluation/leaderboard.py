"""The leaderboard of a comparison, as plain values, tables and text; and what to do with it: only what its own table of
differences calls clear is said."""

import csv
import io
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from viewsmith.core.files import spreadsheet_text
from viewsmith.evaluation.differences import (
    FEWEST_LABELS,
    LOWER_IS_BETTER,
    ROUNDING,
    TIES,
    Repeats,
    TestRows,
    all_pairs,
    turned,
    word,
)
from viewsmith.evaluation.label_free import STUDY

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


def sampling_error(test_rows: int | None) -> str:
    """The standard error of an accuracy, in words, if it is larger than a tie; else empty."""
    error = 0.5 / math.sqrt(test_rows) if test_rows else 0.0
    if not test_rows or error <= TIES["linear"]:
        return ""
    return f"The standard error of an accuracy on {test_rows:,} test rows is up to {error:.2g}."


@dataclass
class Results:
    """Scores and costs by table row, as they are found."""

    repeats: int
    protocols: list[str]
    scores: dict[str, dict[str, list[float | None]]] = field(default_factory=dict)  # by row, protocol and repeat
    kinds: dict[str, str] = field(default_factory=dict)  # by row: "baseline", "untrained", "method" or "output"
    #: by row and repeat: of embedding and of training
    seconds: dict[str, dict[int, tuple[float | None, float | None]]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  # by row, why it has no scores in some repeat
    test_rows: dict[str, dict[str, dict[int, TestRows]]] = field(default_factory=dict)  # by row, protocol and repeat
    labeled_rows: dict[str, int] = field(default_factory=dict)  # by protocol: fewest labels in a repeat

    def add(
        self,
        row: str,
        kind: str,
        repeat: int,
        scores: Mapping[str, float | None],
        test_rows: Mapping[str, TestRows] | None = None,
    ) -> None:
        """Add the scores of a row in a repeat, and what each test row contributes to them."""
        self.kinds[row] = kind
        for name, values in (test_rows or {}).items():
            self.test_rows.setdefault(row, {}).setdefault(name, {})[repeat] = values
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
    rows = {row: {p: _summary(values, repeats) for p, values in table.items()} for row, table in found.scores.items()}
    tested = [name for name in found.protocols if name in TIES]
    differences = all_pairs(found.scores, tested, repeats, found.test_rows)
    costs = {row: sum(each or 0.0 for each in _seconds(found, row)) for row in found.scores}
    listed = {row: of for row, of in rows.items() if found.kinds[row] != "output"}
    level = {name: level_rows(name, listed, costs, differences) for name in tested}
    deciding = decisive(level, found.labeled_rows)
    result: dict[str, Any] = {
        "protocols": found.protocols,
        "rows": rows,
        "leaderboard": _board(found, rows, deciding or list(level)),
        "differences": differences,
        "level": level,
        "level_everywhere": [row for row in listed if deciding and all(row in level[name] for name in deciding)],
        "decisive": deciding,
        "labeled_rows": found.labeled_rows,
        "failed": found.failed,
        "left_out": _left_out(cells),
        "cells": list(cells),
    }
    result["level_everywhere"].sort(key=lambda row: max(1.0, costs[row]))  # stable: below a second by their order
    return result | {"next": advice(result, found.kinds, costs, len(repeats.splits), out)}


def _summary(values: Sequence[float | None], repeats: Repeats) -> dict[str, Any]:
    """Mean and deviation of the scores that are there; a row that is computed once has no deviation."""
    known = [value for value in values if value is not None]
    # On one split a baseline has the same score in all repeats, which is no spread.
    once = len(set(repeats.splits)) == 1 and len(set(known)) == 1
    spread = float(np.std(known, ddof=1)) if len(known) > 1 and not once else None
    return {"mean": float(np.mean(known)) if known else None, "deviation": spread, "values": list(values)}


def _seconds(found: Results, row: str) -> tuple[float | None, float | None]:
    """Mean seconds of training and of embedding."""

    def mean(i: int) -> float | None:
        known = [value for pair in found.seconds.get(row, {}).values() if (value := pair[i]) is not None]
        return float(np.mean(known)) if known else None

    return mean(1), mean(0)


def _board(found: Results, rows: Mapping[str, Any], main: Sequence[str]) -> list[dict[str, Any]]:
    """The rows, the best mean of the main protocols first, and then those without all of these scores."""
    board: list[dict[str, Any]] = []
    for row, table in rows.items():
        means = [table[name]["mean"] for name in main]
        mean = None if None in means or not means else float(np.mean(means))
        training, embed = _seconds(found, row)
        count = max(sum(value is not None for value in table[name]["values"]) for name in found.protocols)
        line: dict[str, Any] = {"row": row, "kind": found.kinds[row], "mean": mean}
        line |= {"train_seconds": training, "embed_seconds": embed, "repeats": count}
        line["note"] = f"failed in a repeat: {found.failed[row]}" if row in found.failed else ""
        board.append(line)
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


def omissions(result: Mapping[str, Any]) -> list[str]:
    """What failed, and why, what was left out, and what ended early, in words."""
    rows, early = result["rows"], sum(cell["status"] == "time limit" for cell in result["cells"])
    found = [f"{row} failed{' in a repeat' if row in rows else ''}: {why}" for row, why in result["failed"].items()]
    if result["left_out"]:
        found.append(f"Left out, because the time of --budget was over: {result['left_out']}.")
    if early:
        found.append(f"{early} of {len(result['cells'])} trainings ended at the limit of their time.")
    return found


def main_level(result: Mapping[str, Any]) -> dict[str, list[str]]:
    """The rows that are level with the best one at the protocols that decide."""
    return {name: result["level"][name] for name in result["decisive"]}


def too_few_labels(result: Mapping[str, Any]) -> str:
    """The main protocols whose labels are too few to decide anything, in words; empty if there are none."""
    few = {name: n for name, n in result["labeled_rows"].items() if n < FEWEST_LABELS and name in result["protocols"]}
    listed = ", ".join(f"{name} ({n} labeled rows)" for name, n in few.items() if name in MAIN)
    return f"Fewer than {FEWEST_LABELS} labels, so it decides nothing: {listed}." if listed else ""


def standard_error(result: Mapping[str, Any]) -> str:
    """The sampling error of an accuracy, in words, where the scores are accuracies."""
    numbers = {"r2", "mae", "knn_r2"} & set(result["protocols"])
    return "" if numbers or not result["level"] else sampling_error(result["test_rows"])


def _answer(result: Mapping[str, Any], width: int) -> str:
    """Which rows are level with the best one, and what to do next."""
    level, lines = main_level(result), []
    if level:
        ties = ", ".join(f"{name} {TIES[name]}" for name in level)
        text = f"Level with the best (no row is clearly better), cheapest first (a tie is {ties}):"
        lines.append(textwrap.fill(text, width))
    longest = max(map(len, level), default=0)
    for name, rows in level.items():
        start, indent = f"  {name:{longest}}  ", " " * (longest + 4)
        lines.append(textwrap.fill(", ".join(rows) or "-", width, initial_indent=start, subsequent_indent=indent))
    everywhere = result["level_everywhere"]
    if everywhere:
        lines.append(f"The cheapest that is level with the best everywhere: {everywhere[0]}.")
    elif level:
        lines.append("None is level with the best everywhere: choose by what the representation is for.")
    lines += [too_few_labels(result), standard_error(result), *omissions(result)]
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
    note = spread_words(result)
    if result["level"]:
        intervals = ", with intervals," if result["seeds"] > 1 else ""
        note += f"; * best of the column; paired differences{intervals} are in report.html"
    return "\n\n".join([*tables, textwrap.fill(note, width), _answer(result, width)])


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

CONSTANT = "majority"
Tests = Sequence[Mapping[str, Any]]


def level_rows(protocol: str, rows: Mapping[str, Any], costs: Mapping[str, float], differences: Tests) -> list[str]:
    """The rows with a score than which no other one is clearly better at a protocol, the cheapest first."""
    behind = {loser for loser, winner in _clear(protocol, differences) if winner in rows}
    known = [row for row, of in rows.items() if of[protocol]["mean"] is not None and row not in behind]
    return sorted(known, key=lambda row: max(1.0, costs[row]))  # below a second by their order


def _clear(protocol: str, differences: Tests) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The clear differences at a protocol, by the worse and the better row, as the worse less the better."""
    found = {}
    for test in differences:
        if test["protocol"] == protocol and (said := word(test)) in ("better", "worse"):
            one = turned(test) if said == "better" else test
            found[one["row"], one["other"]] = one
    return found


def decisive(level: Mapping[str, Sequence[str]], labeled_rows: Mapping[str, int]) -> list[str]:
    """The protocols that decide: the main ones, or all if none is, with scores and enough labels."""
    able = [name for name, rows in level.items() if rows and labeled_rows.get(name, FEWEST_LABELS) >= FEWEST_LABELS]
    return [name for name in able if name in MAIN] or able


def advice(
    result: Mapping[str, Any], kinds: Mapping[str, str], costs: Mapping[str, float], repeats: int, out: str
) -> str:
    """One sentence: what to do with a comparison."""
    more = ""
    if result["left_out"]:
        more = "; the same command trains what was left out"
    elif repeats < 3 and result["level"]:  # without scores, more seeds change nothing
        more = "; give --seeds 5 before you rely on it"
    if not result["level"]:
        return without_labels(kinds, out) + more
    if not result["decisive"]:
        return f"Nothing can be decided: every score is of fewer than {FEWEST_LABELS} labeled rows; give more labels."
    row = next(iter(result["level_everywhere"]), None)
    if row is None:
        return f"{_by_purpose(result)}{more}."
    if row == CONSTANT:
        names = ", ".join(PURPOSE.get(name, name) for name in result["decisive"])
        return f"No row is clearly better than {CONSTANT} for {names}: there is no reason to use any of them{more}."
    used = f"Use {row} ({seconds_text(costs[row])}): no row is clearly better"
    if kinds[row] in ("baseline", "untrained"):
        return f"{used}{_contender(result, row, kinds)}{more}."
    command = f"`viewsmith embed {out}/{row}-0 DATA --out FILE` writes its representation"
    return f"{used}{_cheaper(result, row, kinds, costs)}; {command}{more}."


def seconds_text(seconds: float) -> str:
    """Seconds with two digits, or minutes."""
    if seconds >= 100:
        return f"{seconds / 60:.2g} min" if seconds >= 600 else f"{seconds:.0f} s"
    return f"{max(seconds, 0.01):.2g} s"


def _by_purpose(result: Mapping[str, Any]) -> str:
    parts = []
    for name in result["decisive"]:
        row, purpose = result["level"][name][0], PURPOSE.get(name, name)
        parts.append(f"{row} for {purpose}" if row != CONSTANT else f"none for {purpose}")
    none = f" (none: no row is clearly better than {CONSTANT})" * any(part.startswith("none") for part in parts)
    return f"Choose by purpose, the cheapest row that is level with the best: {', '.join(parts)}{none}"


def _cheaper(result: Mapping[str, Any], row: str, kinds: Mapping[str, str], costs: Mapping[str, float]) -> str:
    """Where the rows that are cheaper are clearly behind another one; those that are best first, at most three."""
    means = {line["row"]: line["mean"] for line in result["leaderboard"]}
    order = sorted((each for each in result["rows"] if kinds[each] != "output"), key=lambda each: max(1.0, costs[each]))
    behind = []
    for cheap in sorted(order[: order.index(row)], key=lambda each: -(means.get(each) or 0.0)):
        tests = [
            test
            for name in result["decisive"]
            for (loser, winner), test in _clear(name, result["differences"]).items()
            if loser == cheap and kinds[winner] != "output"
        ]
        if tests and cheap != CONSTANT:
            test = max(tests, key=lambda each: (each["other"] == row, abs(each["mean"]) / each["error"]))
            behind.append(f"{cheap} ({test['protocol']}: {_gap(test)} {test['other']})")
    if not behind:
        return ""
    listed = ", ".join(behind[:3]) + (f", {len(behind) - 3} more" if len(behind) > 3 else "")
    return f"; cheaper and clearly behind: {listed} (± is a standard error)"


def _gap(test: Mapping[str, Any]) -> str:
    """The size of a difference with its standard error: ``0.041 ± 0.010 behind``."""
    side = "behind" if (test["mean"] < 0) != (test["protocol"] in LOWER_IS_BETTER) else "ahead of"
    return f"{abs(test['mean']):.3f} ± {test['error']:.3f} {side}"


def _contender(result: Mapping[str, Any], row: str, kinds: Mapping[str, str]) -> str:
    """The method that is furthest ahead of a row, by its standard error, without a clear difference."""
    ahead = []
    for test in result["differences"]:
        if test["protocol"] in result["decisive"] and row in (test["row"], test["other"]):
            one = test if test["other"] == row else turned(test)
            gain = -one["mean"] if one["protocol"] in LOWER_IS_BETTER else one["mean"]
            if kinds[one["row"]] == "method" and gain > one["tie"] + ROUNDING and one["error"]:
                ahead.append((gain / one["error"], one))
    if not ahead:
        return ""
    test = max(ahead, key=lambda pair: pair[0])[1]
    return f" ({test['row']} is {_gap(test)} it at {test['protocol']}, which is not clear; ± is a standard error)"


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
