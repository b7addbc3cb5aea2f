"""The comparison of the representation with the baselines, in words and as a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from viewsmith.evaluation.differences import FEWEST_LABELS, ROUNDING, best_of, word
from viewsmith.evaluation.leaderboard import CONSTANT, sampling_error, seconds_text
from viewsmith.reports.figure import score

#: Column title of each protocol, in the order of the table.
PROTOCOLS: dict[str, str] = {
    "linear": "linear",
    "knn": "kNN",
    "svm": "SVM",
    "linear_1pct": "1% labels",
    "linear_10pct": "10% labels",
    "kmeans_accuracy": "k-means",
    "nmi": "NMI",
    "ari": "ARI",
    "kmeans_accuracy_l2": "k-means",
    "nmi_l2": "NMI",
    "ari_l2": "ARI",
    "r2": "R²",
    "mae": "MAE",
    "knn_r2": "kNN R²",
    "r2_1pct": "R², 1% labels",
    "r2_10pct": "R², 10% labels",
}

# NMI, ARI and the variants on normalized rows are in the table only, because they mostly agree with k-means.
_VERDICT_PROTOCOLS = (
    *("linear_1pct", "linear_10pct", "linear", "knn", "svm", "kmeans_accuracy"),
    *("r2_1pct", "r2_10pct", "r2", "knn_r2"),
)

_SUBJECT = "representation"
_LEARNED = {_SUBJECT, "map", "projection"}
_TABLE_NAMES = {"pca": "PCA", "umap": "UMAP"}
_TEXT_NAMES = {
    **_TABLE_NAMES,
    "features": "the fixed features",
    "untrained": "the untrained encoder",
    "given encoder": "the given encoder",
}
_BASELINE_ORDER = (CONSTANT, "raw", "features", "pca", "umap", "untrained", "given encoder")
CAVEAT = (
    "± is the standard error of a difference, over test rows and draws of few labels. This is one run: a claim needs "
    "several seeds."
)
Outcome = Literal["beats", "ties", "unclear", "loses"]
_PHRASES: dict[Outcome, str] = {
    "beats": "beats",
    "ties": "ties on",
    "unclear": "is not clearly different on",
    "loses": "loses on",
}


@dataclass(frozen=True)
class Cell:
    """One score of the comparison table; `score` is None if it is missing."""

    score: float | None
    best: bool


@dataclass(frozen=True)
class Against:
    """The representation against the baselines at a protocol: against the best one or, where it loses, against the best
    of those that are clearly better, of which `also` are the others. `error` is the standard error of the difference,
    None if it is not known."""

    outcome: Outcome
    difference: float
    error: float | None
    other: str
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """The table: `rows` of (name, cells); for each column, how the representation stands."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    outcomes: tuple[Against | None, ...]


def named_rows(evaluation: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The scores of an evaluation by the names that its rows are shown with."""
    names = evaluation.get("names") or {}
    return {names.get(name, name): scores for name, scores in evaluation["embeddings"].items()}


def caveat(test_rows: int | None) -> str:
    """The limits of the comparison; for a small test split also the standard error of an accuracy."""
    return f"{CAVEAT} {sampling_error(test_rows)}".rstrip()


def verdict(evaluation: Mapping[str, Any]) -> str:
    """An evaluation in words: where the representation is clearly better than all baselines, and where it is not."""
    embeddings = named_rows(evaluation)
    baselines = _baselines(embeddings)
    if _SUBJECT not in embeddings or not baselines:
        return "No verdict: the evaluation has no representation, or no baseline."
    tests = _tests(evaluation)
    found = {key: against for key in _VERDICT_PROTOCOLS if (against := _against(evaluation, tests, key)) is not None}
    few = _too_few(evaluation)
    if not found:
        return (
            f"No verdict. {few}" if few else "No verdict: no protocol has scores for the representation and a baseline."
        )

    clauses = []
    for outcome, phrase in _PHRASES.items():
        keys = [key for key, each in found.items() if each.outcome == outcome]
        if outcome == "beats":
            known = {(test["other"], test["protocol"]) for test in tests}
            tested = [name for name in baselines if all((name, key) in known for key in keys)]
            phrase += f" {_listed(map(_in_text, tested))} on"
        if keys:
            at = _listed(f"{PROTOCOLS[key]} ({_numbers(embeddings, key, found[key])})" for key in keys)
            clauses.append(f"{phrase} {at}")
    level = _level(evaluation, tests, found, baselines)
    return " ".join(filter(None, [f"Representation {'; '.join(clauses)}.", level, _clusters(evaluation, tests), few]))


def _numbers(embeddings: Mapping[str, Mapping[str, Any]], key: str, against: Against) -> str:
    ours, theirs = (float(embeddings[name][key]) for name in (_SUBJECT, against.other))
    error = "" if against.error is None else f", ± {against.error:.3f}"
    also = f", also to {_listed(map(_in_text, against.also))}" if against.also else ""
    return f"{ours:.3f} against {theirs:.3f} for {_in_text(against.other)}{error}{also}"


def _level(
    evaluation: Mapping[str, Any], tests: Sequence[Mapping[str, Any]], keys: Iterable[str], baselines: Sequence[str]
) -> str:
    """The cheapest baseline that is nowhere clearly behind the representation, as a sentence."""
    behind = {test["other"] for test in tests if test["protocol"] in keys and word(test) == "better"}
    seconds = {
        (evaluation.get("names") or {}).get(name, name): float(each.get("embed") or 0.0)
        for name, each in (evaluation.get("seconds") or {}).items()
    }
    known = {test["other"] for test in tests if test["protocol"] in keys}
    kept = [name for name in baselines if name in known and name not in behind]
    if not kept:
        return ""
    cheapest = min(kept, key=lambda name: max(1.0, seconds.get(name, 0.0)))
    if cheapest == CONSTANT:
        return f"It is nowhere clearly better than {CONSTANT}, so that nothing it learned shows in these labels."
    cost = f" ({seconds_text(seconds[cheapest])})" if cheapest in seconds else ""
    return f"Nowhere clearly behind it, without training: {_in_text(cheapest)}{cost}."


def _clusters(evaluation: Mapping[str, Any], tests: Sequence[Mapping[str, Any]]) -> str:
    """Which baseline has clusters that agree with the classes clearly better, as a sentence."""
    against = _against(evaluation, tests, "ari")
    if against is None or against.outcome != "loses":
        return ""
    scores = _numbers(named_rows(evaluation), "ari", replace(against, also=()))
    return f"For clusters, take {_in_text(against.other)}: its k-means agrees better with the classes (ARI {scores})."


def _too_few(evaluation: Mapping[str, Any]) -> str:
    few = [
        f"{PROTOCOLS[key]} ({count})"
        for key in _VERDICT_PROTOCOLS
        if (count := _labels(evaluation, key)) is not None and count < FEWEST_LABELS
    ]
    return f"Scores of fewer than {FEWEST_LABELS} labeled rows decide nothing: {_listed(few)}." if few else ""


def _labels(evaluation: Mapping[str, Any], key: str) -> int | None:
    """The number of labeled rows that a score rests on: those of the classifier or those that are scored."""
    if not any(key in scores for scores in evaluation["embeddings"].values()):
        return None
    counts = (evaluation.get("labeled_rows") or {}).get(key), (evaluation.get("rows") or {}).get("test")
    known = [int(count) for count in counts if count is not None]
    return min(known) if known else None


def comparison(evaluation: Mapping[str, Any], *, unit_rows: bool = False) -> Comparison:
    """The comparison table, baselines first, best cells marked; `unit_rows`: clusterings of rows of length 1."""
    embeddings, tests = named_rows(evaluation), _tests(evaluation)
    present = {key for scores in embeddings.values() for key in scores}
    keys = [key for key in PROTOCOLS if key in present] + sorted(present - PROTOCOLS.keys())
    keys = [key for key in keys if key.endswith("_l2") == unit_rows]
    names = [*_baselines(embeddings), *(name for name in embeddings if name in _LEARNED)]
    best = {
        key: best_of(key)((s for n in names if (s := score(embeddings[n].get(key))) is not None), default=None)
        for key in keys
    }
    rows = []
    for name in names:
        values = [score(embeddings[name].get(key)) for key in keys]
        cells = (Cell(v, v is not None and v == best[k]) for k, v in zip(keys, values, strict=True))
        rows.append((_TABLE_NAMES.get(name, name), tuple(cells)))
    return Comparison(
        columns=tuple(PROTOCOLS.get(key, key) for key in keys),
        rows=tuple(rows),
        outcomes=tuple(_against(evaluation, tests, key) for key in keys),
    )


def protocol_title(key: str) -> str:
    """The title of a protocol in the list of all protocols; the key itself if it has no title."""
    return PROTOCOLS.get(key, key) + (", rows of length 1" if key in PROTOCOLS and key.endswith("_l2") else "")


def _tests(evaluation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tested differences of the representation from each baseline, with the names that rows are shown with."""
    names = evaluation.get("names") or {}
    found = evaluation.get("differences") or []
    return [dict(test) | {"other": names.get(test["other"], test["other"])} for test in found]


def _against(evaluation: Mapping[str, Any], tests: Sequence[Mapping[str, Any]], key: str) -> Against | None:
    """How the representation stands at a protocol; None if scores are missing, or labels too few."""
    count, embeddings = _labels(evaluation, key), named_rows(evaluation)
    found = {test["other"]: test for test in tests if test["protocol"] == key}
    scores = {name: value for name in found if (value := score(embeddings[name].get(key))) is not None}
    if key not in PROTOCOLS or not scores or (count is not None and count < FEWEST_LABELS):
        return None
    words = {name: word(found[name]) for name in scores}
    worse = [name for name in scores if words[name] == "worse"]
    other = best_of(key)(worse or scores, key=lambda name: scores[name])
    test = found[other]
    outcome: Outcome = "loses" if worse else "ties" if abs(test["mean"]) <= test["tie"] + ROUNDING else "unclear"
    if all(each == "better" for each in words.values()):
        outcome = "beats"
    also = tuple(name for name in worse if name != other) if outcome == "loses" else ()
    return Against(outcome, test["mean"], test["error"], other, also)


def _in_text(name: str) -> str:
    return _TEXT_NAMES.get(name, name)


def _baselines(embeddings: Mapping[str, Any]) -> list[str]:
    others = [name for name in embeddings if name not in _LEARNED]
    known = [name for name in _BASELINE_ORDER if name in others]
    return [*known, *(name for name in others if name not in _BASELINE_ORDER)]


def _listed(items: Iterable[str]) -> str:
    *head, last = [*items] or [""]
    return f"{', '.join(head)} and {last}" if head else last
