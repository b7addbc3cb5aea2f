"""The comparison of the representation with the baselines, in words and as a table."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from viewsmith.evaluation.leaderboard import LOWER_IS_BETTER, ROUNDING, TIES, best_of, sampling_error
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
_TEXT_NAMES = {**_TABLE_NAMES, "untrained": "the untrained encoder", "given encoder": "the given encoder"}
_BASELINE_ORDER = ("raw", "pca", "umap", "untrained", "given encoder")
CAVEAT = "This is one run: a claim needs several seeds."
Outcome = Literal["beats", "ties", "loses"]
Scores = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Cell:
    """One score of the comparison table; `score` is None if it is missing."""

    score: float | None
    best: bool


@dataclass(frozen=True)
class Comparison:
    """The table: `rows` of (name, cells); for each column, the outcome and the difference from the best baseline."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    outcomes: tuple[tuple[Outcome, float] | None, ...]


def named_rows(evaluation: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The scores of an evaluation by the names that its rows are shown with."""
    names = evaluation.get("names") or {}
    return {names.get(name, name): scores for name, scores in evaluation["embeddings"].items()}


def caveat(test_rows: int | None) -> str:
    """The limits of the comparison; for a small test split also the standard error of an accuracy."""
    return f"{CAVEAT} {sampling_error(test_rows)}".rstrip()


def verdict(embeddings: Scores, test_rows: int | None = None) -> str:
    """The result in one sentence: where the representation beats, ties with or loses to the best baseline."""
    baselines = _baselines(embeddings)
    if _SUBJECT not in embeddings or not baselines:
        return "No verdict: the evaluation has no representation, or no baseline."
    ours, named = embeddings[_SUBJECT], [_TEXT_NAMES.get(name, name) for name in baselines]
    parts: dict[Outcome, list[str]] = {"beats": [], "ties": [], "loses": []}
    for key in _VERDICT_PROTOCOLS:
        compared = _compare(embeddings, key, test_rows)
        if compared is None:
            continue
        outcome, _ = compared
        theirs = [score(embeddings[name].get(key)) for name in baselines]
        best = max(value for value in theirs if value is not None)
        if outcome == "beats":
            numbers = ", ".join("–" if value is None else f"{value:.2f}" for value in theirs)
        else:
            numbers = f"{best:.2f} for {named[theirs.index(best)]}"
        parts[outcome].append(f"{PROTOCOLS[key]} ({float(ours[key]):.2f} vs {numbers})")
    clauses = []
    if parts["beats"]:
        clauses.append(f"beats {_listed(named)} on {_listed(parts['beats'])}")
    if parts["ties"]:
        clauses.append(f"ties on {_listed(parts['ties'])}")
    if parts["loses"]:
        clauses.append(f"loses on {_listed(parts['loses'])}")
    if not clauses:
        return "No verdict: no protocol has scores for both the representation and a baseline."
    return f"Representation {'; '.join(clauses)}."


def comparison(embeddings: Scores, test_rows: int | None = None, *, unit_rows: bool = False) -> Comparison:
    """The comparison table, baselines first, best cells marked; `unit_rows`: clusterings of rows of length 1."""
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
        outcomes=tuple(_compare(embeddings, key, test_rows) for key in keys),
    )


def protocol_title(key: str) -> str:
    """The title of a protocol in the list of all protocols; the key itself if it has no title."""
    return PROTOCOLS.get(key, key) + (", rows of length 1" if key in PROTOCOLS and key.endswith("_l2") else "")


def _compare(embeddings: Scores, key: str, test_rows: int | None) -> tuple[Outcome, float] | None:
    """Outcome and difference between the representation and the best baseline; None if a score is missing."""
    ours = score(embeddings.get(_SUBJECT, {}).get(key))
    theirs = [s for name in _baselines(embeddings) if (s := score(embeddings[name].get(key))) is not None]
    if key not in PROTOCOLS or ours is None or not theirs:
        return None
    difference = ours - best_of(key)(theirs)
    width = max(TIES[key], 1 / test_rows if test_rows else 0.0)
    if key in LOWER_IS_BETTER:  # in units of the target
        width = TIES[key] * min(theirs)
    if abs(difference) <= width + ROUNDING:
        return "ties", difference
    return ("beats" if (difference > 0) != (key in LOWER_IS_BETTER) else "loses"), difference


def _baselines(embeddings: Scores) -> list[str]:
    others = [name for name in embeddings if name not in _LEARNED]
    known = [name for name in _BASELINE_ORDER if name in others]
    return [*known, *(name for name in others if name not in _BASELINE_ORDER)]


def _listed(items: Iterable[str]) -> str:
    *head, last = items
    return f"{', '.join(head)} and {last}" if head else last
