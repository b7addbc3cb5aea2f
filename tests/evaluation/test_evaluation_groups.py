"""Scores of groups against loops, and few labels that are drawn from all groups."""

import numpy as np

from viewsmith.evaluation.neighbors import GROUP_SCORES, K, biology_kept, group_mixing, group_scores
from viewsmith.evaluation.protocol import few_label_rows

RNG = np.random.default_rng(0)


def cosines(rows):
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit @ unit.T


def test_mixing_equals_the_loop():
    near = RNG.integers(0, 12, (12, 4))
    groups = np.array([0] * 6 + [1] * 4 + [2] * 2)
    found = [np.mean([groups[j] != groups[i] for j in near[i]]) for i in range(12)]
    chance = [np.mean([groups[j] != groups[i] for j in range(12) if j != i]) for i in range(12)]
    np.testing.assert_allclose(group_mixing(near, groups), np.mean(found) / np.mean(chance), rtol=1e-12)


def test_biology_kept_equals_the_loop():
    rows, k = RNG.normal(size=(14, 3)).astype(np.float32), 3
    classes, groups = RNG.integers(0, 3, 14), np.array([0, 1] * 7)
    similarity, right = cosines(rows), []
    for i in range(14):
        others = [j for j in np.argsort(-similarity[i]) if groups[j] != groups[i]][:k]
        right.append(np.bincount(classes[others], minlength=3).argmax() == classes[i])
    assert biology_kept(rows, classes, groups, k) == np.mean(right)


def test_scores_of_separated_and_of_mixed_groups():
    classes, groups = np.repeat([0, 1], 60), np.tile(["a", "b"], 60)
    by_class = np.eye(2)[classes] * 20 + RNG.normal(size=(120, 2))
    by_group = np.eye(2)[(groups == "a").astype(int)] * 20 + RNG.normal(size=(120, 2))
    mixed, apart = (group_scores(rows, groups, classes) for rows in (by_class, by_group))
    assert set(mixed) == set(GROUP_SCORES)
    assert mixed["biology_kept"] == 1 and 0.8 < mixed["group_mixing"] < 1.2
    assert apart["biology_kept"] < 0.8 and apart["group_mixing"] == 0
    alone = group_scores(by_class, np.zeros(120), classes)
    assert np.isnan(list(alone.values())).all()


def test_equal_rows_do_not_count_themselves():
    rows = np.ones((40, 2))
    scores = group_scores(rows, np.arange(40) % 2, np.arange(40) % 4)
    assert 0 <= scores["group_mixing"] <= 2


def test_a_row_is_no_neighbor_of_itself():
    rows, groups = RNG.normal(size=(50, 4)).astype(np.float32), np.arange(50) % 2
    similarity = cosines(rows)
    np.fill_diagonal(similarity, -np.inf)
    near = np.argsort(-similarity, axis=1)[:, :K]
    expected = np.mean(groups[near] != groups[:, None]) / (25 / 49)
    np.testing.assert_allclose(group_scores(rows, groups, groups)["group_mixing"], expected, rtol=1e-6)


def test_few_labels_come_from_all_groups_in_turn():
    codes, groups = np.repeat([0, 1], 40), np.tile(["a"] * 30 + ["b"] * 8 + ["c"] * 2, 2)
    rows = few_label_rows(codes, 0.15, 0, groups)
    for code in (0, 1):
        drawn = groups[rows[codes[rows] == code]]
        assert sorted(drawn) == ["a", "a", "b", "b", "c", "c"]
    assert (few_label_rows(codes, 0.15, 0) != rows).any()
