"""Commands on recordings (n, channels, time), which need --modality series."""

import json

import numpy as np
import pandas as pd
import pytest
import soundfile
from cli_tools import call, good

from viewsmith.training.run import RunFolder

pytestmark = pytest.mark.usefixtures("small_searches")


def test_commands(tmp_path):
    x = np.random.default_rng(0).normal(size=(24, 3, 48))
    source, y = tmp_path / "x.npz", np.arange(24) % 2
    np.savez(source, X=x, y=y)
    settings = ("--epochs", 1, "--batch-size", 8, "--set", "windows=5", "--set", "draws=2")
    good("fit", source, "--modality", "series", "--method", "crl-tac", "--out", tmp_path / "run", *settings)
    good("embed", tmp_path / "run", source, "--out", tmp_path / "h.npz", "--inference", "top")
    with np.load(tmp_path / "h.npz") as made:
        assert made["H"].shape == (24, 256)
    good("views", tmp_path / "run", source, "--n", 2, "--out", tmp_path / "v.npz")
    good("locate", tmp_path / "run", source, "--out", tmp_path / "w.csv")
    assert list(pd.read_csv(tmp_path / "w.csv"))[-3:] == ["start", "end", "probability"]
    assert call("locate", tmp_path / "run", source, "--out", tmp_path / "w.bed").refused("in series", ".csv")
    assert call("locate", "--crops", tmp_path / "run", source, "--out", tmp_path / "c").refused(
        "for crops of series", ".npz"
    )
    good("evaluate", tmp_path / "run", source, "--protocols", "knn")
    assert '"raw"' in (tmp_path / "run" / "evaluation.json").read_text()
    good("report", tmp_path / "run")
    config = (tmp_path / "run" / "config.toml").read_text()
    assert 'start = "none"' in config and (tmp_path / "run" / "report.html").exists()  # no discovery in windows


def test_recordings_are_not_read_without_their_modality(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.zeros((8, 3, 20), np.float32))
    assert call("fit", tmp_path / "x.npz", "--out", tmp_path / "run").refused("--modality series")
    np.savez(tmp_path / "t.npz", X=np.zeros((8, 20), np.float32))
    refused = call("fit", tmp_path / "t.npz", "--modality", "series", "--out", tmp_path / "run")
    assert refused.refused("recordings are numbers (n, channels, time)", "X[:, None]")
    assert not (tmp_path / "run").exists()


def test_generate_says_that_recordings_have_no_generator(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.random.default_rng(0).normal(size=(24, 3, 48)))
    refused = call("generate", tmp_path / "x.npz", "--modality", "series", "--out", tmp_path / "cache", "--epochs", 1)
    assert refused.refused("there is no generator of views for series: use another method")
    assert not (tmp_path / "cache").exists()


def test_sound_is_fitted_embedded_and_evaluated_from_its_files(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(24):  # two pitches
        tone = np.sin(2 * np.pi * (200, 300)[i % 2] * np.arange(400 + 8 * i) / 2000) + rng.normal(size=400 + 8 * i) / 9
        file = tmp_path / "tones" / "ab"[i % 2] / f"{i}.wav"
        file.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(file, 0.3 * tone, 2000)
    run = tmp_path / "run"
    good("fit", tmp_path / "tones", "--out", run)
    config = RunFolder(run).read_config()
    assert config["fitted"]["features"] == "log-mel" and config["fitted"]["features_options"]["sampling_rate"] == 2000
    assert config["fitted"]["view_maker"] == "speed"
    assert '"rate": 2000.0' in config["data"]["schema"]
    good("embed", run, tmp_path / "tones", "--out", tmp_path / "h.npz")
    with np.load(tmp_path / "h.npz") as made:
        assert made["names"][0] == "a/0.wav" and len(made["H"]) == 24
    good("embed", run, tmp_path / "tones" / "a" / "0.wav", "--out", tmp_path / "one.npz")
    with np.load(tmp_path / "h.npz") as all_, np.load(tmp_path / "one.npz") as one:
        np.testing.assert_allclose(one["H"][0], all_["H"][0], rtol=1e-3, atol=1e-4)
    good("evaluate", run, tmp_path / "tones", "--protocols", "knn")
    rows = json.loads((run / "evaluation.json").read_text())
    assert rows["embeddings"]["representation"]["knn"] == 1.0
    flags = ("--length", "100ms", "--step", "50ms", "--rate", 1000, "--channels", 0)
    flags += ("--set", "features=minirocket")  # an option of the closed form alone
    good("fit", tmp_path / "tones", *flags, "--out", tmp_path / "cut")
    config = RunFolder(tmp_path / "cut").read_config()
    assert config["fitted"]["row_shape"] == [1, 100] and config["fitted"]["features"] == "minirocket"


def test_events_of_a_long_file_are_in_its_own_time(tmp_path):
    rng, rate, beats = np.random.default_rng(0), 100, []
    x = 0.02 * rng.normal(size=120 * rate)
    for second in range(1, 119):
        beats.append(second * rate + int(rng.integers(0, 20)))
        x[beats[-1] : beats[-1] + 12] += 0.5 * np.hanning(12) * np.array([1, -1] * 6)
    soundfile.write(tmp_path / "x.wav", x, rate)
    good("discover", tmp_path / "x.wav", "--length", "2s", "--out", tmp_path / "found", "--windows", 12)
    table = pd.read_csv(tmp_path / "found" / "parts.csv")
    assert set(table["recording"]) == {"x.wav"} and len(table) > 50
    np.testing.assert_allclose(table["begin_s"], table["first"] / rate)
    np.testing.assert_allclose(table["end_s"] - table["begin_s"], 0.12)
    written = (tmp_path / "found" / "annotations" / "x.txt").read_text().splitlines()
    assert len(written) == len(table) and {line.split("\t")[2] for line in written} == {"kind 0"}
    near = np.abs(table["first"].to_numpy()[:, None] - np.array(beats)).min(1)
    assert np.quantile(near, 0.9) <= 6
    twice = ("--length", "2s", "--step", "1s", "--max-parts", 3, "--windows", 12)
    good("discover", tmp_path / "x.wav", *twice, "--out", tmp_path / "twice")
    merged = pd.read_csv(tmp_path / "twice" / "parts.csv").sort_values("first")
    assert np.diff(merged["first"]).min() > 6 and len(merged) > 100
    with np.load(tmp_path / "twice" / "crops.npz") as made:
        assert len(made["X"]) == len(merged)
    good("locate", tmp_path / "found", tmp_path / "x.wav", "--out", tmp_path / "again.csv")
    assert list(pd.read_csv(tmp_path / "again.csv")) == list(table)


def test_kinds_of_sounds_are_listed(tmp_path):
    x = 0.003 * np.random.default_rng(0).normal(size=48000)
    for i, start in enumerate(range(1000, 46000, 2000)):
        x[start : start + 900] += 0.3 * np.hanning(900) * np.sin((0.5, 1.7)[i % 2] * np.arange(900))
    soundfile.write(tmp_path / "x.wav", x, 8000)
    result = good("discover", tmp_path / "x.wav", "--length", "sounds", "--out", tmp_path / "found")
    assert "23 sounds in 1 recording, of 2 kinds (12, 11)" in result.out
    refused = call("discover", tmp_path / "x.wav", "--length", "sounds", "--max-q", 0.2, "--out", tmp_path / "no")
    assert refused.code == 2
    assert refused.err.endswith("--max-q is for events in windows, and the parts are whole sounds here: leave it out\n")


def test_further_recordings_are_cut_as_those_before(tmp_path):
    x = np.random.default_rng(0).normal(size=6000) * 0.1
    for start in range(50, 5900, 150):
        x[start : start + 12] += np.hanning(12)
    soundfile.write(tmp_path / "x.wav", x, 100)
    good("discover", tmp_path / "x.wav", "--length", "3s", "--step", "3s", "--out", tmp_path / "found", "--windows", 12)
    assert RunFolder(tmp_path / "found").read_config()["read"] == {"length": "3s", "step": "3s"}
    good("locate", tmp_path / "found", tmp_path / "x.wav", "--n", 8, "--out", tmp_path / "again.csv")
    table, again = pd.read_csv(tmp_path / "found" / "parts.csv"), pd.read_csv(tmp_path / "again.csv")
    assert len(again) > 30 and again["first"].tolist() == table["first"].tolist()
