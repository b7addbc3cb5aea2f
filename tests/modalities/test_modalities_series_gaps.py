"""Recordings of unequal length and with gaps: what is not known changes nothing."""

import warnings

import numpy as np
import pytest
import torch

import viewsmith
from refusals import refusal
from viewsmith import CRLTAC, Contrastive, Discovery, LinearContrast
from viewsmith.core.registry import entries, find
from viewsmith.modalities import modality_of
from viewsmith.modalities.series import networks
from viewsmith.modalities.series.modality import channel_statistics, lengths, padded, reversed_in_time
from viewsmith.modalities.series.views import Jitter, Speed, TimeWindow
from viewsmith.networks.base import PartContext
from viewsmith.views.base import ViewContext

SERIES = modality_of("series")


def uneven(n=24, channels=2, shortest=20, longest=60, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(1, 2, (channels, length)).astype("f4") for length in rng.integers(shortest, longest + 1, n)]


def wider(x, points=9):
    """The same recordings with more that is not known after their ends."""
    return torch.nn.functional.pad(x, (0, points), value=torch.nan)


def test_padded_recordings_have_their_lengths():
    given = uneven()
    x = padded(given)
    assert x.shape == (24, 2, max(each.shape[1] for each in given)) and x.dtype == np.float32
    assert lengths(x).tolist() == [each.shape[1] for each in given]
    for row, each in zip(reversed_in_time(x), given, strict=True):
        np.testing.assert_array_equal(row[:, : each.shape[1]], each[:, ::-1])
        assert np.isnan(row[:, each.shape[1] :]).all()
    assert padded(given, 10).shape == (24, 2, 10)


def test_lists_of_recordings_of_one_channel_and_with_time_first():
    given = [each[0] for each in uneven(5)]
    as_objects = np.empty(5, dtype=object)
    as_objects[:] = given
    for each in (given, as_objects, [one.tolist() for one in given]):
        np.testing.assert_array_equal(SERIES.read(each), padded([one[None] for one in given]))
    time_first = [each.T for each in uneven(5)]
    assert refusal(SERIES.read, time_first).endswith("the same channels in all; put time last: [x.T for x in X]")
    assert "(channels, time) each, need modality='series'" in refusal(LinearContrast().fit, time_first)


def test_scaling_is_that_of_the_values_that_are_known():
    given = uneven()
    x = torch.from_numpy(padded(given))
    x[3, 1, 2:6] = torch.nan
    layer, values = networks.ChannelScaler(2), np.concatenate(given, axis=1)
    gap = given[3].copy()
    gap[1, 2:6] = np.nan
    values = np.concatenate([*given[:3], gap, *given[4:]], axis=1)
    assert layer.fit(x, "auto") == "standard"
    np.testing.assert_allclose(layer.each.center, np.nanmean(values, axis=1), rtol=1e-5)
    np.testing.assert_allclose(layer.each.scale, np.nanstd(values, axis=1), rtol=1e-5)
    assert torch.equal(layer(x).isnan(), x.isnan()) and torch.equal(layer.inverse(layer(x)).isnan(), x.isnan())
    x[:, 1] = torch.nan
    networks.ChannelScaler(2).fit(x, "auto")
    assert layer(x)[:, 0].nanmean().abs() < 0.1


def test_a_point_is_known_where_any_channel_is():
    x = torch.zeros(2, 2, 5)
    x[0, 1, 1:3], x[0, :, 4] = torch.nan, torch.nan
    assert networks.known_points(x).tolist() == [[True, True, True, True, False], [True] * 5]
    assert networks.last_points(x, networks.known_points(x)).tolist() == [[3], [4]]
    assert networks.known_points(x[1:]) is None


def test_the_encoder_does_not_depend_on_the_padding():
    x = torch.from_numpy(padded(uneven()))
    encoder = networks.RecordingCNN((6, 8, 8), kernel=7, n_components=5, channels=2)
    encoder.train()(x)
    assert torch.isfinite(encoder(x)).all()
    encoder.eval()
    torch.testing.assert_close(encoder(wider(x)), encoder(x), rtol=1e-5, atol=1e-6)
    alone = torch.cat([encoder(row[None, :, :end]) for row, end in zip(x, lengths(x.numpy()), strict=True)])
    torch.testing.assert_close(encoder(x), alone, rtol=1e-5, atol=1e-6)
    whole = x.nan_to_num()
    assert torch.equal(encoder(whole), encoder(torch.cat([whole, x]))[: len(x)])
    encoder(x.requires_grad_()).sum().backward()
    assert torch.isfinite(x.grad).all() and not x.grad[x.isnan()].any()


def test_minirocket_of_a_shorter_recording_is_that_of_it_alone():
    x = torch.from_numpy(padded(uneven()))
    features = networks.MiniRocket(PartContext((2, 60), 2), n_features=504)
    features.fit(x, torch.Generator().manual_seed(0))
    assert torch.isfinite(features.biases).all()
    found = features(x)
    torch.testing.assert_close(features(wider(x)), found)
    for row, made in zip(x, found, strict=True):
        end = int(lengths(row[None].numpy())[0])
        torch.testing.assert_close(features(row[None, :, :end])[0], made)
    # What is known is counted as before, and a gap is not counted.
    whole = x.nan_to_num()
    assert torch.equal(features(torch.cat([whole, x]))[: len(x)], features(whole))
    gap = whole.clone()
    gap[0, :, 8:14] = torch.nan
    assert not torch.equal(features(gap)[0], features(whole)[0]) and torch.isfinite(features(gap)).all()
    assert torch.equal(features(gap)[1:], features(whole)[1:])


def test_log_mel_does_not_depend_on_the_padding():
    x = torch.from_numpy(padded([0.1 * each for each in uneven(channels=1, shortest=700, longest=1000)]))
    features = networks.LogMelPatches(
        PartContext((1, x.shape[2]), 1), sampling_rate=800.0, centers=8, bands=12, frames=16
    )
    features.fit(x, torch.Generator().manual_seed(0))
    assert torch.isfinite(features(x)).all()
    assert torch.equal(features(x.nan_to_num()), features(x))


@pytest.mark.parametrize(
    "name",
    [each.name for each in entries("view maker", "series") if each.tag("strengths") and not each.tag("other_samples")],
)
def test_a_view_of_a_shorter_recording_is_known_where_it_is(name):
    x = torch.from_numpy(padded(uneven()))
    maker = find("view maker", name, "series").made(
        ViewContext(tuple(x.shape[1:]), x.shape[1], SERIES, torch.nn.Identity())
    )
    views = [maker(each, generator=torch.Generator().manual_seed(0)) for each in (x, x.nan_to_num())]
    known = ~views[0].isnan()
    if name != "speed":
        assert torch.equal(known, ~x.isnan())
    assert (known == known[:, :1]).all() and not (known.diff(dim=2).any(2) & ~known[:, :, 0]).any()


def test_windows_and_speeds_of_shorter_recordings_equal_slow_interpolation():
    given = [each.astype("f8") for each in uneven(8)]
    points = max(each.shape[1] for each in given)
    x = torch.full((8, 2, points), torch.nan, dtype=torch.float64)
    for row, each in zip(x, given, strict=True):
        row[:, : each.shape[1]] = torch.from_numpy(each)
    window = TimeWindow(0.4)(x, generator=torch.Generator().manual_seed(1))
    as_fast = TimeWindow(0.4, stretch=False)(x, generator=torch.Generator().manual_seed(1))
    speed = Speed(1.5)(x, generator=torch.Generator().manual_seed(1))
    generator = torch.Generator().manual_seed(1)
    fraction = 0.4 + 0.6 * torch.rand(8, 1, generator=generator, dtype=torch.float64)
    start = (1 - fraction) * torch.rand(8, 1, generator=generator, dtype=torch.float64)
    factor = 1.5 ** (2 * torch.rand(8, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64) - 1)
    for row, each in enumerate(given):
        last = each.shape[1] - 1
        at = last * (float(start[row]) + float(fraction[row]) * np.linspace(0, 1, last + 1))
        faster = float(factor[row]) * np.arange(points)
        for channel, values in enumerate(each):
            expected = np.interp(at, np.arange(last + 1), values)
            np.testing.assert_allclose(window[row, channel, : last + 1], expected, atol=1e-12)
            kept = np.arange(points) <= last * float(fraction[row])
            expected = np.interp(last * float(start[row]) + np.arange(points), np.arange(last + 1), values)
            np.testing.assert_allclose(as_fast[row, channel, kept], expected[kept], atol=1e-12)
            assert as_fast[row, channel, ~kept].isnan().all()
            expected = np.interp(faster, np.arange(last + 1), values, right=np.nan)
            np.testing.assert_allclose(speed[row, channel], expected, atol=1e-12)


def test_windows_of_one_length_are_stretched_and_noise_may_follow_the_recording():
    x = torch.randn(6, 2, 400, generator=torch.Generator().manual_seed(0))
    x *= torch.tensor([1e-3, 1, 0, 1, 1, 9])[:, None, None]
    views = [TimeWindow(0.4, stretch=each)(x, generator=torch.Generator().manual_seed(1)) for each in (True, False)]
    assert torch.equal(*views)
    x[0, :, 300:] = torch.nan
    noise = Jitter(0.1, relative=True)(x, generator=torch.Generator().manual_seed(1)) - x
    assert torch.equal(noise.isnan(), x.isnan()) and not noise[2].any()
    torch.testing.assert_close(noise[0, :, :300].std(1), 0.1 * x[0, :, :300].std(1), rtol=0.2, atol=0)


def test_statistics_of_a_channel_are_of_what_is_known():
    given = uneven(5)
    np.testing.assert_allclose(
        channel_statistics(padded(given)), np.concatenate([channel_statistics(each[None]) for each in given]), rtol=1e-5
    )
    none = padded(given)
    none[0, 1] = np.nan
    assert np.isfinite(channel_statistics(none)).all()


@pytest.mark.parametrize("estimator", [LinearContrast, Contrastive])
def test_a_model_of_recordings_of_any_length(estimator, tmp_path):
    given = uneven(50)
    options = {"epochs": 1, "batch_size": 8} if estimator is Contrastive else {}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(epochs|rows|n_components|batch).*")
        model = estimator(modality="series", random_state=0, **options).fit(given)
    h = model.transform(given)
    assert np.isfinite(h).all() and h.shape[0] == 50
    np.testing.assert_allclose(model.transform(given[:3]), h[:3], rtol=1e-4, atol=1e-5)
    views = model.views(given[:3], 2)
    assert views.shape[:2] == (3, 2) and np.isnan(views[0, :, :, given[0].shape[1] :]).all()
    assert all(np.isfinite(each).all() for each in model.raw_features(given).values())
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(viewsmith.load(tmp_path / "run").transform(padded(given)), h)
    assert "longer ones have to be cut" in refusal(model.transform, [np.zeros((2, 90)), np.zeros((2, 80))])


def test_gaps_are_said_and_what_has_no_value_is_refused():
    x = np.random.default_rng(0).normal(size=(40, 1, 30)).astype("f4")
    x[3, 0, 4:7] = np.nan
    with pytest.warns(UserWarning, match=r"the data: 1 recording of 40 with gaps \(NaN\), which are masked"):
        model = LinearContrast(modality="series", random_state=0).fit(x)
    assert np.isfinite(model.transform(x)).all()
    x[5] = np.nan
    assert "1 recording of 40 without a value (all NaN), such as number 5" in refusal(model.transform, x)
    message = refusal(LinearContrast(modality="series", impute="median").fit, x)
    assert "and the data are series: leave impute out" in message
    message = refusal(LinearContrast(modality="series").fit, [np.zeros((1, 9)), np.zeros((2, 8))])
    assert "shapes (1, 9), (2, 8), expected numbers (channels, time) with the same channels in all" in message
    message = refusal(CRLTAC(modality="series", epochs=1).fit, uneven())
    assert "recordings of one length" in message


def test_events_are_found_beside_gaps(small_searches):
    rng = np.random.default_rng(0)
    pieces = rng.normal(size=(60, 1, 200)).astype("f4")
    starts = rng.integers(0, 130, 60)
    for piece, start in zip(pieces, starts, strict=True):
        piece[0, start : start + 30] += 9 * np.hanning(30) * np.sin(np.arange(30))
    pieces[:20, :, 170:] = np.nan
    pieces[30, 0, 2:9] = np.nan
    found = Discovery(windows=[30], modality="series").fit(pieces).locate(pieces)
    assert (np.abs(found["start"] - starts[found["sample"]]) < 10).mean() > 0.9 and len(found) > 50
    assert (found["end"][found["sample"] < 20] <= 170).all()
