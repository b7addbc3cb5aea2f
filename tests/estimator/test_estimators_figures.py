"""Which samples the galleries of a report show."""

import dataclasses

import numpy as np

from viewsmith.data import load_dataset
from viewsmith.estimator.figures import figure_rows, gallery_samples


def test_a_gallery_shows_every_class_in_turn():
    data = load_dataset("digits")
    x, y, _ = figure_rows(data)
    data = dataclasses.replace(data, y=np.sort(data.y))  # the first rows are of one class
    y = data.y_test
    shown = gallery_samples(data)
    rows = [int(np.flatnonzero((x == row).all(axis=1))[0]) for row in shown]
    assert rows == sorted(rows) and len({int(label) for label in y[rows]}) == len(rows)


def test_a_gallery_without_labels_is_spread_over_the_rows():
    data = dataclasses.replace(load_dataset("digits"), y=None)
    shown, x = gallery_samples(data), figure_rows(data)[0]
    assert np.array_equal(shown[0], x[0]) and np.array_equal(shown[-1], x[-1]) and len(shown) > 2
