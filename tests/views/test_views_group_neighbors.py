"""Mutual nearest neighbors across groups against a loop, and the graph that mixes them with ordinary edges."""

import torch

from viewsmith.views.neighbors import aligned_graph, mutual_neighbors


def slow_mutual_neighbors(x, groups, k):
    def near(i, j):  # whether j is among the k nearest rows of its group to i
        group = [row for row in range(len(x)) if groups[row] == groups[j]]
        group.sort(key=lambda row: float((x[row] - x[i]).square().sum()))
        return j in group[:k]

    n = range(len(x))
    return [(i, j) for i in n for j in n if groups[i] != groups[j] and near(i, j) and near(j, i)]


def test_mutual_neighbors_equal_the_loop():
    generator = torch.Generator().manual_seed(0)
    groups = torch.tensor([0] * 6 + [1] * 5 + [4] * 4)[torch.randperm(15, generator=generator)]
    for dtype in (torch.float32, torch.float64):
        x = torch.randn(15, 3, generator=generator, dtype=dtype)
        for k in (1, 2, 9):  # 9: more than the rows of a group
            found = mutual_neighbors(x, groups, k)
            assert list(map(tuple, found.T.tolist())) == slow_mutual_neighbors(x, groups, k)


def test_no_pairs_within_one_group():
    assert mutual_neighbors(torch.randn(4, 2), torch.zeros(4, dtype=torch.int64)).shape == (2, 0)


def test_half_of_the_steps_go_to_mutual_neighbors():
    near = torch.tensor([[0, 0, 0, 1, 3], [1, 2, 3, 0, 0]])
    mutual = torch.tensor([[0, 0, 4], [4, 5, 0]])
    graph = aligned_graph(7, near, mutual)
    ends = [graph.ends[graph.offsets[row] : graph.offsets[row + 1]].tolist() for row in range(7)]
    counts = {end: ends[0].count(end) for end in (1, 2, 3, 4, 5)}
    assert sum(counts[end] for end in (4, 5)) == sum(counts[end] for end in (1, 2, 3))
    assert len({counts[end] for end in (1, 2, 3)}) == 1 == len({counts[end] for end in (4, 5)})
    assert set(ends[1]) == {0} and set(ends[3]) == {0} and set(ends[4]) == {0}
    assert ends[2] == ends[5] == ends[6] == []
