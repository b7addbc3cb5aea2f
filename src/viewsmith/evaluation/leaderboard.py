"""The leaderboard of a comparison: means, spreads, paired tests, ties, costs, and what to do next."""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from viewsmith.evaluation.label_free import STUDY
from viewsmith.evaluation.level import (
    LOWER_IS_BETTER,
    TIES,
    WIDTH,
    Repeats,
    aligned,
    all_pairs,
    by_repeat,
    in_blocks,
    level_at,
    marked,
)

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
    """Scores and costs by table row, as they are found.

    Attributes
    ----------
    repeats : int
    protocols : list of str
    scores : dict
        By row and protocol, the score of each repeat; None where there is none.
    kinds : dict
        By row: "baseline", "untrained", "method" or "output".
    seconds : dict
        By row, for each repeat in which it was computed: seconds of embedding, and of training.
    failed : dict
        By row, why it has no scores in some repeat.
    """

    repeats: int
    protocols: list[str]
    scores: dict[str, dict[str, list[float | None]]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, dict[int, tuple[float | None, float | None]]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

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
    return [{"rank": number} | line for number, line in enumerate(board, 1)]


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
    elif repeats < 3:
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
    if kinds[row] == "baseline":
        return f"Use {row}: no training is better by more than a tie{more}."
    if kinds[row] == "untrained":
        return f"Use {row}, whose training changed nothing, or the features it was made from{more}."
    return f"Use {row}: `viewsmith embed {out}/{row}-0 DATA --out FILE` writes its representation{more}."


def without_labels(kinds: Mapping[str, str], out: str) -> str:
    """What to do where there are no labels: the measured rule, and its regret."""
    use = "Use contrastive" if "contrastive" in kinds else "Add contrastive to --methods, and use it"
    return (
        f"{use}: there are no labels, and on {STUDY['sets']} sets no measure chose better than always taking "
        f"contrastive, whose mean accuracy was {STUDY['always']:.3f} below that of the best row (a random row: "
        f"{STUDY['chance']:.3f}); with a few labels, --label compares the rows themselves"
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
        writer.writerow([f"{value:.6g}" if isinstance(value, float) else value for value in cells])
    return text.getvalue()


def spread_words(result: Mapping[str, Any]) -> str:
    """What means and deviations are over: ``mean and standard deviation of 3 seeds, each with its own split``."""
    count, splits = result["seeds"], result["split"]["splits"]
    if count == 1:
        return "one seed"
    own = ", each with its own split" if splits == count else f" on {splits} splits" if splits > 1 else " on one split"
    return f"mean and standard deviation of {count} seeds{own}"


def tie_words(level: Mapping[str, Any]) -> str:
    """The largest differences that are ties: ``linear 0.015, knn 0.015``."""
    return ", ".join(f"{name} {TIES[name]}" for name in level)


def main_level(result: Mapping[str, Any]) -> dict[str, list[str]]:
    """The rows that are level with the best one at the main protocols, or at all if none is a main one."""
    return {name: rows for name, rows in result["level"].items() if name in MAIN} or dict(result["level"])


def standard_error(result: Mapping[str, Any]) -> str:
    """The sampling error of an accuracy, in words, if it is larger than a tie; else empty."""
    error = 0.5 / math.sqrt(result["test_rows"])
    if error <= TIES["linear"] or not result["level"] or {"r2", "mae", "knn_r2"} & set(result["protocols"]):
        return ""
    return f"The standard error of an accuracy on {result['test_rows']:,} test rows is up to {error:.2g}."


def _answer(result: Mapping[str, Any], width: int) -> str:
    """Which rows are level with the best one, and what to do next."""
    level = main_level(result)
    longest = max(map(len, level), default=0)
    lines = (
        [textwrap.fill(f"Level with the best, cheapest first (a tie is {tie_words(level)}):", width)] if level else []
    )
    for name, rows in level.items():
        indent = " " * (longest + 4)
        lines.append(
            textwrap.fill(
                ", ".join(rows) or "-", width, initial_indent=f"  {name:{longest}}  ", subsequent_indent=indent
            )
        )
    everywhere = result["level_everywhere"]
    if everywhere:
        lines.append(f"The cheapest that is level with the best everywhere: {everywhere[0]}.")
    elif level:
        lines.append("None is level with the best everywhere: choose by what the representation is for.")
    lines.append(standard_error(result))
    lines += [f"{row} failed: {why}" for row, why in result["failed"].items()]
    if result["left_out"]:
        lines.append(f"Left out, because the time of --budget was over: {result['left_out']}.")
    return "\n".join([*filter(None, lines), textwrap.fill(result["next"], width) if not level else result["next"]])


def format_comparison(result: Mapping[str, Any], width: int = WIDTH) -> str:
    """A leaderboard as plain text: mean and standard deviation over the repeats, the best mean marked.

    Below the table, the rows that are level with the best one, and what to do next.
    """
    columns = []
    for protocol in result["protocols"]:
        scores = [row[protocol] for row in result["rows"].values()]
        spreads = ["" if s["deviation"] is None else f" ± {s['deviation']:.3f}" for s in scores]
        means = [math.nan if s["mean"] is None else s["mean"] for s in scores]
        scored = protocol in result["level"]
        marks = marked(means, lower=protocol in LOWER_IS_BETTER) if scored else [f"{mean:.3f} " for mean in means]
        texts = [f"{mean}{spread:8}" for mean, spread in zip(marks, spreads, strict=True)]
        columns.append(aligned([protocol, *texts]))
    tables = in_blocks(list(result["rows"]), columns, width)
    early = sum(cell["status"] == "time limit" for cell in result["cells"])
    note = spread_words(result)
    if result["level"]:
        note += "; * best of the column; paired differences, with intervals, are in report.html"
    if early:
        note += f"; {early} of {len(result['cells'])} trainings ended at the limit of their time"
    return "\n\n".join([*tables, textwrap.fill(note, width), _answer(result, width)])
