"""Sounds of recordings: between silences, in any loudness and background, in memory and on disk."""

import re

import numpy as np
import pytest

from refusals import refusal
from viewsmith.data import load_dataset, sounds
from viewsmith.data.sounds import otsu_threshold, sound_spans

soundfile = pytest.importorskip("soundfile")
RATE = 8000


def song(seed=0, seconds=8, hum=0.2):
    """Tones in noise with a hum, and their first and last points."""
    rng = np.random.default_rng(seed)
    time = np.arange(seconds * RATE) / RATE
    x = 0.01 * rng.normal(size=len(time)) + hum * np.sin(2 * np.pi * 50 * time)
    spans = []
    for start in np.arange(0.3, seconds - 0.3, 0.35):
        first = int((start + 0.1 * rng.random()) * RATE)
        last = first + int(rng.uniform(0.06, 0.16) * RATE)
        x[first:last] += 0.2 * np.sin(2 * np.pi * rng.choice([900, 1700]) * time[first:last])
        spans.append((first, last))
    return x.astype("f4"), np.array(spans)


def test_tones_are_found_in_a_hum_that_is_as_loud():
    x, spans = song()
    for scale in (1.0, 1e-3):
        found = sound_spans(scale * x[None], RATE)
        assert found.shape == spans.shape and np.abs(found - spans).max() < 0.015 * RATE
    two = np.stack([x, 0 * x])
    np.testing.assert_array_equal(sound_spans(two, RATE), found)
    gap = x.copy()
    gap[:500] = np.nan
    assert np.abs(sound_spans(gap[None], RATE) - spans).max() < 0.015 * RATE


def test_blocks_give_what_all_at_once_gives(monkeypatch):
    x, _ = song()
    whole = sound_spans(x[None], RATE)
    monkeypatch.setattr(sounds, "BLOCK", 5000)
    found = sound_spans(x[None], RATE)
    assert found.shape == whole.shape and np.abs(found - whole).max() <= 0.005 * RATE


def test_silence_has_no_sound():
    assert sound_spans(np.zeros((1, 4000)), RATE).shape == (0, 2)


def test_the_threshold_is_that_of_a_slow_search():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(0, 1, 400), rng.normal(7, 2, 150)])
    best = max(
        np.linspace(values.min(), values.max(), 400)[1:-1],
        key=lambda t: (
            (values < t).mean() * (values >= t).mean() * (values[values < t].mean() - values[values >= t].mean()) ** 2
        ),
    )
    assert abs(otsu_threshold(values) - best) < 0.3


@pytest.mark.parametrize("stream", [False, True])
def test_recordings_are_cut_into_their_sounds(tmp_path, stream, capsys):
    spans = {}
    for i in range(3):
        x, spans[f"{i}.wav"] = song(i, 6)
        soundfile.write(tmp_path / f"{i}.wav", x, RATE)
    data = load_dataset(str(tmp_path), length="sounds", stream=stream)
    assert re.search(
        r"\d+ sounds between silences, of 0\.\d+ s to 0\.\d+ s \(median 0\.\d+ s\)", capsys.readouterr().err
    )
    x, places = np.asarray(data.x[np.arange(len(data.x))]), data.windows
    assert len(x) == sum(map(len, spans.values())) == len(places.ends)
    table = places.located(np.arange(len(x)), np.array(0), np.array(x.shape[2]))
    expected = np.concatenate(list(spans.values()))
    assert np.abs(table["first"] - expected[:, 0]).max() < 0.015 * RATE
    assert np.abs(table["last"] - expected[:, 1]).max() < 0.015 * RATE
    known = (~np.isnan(x[:, 0])).sum(1)
    np.testing.assert_array_equal(known, places.ends - places.starts)
    assert data.row_names[0].startswith("0.wav@0.")
    # Further files are cut the same, to the points of the model.
    further = load_dataset(str(tmp_path / "1.wav"), schema=data.schema)
    assert len(further.x) == len(spans["1.wav"]) and further.x.shape[2] == x.shape[2]
    assert "length is that of the data of the run" in refusal(
        load_dataset, str(tmp_path), length="sounds", schema=data.schema
    )


def test_what_has_no_sounds_is_refused(tmp_path):
    soundfile.write(tmp_path / "zero.wav", np.zeros(4000), RATE)
    assert "is without sound" in refusal(load_dataset, str(tmp_path / "zero.wav"), length="sounds")
    for kind, x in {"level": np.full(4000, 0.3), "click": 0.5 * np.eye(1, 4000)[0]}.items():
        soundfile.write(tmp_path / f"{kind}.wav", x, RATE)
        found = refusal(load_dataset, str(tmp_path / f"{kind}.wav"), length="sounds")
        assert "no sound between silences" in found
        (tmp_path / f"{kind}.wav").unlink()
    soundfile.write(tmp_path / "slow.wav", song()[0][:4000], 250)
    message = refusal(load_dataset, str(tmp_path / "slow.wav"), length="sounds")
    assert "length is 'sounds', and the recordings have 250 Hz, expected at least 1000 Hz" in message
    soundfile.write(tmp_path / "song.wav", song()[0], RATE)
    (tmp_path / "slow.wav").unlink()
    with pytest.warns(UserWarning, match=r"1 recording without a sound, left out: zero\.wav"):
        load_dataset(str(tmp_path), length="sounds")
