"""Events in recordings: windows and surrogates against slow forms, what is found and what is not."""

import numpy as np
import pytest

from viewsmith.methods.discovery.acceptance import choose
from viewsmith.methods.discovery.events import find_events, free_windows, random_phases, window_values


def with_events(n=60, length=240, seed=0, channels=1):
    """Noise that is smooth over some points, with one event of 30 points in each piece; and its first points (n,)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, channels, length + 8)).cumsum(2)
    x = x[:, :, 8:] - x[:, :, :-8]
    starts = rng.integers(0, length - 30, n)
    shape = 24 * np.sin(np.linspace(0, 3 * np.pi, 30)) * np.hanning(30)
    for piece, start in zip(x, starts, strict=True):
        piece[:, start : start + 30] += shape
    return x.astype(np.float32), starts


def everywhere(x):
    return np.ones((len(x), x.shape[2]), bool)


def test_windows_are_averages_less_their_mean():
    x = np.random.default_rng(0).normal(size=(2, 3, 130)).astype(np.float32)
    starts, values = window_values(x, 60)  # two points are averaged
    assert starts.tolist() == list(range(0, 71, 3)) and values.shape == (2, 24, 3 * 30)
    for m in (0, 7, 23):
        for channel in range(3):
            window = x[1, channel, starts[m] : starts[m] + 60].reshape(30, 2).mean(1)
            found = values[1, m, channel * 30 : (channel + 1) * 30]
            np.testing.assert_allclose(found, window - window.mean(), atol=1e-5)


def test_random_phases_keep_the_spectrum_and_the_relations_of_channels():
    x = np.random.default_rng(0).normal(size=(4, 2, 101)).astype(np.float32)
    drawn = random_phases(x, np.random.default_rng(1))
    line = (x[:, :, -1:] - x[:, :, :1]) * np.linspace(0, 1, 101, dtype=np.float32)
    before, after = np.fft.rfft(x - line, axis=2), np.fft.rfft(drawn - line, axis=2)
    np.testing.assert_allclose(abs(before), abs(after), rtol=1e-3, atol=1e-3)
    cross = [f[:, 0] * f[:, 1].conj() for f in (before, after)]
    np.testing.assert_allclose(*cross, rtol=1e-2, atol=1e-2)
    assert abs(x - drawn).max() > 1


def test_free_windows_contain_no_masked_point():
    free = np.ones((1, 20), bool)
    free[0, 10] = False
    starts = np.arange(0, 16)
    expected = [not (start <= 10 < start + 5) for start in starts]
    assert free_windows(free, starts, 5)[0].tolist() == expected


@pytest.mark.parametrize("channels", [1, 2])
def test_a_planted_event_is_found(channels):
    x, starts = with_events(channels=channels)
    event = choose(find_events(x, everywhere(x), (16, 30)))
    assert event is not None and event.evidence.p < 1e-6
    begins, scores = event.scores(x)
    offset = begins[scores.argmax(1)] - starts
    assert (abs(offset - np.median(offset)) <= 4).mean() >= 0.9


@pytest.mark.parametrize("seed", range(3))
def test_nothing_recurs_in_random_phases_and_random_walks(seed):
    x, _ = with_events()
    for drawn in (
        random_phases(x, np.random.default_rng(seed)),
        np.random.default_rng(seed).normal(size=x.shape).cumsum(2),
    ):
        assert choose(find_events(drawn.astype(np.float32), everywhere(drawn), (16, 30))) is None
