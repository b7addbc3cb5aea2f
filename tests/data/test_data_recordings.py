"""Readers of recordings: what the files hold, channels, rates, lengths, windows, labels, and what is refused."""

import contextlib
import warnings

import numpy as np
import pandas as pd
import pytest
import soundfile
import wfdb
from edfio import Edf, EdfAnnotation, EdfSignal, read_edf

from refusals import refusal
from viewsmith.core.rows import RowSource
from viewsmith.data import load_dataset
from viewsmith.data.dataset import Windows
from viewsmith.data.recordings import points_of
from viewsmith.data.write import write_annotations

rng = np.random.default_rng(0)


def sound(path, seconds=1.0, rate=800, channels=1):
    path.parent.mkdir(parents=True, exist_ok=True)
    x = (rng.integers(-8, 8, (round(seconds * rate), channels)).cumsum(0) % 256 - 128).astype(np.int16) * 64
    soundfile.write(path, x, rate, subtype="PCM_16")
    return (x / 32768).T.astype(np.float32)


def words(folder, lengths=(1.0, 0.5, 0.75, 1.0, 0.8, 0.6), endings=(".wav",), rate=800):
    """A folder of sounds of two classes."""
    return [
        sound(folder / "ab"[i % 2] / f"{i}{endings[i % len(endings)]}", seconds, rate)
        for i, seconds in enumerate(lengths * 2)
    ]


@pytest.mark.filterwarnings("ignore:.*recordings of")
def test_a_folder_of_sounds_by_class(tmp_path):
    made = words(tmp_path, endings=(".wav", ".flac", ".WAV"))
    with pytest.warns(UserWarning, match=r"12 recordings of 0.5 s to 1 s \(median 0.775 s\) stay as long as"):
        data = load_dataset(tmp_path)
    assert data.modality == "series" and data.x.shape == (12, 1, 800) and data.split == "stratified"
    assert data.row_names[:2] == ["a/0.wav", "a/10.flac"] and data.y.tolist() == ["a"] * 6 + ["b"] * 6
    np.testing.assert_array_equal(data.x[0], made[0])
    short = data.x[data.row_names.index("b/1.flac"), 0]
    np.testing.assert_array_equal(short[:400], made[1][0])
    assert np.isnan(short[400:]).all()
    assert data.schema["signal"] == {"rate": 800.0, "sound": True, "points": 800, "step": 0, "channels": []}
    later = load_dataset(tmp_path / "b" / "1.flac", schema=data.schema)
    np.testing.assert_array_equal(later.x[0, 0], short)


def test_folders_train_and_test_are_the_split(tmp_path):
    for split, count in (("train", 4), ("test", 2)):
        for i in range(count):
            sound(tmp_path / split / "ab"[i % 2] / f"{i}.wav")
    data = load_dataset(tmp_path)
    assert data.split == "given" and len(data.train_index) == 4 and data.y.tolist() == ["a", "a", "b", "b", "a", "b"]
    assert data.row_names[-1] == "test/b/1.wav"


def test_labels_and_groups_of_a_table_of_file_names(tmp_path, capsys):
    for i in range(12):
        sound(tmp_path / "set" / "recordings" / f"{i}.wav")
    table = pd.DataFrame({"file": [f"recordings/{i}.wav" for i in range(12)], "digit": np.arange(12) % 3})
    table = table.assign(speaker=np.repeat(["u", "v", "w", "z"], 3), length=1.5).sample(frac=1, random_state=0)
    table.to_csv(tmp_path / "set" / "labels.csv", index=False)
    data = load_dataset(tmp_path / "set", label="digit", groups="speaker", split_by_groups=True)
    assert dict(zip(data.row_names, data.y.tolist(), strict=True)) == {f"recordings/{i}.wav": i % 3 for i in range(12)}
    assert data.groups.tolist() == [{0: "u", 1: "v", 2: "w", 3: "z"}[int(n[11:-4]) // 3] for n in data.row_names]
    assert len(np.unique(data.groups_test)) == 1 and data.split == "groups"
    later = load_dataset(tmp_path / "set", schema=data.schema)
    assert later.y.tolist() == data.y.tolist() and later.groups.tolist() == data.groups.tolist()
    assert later.label_name == "digit" and np.array_equal(later.test_index, data.test_index)
    assert load_dataset(tmp_path / "set").y is None
    assert "did you mean digit?" in refusal(load_dataset, tmp_path / "set", label="digits")
    stems = table.assign(file=table.file.str[11:-4])
    stems.to_csv(tmp_path / "stems.tsv", index=False, sep="\t")
    other = load_dataset(tmp_path / "set", label="digit", labels=tmp_path / "stems.tsv")
    assert other.y.tolist() == data.y.tolist()
    stems[1:].to_csv(tmp_path / "few.csv", index=False)
    few = {"label": "digit", "labels": tmp_path / "few.csv", "schema": other.schema}
    with pytest.warns(UserWarning, match="no row of 1 sample of 12, such as recordings/"):
        assert (load_dataset(tmp_path / "set", **few).y == -1).sum() == 1
    stems.assign(file="?").to_csv(tmp_path / "few.csv", index=False)
    message = refusal(load_dataset, tmp_path / "set", **few)
    assert "no column with the names of all samples, such as recordings/0.wav" in message
    (tmp_path / "set" / "meta").mkdir()
    (tmp_path / "set" / "labels.csv").rename(tmp_path / "set" / "meta" / "labels.csv")  # as in ESC-50
    capsys.readouterr()
    load_dataset(tmp_path / "set")
    assert "meta/labels.csv: --label " in capsys.readouterr().err
    (tmp_path / "set" / "meta" / "labels.csv").unlink()
    assert load_dataset(tmp_path / "set", schema=data.schema).y is None  # new recordings may have no labels
    assert "give one with a column of the names of samples" in refusal(load_dataset, tmp_path / "set", groups="speaker")


def edf(path, seconds=120, rates=(100, 100), names=("Fz", "Cz")):
    x = [np.round(rng.normal(size=seconds * rate).cumsum() % 50, 1) for rate in rates]
    signals = [
        EdfSignal(each, rate, label=name, physical_dimension="uV", physical_range=(-100, 100))
        for each, rate, name in zip(x, rates, names, strict=True)
    ]
    Edf(signals).write(path)
    return x


def test_one_long_recording_is_cut(tmp_path):
    x = edf(tmp_path / "night.edf")
    with pytest.warns(UserWarning, match=r"1 recording of 120 s is cut into windows of 2 s: --length and"):
        data = load_dataset(tmp_path / "night.edf")
    assert data.x.shape == (60, 2, 200) and data.row_names[:2] == ["night.edf@0 s", "night.edf@2 s"]
    np.testing.assert_allclose(data.x[1, 1], x[1][200:400], atol=0.01)
    assert data.schema["signal"]["channels"] == ["Fz", "Cz"]
    data = load_dataset(tmp_path / "night.edf", length="1500ms", step=50, channels=["Cz"])
    assert data.x.shape == ((12_000 - 150) // 50 + 1, 1, 150)
    np.testing.assert_allclose(data.x[3, 0], x[1][150:300], atol=0.01)
    later = load_dataset(tmp_path / "night.edf", schema=data.schema)
    assert np.array_equal(later.x, data.x)
    other = load_dataset(tmp_path / "night.edf", schema=data.schema, step="1.5s")
    assert np.array_equal(other.x, data.x[::3])
    assert "length is that of the data of the run" in refusal(
        load_dataset, tmp_path / "night.edf", schema=data.schema, length="1s"
    )


def test_a_few_much_longer_recordings_are_cut(tmp_path):
    made = [sound(tmp_path / f"{i:02}.wav", 5 if i == 3 else 0.5 + i / 100) for i in range(40)]
    with pytest.warns(UserWarning, match="stay as long as they are, but 2 are cut to 0.88 s"):
        data = load_dataset(tmp_path)
    assert data.x.shape == (40, 1, 704)
    np.testing.assert_array_equal(data.x[3, 0], made[3][0, 1648:2352])  # the middle


def test_silent_and_clipped_files_are_named(tmp_path):
    for i in range(6):
        sound(tmp_path / f"{i}.wav")
    soundfile.write(tmp_path / "1.wav", np.zeros(800), 800)
    soundfile.write(tmp_path / "4.wav", np.sign(np.sin(np.arange(800))), 800)
    with pytest.warns(UserWarning) as found:
        load_dataset(tmp_path)
    said = [str(each.message).removeprefix(f"{tmp_path}: ") for each in found]
    assert said == ["1 file without sound (all zeros): 1.wav", "1 file clipped at full scale: 4.wav"]
    soundfile.write(tmp_path / "2.wav", np.zeros(0), 800)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Mean of empty slice")
        assert "2.wav is empty; leave it out" in refusal(load_dataset, tmp_path)
    (tmp_path / "silent").mkdir()
    soundfile.write(tmp_path / "silent" / "1.wav", np.zeros(800), 800)
    said = refusal(load_dataset, tmp_path / "silent")
    assert "the file is without sound (all zeros), expected sound that varies: record it again" in said


@pytest.mark.parametrize(("rate", "factor"), [(50, 2), (100, 1)])
def test_resampling(tmp_path, rate, factor):
    time = np.arange(12_000) / 100
    signal = EdfSignal(np.sin(2 * np.pi * 2 * time), 100, label="s", physical_range=(-1.1, 1.1))
    Edf([signal]).write(tmp_path / "s.edf")
    options = {"rate": rate, "length": "10s"}
    with pytest.warns(UserWarning, match="resampled to 50 Hz") if factor == 2 else contextlib.nullcontext():
        data = load_dataset(tmp_path / "s.edf", **options)
    assert data.x.shape == (12, 1, 10 * rate) and data.schema["signal"]["rate"] == rate
    np.testing.assert_allclose(data.x[3, 0], np.sin(2 * np.pi * 2 * np.arange(10 * rate) / rate), atol=0.02)


def test_channels_and_rates_that_differ(tmp_path):
    (tmp_path / "one").mkdir()
    edf(tmp_path / "one" / "a.edf", rates=(100, 50))
    message = refusal(load_dataset, tmp_path / "one" / "a.edf", length="2s", channels=["0"])
    assert "channels of several rates, 100 Hz and Cz (50 Hz), expected one rate: choose them by their" in message
    assert load_dataset(tmp_path / "one" / "a.edf", length="2s", channels=["Cz"]).x.shape == (60, 1, 100)
    (tmp_path / "two").mkdir()
    edf(tmp_path / "two" / "a.edf")
    edf(tmp_path / "two" / "b.edf", names=("Cz", "Pz"))
    with pytest.warns(UserWarning, match=r"b.edf has 2 channels \(Cz, Pz\), and a.edf 2 channels \(Fz, Cz\): the cha"):
        data = load_dataset(tmp_path / "two", length="2s")
    assert data.x.shape == (120, 1, 200) and data.schema["signal"]["channels"] == ["Cz"]
    assert load_dataset(tmp_path / "two", length="2s", channels=[0]).x.shape == (120, 1, 200)
    assert "no channel 'Fx', given as channels" in refusal(load_dataset, tmp_path / "two", channels=["Fx"])
    sound(tmp_path / "three" / "a.wav")
    sound(tmp_path / "three" / "b.wav", channels=2)
    message = refusal(load_dataset, tmp_path / "three")
    assert "b.wav has 2 channels, and a.wav 1 channel, expected the same in all" in message
    assert load_dataset(tmp_path / "three", channels=["0"]).x.shape == (2, 1, 800)
    sound(tmp_path / "four" / "a.wav")
    sound(tmp_path / "four" / "b.wav", rate=1600)
    assert "a.wav has 800 Hz and b.wav 1600 Hz" in refusal(load_dataset, tmp_path / "four")
    with pytest.warns(UserWarning, match="1 recording of 1600 Hz is resampled to 800 Hz"):
        assert load_dataset(tmp_path / "four", rate=800).x.shape == (2, 1, 800)


def test_records_of_wfdb_with_gaps(tmp_path):
    x = np.round(rng.normal(size=(7200, 2)), 2)
    x[1000:1100, 0] = np.nan
    for name in ("100", "101"):
        wfdb.wrsamp(
            name, fs=360, units=["mV", "mV"], sig_name=["MLII", "V5"], p_signal=x, fmt=["16", "16"],
            write_dir=str(tmp_path),
        )  # fmt: skip
    with pytest.warns(UserWarning, match=r"4 recordings of 80 with gaps \(NaN\), which are masked"):
        data = load_dataset(tmp_path, length="0.5s", groups="recording")
    assert data.x.shape == (80, 2, 180) and data.row_names[5:7] == ["100@2.5 s", "100@3 s"]
    np.testing.assert_allclose(data.x[5], x[900:1080].T, atol=0.01)
    assert np.unique(data.groups, return_counts=True)[1].tolist() == [40, 40]
    x[:180] = np.nan
    wfdb.wrsamp("102", fs=360, units=["mV"], sig_name=["V5"], p_signal=x[:, 1:], fmt=["16"], write_dir=str(tmp_path))
    with pytest.warns(UserWarning, match=r"1 sample of 40 without a value \(all NaN\) is left out"):
        assert load_dataset(tmp_path / "102.hea", length="0.5s").row_names[0] == "102@0.5 s"
    assert "belongs to the record 100.hea" in refusal(load_dataset, tmp_path / "100.dat")
    for name in ("101", "102"):
        (tmp_path / f"{name}.hea").unlink()
    (tmp_path / "both.hea").write_text("both/1 2 360 7200\n100 7200\n")
    with pytest.warns(UserWarning, match="gaps"):  # the segment is read with its record alone
        data = load_dataset(tmp_path, length="0.5s")
    assert data.row_names[0] == "both@0 s" and len(data.x) == 40
    message = refusal(load_dataset, tmp_path, length="20s")
    assert message.endswith(
        "expected at least 2; windows are cut from it by a length in points or seconds (--length 900)"
    )


def test_windows_of_a_recording_are_not_divided_between_train_and_test(tmp_path):
    for i in range(8):
        sound(tmp_path / "ab"[i % 2] / f"{i}.wav", seconds=4)
    data = load_dataset(tmp_path, length="1s", step="0.5s")
    train, test = ({data.row_names[i].partition("@")[0] for i in rows} for rows in (data.train_index, data.test_index))
    assert data.x.shape == (56, 1, 800) and train and test and not train & test and data.split == "groups"


TS = """# a comment
@problemName Toy
@timestamps false
@univariate false
@equalLength false
@classLabel true up down
@data
"""


def ts(path, rows):
    """Rows of channels and class."""
    lines = [":".join([*(",".join(map(str, channel)) for channel in channels), kind]) for channels, kind in rows]
    path.parent.mkdir(exist_ok=True)
    path.write_text(TS + "\n".join(lines) + "\n")


def test_series_of_unequal_length(tmp_path):
    rows = [(rng.integers(0, 9, (2, 8 + i)).tolist(), ("up", "down")[i % 2]) for i in range(6)]
    ts(tmp_path / "set" / "Toy_TRAIN.ts", rows[:4])
    ts(tmp_path / "set" / "Toy_TEST.ts", rows[4:])
    with pytest.warns(UserWarning, match="6 recordings of 8 points to 13 points"):
        data = load_dataset(tmp_path / "set")
    assert data.x.shape == (6, 2, 13) and data.split == "given" and data.y.tolist() == ["up", "down"] * 3
    assert data.x[0, :, :8].tolist() == rows[0][0]
    assert np.isnan(data.x[0, :, 8:]).all()
    assert data.row_names[0] == "Toy_TRAIN:0" and data.schema["signal"]["rate"] is None
    alone = load_dataset(tmp_path / "set" / "Toy_TEST.ts", schema=data.schema)
    np.testing.assert_array_equal(alone.x, data.x[4:])


@pytest.mark.parametrize("ending", [".tsv", ".txt"])
def test_text_files_of_the_ucr_archive(tmp_path, ending):
    x, y = rng.normal(size=(27, 20)), np.arange(27) % 2
    x[0, 15:] = np.nan
    for split, rows in (("TRAIN", slice(0, 7)), ("TEST", slice(7, 27))):
        np.savetxt(tmp_path / f"Toy_{split}{ending}", np.c_[y, x][rows], delimiter="\t" if ending == ".tsv" else "  ")
    data = load_dataset(tmp_path)
    assert data.modality == "series" and data.split == "given" and data.y.tolist() == [str(each) for each in y]
    np.testing.assert_array_equal(data.x, x[:, None].astype(np.float32))
    alone = load_dataset(tmp_path / f"Toy_TEST{ending}")
    np.testing.assert_array_equal(alone.x, x[7:, None].astype(np.float32))


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("1,2,3\n", "line 1 is '1,2,3', expected a header line"),
        ("@problemName x\n", "no line @data"),
        ("@timestamps true\n@data\n(1,2):a\n", "has time stamps"),
        ("@classLabel true a\n@data\n1,2:1,2,3:a\n", "line 3 has channels of 2 and 3 values, expected one"),
        ("@classLabel true a\n@data\n1,x:a\n", "line 3 has 'x', expected numbers"),
        ("@data\n", "has no recordings"),
        ("@data\n1,2,3\n4,5,6\n", "samples would have 3 points, expected at least 8"),
    ],
)
def test_ts_files_that_are_refused(tmp_path, content, part):
    (tmp_path / "x.ts").write_text(content)
    assert part in refusal(load_dataset, tmp_path / "x.ts")


def test_other_refusals(tmp_path):
    for name in ("a.ts", "b.ts"):
        ts(tmp_path / "ts" / name, [([[1] * 9], kind) for kind in ("up", "down") * 6])
    assert "expected one, or NAME_TRAIN.ts with NAME_TEST.ts" in refusal(load_dataset, tmp_path / "ts")
    assert "the labels are in the file" in refusal(load_dataset, tmp_path / "ts" / "a.ts", label="x")
    message = refusal(load_dataset, tmp_path / "ts" / "a.ts", length="2s")
    assert "length is 2s, a time, but the rate of the data is not known" in message
    assert load_dataset(tmp_path / "ts" / "a.ts", length="2s", rate=4).x.shape == (12, 1, 8)
    for name, content in (("a.wav", b"RIFF"), ("a.edf", b"0       x"), ("a.hea", b"")):
        (tmp_path / name).write_bytes(content)
        assert f"cannot read {tmp_path / name}" in refusal(load_dataset, tmp_path / name)
    sound(tmp_path / "b.wav", seconds=3)
    assert "expected a time (2s, 500ms)" in refusal(load_dataset, tmp_path / "b.wav", length="two")
    assert "step is for windows" in refusal(load_dataset, tmp_path / "b.wav", step="1s")
    assert "expected at least 2" in refusal(load_dataset, tmp_path / "b.wav")
    assert "on which length=1s has no effect" in refusal(load_dataset, "wine", length="1s")
    assert "on which rate=8.0 has no effect" in refusal(load_dataset, "wine", rate=8.0)


@pytest.mark.parametrize(
    ("text", "rate", "points"), [("2s", 250.0, 500), ("500 ms", 360, 180), (".5min", 8.0, 240), ("500", None, 500)]
)
def test_times_are_points(text, rate, points):
    assert points_of(text, rate, "length") == points


@pytest.mark.parametrize(("name", "library"), [("a.wav", "soundfile"), ("a.bdf", "edfio"), ("a.hea", "wfdb")])
def test_a_missing_library_is_named_with_its_extra(tmp_path, monkeypatch, name, library):
    (tmp_path / name).touch()
    monkeypatch.setattr("importlib.util.find_spec", lambda found: None if found == library else object())
    message = refusal(load_dataset, tmp_path / name)
    assert library in message and "viewsmith[signals]" in message


def test_recordings_that_stay_in_their_files(tmp_path, monkeypatch):
    for name in ("a.wav", "b.flac"):
        sound(tmp_path / "s" / name, seconds=6, channels=2)
    edf(tmp_path / "x.edf")
    x = np.round(rng.normal(size=(7200, 2)), 2)
    wfdb.wrsamp("100", fs=360, units=["mV", "mV"], sig_name=["MLII", "V5"], p_signal=x, fmt=["16", "16"],
                write_dir=str(tmp_path))  # fmt: skip
    for source, options in (
        (tmp_path / "s", {"length": "1s", "step": "50%", "channels": ["1"]}),
        (tmp_path / "x.edf", {"length": "1.5s", "channels": ["Cz"]}),
        (tmp_path / "x.edf", {"length": "1.5s", "step": "0.4s"}),
        (tmp_path / "100.hea", {"length": "700", "step": "33"}),
    ):
        memory, disk = load_dataset(source, **options), load_dataset(source, stream=True, **options)
        assert isinstance(disk.x, RowSource) and disk.modality == "series" and disk.row_names == memory.row_names
        np.testing.assert_array_equal(disk.x[:], memory.x)
        index = rng.permutation(len(memory.x))[:7]
        np.testing.assert_array_equal(disk.x[index], memory.x[index])
        assert disk.schema == memory.schema and np.array_equal(disk.windows.starts, memory.windows.starts)
        np.testing.assert_array_equal(np.concatenate(list(disk.x.blocks())), memory.x)
    monkeypatch.setattr("viewsmith.data.recording_files.IN_MEMORY", 1000)
    assert isinstance(load_dataset(tmp_path / "x.edf", length="2s").x, RowSource)
    with pytest.warns(UserWarning, match="resampled"):  # which needs all points
        assert isinstance(load_dataset(tmp_path / "x.edf", length="2s", rate=50).x, np.ndarray)


def test_recordings_shorter_than_a_window_are_said(tmp_path):
    for i, seconds in enumerate((3, 0.5, 2, 0.75)):
        sound(tmp_path / f"{i}.wav", seconds)
    message = r"2 recordings of 4 are shorter than a window of 1 s, such as 1.wav \(0.5 s\): what is missing is masked"
    with pytest.warns(UserWarning, match=message):
        data = load_dataset(tmp_path, length="1s")
    assert data.x.shape == (7, 1, 800) and np.isnan(data.x[3, 0, 400:]).all() and not np.isnan(data.x[3, 0, :400]).any()


def test_annotations_and_headers_without_their_signals(tmp_path):
    wfdb.wrann("7", "atr", np.array([10, 20]), symbol=["N", "N"], fs=360, write_dir=str(tmp_path))
    assert "and no signal: give the header 7.hea" in refusal(load_dataset, tmp_path / "7.atr")
    (tmp_path / "8.hea").write_text("8 1 360 1000\n8.dat 16 200 11 1024 0 0 0 MLII\n")
    assert "its files 8.dat are not beside it" in refusal(load_dataset, tmp_path / "8.hea")
    (tmp_path / "8.dat").write_bytes(np.arange(1000, dtype="<i2").tobytes())
    (tmp_path / "8.hea").write_text("8 1 360\n8.dat 16 200 11 1024 0 0 0 MLII\n")
    assert "has no number of samples" in (message := refusal(load_dataset, tmp_path / "8.hea"))
    assert message.endswith("end its first line by 1000")
    Edf([], annotations=[EdfAnnotation(1.0, 0.5, "seizure")]).write(tmp_path / "a.edf")
    assert "a.edf has no signals, only annotations" in refusal(load_dataset, tmp_path / "a.edf")
    (tmp_path / "alone").mkdir()
    for stem in ("7", "8"):
        (tmp_path / "alone" / f"{stem}.atr").write_bytes(b"\0\0")
    message = refusal(load_dataset, tmp_path / "alone")
    assert "no signals: put the headers and signals beside them, 7.hea, 8.hea" in message


def test_annotations_are_labels_of_windows(tmp_path, capsys):
    nights = tmp_path / "nights"
    nights.mkdir()
    for night in "01":  # as in Sleep-EDF: signals, and stages in a file of their own
        signal = EdfSignal(rng.normal(size=600), 10, label="EEG", physical_dimension="uV", physical_range=(-9, 9))
        Edf([signal]).write(nights / f"SC40{night}1E0-PSG.edf")
        stages = [EdfAnnotation(20.0 * i, 20.0 - 15 * (i == 2), f"stage {'W12'[i]}") for i in range(3)]
        Edf([], annotations=stages).write(nights / f"SC40{night}1EC-Hypnogram.edf")
    load_dataset(nights, length="10s")
    assert "SC4001EC-Hypnogram.edf has annotations of SC4001E0-PSG.edf: --label annotations" in capsys.readouterr().err
    data = load_dataset(nights, length="10s", label="annotations", groups="recording")
    one = ["stage W"] * 2 + ["stage 1"] * 2 + ["none"] * 2  # the last stage ends after 5 s
    assert data.x.shape == (12, 1, 100) and data.y.tolist() == one * 2 and len(set(data.groups)) == 2
    assert load_dataset(nights / "SC4001E0-PSG.edf", schema=data.schema).x.shape == (6, 1, 100)
    Edf([signal], annotations=stages).write(tmp_path / "one.edf")
    load_dataset(tmp_path / "one.edf", length="10s")
    told = "one.edf has annotations, stage 1, stage 2, stage W: --label annotations makes them the labels"
    assert told in capsys.readouterr().err
    load_dataset(tmp_path / "one.edf", length="2s", label="annotations")
    assert "makes them" not in capsys.readouterr().err
    wfdb.wrsamp("r", 10, ["mV"], ["I"], rng.normal(size=(600, 1)), fmt=["16"], write_dir=str(tmp_path))
    wfdb.wrann("r", "atr", np.array([0, 300]), ["+", "+"], aux_note=["(N", "(AFIB"], fs=10, write_dir=str(tmp_path))
    assert load_dataset(tmp_path / "r.hea", length="10s", label="annotations").y.tolist() == ["N"] * 3 + ["AFIB"] * 3


def test_channels_of_another_rate_are_left_out_and_names_may_lack_their_kind(tmp_path, recwarn):
    for night in "ab":
        fast = [EdfSignal(rng.normal(size=600), 10, label=f"EEG {name}") for name in ("Fpz-Cz", "Pz-Oz")]
        Edf([*fast, EdfSignal(rng.normal(size=60), 1, label="Temp rectal")]).write(tmp_path / f"{night}.edf")
    data = load_dataset(tmp_path, length="10s")
    said = [str(w.message) for w in recwarn if "left out" in str(w.message)]
    assert data.x.shape == (12, 2, 100) and len(said) == 1
    assert "channels of 10 Hz are taken, and others are left out, Temp rectal (1 Hz): --channels chooses" in said[0]
    chosen = load_dataset(tmp_path, length="10s", channels=["pz-oz"])
    np.testing.assert_array_equal(chosen.x[:, 0], data.x[:, 1])
    assert chosen.schema["signal"]["channels"] == ["EEG Pz-Oz"]
    assert load_dataset(tmp_path, length="10s", channels=["Temp rectal"]).x.shape == (12, 1, 10)
    message = refusal(load_dataset, tmp_path, length="10s", channels=["Pz-Oz", "Temp rectal"])
    assert "10 Hz and Temp rectal (1 Hz), expected one rate: choose them by their names (--channels" in message


@pytest.mark.filterwarnings("ignore:.*recordings of")
def test_spoken_words_with_a_list_of_tests_and_a_folder_of_noise(tmp_path, capsys):
    words(tmp_path)
    sound(tmp_path / "_background_noise_" / "tap.wav", 30.0)
    (tmp_path / "testing_list.txt").write_text("a/2.wav\nb/5.wav\nb/7.wav\n")
    data = load_dataset(tmp_path)
    assert data.split == "given" and [data.row_names[i] for i in data.test_index] == ["a/2.wav", "b/5.wav", "b/7.wav"]
    assert set(data.y) == {"a", "b"} and data.x.shape[2] == 800
    said = capsys.readouterr().err
    assert "_background_noise_ has no samples of a class" in said and "3 files of 12 are test samples" in said


def test_steps_are_times_points_or_percentages(tmp_path):
    edf(tmp_path / "x.edf")
    assert len(load_dataset(tmp_path / "x.edf", length="2s", step="25%").x) == 237
    for step in ("0%", "200%", "x%", "%"):
        message = refusal(load_dataset, tmp_path / "x.edf", length="2s", step=step)
        assert "expected a time (1s), points (250), or 1% to 100% of length" in message


def test_annotations_without_duration_are_events(tmp_path, capsys):
    rate, onsets = 100.0, [1.0, 1.3, 4.0, 7.25, 11.0, 13.5, 15.5, 16.0, 17.0, 18.0, 19.5]
    x = rng.normal(size=2000)
    texts = ["left", "right"] * 5 + ["late"]
    noted = [EdfAnnotation(onset, 0, text) for onset, text in zip(onsets, texts, strict=True)]
    noted.append(EdfAnnotation(2.0, 3.0, "bad"))  # with a duration: no event
    Edf([EdfSignal(x, rate, label="C3")], annotations=noted).write(tmp_path / "a.edf")
    data = load_dataset(tmp_path / "a.edf", length="1s", label="annotations")
    assert data.y.tolist() == texts[:-1]
    assert data.row_names[1] == "a.edf@1.3 s"
    assert np.allclose(data.x[1, 0], x[130:230], atol=1e-3)
    said = capsys.readouterr().err
    assert "annotations without duration are events: the samples are the 1 s after each of 10; 1 too close" in said
    later = load_dataset(tmp_path / "a.edf", schema=data.schema)
    assert later.row_names == data.row_names
    assert "give a shorter length" in refusal(load_dataset, tmp_path / "a.edf", length="19.5s", label="annotations")


def test_annotations_may_have_no_field_of_duration(tmp_path, capsys):
    """EDF+ allows to leave it out; several may be at one time. A recording without any event is told."""
    noted = [EdfAnnotation(2.0 * i + 1, None, "ab"[i % 2]) for i in range(8)]
    noted += [EdfAnnotation(1.0, 5.0, "rest"), EdfAnnotation(1.0, None, "b")]
    for name, own in (("r.edf", noted), ("s.edf", [])):
        Edf([EdfSignal(rng.normal(size=2000), 100, label="C3")], annotations=own).write(tmp_path / name)
    data = load_dataset(tmp_path, length="1s", label="annotations")
    assert data.y.tolist() == ["a", "b"] + ["b", "a"] * 3 + ["b"]
    assert "after each of 9; 1 recording without any is left out" in capsys.readouterr().err


def test_annotations_of_other_programs(tmp_path):
    names, first, last = np.array(["d/a.wav", "d/a.wav", "b"]), np.array([500, 100, 7]), np.array([600, 180, 9])
    write_annotations(tmp_path / "out", names, first, last, ["kind 1 (2.0)", "kind 0 (3.1)", "kind 0 (9.0)"], 100.0)
    made = sorted(file.name for file in (tmp_path / "out").iterdir())
    assert made == ["b.atr", "b.edf", "b.txt", "d_a.atr", "d_a.edf", "d_a.txt"]
    text = (tmp_path / "out" / "d_a.txt").read_text()
    assert text == "1.000000\t1.800000\tkind 0 (3.1)\n5.000000\t6.000000\tkind 1 (2.0)\n"
    read = read_edf(tmp_path / "out" / "d_a.edf").annotations
    assert [(a.onset, a.duration, a.text) for a in read] == [(1.0, 0.8, "kind 0 (3.1)"), (5.0, 1.0, "kind 1 (2.0)")]
    beats = wfdb.rdann(str(tmp_path / "out" / "d_a"), "atr")
    assert (
        beats.sample.tolist() == [140, 550] and beats.aux_note == ["kind 0 (3.1)", "kind 1 (2.0)"] and beats.fs == 100
    )


def test_events_at_seams_are_merged():
    windows = Windows(np.array(["a", "a", "a", "b"]), np.array([0, 50, 100, 50]), 100.0)
    rows, begin = np.array([0, 1, 1, 2, 3, 0]), np.array([60, 10, 60, 9, 10, 67])
    fields = [("sample", int), ("start", int), ("end", int), ("score", float)]
    scores = [1.0, 2, 3, 4, 1, 0.5]
    kept = windows.distinct(np.array(list(zip(rows, begin, begin + 10, scores, strict=True)), fields))
    # Row 0 at 60 is row 1 at 10; row 1 at 60 is row 2 at 9; row 0 at 67 shares points with row 1 at 10; b is another.
    assert kept.tolist() == [False, True, False, True, True, False]
    found = windows.located(rows[kept], begin[kept], begin[kept] + 10)
    assert found["first"].tolist() == [60, 109, 60] and found["end_s"].tolist() == [0.7, 1.19, 0.7]


def test_folders_of_objects_are_refused(tmp_path):
    np.save(tmp_path / "0.npy", np.array([{}], object), allow_pickle=True)
    assert "Python objects, which are never unpickled" in refusal(load_dataset, tmp_path, modality="series")


def test_recordings_longer_than_those_of_the_run_are_said(tmp_path):
    x = np.cumsum(rng.normal(size=(10, 2, 60)), 2)
    np.savez(tmp_path / "x.npz", X=x[..., :50], fs=10)
    np.savez(tmp_path / "new.npz", X=x, fs=10)
    schema = load_dataset(tmp_path / "x.npz").schema
    with pytest.warns(UserWarning, match="10 recordings of 10 longer than the 5 s of the run"):
        new = load_dataset(tmp_path / "new.npz", schema=schema)
    np.testing.assert_allclose(new.x, x[..., 5:55], atol=1e-6)
