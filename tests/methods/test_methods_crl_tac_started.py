"""The start of CRL-TAC's channel: centered images, and positives near each other."""

import numpy as np
import pytest
import torch

from crl_tac_toys import TINY, dna, images, vectors
from refusals import refusal
from viewsmith import CRLTAC
from viewsmith.views import Crops

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_images_are_centered_unless_most_of_their_pixels_are_black():
    dark = images()
    bright = np.maximum(dark, 1)
    bright[:, : bright.shape[1] // 2 - 1] = 0  # almost half
    scaling = [CRLTAC(**TINY).fit(x).fitted_["scaling"] for x in (dark, bright)]
    assert scaling == ["none", "standard"]
    assert CRLTAC(**TINY, scaling="none").fit(bright).fitted_["scaling"] == "none"
    uniform = CRLTAC(**TINY).fit(bright)
    assert abs(uniform.scaled(bright).mean()) < 1e-4


def test_crops_near_each_other_start_the_channel():
    x = images()
    assert [CRLTAC(**TINY, start_steps=n).fit(x).method_.start_steps for n in (0, 7)] == [0, 7]
    assert CRLTAC(**TINY).fit(x).method_.start_steps == 0  # mostly black
    method = CRLTAC(**TINY, scaling="standard").fit(x).method_
    assert method.start_steps == 50 and method.near.shape == (12, 12) and "near" not in method.state_dict()
    assert CRLTAC(**TINY, scaling="standard", channel="uniform").fit(x).method_.start_steps == 0
    assert CRLTAC(**TINY).fit(vectors()).method_.start_steps == 0
    given = CRLTAC(**TINY, start_steps=7, family=Crops(*x.shape[1:], crop=20, stride=4), encoder="cnn")
    assert given.fit(x).method_.start_steps == 7
    for make, options in ((vectors, {}), (dna, {}), (images, {"family": [torch.neg, torch.abs]})):
        message = refusal(CRLTAC(**TINY, start_steps=7, **options).fit, make())
        assert "start_steps is an option of crops without effect" in message


def test_the_channel_of_crops_prefers_what_recurs():
    x = images()  # mostly black
    weights = [CRLTAC(**TINY, recurrence_weight=weight).fit(x).method_.chosen_views.weight for weight in ("auto", 2)]
    assert weights == [3, 2]
    plain = ({"recurrence_weight": 0}, {"scaling": "standard"})
    uniform = ({"channel": "uniform"}, {"channel": "uniform", "recurrence_weight": 2})
    for options in (*plain, *uniform):
        assert CRLTAC(**TINY, **options).fit(x).method_.chosen_views is None
    for make in (vectors, dna):
        assert CRLTAC(**TINY).fit(make()).method_.chosen_views is None
        assert CRLTAC(**TINY, recurrence_weight=2).fit(make()).method_.chosen_views.weight == 2


def clutter(n=192, side=44):
    """Images of random tiles, 4 x 4 pixels, with an object of 24 x 24: stripes, different in each; and its corner."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (n, side // 4, side // 4)).repeat(4, 1).repeat(4, 2)
    corners = rng.integers(0, side - 24 + 1, (n, 2))
    phase, ways = rng.uniform(0, 6.3, (n, 1, 1)), rng.normal(0, 0.25, (n, 2, 1, 1))
    waves = np.sin(phase + ways[:, 0] * np.arange(24)[:, None] + ways[:, 1] * np.arange(24))
    for image, wave, (top, left) in zip(x, waves, corners, strict=True):
        image[top : top + 24, left : left + 24] = 127.5 + 127.5 * wave
    return x.astype(np.uint8), corners


@pytest.mark.slow
def test_the_channel_finds_an_object_in_clutter_in_few_steps():
    x, corners = clutter()
    found = {}
    for name, options in {"default": {"start_steps": 30}, "before": {"start_steps": 0, "scaling": "none"}}.items():
        boxes = CRLTAC(batch_size=32, epochs=5, random_state=0, **options).fit(x).locate(x)
        centers = np.stack([boxes["top"] + boxes["height"] / 2, boxes["left"] + boxes["width"] / 2], 1)
        off = np.abs(centers - corners[boxes["sample"]] - 12).max(1)
        found[name] = (off < 8).sum() / len(x)
    assert found["default"] > 0.7 and found["before"] < 0.5, found
