"""Views chosen by quality and novelty, against a slow loop; outliers are never chosen."""

import pytest
import torch
from torch import nn

from viewsmith.core.samples import Samples
from viewsmith.methods.genview.parts import ViewQuality
from viewsmith.views.generated.diffusion_views import ViewCache, choose_among, choose_views


def slow_choice(agreement, similarity, rejected, k):
    """The choice for one sample: repeatedly the best of the remaining candidates."""
    left = [c for c in range(len(agreement)) if not rejected[c]]
    chosen = []
    while left and len(chosen) < k:
        scores = [
            float(agreement[c] - max(similarity[c + 1][s] for s in [0, *(one + 1 for one in chosen)])) for c in left
        ]
        chosen.append(left.pop(scores.index(max(scores))))
    return [chosen[number % len(chosen)] for number in range(k)] if chosen else [-1] * k


@pytest.mark.parametrize("k", [1, 2, 5, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_choice_equals_a_slow_loop(k, dtype):
    generator = torch.Generator().manual_seed(k)
    agreement = torch.rand(40, 6, generator=generator, dtype=dtype)
    inputs = nn.functional.normalize(torch.randn(40, 7, 4, generator=generator, dtype=dtype), dim=2)
    rejected = torch.rand(40, 6, generator=generator) < 0.5
    rejected[0], rejected[1] = True, False
    found = choose_views(agreement, inputs @ inputs.mT, rejected, k)
    assert found.tolist() == [
        slow_choice(*each, k) for each in zip(agreement, inputs @ inputs.mT, rejected, strict=True)
    ]
    assert found[0].tolist() == [-1] * k and (found[1] >= 0).all()


def test_the_choice_among_views_is_the_loop():
    """Agreement in representation, looks in input space, and outliers by the neighborhoods of the representations."""
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(8, 3))
    rows = torch.randn(30, 2, 4)
    index = torch.tensor([3, 17, 29, 0])
    views = [rows[index] + strength * torch.randn(4, 2, 4) for strength in (0.1, 0.5, 0.5, 3.0, 6.0)]
    with torch.no_grad():
        pool = encoder(rows)
        y = [encoder(view) for view in views]
    found = choose_among(rows[index], views, index, pool, encoder, 2)
    kept = 0
    for position, row in enumerate(index.tolist()):
        nearby = torch.cdist(pool[row][None], pool)[0].argsort()[:11].tolist()
        near = [int(torch.cdist(each[position][None], pool)[0].argmin()) in nearby for each in y]
        cosine = nn.functional.cosine_similarity
        agreement = [cosine(each[position], pool[row], dim=0) for each in y]
        images = [rows[row].flatten(), *(view[position].flatten() for view in views)]
        looks = [[cosine(a, b, dim=0) for b in images] for a in images]
        assert found[position].tolist() == slow_choice(agreement, looks, [not each for each in near], 2)
        kept += sum(near)
    assert 0 < kept < 20


@pytest.mark.parametrize("stored", [False, True])
def test_selected_views_are_in_the_given_order(stored):
    raw = torch.arange(4 * 3, dtype=torch.uint8).view(4, 3)
    scale = nn.Identity()
    scale.inverse = lambda x: x
    rows = Samples(raw, scale) if stored else raw.float()
    cache = ViewCache(rows, lambda x, index, rng: x + 100 * torch.randint(1, 2, (1,)).to(x), n_views=1, seed=0)
    cache.views = [Samples(raw + 50, scale), Samples(raw + 100, scale)] if stored else [rows + 50, rows + 100]
    cache.select(torch.tensor([[0, 1], [1, -1], [-1, -1], [1, 1]]), rows)
    first, second = (view[:].float() - raw for view in cache.views)
    assert first[:, 0].tolist() == [50, 100, 0, 100] and second[:, 0].tolist() == [100, 0, 0, 100]
    assert cache.n_views == 2 and cache.take(torch.tensor([1]), torch.tensor([0])).tolist() == [(raw[1] + 100).tolist()]


@pytest.mark.parametrize("shape", [(5,), (4, 7)])
def test_quality_that_rewards_diversity(shape):
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.LazyLinear(3))
    first, second = torch.randn(2, 6, *shape)
    encoder(first)
    plain, diverse = (ViewQuality(encoder, first[:1], diversity=each) for each in (False, True))
    h, other = encoder(first), encoder(second)
    agreement = nn.functional.cosine_similarity(h, other)
    torch.testing.assert_close(plain(first, second), agreement)
    similarity = nn.functional.cosine_similarity(first.flatten(1), second.flatten(1))
    torch.testing.assert_close(diverse(first, second), agreement - similarity)
    # A copy of the sample is not the best view.
    torch.testing.assert_close(diverse(first, first), torch.zeros(6), atol=1e-6, rtol=0)
