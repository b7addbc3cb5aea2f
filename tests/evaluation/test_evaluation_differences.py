"""Paired differences: the corrected resampled t-test, Holm's adjustment, and all pairs of rows."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import t, ttest_1samp

from viewsmith.evaluation.differences import (
    Repeats,
    TestRows,
    all_pairs,
    by_repeat,
    holm,
    paired_difference,
    turned,
    variances_of_rows,
    word,
)


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
    none = dict.fromkeys(("deviation", "error", "low", "high", "p"))
    assert vars(paired_difference([0.1])) == {"mean": 0.1} | none
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


def test_variances_add_and_share_their_degrees_of_freedom():
    """Against the formula of Satterthwaite, with the deviation of three repeats and two further variances."""
    values, further = [0.02, 0.05, 0.08], [(0.0004, 199.0), (0.0001, 2.0), (0.0, 5.0)]
    parts = [(0.0009 / 3, 2), *further[:2]]
    total = sum(variance for variance, _ in parts)
    freedom = total**2 / sum(variance**2 / degrees for variance, degrees in parts)
    found = paired_difference(values, 0.0, further)
    assert found.error == pytest.approx(math.sqrt(total))
    assert found.p == pytest.approx(2 * t.sf(0.05 / math.sqrt(total), freedom))
    assert found.high - found.mean == pytest.approx(t.ppf(0.975, freedom) * math.sqrt(total))
    one = paired_difference([0.05], 0.0, further[:1])  # of one training, the test rows alone
    assert one.deviation is None and one.error == pytest.approx(0.02)


def rows_of(values, index=None):
    values = np.atleast_2d(np.asarray(values, np.float32))
    return TestRows(values, np.arange(values.shape[1]) if index is None else np.asarray(index))


def test_variances_of_rows_against_a_loop():
    rng = np.random.default_rng(0)
    one, other = (rows_of(rng.random((3, 20)) < 0.7) for _ in range(2))
    gaps = [[float(one.values[d, i] - other.values[d, i]) for i in range(20)] for d in range(3)]
    of_row = [sum(gap[i] for gap in gaps) / 3 for i in range(20)]
    largest = max(abs(value) for value in of_row)
    mean = sum(of_row) / 22
    variance = (sum(value**2 for value in of_row) + largest**2) / 22 - mean**2
    draws = [sum(gap) / 20 for gap in gaps]
    spread = sum((value - sum(draws) / 3) ** 2 for value in draws) / 2
    found = variances_of_rows([(one, other)], several=False)
    assert found == [(pytest.approx(variance / 22, rel=1e-5), 19), (pytest.approx(spread / 3, rel=1e-5), 2)]
    assert len(variances_of_rows([(one, other)], several=True)) == 1
    assert variances_of_rows([(rows_of([1.0]), rows_of([0.0]))], several=False) == []


def test_a_row_that_is_in_several_splits_is_one_row():
    first = rows_of([1, 0, 1], [0, 1, 2]), rows_of([0, 0, 0], [0, 1, 2])
    second = rows_of([0, 1], [2, 5]), rows_of([0, 0], [2, 5])
    (variance, freedom), *rest = variances_of_rows([first, second], several=True)
    of_row = [1.0, 0.0, 0.5, 1.0]
    assert freedom == 3 and not rest
    assert variance == pytest.approx(((sum(v**2 for v in of_row) + 1) / 6 - (sum(of_row) / 6) ** 2) / 6)


@pytest.mark.parametrize(("repeats", "splits"), [(1, False), (2, False), (5, False), (2, True), (3, True)])
def test_equal_methods_are_rarely_told_apart(repeats, splits):
    """Two methods that are equal on average: at most about 5 % of comparisons find a difference, whatever is repeated;
    seeds alone on one split find it in a fifth of them."""
    rng, found, seeds_alone, trials, n = np.random.default_rng(0), 0, 0, 200, 150
    for _ in range(trials):
        total = 5 * n if splits else n
        chance = rng.beta(4, 1.5, total)
        steady, pairs = rng.random((2, total)) < chance, []
        for _ in range(repeats):
            index = rng.permutation(total)[:n] if splits else np.arange(n)
            right = np.where(rng.random((2, total)) < 0.7, steady, rng.random((2, total)) < chance)
            if repeats > 1:
                right &= rng.random((2, total)) > np.abs(rng.normal(0, 0.03, 2))[:, None]
            pairs.append(tuple(rows_of(each[index], index) for each in right))
        gaps = [float(one.values.mean() - other.values.mean()) for one, other in pairs]
        overlap = 0.25 if splits else 0.0
        result = paired_difference(gaps, overlap, variances_of_rows(pairs, several=splits))
        found += result.p is not None and result.p < 0.05
        alone = paired_difference(gaps, overlap)
        seeds_alone += alone.p is not None and alone.p < 0.05
    assert found <= 0.09 * trials
    if repeats == 5:
        assert seeds_alone > 0.15 * trials


def test_pairs_with_test_rows_have_errors_also_of_one_training():
    scores = {"a": {"knn": [0.75]}, "b": {"knn": [0.25]}, "c": {"knn": [None]}}
    rows = {"a": {"knn": {0: rows_of([1, 1, 1, 0] * 9)}}, "b": {"knn": {0: rows_of([0, 0, 0, 1] * 9)}}}
    (found,) = all_pairs(scores, ["knn"], Repeats((0,)), rows)
    assert found["error"] > 0 and found["p_holm"] == found["p"] and found["tie"] == 0.015
    (other,) = all_pairs(scores, ["knn"], Repeats((0,)), rows, subject="b")
    assert (other["row"], other["other"], other["mean"]) == ("b", "a", -0.5)
    (unknown,) = all_pairs(scores, ["knn"], Repeats((0,)))
    assert unknown["p"] is None and word(unknown) == "one pair"


def test_words_of_differences():
    test = {"protocol": "linear", "mean": 0.1, "deviation": 0.01, "p_holm": 0.01, "tie": 0.015}
    assert word(test) == "better" and word(test | {"mean": -0.1}) == "worse"
    assert word(test | {"p_holm": 0.06}) == "not clear" and word(test | {"mean": 0.015}) == "tie"
    assert word(test | {"p_holm": None, "deviation": None}) == "one pair"
    assert word(test | {"p_holm": None}) == "no spread"
    error = test | {"protocol": "mae", "tie": 0.05}
    assert word(error) == "worse" and word(error | {"mean": -0.1}) == "better" and word(error | {"mean": 0.05}) == "tie"


def test_a_tie_of_errors_is_a_fraction_of_the_smaller_one():
    (found,) = all_pairs({"a": {"mae": [5.0]}, "b": {"mae": [5.07]}}, ["mae"], Repeats((0,)))
    assert found["tie"] == pytest.approx(0.075) and word(found) == "tie"


def test_a_turned_difference():
    test = {"row": "a", "other": "b", "mean": 0.1, "low": 0.05, "high": 0.15}
    assert turned(test) == {"row": "b", "other": "a", "mean": -0.1, "low": -0.15, "high": -0.05}
    assert turned(test | {"low": None, "high": None})["low"] is None
