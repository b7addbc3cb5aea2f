"""Precomputed neighbor graphs in view makers."""

import pytest
import torch

from drawn import draw
from viewsmith.views import NeighborMix, Neighbors
from viewsmith.views.base import PrecomputedGraph

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
