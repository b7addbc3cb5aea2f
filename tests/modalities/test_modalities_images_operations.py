"""Operations of image views: against torchvision, by hand, against loops; gradients; random boxes."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from color_steps import adjust_brightness, adjust_contrast, adjust_hue, adjust_saturation, gray
from image_toys import MEAN, STD, both_dtypes, close, draw, images, numbers, scaled, within
from torch.autograd import gradcheck

from viewsmith.modalities.images import operations as resampling
from viewsmith.modalities.images.operations import blur, blur_size, crop, random_boxes, recolor, solarize

FIXTURE = Path(__file__).parent / "fixtures" / "torchvision_images.npz"
# The weight of red is .2989 in torchvision, so that its weights add up to .9999.
LUMA_TOLERANCE = 2e-4


@pytest.fixture(scope="module")
def truth():
    """Results of torchvision, as tensors."""
    with np.load(FIXTURE, allow_pickle=False) as archive:
        return {name: torch.from_numpy(archive[name]) for name in archive.files if name != "torchvision"}


# --- against torchvision


@both_dtypes
@pytest.mark.parametrize(("name", "size"), [("same", None), ("small", (4, 5)), ("large", (14, 13))])
def test_crop_equals_torchvision(truth, name, size, dtype):
    close(crop(truth["x"].to(dtype), truth["boxes"], size), truth[f"crop_{name}"])


def test_flip_equals_torchvision(truth):
    whole = numbers(0, 0, 9, 12).expand(4, 4)
    assert torch.equal(crop(truth["x"], whole, flip=torch.ones(4, dtype=torch.bool)), truth["hflip"])


@both_dtypes
def test_brightness_contrast_saturation_and_gray_equal_torchvision(truth, dtype):
    x, factors = truth["x"].to(dtype), truth["factors"].to(dtype)
    close(adjust_brightness(x, factors), truth["brightness"])
    close(adjust_contrast(x, factors), truth["contrast"], LUMA_TOLERANCE)
    close(adjust_saturation(x, factors), truth["saturation"], LUMA_TOLERANCE)
    close(gray(x), truth["gray"], LUMA_TOLERANCE)


@both_dtypes
@pytest.mark.parametrize("taps", [3, 7])
def test_blur_equals_torchvision(truth, taps, dtype):
    close(blur(truth["x"].to(dtype), truth["sigmas"].to(dtype), taps), truth[f"blur_{taps}"])


def test_solarization_equals_torchvision(truth):
    assert torch.equal(solarize(truth["x"], numbers(0.25, 0.5, 0.75, 1.0, dtype=torch.float32)), truth["solarize"])


def test_hue_rotates_colors_by_the_angle_of_torchvision(truth):
    def angle(x):
        red, green, blue = x.double().unbind(1)
        return torch.atan2(3**0.5 * (green - blue), 2 * red - green - blue) / (2 * math.pi)

    # Faint colors, so that no value has to be clamped.
    x = 0.5 + 0.1 * (truth["x"].double() - 0.5)
    turned = (angle(adjust_hue(x, truth["hues"].double())) - angle(x)) % 1
    assert ((turned - truth["hues"].view(4, 1, 1) + 0.5) % 1 - 0.5).abs().max() < 1e-9
    # torchvision's hues are on a hexagon, these are on a circle: they differ by up to 1.1 degrees at each end.
    theirs = (angle(truth["hue"]) - angle(truth["x"])) % 1
    colorful = truth["x"].amax(1) - truth["x"].amin(1) > 0.05
    differ = ((theirs - truth["hues"].view(4, 1, 1) + 0.5) % 1 - 0.5).abs()
    assert differ[colorful].max() < 2.5 / 360


# --- by hand and against loops


def slow_crop(image, box, size):
    """A crop of a fractional box, pixel by pixel."""
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


@pytest.mark.parametrize("widest", [64, 0], ids=["matrix product", "rows of the transposed image"])
def test_fractional_boxes_and_several_views_against_a_loop(monkeypatch, widest):
    monkeypatch.setattr(resampling, "MAX_MATRIX_WIDTH", widest)
    x = images(2, dtype=torch.float64)
    boxes = numbers(
        *[[0.3, 1.2, 7.5, 8.1], [2, 2, 4, 4], [5.5, 0, 6.5, 3.2], [0, 0, 12, 10], [1, 1, 1.5, 1], [3, 4, 9, 6]]
    )
    views = crop(x, boxes, (5, 7))
    expected = torch.stack([slow_crop(x[i // 3], box, (5, 7)) for i, box in enumerate(boxes)])
    close(views, expected, 1e-12)


@pytest.mark.parametrize("widest", [64, 0], ids=["matrix product", "rows of the transposed image"])
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


def test_kernel_sizes_of_the_blur():
    assert [blur_size(side) for side in (8, 32, 64, 96, 224)] == [3, 3, 7, 9, 23]


def test_color_operations_on_one_channel():
    x, half = images(channels=1), numbers(0.5, dtype=torch.float32).expand(6)
    assert torch.equal(gray(x), x)
    assert torch.equal(adjust_hue(x, half), x) and torch.equal(adjust_saturation(x, half), x)
    one = torch.ones(6)
    assert torch.equal(recolor(x, one, one, half, half), x)
    close(recolor(x, half, half, half, half), adjust_brightness(adjust_contrast(x, half), half))


# --- all color operations at once


@both_dtypes
def test_recolor_equals_the_four_operations_in_any_order(dtype):
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


def test_recolor_clamps_once_at_the_end():
    x = numbers(0.2, 0.8).view(1, 1, 1, 2).expand(1, 3, 1, 2)
    two, half, one, none = (numbers(v) for v in (2.0, 0.5, 1.0, 0.0))
    # 2 (.5 x + .25) is .7 and 1.3; the separate operations clamp 1.6 to 1 before the contrast.
    assert torch.allclose(recolor(x, two, half, one, none)[0, 0, 0], numbers(0.7, 1.0))
    assert torch.allclose(adjust_contrast(adjust_brightness(x, two), half)[0, 0, 0], numbers(0.55, 0.85))


# --- gradients


def test_gradients_of_crop_and_blur():
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


# --- random boxes


def test_boxes_have_the_documented_distribution():
    n, side = 20_000, 200
    boxes = random_boxes(n, (side, side), (0.08, 0.6), (3 / 4, 4 / 3), images(1), draw())
    top, left, height, width = boxes.T
    assert torch.equal(boxes, boxes.round())
    assert (top >= 0).all() and (left >= 0).all() and (top + height <= side).all() and (left + width <= side).all()
    area, ratio = height * width / side**2, (width / height).log()
    # Below .75 of the area every shape fits, so the first try is used, and both are uniform.
    fractions = (area - 0.08) / 0.52
    for values in (fractions, (ratio + math.log(4 / 3)) / (2 * math.log(4 / 3))):
        counts = torch.histc(values.clamp(0, 1), 10, 0, 1)
        assert all(within(int(count), n, 0.1) for count in counts)
    # The corner is uniform, too, in the remaining space.
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
def test_random_boxes_equal_the_published_loop(image, fallback):
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
