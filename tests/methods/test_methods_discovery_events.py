"""Events in recordings: windows and surrogates against slow forms, what is found and what is not."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import ndimage
from scipy.sparse import csr_matrix

from cases import slow
from refusals import refusal
from viewsmith import Discovery
from viewsmith.data.sounds import otsu_threshold
from viewsmith.methods.discovery import events
from viewsmith.methods.discovery.acceptance import choose
from viewsmith.methods.discovery.contrast import Contrast, Moments, Whitening, q_values

pytestmark = pytest.mark.usefixtures("small_searches")


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


@pytest.mark.parametrize(("width", "points"), [(60, 2), (30, 1)])
def test_windows_are_averages_less_their_mean_and_log_spreads(width, points):
    x = np.random.default_rng(0).normal(size=(2, 3, 130)).astype(np.float32)
    starts, values = events.window_values(x, width, np.full(3, 0.1))
    means, spreads = 30, 30 if points == 2 else 29
    assert starts.tolist() == list(range(0, 131 - width, width // 16)) and values.shape[1:] == (
        len(starts), 3 * (means + spreads),
    )  # fmt: skip
    for m in (0, 7, 23):
        for channel in range(3):
            window = x[1, channel, starts[m] : starts[m] + width]
            found = values[1, m].reshape(3, -1)[channel]
            mean = window.reshape(30, points).mean(1)
            pairs = np.lib.stride_tricks.sliding_window_view(window, 2)[::points]
            np.testing.assert_allclose(found[:means], mean - mean.mean(), atol=1e-5)
            np.testing.assert_allclose(found[means:], np.log(pairs.std(1) + 0.1), atol=1e-3)


def test_an_event_grows_to_all_places_that_are_hardly_found_in_random_phases(monkeypatch):
    monkeypatch.setattr(events, "PLACES", 1)
    rng = np.random.default_rng(0)
    x, phases, at = (
        rng.normal(size=(60, 1, 240)).astype(np.float32),
        rng.uniform(0, 3, 60),
        rng.integers(0, 13, 60) * 16,
    )
    for piece, start, phase in zip(x, at, phases, strict=True):
        piece[0, start : start + 32] += 12 * np.sin(np.linspace(0, 3 * np.pi, 32) + phase) * np.hanning(32)
    free, least = everywhere(x), np.full(1, 0.01)
    starts, values = events.window_values(x, 32, least)
    whitening = Whitening.of(Moments.of(values))
    z = whitening(values)
    few = Moments.of(z[np.arange(60), at // 2][phases < 1.2])
    event = events.Event(32, least, (whitening, Contrast.of(few, Moments.of(z))))
    event, taken = events.grown(event, x, free, np.random.default_rng(1))
    best = event.scores(x)[1].max(1)
    nothing = event.scores(events.random_phases(x, np.random.default_rng(1)))[1].max(1)
    sure = q_values(best, nothing[:, None], 60) <= 0.05
    chosen = z[np.flatnonzero(sure), event.scores(x)[1].argmax(1)[sure]]
    assert sure.sum() > few.count + 10
    np.testing.assert_allclose(event.windows[1].chosen.mean, chosen.mean(0), atol=1e-6)
    assert (abs(starts[event.scores(x)[1].argmax(1)] - at) <= 4).mean() >= 0.9
    beside = z[events.free_windows(~taken, starts, 32)]
    assert taken.sum() == 32 * len(chosen) and event.rarity == pytest.approx(np.log(len(beside) / len(chosen)))
    np.testing.assert_allclose(event.windows[1].all_windows.mean, beside.mean(0), atol=1e-6)


def test_surrogates_of_pieces_with_events_have_the_power_beside_these():
    rng = np.random.default_rng(0)
    x, taken = rng.normal(size=(40, 1, 400)).astype(np.float32), np.zeros((40, 400), bool)
    x[:, :, 100:140] += 20 * np.hanning(40).astype(np.float32)
    taken[:, 100:140] = taken[:2] = True  # nothing is left of two pieces
    drawn = np.concatenate(list(events.without_events(x, taken, rng)))
    assert drawn.shape == (events.NULL, 1, 400) and abs(drawn.std() - 1) < 0.1 < events.random_phases(x, rng).std() - 2
    assert next(events.without_events(x, np.ones_like(taken), rng)).std() > 2


def test_surrogates_of_long_pieces_are_fewer_and_never_in_memory_at_once():
    x, rng = np.random.default_rng(0).normal(size=(4, 1, 2**17)).astype(np.float32), np.random.default_rng(0)
    sizes = [block.shape for block in events.without_events(x, np.zeros((4, 2**17), bool), rng)]
    assert sum(rows for rows, *_ in sizes) <= 512 and max(rows for rows, *_ in sizes) == 32


def test_further_places_in_a_piece_score_more_than_events_are_rare():
    x, starts = with_events(length=480)
    for piece, other in zip(x, (starts + 240) % 450, strict=True):
        piece[:, other : other + 30] += 24 * np.sin(np.linspace(0, 3 * np.pi, 30)) * np.hanning(30)
    search = events.EventSearch(windows=[30], max_parts=2)
    search.fit(x)
    plain, tensors = search.state()
    again = events.EventSearch(max_parts=2)
    again.restore(plain, tensors)
    again.typical = search.typical
    assert again.parts[0].rarity == search.parts[0].rarity > 1
    counts = []
    for rarity in (0.0, again.parts[0].rarity, 1e3):
        again.parts[0] = dataclasses.replace(again.parts[0], rarity=rarity)
        counts.append(sum(np.isfinite(own["score"]).sum() for _, own in again._places(x)))
    assert counts[0] >= counts[1] > 100 and counts[2] == 60


def test_random_phases_keep_the_spectrum_and_the_relations_of_channels():
    x = np.random.default_rng(0).normal(size=(4, 2, 101)).astype(np.float32)
    drawn = events.random_phases(x, np.random.default_rng(1))
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
    assert events.free_windows(free, starts, 5)[0].tolist() == expected


@pytest.mark.parametrize("channels", [slow(1), 2])
def test_a_planted_event_is_found(channels):
    x, starts = with_events(channels=channels)
    event = choose(events.find_events(x, everywhere(x), (16, 30)))
    assert event is not None and event.evidence.p < 1e-6
    begins, scores = event.scores(x)
    offset = begins[scores.argmax(1)] - starts
    assert (abs(offset - np.median(offset)) <= 4).mean() >= 0.9


def test_an_event_in_few_of_many_channels_is_found_whatever_all_have_in_common(tmp_path):
    x, starts = with_events(channels=2)
    rng = np.random.default_rng(1)
    every = rng.normal(size=(len(x), 20, x.shape[2])).astype(np.float32)
    every[:, 5:7], every[:, 9] = x / 8, 3
    every += 4 * rng.normal(size=(len(x), 1, x.shape[2])).astype(np.float32)  # the same in all channels
    model = Discovery(modality="series", windows=[30]).fit(every)
    assert len(model.parts_[0].mixtures) == events.CHANNELS
    found = model.locate(every)
    offset = found["start"] - starts[found["sample"]]
    assert len(found) >= 0.9 * len(x) and (abs(offset - np.median(offset)) <= 4).mean() >= 0.9
    model.save(tmp_path)
    np.testing.assert_array_equal(Discovery.load(tmp_path).locate(every), found)


@pytest.mark.parametrize("seed", [0, slow(1), slow(2)])
def test_nothing_recurs_in_random_phases_and_random_walks(seed):
    x, _ = with_events()
    for drawn in (
        events.random_phases(x, np.random.default_rng(seed)),
        np.random.default_rng(seed).normal(size=x.shape).cumsum(2),
    ):
        assert choose(events.find_events(drawn.astype(np.float32), everywhere(drawn), (16, 30))) is None


def test_frames_and_tensors_are_recordings_and_what_is_none_is_one_line():
    x = np.random.default_rng(0).normal(size=(5, 30)).astype(np.float32)
    for given in (pd.DataFrame(x), torch.tensor(x), x):
        np.testing.assert_array_equal(events.pieces(given)[:, 0], x)
    for given, expected in ((pd.DataFrame({"a": list("uvw")}), "numbers"), (csr_matrix(x), "an array of numbers")):
        assert f"expected {expected}" in refusal(events.pieces, given)


def calls_in_silence(n=15, length=2400):
    """Pieces with irregular clicks of many sizes for a third of the time, and faint noise beside them."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 0.02, (n, 1, length))
    for piece in x[:, 0]:
        at = rng.integers(100, 300)
        end = at + rng.integers(700, 900)
        while at < end:
            points = rng.integers(20, 60)
            piece[at : at + points] += np.exp(rng.normal()) * rng.normal(size=points) * np.hanning(points)
            at += points + rng.integers(10, 60)
    return x.astype(np.float32)


def test_silence_between_calls_is_a_state_and_no_event(tmp_path):
    x = calls_in_silence()
    model = Discovery(modality="series", windows=[240])
    with pytest.warns(UserWarning, match="what recurs most fills [3-6].% of the pieces, as the silence between"):
        model.fit(x)
    found = model.locate(x)
    assert len(found) > 10
    assert min(x[e["sample"], 0, e["start"] : e["end"]].std() for e in found) > 0.05  # silence has 0.02
    model.save(tmp_path / "found")
    again = Discovery.load(tmp_path / "found")
    assert len(again.search_.states) == 1
    np.testing.assert_array_equal(again.locate(x), found)


def test_too_little_beside_a_state_is_said(monkeypatch):
    search = events.EventSearch(windows=[240])
    monkeypatch.setattr(events.Event, "beside", lambda self, x, free: (0.9, np.zeros_like(free)))
    with pytest.warns(UserWarning, match="fills 90% of the pieces"):
        search.fit(calls_in_silence())
    assert not search.parts and "leaves too little beside it" in search.describe()


def test_free_points_beside_a_state_are_in_none_of_its_windows():
    x, _ = with_events(n=8)
    event = events.find_events(x, everywhere(x), [30])[0]
    free = everywhere(x)
    free[:, :40] = False
    filled, beside = event.beside(x, free)
    starts, scores = event.scores(x)
    expected, windows, of_the_kind = free.copy(), 0, 0
    for piece in range(8):
        for start, score in zip(starts, scores[piece], strict=True):
            if start >= 40:
                windows += 1
                if score > event.rarity:
                    of_the_kind += 1
                    expected[piece, start : start + 30] = False
    assert filled == of_the_kind / windows and 0 < filled < events.STATE
    np.testing.assert_array_equal(beside, expected)


def test_the_report_says_where_a_threshold_of_the_energy_does_the_same():
    rng = np.random.default_rng(0)
    loud, equal = rng.normal(size=(2, 60, 1, 400))
    for piece, other in zip(loud[:, 0], equal[:, 0], strict=True):
        for start in rng.permutation(np.arange(20, 340, 80))[:2]:
            piece[start : start + 30] += 5 * np.hanning(30) * np.sin(np.arange(30))
            other[start : start + 30] = 1.4 * np.sign(np.sin(np.arange(30) / 2))  # as loud as what is beside it
    for x, told in ((loud, True), (equal, False)):
        model = Discovery(windows=[30], max_parts=3, modality="series").fit(x)
        found = model.locate(x)
        text = model.describe(found, len(x))
        assert len(found) >= 115 and ("Otsu's threshold of the energy finds nearly the same" in text) == told
        if told:  # the line runs, and finds them
            line, names = text[text.index("e = numpy.log") :], {"numpy": np, "ndimage": ndimage, "x": x}
            line = line.replace("; ndimage", "; spans = ndimage")
            exec(line, names | {"filters": SimpleNamespace(threshold_otsu=otsu_threshold)}, names)
            assert 110 <= names["spans"][1] <= 130


def test_gaps_that_leave_no_windows_are_told():
    x = np.random.default_rng(0).normal(size=(30, 2, 600))
    x[:, 0, ::20] = np.nan
    assert "gaps (NaN) leave 0 pieces of 30 with a window of" in refusal(Discovery(modality="series").fit, x)
    assert Discovery(modality="series", windows=[16]).fit(x).parts_ == []
