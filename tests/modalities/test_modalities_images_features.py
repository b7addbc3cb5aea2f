"""Features of images: dictionaries of several sizes of patches, statistics of channels and small pixels."""

import types

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from viewsmith.core.errors import InputError
from viewsmith.modalities.images.features import ImagePatches, as_pixels, channel_statistics, shrinks_by, unit_of
from viewsmith.modalities.images.modality import Images
from viewsmith.networks import PartContext


def images(n, *shape, seed=0):
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed))


def test_statistics_of_numpy():
    x = images(4, 3, 16, 24)
    found = channel_statistics(x, (8, 8)).view(4, 3, -1).numpy()
    for sample, statistics in zip(x.numpy(), found, strict=True):
        for channel, row in zip(sample, statistics, strict=True):
            expected = [channel.mean(), channel.std(), *np.percentile(channel, [5, 25, 50, 75, 95])]
            small = [channel[2 * i : 2 * i + 2, 3 * j : 3 * j + 3].mean() for i in range(8) for j in range(8)]
            np.testing.assert_allclose(row, [*expected, *small], rtol=1e-5, atol=1e-6)
    with_gradients = channel_statistics(x.requires_grad_(), (8, 8))  # sorted by torch
    assert with_gradients.requires_grad and np.array_equal(with_gradients.detach(), found.reshape(4, -1))


def test_dictionaries_then_statistics_side_by_side():
    x, context = images(30, 3, 20, 20), PartContext((20, 20, 3), 3)
    options = {"centers": 6, "stride": 3, "regions": 2}
    features = ImagePatches(context, sizes=(4, 7), **options)
    features.fit(x, torch.Generator().manual_seed(0))
    assert features.n_features == 2 * 6 * (4 + 1 + 4) + 3 * (7 + 64)
    first, second = features.dictionaries
    assert first.filters.shape == (6, 3, 4, 4) and second.filters.shape == (6, 3, 7, 7)
    assert first.stride == 3 and first.regions == (2, 2)
    torch.testing.assert_close(features(x), torch.cat([first(x), second(x), channel_statistics(x, (8, 8))], dim=1))
    plain = ImagePatches(context, sizes=(4,), channel_statistics=False, **options)
    plain.fit(x, torch.Generator().manual_seed(0))
    torch.testing.assert_close(plain(x), first(x))


def test_many_channels_that_are_mixtures_of_few():
    few, mixing = images(40, 3, 12, 12), torch.linalg.qr(images(30, 3)).Q  # orthonormal: the same geometry
    many = torch.einsum("bkhw,ck->bchw", few, mixing)
    features = ImagePatches(PartContext((12, 12, 30), 30), centers=6)
    features.fit(many, torch.Generator().manual_seed(0))
    assert features.dictionaries[0].filters.shape == (6, 24, 6, 6)
    assert features.n_features == 6 * (9 + 1 + 4) + 24 * (7 + 64)
    mixed = torch.einsum("bchw,ck->bkhw", many, features.axes)
    torch.testing.assert_close(torch.einsum("bkhw,ck->bchw", mixed, features.axes), many, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(features(many)[:, -24 * 71 :], channel_statistics(mixed, (8, 8)))
    again = ImagePatches(PartContext((12, 12, 30), 30), centers=6)
    again.load_state_dict(features.state_dict())
    torch.testing.assert_close(again(many), features(many))


def test_dense_patches_of_many_channels_see_the_principal_ones():
    x = (images(6, 3, 8, 8).movedim(1, 3) @ images(3, 30)).numpy() * 1000 + 5000
    unit = unit_of([x])
    low, high = np.percentile(x.reshape(-1, 30), (0.1, 99.9), axis=0)
    assert unit.shape == (30, 24)
    variance = as_pixels(x, unit=unit).movedim(1, 3).reshape(-1, 24).var(0)
    whole = (x.reshape(-1, 30)[::6] / (high - low)).var(0).sum()
    assert variance[3:].sum() < 1e-4 * variance.sum() and 0.5 < variance.sum() / whole < 2


def test_brightness_of_a_constant_image_is_in_the_statistics():
    features = ImagePatches(PartContext((16, 16), 1), centers=5)
    features.fit(images(30, 1, 16, 16), torch.Generator().manual_seed(0))
    dark, light = features(torch.full((2, 1, 16, 16), 2.0) * torch.tensor([1.0, -1.0]).view(2, 1, 1, 1))
    assert (dark - light).abs().max() == 4


@pytest.mark.parametrize("side", [1, 2, 5, 6, 7])
def test_images_smaller_than_a_patch(side):
    features = ImagePatches(PartContext((side, 2 * side), 1), centers=5)
    x = images(30, 1, side, 2 * side)
    features.fit(x, torch.Generator().manual_seed(0))
    assert features(x).shape == (30, features.n_features) and features(x).isfinite().all()


def test_large_images_are_reduced_for_patches_to_every_side():
    x, options = images(30, 3, 60, 40), {"centers": 6, "channel_statistics": False}
    features = ImagePatches(PartContext((60, 40, 3), 3), reduced_to=(15, 30), **options)
    features.fit(x, torch.Generator().manual_seed(0))
    small, large = (F.interpolate(x, size, mode="bilinear", antialias=True) for size in ((15, 10), (30, 20)))
    first, second = features.dictionaries
    torch.testing.assert_close(features(x), torch.cat([first(small), second(large)], dim=1))
    crop = x[..., :28, :]  # by the same factors
    small, large = (F.interpolate(crop, size, mode="bilinear", antialias=True) for size in ((7, 10), (14, 20)))
    torch.testing.assert_close(features(crop), torch.cat([first(small), second(large)], dim=1))
    assert features.block_size(x) == min(first.block_size(x[..., :15, :10]), second.block_size(x[..., :30, :20]))
    plain = ImagePatches(PartContext((30, 20, 3), 3), reduced_to=(15, 30), **options)  # not above the largest
    plain.fit(x[..., :30, :20], torch.Generator().manual_seed(0))
    whole = ImagePatches(PartContext((60, 40, 3), 3), reduced_to=(), **options)
    whole.fit(x, torch.Generator().manual_seed(0))
    assert len(plain.dictionaries) == len(whole.dictionaries) == 1
    for images_ in (x, crop):
        torch.testing.assert_close(whole(images_), whole.dictionaries[0](images_))


@pytest.mark.parametrize(
    ("shape", "sides", "by"),
    [
        ((191, 150, 3), (24, 48), 1),
        ((100, 192, 3), (24, 48), 2),
        ((330, 330), (32, 64), 2),
        ((400, 400), (), 1),
        ((5, 9000), (24, 48), 1),
    ],
)
def test_from_four_times_the_largest_size_of_patches_on_images_are_shrunk_first(shape, sides, by):
    assert shrinks_by(shape, {"reduced_to": sides}) == by


def test_no_size_of_patches_is_refused():
    with pytest.raises(InputError, match=r"sizes is empty, expected the sides of patches in pixels, such as 6"):
        ImagePatches(PartContext((16, 16), 1), sizes=())


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_raw_features_of_large_images_are_means_of_their_pixels(dtype):
    x = np.random.default_rng(0).integers(0, 255, (3, 128, 40, 2)).astype(dtype)
    images, layer = Images(), None
    if dtype == "float32":
        layer = types.SimpleNamespace(dtype=dtype, low=torch.tensor([3.0, 5.0]), span=torch.tensor([200.0, 250.0]))
    ((name, found),) = images.raw_features(x, layer).items()
    means = x.astype(np.float64).reshape(3, 64, 2, 40, 2).mean(2)
    low, span = (0, 255) if layer is None else (layer.low.numpy(), layer.span.numpy())
    np.testing.assert_allclose(found, ((means - low) / span).reshape(3, -1), rtol=1e-4, atol=1e-6)
    assert name.endswith(", averaged to 64 x 40")
    small = x[:, :20, :30]
    ((name, found),) = images.raw_features(small, layer).items()
    np.testing.assert_allclose(found, ((small - np.float32(low)) / span).reshape(3, -1), rtol=1e-6)
    near = images.neighbor_features(torch.from_numpy(x).float().permute(0, 3, 1, 2))
    np.testing.assert_allclose(near.view(3, 2, 64, 40).permute(0, 2, 3, 1), means, rtol=1e-5)
