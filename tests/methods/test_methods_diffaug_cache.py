"""The cache of generated views in memory."""

import torch
from diffaug_cases import X

from viewsmith.core.samples import Samples
from viewsmith.modalities.images.pixels import PixelLatents
from viewsmith.networks import Pixels
from viewsmith.views.generated.diffusion_views import ViewCache


def test_a_cache_of_images_stores_bytes():
    raw = torch.randint(0, 256, (10, 8, 8, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    pixels = Pixels((8, 8, 3))
    pixels.fit(raw, "auto")
    rows = Samples(raw, pixels)
    codes = PixelLatents(3, pixels.center.tolist(), pixels.scale.tolist())

    def darker(x, index, generator):
        return codes.decode(codes.encode(x) * 0.5 - 0.5, x)

    cache = ViewCache(rows, darker, n_views=2, seed=0, block=4)
    assert all(isinstance(views, Samples) and views.rows.dtype == torch.uint8 for views in cache.views)
    index = torch.tensor([3, 9, 0])
    taken = cache.take(index, torch.tensor([0, 1, 1]))
    torch.testing.assert_close(pixels.inverse(taken).float(), raw[index].float() / 2, rtol=0, atol=1)


def test_a_cache_returns_the_view_of_a_row_and_number():
    def labeled(x, index, generator):
        return x * 0 + index[:, None] + torch.rand(1, generator=generator)

    cache = ViewCache(X, labeled, n_views=3, seed=0, block=7)
    index = torch.tensor([5, 5, 59, 0])
    taken = cache.take(index, torch.tensor([0, 2, 1, 2]))
    assert torch.equal(taken.floor().long()[:, 0], index)
    assert not torch.equal(taken[0], taken[1])
    again = ViewCache(X, labeled, n_views=3, seed=0, block=7).take(index, torch.tensor([0, 2, 1, 2]))
    other = ViewCache(X, labeled, n_views=3, seed=1, block=7).take(index, torch.tensor([0, 2, 1, 2]))
    assert torch.equal(taken, again) and not torch.equal(taken, other)
