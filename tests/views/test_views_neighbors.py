"""Nearest neighbors against scikit-learn's, across groups against a loop, and graphs that are given."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from drawn import draw
from viewsmith.losses.nt_xent import squared_distances, unit
from viewsmith.networks.scaling import PrincipalAxes
from viewsmith.views import NeighborMix, Neighbors, nearest_neighbors, neighbors
from viewsmith.views.base import PrecomputedGraph
from viewsmith.views.neighbors import PrincipalSpace, aligned_graph, mutual_neighbors


@pytest.fixture(scope="module")
def points():
    return np.random.default_rng(0).normal(size=(150, 5))


def reference(points, k, metric, queries=None):
    model = NearestNeighbors(n_neighbors=k, metric=metric, algorithm="brute").fit(points)
    return model.kneighbors(queries, return_distance=False)


@pytest.mark.parametrize(
    ("block", "dtype"), [(1, torch.float32), (7, torch.float64), (150, torch.float64), (2048, torch.float32)]
)
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_neighbors_equal_those_of_scikit_learn(points, metric, block, dtype):
    x = torch.from_numpy(points).to(dtype)
    found = nearest_neighbors(x, 6, metric=metric, block=block)
    assert found.dtype == torch.int64
    np.testing.assert_array_equal(found, reference(points, 6, metric))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("equal", [False, True])
def test_a_search_in_groups_equals_topk(equal, metric, dtype):
    draw = torch.Generator().manual_seed(0)
    n = neighbors.GROUPED_FROM + 5  # the last columns are in no group
    x = torch.randn(n, 3, dtype=dtype, generator=draw)
    x = x.round() if equal else x
    queries = x[torch.arange(0, n, 40)] + (0 if equal else 0.01)
    distances = -(unit(queries) @ unit(x).T) if metric == "cosine" else squared_distances(queries, x)
    expected = distances.topk(6, dim=1, largest=False).indices  # rows at equal distances are in the order of topk
    assert torch.equal(nearest_neighbors(x, 6, queries=queries, metric=metric), expected)


@pytest.mark.parametrize("offset", [[3000.0] * 5, [1e4, 0, 0, 0, 0], [0, -1e5, 0, 1e5, 0]])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_neighbors_of_rows_far_from_zero(points, metric, offset):
    x = torch.from_numpy(points + np.array(offset)).float()  # resolves the differences, unlike products of such rows
    found = nearest_neighbors(x, 6, metric=metric)
    distance = torch.cdist if metric == "euclidean" else (lambda a, b: 1 - unit(a) @ unit(b).T)
    expected = distance(x.double(), x.double()).fill_diagonal_(torch.inf).sort(1).values[:, :6]
    reached = distance(x.double(), x.double()).gather(1, found)
    torch.testing.assert_close(reached, expected, rtol=1e-3, atol=1e-13)
    queries = nearest_neighbors(x, 6, queries=x[:40], metric=metric)
    assert torch.equal(queries[:, 0], torch.arange(40)) and torch.equal(queries[:, 1:], found[:40, :5])


def test_blocks_are_smaller_for_many_rows(points, monkeypatch):
    monkeypatch.setattr(neighbors, "LARGEST_BLOCK", 400)
    found = nearest_neighbors(torch.from_numpy(points), 3)
    np.testing.assert_array_equal(found, reference(points, 3, "euclidean"))
    monkeypatch.setattr(neighbors, "LARGEST_BLOCK", 1)
    np.testing.assert_array_equal(nearest_neighbors(torch.from_numpy(points), 3), found)


@pytest.mark.parametrize("block", [4, 2048])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_queries_are_compared_with_all_rows(points, metric, block):
    x = torch.from_numpy(points)
    queries = points[:11] + 1e-3
    found = nearest_neighbors(x, 4, queries=torch.from_numpy(queries), metric=metric, block=block)
    np.testing.assert_array_equal(found, reference(points, 4, metric, queries))
    assert found[:, 0].tolist() == list(range(11))


def test_too_large_numbers_of_neighbors_are_reduced(points):
    x = torch.from_numpy(points[:5])
    found = nearest_neighbors(x, 10)
    assert found.shape == (5, 4)
    assert [sorted(row) for row in found.tolist()] == [[j for j in range(5) if j != i] for i in range(5)]
    assert nearest_neighbors(x, 10, queries=x).shape == (5, 5)


def test_neighbors_have_no_gradient(points):
    x = torch.from_numpy(points[:10]).requires_grad_()
    assert not nearest_neighbors(x, 2).requires_grad


def test_a_row_of_zeros_has_cosine_zero():
    rows = torch.tensor([[1.0, 3.0], [0.0, 0.0], [-1.0, 0.0]])
    found = nearest_neighbors(rows, 3, queries=torch.tensor([[1.0, 0.0]]), metric="cosine")
    assert found.tolist() == [[0, 1, 2]]


def test_a_principal_space_has_the_axes_of_the_features():
    x = torch.randn(40, 2, 3, 3, generator=torch.Generator().manual_seed(0)) * torch.arange(1.0, 4)
    space = PrincipalSpace(lambda rows: rows.flatten(1), components=5)
    coordinates = space.fit(x)
    assert coordinates.shape == (40, 5) and torch.equal(space(x), coordinates)
    axes = PrincipalAxes(18, 5)
    axes.fit(x.flatten(1))
    torch.testing.assert_close(coordinates, axes(x.flatten(1)))


def test_the_number_of_axes_is_reduced():
    assert PrincipalSpace(lambda rows: rows, components=50).fit(torch.randn(6, 4)).shape == (6, 4)


@pytest.mark.parametrize("shape", [(1, 4, 4), (4, 12)])
def test_neighbors_of_new_images_and_sequences_are_searched_in_all_their_values(shape):
    pool = torch.from_numpy(np.random.default_rng(0).normal(size=(20, *shape)))
    maker = Neighbors(k=1)
    maker.prepare(pool)
    np.testing.assert_array_equal(maker(pool + 1e-3), pool)


GRAPH = PrecomputedGraph(torch.tensor([0, 3, 3, 4, 6]), torch.tensor([1, 2, 3, 0, 1, 2]))  # row 1 has no neighbors
POOL = torch.arange(8.0).reshape(4, 2)


def test_the_neighbors_of_a_row_are_equally_likely():
    drawn = GRAPH.random_neighbors(torch.arange(4).repeat_interleave(3000), draw()).view(4, 3000)
    counts = torch.stack([torch.bincount(row, minlength=4) for row in drawn]) / 3000
    expected = torch.tensor([[0, 1 / 3, 1 / 3, 1 / 3], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0.5, 0.5, 0]])
    torch.testing.assert_close(counts, expected, atol=0.04, rtol=0)
    assert len(GRAPH) == 4 and GRAPH.degrees.tolist() == [3, 0, 1, 2]


def test_the_graph_is_used_until_release():
    maker = Neighbors(1, graph=GRAPH)
    maker.prepare(POOL)
    assert maker.describe() == {"neighbor_graph": {"search": "precomputed", "edges": 6, "isolated_rows": 1}}
    index = torch.tensor([2, 1, 3, 0])
    ends = GRAPH.random_neighbors(index, draw())
    assert torch.equal(maker(POOL[index], index=index, generator=draw()), POOL[ends])
    # For rows that are not in the graph, the nearest rows are searched.
    assert torch.equal(maker(POOL[:1] + 0.1, generator=draw()), POOL[:1])
    maker.release()
    maker.prepare(POOL)
    assert maker.edges[[0, 3]].tolist() == [[1], [2]]
    assert maker.describe()["neighbor_graph"]["search"] == "exact"


def test_a_row_without_neighbors_is_mixed_with_itself():
    maker = NeighborMix(1, graph=GRAPH)
    maker.prepare(POOL)
    torch.testing.assert_close(maker(POOL[1:2], index=torch.tensor([1]), generator=draw()), POOL[1:2])


def test_a_graph_with_another_number_of_rows_is_refused():
    with pytest.raises(ValueError, match="has 4 rows, expected 3, as in the pool"):
        Neighbors(1, graph=GRAPH).prepare(POOL[:3])


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
