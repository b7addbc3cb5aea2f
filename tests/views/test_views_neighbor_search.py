"""Approximate neighbors: inverted lists against exact search, and the search that measures its recall."""

import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest
import torch

from viewsmith.views import Neighbors, NeighborSearch, inverted_lists, nearest_neighbors, neighbors
from viewsmith.views.inverted_lists import InvertedLists, k_means, nearest_center
from viewsmith.views.neighbors import EXACT

METRICS = ("euclidean", "cosine")


def draw(n, d=6, clusters=8, seed=0, dtype=torch.float64):
    """Rows in clusters."""
    generator = torch.Generator().manual_seed(seed)
    centers = 4 * torch.randn(clusters, d, generator=generator, dtype=dtype)
    of = torch.randint(clusters, (n,), generator=generator)
    return centers[of] + torch.randn(n, d, generator=generator, dtype=dtype)


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(inverted_lists, "TILE", 1000)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("metric", METRICS)
def test_a_search_in_all_lists_is_exact(metric, dtype, small_tiles):
    x = draw(300, dtype=dtype)
    lists = InvertedLists(x, 12, metric=metric)
    exact = nearest_neighbors(x, 4, metric=metric)
    assert torch.equal(lists.graph(4, len(lists)), exact)
    index = torch.tensor([7, 299, 0])
    assert torch.equal(lists.of_rows(index, 4, len(lists)), exact[index])
    queries = draw(31, seed=1, dtype=dtype)
    expected = nearest_neighbors(x, 4, queries=queries, metric=metric)
    assert torch.equal(lists.of_queries(queries, 4, len(lists)), expected)


@pytest.mark.parametrize("metric", METRICS)
def test_a_search_in_some_lists_finds_the_nearest_rows_in_them(metric):
    x = draw(200)
    lists = InvertedLists(x, 10, metric=metric)
    probes, k = 3, 5
    compared = x / x.norm(dim=1, keepdim=True) if metric == "cosine" else x - x.mean(0)
    number = torch.empty(len(x), dtype=torch.int64)  # list of each row
    for i, (first, last) in enumerate(zip(lists._starts[:-1], lists._starts[1:], strict=True)):
        number[lists.order[first:last]] = i
    found = lists.graph(k, probes)
    for row in range(len(x)):
        nearest = (compared[row] - lists._centers).norm(dim=1).argsort()[:probes]
        members = [j for j in range(len(x)) if j != row and number[j] in nearest]
        members.sort(key=lambda j: float((compared[row] - compared[j]).norm()))
        assert found[row].tolist() == members[:k]


def test_the_result_does_not_depend_on_the_block_size(monkeypatch):
    x = draw(300)
    whole = InvertedLists(x, 12).graph(4, 3)
    monkeypatch.setattr(inverted_lists, "TILE", 64)
    assert torch.equal(InvertedLists(x, 12).graph(4, 3), whole)


def test_more_lists_are_visited_if_they_have_fewer_than_k_rows():
    x = torch.cat([draw(60, clusters=1), 100 + draw(2, clusters=1)])
    lists = InvertedLists(x, 8)
    found = lists.graph(5, 1)
    assert torch.equal(found[-2:], nearest_neighbors(x, 5)[-2:])
    assert all(len({row, *found[row].tolist()}) == 6 for row in range(len(x)))


def test_list_sizes_are_limited_even_for_equal_rows():
    x = torch.cat([torch.zeros(500, 3), torch.randn(100, 3, generator=torch.Generator().manual_seed(0))])
    for rows in (x, x[:500]):
        lists = InvertedLists(rows, 20)
        sizes = torch.tensor(lists._starts).diff()
        assert sizes.max() <= inverted_lists.LARGEST * len(rows) / 20 and sizes.min() > 0
        assert sorted(lists.order.tolist()) == list(range(len(rows)))
    assert all(len({row, *near}) == 4 for row, near in enumerate(lists.graph(3, 2).tolist()))


def test_k_means_is_lloyds_algorithm():
    x, generator = draw(90, 3), torch.Generator()
    found = k_means(x, 5, generator.manual_seed(3))
    sample = x[torch.randperm(90, generator=generator.manual_seed(3))]
    centers = sample[:5].clone()
    for _ in range(inverted_lists.ITERATIONS):
        nearest = torch.stack([(row - centers).norm(dim=1).argmin() for row in sample])
        centers = torch.stack([sample[nearest == i].mean(0) for i in range(5)])
    torch.testing.assert_close(found, centers)
    assert nearest_center(x, found).tolist() == [int((row - centers).norm(dim=1).argmin()) for row in x]


# ---- exact or approximate search --------------------------------------------------------------------------------


def test_few_rows_are_searched_exactly():
    x = draw(100)
    search = NeighborSearch(x, 3)
    assert search.summary == EXACT
    assert torch.equal(search.graph(), nearest_neighbors(x, 3))
    assert torch.equal(search.nearest(x[:4] + 1e-3), nearest_neighbors(x, 3, queries=x[:4] + 1e-3))
    assert NeighborSearch(x[:4], 10).graph().shape == (4, 3)


@pytest.mark.parametrize("metric", METRICS)
def test_many_rows_are_searched_in_lists_with_the_reported_recall(metric):
    x = draw(3000, 4, clusters=40)
    search = NeighborSearch(x, 2, metric=metric, exact_up_to=1000)
    summary, graph = search.summary, search.graph()
    assert summary.search == "inverted lists" and 2 * summary.probes < summary.lists
    exact = nearest_neighbors(x, 2, metric=metric)
    recall = np.mean([len({*a} & {*b}) / 2 for a, b in zip(graph.tolist(), exact.tolist(), strict=True)])
    assert summary.recall >= 0.95 and recall == pytest.approx(summary.recall, abs=0.01)
    queries = draw(50, 4, clusters=40) + 0.01
    hits = search.nearest(queries) == nearest_neighbors(x, 2, queries=queries, metric=metric)
    assert hits.double().mean() > 0.9


def test_more_lists_are_visited_until_the_recall_is_reached():
    x = draw(6000, 8, clusters=1, dtype=torch.float32)
    low, high = (NeighborSearch(x, 1, exact_up_to=0, recall=recall).summary for recall in (0.5, 0.99))
    assert low.probes < high.probes and high.recall >= 0.99 > low.recall
    assert NeighborSearch(x, 1, exact_up_to=0, recall=1.1).summary == EXACT


def test_a_search_of_very_many_rows_is_bounded_and_says_so(monkeypatch, capsys):
    x = torch.randn(4000, 16, generator=torch.Generator().manual_seed(0))
    whole = NeighborSearch(x, 1, exact_up_to=0, recall=0.8).summary
    assert whole.recall >= 0.8 and not capsys.readouterr().err
    monkeypatch.setattr(neighbors, "MOST_PRODUCTS", x.numel() * len(x) / 20)
    search = NeighborSearch(x, 1, exact_up_to=0, recall=0.8)
    assert search.summary.recall < 0.8 and search.summary.probes == search.summary.lists // 20 < whole.probes
    assert "the neighbor graph of 4,000 rows has a recall of" in capsys.readouterr().err
    assert abs((search.graph() == nearest_neighbors(x, 1)).float().mean() - search.summary.recall) < 0.1
    monkeypatch.setattr(neighbors, "MOST_PRODUCTS", 1)
    assert NeighborSearch(x, 1, exact_up_to=0).summary.probes == 1


def test_one_seed_gives_one_graph():
    x = draw(4000, 8, clusters=1, dtype=torch.float32)
    graphs = [NeighborSearch(x, 1, exact_up_to=0, seed=seed).graph() for seed in (0, 0, 1)]
    assert torch.equal(graphs[0], graphs[1]) and not torch.equal(graphs[0], graphs[2])


@pytest.mark.parametrize("metric", METRICS)
def test_equal_rows_and_rows_of_zeros_are_neighbors(metric):
    distinct = draw(30, 5, clusters=30, dtype=torch.float32)
    of = torch.randint(30, (3000,), generator=torch.Generator().manual_seed(0))
    x = distinct[of].where(of[:, None] > 9, torch.zeros(()))  # a third is zero
    search = NeighborSearch(x, 2, metric=metric, exact_up_to=0)
    assert search.summary.recall == 1
    graph = search.graph()
    assert not (graph == torch.arange(3000)[:, None]).any() and (graph[:, 0] != graph[:, 1]).all()
    equal = of > 9 if metric == "cosine" else of >= 0  # a row of zeros has the cosine 0 with every row
    assert torch.equal(x[graph[equal]], x[equal][:, None].expand(-1, 2, -1))


def test_a_graph_far_from_the_origin_is_precise():
    x = draw(3000, 4, clusters=40)
    near, far = NeighborSearch(x, 2, exact_up_to=0), NeighborSearch(x.float() + 1000, 2, exact_up_to=0)
    assert (near.graph() == far.graph()).double().mean() > 0.95


# ---- the view makers --------------------------------------------------------------------------------------------


@pytest.fixture
def many(monkeypatch):
    """Use the approximate search from 1,000 rows on, so that tests are fast."""
    monkeypatch.setattr(neighbors, "EXACT_UP_TO", 1000)


def test_neighbors_of_many_rows_are_searched_in_lists_and_reported(many):
    x = draw(3000, 4, clusters=40)
    maker = Neighbors(2)
    assert maker.describe() == {}
    maker.prepare(x)
    search = NeighborSearch(x, 2)
    assert search.summary.search == "inverted lists" and torch.equal(maker.edges, search.graph())
    assert maker.describe() == {"neighbor_graph": {"neighbors": 2, **asdict(search.summary)}}
    index, generator = torch.arange(50), torch.Generator()
    view = maker(x[:50], index=index, generator=generator.manual_seed(0))
    ends = maker.edges[:50].gather(1, torch.randint(2, (50, 1), generator=generator.manual_seed(0)))[:, 0]
    assert torch.equal(view, x[ends])
    others = x[:20] + 0.01
    near = search.nearest(others).gather(1, torch.randint(2, (20, 1), generator=generator.manual_seed(1)))[:, 0]
    for _ in range(2):
        assert torch.equal(maker(others, generator=generator.manual_seed(1)), x[near])
    maker.release()
    assert maker.describe() == {}


def test_the_report_of_a_refreshed_graph_is_saved(many):
    x = draw(3000, 4, clusters=40)
    makers = [Neighbors(2, refreshed=True) for _ in range(2)]
    for maker in makers:
        maker.prepare(x)
    makers[0].refresh(lambda pool: torch.randn(3000, 30, generator=torch.Generator().manual_seed(0)))
    expected = makers[0].describe()
    assert expected["neighbor_graph"]["search"] == "exact" and makers[1].describe() != expected
    makers[1].load_state_dict(makers[0].state_dict())
    assert makers[1].describe() == expected and torch.equal(makers[0].edges, makers[1].edges)


def test_neighbors_are_searched_in_full_precision_under_autocast(many):
    x = draw(3000, 4, clusters=40, dtype=torch.float32)
    maker, other = Neighbors(2, refreshed=True), Neighbors(2)
    maker.prepare(x)
    with torch.autocast("cpu", torch.bfloat16):
        maker.refresh(lambda pool: 2 * pool)
    other.prepare(2 * x)
    assert torch.equal(maker.edges, other.edges) and maker.describe() == other.describe()


# Once an array of 16 MB was freed, as after reading rows on disk, glibc takes smaller ones from the heap.
GROWTH = """
import numpy as np, torch
from viewsmith.core.rows import resident_bytes
from viewsmith.views.inverted_lists import nearest_center
torch.set_num_threads(1)
for _ in range(3):
    read = np.ones(4_000_000, np.float32)
    del read
rows = torch.rand(100_000, 8)
centers = rows[:2000].clone()
before = resident_bytes()
nearest_center(rows, centers)
print((resident_bytes() - before) / 1e6)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of the process from /proc")
@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows_that_are_assigned_to_lists():
    done = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, timeout=120)
    assert float(done.stdout) < 50, done.stderr  # the distances of all rows have 800 MB
