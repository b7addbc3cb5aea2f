"""Lab colors against the definition of the CIE, pixel by pixel, and known colors."""

import numpy as np
import pytest
import torch

from refusals import refusal
from viewsmith.methods.metaug.networks import ColorSplit, rgb_to_lab, rgb_to_ydbdr


def lab_of_a_pixel(red, green, blue):
    """The definition, with Python floats."""
    lines = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)]
    matrix = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    ratios = [sum(m * c for m, c in zip(row, lines, strict=True)) / sum(row) for row in matrix]

    def f(t):
        return t ** (1 / 3) if t > (6 / 29) ** 3 else t / (3 * (6 / 29) ** 2) + 4 / 29

    x, y, z = map(f, ratios)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-3)])
def test_conversion_equals_the_definition(dtype, tolerance):
    pixels = torch.rand(2, 3, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pixels[0, :, 0] *= 0.05  # for dark pixels the definition is linear
    found = rgb_to_lab(pixels.to(dtype))
    assert found.dtype == dtype
    expected = [[[lab_of_a_pixel(*pixels[b, :, i, j].tolist()) for j in range(4)] for i in range(5)] for b in range(2)]
    np.testing.assert_allclose(found.numpy(), np.moveaxis(np.array(expected), 3, 1), atol=tolerance)


def test_values_out_of_range_are_clipped():
    x = torch.tensor([[-0.5, 1.5, 0.25]]).view(1, 3, 1, 1)
    torch.testing.assert_close(rgb_to_lab(x), rgb_to_lab(x.clamp(0, 1)))


def test_black_has_a_finite_gradient():
    x = torch.zeros(1, 3, 2, 2, dtype=torch.float64, requires_grad=True)
    rgb_to_lab(x).sum().backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_split_inverts_the_scaling(dtype):
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
    pixels = torch.rand(3, 3, 4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scaled = (pixels - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    split = ColorSplit(mean, std).to(dtype)
    rgb, lightness, color = split(scaled.to(dtype))
    assert [v.shape[1] for v in (rgb, lightness, color)] == list(split.channels) and lightness.dtype == dtype
    assert torch.equal(rgb, scaled.to(dtype))
    lab = rgb_to_lab(pixels)
    torch.testing.assert_close(lightness.double() * 50 + 50, lab[:, :1], rtol=0, atol=1e-3)
    torch.testing.assert_close(color[:, 0].double() * 92.208 + 6.025, lab[:, 1], rtol=0, atol=1e-3)
    torch.testing.assert_close(color[:, 1].double() * 101.1675 - 6.6895, lab[:, 2], rtol=0, atol=1e-3)
    assert not split.state_dict()  # the input layer of the model saves the scaling


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_luminance_and_color_differences_are_their_definition(dtype):
    """Y by its weights; Db and Dr are multiples of B - Y and R - Y (BT.470-6), each a view with values of order 1."""
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
    pixels = torch.rand(3, 3, 4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scaled = (pixels - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    split = ColorSplit(mean, std, "ydbdr").to(dtype)
    views = split(scaled.to(dtype))
    assert [v.shape[1] for v in views] == list(split.channels) == [1, 1, 1] and views[0].dtype == dtype
    red, green, blue = pixels.unbind(1)
    y = 0.299 * red + 0.587 * green + 0.114 * blue
    expected = (2 * y - 1, 1.505 * (blue - y) / 1.333, -1.902 * (red - y) / 1.333)
    for view, values in zip(views, expected, strict=True):
        torch.testing.assert_close(view[:, 0].double(), values, rtol=0, atol=2e-3)
    ends = torch.tensor([[0.0, 0, 1], [1, 1, 0], [1, 0, 0], [0, 1, 1]]).view(4, 3, 1, 1)
    assert rgb_to_ydbdr(ends)[:, 1:].abs().amax(1).flatten().tolist() == pytest.approx([1.333] * 4, abs=1e-3)


def test_l_and_ab_are_the_second_and_third_view_of_the_color_split():
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
    scaled = torch.randn(3, 3, 4, 5, generator=torch.Generator().manual_seed(1))
    _, *expected = ColorSplit(mean, std)(scaled)
    split = ColorSplit(mean, std, "l-ab")
    found = split(scaled)
    assert len(found) == 2 and split.channels == (1, 2)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert "the views L and ab need images of 3 channels" in refusal(ColorSplit, [0.5], [0.2], "l-ab")


def test_gray_images_are_refused():
    assert "the views Y, Db and Dr need images of 3 channels" in refusal(ColorSplit, [0.5], [0.2], "ydbdr")
    assert "need images of 3 channels, got 1" in refusal(ColorSplit, [0.5], [0.2])
