"""The quality of pairs as a frozen copy of an encoder sees it."""

import copy

import torch
from torch import nn

from viewsmith.losses.quality import attention_pools, foreground_map, pair_quality
from viewsmith.networks.cnn import SmallCNN
from viewsmith.networks.feature_maps import FeatureMap
from viewsmith.networks.mlp import MLP
from viewsmith.views.adaptive import find_foreground
from viewsmith.views.quality import ViewQuality


def images(n=12, seed=0):
    return torch.randn(n, 3, 16, 16, generator=torch.Generator().manual_seed(seed))


def seen(x, encoder):
    """A `ViewQuality` that has followed a trained-looking encoder."""
    quality = ViewQuality(encoder, x)
    encoder.train()(images(8, seed=5) if x.ndim == 4 else x)
    quality.follow(encoder, x)
    return quality


def test_images_by_the_equations():
    torch.manual_seed(0)
    encoder, x = SmallCNN(), images()
    quality = seen(x, encoder)
    frozen = copy.deepcopy(encoder).eval()
    maps = FeatureMap(frozen, x)
    axis = find_foreground(lambda: [maps(x)]).axis.float()
    torch.testing.assert_close(quality.axis, axis)
    first, second = images(5, 1), images(5, 2)
    pools = []
    for view in (first, second):
        features = maps(view).flatten(1, 2)
        pools.append(attention_pools(features, foreground_map(features, axis)))
    q = quality(first, second)
    assert q.shape == (5,) and not q.requires_grad
    torch.testing.assert_close(q, pair_quality(*pools))
    # A pair of equal views agrees before the same background.
    torch.testing.assert_close(quality(first, first), torch.zeros(5), atol=1e-5, rtol=0)


def test_vectors_by_the_cosine_of_representations():
    torch.manual_seed(0)
    x = torch.randn(20, 4)
    encoder = MLP(4, [8, 6], norm="batch", last="activated")
    quality = seen(x, encoder)
    h, other = (encoder.eval()(view).detach() for view in (x, x.flip(0)))
    torch.testing.assert_close(quality(x, x.flip(0)), nn.functional.cosine_similarity(h, other))
    torch.testing.assert_close(quality(x, x), torch.ones(20))


def test_the_copy_stays_as_it_is():
    encoder, x = SmallCNN(), images()
    quality = seen(x, encoder).train()
    before = quality(x, x.flip(0))
    encoder.train()(images(30))
    with torch.no_grad():
        for weights in encoder.parameters():
            weights.add_(1)
    assert torch.equal(quality(x, x.flip(0)), before)
    assert not any(weights.requires_grad for weights in quality.parameters())


def test_a_state_dict_brings_it_back():
    encoder, x = SmallCNN(), images()
    quality, other = seen(x, encoder), ViewQuality(SmallCNN(), images(1))
    assert quality.ready and not other.ready
    other.load_state_dict(quality.state_dict())
    assert other.ready and torch.equal(other(x, x.flip(0)), quality(x, x.flip(0)))
    assert torch.equal(copy.deepcopy(other)(x, x.flip(0)), quality(x, x.flip(0)))
