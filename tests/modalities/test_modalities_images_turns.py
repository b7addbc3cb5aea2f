"""Image views that change one thing: mirrors and turns, their copies, light, color, blur, gain."""

import numpy as np
import pytest
import torch
from image_toys import MEAN, STD, draw, images, pixels_of, scaled

from refusals import refusal
from viewsmith import LinearContrast
from viewsmith.core.registry import find
from viewsmith.modalities import modality_of
from viewsmith.modalities.images.single_views import ValueViews, gain
from viewsmith.modalities.images.views import ImageViews, image_recipe, turned_by_eighth
from viewsmith.views import PositivePair
from viewsmith.views.base import ViewContext

WHOLE = {"scale": (1.0, 1.0), "flip": 0.0, "jitter": 0.0, "gray": 0.0}
COPIES = {
    (): ["e"],
    ("flip",): ["e", "m"],
    ("upside_down",): ["e", "u"],
    ("flip", "upside_down"): ["e", "m", "u", "um"],
    ("turn",): ["e", "r", "rr", "rrr"],
    ("flip", "turn"): ["e", "r", "rr", "rrr", "m", "rm", "rrm", "rrrm"],
    ("upside_down", "turn"): ["e", "r", "rr", "rrr", "u", "ru", "rru", "rrru"],
    ("flip", "upside_down", "turn"): ["e", "r", "rr", "rrr", "m", "rm", "rrm", "rrrm"],
}


def moved(x, name):
    """An image after turns r, mirrors m and u, from left to right."""
    for step in name:
        x = {"e": lambda x: x, "m": lambda x: x.flip(3), "u": lambda x: x.flip(2), "r": lambda x: x.rot90(1, (2, 3))}[
            step
        ](x)
    return x


@pytest.mark.parametrize("on", COPIES, ids="+".join)
def test_views_are_copies_and_every_copy_is_a_view_of_views(on):
    x = images(1, 3, 8, 8)
    maker = ImageViews(**WHOLE | dict.fromkeys(on, 0.5))
    copies = maker.symmetric_copies(x)
    assert len(copies) == len(COPIES[on]) and torch.equal(copies[0], x)
    for copy, name in zip(copies, COPIES[on], strict=True):
        assert torch.equal(copy, moved(x, name)), name
    views = maker(x.expand(200, -1, -1, -1), generator=draw())
    twice = maker(views, generator=draw(1))
    for made in (views, twice):
        known = [[torch.equal(view, copy[0]) for copy in copies] for view in made]
        assert all(sum(row) == 1 for row in known)
    assert np.array(known).any(0).all()


def test_half_of_the_quarter_turns_go_to_the_left():
    x = images(1, 1, 6, 6)
    views = ImageViews(**WHOLE | {"turn": 0.5})(x.expand(4000, -1, -1, -1), generator=draw())
    share = [np.mean([torch.equal(view, x.rot90(k, (2, 3))[0]) for view in views]) for k in (0, 1, 3)]
    assert np.allclose(share, [0.5, 0.25, 0.25], atol=0.03)


def test_without_turns_the_draws_are_those_of_before():
    x = images(20, 3, 8, 8)
    plain, turning = ImageViews(), ImageViews(upside_down=1.0)
    ours = turning.draw(20, x, draw())
    for name in ("boxes", "flip", "brightness", "hue", "sigma", "threshold"):
        assert torch.equal(getattr(plain.draw(20, x, draw()), name), getattr(ours, name))
    torch.testing.assert_close(turning(x, generator=draw()), plain(x, generator=draw()).flip(2))


def test_turned_views_have_no_boxes():
    x = images(4, 3, 8, 8)
    for recipe in ("simclr", "byol"):
        for rates, boxes in (({}, True), ({"turn": 0.5}, False), ({"upside_down": 0.5}, False)):
            pair = image_recipe(recipe, size=8, **rates).pair(PositivePair(x, x), generator=draw())
            assert (pair.crops is not None) == boxes


def test_images_that_are_not_square_are_not_turned():
    assert "12 x 10 pixels: quarter turns need square images" in refusal(ImageViews(turn=0.5), images())
    assert ImageViews(upside_down=1.0, **WHOLE)(images()).shape == images().shape


def maker(name, **options):
    statistics = {"pixel_mean": list(MEAN), "pixel_scale": list(STD)}
    context = ViewContext((12, 10, 3), 3, modality_of("images"), torch.nn.Identity(), statistics, name=name)
    return find("view maker", name, "images").made(context, **options)


def test_each_maker_changes_one_thing():
    x = scaled(images(50, low=0.15, high=0.3))
    plain = pixels_of(x)
    views = {name: pixels_of(maker(name)(x, generator=draw())) for name in ("light", "gain", "gray", "color")}
    # Light: one linear function of all pixels of an image.
    for image, view in zip(plain, views["light"], strict=True):
        before, after = (pixels.flatten().double().numpy() for pixels in (image, view))
        assert np.abs(np.polyval(np.polyfit(before, after, 1), before) - after).max() < 1e-4
    # Gain: one factor of each channel of each image.
    factor = views["gain"] / plain
    assert factor.std((2, 3)).max() < 1e-5 and factor.mean((2, 3)).log().std() > 0.15
    same = (views["gray"] - plain).abs().amax((1, 2, 3)) < 1e-5
    assert 10 < same.sum() < 40 and views["gray"][~same].std(1).max() < 1e-5
    weights = torch.tensor([0.299, 0.587, 0.114])[:, None, None]
    unclipped = ((views["color"] > 0) & (views["color"] < 1)).all(1)
    assert ((views["color"] * weights).sum(1) - (plain * weights).sum(1))[unclipped].abs().max() < 0.02


def test_gain_is_clipped_to_pixels_and_none_changes_nothing():
    x = images(20, 2, 5, 5)
    strong, none = (ValueViews(lambda u, g, s=s: gain(u, s, 0.0, g), [0.0], [1.0], True) for s in (2.0, 0.0))
    view = strong(x, generator=draw())
    assert view.min() >= 0 and view.max() == 1
    torch.testing.assert_close(none(x, generator=draw()), x)


@pytest.mark.parametrize(
    ("name", "options"), [("light", {"light_strength": 0.0}), ("turns", {"flip": 0.0, "upside_down": 0.0, "turn": 0.0})]
)
def test_views_of_strength_0_are_the_samples(name, options):
    x = scaled(images(low=0.05, high=0.95))
    torch.testing.assert_close(maker(name, **options)(x, generator=draw()), x, atol=1e-5, rtol=1e-5)


def test_an_eighth_turn_twice_is_a_quarter_turn():
    at = torch.linspace(-1, 1, 32)
    x = torch.stack([at[None] * at[:, None] + at[None] ** 3, (3 * at[None]).sin() + at[:, None]])[None]
    inner = (at[None] ** 2 + at[:, None] ** 2) < 0.7
    once = turned_by_eighth(x)
    assert ((turned_by_eighth(once) - x.rot90(1, (2, 3)))[..., inner].abs() < 2e-2).all()
    assert (once - x)[..., inner].abs().max() > 0.3
    flat = torch.full((2, 3, 9, 9), 4.0)
    torch.testing.assert_close(turned_by_eighth(flat), flat)


def test_copies_and_views_turned_by_45_degrees():
    x = images(1, 3, 8, 8)
    maker = ImageViews(**WHOLE | dict.fromkeys(("flip", "turn", "diagonal"), 0.5))
    copies = maker.symmetric_copies(x)
    assert len(copies) == 16 and torch.equal(copies[0], x)
    torch.testing.assert_close(copies[4:8], [turned_by_eighth(x).rot90(k, (2, 3)) for k in range(4)])
    views = maker(x.expand(300, -1, -1, -1), generator=draw())
    near = torch.stack([torch.stack([(view - copy[0]).abs().max() for copy in copies]) for view in views]) < 1e-4
    # Half a turn is two quarter turns, which a view never has, but as a mirror image turned the other way.
    assert (near.sum(1) == 1).all() and int(near.any(0).sum()) >= 12
    alone = ImageViews(**WHOLE | {"diagonal": 0.5})  # without quarter turns there is none
    assert len(alone.symmetric_copies(x)) == 1 and torch.equal(alone(x), x)


@pytest.mark.parametrize("dtype", ["uint16", "float32"])
def test_whether_an_eighth_turn_keeps_images_of_instruments_is_tested(dtype):
    rng = np.random.default_rng(0)
    rows, columns = np.ogrid[:16, :16]
    cells = np.stack(
        [1000 * np.exp(-((rows - a) ** 2 + (columns - b) ** 2) / 9) for a, b in rng.uniform(5, 10, (80, 2))]
    )
    cells = (cells[..., None] + rng.normal(0, 20, (80, 16, 16, 2)) + 200).astype(dtype)
    model = LinearContrast(n_components=4, random_state=0).fit(cells)
    assert (
        model.fitted_["view_options"]["diagonal"] == 0.5 and model.fitted_["symmetries"]["eighth-turn"]["rate"] == 0.5
    )
    assert len(model.method_.views.symmetric_copies(model.scale_rows(cells[:1]))) == 16
    striped = np.where(np.arange(16) % 4 < 2, 1000, 100)[:, None, None] + rng.normal(0, 20, (80, 16, 16, 2)) + 200
    model = LinearContrast(n_components=4, random_state=0).fit(striped.astype(dtype))
    assert model.fitted_["view_options"]["diagonal"] == 0
