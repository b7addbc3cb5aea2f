"""Validation rows: a fifth of the labeled train rows."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse

from refusals import refusal
from viewsmith.core.errors import InputError
from viewsmith.data import Dataset
from viewsmith.data.dataset import validation_split


def dataset(y, y_test=(), **more):
    """Rows with their number as only feature; rows with labels `y` are train rows, every second row of the file."""
    y, y_test = np.asarray(y), np.asarray(y_test)
    n = 2 * len(y)
    labels = np.empty(n, dtype=y.dtype)
    labels[::2] = y
    labels[1::2] = -9 if y.dtype.kind == "i" else "test"
    x = np.arange(n, dtype=np.float32)[:, None]
    rows = np.arange(n)
    return Dataset(x, labels, rows[::2], rows[1::2], "stratified", "vectors", "some rows", None, {}, None, **more)


def numbers(rows):
    return rows[:, 0].astype(int)


def test_a_fifth_of_every_class_is_held_out():
    data = dataset(np.repeat([0, 1, 2, 3], [50, 20, 3, 1]))
    found = validation_split(data)
    train, test = numbers(found.x_train), numbers(found.x_test)
    assert sorted([*train, *test]) == data.train_index.tolist()  # no test row is among them
    assert np.bincount(found.y_test).tolist() == [10, 4, 1] and np.bincount(found.y_train).tolist() == [40, 16, 2, 1]
    assert (found.y_train == data.y[train]).all() and (found.y_test == data.y[test]).all()
    again, other = validation_split(data), validation_split(data, 1)
    assert (again.x == found.x).all() and numbers(other.x_test).tolist() != test.tolist()


def test_rows_without_a_label_are_train_rows():
    y = np.where(np.arange(60) % 3 == 0, "", np.repeat(["a", "b"], 30))
    found = validation_split(dataset(y, partly_labeled=True))
    assert len(found.x_test) == 8 and (found.y_test != "").all()
    assert len(found.x_train) == 52 and (found.y_train == "").sum() == 20


def test_minus_one_is_a_class_unless_labels_may_be_missing():
    y = np.repeat([-1, 1], 10)
    assert np.unique(validation_split(dataset(y)).y_test).tolist() == [-1, 1]
    assert "1 class" in refusal(validation_split, dataset(y, partly_labeled=True))


def test_few_labels_are_enough():
    found = validation_split(dataset([0, 0, 1, 1]))
    assert sorted(found.y_train) == sorted(found.y_test) == [0, 1]


def test_whole_groups_are_held_out_with_their_rows_without_labels():
    y = np.where(np.arange(60) % 6 == 0, "", np.where(np.arange(60) % 2, "a", "b"))
    groups = np.repeat([f"p{i}" for i in range(20)], 6)  # of all 120 rows, three train rows in each
    data = dataset(y, partly_labeled=True, groups=groups)
    found = validation_split(data, whole_groups=True)
    held, kept = set(found.groups_test), set(found.groups_train)
    assert not held & kept and held | kept == set(groups)
    assert (found.y_test != "").all() and len(found.y_test) >= 10
    assert len(found.y_train) == sum(group in kept for group in groups[data.train_index])


def test_names_groups_and_neighbors_stay_with_their_rows():
    data = dataset(np.arange(20) % 2)
    graph = scipy.sparse.coo_array(np.arange(1600.0).reshape(40, 40))
    names = [f"row {i}" for i in range(40)]
    data = dataclasses.replace(data, neighbors=graph, row_names=names, groups=np.array(names))
    found = validation_split(data)
    rows = numbers(found.x)
    assert found.row_names == [names[i] for i in rows] and found.groups.tolist() == found.row_names
    assert (found.neighbors.toarray() == graph.toarray()[rows][:, rows]).all()


@pytest.mark.parametrize(
    ("y", "more", "part"),
    [
        (None, {}, "no train row has a label"),
        (["", ""], {"partly_labeled": True}, "no train row has a label"),
        ([0, 1], {}, "2 labeled train rows, of which 0 would be validation rows and the others of 2 classes"),
        ([0, 0, 0], {}, "3 labeled train rows, of which 1 would be validation rows and the others of 1 class:"),
        ([0, 0, 1, 1], {"groups": np.array(list("aaaabbbb"))}, "the others of 1 class"),
    ],
)
def test_too_few_labels_are_refused(y, more, part):
    data = dataset([0, 1], **more) if y is None else dataset(y, **more)
    data = dataclasses.replace(data, y=None) if y is None else data
    with pytest.raises(InputError, match=part):
        validation_split(data, whole_groups="groups" in more)
