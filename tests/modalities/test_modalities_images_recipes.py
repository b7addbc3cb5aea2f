"""Image recipes: pairs, small crops, settings."""

import pytest
import torch
from image_toys import MEAN, STD, draw, images, pixels_of, scaled, within

from refusals import refusal
from viewsmith.modalities.images.views import ImageViews, image_recipe
from viewsmith.views import Identity, Neighbors, PairMaker, PositivePair


def test_the_views_of_a_simclr_pair_are_drawn_independently():
    pair = PairMaker([image_recipe("simclr", size=12)])(images(), index=torch.arange(6), generator=draw())
    assert not torch.equal(pair.first, pair.second) and pair.local is None
    assert torch.equal(pair.ids[0], torch.arange(6))


def test_the_views_of_a_byol_pair_have_different_recipes():
    maker = image_recipe("byol", size=12)
    n = 4000
    first, second = (each.draw(n, images(1), draw()) for each in (maker.first, maker.second))
    assert (first.sigma > 0).all() and first.threshold.isinf().all()
    assert within(int((second.sigma > 0).sum()), n, 0.1) and within(int(second.threshold.isfinite().sum()), n, 0.2)
    x = images(5)
    pair, generator = maker.pair(PositivePair(x, 1 - x), generator=draw()), draw()
    assert torch.equal(pair.first, maker.first(x, generator=generator))
    assert torch.equal(pair.second, maker.second(1 - x, generator=generator))
    assert torch.equal(maker(x, generator=draw()), maker.second(x, generator=draw()))


@pytest.mark.parametrize(("side", "small"), [(12, 8), (28, 12), (32, 12), (64, 28), (96, 40), (224, 96)])
def test_sizes_of_small_crops(side, small):
    assert image_recipe("multicrop", size=side).size == (small, small)


def test_multicrop_pairs():
    x = scaled(images(5, height=32, width=20))
    maker = image_recipe("multicrop", size=(32, 20), crops=4, mean=MEAN, std=STD)
    pair = maker.pair(PositivePair(x, x), generator=draw())
    assert pair.first.shape == pair.second.shape == x.shape
    assert pair.local.shape == (5, 4, 3, 12, 8)
    assert pixels_of(pair.local).min() >= -1e-5 and pixels_of(pair.local).max() <= 1 + 1e-5
    areas = {}
    for name, each in (("full", maker.first), ("small", maker.local)):
        _, _, height, width = each.draw(2000, images(1, height=64, width=64), draw()).boxes.T
        areas[name] = height * width / 64**2
    assert areas["full"].min() > 0.36 and areas["full"].max() <= 1
    assert 0.03 < areas["small"].min() < 0.07 and 0.37 < areas["small"].max() < 0.43


def test_ids_and_small_crops_of_earlier_makers_are_kept():
    x = images(6, height=16, width=16)
    neighbors = Neighbors(2, space=lambda rows: rows.flatten(1))
    views = PairMaker(
        [neighbors, image_recipe("multicrop", size=16, crops=2), image_recipe("byol", size=16), Identity()]
    )
    views.prepare(x)
    pair = views(x, index=torch.arange(6), generator=draw())
    assert torch.equal(pair.ids[0], torch.arange(6)) and not (pair.ids[1] == pair.ids[0]).any()
    assert pair.local.shape == (6, 2, 3, 8, 8)
    after = image_recipe("simclr", size=16).pair(pair, generator=draw())
    assert after.local is pair.local and after.ids is pair.ids
    assert "one multi-crop" in refusal(image_recipe("multicrop", size=16).pair, pair)


def test_settings_of_the_recipes():
    simclr, large, moco = (image_recipe(*a, size=s) for a, s in ((("simclr",), 32), (("simclr",), 64), (("moco",), 32)))
    assert (simclr.scale, simclr.blur, simclr.gray, simclr.jitter, simclr.flip) == ((0.08, 1), 0, 0.2, 0.8, 0.5)
    assert large.blur == 0.5 and (moco.scale, moco.blur) == ((0.2, 1), 0.5)
    assert torch.allclose(simclr.jitter_ranges[1, :, 0], torch.tensor([1.4, 1.4, 1.4, 0.1]))
    byol = image_recipe("byol", size=32).first
    assert torch.allclose(byol.jitter_ranges[0, :, 0], torch.tensor([0.6, 0.6, 0.8, -0.1]))


def test_settings_override_the_recipe():
    maker = image_recipe("simclr", size=32, strength=2, scale=(0.5, 1), blur=0.7, gray=0)
    assert (maker.scale, maker.blur, maker.gray) == ((0.5, 1), 0.7, 0)
    assert torch.allclose(maker.jitter_ranges[1, :, 0], torch.tensor([1.8, 1.8, 1.8, 0.2]))
    maker = image_recipe(
        "multicrop", size=32, scale=(0.14, 1), local_scale=(0.05, 0.14), local_size=10, crops=3, blur=0
    )
    assert (maker.first.scale, maker.second.scale, maker.local.scale) == ((0.14, 1), (0.14, 1), (0.05, 0.14))
    assert (maker.size, maker.number, maker.second.blur) == ((10, 10), 3, 0)


@pytest.mark.parametrize(
    "x",
    [
        torch.rand(4, 3),
        torch.rand(3, 8, 8),
        torch.rand(2, 4, 8, 8),
        torch.rand(2, 3, 1, 8),
        torch.zeros(2, 3, 8, 8, dtype=torch.uint8),
    ],
    ids=["vectors", "one image", "four channels", "one row", "bytes"],
)
@pytest.mark.parametrize("name", ["simclr", "multicrop"])
def test_batches_that_are_not_images_are_refused(name, x):
    assert "image views need images (B, C, H, W)" in refusal(image_recipe(name, size=8), x)


def test_unknown_recipes_and_settings_are_refused():
    assert "expected one of simclr, moco, byol, multicrop" in refusal(image_recipe, "cutmix", size=32)
    assert "no setting 'color'" in refusal(image_recipe, "moco", size=32, color=1)
    assert "size = 1" in refusal(image_recipe, "moco", size=1)
    assert "0 small crops" in refusal(image_recipe, "multicrop", size=32, crops=0)
    assert "for images with 1" in refusal(ImageViews(mean=MEAN, std=STD), images(channels=1))
