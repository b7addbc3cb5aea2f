"""Rows that are level with the best one of a comparison."""

import math

import numpy as np
import pytest

from benchmarks.tables.level import level_at
from benchmarks.tables.level import level_rows as level_by_repeat
from viewsmith.evaluation.differences import TIES
from viewsmith.evaluation.protocol import NUMBER_PROTOCOLS, OPTIONAL, PROTOCOLS


def test_the_lowest_error_is_the_best():
    values = {"worst": {0: 9.0}, "near": {0: 5.07}, "best": {0: 5.0}, "none": {}}  # a tie is 1.5 % of 5
    assert level_at("mae", values) == ["near", "best"]
    assert level_at("r2", {name: {i: value / 10 for i, value in of.items()} for name, of in values.items()}) == [
        "worst"
    ]


def level_rows(values, tie, overlap=0.0):
    """One score of several repeats is that of all of them, as that of a baseline on one split."""
    count = max(map(len, values.values()))
    each = {row: list(scores) * (count if len(scores) == 1 else 1) for row, scores in values.items()}
    return level_by_repeat({row: dict(enumerate(scores)) for row, scores in each.items()}, tie, overlap)


def test_repeats_that_only_one_row_has_do_not_count():
    values = {"best": {0: 0.9, 1: 0.9}, "other": {1: 0.89}, "none": {}, "apart": {7: 0.9}}
    assert level_by_repeat(values, 0.015) == ["best", "other"]
    assert level_by_repeat(values | {"other": {0: 0.1}}, 0.015) == ["best"]


def test_splits_that_overlap_are_level_more_often():
    best, other = [0.9, 0.9, 0.9], [0.87, 0.88, 0.86]
    assert level_rows({"best": best, "other": other}, 0.015) == ["best"]
    assert level_rows({"best": best, "other": other}, 0.015, overlap=0.25) == ["best", "other"]


def test_every_protocol_has_a_tie():
    assert TIES.keys() == PROTOCOLS.keys() | OPTIONAL.keys() | NUMBER_PROTOCOLS.keys()


@pytest.mark.parametrize(("score", "level"), [(0.94, True), (0.9399, False), (0.97, True)])
def test_a_difference_of_a_tie_is_level(score, level):
    assert ("other" in level_rows({"other": [score], "best": [0.955]}, 0.015)) is level


def test_order_is_kept_and_the_best_is_included():
    values = {"raw": [0.9], "worse": [0.5, 0.6], "best": [0.91, 0.9], "near": [0.9, 0.89]}
    assert level_rows(values, 0.015) == ["raw", "best", "near"]


def test_from_three_seeds_on_an_interval_with_zero_is_level():
    best, other = [0.9, 0.9, 0.9], [0.9, 0.9, 0.81]  # .03 behind on average; the interval is .03 +- .13
    assert level_rows({"best": best, "other": other}, 0.015) == ["best", "other"]
    assert level_rows({"best": best[:2], "other": [0.9, 0.81]}, 0.015) == ["best"]
    assert level_rows({"best": best, "other": [0.87, 0.871, 0.869]}, 0.015) == ["best"]


def test_the_interval_against_a_loop():
    rng = np.random.default_rng(0)
    for _ in range(200):
        best, other = rng.normal(0.9, 0.02, 4), rng.normal(0.87, 0.02, 4)
        gaps = [a - b for a, b in zip(best, other, strict=True)]
        mean = sum(gaps) / 4
        deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / 3)
        behind = mean > 0.015 and mean - 3.1824463 * deviation / 2 > 0  # t of 3 degrees of freedom
        if mean >= 0:
            assert level_rows({"best": best, "other": other}, 0.015) == (["best"] if behind else ["best", "other"])


def test_rows_that_are_not_finite_are_left_out():
    assert level_rows({"a": [math.nan], "b": [0.5], "c": [0.5, math.inf]}, 0.015) == ["b"]
    assert level_rows({"a": [math.nan]}, 0.015) == []


def test_the_tie_of_an_error_is_a_fraction_of_the_lowest():
    values = {"worst": {0: 9.0}, "near": {0: 5.07}, "off": {0: 5.1}, "best": {0: 5.0}}
    assert level_at("mae", values) == ["near", "best"]
    assert level_at("mae", {"a": {0: math.nan}, "b": {}}) == []
