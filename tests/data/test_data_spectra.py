"""Spectra of tables, of folders of text files and of JCAMP-DX."""

import importlib.util

import numpy as np
import pandas as pd
import pytest

from refusals import refusal
from viewsmith.data import load_dataset

AXIS = np.linspace(400, 430, 16)
X = np.random.default_rng(0).normal(size=(6, 16)).cumsum(1).astype(np.float32)
KINDS = ["a", "b"] * 3


def table(path, frame, **options):
    frame.to_csv(path, index=False)
    return load_dataset(path, modality="spectra", **options)


@pytest.mark.parametrize("name", ["{:g}", "X{:g}", "{:g} nm", "{:g}cm-1"])
def test_rows_of_a_table_whose_columns_are_points(tmp_path, capsys, name):
    frame = pd.DataFrame(X, columns=[name.format(point) for point in AXIS])
    frame.insert(0, "kind", KINDS)
    frame.insert(1, "note", "some text")
    frame["brix"] = 12.5
    data = table(tmp_path / "x.csv", frame, label="kind")
    assert data.modality == "spectra" and data.x.shape == (6, 1, 16) and data.y.tolist() == KINDS
    np.testing.assert_allclose(data.x[:, 0], X, rtol=1e-6)
    np.testing.assert_allclose(data.schema["axis"], AXIS, rtol=1e-6)
    assert "left out note, brix" in capsys.readouterr().err


def test_columns_of_a_table_beside_one_of_points(tmp_path):
    frame = pd.DataFrame(X.T, columns=[str(i) for i in range(6)])  # whose names are in order, too
    frame.insert(0, "Unnamed: 0", range(16))
    frame.insert(1, "Wavelength (nm)", AXIS)
    data = table(tmp_path / "x.csv", frame)
    np.testing.assert_allclose(data.x[:, 0], X, rtol=1e-6)
    assert data.row_names == [str(i) for i in range(6)] and data.schema["axis"] == pytest.approx(AXIS)
    named = frame.rename(columns={"Wavelength (nm)": "t"})
    assert np.array_equal(table(tmp_path / "y.csv", named, time="t").x, data.x)


def write(folder, form="{:.6f}\t{:.6f}\n", begin="", axis=AXIS, ending="txt"):
    for i, (row, kind) in enumerate(zip(X, KINDS, strict=True)):
        place = folder / kind
        place.mkdir(parents=True, exist_ok=True)
        lines = begin + "".join(form.format(*pair) for pair in zip(axis, row, strict=True))
        (place / f"s{i}.{ending}").write_text(lines)
    return folder


def in_folders(x):
    return np.concatenate([x[::2], x[1::2]])  # by the names of their folders


@pytest.mark.parametrize(
    ("ending", "form", "begin"),
    [
        ("txt", "{:.6f}\t{:.6f}\n", "#Wave\t#Intensity\n"),
        ("xy", "{:.6f}   {:.6f}\n", ""),
        ("csv", "{:.6f},{:.6f},,\n", "Method:,Column 1,,\nLamp,3785,2\n\nWavelength (nm),Absorbance\n"),
        ("csv", "{:.6f};{:.6f}\n", "Probe;1\n"),
    ],
)
def test_folder_of_files_of_two_columns(tmp_path, ending, form, begin):
    folder = write(tmp_path / "s", form, begin, ending=ending)
    data = load_dataset(folder, modality=None if ending == "xy" else "spectra")
    assert data.modality == "spectra" and data.y.tolist() == ["a"] * 3 + ["b"] * 3
    np.testing.assert_allclose(data.x[:, 0], in_folders(X), atol=1e-5)
    assert data.row_names[0] == f"a/s0.{ending}"


def test_decimal_commas(tmp_path):
    folder = write(tmp_path / "s")
    for file in folder.rglob("*.txt"):
        file.write_text(file.read_text().replace(".", ","))
    np.testing.assert_allclose(load_dataset(folder, modality="spectra").x[:, 0], in_folders(X), atol=1e-5)


def test_a_column_of_several_is_chosen(tmp_path, capsys):
    for i, row in enumerate(X):
        lines = [f"{point},{value},{10 * value}" for point, value in zip(AXIS, row, strict=True)]
        (tmp_path / f"{i}.csv").write_text("\n".join(["nm,A,B", *lines]))
    first = load_dataset(tmp_path, modality="spectra")
    assert "the column A is read; others are B" in capsys.readouterr().err
    second = load_dataset(tmp_path, modality="spectra", channels=["B"])
    np.testing.assert_allclose(second.x, 10 * first.x, rtol=1e-5)
    assert second.schema["channels"] == ["B"]
    assert "no column 'C' of values; it has A, B" in refusal(load_dataset, tmp_path, modality="spectra", channels=["C"])


def test_unequal_axes_are_interpolated_where_they_overlap(tmp_path, capsys):
    write(tmp_path / "s")
    moved = write(tmp_path / "t", axis=AXIS + 0.5)
    (tmp_path / "s" / "a" / "s0.txt").write_text((moved / "a" / "s0.txt").read_text())
    data = load_dataset(tmp_path / "s", modality="spectra")
    axis = np.asarray(data.schema["axis"])
    assert axis.min() == pytest.approx(400.5) and axis.max() == 430 and "unequal axes" in capsys.readouterr().err
    np.testing.assert_allclose(data.x[0, 0], np.interp(axis, AXIS + 0.5, X[0]), atol=1e-4)
    # Later files are read at the points of the run, or refused.
    later = load_dataset(moved, schema=data.schema)
    np.testing.assert_allclose(later.x[0, 0], data.x[0, 0], atol=1e-5)
    said = refusal(load_dataset, write(tmp_path / "u", axis=AXIS + 20), schema=data.schema)
    assert "runs from 420 to 450, and those of the run from 400.5 to 430" in said


def test_values_that_are_missing_are_interpolated(tmp_path):
    x = np.concatenate([X, X], 1)
    x[1, 3] = np.inf
    frame = pd.DataFrame(x, columns=[str(i) for i in range(32)])
    with pytest.warns(UserWarning, match="1 value of 1 spectrum missing or infinite, interpolated"):
        data = table(tmp_path / "x.csv", frame)
    assert data.x[1, 0, 3] == pytest.approx((x[1, 2] + x[1, 4]) / 2, rel=1e-5)
    frame.iloc[2, :9] = np.nan
    frame.to_csv(tmp_path / "x.csv", index=False)
    assert "1 spectrum of 6 without finite values at more than 10%" in refusal(
        load_dataset, tmp_path / "x.csv", modality="spectra"
    )


@pytest.mark.skipif(importlib.util.find_spec("jcamp") is None, reason="extra signals")
def test_jcamp(tmp_path):
    import jcamp

    for i, row in enumerate(X):
        made = {"x": AXIS, "y": row.astype(float), "title": str(i), "xunits": "1/CM", "yunits": "ABSORBANCE"}
        jcamp.writefile(str(tmp_path / f"{i}.jdx"), made)
    data = load_dataset(tmp_path)
    assert data.modality == "spectra"
    np.testing.assert_allclose(data.x[:, 0], X, atol=1e-4)
    (tmp_path / "7.jdx").write_text("no spectrum")
    assert "7.jdx as a JCAMP-DX file" in refusal(load_dataset, tmp_path)


def test_a_table_of_points_says_what_it_may_be(tmp_path):
    frame = pd.DataFrame(np.sin(np.arange(64) / 5 + np.arange(6)[:, None]), columns=[str(900 + i) for i in range(64)])
    frame.to_csv(tmp_path / "x.csv", index=False)
    with pytest.warns(UserWarning, match="64 columns 900 to 963 are points of an axis.*--modality spectra"):
        load_dataset(tmp_path / "x.csv")
    noise = pd.DataFrame(np.random.default_rng(0).normal(size=(6, 64)), columns=frame.columns)
    noise.to_csv(tmp_path / "x.csv", index=False)
    load_dataset(tmp_path / "x.csv")  # warnings are errors


@pytest.mark.parametrize(
    ("text", "said"),
    [("1 2\n3 4\n", "2 lines of two numbers, expected a spectrum: at least 8 lines"), ("", "0 lines of two numbers")],
)
def test_files_that_are_no_spectra(tmp_path, text, said):
    (tmp_path / "a.xy").write_text(text)
    assert said in refusal(load_dataset, tmp_path / "a.xy")


def test_tables_that_are_no_spectra(tmp_path):
    pd.DataFrame({"a": [1, 2], "b": [3, 4]}).to_csv(tmp_path / "x.csv", index=False)
    assert "has 2 columns of numbers, expected spectra" in refusal(load_dataset, tmp_path / "x.csv", modality="spectra")
    said = refusal(load_dataset, tmp_path / "x.csv", modality="spectra", label="c")
    assert "no column 'c', given as label" in said


def test_a_header_of_numbers_is_that_of_points(tmp_path):
    frame = pd.DataFrame(X, columns=[f"{point:g}" for point in AXIS])
    assert table(tmp_path / "x.csv", frame).x.shape == (6, 1, 16)  # without the warning of other tables
