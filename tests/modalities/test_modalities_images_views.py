"""`ImageViews`: the operations in order, distributions of the draws, replay; recipes and their settings."""

import math

import pytest
import torch
from color_steps import adjust_brightness, adjust_contrast, adjust_hue, adjust_saturation
from image_toys import MEAN, STD, close, draw, every_recipe, images, pixels_of, scaled, within

from refusals import refusal
from viewsmith.modalities.images.operations import blur, crop, solarize
from viewsmith.modalities.images.views import ImageViews, PairedImageViews, image_recipe
from viewsmith.views import Identity, Neighbors, PairMaker, PositivePair


@pytest.mark.parametrize("channels", [1, 3])
def test_a_view_equals_its_operations_in_order(channels):
    x = images(40, channels, dtype=torch.float64, low=0.4, high=0.6)
    own_mean, own_std = (MEAN, STD) if channels == 3 else (0.45, 0.22)
    mean, std = (torch.tensor(v).double().view(-1, 1, 1) for v in (own_mean, own_std))
    maker = ImageViews(
        brightness=0.2, contrast=0.2, saturation=0.2, blur=0.5, solarize=0.3, threshold=0.45, mean=own_mean, std=own_std
    )
    drawn = maker.draw(40, x, draw())
    y = crop(x, drawn.boxes, flip=drawn.flip)
    y = adjust_hue(adjust_saturation(y, drawn.saturation), drawn.hue)
    y = adjust_brightness(adjust_contrast(y, drawn.contrast), drawn.brightness)
    y = solarize(blur(y, drawn.sigma), drawn.threshold)
    view = maker((x - mean) / std, generator=draw())
    close(view * std + mean, y, 1e-9)


def test_probabilities_of_the_operations():
    n = 20_000
    drawn = ImageViews(blur=0.3, solarize=0.1).draw(n, images(1), draw())
    jittered = drawn.brightness != 1
    assert within(int(drawn.flip.sum()), n, 0.5)
    assert within(int(jittered.sum()), n, 0.8)
    assert within(int((drawn.saturation == 0).sum()), n, 0.2)
    assert within(int((drawn.sigma > 0).sum()), n, 0.3)
    assert within(int(drawn.threshold.isfinite().sum()), n, 0.1)
    assert torch.equal(jittered, drawn.contrast != 1) and torch.equal(jittered, drawn.hue != 0)
    # The draws are independent: the probability of two operations is the product of their probabilities.
    assert within(int((drawn.flip & jittered).sum()), n, 0.4)
    assert within(int(((drawn.saturation == 0) & (drawn.sigma > 0)).sum()), n, 0.06)


def test_ranges_of_the_factors():
    drawn = ImageViews(jitter=1, gray=0, brightness=0.4, contrast=1.5, hue=0.1, blur=1, sigma=(0.5, 2)).draw(
        20_000, images(1), draw()
    )
    for values, low, high in (
        (drawn.brightness, 0.6, 1.4),
        (drawn.contrast, 0, 2.5),
        (drawn.saturation, 0.6, 1.4),
        (drawn.hue, -0.1, 0.1),
        (drawn.sigma, 0.5, 2),
    ):
        width = high - low
        assert low <= values.min() < low + 0.01 * width and high - 0.01 * width < values.max() <= high + 1e-6
        assert abs(values.mean() - (low + high) / 2) < 5 * width / math.sqrt(12 * 20_000)


@every_recipe
def test_a_view_does_not_depend_on_other_images(name):
    maker = image_recipe(name, size=12)
    maker = maker.second if isinstance(maker, PairedImageViews) else maker
    x = images(5, height=12, width=12)
    drawn = maker.draw(5, x, draw(2))
    whole = maker.render(x, drawn)
    for i in range(5):
        alone = type(drawn)(**{name: value[i : i + 1] for name, value in vars(drawn).items()})
        close(maker.render(x[i : i + 1], alone), whole[i : i + 1])


@pytest.mark.parametrize("number", [1, 3])
def test_many_large_images_are_rendered_in_parts(monkeypatch, number):
    maker, x = (
        ImageViews(blur=0.5, solarize=0.2, upside_down=0.5, turn=0.5, diagonal=0.5),
        images(7, height=24, width=24),
    )
    drawn, size = maker.draw(number * 7, x, draw()), None if number == 1 else (12, 12)
    whole = maker.render(x, drawn, size)
    monkeypatch.setattr("viewsmith.modalities.images.views.LARGE", x.numel() - 1)
    monkeypatch.setattr("viewsmith.modalities.images.views.AT_ONCE", 3 * x[0].numel())
    parts, rendered = [], maker._rendered
    monkeypatch.setattr(maker, "_rendered", lambda x, *given: parts.append(len(x)) or rendered(x, *given))
    close(maker.render(x, drawn, size), whole)
    assert parts == [3, 3, 1]


def test_images_are_drawn_independently():
    x = images(1, height=16, width=16).expand(64, -1, -1, -1)
    views = ImageViews()(x, generator=draw())
    assert len({tuple(view.flatten().tolist()) for view in views}) == 64


def test_without_operations_views_are_the_images():
    x = 3 * scaled(images())
    maker = ImageViews(scale=(1, 1), ratio=(10 / 12, 10 / 12), flip=0, jitter=0, gray=0, mean=MEAN, std=STD)
    assert torch.equal(maker(x, generator=draw()), x)


def test_full_precision_under_autocast():
    maker, x = ImageViews(blur=1.0, solarize=0.2), images()
    with torch.autocast("cpu", torch.bfloat16):
        view = maker(x, generator=draw())
    assert view.dtype == torch.float32 and torch.equal(view, maker(x, generator=draw()))


def test_small_crops_are_crops_of_their_image():
    x = torch.arange(5.0).view(5, 1, 1, 1).expand(5, 1, 16, 16) / 10
    maker = ImageViews(jitter=0, gray=0)
    assert torch.allclose(maker.crops(x, 3, (8, 8), draw()), x[:, None, :, :8, :8].expand(5, 3, 1, 8, 8))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"flip": 1.5}, "flip is 1.5, expected a number from 0 to 1"),
        ({"gray": -0.1}, "gray is -0.1"),
        ({"contrast": -1}, "contrast is -1, expected a number of at least 0"),
        ({"hue": 0.6}, "hue is 0.6, expected a number from 0 to 0.5"),
        ({"scale": (0.0, 1.0)}, "scale is (0.0, 1.0), expected two numbers, low to high, above 0 and up to 1"),
        ({"scale": (0.5, 1.2)}, "scale is (0.5, 1.2)"),
        ({"scale": (0.5,)}, "scale is (0.5,)"),
        ({"ratio": (2.0, 1.0)}, "ratio is (2.0, 1.0)"),
        ({"sigma": (0.1, math.nan)}, "sigma"),
        ({"std": (0.1, 0.0, 0.2)}, "std = (0.1, 0.0, 0.2)"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    assert message in refusal(ImageViews, **settings)


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


def test_views_of_reduced_images_blur_by_as_much_of_the_image():
    maker = image_recipe("byol", size=96, sigma=(1.0, 2.0))
    small = maker.of_reduced(0.25)
    assert small.first.sigma == small.second.sigma == (0.25, 0.5) and maker.first.sigma == (1.0, 2.0)
    assert image_recipe("multicrop", size=96).of_reduced(0.5) is None
