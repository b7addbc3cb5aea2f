"""Images of 16 bits and of many channels through estimators: values, statistics, views, saving."""

import itertools

import numpy as np
import pytest
import torch

import viewsmith
from cases import covering, slow
from refusals import refusal
from viewsmith import CRLTAC, Contrastive, DiffAug, GenView, LinearContrast, MetAug, PiNDA
from viewsmith.estimator.figures import as_dataset
from viewsmith.modalities import Images
from viewsmith.modalities.images.channels import composites
from viewsmith.modalities.images.pixels import Intensities

RNG = np.random.default_rng(0)
CLASSES = RNG.integers(0, 3, 96)


def cells(channels=5, dtype="uint16", side=16):
    """A bright disc on a dark offset, in a channel that is the class; channels of different ranges."""
    rng = np.random.default_rng(1)
    x = rng.normal(200, 10, (96, side, side, channels))
    rows, columns = np.mgrid[:side, :side]
    for image, kind in zip(x, CLASSES, strict=True):
        center = rng.uniform(5, side - 5, 2)
        disc = (rows - center[0]) ** 2 + (columns - center[1]) ** 2 < 12
        image[disc, kind % channels] += 3000
    x *= np.geomspace(1, 4, channels)
    return (x / 60 if dtype == "uint8" else x).round().astype(dtype)


SMALL = {
    Contrastive: {"epochs": 1, "batch_size": 32},
    LinearContrast: {"n_components": 8},
    PiNDA: {"epochs": 1, "batch_size": 32},
}


@pytest.mark.parametrize(
    ("method", "form"),
    covering(itertools.product(SMALL, [("uint16", 5), ("float32", 2), ("uint16", 1), ("uint8", 4)]), (0,), (1,)),
)
def test_methods_train_on_them_and_views_come_back_in_their_type(method, form, tmp_path):
    dtype, channels = form
    x = cells(channels, dtype)
    model = method(random_state=0, **SMALL[method]).fit(x)
    h = model.transform(x)
    assert h.shape[0] == 96 and np.isfinite(h).all()
    views = model.views(x[:4], n_views=2)
    assert views.dtype == x.dtype and views.shape == (4, 2, 16, 16, channels)
    assert str(model.scaler_).startswith("(pixel / 255 - [" if dtype == "uint8" else "((value - [")
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(viewsmith.load(tmp_path / "run").transform(x), h)


@pytest.mark.parametrize(
    ("method", "dtype"), covering(itertools.product([DiffAug, GenView, CRLTAC], ["uint16", "float32"]), (0,), (1,))
)
def test_views_that_are_generated_or_learned_come_back_in_their_type(method, dtype, tmp_path):
    x, steps = cells(5, dtype), {} if method is CRLTAC else {"generator_epochs": 1, "sampler_steps": 2}
    model = method(epochs=1, batch_size=32, random_state=0, **steps).fit(x)
    h, views = model.transform(x), model.views(x[:4], n_views=2)
    side = 11 if method is CRLTAC else 16  # of its crops
    assert views.dtype == x.dtype and views.shape == (4, 2, side, side, 5)
    model.save(tmp_path / "run")
    again = viewsmith.load(tmp_path / "run")
    np.testing.assert_array_equal(again.transform(x), h)
    np.testing.assert_array_equal(again.views(x[:4], n_views=2), views)


def test_values_are_kept():
    x = cells()
    x[0, 0, 0] = 65535
    layer = Intensities(x.shape[1:], "uint16")
    layer.fit(torch.from_numpy(x), "standard")
    np.testing.assert_array_equal(layer.inverse(layer(torch.from_numpy(x))).numpy(), x)


def test_each_channel_has_its_own_range():
    x = cells()
    layer = Intensities(x.shape[1:], "uint16")
    assert layer.fit(torch.from_numpy(x), "auto") == "standard"
    low, high = np.percentile(x.reshape(-1, 5), (0.1, 99.9), axis=0)
    np.testing.assert_allclose(layer.low, low, rtol=1e-6)
    np.testing.assert_allclose(layer.span, high - low, rtol=1e-6)
    unit = layer.to_unit(torch.from_numpy(x)).numpy().clip(0, 1)
    np.testing.assert_allclose(layer.center, unit.mean((0, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(layer.scale, unit.std((0, 2, 3)), rtol=1e-4)
    # A few bright pixels change neither.
    x[0, :2, :2] = 65535
    other = Intensities(x.shape[1:], "uint16")
    other.fit(torch.from_numpy(x), "auto")
    np.testing.assert_allclose(other.span, layer.span, rtol=0.02)


def test_many_channels_train():
    x = np.random.default_rng(0).random((64, 8, 8, 60), dtype=np.float32)
    assert Contrastive(epochs=1, batch_size=32, random_state=0).fit_transform(x).shape[0] == 64


def test_views_chosen_are_crops_and_symmetries_without_colors():
    model = Contrastive(random_state=0, epochs=1).fit(cells())
    assert model.fitted_["view_maker"] == "turns"
    assert set(model.fitted_["symmetries"]) == {"mirror", "upside-down", "quarter-turn", "eighth-turn"}
    oblong = Contrastive(random_state=0, epochs=1).fit(cells()[:, :12])
    assert oblong.fitted_["view_options"]["turn"] == 0


def test_small_crops_take_the_place_of_symmetries_that_do_not_hold():
    x = np.zeros((96, 16, 16, 2), np.uint16)
    x[:, 2:5, 2:12] = x[:, 2:12, 2:4] = 1000  # a letter
    x += np.random.default_rng(0).integers(0, 50, x.shape).astype(np.uint16)
    model = LinearContrast(random_state=0, n_components=4).fit(x)
    assert not any(model.fitted_["view_options"][name] for name in ("flip", "upside_down", "turn", "diagonal"))
    assert (model.views(x[:4], 1)[:, 0] != x[:4]).any()


def test_recipes_leave_intensities_alone():
    x = cells(3)
    model = Contrastive(view_maker="simclr", crop_minimum=1.0, flip=0.0, epochs=1, random_state=0).fit(x)
    np.testing.assert_array_equal(model.views(x[:4], 1)[:, 0], x[:4])
    for name in ("color", "gray", "light"):
        assert "photographs of 8 bits" in refusal(Contrastive(view_maker=name, epochs=1).fit, x)


def test_gain_and_offset_are_not_clipped():
    x = cells(2, "float32")
    model = Contrastive(view_maker="gain", view_options={"gain_strength": 1.0}, epochs=1, random_state=0).fit(x)
    views = model.views(x[:32], 4)
    assert views.max() > 2 * x.max()
    offset = {"gain_strength": 0.0, "offset_strength": 0.5}
    model = Contrastive(view_maker="gain", view_options=offset, epochs=1, random_state=0).fit(x)
    shift = model.views(x[:8], 1)[:, 0] - x[:8]
    assert np.ptp(shift, axis=(1, 2)).max() < 1 and np.ptp(shift) > 100


def test_what_is_read_as_images():
    recognizes = Images().recognizes
    assert recognizes(cells()) and recognizes(cells(1)[..., 0]) and recognizes(cells(2, "float64"))
    assert recognizes(cells().astype(">u2"))
    assert not recognizes(cells(1, "float32")[..., 0])  # which may be recordings
    assert not recognizes(cells().transpose(0, 3, 1, 2))
    assert "X.transpose(0, 2, 3, 1)" in refusal(Contrastive().fit, cells().transpose(0, 3, 1, 2))
    assert "X.astype(np.uint16)" in refusal(Contrastive().fit, cells(2, "int16"))
    model = Contrastive(modality="images", epochs=1, random_state=0).fit(cells(1, "float32")[..., 0])
    assert model.fitted_["modality"] == "images"
    assert Contrastive(epochs=1, random_state=0).fit(cells(2, ">u2")).fitted_["statistics"]["dtype"] == "uint16"


def test_bad_values_and_mixed_depths_are_refused():
    x = cells(2, "float32")
    x[3, 0, :2] = np.nan
    assert "4 missing values (NaN) in 1 image of 96 (counted from 0: " in refusal(Contrastive(epochs=1).fit, x)
    model = Contrastive(epochs=1, random_state=0).fit(cells(3))
    assert "the images are uint8, but the model was fitted on uint16" in refusal(model.transform, cells(3, "uint8"))
    color = Contrastive(epochs=1, random_state=0).fit(cells(3, "uint8"))
    assert "the images are uint16, but the model was fitted on uint8" in refusal(color.transform, cells(3))


def test_constant_channels_and_saturated_pixels_are_said():
    x = cells(3)
    x[..., 1] = 0
    x[:, 2:4, 2:4, 2] = 4095
    x[..., 2] = x[..., 2].clip(0, 4095)
    with pytest.warns(UserWarning) as said:
        Contrastive(epochs=1, random_state=0).fit(x)
    text = "\n".join(str(each.message) for each in said)
    assert "the same value everywhere in channel (counted from 0) 1 (0)" in text
    assert "saturated pixels in channel (counted from 0) 2 (" in text and "at 4095" in text


def test_composites_have_a_color_for_each_channel():
    x = np.zeros((1, 4, 4, 2), np.uint16)
    x[0, 0, 0, 0] = 1000
    x[0, 1, 1, 1] = 60000
    drawn = composites(x)
    assert drawn.dtype == np.uint8 and drawn.shape == (1, 4, 4, 3)
    assert drawn[0, 0, 0].tolist() == [255, 0, 255] and drawn[0, 1, 1].tolist() == [0, 255, 0]
    gray = composites(x[..., :1])
    assert gray[0, 0, 0].tolist() == [255] * 3
    photographs = np.zeros((2, 4, 4, 3), np.uint8)
    assert Images().drawn(photographs) is photographs


def test_metaug_takes_them_and_parts_for_photographs_are_refused():
    x = cells(2)
    small = {"epochs": 1, "batch_size": 32, "random_state": 0}
    assert np.isfinite(MetAug(**small).fit_transform(x)).all()
    assert "split='color' is for photographs" in refusal(MetAug(split="color", **small).fit, cells(3))
    assert "features of CLIP are for photographs" in refusal(GenView(features="clip:nowhere", **small).fit, x)


@pytest.mark.parametrize("method", [LinearContrast, slow(PiNDA), slow(CRLTAC)])
def test_reports_draw_composites_and_a_strip_of_channels(method):
    x = cells(8, side=24)
    small = SMALL.get(method, {"epochs": 1, "batch_size": 32, "encoder": "cnn"})
    model = method(random_state=0, **small).fit(x)
    figures = {figure.title: figure for figure in model.figures(as_dataset(model, x, CLASSES))}
    assert figures["Views"].pictures
    strip = figures["Channels"]
    assert "channel 0 (magenta), channel 1 (green)" in strip.caption and strip.caption.endswith(" and 2 more")
    assert strip.pictures[0].drawn.shape[2] == 3
