"""Recordings (n, channels, time): views, scaling, Contrastive and CRLTAC, commands, and errors."""

import numpy as np
import pytest
import torch
from scipy.interpolate import interp1d

import viewsmith
from crl_tac_toys import TINY
from refusals import refusal
from viewsmith import CRLTAC, Contrastive, DiffAug, PiNDA
from viewsmith.core.registry import entries, find
from viewsmith.modalities import modality_of
from viewsmith.modalities.series.modality import channel_statistics
from viewsmith.modalities.series.networks import ChannelScaler, RecordingCNN
from viewsmith.modalities.series.views import Amplitude, ChannelMask, Speed, TimeWindow
from viewsmith.networks import PositionScores
from viewsmith.views import Windows
from viewsmith.views.base import ViewContext

SERIES = modality_of("series")
VIEWS = [
    each.name for each in entries("view maker", "series") if each.tag("strengths") and not each.tag("other_samples")
]
SMALL = {"modality": "series", "epochs": 1, "batch_size": 8, "random_state": 0}


def recordings(n=16, channels=3, length=48, seed=0):
    """Noise with a bump in all channels, and the start of each bump."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, channels, length)) * [[1], [10], [0.1]][:channels] + [[5], [0], [-1]][:channels]
    starts = rng.integers(0, length - 8, n)
    for row, start in zip(x, starts, strict=True):
        row[:, start : start + 8] += [[8], [80], [0.8]][:channels]
    return x.astype(np.float32), starts


# ---- parts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", VIEWS)
def test_views_keep_the_form_and_replay(name, dtype):
    x = torch.from_numpy(recordings()[0]).to(dtype)
    maker = find("view maker", name, "series").made(ViewContext((3, 48), 3, SERIES, torch.nn.Identity()))
    views = [maker(x, generator=torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)]
    assert views[0].shape == x.shape and views[0].dtype == dtype and torch.equal(views[0], views[1])
    assert not torch.equal(views[0], views[2]) and not torch.equal(views[0], x)
    # A view depends on its own row and its draws alone.
    other = x.clone()
    other[1:] = 0
    assert torch.equal(maker(other, generator=torch.Generator().manual_seed(0))[0], views[0][0])


def test_some_windows_run_backward_and_some_recordings_change_their_sign():
    x = torch.arange(1.0, 31).repeat(400, 2, 1)
    generator = torch.Generator().manual_seed(0)
    steps = TimeWindow(0.4, reversal=0.3)(x, generator=generator).diff(dim=2)
    assert ((steps > 0).all(dim=2) | (steps < 0).all(dim=2)).all() and 0.2 < (steps < 0).float().mean() < 0.4
    flipped = Amplitude(0.0, sign_flip=0.3)(x, generator=generator)
    assert torch.equal(flipped.abs(), x) and torch.equal(flipped[:, 0], flipped[:, 1])
    assert 0.2 < (flipped < 0).float().mean() < 0.4


def test_a_window_is_a_part_of_the_recording_stretched_to_its_length():
    x = torch.randn(5, 2, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    view = TimeWindow(0.4)(x, generator=torch.Generator().manual_seed(1))
    generator = torch.Generator().manual_seed(1)
    fraction = 0.4 + 0.6 * torch.rand(5, 1, generator=generator, dtype=torch.float64)
    start = (1 - fraction) * torch.rand(5, 1, generator=generator, dtype=torch.float64)
    for row in range(5):
        first, last = 29 * float(start[row]), 29 * float(start[row] + fraction[row])
        for channel in range(2):
            at = np.linspace(first, last, 30)
            expected = interp1d(np.arange(30), x[row, channel].numpy())(at)
            np.testing.assert_allclose(view[row, channel].numpy(), expected, atol=1e-12)
    torch.testing.assert_close(TimeWindow(1.0)(x, generator=generator), x)


def test_speed_equals_a_slow_interpolation():
    x = torch.randn(5, 2, 40, dtype=torch.float64)
    found = Speed(1.5)(x, generator=torch.Generator().manual_seed(0))
    drawn = torch.rand(5, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for sample, made, u in zip(x.numpy(), found.numpy(), drawn[:, 0].tolist(), strict=True):
        factor = 1.5 ** (2 * u - 1)
        for channel, values in zip(sample, made, strict=True):
            expected = np.interp(factor * np.arange(40), np.arange(40), channel, right=0.0)
            np.testing.assert_allclose(values, expected, atol=1e-12)


def test_speed_of_factor_one_changes_nothing():
    x = torch.randn(3, 1, 17)
    torch.testing.assert_close(Speed(1.0)(x), x)
    assert "limit is 0.9, expected at least 1" in refusal(Speed, 0.9)


def test_a_channel_mask_keeps_at_least_one_channel():
    x = torch.ones(400, 3, 8)
    kept = ChannelMask(0.5)(x, generator=torch.Generator().manual_seed(0)).amax(dim=2)
    assert set(kept.unique().tolist()) == {0, 1} and kept.amax(dim=1).min() == 1
    assert (ChannelMask(1.0)(x).amax(dim=2).sum(dim=1) == 1).all() and torch.equal(ChannelMask(0.0)(x), x)


def test_each_channel_is_scaled_over_all_recordings_and_times():
    x = torch.from_numpy(recordings()[0])
    layer = ChannelScaler(3)
    assert layer.fit(x, "auto") == "standard"
    expected = (x - x.mean(dim=(0, 2), keepdim=True)) / x.std(dim=(0, 2), keepdim=True, correction=0)
    torch.testing.assert_close(layer(x), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(layer.inverse(layer(x)), x, rtol=1e-4, atol=1e-4)


def test_windows_of_recordings_ignore_no_zeros():
    torch.manual_seed(0)
    family, network = Windows(fraction=0.25, count=4, padded=False), PositionScores(2, padded=False)
    torch.nn.init.normal_(network.conv2.weight)
    x = torch.randn(2, 2, 16)
    x[:, :, 10:] = 0
    assert family.boxes(x)[0, :, 1].tolist() == [0, 4, 8, 12] and (family.boxes(x)[..., 3] == 4).all()
    assert torch.equal(family.take(x, torch.tensor([[1], [3]]))[1, 0], x[1, :, 12:])
    logits = network(x)
    expected = torch.stack([logits[:, first : first + 4].mean(dim=1) for first in (0, 4, 8, 12)], dim=1)
    torch.testing.assert_close(family.scores(network, x), expected)
    encoder = RecordingCNN((4, 6), n_components=5, channels=2).eval()
    shifted = x + 1
    torch.testing.assert_close(encoder(x)[:1], encoder(x[:1]))
    assert not torch.allclose(encoder(shifted), encoder(x)) and encoder(torch.zeros(1, 2, 16)).isfinite().all()


def test_statistics_of_channels():
    x = np.array([[[1.0, 3.0, 2.0], [0.0, 0.0, 6.0]]])
    expected = [2, 2, np.std([1, 3, 2]), np.std([0, 0, 6]), 1, 0, 3, 6, 1.5, 3]
    np.testing.assert_allclose(channel_statistics(x)[0], expected)


# ---- estimators -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", [Contrastive(**SMALL), CRLTAC(**TINY, modality="series")], ids=lambda model: model.name
)
def test_a_run_on_recordings_is_saved_and_resumed(model, tmp_path):
    x = recordings()[0]
    whole = model.set_params(epochs=2).fit(x, run=tmp_path / "whole")
    assert whole.transform(x).shape == (16, 256) and np.isfinite(whole.transform(x)).all()
    np.testing.assert_array_equal(viewsmith.load(tmp_path / "whole").transform(x), whole.transform(x))
    np.testing.assert_allclose(whole.transform(x[3:4])[0], whole.transform(x)[3], rtol=1e-4, atol=1e-5)
    views = whole.views(x, n_views=2)
    length = 24 if model.name == "crl-tac" else 48
    assert views.shape == (16, 2, 3, length) and views.dtype == np.float32
    part = type(model)(**model.get_params())
    part.set_params(minutes=1e-9).fit(x, run=tmp_path / "part")
    assert part.status_ == "time limit"
    again = type(model)(**model.get_params()).set_params(minutes=None).fit(x, run=tmp_path / "part", resume=True)
    np.testing.assert_array_equal(again.transform(x), whole.transform(x))


def test_views_of_the_channel_are_windows_in_the_units_of_the_data():
    x = recordings()[0]
    model = CRLTAC(**TINY, modality="series", windows=5, window_fraction=0.25).fit(x)
    assert model.distribution(x).shape == (16, 5)
    for view in model.views(x, n_views=3)[2]:
        assert any(np.allclose(view, x[2, :, s : s + 12], rtol=1e-3, atol=1e-3) for s in (0, 9, 18, 27, 36))


def test_locate_and_crops_give_start_and_end():
    x, starts = recordings(24)
    model = CRLTAC(**TINY, modality="series", windows=21, window_fraction=0.167).fit(x)
    scores = model.method_.channel.scores
    with torch.no_grad():  # the channel prefers high values
        scores.conv1.weight.zero_()
        scores.conv1.weight[:, :, 5] = 1
        scores.conv2.weight.zero_()
        scores.conv2.weight[:, :, 2] = 0.1
        model.method_.chosen.zero_()
    crops, found = model.crops(x)
    assert found.dtype.names == ("sample", "start", "end", "probability") and len(found) == 24
    assert (found["end"] - found["start"] == 8).all() and np.abs(found["start"] - starts).max() <= 2
    assert crops.shape == (24, 3, 8) and crops.dtype == np.float32
    np.testing.assert_array_equal(crops[4], x[4, :, found["start"][4] : found["end"][4]])


@pytest.mark.parametrize("views", ["neighbors", "adversarial", "jitter+channel-mask", "channel:"])
def test_views_of_other_modalities_and_of_a_trained_channel(tmp_path, views):
    x = recordings()[0]
    if views == "channel:":
        CRLTAC(**TINY, modality="series").fit(x, run=tmp_path / "run")
        views += str(tmp_path / "run")
    model = Contrastive(**SMALL, view_maker=views).fit(x)
    assert np.isfinite(model.transform(x)).all() and model.views(x[:3], n_views=2, pool=x).shape[:3] == (3, 2, 3)


def test_forms_of_recordings():
    x = recordings()[0]
    model = Contrastive(**SMALL).fit(x)
    expected = model.transform(x)
    for form in (x.astype(np.float64), torch.from_numpy(x), list(x)):
        np.testing.assert_array_equal(model.transform(form), expected)


# ---- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (np.zeros((4, 20)), "shape (4, 20); recordings are numbers (n, channels, time), with at least 8 points"),
        (np.zeros((4, 20, 3)), "put time last: X.transpose(0, 2, 1)"),
        ([np.zeros((2, 20)), np.zeros((1, 19))], "expected numbers (channels, time) with the same channels in all"),
        (np.full((4, 2, 20), "a"), "expected numbers"),
    ],
)
def test_other_arrays_are_refused(x, expected):
    assert expected in refusal(Contrastive(**SMALL).fit, x)


def test_recordings_are_never_recognized():
    x = recordings()[0]
    message = refusal(Contrastive(epochs=1).fit, x)
    assert message.endswith("recordings (n, channels, time) need modality='series' (--modality series)")
    images = np.zeros((4, 8, 8), np.uint8)
    assert Contrastive(epochs=1, batch_size=2).fit(images).modality_.name == "images"
    model = Contrastive(**SMALL).fit(x)
    assert "fitted on (3, 48)" in refusal(model.transform, x[:, :2])


@pytest.mark.parametrize("method", [PiNDA, DiffAug])
def test_methods_that_need_a_generator_say_so(method):
    assert refusal(method(**SMALL).fit, recordings()[0]).endswith("use another method")
