"""Scores of a clustering against classes, and what each row contributes to them."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import comb, xlogy

from viewsmith.core.errors import warn

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
