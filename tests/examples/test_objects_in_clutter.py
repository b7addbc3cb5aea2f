"""The example of objects in clutter: images with a known place, boxes, and the picture."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from viewsmith import CRLTAC

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "objects_in_clutter.py"))
SIDE, GLYPH = EXAMPLE["SIDE"], EXAMPLE["GLYPH"]


def test_every_image_has_its_digit_at_its_corner():
    images, corners, classes = EXAMPLE["scenes"](20)
    assert images.shape == (20, SIDE, SIDE) and images.dtype == np.uint8 and len(classes) == 20
    again, other = EXAMPLE["scenes"](20)[0], EXAMPLE["scenes"](20, seed=1)[0]
    assert np.array_equal(images, again) and not np.array_equal(images, other)
    for image, (top, left) in zip(images, corners, strict=True):
        digit = image[top : top + GLYPH, left : left + GLYPH]
        assert digit.shape == (GLYPH, GLYPH) and (digit > 100).mean() > 0.1


def test_a_box_is_right_if_its_center_is_in_the_digit():
    corners = np.array([[10, 20]] * 3)
    boxes = np.array([[14.0, 24, 20, 20], [0.5, 10.5, 20, 20], [0, 20, 20, 20]])
    assert EXAMPLE["is_found"](boxes, corners).tolist() == [True, True, False]


def test_the_picture_shows_places_before_and_after_training():
    images, corners, _ = EXAMPLE["scenes"](16)
    model = CRLTAC(epochs=1, batch_size=8, draws=2, channel_rows=2, random_state=0).fit(images)
    heat = EXAMPLE["heat"](model.untrained(images), images[:2])
    assert heat.shape == (2, SIDE, SIDE) and heat.sum() == pytest.approx(2 * 400, rel=1e-4)
    boxes = EXAMPLE["places"](model.untrained(images), images)
    assert not len(model.untrained(images).locate(images)) and len(np.unique(boxes, axis=0)) > 5
    figure = EXAMPLE["draw"](model, images, corners)
    assert len(figure.axes) == 24 and "of 16 images before training" in figure.get_suptitle()
