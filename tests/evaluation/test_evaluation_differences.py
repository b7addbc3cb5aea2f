"""Paired differences: the corrected resampled t-test, Holm's adjustment, and all pairs of rows."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import t, ttest_1samp

from viewsmith.evaluation.leaderboard import Repeats, all_pairs, by_repeat, holm, paired_difference


@pytest.mark.parametrize("overlap", [0.0, 0.25, 1.0])
def test_the_corrected_test_against_a_loop(overlap):
    rng = np.random.default_rng(0)
    for count in (2, 3, 10):
        values = rng.normal(0.02, 0.03, count)
        mean = sum(values) / count
        variance = sum((value - mean) ** 2 for value in values) / (count - 1)
        error = math.sqrt((1 / count + overlap) * variance)
        found = paired_difference(values, overlap)
        assert found.mean == pytest.approx(mean) and found.deviation == pytest.approx(math.sqrt(variance))
        assert found.p == pytest.approx(2 * (1 - t.cdf(abs(mean / error), count - 1)))
        reach = t.ppf(0.975, count - 1) * error
        assert (found.low, found.high) == (pytest.approx(mean - reach), pytest.approx(mean + reach))
        assert (found.p < 0.05) == (found.low > 0 or found.high < 0)
        if overlap == 0:
            assert found.p == pytest.approx(ttest_1samp(values, 0.0).pvalue)


def test_the_correction_keeps_the_level_where_splits_overlap():
    """Random splits of the same rows: two equal classifiers must not differ in more than about 5 % of comparisons."""
    rng, plain, corrected, trials = np.random.default_rng(0), 0, 0, 400
    for _ in range(trials):
        right = rng.random((2, 200)) < 0.7  # whether each of two classifiers is right on each row, by chance
        gaps = []
        for _ in range(10):
            test = rng.permutation(200)[:40]
            gaps.append(right[0, test].mean() - right[1, test].mean())
        plain += paired_difference(gaps).p < 0.05
        corrected += paired_difference(gaps, 40 / 160).p < 0.05
    assert plain > 0.2 * trials and corrected < 0.09 * trials


def test_too_few_or_equal_values_have_no_test():
    assert vars(paired_difference([0.1])) == {"mean": 0.1, "deviation": None, "low": None, "high": None, "p": None}
    assert paired_difference([0.25, 0.25]).deviation == 0 and paired_difference([0.25, 0.25]).p is None


def test_holm_against_its_definition():
    """The smallest significance level at which the step-down procedure rejects a test."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        p = rng.random(6) ** 3

        def rejected(level, p=p):
            found = set()
            for step, i in enumerate(np.argsort(p)):
                if p[i] > level / (len(p) - step):
                    break
                found.add(int(i))
            return found

        for i, adjusted in enumerate(holm(p)):
            if adjusted < 1:
                assert i in rejected(adjusted + 1e-9) and i not in rejected(adjusted - 1e-9)
            else:
                assert i not in rejected(1 - 1e-9)


def test_holm_leaves_out_tests_that_were_not_possible():
    found = holm([0.01, math.nan, 0.04])
    assert found[0] == pytest.approx(0.02) and found[2] == pytest.approx(0.04) and math.isnan(found[1])
    assert len(holm([])) == 0 and np.isnan(holm([math.nan])).all()


def test_repeats_on_one_split_are_averaged():
    values = [0.5, None, 0.7, 0.9]
    assert by_repeat(values, Repeats((0, 1, 0, 1), 0.25)) == {0: pytest.approx(0.6), 1: 0.9}
    assert by_repeat(values, Repeats((0, 0, 0, 0))) == {0: 0.5, 2: 0.7, 3: 0.9}
    assert by_repeat([math.nan, None], Repeats((0, 0))) == {}


def test_all_pairs_are_tested_and_adjusted_within_a_protocol():
    rng = np.random.default_rng(2)
    scores = {row: {name: list(rng.random(4)) for name in ("knn", "linear")} for row in "abc"}
    scores["b"]["knn"][1] = None
    found = all_pairs(scores, ["knn", "linear"], Repeats((0, 1, 2, 3), 0.25))
    assert [(each["protocol"], each["row"], each["other"]) for each in found] == [
        (protocol, *pair) for protocol in ("knn", "linear") for pair in itertools.combinations("abc", 2)
    ]
    first = found[0]
    gaps = [scores["a"]["knn"][i] - scores["b"]["knn"][i] for i in (0, 2, 3)]
    assert {key: first[key] for key in ("mean", "p")} == {
        "mean": pytest.approx(np.mean(gaps)),
        "p": pytest.approx(paired_difference(gaps, 0.25).p),
    }
    for protocol in ("knn", "linear"):
        tests = [each for each in found if each["protocol"] == protocol]
        assert [each["p_holm"] for each in tests] == pytest.approx(holm([each["p"] for each in tests]).tolist())
