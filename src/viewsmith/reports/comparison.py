"""The page of a comparison of methods: one self-contained HTML file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.evaluation import leaderboard
from viewsmith.evaluation.differences import TIES, best_of, turned, word
from viewsmith.evaluation.label_free import MEASURES
from viewsmith.evaluation.protocol import NUMBER_PROTOCOLS, OPTIONAL, PROTOCOLS
from viewsmith.reports.figure import PALETTE, Picture, draw_map, new_axes, shorten
from viewsmith.reports.report import render
from viewsmith.reports.verdict import protocol_title

#: Fractions of the labels, in percent, of the protocols that few-label curves show.
FRACTIONS = {"linear_1pct": 1, "linear_10pct": 10, "linear": 100, "r2_1pct": 1, "r2_10pct": 10, "r2": 100}
MAX_MAPS, MAX_PAIRED = 16, 12  # rows, so that the page stays below 3 MB
_DASHES = {"baseline": (3, 1.5), "untrained": (1, 1.5)}
_WORDS = {"baseline": "baseline", "untrained": "before training", "method": "method", "output": "further output"}


def render_comparison(result: Mapping[str, Any], maps: Mapping[str, Any]) -> str:
    """The page of a comparison as one HTML document; equal content gives equal text."""
    drawn = [
        draw_map(name, np.asarray(item["xy"], dtype=float).reshape(-1, 2), item["labels"])
        for name, item in list(maps.items())[:MAX_MAPS]
    ]
    kinds = {line["row"]: line["kind"] for line in result["leaderboard"]}
    paired = {line["row"] for line in result["leaderboard"][:MAX_PAIRED]}
    protocols = [name for name in result["protocols"] if not name.endswith("_l2")]
    return render(
        "comparison.html.j2",
        title=f"Comparison on {Path(result['data']).name}",
        result=result,
        spread=leaderboard.spread_words(result),
        error=leaderboard.standard_error(result),
        notes=leaderboard.omissions(result),
        few=leaderboard.too_few_labels(result),
        protocols=[
            (name, protocol_title(name), (PROTOCOLS | OPTIONAL | NUMBER_PROTOCOLS | MEASURES).get(name, ""))
            for name in protocols
        ],
        best={name: _best(result, name) if name in result["level"] else None for name in protocols},
        kinds=_WORDS,
        ties=[_tie(result, name, rows) for name, rows in leaderboard.main_level(result).items() if rows],
        against=[_against_best(result, name) for name in leaderboard.main_level(result)],
        pairs=[
            test | {"title": protocol_title(test["protocol"]), "word": word(test)}
            for test in result["differences"]
            if test["protocol"] in leaderboard.main_level(result) and {test["row"], test["other"]} <= paired
        ],
        more_pairs=max(0, len(kinds) - MAX_PAIRED),
        paired_rows=MAX_PAIRED,
        curves=_few_label_curves(result, kinds),
        costs=_costs(result),
        maps=drawn,
        more_maps=max(0, len(maps) - MAX_MAPS),
    )


def _best(result: Mapping[str, Any], protocol: str) -> float | None:
    means = [row[protocol]["mean"] for row in result["rows"].values() if row[protocol]["mean"] is not None]
    return best_of(protocol)(means, default=None)


def _tie(result: Mapping[str, Any], protocol: str, rows: Sequence[str]) -> str:
    """The rows that are level with the best one, as a sentence."""
    best = best_of(protocol)(rows, key=lambda row: result["rows"][row][protocol]["mean"])
    score = f"{best} is best with {result['rows'][best][protocol]['mean']:.3f}"
    others = [row for row in rows if row != best]
    source_name = (
        f"{protocol_title(protocol)} ({leaderboard.PURPOSE[protocol]})"
        if protocol in leaderboard.PURPOSE
        else protocol_title(protocol)
    )
    if not others:
        return f"{source_name}: {score}, and all others are clearly behind."
    verb = "is" if len(others) == 1 else "are"
    tie = f"{100 * TIES[protocol]:g} %" if protocol == "mae" else f"{TIES[protocol]}"
    return f"{source_name}: {score}; {', '.join(others)} {verb} not clearly behind (a tie is {tie})."


def _against_best(result: Mapping[str, Any], protocol: str) -> dict[str, Any]:
    """The paired differences of all rows from the best one."""
    of_protocol = [dict(test) for test in result["differences"] if test["protocol"] == protocol]
    means = {row: table[protocol]["mean"] for row, table in result["rows"].items()}
    known = {row: mean for row, mean in means.items() if mean is not None}
    best = best_of(protocol)(known, key=lambda row: known[row], default="")
    tests = []
    for test in of_protocol:
        if test["row"] == best:  # as the other row minus the best one
            test = turned(test)
        if test["other"] == best:
            tests.append(test)
    tests.sort(key=lambda test: -test["mean"])
    return {"title": protocol_title(protocol), "best": best, "tests": [t | {"word": word(t)} for t in tests]}


def _few_label_curves(result: Mapping[str, Any], kinds: Mapping[str, str]) -> Picture | None:
    """Accuracy, or R², of a linear probe by the fraction of the labels that it is fitted on, a line for each row."""
    names = [name for name in FRACTIONS if name in result["protocols"]]
    if len(names) < 2:
        return None
    rows = {
        row: [table[name]["mean"] for name in names]
        for row, table in result["rows"].items()
        if kinds.get(row) != "output" and all(table[name]["mean"] is not None for name in names)
    }
    with new_axes(4.4, 3.2 + 0.16 * ((len(rows) + 1) // 2)) as (figure, axes):
        for number, row in enumerate(result["rows"]):
            if row not in rows:
                continue
            color = PALETTE[number % len(PALETTE)]
            line = axes.plot(range(len(names)), rows[row], color=color, marker="o", markersize=3, linewidth=1.4)[0]
            if (dashes := _DASHES.get(kinds.get(row, ""))) is not None:
                line.set_dashes(dashes)
            line.set_label(shorten(row, 28))
        fractions = [f"{FRACTIONS[name]} %" for name in names]
        axes.set_xticks(range(len(names)), fractions)
        axes.set_xlabel("labels of the train rows")
        score = "R² of ridge regression" if "r2" in names else "accuracy of a linear probe"
        axes.set_ylabel(score)
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
    listed = "; ".join(f"{row} {', '.join(f'{mean:.3f}' for mean in means)}" for row, means in rows.items())
    return Picture(f"{score[0].upper()}{score[1:]} with {', '.join(fractions)} labels: {listed}.", figure)


def _costs(result: Mapping[str, Any]) -> Picture | None:
    """Mean score by the seconds of training and embedding, a point for each row."""
    points = []
    for line in result["leaderboard"]:
        seconds = (line.get("train_seconds") or 0) + (line.get("embed_seconds") or 0)
        if line["mean"] is not None and line["kind"] != "output" and seconds > 0:
            points.append((line["row"], max(seconds, 1e-3), line["mean"]))
    if len(points) < 2:
        return None
    from matplotlib.ticker import FuncFormatter

    colors = {row: PALETTE[number % len(PALETTE)] for number, row in enumerate(result["rows"])}  # as of the curves
    with new_axes(4.4, 3.2 + 0.16 * ((len(points) + 1) // 2)) as (figure, axes):
        for row, seconds, mean in points:
            axes.plot(seconds, mean, "o", markersize=5, color=colors[row], alpha=0.8, label=shorten(row, 28))
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.margins(x=0.15, y=0.12)
        axes.set_xlabel("seconds of training and embedding")
        axes.set_ylabel("mean of the main scores")
    listed = "; ".join(f"{row} {mean:.3f} in {seconds:.3g} s" for row, seconds, mean in points)
    return Picture(f"Quality by cost: {listed}.", figure)
