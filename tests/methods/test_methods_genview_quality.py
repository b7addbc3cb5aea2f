"""The quality of pairs of views from a frozen copy of an encoder."""

import copy

import pytest
import torch
from torch import nn

from refusals import refusal
from viewsmith.losses.quality import attention_pools, foreground_map, map_pools, pair_quality
from viewsmith.methods.genview.parts import ViewQuality
from viewsmith.modalities.images.encoders import SmallCNN
from viewsmith.modalities.images.operations import crop
from viewsmith.networks.base import MLP
from viewsmith.networks.features import FeatureMap, FrozenMaps
from viewsmith.views import GaussianNoise, image_recipe
from viewsmith.views.base import CropBoxes, PositivePair
from viewsmith.views.generated.noise_level import fit_foreground


def images(n=12, seed=0):
    return torch.randn(n, 3, 16, 16, generator=torch.Generator().manual_seed(seed))


def fitted_quality(x, encoder):
    """A `ViewQuality` with a copy of the encoder, whose BatchNorm statistics are not the initial ones."""
    quality = ViewQuality(encoder, x)
    encoder.train()(images(8, seed=5) if x.ndim == 4 else x)
    quality.copy_encoder(encoder, x)
    return quality


def test_quality_of_images_follows_the_equations():
    torch.manual_seed(0)
    encoder, x = SmallCNN(), images()
    quality = fitted_quality(x, encoder)
    frozen = copy.deepcopy(encoder).eval()
    maps = FeatureMap(frozen, x)
    axis = fit_foreground(lambda: [maps(x)]).axis.float()
    torch.testing.assert_close(quality.axis, axis)
    first, second = images(5, 1), images(5, 2)
    pools = []
    for view in (first, second):
        features = maps(view).flatten(1, 2)
        pools.append(attention_pools(features, foreground_map(features, axis)))
    q = quality(first, second)
    assert q.shape == (5,) and not q.requires_grad
    torch.testing.assert_close(q, pair_quality(*pools))
    # Equal views have equal foregrounds and equal backgrounds.
    torch.testing.assert_close(quality(first, first), torch.zeros(5), atol=1e-5, rtol=0)


def test_quality_of_vectors_is_the_cosine_of_representations():
    torch.manual_seed(0)
    x = torch.randn(20, 4)
    encoder = MLP(4, [8, 6], norm="batch", last="activated")
    quality = fitted_quality(x, encoder)
    h, other = (encoder.eval()(view).detach() for view in (x, x.flip(0)))
    torch.testing.assert_close(quality(x, x.flip(0)), nn.functional.cosine_similarity(h, other))
    torch.testing.assert_close(quality(x, x), torch.ones(20))


def test_the_copy_of_the_encoder_does_not_change():
    encoder, x = SmallCNN(), images()
    quality = fitted_quality(x, encoder).train()
    before = quality(x, x.flip(0))
    encoder.train()(images(30))
    with torch.no_grad():
        for weights in encoder.parameters():
            weights.add_(1)
    assert torch.equal(quality(x, x.flip(0)), before)
    assert not any(weights.requires_grad for weights in quality.parameters())


@pytest.mark.parametrize("dimensions", [2, 4])
def test_quality_does_not_depend_on_the_batch_in_training(dimensions):
    """The copy's BatchNorm does not use the batch, nor learn from it."""
    torch.manual_seed(0)
    x = images() if dimensions == 4 else torch.randn(20, 4)
    encoder = SmallCNN() if dimensions == 4 else MLP(4, [8, 6], norm="batch", last="activated")
    quality = fitted_quality(x, encoder)
    holder = nn.ModuleList([quality]).train()  # as in a method in training mode
    before = {name: value.clone() for name, value in holder.state_dict().items()}
    assert any("running_mean" in name for name in before)
    whole = quality(x, x.flip(0))
    parts = torch.cat([quality(x[row : row + 1], x.flip(0)[row : row + 1]) for row in range(len(x))])
    torch.testing.assert_close(parts, whole)
    torch.testing.assert_close(dict(holder.state_dict()), before, rtol=0, atol=0)


def test_a_loaded_state_gives_the_same_quality():
    encoder, x = SmallCNN(), images()
    quality, other = fitted_quality(x, encoder), ViewQuality(SmallCNN(), images(1))
    assert quality.ready and not other.ready
    other.load_state_dict(quality.state_dict())
    assert other.ready and torch.equal(other(x, x.flip(0)), quality(x, x.flip(0)))
    assert torch.equal(copy.deepcopy(other)(x, x.flip(0)), quality(x, x.flip(0)))


def feature_extractor(x):
    """Feature maps of a separate network, and the network."""
    torch.manual_seed(3)
    network = nn.Conv2d(3, 5, 3, 2)
    return FrozenMaps(lambda: network, "Conv2d", x=x), network


def test_the_sign_of_the_foreground_axis_does_not_flip():
    x = 0.1 * images()
    x[:, :, 4:-4, 4:-4] += 1.0
    maps = FrozenMaps(nn.Identity, "Identity", x=x)
    quality = ViewQuality(SmallCNN(), x, maps=maps)
    quality.copy_encoder(SmallCNN(), x)
    axis = quality.axis.clone()
    framed = 1.0 - x  # bright at the border instead of inside
    assert float(fit_foreground(lambda: [maps(framed)]).axis.float() @ axis) < -0.9
    quality.copy_encoder(SmallCNN(), framed)
    assert float(quality.axis @ axis) > 0.9


@pytest.mark.parametrize("source", ["views", "cached"])
def test_a_feature_extractor_replaces_the_copy_of_the_encoder(source):
    encoder, x = SmallCNN(widths=(8, 12, 16, 16)), images()
    maps, _ = feature_extractor(x)
    quality = ViewQuality(encoder, x, source=source, maps=maps)
    assert (
        not quality.needs_trained_encoder
        and list(quality.state_dict()) == ["axis", "numbers.ready"]
        and not list(quality.parameters())
    )
    quality.copy_encoder(encoder, x)
    axis = fit_foreground(lambda: [maps(x)]).axis.float()
    torch.testing.assert_close(quality.axis, axis)
    first, second = images(5, 1), images(5, 2)
    pools = [map_pools(maps(view), axis) for view in (first, second)]
    torch.testing.assert_close(quality.train()(first, second), pair_quality(*pools))
    if source == "cached":
        quality.cache_maps([x])
        assert quality.cached_maps[0].shape == (12, 5, 14, 14)
    other = ViewQuality(encoder, x, source=source, maps=maps)
    other.load_state_dict(quality.state_dict())
    assert torch.equal(other(first, second), quality(first, second))
    assert "cannot use the features of Conv2d" in refusal(ViewQuality, encoder, x, source="encoder", maps=maps)


def with_cached_maps():
    """A quality with cached maps of images and of their negatives."""
    torch.manual_seed(0)
    encoder, x = SmallCNN(widths=(8, 12, 16, 16)), images(12)
    quality = ViewQuality(encoder, x, source="cached")
    encoder.train()(images(8, seed=5))
    quality.copy_encoder(encoder, x)
    quality.cache_maps([x, -x])
    return quality, x


def crop_boxes(boxes, flip=None):
    boxes = torch.tensor(boxes)
    return CropBoxes(boxes, torch.zeros(len(boxes), dtype=torch.bool) if flip is None else torch.tensor(flip))


def test_cached_maps_give_the_quality_of_enlarged_quarters():
    quality, x = with_cached_maps()
    index = torch.tensor([3, 0, 7, 5])
    sources = torch.tensor([0, 1, 0, 1]), torch.tensor([1, 0, 0, 1])
    quarters = [[0.0, 0.0, 0.5, 0.5], [0.0, 0.5, 0.5, 0.5], [0.5, 0.0, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5]]
    boxes = crop_boxes(quarters), crop_boxes(quarters[::-1])
    views = [
        crop(torch.where(source[:, None, None, None] == 1, -x[index], x[index]), each.boxes * 16)
        for source, each in zip(sources, boxes, strict=True)
    ]
    found = quality.from_cached_maps(index, sources, boxes)
    torch.testing.assert_close(found, quality(*views), atol=5e-3, rtol=0)  # the cache is float16
    assert quality.cached_maps[0].dtype == torch.float16 and quality.cached_maps[0].shape == (12, 8, 16, 16)


def test_cached_maps_are_cropped_like_the_views():
    quality, _ = with_cached_maps()
    index, source = torch.arange(4), torch.zeros(4, dtype=torch.int64)
    # The lower right quarter of the map, mirrored for two of the rows.
    flip = [False, True, False, True]
    by_hand = quality.cached_maps[0][:4, :, 8:, 8:].float()
    by_hand = torch.where(torch.tensor(flip)[:, None, None, None], by_hand.flip(3), by_hand).flatten(2).mT
    pools = attention_pools(by_hand, foreground_map(by_hand, torch.eye(8)[0]))
    # For a crop of the whole image, each patch is the mean of four patches of the cached map.
    mean = nn.functional.avg_pool2d(quality.cached_maps[0][:4].float(), 2).flatten(2).mT
    other = attention_pools(mean, foreground_map(mean, torch.eye(8)[0]))
    whole = crop_boxes([[0.0, 0.0, 1.0, 1.0]] * 4)
    found = quality.from_cached_maps(index, (source, source), (crop_boxes([[0.5, 0.5, 0.5, 0.5]] * 4, flip), whole))
    torch.testing.assert_close(found, pair_quality(pools, other))


class TwoViews(nn.Module):
    """A framework that encodes both views in one pass, or the second one with a copy of the encoder."""

    def __init__(self, encoder, copied):
        super().__init__()
        self.encoder = encoder
        if copied:
            self.encoder_copy = copy.deepcopy(encoder)

    def forward(self, pair):
        if hasattr(self, "encoder_copy"):
            return self.encoder(pair.first).sum(1) + self.encoder_copy(pair.second).sum(1)
        return self.encoder(torch.cat([pair.first, pair.second, pair.first.flip(0)])).sum(1)


@pytest.mark.parametrize("copied", [False, True])
def test_quality_from_the_encoders_own_passes(copied):
    torch.manual_seed(0)
    encoder, x = SmallCNN(widths=(8, 12, 16, 16)), images()
    quality = ViewQuality(encoder, x, source="encoder")
    quality.copy_encoder(encoder, x)
    framework, pair = TwoViews(encoder, copied).eval(), PositivePair(images(5, 1), images(5, 2))
    with quality.record_passes(framework) as passes:
        framework(pair)
    # In evaluation mode and with the weights that were copied, the maps are those of the copy.
    torch.testing.assert_close(quality.from_passes(passes, 5), quality(pair.first, pair.second))
    framework(pair)
    assert len(passes[0]) == 1  # the recording has ended
    with torch.no_grad():
        encoder.stages[0][0].weight.neg_()
    with quality.record_passes(framework) as passes:
        framework(pair)
    assert not torch.allclose(quality.from_passes(passes, 5), quality(pair.first, pair.second))


def test_a_framework_that_passes_views_in_another_order_is_refused():
    encoder, x = SmallCNN(), images()
    quality = ViewQuality(encoder, x, source="encoder")
    quality.copy_encoder(encoder, x)
    with quality.record_passes(TwoViews(encoder, False)) as passes:
        encoder(x[:5])
    assert "quality_features='views'" in refusal(quality.from_passes, passes, 5)


def test_vectors_always_use_the_source_views():
    assert ViewQuality(MLP(4, [8, 6]), torch.randn(20, 4), source="encoder").source == "views"


def test_recipes_give_the_crops_of_their_views():
    x = images(6)
    for name in ("simclr", "byol", "multicrop"):
        maker = image_recipe(name, size=16)
        pair = maker.pair(PositivePair(x, x), generator=torch.Generator().manual_seed(0))
        assert all(each.boxes.shape == (6, 4) and each.flip.shape == (6,) for each in pair.crops)
        ends = pair.crops[0].boxes[:, :2] + pair.crops[0].boxes[:, 2:]
        assert (pair.crops[0].boxes >= 0).all() and (ends <= 1 + 1e-5).all()
    plain = image_recipe("simclr", size=16, strength=0.0, gray=0.0)
    x = x.sigmoid()
    pair = plain.pair(PositivePair(x, x), generator=torch.Generator().manual_seed(0))
    for view, boxes in zip((pair.first, pair.second), pair.crops, strict=True):
        torch.testing.assert_close(view, crop(x, boxes.boxes * 16, flip=boxes.flip), atol=1e-4, rtol=1e-4)
    # After another maker, and for crops of crops, the boxes do not refer to the sample.
    assert GaussianNoise().pair(pair).crops is None and plain.pair(pair).crops is None
