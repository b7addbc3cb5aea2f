"""The evaluation protocol: classifiers or regressions, fitted on train rows and scored on test rows that may be
scored, and clusters of test rows; what each row contributes; and a probe of these scores during the training."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import comb, xlogy

from viewsmith.core.distributed import rank
from viewsmith.core.errors import InputError, warn
from viewsmith.core.progress import TOLD, with_progress
from viewsmith.core.tensors import stream
from viewsmith.data.labels import MISSING, Target, missing_labels, numbers_of, partial_labels, without_label
from viewsmith.evaluation.linear import fit_linear, fit_ridge, standardize, train_softmax
from viewsmith.evaluation.neighbors import Metric, majority, neighbors
from viewsmith.modalities.checks import check_finite, check_labels, check_numbers
from viewsmith.training.engine import Callback, Trainer

STARTS = 10
Codes = NDArray[np.int64]

#: The three scores, in the order in which they are computed.
MEASURES = ("kmeans_accuracy", "nmi", "ari")


def cluster_scores(rows: NDArray[np.float32], codes: Codes, n_classes: int) -> dict[str, tuple[float, NDArray]]:
    """Each of `MEASURES` of k-means on test rows, with its `contributions`; `n_classes` is of the train rows. Without
    enough rows for as many clusters, NaN."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    n_known = max(n_classes, int(codes.max()) + 1)
    if len(rows) < n_known:
        warn(f"{len(rows)} test rows are fewer than the {n_known} classes; k-means scores are nan")
        return dict.fromkeys(MEASURES, (float("nan"), np.full(len(rows), np.nan)))
    classes = np.unique(codes, return_inverse=True)[1]
    clusters = KMeans(int(classes.max()) + 1, n_init=STARTS, random_state=0).fit_predict(rows).astype(np.int64)
    scores = (
        matched_accuracy(clusters, classes),
        float(normalized_mutual_info_score(classes, clusters)),
        float(adjusted_rand_score(classes, clusters)),
    )
    return dict(zip(MEASURES, zip(scores, contributions(clusters, classes), strict=True), strict=True))


def matched_accuracy(clusters: Codes, classes: Codes) -> float:
    """Accuracy of a clustering under the best one-to-one matching of clusters to classes (Hungarian algorithm)."""
    return float(_matched(_counts(clusters, classes), clusters, classes).sum() / len(classes))


def _counts(clusters: Codes, classes: Codes) -> Codes:
    counts = np.zeros((clusters.max() + 1, classes.max() + 1), dtype=np.int64)
    np.add.at(counts, (clusters, classes), 1)
    return counts


def _matched(counts: Codes, clusters: Codes, classes: Codes) -> NDArray[np.bool_]:
    """Whether the class of each row is that of its cluster."""
    cluster, named = linear_sum_assignment(counts, maximize=True)
    of_cluster = np.full(len(counts), -1)
    of_cluster[cluster] = named
    return of_cluster[clusters] == classes


def contributions(clusters: Codes, classes: Codes) -> tuple[NDArray, NDArray, NDArray]:
    """What each row contributes to matched accuracy, NMI and ARI, (n,) each: 1 where cluster and class match, and for
    the others the pseudo-values of the jackknife, n s - (n - 1) s_i with the score s_i without row i (Tukey 1958),
    whose standard error is that of the score."""
    counts, n = _counts(clusters, classes), len(classes)
    cell = counts[clusters, classes]
    of_cluster, of_class = counts.sum(axis=1), counts.sum(axis=0)
    a, b = of_cluster[clusters], of_class[classes]

    def entropy(sizes: Codes, without: Codes) -> tuple[float, NDArray]:
        """Entropy of a partition, and that without each row, of whose part the size is given."""
        total = xlogy(sizes, sizes).sum()
        left = total - xlogy(without, without) + xlogy(without - 1, without - 1)
        return np.log(n) - total / n, np.log(n - 1) - left / (n - 1)

    (of_a, left_a), (of_b, left_b) = entropy(of_cluster, a), entropy(of_class, b)
    of_both, left_both = entropy(counts.ravel(), cell)
    nmi = _nmi(of_a, of_b, of_both), _nmi(left_a, left_b, left_both)
    both, in_cluster, in_class = (comb(sizes, 2).sum() for sizes in (counts, of_cluster, of_class))
    ari = (
        _ari(both, in_cluster, in_class, comb(n, 2)),
        _ari(both - cell + 1, in_cluster - a + 1, in_class - b + 1, comb(n - 1, 2)),
    )
    pseudo = [n * whole - (n - 1) * left for whole, left in (nmi, ari)]
    return _matched(counts, clusters, classes).astype(float), pseudo[0], pseudo[1]


def _nmi(of_a: NDArray | float, of_b: NDArray | float, of_both: NDArray | float) -> NDArray:
    """Mutual information over the mean of both entropies; 1 where both are zero."""
    mean = (np.asarray(of_a) + of_b) / 2
    return np.where(mean > 0, (np.asarray(of_a) + of_b - of_both) / np.where(mean > 0, mean, 1), 1.0)


def _ari(both: NDArray | float, a: NDArray | float, b: NDArray | float, pairs: float) -> NDArray:
    """Adjusted Rand index (Hubert and Arabie 1985) of numbers of pairs; 1 where it is not defined."""
    expected, most = np.asarray(a) * b / max(pairs, 1), (np.asarray(a) + b) / 2
    defined = np.abs(most - expected) > 1e-12
    return np.where(defined, (both - expected) / np.where(defined, most - expected, 1), 1.0)


@dataclass(frozen=True)
class ScoredRows:
    """Rows on which classifiers are fitted and scored."""

    train: np.ndarray  # bool (n,): train rows with a label
    test: np.ndarray  # bool (m,): test rows with a label that was not used in training
    unlabeled: int  # number of test rows without a label
    used: int  # number of test rows that are left out because their label was used


def scored_rows(dataset: Any, label_used: Callable[[Any], np.ndarray] | None) -> ScoredRows:
    """The rows to score."""
    train, test = (np.ones(len(y), dtype=bool) for y in (dataset.y_train, dataset.y_test))
    if label_used is not None or getattr(dataset, "partly_labeled", False):
        train, test = (~_absent(np.asarray(y), dataset) for y in (dataset.y_train, dataset.y_test))
    unlabeled, used = int((~test).sum()), 0
    if label_used is not None:
        seen = label_used(dataset.x_test) & test
        used, test = int(seen.sum()), test & ~seen
    for mask, rows in ((train, "train"), (test, "test")):
        if not mask.any():
            why = f"their labels are missing ({MISSING}) or were used in training"
            raise InputError(f"no {rows} row is left to score: {why}; give more labels, or other test rows")
    return ScoredRows(train, test, unlabeled, used)


def _absent(y: np.ndarray, dataset: Any) -> np.ndarray:
    """Which rows have no label; floats of a data set that does not say that they are numbers may be classes."""
    return without_label(y) if getattr(dataset, "target", "class") == "number" else missing_labels(y)


LINEAR, SVM = 4, 5  # parts of the work of a table row, of about ten
ClassCodes = NDArray[np.int64]
Numbers = NDArray[np.float64]
Rows = NDArray[np.float32]
Values = NDArray[Any]  # what test rows contribute to a score, (draws, m), bool or float

#: From train rows, their class codes or numbers, test rows and the target to predictions.
Predict = Callable[[Rows, np.ndarray, Rows, Target], np.ndarray]
NEIGHBORS = 5
DRAWS = (0, 1, 2)
_FRACTIONS = {"linear_1pct": 0.01, "linear_10pct": 0.10, "r2_1pct": 0.01, "r2_10pct": 0.10}
_K_MEANS = f"{{score}} of k-means on the test rows {{rows}}: as many clusters as classes, {STARTS} starts, seed 0"
_MEAN = f"mean over draws {', '.join(map(str, DRAWS))}"
_FEW_LABELS = "as linear, fitted on {fraction} of the labels: per class max(1, round({fraction} of its rows)), " + _MEAN
_FEW_NUMBERS = "as r2, fitted on {fraction} of the labels: max(2, round({fraction} of the rows)), " + _MEAN
_MATCHED, _NMI, _ARI = "accuracy (Hungarian matching)", "NMI (arithmetic mean)", "adjusted Rand index"

#: Name and one-line description of each score of classes, printed with every table. Higher is better for all scores.
PROTOCOLS: dict[str, str] = {
    "linear": "accuracy of logistic regression (softmax, L2, C = 1), columns standardized on the train rows",
    "knn": f"accuracy of the majority of the {NEIGHBORS} nearest train rows by cosine (map: Euclidean), ties to the "
    "smallest class",
    "svm": "accuracy of a linear SVM (squared hinge, one-vs-rest, C = 1), columns standardized on the train rows",
    "kmeans_accuracy": _K_MEANS.format(score=_MATCHED, rows="without normalization"),
    "nmi": _K_MEANS.format(score=_NMI, rows="without normalization"),
    "ari": _K_MEANS.format(score=_ARI, rows="without normalization"),
    "kmeans_accuracy_l2": _K_MEANS.format(score=_MATCHED, rows="normalized to length 1"),
    "nmi_l2": _K_MEANS.format(score=_NMI, rows="normalized to length 1"),
    "ari_l2": _K_MEANS.format(score=_ARI, rows="normalized to length 1"),
    "linear_1pct": _FEW_LABELS.format(fraction="1 %"),
    "linear_10pct": _FEW_LABELS.format(fraction="10 %"),
}

#: Protocols that `compare` leaves out unless it is asked for all: none decides which rows are level with the best.
REPEATED = ("svm", "kmeans_accuracy_l2", "nmi_l2", "ari_l2")

#: Protocols that are computed only if they are named.
OPTIONAL: dict[str, str] = {
    "softmax_50": "accuracy of a linear softmax layer after 50 epochs of Adam, batches of 256, learning rate 0.001, on "
    "the columns as they are, seed 0 (PiNDA: appendix B.3, which names no optimizer)"
}

#: The same for numbers (a continuous target). Lower is better for `mae` alone.
NUMBER_PROTOCOLS: dict[str, str] = {
    "r2": "R^2 of ridge regression, columns standardized on the train rows, penalty by leave-one-out errors: "
    "1 is perfect, 0 the mean of the test rows",
    "mae": "mean absolute error of the same ridge regression, in units of the target; lower is better",
    "knn_r2": f"R^2 of the mean of the {NEIGHBORS} nearest train rows by cosine (map: Euclidean)",
    "r2_1pct": _FEW_NUMBERS.format(fraction="1 %"),
    "r2_10pct": _FEW_NUMBERS.format(fraction="10 %"),
}


@dataclass(frozen=True)
class Scored:
    """Scores of an embedding, and what each test row contributes to them: (draws, m) by protocol, of which the score is
    the mean, but for NMI and ARI, whose mean is a little different. Scores that are NaN have none."""

    scores: dict[str, float]
    rows: dict[str, NDArray[np.float32]]


def evaluate_embedding(
    train: ArrayLike,
    y_train: ArrayLike,
    test: ArrayLike,
    y_test: ArrayLike,
    *,
    protocols: Sequence[str] | None = None,
    name: str = "the embedding",
    metric: Metric = "cosine",
    groups: ArrayLike | None = None,
    target: Target | None = None,
    predict: Predict | None = None,
) -> dict[str, float]:
    """Score one embedding: classifiers or regressions are fitted on its train rows and scored on its test rows.

    Parameters
    ----------
    train, test : arrays (n, d) and (m, d)
        Finite rows of the same width.
    y_train, y_test : arrays (n,) and (m,)
        Classes as integers or text, or numbers. Test rows of a class without train rows count as errors.
    protocols : sequence of str, optional
        Names from `PROTOCOLS` or `OPTIONAL`, of numbers from `NUMBER_PROTOCOLS`; default: all but the optional ones.
    name : str
        Name of the embedding in messages.
    metric : {"cosine", "euclidean"}
        Metric of the nearest neighbors. Use "euclidean" for positions in a map.
    groups : array (n,), optional
        Groups of the train rows: few labels are drawn from the groups of a class in turn.
    target : {"class", "number"}, optional
        What labels are. Default: numbers if a label of the train rows has a fraction, else classes.
    predict : callable, optional
        From train rows, their class codes or numbers, test rows and `target` to predictions for the test rows, in place
        of linear probes; the scores of other probes are NaN.

    Returns
    -------
    dict of str to float
        One score per protocol, in the order of `protocols`, at most 1, but for `mae`. The k-means scores are NaN, with
        a warning, if there are fewer test rows than classes.

    Raises
    ------
    InputError
        Unknown protocol, shapes that do not match, values that are not finite, missing or mixed labels, or train rows
        of fewer than two classes or numbers.
    """
    options: Any = {"protocols": protocols, "name": name, "metric": metric, "groups": groups}
    return score_embedding(train, y_train, test, y_test, target=target, predict=predict, **options).scores


def score_embedding(
    train: ArrayLike,
    y_train: ArrayLike,
    test: ArrayLike,
    y_test: ArrayLike,
    *,
    protocols: Sequence[str] | None = None,
    name: str = "the embedding",
    metric: Metric = "cosine",
    groups: ArrayLike | None = None,
    target: Target | None = None,
    predict: Predict | None = None,
    everywhere: bool = False,
    progress: bool = False,
) -> Scored:
    """The scores of `evaluate_embedding`, with what each test row contributes; if `everywhere`, predictions count at
    all protocols, also as clusters; with `progress`, long ones show how far they are."""
    y: Any = np.asarray(y_train)
    tested: Any = np.asarray(y_test)
    target = target or ("class" if numbers_of(y, "y_train") is None else "number")
    selected = check_protocols(protocols, target)
    rows, test_rows = checked_rows(train, f"{name} (train)"), checked_rows(test, f"{name} (test)")
    if rows.shape[1] != test_rows.shape[1]:
        raise InputError(
            f"{name} has {rows.shape[1]} columns in train and {test_rows.shape[1]} in test, expected equal numbers"
        )
    if target == "number":
        y, tested = _numbers(y, len(rows), "y_train"), _numbers(tested, len(test_rows), "y_test")
        _check_spread(y, tested)
        n_classes = 0
    else:
        y, tested, n_classes = _encode(y_train, len(rows), y_test, len(test_rows))
    if predict is not None and everywhere:
        return _scored(_everywhere(predict(rows, y, test_rows, target), y, tested, target), selected)
    if predict is not None:
        return _scored(_probe_scores(predict, rows, y, test_rows, tested, target, selected, groups), selected)

    def linear(train: Rows, y: np.ndarray, test: Rows, target: Target) -> np.ndarray:
        probe = fit_ridge(train, y) if target == "number" else fit_linear(train, y, n_classes, loss="logistic")
        return probe.predict(test)

    found: dict[str, Values] = {}
    scores: dict[str, float] = {}
    probes = any(protocol.startswith(("linear", "svm", "r2", "mae")) for protocol in selected)
    nearest = not {"knn", "knn_r2"}.isdisjoint(selected)
    clusters = [suffix for suffix in ("", "_l2") if any(measure + suffix in selected for measure in MEASURES)]

    def steps() -> Iterator[int]:
        """Add all scores; yields the parts of the work that are done."""
        if probes:
            scaled, scaled_test = standardize(rows, test_rows)
            found.update(_probe_scores(linear, scaled, y, scaled_test, tested, target, selected, groups))
            yield LINEAR
            if "svm" in selected:
                svm = fit_linear(scaled, y, n_classes, loss="squared_hinge")
                found["svm"] = _right(tested, svm.predict(scaled_test))
                yield SVM
            del scaled, scaled_test
        if "softmax_50" in selected:
            layer = train_softmax(torch.from_numpy(rows), torch.from_numpy(y), n_classes)
            found["softmax_50"] = _right(tested, layer(torch.from_numpy(test_rows)).argmax(1).numpy())
        if nearest:
            near = y[neighbors(rows, test_rows, NEIGHBORS, metric)]
            if target == "number":
                found["knn_r2"] = _explained(tested, near.mean(axis=1))
            else:
                found["knn"] = _right(tested, majority(near, n_classes))
            yield 1
        for suffix in clusters:
            clustered = cluster_scores(_normalized(test_rows) if suffix else test_rows, tested, n_classes)
            for measure, (score, of_rows) in clustered.items():
                scores[measure + suffix], found[measure + suffix] = score, of_rows.astype(np.float32)[None]
            yield 1

    parts = LINEAR * probes + SVM * ("svm" in selected) + nearest + len(clusters)
    for _ in with_progress(steps(), f"scores of {name}", parts, "parts", size=int, told=TOLD) if progress else steps():
        pass
    return _scored(found, selected, scores)


def check_protocols(protocols: Sequence[str] | None, target: Target = "class") -> list[str]:
    """The selected protocols; None selects all. Raises InputError for an unknown name or an empty list."""
    known = PROTOCOLS | OPTIONAL if target == "class" else NUMBER_PROTOCOLS
    selected = [name for name in known if name not in OPTIONAL] if protocols is None else list(protocols)
    unknown = [protocol for protocol in selected if protocol not in known]
    if unknown or not selected:
        given = f"unknown protocol {unknown[0]!r}" if unknown else "no protocol given"
        if unknown and unknown[0] in PROTOCOLS | OPTIONAL | NUMBER_PROTOCOLS:
            labels = "numbers" if target == "number" else "classes"
            given = f"the protocol {unknown[0]!r} is not for labels that are {labels}"
        raise InputError(f"{given}; expected one or more of {', '.join(known)}")
    return selected


def few_label_rows(codes: ClassCodes, fraction: float, draw: int, groups: ArrayLike | None = None) -> ClassCodes:
    """Random rows of a fraction of the labels, ``max(1, round(fraction * count))`` of a class, for all embeddings."""
    rng = np.random.default_rng(draw)
    labeled = []
    for code in range(codes.max() + 1):
        members = in_turn(rng.permutation(np.flatnonzero(codes == code)), groups)
        labeled.append(members[: max(1, round(fraction * len(members)))])
    return np.sort(np.concatenate(labeled))


def few_number_rows(n: int, fraction: float, draw: int, groups: ArrayLike | None = None) -> NDArray[np.int64]:
    """Random rows of a fraction of n labels, ``max(2, round(fraction * n))``, increasing; of groups, (n,), as many."""
    members = in_turn(np.random.default_rng(draw).permutation(n), groups)
    return np.sort(members[: max(2, round(fraction * n))])


def in_turn(members: NDArray[np.int64], groups: ArrayLike | None) -> NDArray[np.int64]:
    """Rows in an order in which their groups, if there are some, take turns; rows of a group keep their order."""
    turn = np.zeros(len(members), dtype=np.int64)
    of_members = turn if groups is None else np.asarray(groups)[members]
    for group in np.unique(of_members):
        here = of_members == group
        turn[here] = np.arange(here.sum())
    return members[np.argsort(turn, kind="stable")]


def _probe_scores(
    predict: Predict,
    train: Rows,
    y: np.ndarray,
    test: Rows,
    y_test: np.ndarray,
    target: Target,
    selected: Sequence[str],
    groups: ArrayLike | None,
) -> dict[str, Values]:
    """What test rows contribute to scores of predictions from all train rows, and from few of them, by the names in
    `selected`."""
    numbers, found = target == "number", dict[str, Values]()
    score: Callable[..., Values] = _explained if numbers else _right
    if {"linear", "r2", "mae"} & set(selected):
        predicted = predict(train, y, test, target)
        found["r2" if numbers else "linear"] = score(y_test, predicted)
        if numbers:
            found["mae"] = np.abs(y_test - predicted)[None]
    few: Callable[..., NDArray[np.int64]] = few_number_rows if numbers else few_label_rows
    for name, fraction in _FRACTIONS.items():
        if name in selected:
            parts = (few(len(y) if numbers else y, fraction, draw, groups) for draw in DRAWS)
            found[name] = np.concatenate([score(y_test, predict(train[rows], y[rows], test, target)) for rows in parts])
    return {name: values for name, values in found.items() if name in selected}


def _everywhere(predicted: np.ndarray, y: np.ndarray, y_test: np.ndarray, target: Target) -> dict[str, Values]:
    """What test rows contribute to all scores of one prediction of each; as clusters, one class has an NMI and an ARI
    of 0."""
    if target == "number":
        names = ("r2", "knn_r2", "r2_1pct", "r2_10pct")
        return {**dict.fromkeys(names, _explained(y_test, predicted)), "mae": np.abs(y_test - predicted)[None]}
    right, nothing = _right(y_test, predicted), np.zeros((1, len(y_test)), np.float32)
    return {name: nothing if name.startswith(("nmi", "ari")) else right for name in PROTOCOLS | OPTIONAL}


def labels_used(protocol: str, y: ArrayLike, target: Target) -> int:
    """The number of labels that the classifier of a protocol is fitted on, of the labels of the train rows."""
    fraction, counts = _FRACTIONS.get(protocol), np.unique(np.asarray(y), return_counts=True)[1]
    if fraction is None:
        return int(counts.sum())
    if target == "number":
        return max(2, round(fraction * int(counts.sum())))
    return sum(max(1, round(fraction * int(count))) for count in counts)


def _scored(found: dict[str, Values], selected: Sequence[str], scores: dict[str, float] | None = None) -> Scored:
    """Scores as means over rows and draws, unless they are given; NaN for those that are missing."""
    means = {name: float(np.mean([float(draw.mean()) for draw in values])) for name, values in found.items()}
    known = dict.fromkeys(selected, float("nan")) | means | (scores or {})
    rows = {name: values.astype(np.float32) for name, values in found.items() if np.isfinite(known[name])}
    return Scored({name: known[name] for name in selected}, {name: rows[name] for name in selected if name in rows})


def _right(codes: ClassCodes, predicted: ClassCodes) -> NDArray[np.bool_]:
    return (predicted == codes)[None]


def _explained(y: Numbers, predicted: Numbers) -> Numbers:
    """1 less the squared error over the mean square of the numbers, (1, m): its mean is R^2; NaN if all are equal."""
    if (y == y[0]).all():
        return np.full((1, len(y)), np.nan)
    return (1 - np.square(y - predicted) / np.square(y - y.mean()).mean())[None]


def _normalized(rows: Rows) -> Rows:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    norms[norms == 0] = 1
    return rows / norms


def checked_rows(x: ArrayLike, source_name: str) -> Rows:
    """Rows of features, float32; raises InputError for other shapes, and values that are no finite numbers."""
    rows = np.asarray(x)
    check_numbers(rows, source_name)
    if rows.ndim != 2 or 0 in rows.shape:
        raise InputError(
            f"{source_name} has shape {rows.shape}, expected rows of features, (n, d) with n and d at least 1"
        )
    check_finite(rows, source_name=source_name)
    return np.ascontiguousarray(rows, dtype=np.float32)  # also of negative strides, which torch does not take


def _numbers(y: np.ndarray, n_rows: int, source_name: str) -> NDArray[np.float64]:
    if y.shape != (n_rows,):
        raise InputError(f"{source_name} has shape {y.shape}, expected one number per row, shape ({n_rows},)")
    numbers = numbers_of(y, source_name, "number")
    assert numbers is not None
    if missing := int(np.isnan(numbers).sum()):
        raise InputError(f"{source_name} has {missing} missing numbers (NaN): leave these rows out")
    return numbers


def _check_spread(y: Numbers, y_test: Numbers) -> None:
    """Raise InputError if all numbers of the train rows are equal; warn if those of the test rows are."""
    if len(y) < 2 or (y == y[0]).all():
        raise InputError(
            f"all {len(y)} train rows have the target {y[0]:g}, so there is nothing to predict: expected numbers that "
            "differ"
        )
    if (y_test == y_test[0]).all():
        warn(f"all {len(y_test)} test rows have the target {y_test[0]:g}: R^2 is nan")


def _encode(y_train: ArrayLike, n_train: int, y_test: ArrayLike, n_test: int) -> tuple[ClassCodes, ClassCodes, int]:
    """Class codes of train and test, and the number of classes in train; classes only in test have larger codes."""
    labels, test_labels = _labels(y_train, n_train, "y_train"), _labels(y_test, n_test, "y_test")
    if (labels.dtype.kind == "U") != (test_labels.dtype.kind == "U"):
        raise InputError(
            f"y_train has dtype {labels.dtype} and y_test {test_labels.dtype}; expected text or numbers in both"
        )
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"all train rows have the label {classes[0]}, expected at least two classes")
    known = np.concatenate([classes, np.setdiff1d(test_labels, classes)])
    order = np.argsort(known)
    return codes, order[np.searchsorted(known, test_labels, sorter=order)], len(classes)


def _labels(y: ArrayLike, n_rows: int, source_name: str) -> np.ndarray:
    labels = np.asarray(y)
    if labels.dtype == object and all(isinstance(label, str) for label in labels.flat):
        labels = labels.astype(str)
    return check_labels(labels, n_rows, source_name)


class OnlineProbe(Callback):
    """Adds scores of the representation to the metrics, by labels of the training rows: probe/linear, probe/knn.

    On a fixed sample of the labeled rows: a classifier is fitted on one half and scored on the other; of numbers,
    probe/r2 and probe/knn_r2 (`viewsmith.evaluation.PROTOCOLS`). The training does not change: weights are the same
    bit for bit with and without the probe. A training that is chosen by these scores has used the labels.

    Parameters
    ----------
    y : array-like (n,)
        Labels of the rows of `fit`; missing ones are -1, NaN, None or empty.
    points : int
        Number of times in a training.
    rows : int
        Labeled rows that are used, at most.
    """

    def __init__(self, y: ArrayLike, *, points: int = 12, rows: int = 1000) -> None:
        self.y, self.points, self.rows = y, points, rows

    def start(self, trainer: Trainer) -> None:
        y = np.asarray(self.y)
        if y.shape != (len(trainer.x),):
            raise InputError(
                f"the labels of the probe have shape {y.shape}, but the training is on {len(trainer.x)} rows: give one "
                "label for each"
            )
        numbers = numbers_of(y, "the labels of the probe")
        labels = partial_labels(y, len(y), "the labels of the probe") if numbers is None else numbers
        known = np.flatnonzero(~without_label(labels))
        self._labels, self._protocols = labels, ("linear", "knn") if numbers is None else ("r2", "knn_r2")
        order = torch.randperm(len(known), generator=stream(trainer.seed, "probe")).numpy()
        self._index = known[order[: self.rows]]
        if len(np.unique(labels[self._index[: len(self._index) // 2]])) < 2:
            raise InputError(
                f"the probe has {len(known)} labels, {len(np.unique(labels[known]))} of them different: expected more "
                "labels, of at least two classes"
            )

    def epoch(self, trainer: Trainer, row: dict[str, Any]) -> None:
        number = trainer.epochs_done + 1
        if rank() != 0 or (number % max(1, trainer.epochs // self.points) and number != trainer.epochs):
            return
        trainer.method.eval()
        with torch.no_grad():
            rows = trainer.x[torch.from_numpy(self._index).to(trainer.device)]
            h = trainer.method.represent(rows).float().cpu().numpy()
        trainer.method.train()
        y, cut = self._labels[self._index], len(h) // 2
        arrays = h[:cut], y[:cut], h[cut:], y[cut:]
        scores = evaluate_embedding(*arrays, protocols=self._protocols, name="the representation")
        row.update({f"probe/{name}": score for name, score in scores.items()})
