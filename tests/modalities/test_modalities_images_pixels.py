"""The input layer of images: scaling and its inverse."""

import numpy as np
import pytest
import torch

from viewsmith.modalities.images.channels import channel_ranges, with_scale_bar
from viewsmith.modalities.images.pixels import Pixels


def random_images(shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 200, shape).astype(np.uint8))


@pytest.mark.parametrize("shape", [(9, 5, 7), (9, 5, 7, 1), (9, 5, 7, 3)])
@pytest.mark.parametrize("scaling", ["standard", "global", "none", "auto"])
def test_scaling_equals_numpy_and_its_inverse_is_exact(shape, scaling):
    x = random_images(shape)
    pixels = Pixels(shape[1:])
    assert pixels.fit(x, scaling) == ("standard" if scaling == "auto" else scaling)
    planes = x.double().reshape(9, 5, 7, -1).movedim(3, 1) / 255
    if scaling == "none":
        expected = planes
    elif scaling == "global":
        expected = (planes - planes.mean()) / planes.std(correction=0)
    else:
        mean, std = planes.mean((0, 2, 3), keepdim=True), planes.std((0, 2, 3), keepdim=True, correction=0)
        expected = (planes - mean) / std
    torch.testing.assert_close(pixels(x).double(), expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(pixels.inverse(pixels(x)), x)


def test_the_inverse_clips_to_the_range_of_pixels():
    pixels = Pixels((1, 2))
    assert pixels.inverse(torch.tensor([[[[-0.3, 1.7]]]])).tolist() == [[[0, 255]]]


def test_constant_channels_are_divided_by_one():
    x = torch.full((4, 3, 3, 3), 51, dtype=torch.uint8)
    pixels = Pixels((3, 3, 3))
    pixels.fit(x, "standard")
    assert pixels(x).abs().max() < 1e-6 and torch.equal(pixels.inverse(pixels(x)), x)


@pytest.mark.parametrize(
    ("side", "width", "said", "pixels"),
    [
        (0.65, 100, "Bar: 20 µm.", 31),
        (500.0, 64, "Bar: 10 mm.", 20),
        (0.01, 30, "Bar: 100 nm.", 10),
        (1e7, 9, "Bar: 20 m.", 2),
    ],
)
def test_a_bar_of_a_round_length(side, width, said, pixels):
    pictures = np.random.default_rng(0).integers(50, 200, (3, 40, width, 3)).astype(np.uint8)
    drawn, text = with_scale_bar(pictures, side)
    assert text == said and drawn.dtype == np.uint8 and drawn is not pictures
    row = (drawn[0, 37, :, 0] == pictures.max()) & (drawn[0, 37, :, 1] == pictures.max())
    assert row.sum() == pixels or width < 10
    np.testing.assert_array_equal(drawn[:, :30], pictures[:, :30])
    assert with_scale_bar(pictures, float("nan"))[1] == ""


def test_the_range_of_a_channel_leaves_out_a_few_values_unless_it_has_no_others():
    values = np.zeros((10_000, 2), np.uint16)
    values[:3, 0], values[:, 1] = 700, np.arange(10_000)
    low, high = channel_ranges(values)
    assert low.tolist() == [0, pytest.approx(10, abs=0.1)] and high.tolist() == [700, pytest.approx(9989, abs=0.1)]
