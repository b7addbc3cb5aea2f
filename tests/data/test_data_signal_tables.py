"""Recordings in tables, a row each or a row for each moment, in files of MATLAB and in ARFF files."""

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse

from refusals import refusal
from viewsmith.data import load_dataset

rng = np.random.default_rng(0)


def test_a_row_for_each_recording(tmp_path):
    x = rng.normal(size=(12, 20)).cumsum(1).round(3)
    frame = pd.DataFrame(x, columns=[f"p{i}" for i in range(20)])
    frame.to_csv(tmp_path / "w.csv", index=False)
    np.testing.assert_allclose(load_dataset(tmp_path / "w.csv", modality="series").x[:, 0], x, rtol=1e-5)
    frame.iloc[3, 15:] = np.nan
    frame.assign(kind=["u", "v"] * 6, who=np.arange(12) % 4).to_parquet(tmp_path / "w.parquet")
    options = {"modality": "series", "label": "kind", "groups": "who"}
    with pytest.warns(UserWarning, match="12 recordings of 15 points to 20 points"):
        data = load_dataset(tmp_path / "w.parquet", **options)
    assert data.x.shape == (12, 1, 20) and np.isnan(data.x[3, 0, 15:]).all() and data.y.tolist() == ["u", "v"] * 6
    assert data.groups.tolist() == [str(i % 4) for i in range(12)]
    later = load_dataset(tmp_path / "w.parquet", schema=data.schema)
    np.testing.assert_array_equal(later.x, data.x)
    assert later.y.tolist() == data.y.tolist()
    message = refusal(load_dataset, tmp_path / "w.parquet", modality="series", groups="who")
    assert "column kind has text" in message and "--drop kind" in message
    assert "did you mean kind?" in refusal(load_dataset, tmp_path / "w.parquet", modality="series", label="knd")


def moments(path, drop=(), **columns):
    """Six recordings of 20 moments at 10 Hz, in the order of no time, and their values (6, 2, 20)."""
    x = rng.normal(size=(6, 2, 20)).astype("f4")
    rows = [(f"r{i}", t / 10, *x[i, :, t], "ab"[i % 2]) for i in range(6) for t in range(20) if (i, t) not in drop]
    frame = pd.DataFrame(rows, columns=["run", "t", "u", "v", "kind"]).sample(frac=1, random_state=0)
    frame = frame.assign(**columns).sort_values("run", kind="stable")
    frame.to_csv(path, index=False)
    return x


def test_a_row_for_each_moment(tmp_path):
    x = moments(tmp_path / "l.csv", drop=[(2, 5), (2, 6), (4, 19)])
    options = {"modality": "series", "time": "t", "recording": "run", "label": "kind"}
    with pytest.warns(UserWarning, match="with gaps"):
        data = load_dataset(tmp_path / "l.csv", **options)
    assert data.x.shape == (6, 2, 20) and data.y.tolist() == list("ababab") and data.schema["signal"]["rate"] == 10.0
    expected = x.copy()
    expected[2, :, 5:7] = expected[4, :, 19] = np.nan
    np.testing.assert_allclose(data.x, expected, rtol=1e-5)
    assert data.schema["signal"]["channels"] == ["u", "v"] and data.row_names[2] == "r2"
    later = load_dataset(tmp_path / "l.csv", schema=data.schema)
    np.testing.assert_array_equal(later.x, data.x)
    assert later.y.tolist() == list("ababab")
    assert load_dataset(tmp_path / "l.csv", **options, length="1s").x.shape == (11, 2, 10)
    assert load_dataset(tmp_path / "l.csv", **options, channels=["v"]).x.shape == (6, 1, 20)


def test_dates_that_are_months_are_in_order(tmp_path):
    days = pd.date_range("2000-01-01", periods=30, freq="MS")
    values = rng.normal(size=(5, 30)).cumsum(1)
    rows = [(f"s{i}", day.strftime("%b %d %Y"), values[i, j]) for i in range(5) for j, day in enumerate(days)]
    pd.DataFrame(rows, columns=["symbol", "date", "price"]).to_csv(tmp_path / "long.csv", index=False)
    message = refusal(load_dataset, tmp_path / "long.csv", modality="series")
    assert "a row for each moment (date)" in message and "(--time date --id symbol)" in message
    data = load_dataset(tmp_path / "long.csv", modality="series", time="date", recording="symbol")
    np.testing.assert_allclose(data.x[:, 0], values, rtol=1e-5)
    assert data.schema["signal"]["rate"] is None


@pytest.mark.parametrize("form", [None, "%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M"])
def test_times_over_a_change_of_the_clock_and_of_other_countries(tmp_path, form):
    times = pd.date_range("2021-03-27", periods=300, freq="10min", tz="Europe/Berlin" if form is None else None)
    text = times.astype(str) if form is None else times.strftime(form)
    pd.DataFrame({"time": text, "a": rng.normal(size=300)}).to_csv(tmp_path / "a.csv", index=False)
    data = load_dataset(tmp_path / "a.csv", modality="series", time="time", length="2h")
    assert data.x.shape == (25, 1, 12) and data.schema["signal"]["rate"] == pytest.approx(1 / 600, abs=1e-6)


def test_two_columns_tell_recordings(tmp_path):
    rows = [(f"B{b}", c, t, b + c / 10 + t / 100) for b in range(3) for c in range(12) for t in range(20)]
    pd.DataFrame(rows, columns=["battery", "cycle", "t", "volt"]).to_csv(tmp_path / "x.csv", index=False)
    options = {"modality": "series", "time": "t", "recording": "battery,cycle"}
    data = load_dataset(tmp_path / "x.csv", groups="battery", split_by_groups=True, **options)
    assert data.x.shape == (36, 1, 20) and data.row_names[13] == "B1 1" and data.groups.tolist()[12] == "B1"
    assert load_dataset(tmp_path / "x.csv", schema=data.schema).x.shape == (36, 1, 20)
    with pytest.warns(UserWarning, match="--modality series --time t --id battery,cycle takes recordings"):
        load_dataset(tmp_path / "x.csv")
    assert "has no column 'battery,cyc'" in refusal(
        load_dataset, tmp_path / "x.csv", **options | {"recording": "battery,cyc"}
    )


@pytest.mark.parametrize("even", [True, False])
def test_a_column_that_names_channels(tmp_path, capsys, recwarn, even):
    """A row for each channel at each moment: sensors at equal steps, or bands of which each has moments of its own."""
    rows = [
        {"star": f"s{i}", "t": t / 4 + (0 if even else 0.1 * j + 0.01 * (t % 3)), "band": band, "mag": 10 * j + t}
        for i in range(40)
        for j, band in enumerate("gr")
        for t in range(40)
    ]
    frame = pd.DataFrame(rows).assign(error=0.5, kind=lambda table: table.star.str[1:].astype(int) % 2)
    frame.to_csv(tmp_path / "l.csv", index=False)
    options = {"modality": "series", "time": "t", "recording": "star", "rate": None if even else 4}
    data = load_dataset(tmp_path / "l.csv", label="kind", drop=["error"], **options)
    assert "l.csv: band names channels, g, r" in capsys.readouterr().err
    assert data.x.shape[:2] == (40, 2) and data.schema["signal"]["channels"] == ["g", "r"]
    assert data.y.tolist() == [i % 2 for i in range(40)]
    for channel, first in zip(data.x[0], (0, 10), strict=True):
        known = channel[np.isfinite(channel)]
        assert len(known) >= 38 and abs(known[5] - first - 5) < 1 and np.abs(np.diff(known) - 1).max() < 0.1
    assert load_dataset(tmp_path / "l.csv", schema=data.schema, modality="series").x.shape == data.x.shape
    both = load_dataset(tmp_path / "l.csv", label="kind", **options)
    assert both.schema["signal"]["channels"] == ["error_g", "error_r", "mag_g", "mag_r"]
    # A folder with a table for each recording; and rows that are taken as samples.
    (tmp_path / "stars").mkdir()
    for name, part in frame.groupby("star"):
        part[["t", "mag", "error", "band"]].to_csv(tmp_path / "stars" / f"{name}.csv", index=False)
    del options["recording"]
    data = load_dataset(tmp_path / "stars", drop=["error"], **options)
    assert data.schema["signal"]["channels"] == ["g", "r"] and "named by band, g, r" in capsys.readouterr().err
    assert load_dataset(tmp_path / "stars", schema=data.schema, modality="series").x.shape == data.x.shape
    recwarn.clear()
    load_dataset(tmp_path / "l.csv")
    assert any("--modality series --time t --id star takes recordings" in str(w.message) for w in recwarn)


@pytest.mark.parametrize("recording", [None, "id"])
def test_phases_and_values_are_no_channels(tmp_path, recording):
    """A column that is named as channels are, with the phases of a test, or with the numbers of a sensor."""
    t = np.arange(240)
    frame = pd.DataFrame({"t": t % 120 if recording else t, "id": t // 120, "sensor": t * 7 % 5, "x": np.sin(t)})
    for test in (np.where(t % 120 < 60, "A", "B") if recording else np.where(t < 120, "A", "B"), t % 120 // 60):
        frame.assign(test=test).to_csv(tmp_path / "x.csv", index=False)
        options = {"modality": "series", "time": "t", "length": 20, "recording": recording}
        data = load_dataset(tmp_path / "x.csv", drop=[] if recording else ["id"], **options)
        assert data.schema["signal"]["channels"][:2] == ["sensor", "x"] and np.isfinite(data.x).all()


def test_moments_that_are_refused(tmp_path):
    options = {"modality": "series", "time": "t", "recording": "run"}
    moments(tmp_path / "l.csv")
    frame = pd.read_csv(tmp_path / "l.csv")
    assert "given as time; did you mean t?" in refusal(load_dataset, tmp_path / "l.csv", **options | {"time": "tt"})
    assert "has two rows at t" in refusal(load_dataset, tmp_path / "l.csv", modality="series", time="t")
    assert "has several values of run: --length cuts windows" in refusal(
        load_dataset, tmp_path / "l.csv", modality="series", recording="kind", label="run"
    )
    frame.assign(t=frame.t + rng.uniform(0, 0.04, len(frame))).to_csv(tmp_path / "j.csv", index=False)
    assert "expected equal steps, or multiples" in refusal(load_dataset, tmp_path / "j.csv", **options)
    frame.assign(t="soon").to_csv(tmp_path / "s.csv", index=False)
    assert "neither numbers nor dates" in refusal(load_dataset, tmp_path / "s.csv", **options)
    assert "is a table, of which length=2s needs recordings" in refusal(load_dataset, tmp_path / "l.csv", length="2s")
    assert "of which time=t needs recordings" in refusal(load_dataset, tmp_path / "l.csv", time="t")


def test_labels_in_the_tables_of_a_folder_are_told_as_such(tmp_path, recwarn):
    for i in range(12):
        rows = "".join(f"{j},{rng.normal():.3f},{'uv'[i % 2]}\n" for j in range(20))
        (tmp_path / f"{i}.csv").write_text("t,x,kind\n" + rows)
    assert set(load_dataset(tmp_path, modality="series", label="kind").y) == {"u", "v"}
    assert not [str(each.message) for each in recwarn]
    assert "0.csv has no column of numbers" in refusal(load_dataset, tmp_path, modality="series", drop=["x"])


def test_a_folder_of_tables_about_recordings_without_one(tmp_path):
    (tmp_path / "labels.csv").write_text("name,kind\na,1\nb,2\n")
    message = refusal(load_dataset, tmp_path, modality="series", labels=tmp_path / "labels.csv", label="kind")
    assert message.endswith("has tables about recordings, and no recording: expected one table for each")


@pytest.mark.parametrize(
    ("rows", "labels", "sparse"),
    [("X", "Y", False), ("fea", "gnd", True), ("inputs", "y", False), ("X", "label", True)],
)
def test_labels_of_matlab_by_other_names(tmp_path, rows, labels, sparse):
    x, y = rng.poisson(1, size=(30, 40)).astype(float), np.arange(30) % 3 + 1
    arrays = {labels: y[:, None].astype(np.uint8), rows: scipy.sparse.csc_matrix(x) if sparse else x}
    scipy.io.savemat(tmp_path / "a.mat", arrays | {"subject": np.arange(30) // 6})
    data = load_dataset(tmp_path / "a.mat", label=labels)
    np.testing.assert_array_equal(data.x, x)
    assert data.y.tolist() == y.tolist()
    assert len(np.unique(load_dataset(tmp_path / "a.mat", groups="subject").groups)) == 5


def test_a_split_of_matlab(tmp_path):
    parts = {name: np.arange(n * 3).reshape(n, 3) for name, n in (("X_train", 12), ("X_test", 4))}
    scipy.io.savemat(tmp_path / "a.mat", parts | {"y_train": np.arange(12) % 2, "y_test": np.arange(4) % 2})
    data = load_dataset(tmp_path / "a.mat")
    assert len(data.train_index) == 12 and data.y.tolist() == [0, 1] * 8


def test_arrays_of_matlab(tmp_path, capsys):
    x = rng.normal(size=(30, 4))
    scipy.io.savemat(tmp_path / "a.mat", {"y": np.arange(30) % 3, "X": x, "note": "text"})
    data = load_dataset(tmp_path / "a.mat")
    np.testing.assert_allclose(data.x, x, rtol=1e-6)
    assert data.modality == "vectors" and len(np.unique(data.y)) == 3
    long = rng.normal(size=(900, 2))
    images = rng.integers(0, 256, (30, 8, 9, 3), dtype=np.uint8)
    scipy.io.savemat(tmp_path / "last.mat", {"y": np.arange(30) % 3, "X": np.moveaxis(images, 0, -1)})
    np.testing.assert_array_equal(load_dataset(tmp_path / "last.mat").x, images)
    assert "last axis of X, with as many as there are labels, has the samples" in capsys.readouterr().err
    scipy.io.savemat(tmp_path / "b.mat", {"emg": long, "Fs": 100.0})
    data = load_dataset(tmp_path / "b.mat", length="1s")
    assert data.x.shape == (9, 2, 100) and data.schema["signal"]["rate"] == 100.0
    np.testing.assert_allclose(data.x[1, 1], long[100:200, 1], rtol=1e-5)
    np.testing.assert_array_equal(load_dataset(tmp_path / "b.mat", schema=data.schema).x, data.x)
    scipy.io.savemat(tmp_path / "g.mat", {"emg": np.tile(long, (10, 1)), "Fs": 100.0})
    with pytest.warns(UserWarning, match="cut into windows of 2 s"):
        assert load_dataset(tmp_path / "g.mat").modality == "series"  # by its rate
    assert "emg is read as recordings of 100 points per second" in capsys.readouterr().err
    assert load_dataset(tmp_path / "b.mat", modality="vectors").x.shape == (900, 2)
    cells = np.empty((1, 6), dtype=object)
    cells[0] = [rng.normal(size=(2, 20 + i)) for i in range(6)]
    scipy.io.savemat(tmp_path / "c.mat", {"trials": cells, "y": np.array(["u", "v"] * 3, dtype=object)})
    with pytest.warns(UserWarning, match="6 recordings of 20 points to 25 points"):
        data = load_dataset(tmp_path / "c.mat", modality="series")
    assert data.x.shape == (6, 2, 25) and data.y.tolist() == ["u", "v"] * 3 and np.isnan(data.x[0, :, 20:]).all()
    scipy.io.savemat(tmp_path / "d.mat", {"note": "text"})
    assert "expected an array of numbers, such as X" in refusal(load_dataset, tmp_path / "d.mat")
    scipy.io.savemat(tmp_path / "f.mat", {"EEG": {"data": long, "srate": 100.0}})
    data = load_dataset(tmp_path / "f.mat", length="1s")  # the fields of the only struct
    assert data.x.shape == (9, 2, 100) and data.schema["signal"]["rate"] == 100.0
    scipy.io.savemat(tmp_path / "f.mat", {"data": {"X": images, "y": np.arange(30) % 3, "by": "me"}})
    assert load_dataset(tmp_path / "f.mat").y.tolist() == [0, 1, 2] * 10
    scipy.io.savemat(tmp_path / "f.mat", {"EEG": {"data": long, "srate": 100.0}, "ECG": {"data": long}})
    assert "has the struct EEG with data, srate, and others, expected an array: save" in refusal(
        load_dataset, tmp_path / "f.mat"
    )
    (tmp_path / "e.mat").write_bytes(b"MATLAB 7.3 MAT-file")
    assert "MATLAB 7.3; is it damaged" in refusal(load_dataset, tmp_path / "e.mat")


def structs(lengths, **columns):
    """An array of structs with recordings of two channels as `x`, and more fields."""
    each = [
        (rng.normal(size=(2, length)) + i, *beside)
        for i, (length, *beside) in enumerate(zip(lengths, *columns.values(), strict=True))
    ]
    found = np.zeros((1, len(each)), dtype=[(name, object) for name in ("x", *columns)])
    found[0] = each
    return found


def test_arrays_of_structs_of_matlab(tmp_path, capsys):
    """Of a sample each, or of a subject each with a label for each row."""
    names = [f"s{i % 4}" for i in range(12)]
    of = structs([50] * 12, label=[float(i % 2) for i in range(12)], subject=names, note=[[]] * 12)
    scipy.io.savemat(tmp_path / "a.mat", {"trials": of, "fs": 100.0, "by": "me"})
    options = {"modality": "series", "groups": "subject", "split_by_groups": True}
    data = load_dataset(tmp_path / "a.mat", **options)
    assert "trials is an array of 12 structs, whose fields are read: x, label, subject" in capsys.readouterr().err
    assert data.x.shape == (12, 2, 50) and data.y.tolist() == [0, 1] * 6 and data.groups.tolist() == names
    assert data.schema["signal"]["rate"] == 100
    scipy.io.savemat(tmp_path / "b.mat", {"trials": structs([50, 40, 30] * 4, label=["u", "v"] * 6)})
    data = load_dataset(tmp_path / "b.mat", modality="series")
    assert data.x.shape == (12, 2, 50) and data.y.tolist() == ["u", "v"] * 6 and np.isnan(data.x[2, :, 30:]).all()
    rows = np.zeros((1, 12), dtype=[("f", object), ("kind", object), ("class", object)])
    rows[0] = [(rng.normal(size=(6, 1)) + i, "k", i % 3) for i in range(12)]
    scipy.io.savemat(tmp_path / "c.mat", {"S": rows})
    data = load_dataset(tmp_path / "c.mat")
    assert data.x.shape == (12, 6) and data.y.tolist() == [0, 1, 2] * 4
    several = np.zeros((1, 3), dtype=[("X", object), ("y", object), ("age", object)])
    several[0] = [(rng.normal(size=(8 + i, 5)), np.arange(8 + i)[:, None] % 2, 30 + i) for i in range(3)]
    scipy.io.savemat(tmp_path / "d.mat", {"subjects": several})
    data = load_dataset(tmp_path / "d.mat", groups="subjects")
    assert data.x.shape == (27, 5) and data.groups.tolist() == ["1"] * 8 + ["2"] * 9 + ["3"] * 10
    assert data.y.tolist() == [*np.arange(8) % 2, *np.arange(9) % 2, *np.arange(10) % 2]


def test_arff_files(tmp_path):
    x = rng.normal(size=(10, 12)).round(3)
    head = "@relation r\n" + "".join(f"@attribute p{i} numeric\n" for i in range(12)) + "@attribute kind {u,v}\n@data\n"
    rows = "\n".join(",".join(map(str, row)) + "," + "uv"[i % 2] for i, row in enumerate(x))
    (tmp_path / "c.arff").write_text(head + rows + "\n")
    data = load_dataset(tmp_path / "c.arff", modality="series", label="kind")
    assert data.x.shape == (10, 1, 12) and data.y.tolist() == ["u", "v"] * 5
    np.testing.assert_allclose(data.x[:, 0], x, rtol=1e-5)
    table = load_dataset(tmp_path / "c.arff", label="kind")
    assert table.modality == "vectors" and table.x.shape == (10, 12)
    assert "column kind has text, expected points" in refusal(load_dataset, tmp_path / "c.arff", modality="series")
    bag = "@relation r\n@attribute bag relational\n@attribute a numeric\n@end bag\n@attribute kind {u}\n"
    (tmp_path / "d.arff").write_text(bag + "@data\n'1\\n2',u\n")
    assert "several channels (a relational attribute)" in refusal(load_dataset, tmp_path / "d.arff")


def test_labels_of_moments_are_those_of_windows(tmp_path):
    frame = pd.DataFrame(rng.normal(size=(120, 2)), columns=["x", "y"]).assign(stage=["a"] * 40 + ["b"] * 80)
    frame.to_csv(tmp_path / "m.csv", index=False)  # a row for each moment, by its number of columns
    data = load_dataset(tmp_path / "m.csv", modality="series", length="20", label="stage")
    assert data.x.shape == (6, 2, 20) and data.y.tolist() == ["a"] * 2 + ["b"] * 4
    assert load_dataset(tmp_path / "m.csv", schema=data.schema).y.tolist() == data.y.tolist()
    timed = load_dataset(tmp_path / "m.csv", modality="series", length="2s", rate=10, label="stage")
    assert timed.y.tolist() == data.y.tolist()
    frame.assign(stage=[None] * 40 + ["b"] * 60 + [None] * 20).to_csv(tmp_path / "gaps.csv", index=False)
    gaps = load_dataset(tmp_path / "gaps.csv", modality="series", length="20", label="stage")
    assert gaps.y.tolist() == ["none"] * 2 + ["b"] * 3 + ["none"]
    (tmp_path / "set").mkdir()
    for i in range(2):
        frame.to_csv(tmp_path / "set" / f"{i}.csv", index=False)
    assert (
        load_dataset(tmp_path / "set", modality="series", length="20", label="stage").y.tolist() == data.y.tolist() * 2
    )


def test_a_recording_whose_label_never_changes_has_it_beside_others(tmp_path):
    stages = {"a": [3] * 40 + [0] * 40, "b": [0] * 80, "c": [None] * 80}
    parts = [pd.DataFrame(rng.normal(size=(80, 2)), columns=["x", "y"]).assign(s=s, u=u) for u, s in stages.items()]
    expected = ["3.0"] * 2 + ["0.0"] * 2 + ["0.0"] * 4 + ["none"] * 4
    pd.concat(parts).to_csv(tmp_path / "m.csv", index=False)
    data = load_dataset(tmp_path / "m.csv", modality="series", length="20", label="s", recording="u")
    assert data.y.tolist() == expected
    for name, part in zip(stages, parts, strict=True):
        (tmp_path / "set").mkdir(exist_ok=True)
        part.drop(columns="u").astype({"s": float}).to_csv(tmp_path / f"set/{name}.csv", index=False)
    data = load_dataset(tmp_path / "set", modality="series", length="20", label="s")
    assert data.y.tolist() == expected


def test_a_channel_that_is_a_label_of_moments_is_told(tmp_path, recwarn):
    frame = pd.DataFrame(rng.normal(size=(300, 2)), columns=["x", "y"]).assign(kind=np.repeat([1, 4, 1], 100))
    frame.assign(kind=1).to_csv(tmp_path / "0.csv", index=False)
    frame.to_csv(tmp_path / "1.csv", index=False)
    for path in (tmp_path, tmp_path / "1.csv"):
        load_dataset(path, modality="series", length="50")
        assert len([w for w in recwarn if "--label kind makes it the label" in str(w.message)]) == 1
        recwarn.clear()
        load_dataset(path, modality="series", length="50", label="kind")
        load_dataset(path, modality="series", length="50", drop=["kind"])
        frame.assign(kind=rng.integers(0, 3, 300)).to_csv(tmp_path / "1.csv", index=False)
        load_dataset(path, modality="series", length="50")
        assert not any("makes it the label" in str(w.message) for w in recwarn)
        frame.to_csv(tmp_path / "1.csv", index=False)


def test_moments_that_are_read_as_samples_are_told(tmp_path, recwarn):
    units = np.repeat([4, 2, 9], 20)
    frame = pd.DataFrame({"unit": units, "cycle": np.tile(np.arange(20) + 1, 3), "v": rng.normal(size=60).round(2)})
    frame.to_csv(tmp_path / "m.csv", index=False)
    frame.to_csv(tmp_path / "m.txt", sep=" ", index=False, header=False)
    assert len(load_dataset(tmp_path / "m.csv").x) == 60
    assert any("--modality series --time cycle --id unit" in str(w.message) for w in recwarn)
    assert "(--time cycle --id unit)" in refusal(load_dataset, tmp_path / "m.csv", modality="series")
    assert "(--time 1 --id 0)" in refusal(load_dataset, tmp_path / "m.txt", modality="series")
    recwarn.clear()
    load_dataset(tmp_path / "m.csv", columns={"unit": "category"})
    frame.assign(cycle=np.arange(60)).to_csv(tmp_path / "sorted.csv", index=False)  # by unit, with numbers of rows
    load_dataset(tmp_path / "sorted.csv")
    assert not any("moments" in str(w.message) for w in recwarn)


@pytest.mark.parametrize("unit", ["Int64", "string", "category"])
@pytest.mark.parametrize("time", ["Int32", "Float64", "uint8", "datetime64[us]", "datetime64[ns, UTC]"])
def test_moments_of_every_type_of_a_parquet_file_are_told(tmp_path, unit, time):
    frame = pd.DataFrame({"unit": np.repeat([4, 2, 9], 20), "v": rng.normal(size=60), "w": [None, *range(2, 61)]})
    frame["unit"] = frame["unit"].astype(str).astype(unit) if unit == "string" else frame["unit"].astype(unit)
    frame["when"] = pd.Series(np.tile(np.arange(20) * (10**9 if "date" in time else 1), 3)).astype(time)
    frame.assign(w=frame["w"].astype("Int64")).to_parquet(tmp_path / "m.parquet")
    with pytest.warns(UserWarning, match="--time when --id unit"):
        load_dataset(tmp_path / "m.parquet", impute="median")


@pytest.mark.parametrize("animals", [0, 2])
def test_keypoints_of_deeplabcut(tmp_path, animals):
    of = [(a, p, c) for a in ("m", "n")[: animals or 1] for p in ("nose", *"abcd") for c in ("x", "y", "likelihood")]
    x = rng.normal(300, 50, (90, len(of))).round(2)
    x[:, 2::3] = 0.99
    x[7, 2] = 0.1
    heads = [["scorer", *["net"] * len(of)], *[["individuals", *(o[0] for o in of)]] * bool(animals)]
    heads += [["bodyparts", *(o[1] for o in of)], ["coords", *(o[2] for o in of)]]
    lines = [",".join(map(str, row)) for row in [*heads, *([i, *row] for i, row in enumerate(x))]]
    (tmp_path / "k.csv").write_text("\n".join(lines))
    places = np.delete(x, np.arange(2, len(of), 3), axis=1)
    places[7, :2] = np.nan
    data = load_dataset(tmp_path / "k.csv", modality="series", length="9", rate=30)
    assert data.x.shape == (10, places.shape[1], 9)
    np.testing.assert_allclose(data.x[0], places[:9].T, rtol=1e-6)
    name = "m_nose_x" if animals else "nose_x"
    assert load_dataset(tmp_path / "k.csv").feature_names[0] == name
    quoted = "\r\n".join(",".join(f'"{cell}"' for cell in line.split(",")) for line in lines)
    (tmp_path / "q.csv").write_text(quoted.replace("nose", "nose, tip"), encoding="utf-8-sig", newline="")
    assert load_dataset(tmp_path / "q.csv").feature_names[0] == name.replace("nose", "nose, tip")
    (tmp_path / "one.csv").write_text("\n".join(lines[: len(heads) + 1]))
    message = refusal(load_dataset, tmp_path / "one.csv", modality="series", length="9", rate=30)
    assert message.endswith("one moment of each recording, expected several rows")
    (tmp_path / "folder").mkdir()
    (tmp_path / "k.csv").rename(tmp_path / "folder/k.csv")
    assert load_dataset(tmp_path / "folder", modality="series", length="9", rate=30).x.shape == data.x.shape


def test_moments_in_nights_are_means_of_a_much_lower_rate(tmp_path, monkeypatch):
    nights = np.sort(rng.choice(3000, 60, replace=False)).astype(float)
    at = (nights[:, None] + np.arange(5) * 0.001).ravel()  # exposures of seconds in nights of years
    for i in range(3):
        values = np.repeat(np.arange(60.0) + i, 5) + np.tile([-0.2, -0.1, 0, 0.1, 0.2], 60)
        pd.DataFrame({"time": at, "mag": values, "kind": "ab"[i % 2]}).to_csv(tmp_path / f"{i}.csv", index=False)
    message = refusal(load_dataset, tmp_path, modality="series")
    advised = float(message.split("(--rate ")[1].rstrip(")"))
    assert 0.05 < advised < 0.2 and "means and interpolated" in message
    assert "hardly any would have a moment" in refusal(load_dataset, tmp_path, modality="series", rate=1000)
    data = load_dataset(tmp_path, modality="series", rate=1)
    assert data.x.shape == (3, 1, int(nights[-1] - nights[0]) + 1) and data.schema["signal"]["rate"] == 1
    places = (nights - nights[0]).astype(int)
    np.testing.assert_allclose(data.x[1, 0, places], np.arange(60.0) + 1, atol=0.02)
    assert np.isnan(data.x[0]).sum() > 1000
    points = load_dataset(tmp_path, modality="series", rate=advised).x.shape[2]
    assert points == pytest.approx((at[-1] - at[0]) * advised, abs=2)


def test_the_last_of_equal_steps_is_not_after_the_end(tmp_path):
    """2.16 + 42 / 0.7 is 62.16 and a little more."""
    frame = pd.DataFrame({"t": [2.16, 7.4, 9.9, 11.5, 13.1, 39.6, 62.16], "a": np.arange(7.0), "kind": list("uuuuvvv")})
    pd.concat([frame.assign(of=i) for i in range(3)]).to_csv(tmp_path / "t.csv", index=False)
    options = {"modality": "series", "time": "t", "recording": "of", "label": "kind", "rate": 0.7, "few_labels": True}
    data = load_dataset(tmp_path / "t.csv", **options, length="8")
    assert data.x.shape == (3, 1, 8) and data.y.tolist() == ["u"] * 3


def test_times_that_are_not_named_as_times_are_told(tmp_path):
    """A table of an accelerometer (AX3) without names of columns: dates were left out, and seconds were a channel."""
    x = rng.normal(size=(300, 3)).round(4)
    seconds = 1577872800.01 + np.arange(300) / 50
    dates = pd.to_datetime(seconds, unit="s").strftime("%Y-%m-%d %H:%M:%S.%f")
    for name, times in (("u.csv", seconds.round(2)), ("d.csv", dates)):
        frame = pd.DataFrame(x)
        frame.insert(0, "at", times)
        frame.to_csv(tmp_path / name, index=False, header=False)
        with pytest.warns(UserWarning, match="column 0 (has the times of rows|is in order).* --time 0"):
            load_dataset(tmp_path / name, modality="series", length=50)
        data = load_dataset(tmp_path / name, modality="series", length=50, time="0")
        assert data.x.shape == (6, 3, 50) and data.schema["signal"]["rate"] == pytest.approx(50, rel=0.01)


@pytest.mark.parametrize("named", [True, False])
def test_a_column_in_order_in_each_recording_may_have_the_times(tmp_path, recwarn, named):
    frame = pd.DataFrame({"id": np.repeat([*"abc"], 40), "clock": np.tile(np.arange(40) / 50, 3)})
    frame = frame.assign(x=rng.normal(size=120), y=rng.normal(size=120))
    (frame if named else frame[frame.id == "a"]).to_csv(tmp_path / "t.csv", index=False)
    more = {"recording": "id"} if named else {"length": "10", "drop": ["id"]}
    assert load_dataset(tmp_path / "t.csv", modality="series", **more).x.shape[1] == 3
    assert any("column clock is in order" in str(w.message) and "--time clock" in str(w.message) for w in recwarn)
    recwarn.clear()
    data = load_dataset(tmp_path / "t.csv", modality="series", time="clock", **more)
    assert data.schema["signal"]["rate"] == 50 and not recwarn.list
