"""The evaluation protocol: what is fitted on train rows, what is scored on test rows, in one page of code."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from viewsmith.core.errors import InputError
from viewsmith.domains.checks import check_finite, check_labels, check_numbers
from viewsmith.evaluation.linear import Loss, fit_linear, standardize
from viewsmith.evaluation.neighbors import cosine_neighbors, majority

Codes = NDArray[np.int64]
Rows = NDArray[np.float32]

NEIGHBORS = 5
STARTS = 10
DRAWS = (0, 1, 2)
_SHARES = {"linear_1pct": 0.01, "linear_10pct": 0.10}

_K_MEANS = f"{{score}} of k-means on the test rows {{rows}}: as many clusters as classes, {STARTS} starts, seed 0"
_FEW = (
    "as linear, fitted on {share} of the labels: per class max(1, round({share} of its rows)), "
    f"mean over draws {', '.join(map(str, DRAWS))}"
)
_MATCHED, _NMI, _ARI = "accuracy (Hungarian matching)", "NMI (arithmetic mean)", "adjusted Rand index"

#: Name and one-line description of each score, quoted beside every table. Higher is better in all of them.
PROTOCOLS: dict[str, str] = {
    "linear": "accuracy of logistic regression (softmax, L2, C = 1), columns standardized on the train rows",
    "knn": f"accuracy of the majority of the {NEIGHBORS} nearest train rows by cosine; the smallest class wins a tie",
    "svm": "accuracy of a linear SVM (squared hinge, one against the rest, C = 1), standardized on the train rows",
    "kmeans_accuracy": _K_MEANS.format(score=_MATCHED, rows="as they are"),
    "nmi": _K_MEANS.format(score=_NMI, rows="as they are"),
    "ari": _K_MEANS.format(score=_ARI, rows="as they are"),
    "kmeans_accuracy_l2": _K_MEANS.format(score=_MATCHED, rows="at length 1"),
    "nmi_l2": _K_MEANS.format(score=_NMI, rows="at length 1"),
    "ari_l2": _K_MEANS.format(score=_ARI, rows="at length 1"),
    "linear_1pct": _FEW.format(share="1 %"),
    "linear_10pct": _FEW.format(share="10 %"),
}


def evaluate_embedding(
    train: ArrayLike,
    y_train: ArrayLike,
    test: ArrayLike,
    y_test: ArrayLike,
    *,
    protocols: Sequence[str] | None = None,
    name: str = "the embedding",
) -> dict[str, float]:
    """Score one embedding: fit on its train rows, score on its test rows.

    Parameters
    ----------
    train, test : arrays (n, d) and (m, d)
        Finite rows of the same width.
    y_train, y_test : arrays (n,) and (m,)
        Classes as integers or text. Test rows of a class without train rows count as errors.
    protocols : sequence of str, optional
        Names from `PROTOCOLS`; default: all.
    name : str
        How messages name the embedding.

    Returns
    -------
    dict of str to float
        A score for each protocol asked for, in that order, at most 1. The k-means scores are NaN, with a warning,
        when there are fewer test rows than classes.

    Raises
    ------
    InputError
        Unknown protocol, shapes that do not fit, values that are not finite, labels that are not classes, or fewer
        than two classes among the train rows.
    """
    wanted = check_protocols(protocols)
    rows, test_rows = _rows(train, f"{name} (train)"), _rows(test, f"{name} (test)")
    if rows.shape[1] != test_rows.shape[1]:
        raise InputError(
            f"{name} has {rows.shape[1]} columns in train and {test_rows.shape[1]} in test; expected equal"
        )
    codes, test_codes, n_classes = _encode(y_train, len(rows), y_test, len(test_rows))

    scores: dict[str, float] = {}
    if any(protocol.startswith(("linear", "svm")) for protocol in wanted):
        scores |= _linear_scores(*standardize(rows, test_rows), codes, test_codes, n_classes, wanted)
    if "knn" in wanted:
        votes = majority(codes[cosine_neighbors(rows, test_rows, NEIGHBORS)], n_classes)
        scores["knn"] = _accuracy(votes, test_codes)
    for suffix in ("", "_l2"):
        names = [measure + suffix for measure in ("kmeans_accuracy", "nmi", "ari")]
        if any(measure in wanted for measure in names):
            clustered = _cluster_scores(_at_length_one(test_rows) if suffix else test_rows, test_codes, n_classes)
            scores |= dict(zip(names, clustered, strict=True))
    return {protocol: scores[protocol] for protocol in wanted}


def check_protocols(protocols: Sequence[str] | None) -> list[str]:
    """The names asked for, all of `PROTOCOLS` for None; raises InputError for unknown ones."""
    wanted = list(PROTOCOLS) if protocols is None else list(protocols)
    unknown = [protocol for protocol in wanted if protocol not in PROTOCOLS]
    if unknown or not wanted:
        given = f"unknown protocol {unknown[0]!r}" if unknown else "no protocol given"
        raise InputError(f"{given}; expected one or more of {', '.join(PROTOCOLS)}")
    return wanted


def few_label_rows(codes: Codes, share: float, draw: int) -> Codes:
    """Rows that keep their label, increasing: per class ``max(1, round(share * count))``.

    They depend on the labels and the number of the draw alone, so that every embedding is fitted on the same rows.
    """
    rng = np.random.default_rng(draw)
    kept = []
    for code in range(codes.max() + 1):
        members = rng.permutation(np.flatnonzero(codes == code))
        kept.append(members[: max(1, round(share * len(members)))])
    return np.sort(np.concatenate(kept))


def matched_accuracy(clusters: Codes, classes: Codes) -> float:
    """Share of rows whose cluster is the one matched with their class, under the best one-to-one matching."""
    counts = np.zeros((clusters.max() + 1, classes.max() + 1), dtype=np.int64)
    np.add.at(counts, (clusters, classes), 1)
    return float(counts[linear_sum_assignment(counts, maximize=True)].sum() / len(classes))


def _linear_scores(
    train: Rows, test: Rows, codes: Codes, test_codes: Codes, n_classes: int, wanted: Sequence[str]
) -> dict[str, float]:
    def score(loss: Loss, kept: Codes | slice = slice(None)) -> float:
        model = fit_linear(train[kept], codes[kept], n_classes, loss=loss)
        return _accuracy(model.predict(test), test_codes)

    scores = {}
    if "linear" in wanted:
        scores["linear"] = score("logistic")
    if "svm" in wanted:
        scores["svm"] = score("squared_hinge")
    for protocol, share in _SHARES.items():
        if protocol in wanted:
            draws = [score("logistic", few_label_rows(codes, share, draw)) for draw in DRAWS]
            scores[protocol] = float(np.mean(draws))
    return scores


def _cluster_scores(rows: Rows, codes: Codes, n_classes: int) -> tuple[float, float, float]:
    """Matched accuracy, NMI and ARI of k-means on test rows; `n_classes` counts those of train."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    n_known = max(n_classes, int(codes.max()) + 1)
    if len(rows) < n_known:
        warnings.warn(
            f"{len(rows)} test rows are fewer than the {n_known} classes; k-means scores are nan",
            UserWarning,
            stacklevel=3,
        )
        return float("nan"), float("nan"), float("nan")
    classes = np.unique(codes, return_inverse=True)[1]
    clusters = KMeans(int(classes.max()) + 1, n_init=STARTS, random_state=0).fit_predict(rows).astype(np.int64)
    return (
        matched_accuracy(clusters, classes),
        float(normalized_mutual_info_score(classes, clusters)),
        float(adjusted_rand_score(classes, clusters)),
    )


def _accuracy(predicted: Codes, codes: Codes) -> float:
    return float((predicted == codes).mean())


def _at_length_one(rows: Rows) -> Rows:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    norms[norms == 0] = 1
    return rows / norms


def _rows(x: ArrayLike, what: str) -> Rows:
    rows = np.asarray(x)
    check_numbers(rows, what)
    if rows.ndim != 2 or 0 in rows.shape:
        raise InputError(f"{what} has shape {rows.shape}, expected rows of features, (n, d) with n and d at least 1")
    check_finite(rows, what=what)
    return rows.astype(np.float32, copy=False)


def _encode(y_train: ArrayLike, n_train: int, y_test: ArrayLike, n_test: int) -> tuple[Codes, Codes, int]:
    """Class codes: the sorted classes of train, then those that only test has."""
    labels, test_labels = _labels(y_train, n_train, "y_train"), _labels(y_test, n_test, "y_test")
    if (labels.dtype.kind == "U") != (test_labels.dtype.kind == "U"):
        raise InputError(
            f"y_train has dtype {labels.dtype} and y_test {test_labels.dtype}; expected text or numbers in both"
        )
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"all train rows have the label {classes[0]}; scores need at least two classes")
    known = np.concatenate([classes, np.setdiff1d(test_labels, classes)])
    order = np.argsort(known)
    return codes, order[np.searchsorted(known, test_labels, sorter=order)], len(classes)


def _labels(y: ArrayLike, n_rows: int, what: str) -> np.ndarray:
    labels = np.asarray(y)
    if labels.dtype == object and all(isinstance(label, str) for label in labels.flat):
        labels = labels.astype(str)
    return check_labels(labels, n_rows, what)
