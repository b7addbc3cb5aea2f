"""What labels are, and which columns say them."""

import numpy as np
import pandas as pd
import pytest

from viewsmith.data.labels import _is_quantity, repeating_columns


def spread(distinct, largest, n):
    """n integers with so many different values, from 0 to the largest."""
    values = np.append(np.arange(distinct - 1), largest)
    return np.resize(values, n)


@pytest.mark.parametrize(
    ("distinct", "largest", "n", "expected"),
    [
        (51, 101, 254, True),  # 102 values are possible, twice as many as there are
        (51, 100, 254, False),
        (51, 101, 255, False),  # five rows of each
        (50, 1000, 100, False),  # few values
    ],
)
def test_integers_are_a_quantity_if_many_differ_with_gaps(distinct, largest, n, expected):
    assert _is_quantity(spread(distinct, largest, n)) is expected
    assert _is_quantity(spread(distinct, largest, n) - 500) is expected


def test_columns_that_are_the_target_but_for_scale_and_sign():
    y = np.random.default_rng(0).normal(size=40)
    more = {"near": y + 0.1 * np.random.default_rng(1).normal(size=40), "few": np.where(np.arange(40) < 19, y, np.nan)}
    frame = pd.DataFrame({"up": 3 * y + 1, "down": -0.5 * y, "text": (2 * y).astype(str), "constant": 1.0} | more)
    assert repeating_columns(frame, y) == ["up", "down", "text"]
