"""Scores of clusterings, and what each row contributes to them."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from viewsmith.evaluation.protocol import contributions, matched_accuracy


def test_matched_accuracy_against_all_matchings():
    rng = np.random.default_rng(0)
    for _ in range(20):
        clusters, classes = rng.integers(0, 4, 30), rng.integers(0, 4, 30)
        best = max(np.mean(np.array(names)[clusters] == classes) for names in itertools.permutations(range(4)))
        assert matched_accuracy(clusters, classes) == pytest.approx(best)


def test_pseudo_values_are_those_of_leaving_each_row_out():
    rng = np.random.default_rng(0)
    for n_clusters, n_classes in ((3, 4), (1, 2), (5, 2)):
        clusters, classes = rng.integers(0, n_clusters, 25), rng.integers(0, n_classes, 25)
        right, *found = contributions(clusters, classes)
        assert right.mean() == pytest.approx(matched_accuracy(clusters, classes))
        for values, score in zip(found, (normalized_mutual_info_score, adjusted_rand_score), strict=True):
            whole = score(classes, clusters)
            without = [score(np.delete(classes, i), np.delete(clusters, i)) for i in range(25)]
            np.testing.assert_allclose(values, 25 * whole - 24 * np.array(without), atol=1e-9)


def test_the_jackknife_error_is_the_spread_over_samples():
    rng, scores, errors = np.random.default_rng(1), [], []
    for _ in range(200):
        classes = rng.integers(0, 4, 300)
        clusters = np.where(rng.random(300) < 0.7, classes, rng.integers(0, 4, 300))
        scores.append(adjusted_rand_score(classes, clusters))
        errors.append(contributions(clusters, classes)[2].std(ddof=1) / np.sqrt(300))
    assert np.mean(errors) == pytest.approx(np.std(scores), rel=0.15)
