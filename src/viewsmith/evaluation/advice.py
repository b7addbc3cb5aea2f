"""What to do with a comparison: only what its own table of differences calls clear is said."""

from collections.abc import Mapping, Sequence
from typing import Any

from viewsmith.evaluation.differences import FEWEST_LABELS, LOWER_IS_BETTER, ROUNDING, turned, word
from viewsmith.evaluation.label_free import STUDY

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
    none = (
        f" (none: no row is clearly better than {CONSTANT})" if any(part.startswith("none") for part in parts) else ""
    )
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
