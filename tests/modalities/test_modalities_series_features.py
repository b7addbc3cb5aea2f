"""Features of recordings: MiniRocket against slow loops, log-mel spectrograms against a slow transform, contours."""

import itertools
import math

import numpy as np
import pytest
import torch
from make_minirocket_fixture import FIXTURE, SHAPES, features_of_aeon

from drawn import draw
from viewsmith.modalities.series import networks
from viewsmith.networks import PartContext


def recordings(n, channels, length, seed=0):
    return torch.randn(n, channels, length, generator=torch.Generator().manual_seed(seed))


def slow_dilations(length, each):
    """As the paper's section 3.1.3 and its code have them, by numpy."""
    number = min(each, 32)
    exponent = max(0.0, np.log2((length - 1) / 8))
    found, counts = np.unique(np.logspace(0, exponent, number, base=2).astype(int), return_counts=True)
    counts = (counts * (each / number)).astype(int)
    for i in range(each - counts.sum()):
        counts[i % len(counts)] += 1
    return list(zip(found.tolist(), counts.tolist(), strict=True))


@pytest.mark.parametrize("each", [1, 2, 23, 32, 119])
def test_dilations_of_numpy(each):
    for length in [*range(8, 200), 427, 1000, 1024, 1025, 5000]:
        assert networks.dilations(length, each) == slow_dilations(length, each), length


def slow_convolution(x, kernel, dilation):
    """One recording (T,) with a kernel of nine taps, zeros beyond its ends."""
    found = np.zeros(len(x))
    for t in range(len(x)):
        for tap, weight in enumerate(kernel):
            at = t + (tap - 4) * dilation
            found[t] += weight * x[at] if 0 <= at < len(x) else 0
    return found


def slow_fractions(features, sample):
    """The features of one recording (C, T), one bias at a time, in the order of dilations, kernels and biases."""
    kernels = [[2 if tap in chosen else -1 for tap in range(9)] for chosen in itertools.combinations(range(9), 3)]
    found, place = [], 0
    for number, (dilation, count) in enumerate(features.dilations):
        for k, kernel in enumerate(kernels):
            used = [c for c in range(len(sample)) if features.channels[number, k, c]]
            convolved = slow_convolution(sum(sample[c] for c in used), kernel, dilation)
            border = 4 * dilation
            if (number + k) % 2 and len(convolved) > 2 * border:
                convolved = convolved[border:-border]
            for _ in range(count):
                found.append(np.mean(convolved > float(features.biases[place])))
                place += 1
    return np.array(found)


@pytest.mark.parametrize(("channels", "length"), [(1, 8), (1, 9), (1, 41), (4, 33), (40, 33)])
def test_fractions_of_a_slow_loop(channels, length):
    features = networks.MiniRocket(PartContext((channels, length), channels), n_features=84 * 5)
    features.fit(recordings(12, channels, length), draw(0))
    x = recordings(2, channels, length, seed=1)
    expected = np.array([slow_fractions(features, sample) for sample in x.double().numpy()])
    np.testing.assert_allclose(features(x), expected, atol=1e-6)


def test_biases_are_quantiles_of_convolved_training_recordings():
    """With one training recording it is known which one was drawn."""
    x = recordings(1, 1, 60)
    features = networks.MiniRocket(PartContext((1, 60), 1), n_features=84 * 7)
    features.fit(x, draw(0))
    kernels = [[2 if tap in chosen else -1 for tap in range(9)] for chosen in itertools.combinations(range(9), 3)]
    quantiles = (np.arange(1, 84 * 7 + 1) * (math.sqrt(5) + 1) / 2) % 1
    place = 0
    for dilation, count in features.dilations:
        for kernel in kernels:
            part = slice(place, place + count)
            expected = np.quantile(slow_convolution(x[0, 0].double().numpy(), kernel, dilation), quantiles[part])
            np.testing.assert_allclose(features.biases[part], expected, rtol=1e-4, atol=1e-4)
            place += count
    assert place == features.n_features == 84 * 7


def test_biases_come_from_many_recordings():
    x = torch.zeros(8, 1, 30)
    x[1:] = 10.0 ** torch.arange(7).view(7, 1, 1) * recordings(7, 1, 30)
    features = networks.MiniRocket(PartContext((1, 30), 1), n_features=84)
    features.fit(x, draw(0))
    size = features.biases.abs()
    assert (size == 0).any() and (size > 1e5).any() and ((size > 1) & (size < 1e3)).any()


@pytest.mark.parametrize("name", SHAPES)
def test_features_of_the_package_aeon_with_its_kernels_and_biases(name):
    """The fixture was written by aeon 1.6.0 (make_minirocket_fixture.py)."""
    saved = np.load(FIXTURE)
    of_aeon = {part: saved[f"{name}_{part}"] for part in ("x", "channels", "dilations", "biases", "features")}
    channels, length = SHAPES[name]
    features = networks.MiniRocket(PartContext((channels, length), channels), n_features=84 * 4)
    assert features.dilations == [tuple(pair) for pair in of_aeon["dilations"].tolist()]
    features.biases.copy_(torch.tensor(of_aeon["biases"]))
    features.channels.copy_(torch.tensor(of_aeon["channels"]).view_as(features.channels))
    np.testing.assert_allclose(features(torch.tensor(of_aeon["x"])), of_aeon["features"], atol=1e-6)
    assert 0.1 < of_aeon["features"].mean() < 0.9


def test_interop_of_the_fixture_with_an_installed_aeon():
    """`make test-interop` runs it; aeon has an environment of its own, because of its numba."""
    pytest.importorskip("aeon")
    saved = np.load(FIXTURE)
    for name, value in features_of_aeon().items():
        if name != "version":
            np.testing.assert_allclose(value, saved[name], atol=1e-6)


def test_kernels_of_several_channels_read_subsets_of_one_to_nine():
    features = networks.MiniRocket(PartContext((14, 60), 14), n_features=84 * 10)
    features.fit(recordings(5, 14, 60), draw(0))
    used = features.channels.sum(2).flatten()
    assert set(used.tolist()) == {float(i) for i in range(1, 10)} and set(features.channels.unique().tolist()) == {0, 1}
    assert (used == 1).float().mean() > (used == 9).float().mean()  # sizes are uniform by exponent
    assert (features.channels.mean((0, 1)) - used.mean() / 14).abs().max() < 0.08
    one = networks.MiniRocket(PartContext((1, 60), 1), n_features=84)
    one.fit(recordings(5, 1, 60), draw(0))
    assert (one.channels == 1).all()


@pytest.mark.full_size
def test_number_of_features_is_a_multiple_of_84():
    assert networks.MiniRocket(PartContext((1, 60), 1), n_features=200).n_features == 168
    assert networks.MiniRocket(PartContext((1, 60), 1)).n_features == 84 * 23


@pytest.mark.parametrize("channels", [1, 2, 33])
def test_long_recordings_are_convolved_by_some_kernels_in_turn(channels, monkeypatch):
    """Convolutions of all kernels would leave the cache, which doubled the time of 70,000 points."""
    features = networks.MiniRocket(PartContext((channels, 300), channels), n_features=84 * 3)
    features.fit(recordings(4, channels, 300), draw(0))
    x = recordings(2, channels, 300, seed=1)
    x[1, :, 200:] = torch.nan
    at_once = features(x)
    monkeypatch.setattr(networks, "VALUES", 84 * 300 // 4)
    sizes = [part.numel() for _, part in networks.convolutions(x[:1], features.channels[0], 1)]
    assert len(sizes) > 4 and max(sizes) <= networks.VALUES
    torch.testing.assert_close(features(x), at_once)


def slow_spectrogram(features, sound, sampling_rate, bands):
    """Log-mel spectrogram of one recording (T,), by sums of cosines."""
    points, hop = features.points, features.hop
    padded = np.concatenate([np.zeros(points // 2), sound, np.zeros(points // 2)])
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(points) / points)
    frames = []
    for start in range(0, len(padded) - points + 1, hop):
        part = padded[start : start + points] * window
        wave = np.exp(-2j * np.pi * np.outer(np.arange(points // 2 + 1), np.arange(points)) / points)
        frames.append(np.abs(wave @ part) ** 2)
    mel = np.linspace(0, 2595 * np.log10(1 + sampling_rate / 2 / 700), bands + 2)
    edges = 700 * (10 ** (mel / 2595) - 1)
    frequency = np.arange(points // 2 + 1) * sampling_rate / points
    filters = np.array([np.interp(frequency, edges[i : i + 3], [0, 1, 0], left=0, right=0) for i in range(bands)])
    power = filters @ np.array(frames).T
    power = slow_parts(power, power.sum(0), features.frames, 30)
    log = np.log(power + 1e-5 * power.max() + 1e-12)
    log -= log.mean()
    return log - log.mean(1, keepdims=True) / 2


def slow_parts(power, loudness, count, silence):
    """Means of the power (bands, T) in equal parts of the time that is not silent, by the overlap with each frame."""
    loud = np.flatnonzero(loudness >= loudness.max() * 10 ** (-silence / 10))
    edges = loud[0] + (loud[-1] + 1 - loud[0]) * np.arange(count + 1) / count
    found = np.zeros((len(power), count))
    for part, (a, b) in enumerate(itertools.pairwise(edges)):
        for frame in range(power.shape[1]):
            found[:, part] += power[:, frame] * max(0.0, min(b, frame + 1) - max(a, frame)) / (b - a)
    return found


def test_silence_at_the_ends_is_left_out():
    power = torch.rand(2, 1, 3, 40) * 1e-5
    power[0, :, :, 7:29] += torch.rand(1, 3, 22) + 0.1
    power[1, :, :, 0:5] += 1
    found = networks.between_silences(power, 30, 11)
    for one, made in zip(power.double().numpy(), found, strict=True):
        np.testing.assert_allclose(made[0], slow_parts(one[0], one[0].sum(0), 11, 30), rtol=1e-4)
    longer = torch.cat([torch.zeros(2, 1, 3, 5), power, torch.zeros(2, 1, 3, 60)], 3)
    torch.testing.assert_close(networks.between_silences(longer, 30, 11), found)
    assert torch.autograd.gradcheck(lambda x: networks.between_silences(x, 30, 4), power.double().requires_grad_())


def test_zeros_after_a_sound_change_nothing():
    time = torch.arange(3000) / 4000
    sound = (2 * math.pi * 300 * time * (1 + time)).sin()[None, None] * (time < 0.5)
    moved = sound.roll(4 * 32, 2)  # whole steps of the windows
    features = networks.LogMelPatches(PartContext((1, 3000), 1), sampling_rate=4000, bands=10, frames=20, centers=6)
    assert features.hop in (32, 64)
    torch.testing.assert_close(features.spectrogram(moved), features.spectrogram(sound), rtol=1e-3, atol=0.02)


def test_spectrogram_of_a_slow_transform():
    features = networks.LogMelPatches(PartContext((2, 3000), 2), sampling_rate=4000, bands=10, frames=20, centers=6)
    x = recordings(3, 2, 3000)
    found = features.spectrogram(x)
    assert found.shape == (3, 2, 10, 20) and features.points == 128
    for sample, spectrogram in zip(x.double().numpy(), found, strict=True):
        for sound, one in zip(sample, spectrogram, strict=True):
            np.testing.assert_allclose(one, slow_spectrogram(features, sound, 4000, 10), rtol=1e-3, atol=1e-4)


def test_loudness_is_lost_and_silence_has_no_features():
    features = networks.LogMelPatches(PartContext((1, 2000), 1), sampling_rate=2000, bands=12, centers=6)
    x = recordings(20, 1, 2000)
    features.fit(x, draw(0))
    torch.testing.assert_close(features(100 * x), features(x), rtol=1e-3, atol=1e-4)
    assert (features.spectrogram(torch.zeros(1, 1, 2000)) == 0).all()


def test_patches_of_the_spectrogram():
    options = {"sampling_rate": 2000, "bands": 16, "frames": 24, "centers": 6, "regions": (3, 4)}
    features = networks.LogMelPatches(PartContext((1, 2000), 1), **options)
    x = recordings(20, 1, 2000)
    features.fit(x, draw(0))
    assert features.n_features == 6 * 12 + 72 and features.dictionary.patch == (7, 7)
    expected = torch.cat([features.dictionary(features.spectrogram(x)), features.statistics(x)], 1)
    torch.testing.assert_close(features(x), expected)
    alone = networks.LogMelPatches(PartContext((1, 2000), 1), contours=False, **options)
    alone.fit(x, draw(0))
    torch.testing.assert_close(alone(x), expected[:, :72])


def voice(pitch, loud=1.0):
    """A second at 8 kHz with five harmonics of a pitch in Hz, (1, 8000)."""
    phase = 2 * math.pi * torch.as_tensor(pitch / 8000).expand(8000).cumsum(0)
    return (loud * sum((k * phase).sin() / k for k in range(1, 6)) + 1e-3 * recordings(1, 1, 8000)[0, 0])[None]


def test_contours_of_voices():
    of = networks.ContourStatistics(1, 8000, 8000.0, 30.0)
    time = torch.linspace(0, 1, 8000)
    rising, breaking = 120 * 2**time, (time - 0.5).abs() > 0.2
    x = torch.stack([voice(100.0), voice(440.0), voice(rising), voice(200.0, breaking), recordings(1, 1, 8000)[0]])
    contours, loud, voiced = of.contours(x[:, 0])
    assert loud[:3].all() and voiced[:3].all() and voiced[4].float().mean() < 0.2
    for row, hz in ((0, 100), (1, 440), (3, 200)):
        assert (contours[row, 0, voiced[row]][2:-2] - math.log2(hz)).abs().max() < 0.1
    found = of(x).view(5, -1)
    rise, fall = found[:, 7], found[:, 8]
    assert rise[2] > 5 * fall[2].abs() and abs(float(rise[2]) * (loud.shape[1] - 1) - 1) < 0.2  # an octave
    assert 0.5 < found[3, -2] < 0.7 and (found[[0, 1, 2, 4], -2] == 1).all()  # loud for .6 of the time
    later = torch.nn.functional.pad(x[:, :, :6000], (2048, 2000))
    assert (of(later) - of(x[:, :, :6000]))[:3, 3:6].abs().max() < 0.1  # quartiles of the pitch
    assert torch.isfinite(of(torch.zeros(1, 1, 8000))).all()
    two = networks.ContourStatistics(2, 8000, 8000.0, 30.0)
    torch.testing.assert_close(two(x[:4].view(2, 2, 8000)), of(x[:4]).view(2, -1))


def test_statistics_of_what_is_counted():
    x, counted = recordings(3, 2, 20), recordings(3, 2, 20, seed=1) > 0
    for row, which, found in zip(
        x.flatten(0, 1), counted.flatten(0, 1), networks.statistics(x, counted).flatten(0, 1), strict=True
    ):
        values = row[which].double().numpy()
        steps = np.diff(row.double().numpy())[(which[1:] & which[:-1]).numpy()]
        expected = [values.mean(), values.std(), *np.quantile(values, (0.1, 0.25, 0.5, 0.75, 0.9))]
        time = np.flatnonzero(which.numpy())
        expected += [steps.clip(min=0).mean(), steps.clip(max=0).mean(), np.cov(values, time)[0, 1] / np.std(time)]
        expected[-1] *= 1 - 1 / len(time)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
