"""Missing labels, a feature that repeats labels, groups in files, and splits by groups."""

import numpy as np
import pandas as pd
import pytest

from refusals import refusal
from viewsmith.core.errors import InputError
from viewsmith.data import load_dataset
from viewsmith.data.dataset import split_groups
from viewsmith.data.labels import check_no_leak, few_label_codes, group_codes, missing_labels, partial_labels

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "y",
    [
        [2, -1, 7, -1, 2],
        [2.0, np.nan, 7.0, -1.0, 2.0],
        ["2", "", "7", "-1", "2"],
        ["2", None, "7", np.nan, "2"],
        [2, None, 7, float("nan"), 2],
        pd.array([2, pd.NA, 7, pd.NA, 2], dtype="Int64"),
        [True, None, False, None, True],
    ],
)
def test_what_is_missing(y):
    y = np.asarray(y, dtype=object) if isinstance(y, list) and None in y else np.asarray(y)
    assert missing_labels(y).tolist() == [False, True, False, True, False]
    codes = few_label_codes(y, 5)
    assert codes[1] == codes[3] == -1 and codes[0] == codes[4] and {codes[0], codes[2]} == {0, 1}
    partial = partial_labels(y, 5)
    assert missing_labels(partial).tolist() == [False, True, False, True, False]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "no labels were given"),
        ([-1] * 5, "all 5 labels are missing"),
        ([np.nan] * 5, "all 5 labels are missing"),
        (["", "a", "a", "", "a"], "all 3 labeled rows have the label a"),
        ([0, 1], r"y has shape \(2,\), expected one label"),
        ([0.5, 1.0, -1, -1, -1], "y contains 0.5, expected classes"),
    ],
)
def test_labels_that_cannot_be_used(y, message):
    with pytest.raises(InputError, match=message) as error:
        few_label_codes(y, 5)
    assert "\n" not in str(error.value)


def test_a_feature_that_repeats_the_labels():
    codes = np.array([0, 1, 2, -1] * 12)
    x = RNG.normal(size=(48, 3)).astype(np.float32)
    check_no_leak(x, codes, ["a", "b", "c"])
    x[:, 1] = codes * 7
    assert "the feature b repeats the labels" in refusal(check_no_leak, x, codes, ["a", "b", "c"])
    assert "feature 1 (counted from 0) repeats the labels" in refusal(check_no_leak, x, codes)
    x[0, 1] = 1.0  # one row of a class differs
    check_no_leak(x, codes)
    few = np.where(np.arange(48) < 12, codes, -1)  # with 9 labels it may be chance
    check_no_leak(np.repeat(few[:, None].astype(np.float32), 2, axis=1), few)


def test_features_that_repeat_the_labels_together():
    codes = np.arange(60) % 4
    x = RNG.normal(size=(60, 7)).astype(np.float32)
    x[:, 2:5] = np.eye(4)[codes][:, :3]  # the last class is where all are zero
    assert "the features c, d, e together repeat the labels" in refusal(check_no_leak, x, codes, list("abcdefg"))
    assert "the features 2, 3, 4 (counted from 0) together" in refusal(check_no_leak, x, codes)
    check_no_leak(np.delete(x, 3, axis=1), codes)  # classes 1 and 3 are alike
    few = np.where(np.arange(60) < 16, codes, -1)  # 4 rows of a class: may be chance
    check_no_leak(x, few)


def test_gaps_in_labels_of_a_table(tmp_path):
    frame = pd.DataFrame(RNG.normal(size=(60, 2)), columns=list("ab"))
    frame["type"] = np.arange(60) % 2
    frame.loc[::4, "type"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.warns(UserWarning, match="15 of 60 rows have no label"):
        dataset = load_dataset(tmp_path / "t.csv", label="type")
    assert dataset.partly_labeled and dataset.y.dtype == np.int64 and (dataset.y == -1).sum() == 15
    assert [label is None for label in dataset.fit_labels(False)].count(True) == (dataset.y_train == -1).sum()
    assert (load_dataset(tmp_path / "t.csv", schema=dataset.schema).y == dataset.y).all()
    frame.assign(type=frame["type"].replace(0, -1)).to_csv(tmp_path / "minus.csv", index=False)
    with pytest.raises(InputError, match=r"15 labels are missing .* 15 are -1, which also means no label"):
        load_dataset(tmp_path / "minus.csv", label="type")
    frame.assign(type=np.nan).to_csv(tmp_path / "none.csv", index=False)
    assert "all 60 labels are missing" in refusal(load_dataset, tmp_path / "none.csv", label="type")
    frame.assign(type=np.where(np.arange(60) % 2, -1, 1)).to_csv(tmp_path / "whole.csv", index=False)
    whole = load_dataset(tmp_path / "whole.csv", label="type")
    assert set(whole.y) == {-1, 1} and not whole.partly_labeled


@pytest.mark.parametrize("text", [False, True])
def test_gaps_in_labels_of_an_archive(tmp_path, text):
    y = np.array(["", "a", "b"])[np.arange(30) % 3] if text else np.where(np.arange(30) % 3, np.arange(30) % 3, np.nan)
    np.savez(tmp_path / "a.npz", X=RNG.normal(size=(30, 3)).astype(np.float32), y=y)
    with pytest.warns(UserWarning, match="10 of 30 rows have no label"):
        dataset = load_dataset(tmp_path / "a.npz")
    assert missing_labels(dataset.y).sum() == 10 and dataset.partly_labeled
    assert len(dataset.y_test) == 4 and not missing_labels(dataset.y_test).any()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["a"] * 4, r"groups has one group \(a\) in 4 rows"),
        (["a", "a", "b", "c"], "groups has 2 groups of one row: b, c"),
        (["a", "a", None, "b"], "groups has 1 missing value"),
        (["a", "b"], r"groups has shape \(2,\), expected one group per row"),
    ],
)
def test_groups_that_cannot_be_used(groups, message):
    with pytest.raises(InputError, match=message):
        group_codes(np.array(groups, dtype=object), 4)


def test_group_numbers():
    assert group_codes([5, -1, 5, -1], 4).tolist() == [1, 0, 1, 0]


def test_a_split_of_whole_groups():
    groups = np.repeat(list("abcdefgh"), [40, 10, 10, 10, 10, 10, 5, 5])
    train, test = split_groups(groups)
    assert sorted([*train, *test]) == list(range(100))
    assert not set(groups[train]) & set(groups[test]) and 20 <= len(test) < 60
    assert all((a == b).all() for a, b in zip(split_groups(groups), (train, test), strict=True))
    for seed in range(8):  # both parts have a group, whatever its size
        train, test = split_groups(np.repeat(["small", "large"], [1, 99]), seed)
        assert len(train) and sorted([*train, *test]) == list(range(100)) and len(test)
    _, test = split_groups(np.repeat(np.arange(20), 5))
    assert 20 <= len(test) <= 25
    assert "all rows have the group a" in refusal(split_groups, np.array(["a", "a"]))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    frame = pd.DataFrame(RNG.normal(size=(60, 3)), columns=list("abc"))
    frame["site"] = np.repeat(["n", "s", "w"], 20)
    frame["type"] = np.where(np.arange(60) % 3 == 0, np.where(np.arange(60) % 2, "x", "y"), None)
    path = tmp_path_factory.mktemp("groups") / "t.csv"
    frame.to_csv(path, index=False)
    return path


def test_a_table_with_groups_and_few_labels(table):
    dataset = load_dataset(table, label="type", groups="site", split_by_groups=True, few_labels=True)
    assert dataset.feature_names == ["a", "b", "c"] and dataset.split == "groups"
    assert set(dataset.groups_train) & set(dataset.groups_test) == set()
    assert (dataset.y == "").sum() == 40 and set(dataset.y) == {"", "x", "y"}
    again = load_dataset(table, schema=dataset.schema)
    assert (again.test_index == dataset.test_index).all() and (again.groups == dataset.groups).all()
    assert (again.y == dataset.y).all()


def test_a_table_without_the_groups_for_a_fitted_run(table, tmp_path):
    schema = load_dataset(table, label="type", groups="site", few_labels=True).schema
    pd.read_csv(table).drop(columns="site").to_csv(tmp_path / "new.csv", index=False)
    assert load_dataset(tmp_path / "new.csv", schema=schema).groups is None


def test_groups_of_an_archive(tmp_path):
    x, batch = RNG.normal(size=(30, 3)).astype(np.float32), np.arange(30) % 3
    np.savez(tmp_path / "a.npz", X=x, batch=batch, y=np.where(np.arange(30) % 2, -1, np.arange(30) % 4))
    dataset = load_dataset(tmp_path / "a.npz", groups="batch", label="y", few_labels=True, split_by_groups=True)
    assert set(dataset.groups) == {"0", "1", "2"} and dataset.split == "groups"
    assert (dataset.y == -1).sum() == 15
    given = {"X_train": x[:20], "X_test": x[20:], "b_train": batch[:20], "b_test": batch[20:]}
    np.savez(tmp_path / "g.npz", **given)
    assert load_dataset(tmp_path / "g.npz", groups="b").groups_test.tolist() == list(batch[20:].astype(str))
    assert "has its own split" in refusal(load_dataset, tmp_path / "g.npz", groups="b", split_by_groups=True)
    assert "has no c_train and no c_test, given as groups" in refusal(load_dataset, tmp_path / "g.npz", groups="c")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split_by_groups": True}, "no groups were given"),
        ({"groups": "sight"}, "no column sight|no column 'sight'"),
        ({"groups": "site", "label": "site"}, "both groups and another option"),
    ],
)
def test_bad_groups_of_a_table(table, options, message):
    with pytest.raises(InputError, match=message):
        load_dataset(table, drop=["type"], **options)


def test_sources_without_groups():
    assert "digits has no column 'site', given as groups" in refusal(load_dataset, "digits", groups="site")


def test_a_mixed_table_is_encoded_from_its_train_groups(tmp_path):
    frame = pd.DataFrame({"a": RNG.normal(size=90), "color": np.tile(["red", "blue", "green"], 30)})
    frame["type"] = np.where(np.arange(90) % 2, "x", None)
    frame.loc[::4, "type"] = "y"
    frame["site"] = np.repeat(["n", "s", "w"], 30)
    frame.to_csv(tmp_path / "m.csv", index=False)
    options = {"label": "type", "groups": "site", "few_labels": True}
    dataset = load_dataset(tmp_path / "m.csv", split_by_groups=True, **options)
    assert dataset.split == "groups" and not any("site" in name for name in dataset.feature_names)
    assert any("color" in name for name in dataset.feature_names) and (dataset.y == "").any()
    assert np.isfinite(load_dataset(tmp_path / "m.csv", **options).x).all()
