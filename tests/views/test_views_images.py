"""Image views: operations against torchvision's, the fused path against the operations, statistics, replay, recipes."""

import colorsys
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from refusals import refusal
from viewsmith.views import Identity, Neighbors, Pair, ViewPair
from viewsmith.views.fixed import resampling
from viewsmith.views.fixed.color import (
    adjust_brightness,
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
    gray,
    recolor,
    solarize,
)
from viewsmith.views.fixed.images import ImageViews, PairedImageViews, image_recipe
from viewsmith.views.fixed.resampling import blur, blur_size, crop, random_boxes

FIXTURE = Path(__file__).parent / "fixtures" / "torchvision_images.npz"
MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
RECIPES = ("simclr", "moco", "byol", "multicrop")
both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
every_recipe = pytest.mark.parametrize("name", RECIPES)
# torchvision weighs red by .2989, so that its weights add up to .9999.
LUMA_TOLERANCE = 2e-4


def draw(seed=0):
    return torch.Generator().manual_seed(seed)


def images(n=6, channels=3, height=12, width=10, dtype=torch.float32, seed=0, low=0.0, high=1.0):
    """Random pixels in [low, high]."""
    pixels = torch.rand(n, channels, height, width, generator=draw(seed), dtype=torch.float64)
    return (low + (high - low) * pixels).to(dtype)


def numbers(*values, dtype=torch.float64, grad=False):
    return torch.tensor(values, dtype=dtype, requires_grad=grad)


def scaled(pixels):
    return (pixels - pixels.new_tensor(MEAN)[:, None, None]) / pixels.new_tensor(STD)[:, None, None]


def pixels_of(x):
    return x * x.new_tensor(STD)[:, None, None] + x.new_tensor(MEAN)[:, None, None]


@pytest.fixture(scope="module")
def truth():
    """What torchvision made, as tensors."""
    with np.load(FIXTURE, allow_pickle=False) as archive:
        return {name: torch.from_numpy(archive[name]) for name in archive.files if name != "torchvision"}


def close(ours, theirs, tolerance=2e-6):
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max() <= tolerance


# Operations against torchvision


@both_dtypes
@pytest.mark.parametrize(("name", "size"), [("same", None), ("small", (4, 5)), ("large", (14, 13))])
def test_crop_is_torchvisions(truth, name, size, dtype):
    close(crop(truth["x"].to(dtype), truth["boxes"], size), truth[f"crop_{name}"])


def test_flip_is_torchvisions(truth):
    whole = numbers(0, 0, 9, 12).expand(4, 4)
    assert torch.equal(crop(truth["x"], whole, flip=torch.ones(4, dtype=torch.bool)), truth["hflip"])


@both_dtypes
def test_brightness_contrast_saturation_and_gray_are_torchvisions(truth, dtype):
    x, factors = truth["x"].to(dtype), truth["factors"].to(dtype)
    close(adjust_brightness(x, factors), truth["brightness"])
    close(adjust_contrast(x, factors), truth["contrast"], LUMA_TOLERANCE)
    close(adjust_saturation(x, factors), truth["saturation"], LUMA_TOLERANCE)
    close(gray(x), truth["gray"], LUMA_TOLERANCE)


@both_dtypes
@pytest.mark.parametrize("taps", [3, 7])
def test_blur_is_torchvisions(truth, taps, dtype):
    close(blur(truth["x"].to(dtype), truth["sigmas"].to(dtype), taps), truth[f"blur_{taps}"])


def test_solarization_is_torchvisions(truth):
    assert torch.equal(solarize(truth["x"], numbers(0.25, 0.5, 0.75, 1.0, dtype=torch.float32)), truth["solarize"])


def test_hue_turns_colors_as_far_as_torchvision_does(truth):
    def angle(x):
        red, green, blue = x.double().unbind(1)
        return torch.atan2(3**0.5 * (green - blue), 2 * red - green - blue) / (2 * math.pi)

    # Faint colors, so that no value has to be clamped.
    x = 0.5 + 0.1 * (truth["x"].double() - 0.5)
    turned = (angle(adjust_hue(x, truth["hues"].double())) - angle(x)) % 1
    assert ((turned - truth["hues"].view(4, 1, 1) + 0.5) % 1 - 0.5).abs().max() < 1e-9
    # torchvision's hues lie on a hexagon, ours on a circle: they differ by up to 1.1 degrees at each end.
    theirs = (angle(truth["hue"]) - angle(truth["x"])) % 1
    colorful = truth["x"].amax(1) - truth["x"].amin(1) > 0.05
    differ = ((theirs - truth["hues"].view(4, 1, 1) + 0.5) % 1 - 0.5).abs()
    assert differ[colorful].max() < 2.5 / 360


# Operations by hand and against loops


def test_crop_by_hand():
    x = numbers(1, 2, 3, 4).view(1, 1, 1, 4).expand(1, 1, 2, 4)
    # Centers of 4 pixels from 2: at -.25, .25, .75, 1.25 of the box, held inside it.
    view = crop(x, numbers(0, 1, 2, 2)[None])
    assert torch.equal(view, numbers(2, 2.25, 2.75, 3).expand(1, 1, 2, 4))
    flipped = crop(x, numbers(0, 1, 2, 2)[None], flip=torch.tensor([True]))
    assert torch.equal(flipped, view.flip(3))


@both_dtypes
def test_a_crop_of_the_whole_image_is_the_image(dtype):
    x = images(dtype=dtype)
    assert torch.equal(crop(x, numbers(0, 0, 12, 10).expand(6, 4)), x)


def slow_crop(image, box, size):
    """Pixel by pixel, from a fractional box."""
    top, left, tall, wide = box.tolist()
    view = image.new_zeros(image.shape[0], *size)
    for i in range(size[0]):
        for j in range(size[1]):
            y = top + min(max((i + 0.5) * tall / size[0] - 0.5, 0), tall - 1)
            x = left + min(max((j + 0.5) * wide / size[1] - 0.5, 0), wide - 1)
            for row in range(image.shape[1]):
                for column in range(image.shape[2]):
                    near = max(0, 1 - abs(y - row)) * max(0, 1 - abs(x - column))
                    view[:, i, j] += near * image[:, row, column]
    return view


@pytest.mark.parametrize("widest", [64, 0], ids=["matrix product", "rows of the turned image"])
def test_fractional_boxes_and_several_views_against_a_loop(monkeypatch, widest):
    monkeypatch.setattr(resampling, "MAX_MATRIX_WIDTH", widest)
    x = images(2, dtype=torch.float64)
    boxes = numbers(
        *[[0.3, 1.2, 7.5, 8.1], [2, 2, 4, 4], [5.5, 0, 6.5, 3.2], [0, 0, 12, 10], [1, 1, 1.5, 1], [3, 4, 9, 6]]
    )
    views = crop(x, boxes, (5, 7))
    expected = torch.stack([slow_crop(x[i // 3], box, (5, 7)) for i, box in enumerate(boxes)])
    close(views, expected, 1e-12)


@pytest.mark.parametrize("widest", [64, 0], ids=["matrix product", "rows of the turned image"])
def test_blur_against_a_loop(monkeypatch, widest):
    monkeypatch.setattr(resampling, "MAX_MATRIX_WIDTH", widest)
    x, sigma = images(2, height=7, width=5, dtype=torch.float64), numbers(0.0, 1.3)
    view = blur(x, sigma, 5)
    assert torch.equal(view[0], x[0])
    padded = torch.nn.functional.pad(x[1:], (2, 2, 2, 2), mode="reflect")[0]
    kernel = numbers(*[[math.exp(-(i * i + j * j) / 2 / 1.3**2) for j in range(-2, 3)] for i in range(-2, 3)])
    for i in range(7):
        for j in range(5):
            expected = (padded[:, i : i + 5, j : j + 5] * kernel / kernel.sum()).sum((1, 2))
            assert torch.allclose(view[1, :, i, j], expected, atol=1e-12)


def test_sizes_of_the_blur():
    assert [blur_size(side) for side in (8, 32, 64, 96, 224)] == [3, 3, 7, 9, 23]


def test_colors_by_hand():
    x = numbers(1, 0, 0).view(1, 3, 1, 1)
    third, one = numbers(1 / 3), numbers(1.0)
    assert gray(x).flatten().tolist() == [0.299] * 3
    # A third of a turn brings red to green at the luma of red.
    turned = recolor(0.1 * x + 0.4, one, one, one, third).flatten() - 0.4
    assert torch.allclose(turned, 0.1 * (numbers(0, 1, 0) + 0.299 - 0.587), atol=1e-12)
    assert adjust_brightness(0.5 * x, numbers(1.5)).flatten().tolist() == [0.75, 0, 0]
    assert torch.allclose(adjust_saturation(x, numbers(0.5)).flatten(), numbers(0.6495, 0.1495, 0.1495))
    assert torch.allclose(adjust_contrast(x, numbers(0.5)).flatten(), numbers(0.6495, 0.1495, 0.1495))
    assert solarize(x, numbers(0.5)).flatten().tolist() == [0, 0, 0]


def test_the_hue_of_a_shifted_color():
    x = images(8, height=2, width=2, dtype=torch.float64, low=0.45, high=0.55)
    turned = adjust_hue(x, numbers(0.25).expand(8))
    for before, after in zip(x.movedim(1, 3).reshape(-1, 3), turned.movedim(1, 3).reshape(-1, 3), strict=True):
        gone = (colorsys.rgb_to_hsv(*after.tolist())[0] - colorsys.rgb_to_hsv(*before.tolist())[0]) % 1
        assert abs(gone - 0.25) < 2.5 / 360
    close(gray(turned), gray(x), 1e-12)


def test_one_channel_has_no_colors():
    x, half = images(channels=1), numbers(0.5, dtype=torch.float32).expand(6)
    assert torch.equal(gray(x), x)
    assert torch.equal(adjust_hue(x, half), x) and torch.equal(adjust_saturation(x, half), x)
    one = torch.ones(6)
    assert torch.equal(recolor(x, one, one, half, half), x)
    close(recolor(x, half, half, half, half), adjust_brightness(adjust_contrast(x, half), half))


# The fused path


@both_dtypes
def test_recoloring_is_the_four_operations_in_any_order(dtype):
    x = images(dtype=dtype, low=0.35, high=0.6)
    brightness, contrast, saturation, hue = (torch.rand(4, 6, generator=draw(1), dtype=torch.float64) * 0.6 + 0.7).to(
        dtype
    )
    hue = hue - 1
    steps = [
        lambda y: adjust_brightness(y, brightness),
        lambda y: adjust_contrast(y, contrast),
        lambda y: adjust_saturation(y, saturation),
        lambda y: adjust_hue(y, hue),
    ]
    fused = recolor(x, brightness, contrast, saturation, hue)
    assert (fused - x).abs().max() > 0.05 and fused.min() > 0 and fused.max() < 1
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]):
        y = x
        for step in order:
            y = steps[step](y)
        close(fused, y, 1e-5 if dtype == torch.float32 else 1e-12)
    mean, std = x.new_tensor(MEAN), x.new_tensor(STD)
    close(recolor(scaled(x), brightness, contrast, saturation, hue, mean=mean, std=std), fused, 1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_view_is_its_operations_one_after_the_other(channels):
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


def test_clamping_is_at_the_end_of_the_colors():
    x = numbers(0.2, 0.8).view(1, 1, 1, 2).expand(1, 3, 1, 2)
    two, half, one, none = (numbers(v) for v in (2.0, 0.5, 1.0, 0.0))
    # 2 (.5 x + .25) is .7 and 1.3; step by step 1.6 becomes 1 before the contrast is taken.
    assert torch.allclose(recolor(x, two, half, one, none)[0, 0, 0], numbers(0.7, 1.0))
    assert torch.allclose(adjust_contrast(adjust_brightness(x, two), half)[0, 0, 0], numbers(0.55, 0.85))


# Gradients


def test_gradients_of_the_geometry():
    x = images(2, 2, 5, 6, dtype=torch.float64).requires_grad_()
    boxes = numbers(
        *[[0.3, 1.2, 3.1, 3.7], [1.1, 0.2, 2.3, 4.4], [0.1, 0.3, 4.2, 5.1], [2.2, 1.7, 2.1, 3.3]], grad=True
    )
    flip = torch.tensor([True, False, False, True])
    assert gradcheck(lambda a, b: crop(a, b, (4, 3), flip), (x, boxes))
    assert gradcheck(lambda a, s: blur(a, s, 5), (x, numbers(0.7, 1.6, grad=True)))


@pytest.mark.parametrize("channels", [1, 3])
def test_gradients_of_the_colors(channels):
    x = images(2, channels, 3, 3, dtype=torch.float64, low=0.4, high=0.6).requires_grad_()
    factors = [numbers(*v, grad=True) for v in ((0.9, 1.1), (1.2, 0.8), (0.7, 1.3), (0.1, -0.2))]
    for operation, factor in zip(
        (adjust_brightness, adjust_contrast, adjust_saturation, adjust_hue), factors, strict=True
    ):
        assert gradcheck(operation, (x, factor))
    assert gradcheck(recolor, (x, *factors))
    assert gradcheck(gray, (x,))
    assert gradcheck(lambda a: solarize(a, numbers(0.3, 0.9)), (x,))


@every_recipe
def test_gradients_reach_the_images(name):
    maker = image_recipe(name, size=8, mean=MEAN, std=STD)
    if isinstance(maker, PairedImageViews):
        maker = maker.second
    x = scaled(images(2, height=6, width=6, dtype=torch.float64, low=0.45, high=0.55)).requires_grad_()
    drawn = maker.draw(2, x, draw(3))
    assert gradcheck(lambda a: maker.render(a, drawn), (x,))


# Draws


def within(successes, n, probability):
    """Whether a count lies within 5 standard deviations of its binomial mean."""
    return abs(successes - n * probability) <= 5 * math.sqrt(n * probability * (1 - probability))


def test_rates_of_the_operations():
    n = 20_000
    drawn = ImageViews(blur=0.3, solarize=0.1).draw(n, images(1), draw())
    jittered = drawn.brightness != 1
    assert within(int(drawn.flip.sum()), n, 0.5)
    assert within(int(jittered.sum()), n, 0.8)
    assert within(int((drawn.saturation == 0).sum()), n, 0.2)
    assert within(int((drawn.sigma > 0).sum()), n, 0.3)
    assert within(int(drawn.threshold.isfinite().sum()), n, 0.1)
    assert torch.equal(jittered, drawn.contrast != 1) and torch.equal(jittered, drawn.hue != 0)
    # Independent of each other: the share of both is the product of the shares.
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


def test_boxes_are_drawn_as_described():
    n, side = 20_000, 200
    boxes = random_boxes(n, (side, side), (0.08, 0.6), (3 / 4, 4 / 3), images(1), draw())
    top, left, height, width = boxes.T
    assert torch.equal(boxes, boxes.round())
    assert (top >= 0).all() and (left >= 0).all() and (top + height <= side).all() and (left + width <= side).all()
    area, ratio = height * width / side**2, (width / height).log()
    # Below .75 of the area every shape fits, so that the first try is taken: both are uniform.
    shares = (area - 0.08) / 0.52
    for values in (shares, (ratio + math.log(4 / 3)) / (2 * math.log(4 / 3))):
        counts = torch.histc(values.clamp(0, 1), 10, 0, 1)
        assert all(within(int(count), n, 0.1) for count in counts)
    # The corner is uniform too, on what room there is.
    assert abs(((top + 0.5) / (side - height + 1)).mean() - 0.5) < 0.015
    assert (top == 0).any() and (top + height == side).any()


def slow_boxes(area, shape, image, scale, ratio):
    """Height and width by the published loop, from the same uniform draws; None: no try fits."""
    for a, r in zip(area.tolist(), shape.tolist(), strict=True):
        target = image[0] * image[1] * (scale[0] + (scale[1] - scale[0]) * a)
        aspect = math.exp(math.log(ratio[0]) + math.log(ratio[1] / ratio[0]) * r)
        w, h = round(math.sqrt(target * aspect)), round(math.sqrt(target / aspect))
        if 0 < w <= image[1] and 0 < h <= image[0]:
            return h, w
    return None


@pytest.mark.parametrize(("image", "fallback"), [((30, 10), (13, 10)), ((10, 30), (10, 13)), ((12, 12), (12, 12))])
def test_tries_and_fallback_against_the_published_loop(image, fallback):
    like, scale, ratio = images(1, dtype=torch.float64), (0.2, 1.0), (3 / 4, 4 / 3)
    boxes = random_boxes(300, image, scale, ratio, like, draw())
    area, shape = torch.rand(2, 300, 10, generator=draw(), dtype=torch.float64)
    missed = 0
    for box, a, s in zip(boxes.tolist(), area, shape, strict=True):
        sides = slow_boxes(a, s, image, scale, ratio)
        assert tuple(box[2:]) == (sides or fallback)
        if sides is None:
            missed += 1
            assert box[:2] == [(image[0] - fallback[0]) // 2, (image[1] - fallback[1]) // 2]
    assert missed > 0 or image == (12, 12)


# The makers


@every_recipe
@both_dtypes
@pytest.mark.parametrize("channels", [1, 3])
def test_shape_dtype_and_range_of_views(name, dtype, channels):
    mean, std = (MEAN, STD) if channels == 3 else (0.5, 0.2)
    x = images(9, channels, 16, 12, dtype)
    x = (x - x.new_tensor(mean).view(-1, 1, 1)) / x.new_tensor(std).view(-1, 1, 1)
    before, state = x.clone(), torch.get_rng_state()
    maker = image_recipe(name, size=(16, 12), mean=mean, std=std)
    view = maker(x, generator=draw())
    assert view.shape == x.shape and view.dtype == dtype and view.is_contiguous()
    pixels = view * view.new_tensor(std).view(-1, 1, 1) + view.new_tensor(mean).view(-1, 1, 1)
    assert pixels.min() >= -1e-5 and pixels.max() <= 1 + 1e-5
    assert torch.equal(x, before) and torch.equal(torch.get_rng_state(), state)
    assert torch.equal(view, maker(x, generator=draw()))
    assert not torch.equal(view, maker(x, generator=draw(1)))
    assert not maker.state_dict()


@every_recipe
def test_an_image_is_seen_alone(name):
    maker = image_recipe(name, size=12)
    maker = maker.second if isinstance(maker, PairedImageViews) else maker
    x = images(5, height=12, width=12)
    drawn = maker.draw(5, x, draw(2))
    whole = maker.render(x, drawn)
    for i in range(5):
        own = type(drawn)(**{name: value[i : i + 1] for name, value in vars(drawn).items()})
        close(maker.render(x[i : i + 1], own), whole[i : i + 1])


def test_every_image_has_a_draw_of_its_own():
    x = images(1, height=16, width=16).expand(64, -1, -1, -1)
    views = ImageViews()(x, generator=draw())
    assert len({tuple(view.flatten().tolist()) for view in views}) == 64


@pytest.mark.parametrize("n", [0, 1])
def test_small_batches(n):
    maker = image_recipe("byol", size=12)
    x = images(2, height=12)[:n]
    assert maker.pair(Pair(x, x), generator=draw()).second.shape == x.shape


def test_nothing_to_do_changes_nothing():
    x = 3 * scaled(images())
    maker = ImageViews(scale=(1, 1), ratio=(10 / 12, 10 / 12), flip=0, jitter=0, gray=0, mean=MEAN, std=STD)
    assert torch.equal(maker(x, generator=draw()), x)


def test_full_precision_under_autocast():
    maker, x = ImageViews(blur=1.0, solarize=0.2), images()
    with torch.autocast("cpu", torch.bfloat16):
        view = maker(x, generator=draw())
    assert view.dtype == torch.float32 and torch.equal(view, maker(x, generator=draw()))


# Pairs and recipes


def test_the_two_sides_of_a_simclr_pair_are_drawn_apart():
    pair = ViewPair([image_recipe("simclr", size=12)])(images(), index=torch.arange(6), generator=draw())
    assert not torch.equal(pair.first, pair.second) and pair.local is None
    assert torch.equal(pair.ids[0], torch.arange(6))


def test_byol_sides_differ():
    maker = image_recipe("byol", size=12)
    n = 4000
    first, second = (side.draw(n, images(1), draw()) for side in (maker.first, maker.second))
    assert (first.sigma > 0).all() and first.threshold.isinf().all()
    assert within(int((second.sigma > 0).sum()), n, 0.1) and within(int(second.threshold.isfinite().sum()), n, 0.2)
    x = images(5)
    pair, generator = maker.pair(Pair(x, 1 - x), generator=draw()), draw()
    assert torch.equal(pair.first, maker.first(x, generator=generator))
    assert torch.equal(pair.second, maker.second(1 - x, generator=generator))
    assert torch.equal(maker(x, generator=draw()), maker.second(x, generator=draw()))


@pytest.mark.parametrize(("side", "small"), [(12, 8), (28, 12), (32, 12), (64, 28), (96, 40), (224, 96)])
def test_sizes_of_small_crops(side, small):
    assert image_recipe("multicrop", size=side).size == (small, small)


def test_multicrop_pairs():
    x = scaled(images(5, height=32, width=20))
    maker = image_recipe("multicrop", size=(32, 20), crops=4, mean=MEAN, std=STD)
    pair = maker.pair(Pair(x, x), generator=draw())
    assert pair.first.shape == pair.second.shape == x.shape
    assert pair.local.shape == (5, 4, 3, 12, 8)
    assert pixels_of(pair.local).min() >= -1e-5 and pixels_of(pair.local).max() <= 1 + 1e-5
    areas = {}
    for name, side in (("full", maker.first), ("small", maker.local)):
        _, _, height, width = side.draw(2000, images(1, height=64, width=64), draw()).boxes.T
        areas[name] = height * width / 64**2
    assert areas["full"].min() > 0.36 and areas["full"].max() <= 1
    assert 0.03 < areas["small"].min() < 0.07 and 0.37 < areas["small"].max() < 0.43


def test_small_crops_show_their_own_image():
    x = torch.arange(5.0).view(5, 1, 1, 1).expand(5, 1, 16, 16) / 10
    maker = ImageViews(jitter=0, gray=0)
    assert torch.allclose(maker.crops(x, 3, (8, 8), draw()), x[:, None, :, :8, :8].expand(5, 3, 1, 8, 8))


def test_ids_and_small_crops_of_makers_before_pass_through():
    x = images(6, height=16, width=16)
    neighbors = Neighbors(2, space=lambda rows: rows.flatten(1))
    views = ViewPair(
        [neighbors, image_recipe("multicrop", size=16, crops=2), image_recipe("byol", size=16), Identity()]
    )
    views.prepare(x)
    pair = views(x, index=torch.arange(6), generator=draw())
    assert torch.equal(pair.ids[0], torch.arange(6)) and not (pair.ids[1] == pair.ids[0]).any()
    assert pair.local.shape == (6, 2, 3, 8, 8)
    after = image_recipe("simclr", size=16).pair(pair, generator=draw())
    assert after.local is pair.local and after.ids is pair.ids
    assert "one multi-crop" in refusal(image_recipe("multicrop", size=16).pair, pair)


def test_numbers_of_the_recipes():
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


# Refusals


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
@every_recipe
def test_other_batches_are_refused(name, x):
    assert "image views need images (B, C, H, W)" in refusal(image_recipe(name, size=8), x)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"flip": 1.5}, "flip = 1.5: expected a number from 0 to 1"),
        ({"gray": -0.1}, "gray = -0.1"),
        ({"contrast": -1}, "contrast = -1: expected a number of at least 0"),
        ({"hue": 0.6}, "hue = 0.6: expected a number from 0 to 0.5"),
        ({"scale": (0.0, 1.0)}, "scale = (0.0, 1.0): expected two numbers, low to high, above 0 and up to 1"),
        ({"scale": (0.5, 1.2)}, "scale = (0.5, 1.2)"),
        ({"scale": (0.5,)}, "scale = (0.5,)"),
        ({"ratio": (2.0, 1.0)}, "ratio = (2.0, 1.0)"),
        ({"sigma": (0.1, math.nan)}, "sigma"),
        ({"std": (0.1, 0.0, 0.2)}, "std = (0.1, 0.0, 0.2)"),
    ],
)
def test_settings_out_of_range_are_refused(settings, said):
    assert said in refusal(ImageViews, **settings)


def test_recipes_refuse_what_they_do_not_know():
    assert "expected one of simclr, moco, byol, multicrop" in refusal(image_recipe, "cutmix", size=32)
    assert "no setting 'color'" in refusal(image_recipe, "moco", size=32, color=1)
    assert "size = 1" in refusal(image_recipe, "moco", size=1)
    assert "0 small crops" in refusal(image_recipe, "multicrop", size=32, crops=0)
    assert "for images with 1" in refusal(ImageViews(mean=MEAN, std=STD), images(channels=1))
