"""Kinds of sounds: clusters of what lies between silences, and what is written of them."""

import numpy as np
import pandas as pd
import pytest

from refusals import refusal
from viewsmith.data.any_size import read_samples
from viewsmith.training.run import RunFolder
from viewsmith.workflows.discover import discover_to, kinds_of, locate_sounds

soundfile = pytest.importorskip("soundfile")
RATE = 8000


def test_there_are_as_many_kinds_as_lie_apart():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2, 3], [40, 10, 30, 20])
    h = 5 * np.eye(4)[truth] @ rng.normal(size=(4, 12)) + rng.normal(size=(100, 12))
    kind, silhouettes = kinds_of(h)
    assert np.bincount(kind).tolist() == [40, 30, 20, 10] and silhouettes.min() > 0
    assert len({(a, b) for a, b in zip(kind.tolist(), truth.tolist(), strict=True)}) == 4
    assert len(np.unique(kinds_of(h, 2)[0])) == 2 and not kinds_of(h, 1)[0].any()


@pytest.fixture(scope="module")
def songs(tmp_path_factory):
    """Three songs of three kinds of tones, and the kind of each."""
    folder, truth = tmp_path_factory.mktemp("songs"), []
    for number in range(3):
        rng = np.random.default_rng(number)
        x = 0.003 * rng.normal(size=9 * RATE)
        for start in np.arange(0.3, 8.6, 0.4):
            truth.append(int(rng.integers(3)))
            t = np.arange(int(rng.uniform(0.1, 0.2) * RATE)) / RATE
            slope = (0, 0, 6000)[truth[-1]]
            first = int(start * RATE)
            tone = np.hanning(len(t)) ** 0.3 * np.sin(2 * np.pi * ((600, 2500, 900)[truth[-1]] * t + slope * t**2 / 2))
            x[first : first + len(t)] += 0.3 * tone
        soundfile.write(folder / f"{number}.wav", x, RATE)
    return folder, np.array(truth)


@pytest.mark.usefixtures("small_searches")
def test_the_length_of_an_event_is_in_seconds_where_the_rate_is_known(songs, tmp_path):
    said = discover_to(tmp_path / "found", read_samples(str(songs[0]), length="0.4s"), {"windows": (800,)})
    assert f"an event of 800 points ({800 / RATE:.3g} s) is in " in said


@pytest.mark.usefixtures("small_searches")
def test_discover_lists_the_sounds_and_their_kinds(songs, tmp_path):
    folder, truth = songs
    out = tmp_path / "found"
    said = discover_to(out, read_samples(str(folder), length="sounds"), {})
    assert f"{len(truth)} sounds in 3 recordings, of 3 kinds (" in said
    table = pd.read_csv(out / "parts.csv")
    assert table.columns.tolist() == ["file", "kind", "score", "recording", "first", "last", "begin_s", "end_s"]
    assert len(set(zip(table["kind"], truth, strict=True))) == 3
    assert (table["end_s"] - table["begin_s"]).between(0.08, 0.25).all()
    labels = (out / "annotations" / "0.txt").read_text().splitlines()
    assert len(labels) == (table["recording"] == "0.wav").sum() and labels[0].endswith(f"kind {table['kind'][0]}")
    with np.load(out / "crops.npz") as made:
        assert len(made["X"]) == len(truth) and made["y"].tolist() == table["kind"].tolist()
    page = (out / "report.html").read_text()
    assert "Kind 2 (" in page and "Otsu" in page
    same, config = tmp_path / "same.csv", RunFolder(out).read_config()
    later = read_samples(str(folder), "series", True, config["read"])
    locate_sounds(same, out, later)
    again = pd.read_csv(same)
    assert again.drop(columns="score").equals(table.drop(columns="score")) and again["score"].between(0, 1).all()
    locate_sounds(
        tmp_path / "a.npz", out, read_samples(str(folder / "1.wav"), "series", True, config["read"]), crops=True
    )
    with np.load(tmp_path / "a.npz") as made:
        assert made["y"].tolist() == table["kind"][table["recording"] == "1.wav"].tolist()
    samples = read_samples(str(folder), length="sounds")
    assert "of 2 kinds" in discover_to(tmp_path / "two", samples, {"kinds": 2})
    message = refusal(discover_to, tmp_path / "a", samples, {"windows": [40]})
    assert "windows is for events in windows, and the parts are whole sounds here: leave it out" in message
    assert "kinds is 99, expected 1 to 63" in refusal(discover_to, tmp_path / "b", samples, {"kinds": 99})


def test_few_sounds_have_no_kinds(songs, tmp_path):
    x, rate = soundfile.read(songs[0] / "0.wav")
    soundfile.write(tmp_path / "short.wav", x[:rate], rate)
    samples = read_samples(str(tmp_path / "short.wav"), length="sounds")
    assert "expected at least 12: kinds are seen across sounds" in refusal(discover_to, tmp_path / "c", samples, {})
