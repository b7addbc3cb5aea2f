"""Folders of text tables of which each is a recording."""

import numpy as np
import pandas as pd
import pytest

from refusals import refusal
from viewsmith.data import load_dataset

rng = np.random.default_rng(0)


@pytest.fixture
def folder(tmp_path):
    """Six recordings of two kinds, 50 points a second, two channels and a column of text."""
    for i in range(6):
        place, n = tmp_path / "set" / ["run", "walk"][i % 2], 20 + i
        place.mkdir(parents=True, exist_ok=True)
        columns = {"time": np.arange(n) / 50, "x": rng.normal(size=n), "note": "a", "y": i}
        pd.DataFrame(columns).to_csv(place / f"{i}.csv", index=False)
    return tmp_path / "set"


def test_each_file_is_a_recording(folder, capsys):
    with pytest.warns(UserWarning, match="columns of text are no channels, left out: note"):
        data = load_dataset(folder, modality="series")
    assert "6 recordings, whose channels are the columns x, y" in capsys.readouterr().err
    assert data.x.shape == (6, 2, 25) and data.y.tolist() == ["run"] * 3 + ["walk"] * 3
    assert data.schema["signal"]["rate"] == 50 and data.schema["signal"]["channels"] == ["x", "y"]
    assert data.row_names[0] == "run/0.csv" and np.isnan(data.x[0, 0, 20:]).all() and data.x[1, 1, 0] == 2
    later = load_dataset(folder / "walk", schema=data.schema)
    np.testing.assert_array_equal(later.x[:, :, :20], data.x[3:, :, :20])
    assert load_dataset(folder, modality="series", length="0.2s").x.shape == (12, 2, 10)


def test_tables_about_the_recordings_are_no_recordings(folder, tmp_path):
    names = [f"{'run' if i % 2 == 0 else 'walk'}/{i}.csv" for i in range(6)]
    pd.DataFrame({"file": names, "person": list("uuuvvv")}).to_csv(folder / "people.csv", index=False)
    (folder / "README.txt").write_text("Made by hand.\n")
    data = load_dataset(folder, modality="series", label="person")
    assert dict(zip(data.row_names, data.y, strict=True)) == dict(zip(names, "uuuvvv", strict=True))
    for name in names:
        (folder / name).rename(folder / name.split("/")[1])
    pd.DataFrame({"file": [name.split("/")[1] for name in names], "kind": list("ababab")}).to_csv(folder / "people.csv")
    flat = load_dataset(folder, modality="series", label="kind", labels=folder / "people.csv")
    assert flat.y.tolist() == list("ababab")


def test_a_column_of_numbers_without_a_name(tmp_path):
    for i in range(4):
        np.savetxt(tmp_path / f"{i}.txt", rng.integers(-99, 99, 30), fmt="%d")  # as the EEG of Bonn
    assert load_dataset(tmp_path, modality="series").x.shape == (4, 1, 30)


def spectrum(n=60):
    """Falling wave numbers at steps of 1 to 2, and their halves."""
    at = 3000 - np.cumsum(np.linspace(1, 2, n))
    return np.stack([at, at / 2], axis=1)


def test_spectra_without_a_header_on_unequal_steps(tmp_path, capsys):
    for i in range(4):
        np.savetxt(tmp_path / f"{i}.txt", spectrum() + i, fmt="%.4f", header="Laser=\t785 °", encoding="latin-1")
    given = {"modality": "series", "encoding": "latin-1"}
    with pytest.warns(UserWarning, match="column 0 is in order in all 60 rows.*--time 0"):
        assert load_dataset(tmp_path, **given).x.shape == (4, 2, 60)
    assert "given as time; its columns are: 0, 1" in refusal(load_dataset, tmp_path, **given, time="nm")
    given |= {"time": "0"}
    message = refusal(load_dataset, tmp_path, **given)
    assert "apart (0, mostly 1.5085)" in message and "--rate 0.6629" in message
    data = load_dataset(tmp_path, **given, rate=0.6667)
    assert data.x.shape == (4, 1, 60) and "values are interpolated" in capsys.readouterr().err
    np.testing.assert_allclose(np.diff(data.x[:, 0]), 0.75, atol=1e-3)
    np.testing.assert_array_equal(load_dataset(tmp_path, schema=data.schema).x, data.x)
    assert load_dataset(tmp_path, **given, rate=0.3333).x.shape[2] == 30


def test_names_of_columns_in_a_comment_with_other_separators(tmp_path):
    for i in range(4):
        text = "\n".join(f"{a:.3f}\t{b:.3f}" for a, b in spectrum())
        (tmp_path / f"{i}.txt").write_text(f"#Wave\t\t#Intensity\n{text}\n")
    data = load_dataset(tmp_path, modality="series", time="Wave", rate=0.8)
    assert data.schema["signal"]["channels"] == ["Intensity"]


def test_logs_of_a_telephone(tmp_path):
    for i in range(4):
        at = 1_480_000_000_000 + np.cumsum(rng.choice([8, 10, 14], 200))
        at[100:] += 700  # a gap
        table = pd.DataFrame({"timestamp": at, "x": (at - at[0]) / 1000, "activity": np.where(at < at[100], "w", "r")})
        table.to_csv(tmp_path / f"{i}.csv", index=False)
    data = load_dataset(tmp_path, modality="series", rate=100, length="0.2s", label="activity")
    assert data.schema["signal"]["rate"] == 100 and set(data.y) == {"w", "r"}
    assert np.nanmax(np.abs(np.diff(data.x[:, 0]) - 0.01)) < 1e-4 and np.isnan(data.x).mean() > 0.05


def test_what_is_no_folder_of_recordings_is_said(folder):
    message = refusal(load_dataset, folder)
    assert "give one of its files: run/0.csv" in message and "if each is a recording" in message
    (folder / "walk" / "9.csv").write_text("time,x\n0,1\n1,2\n2,5\n")
    said = refusal(load_dataset, folder, modality="series")
    assert "walk/9.csv has no column y, which run/0.csv has" in said and said.endswith("; --drop y leaves it out")


def test_columns_in_other_order_and_case(folder):
    whole = load_dataset(folder, modality="series").x
    for i, names in ((2, ["y", "note", "x", "time"]), (3, ["Time", "X", "note", "Y"])):
        file = folder / ["run", "walk"][i % 2] / f"{i}.csv"
        frame = pd.read_csv(file)
        (frame[names] if i == 2 else frame.set_axis(names, axis=1)).assign(z=1.0).to_csv(file, index=False)
    with pytest.warns(UserWarning, match=r"columns that run/0.csv does not have are left out: z"):
        np.testing.assert_array_equal(load_dataset(folder, modality="series").x, whole)


def test_files_that_are_parts_of_a_table(folder, tmp_path, monkeypatch):
    """The line runs as it stands."""
    monkeypatch.chdir(tmp_path)
    code, _, way = refusal(load_dataset, "set").partition('python -c "')[2].partition('", and give ')
    exec(code, {})
    assert way == "set_whole.csv --groups file" and len(pd.read_csv("set_whole.csv")) == sum(range(20, 26))
    (folder / "run" / "2.csv").write_text("time,x,k\n0,1,2\n1,2,2\n")
    assert "parts of one table" not in refusal(load_dataset, "set")


@pytest.mark.parametrize("mark", [",", ";", " ", "\t"])
def test_texts_of_any_separator_are_recordings(tmp_path, mark):
    for name in "ab":
        np.savetxt(tmp_path / f"{name}.txt", rng.integers(-90, 90, (60, 3)), "%d", delimiter=mark)
    assert load_dataset(tmp_path, modality="series").x.shape == (2, 3, 60)
    assert load_dataset(tmp_path / "a.txt", modality="series", length="20").x.shape == (3, 3, 20)


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("mark", [",", "."])
def test_marks_of_decimals_separate_no_channels(tmp_path, mark, width):
    x = rng.normal(size=(60, width)).round(3)
    (tmp_path / "a.txt").write_text("".join(" ".join(f"{v:.3f}".replace(".", mark) for v in row) + "\n" for row in x))
    found = load_dataset(tmp_path / "a.txt", modality="series", length="20").x
    np.testing.assert_allclose(found.transpose(0, 2, 1).reshape(60, width), x, rtol=1e-6)


def test_windows_of_a_run_with_labels_in_another_table_are_read_without_them(tmp_path):
    (tmp_path / "set").mkdir()
    names = [f"run{i}.csv" for i in range(6)]
    for name in names:
        table = pd.DataFrame({"time_s": np.arange(400) / 100, "x": rng.normal(size=400)})
        table.to_csv(tmp_path / "set" / name, index=False)
    pd.DataFrame({"file": names, "state": list("ababab")}).to_csv(tmp_path / "states.csv", index=False)
    options = {"modality": "series", "length": "1s", "labels": tmp_path / "states.csv", "label": "state"}
    data = load_dataset(tmp_path / "set", groups="recording", split_by_groups=True, **options)
    assert data.y.tolist() == [kind for kind in "ababab" for _ in range(4)]
    later = load_dataset(tmp_path / "set", schema=data.schema)
    assert np.array_equal(later.x, data.x) and later.y is None
    assert len(load_dataset(tmp_path / "set" / "run3.csv", schema=data.schema).x) == 4


def test_files_of_a_wristband_say_their_rates(tmp_path):
    for i, rate in enumerate((32, 64, 64)):
        x = np.sin(np.arange(20 * rate) / rate)
        (tmp_path / str(i)).mkdir()
        np.savetxt(tmp_path / str(i) / "BVP.csv", [1680686620, rate, *x], fmt="%.6f")
    assert "0/BVP.csv has 32 Hz and 1/BVP.csv 64 Hz" in refusal(load_dataset, tmp_path, modality="series", length="5s")
    with pytest.warns(UserWarning, match="2 recordings of 64 Hz are resampled to 32 Hz"):
        data = load_dataset(tmp_path, modality="series", length="5s", rate=32)
    assert data.x.shape == (12, 1, 160)
