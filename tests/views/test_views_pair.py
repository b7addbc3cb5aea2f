"""Pairs of views: order of the makers, first and second views, ids; what symmetries among views make of samples."""

import pytest
import torch
from torch import nn

from drawn import draw
from refusals import refusal
from viewsmith.core import Batch
from viewsmith.core.errors import InputError
from viewsmith.frameworks import BYOL, MoCo, SimCLR, VICReg
from viewsmith.modalities.dna.views import DNAViews
from viewsmith.modalities.images.views import image_recipe
from viewsmith.modalities.vectors.views import Masking
from viewsmith.networks.base import MLP
from viewsmith.views import (
    Corruption,
    GaussianNoise,
    Identity,
    Mixup,
    NeighborMix,
    Neighbors,
    PairMaker,
    PiNoise,
    PositivePair,
    ViewMaker,
    nearest_neighbors,
)


class AppendDigit(ViewMaker):
    """Appends a digit to each value, and records the indices that it gets."""

    def __init__(self, digit, views_made=2):
        super().__init__()
        self.digit, self.views_made, self.indices = digit, views_made, []

    def prepare(self, pool):
        self.pool = pool

    def forward(self, x, *, index=None, generator=None):
        self.indices.append(None if index is None else index.tolist())
        return 10 * x + self.digit


X = torch.zeros(4, 1)
INDEX = torch.tensor([2, 0, 3, 1])


def test_makers_are_applied_in_order_to_both_views():
    pair = PairMaker([AppendDigit(1), AppendDigit(2), AppendDigit(3)])(X, index=INDEX, generator=draw())
    assert (pair.first == 123).all() and (pair.second == 123).all()
    assert pair.ids is not None and torch.equal(pair.ids[0], INDEX) and torch.equal(pair.ids[1], INDEX)


def test_makers_of_one_view_do_not_change_the_first():
    pair = PairMaker([AppendDigit(1), AppendDigit(2, views_made=1), AppendDigit(3)])(X, index=INDEX)
    assert (pair.first == 13).all() and (pair.second == 123).all()


class Returns(ViewMaker):
    """Returns what a function of the samples returns."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, *, index=None, generator=None):
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x.numpy(), "Returns returned ndarray, expected a torch.Tensor"),
        (lambda x: x[1:], r"shape \(3, 1\) from samples of shape \(4, 1\), expected one view of each sample"),
        (lambda x: x.add_(0), "changed the samples that it was given.*such as x \\+ noise"),
        (lambda x: x.repeat(1, 2), r"shape \(4, 2\) from samples of shape \(4, 1\), .* of the same shape"),
    ],
)
def test_what_is_no_view_of_each_sample_is_refused(function, expected):
    with pytest.raises(InputError, match=expected):
        PairMaker([Returns(function)])(X)


def test_views_of_another_dtype_are_refused():
    class Double(ViewMaker):
        def forward(self, x, *, index=None, generator=None):
            return x.double()

    assert "Double made views of torch.float64 from samples of torch.float32" in refusal(PairMaker([Double()]), X)


@pytest.mark.parametrize("framework", [SimCLR, BYOL, MoCo, VICReg])
def test_parts_of_a_pair_have_one_row_for_each_sample(framework):
    assert "second of a pair has 3 rows, first 4; expected one of each sample" in refusal(PositivePair, X, X[:3])
    assert "ids[1] of a pair has 3 rows, first 4" in refusal(PositivePair, X, X, (INDEX, INDEX[:3]))
    assert "ids[0] of a pair has 3 rows, first 4" in refusal(PairMaker([Identity()]), X, index=INDEX[:3])
    model = framework(nn.Identity(), MLP(1, (4,)), **({"predictor": MLP(4, (4,))} if framework is BYOL else {}))
    assert "called with a Tensor, expected PositivePair(first, second)" in refusal(model, X)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianNoise(1.0, distribution="foo"), "distribution is 'foo', expected gaussian or uniform"),
        (lambda: GaussianNoise(-1.0), "strength is -1.0, expected a number of at least 0"),
        (lambda: Corruption(2.0), "rate is 2.0, expected a number from 0 to 1"),
        (lambda: Mixup(3.0), "minimum is 3.0, expected a number from 0 to 1"),
        (lambda: Neighbors(k=0), "k is 0, expected at least 1 neighbor"),
        (lambda: NeighborMix(minimum=-0.1), "minimum is -0.1, expected a number from 0 to 1"),
        (lambda: Masking(1.5), "rate is 1.5, expected a number from 0 to 1"),
        (lambda: SimCLR(None, None, kernel="gauss"), "kernel is 'gauss', expected cosine or cauchy"),
        (lambda: SimCLR(None, None, negatives="Cross"), "negatives is 'Cross', expected all or cross"),
        (lambda: SimCLR(None, None, temperature=0), "temperature is 0, expected a number above 0"),
    ],
)
def test_invalid_settings_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_views_of_another_shape_are_taken_from_makers_that_change_it():
    pair = PairMaker([Returns(lambda x: x.repeat(1, 2))], changes_shape=True)(X)
    assert pair.first.shape == (4, 2)
    assert "expected one view of each sample" in refusal(PairMaker([Returns(lambda x: x[1:])], changes_shape=True), X)


def test_no_makers_give_the_sample_twice():
    pair = PairMaker([])(X, index=INDEX)
    assert torch.equal(pair.first, X) and torch.equal(pair.second, X)


def test_the_views_of_a_pair_are_drawn_independently():
    pair = PairMaker([GaussianNoise(1.0)])(X, index=INDEX, generator=draw())
    assert (pair.first != pair.second).all()


def pool_and_graph():
    pool = torch.tensor([[0.0], [1.0], [10.0], [11.0]])
    return pool, {0: 1, 1: 0, 2: 3, 3: 2}


def test_neighbors_change_the_ids_of_second_views():
    pool, partner = pool_and_graph()
    before, after = AppendDigit(1), AppendDigit(2)
    views = PairMaker([before, Neighbors(1), after])
    views.prepare(pool)
    pair = views(pool[INDEX], index=INDEX, generator=draw())
    neighbors = [partner[i] for i in INDEX.tolist()]
    assert pair.ids[0].tolist() == INDEX.tolist() and pair.ids[1].tolist() == neighbors
    # The neighbor replaces the second view, so only later makers have an effect on it.
    assert torch.equal(pair.second, 10 * pool[neighbors] + 2)
    assert torch.equal(pair.first, 100 * pool[INDEX] + 12)
    # Later makers get the row that each view shows.
    assert before.indices == [INDEX.tolist()] * 2 and after.indices == [INDEX.tolist(), neighbors]


def test_two_neighbor_makers_walk_two_edges():
    pool = torch.tensor([[0.0], [1.0], [1.9], [2.7]])
    partner = {0: 1, 1: 2, 2: 3, 3: 2}
    views = PairMaker([Neighbors(1), Neighbors(1)])
    views.prepare(pool)
    pair = views(pool, index=torch.arange(4), generator=draw())
    assert pair.ids[1].tolist() == [partner[partner[i]] for i in range(4)]
    assert torch.equal(pair.second, pool[pair.ids[1]]) and torch.equal(pair.first, pool)


def test_without_an_index_there_are_no_ids():
    pool, _ = pool_and_graph()
    views = PairMaker([Neighbors(1)])
    views.prepare(pool)
    pair = views(torch.tensor([[0.2], [10.6]]), generator=draw())
    assert pair.ids is None
    assert pair.second.tolist() == [[0.0], [11.0]]


def test_view_is_a_second_view():
    pool, _ = pool_and_graph()
    views = PairMaker([Neighbors(1), GaussianNoise(0.1)])
    views.prepare(pool)
    one = views.view(pool, index=torch.arange(4), generator=draw(5))
    assert torch.equal(one, views(pool, index=torch.arange(4), generator=draw(5)).second)


def test_prepare_reaches_every_maker_and_parameters_are_found():
    makers = [AppendDigit(1), Identity(), PiNoise.for_vectors(1, hidden=(2,)), AppendDigit(2)]
    views = PairMaker(makers)
    views.prepare(X)
    assert makers[0].pool is X and makers[3].pool is X
    assert len(list(views.parameters())) == 4


def test_neighbors_are_refreshed_in_the_encoders_space_after_each_quarter():
    x = torch.randn(30, 6, generator=torch.Generator().manual_seed(0))
    encoder = torch.nn.Linear(6, 2)
    framework = torch.nn.ModuleDict({"encoder": encoder})
    maker = Neighbors(3, refreshed=True)
    views = PairMaker([maker], refreshed=True)
    views.prepare(x)
    before, index = maker.edges.clone(), torch.arange(30)
    views(x, index=index, progress=0.24, framework=framework)
    assert torch.equal(maker.edges, before)
    with pytest.raises(RuntimeError, match="give framework="):
        views(x, index=index, progress=0.25)
    views(x, index=index, progress=0.25, framework=framework)
    expected = nearest_neighbors(encoder(x).detach(), 3)
    assert torch.equal(maker.edges, expected) and not torch.equal(before, expected)
    with torch.no_grad():
        encoder.weight.mul_(torch.tensor([[1.0, -3, 1, 2, 0.1, 1]]))
    views(x, index=index, progress=0.4, framework=framework)
    assert torch.equal(maker.edges, expected)
    assert {"quarter", "makers.0.edges", "makers.0.found"} == set(views.state_dict())
    views.for_batch(Batch(x, index, draw(), progress=0.75), framework)
    assert torch.equal(maker.edges, nearest_neighbors(encoder(x).detach(), 3)) and int(views.quarter) == 3
    assert not any(p is q for p in views.parameters() for q in encoder.parameters())
    views.release()
    assert set(views.state_dict()) == {"quarter"} and maker.pool is None


def test_mirror_images_where_views_are_mirrored():
    x = torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    for recipe in ("simclr", "byol"):
        both = image_recipe(recipe, size=8).symmetric_copies(x)
        assert len(both) == 2 and torch.equal(both[0], x) and torch.equal(both[1], x.flip(3))
    assert len(image_recipe("simclr", size=8, flip=0.0).symmetric_copies(x)) == 1
    assert len(GaussianNoise(0.5).symmetric_copies(x)) == 1


def test_the_other_strand_where_views_show_it():
    x = torch.eye(4)[torch.tensor([[0, 0, 1, 3]])].mT  # AACT, other strand AGTT
    both = DNAViews().symmetric_copies(x)
    assert torch.equal(both[0], x) and both[1].argmax(1).tolist() == [[0, 2, 3, 3]]
    assert len(DNAViews(strand=0.0).symmetric_copies(x)) == 1


def test_parts_of_images_are_crops_at_their_corners():
    x = torch.arange(100.0).view(1, 1, 10, 10).expand(2, 1, 10, 10).clone()
    parts = image_recipe("simclr", size=10, flip=0.0).parts(x)
    assert len(parts) == 4 and all(part.shape == x.shape for part in parts)
    corners = [float(part[0, 0].mean()) for part in parts]
    torch.testing.assert_close(corners, [x[0, 0, i : i + 8, j : j + 8].mean().item() for i in (0, 2) for j in (0, 2)])
    mirrored = image_recipe("byol", size=10).parts(x)
    assert [torch.equal(a, b.flip(3)) for a, b in zip(mirrored, parts, strict=True)] == [False, True, True, False]
    assert image_recipe("simclr", size=10, scale=(1.0, 1.0)).parts(x) == [] == GaussianNoise(0.5).parts(x)


def test_parts_count_as_much_as_images_go_on_beyond_their_edge():
    x = torch.randn(50, 1, 10, 10, generator=torch.Generator().manual_seed(0))
    views = image_recipe("simclr", size=10)
    assert views.share_of_parts(x) > 0.4
    empty = x.clone()
    empty[:, :, 0], empty[:, :, -1], empty[:, :, :, 0], empty[:, :, :, -1] = 0, 0, 0, 0
    assert views.share_of_parts(empty) == 0 == GaussianNoise(0.5).share_of_parts(x)
    assert views.share_of_parts(0 * x) == 0
