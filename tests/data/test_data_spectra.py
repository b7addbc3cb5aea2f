"""Spectra of tables, of folders of text files and of JCAMP-DX."""

import importlib.util

import numpy as np
import pandas as pd
import pytest
from advised_lines import follow

from refusals import refusal
from viewsmith.data import load_dataset
from viewsmith.modalities.frames import smooth_points

AXIS = np.linspace(400, 430, 16)
X = np.random.default_rng(0).normal(size=(6, 16)).cumsum(1).astype(np.float32)
KINDS = ["a", "b"] * 3


def table(path, frame, **options):
    frame.to_csv(path, index=False)
    return load_dataset(path, modality="spectra", **options)


@pytest.mark.parametrize(("name", "unit"), [("{:g}", None), ("X{:g}", None), ("{:g} nm", "nm"), ("{:g}cm-1", "cm-1")])
def test_rows_of_a_table_whose_columns_are_points(tmp_path, capsys, name, unit):
    frame = pd.DataFrame(X, columns=[name.format(point) for point in AXIS])
    frame.insert(0, "kind", KINDS)
    frame.insert(1, "note", "some text")
    frame["brix"] = 12.5
    data = table(tmp_path / "x.csv", frame, label="kind")
    assert data.modality == "spectra" and data.x.shape == (6, 1, 16) and data.y.tolist() == KINDS
    np.testing.assert_allclose(data.x[:, 0], X, rtol=1e-6)
    np.testing.assert_allclose(data.schema["axis"], AXIS, rtol=1e-6)
    assert "left out note, brix" in capsys.readouterr().err and data.schema.get("axis_name") == unit


def test_columns_of_a_table_beside_one_of_points(tmp_path):
    frame = pd.DataFrame(X.T, columns=[str(i) for i in range(6)])  # whose names are in order, too
    frame.insert(0, "Unnamed: 0", range(16))
    frame.insert(1, "Wavelength (nm)", AXIS)
    data = table(tmp_path / "x.csv", frame)
    np.testing.assert_allclose(data.x[:, 0], X, rtol=1e-6)
    assert data.row_names == [str(i) for i in range(6)] and data.schema["axis"] == pytest.approx(AXIS)
    assert data.schema["axis_name"] == "Wavelength (nm)"
    later = table(tmp_path / "z.csv", frame.rename(columns={"Wavelength (nm)": "wave"}), schema=data.schema)
    assert later.schema["axis_name"] == "Wavelength (nm)"
    named = frame.rename(columns={"Wavelength (nm)": "t"})
    assert np.array_equal(table(tmp_path / "y.csv", named, time="t").x, data.x)


def test_columns_are_put_in_the_order_of_the_axis(tmp_path, capsys):
    frame = pd.DataFrame(X, columns=[f"{point:g} [nm]" for point in AXIS])
    fitted = table(tmp_path / "x.csv", frame)
    mixed = frame[list(np.random.default_rng(0).permutation(frame.columns))]
    assert np.array_equal(table(tmp_path / "y.csv", mixed).x, fitted.x)
    assert "put in the order of the points" in capsys.readouterr().err
    for other in (mixed, frame.iloc[:, ::-1], mixed.rename(columns=lambda name: "X" + name.split()[0])):
        other.to_csv(tmp_path / "y.csv", index=False)
        assert np.array_equal(load_dataset(tmp_path / "y.csv", schema=fitted.schema).x, fitted.x)
        assert capsys.readouterr().err == ""


def test_columns_without_an_axis_are_found_by_name(tmp_path, capsys):
    frame = pd.DataFrame(X, columns=list("abcdefghijklmnop"))
    fitted = table(tmp_path / "x.csv", frame)
    assert "not named by the points of an axis" in capsys.readouterr().err
    frame[frame.columns[::-1]].assign(other=1).to_csv(tmp_path / "y.csv", index=False)
    assert np.array_equal(load_dataset(tmp_path / "y.csv", schema=fitted.schema).x, fitted.x)
    frame.drop(columns="c").to_csv(tmp_path / "y.csv", index=False)
    assert "no column of numbers c, a point of the run" in refusal(
        load_dataset, tmp_path / "y.csv", schema=fitted.schema
    )


def test_a_point_with_a_text_is_refused(tmp_path):
    frame = pd.DataFrame(X, columns=[f"{point:g}" for point in AXIS]).astype(object)
    frame.iloc[2, 3] = "<LOD"
    said = refusal(table, tmp_path / "x.csv", frame)
    assert "not numbers: 406 (contains '<LOD')" in said and "--drop" in said
    assert table(tmp_path / "x.csv", frame, drop=["406"]).x.shape == (6, 1, 15)
    assert "no column 'z', given as drop" in refusal(table, tmp_path / "x.csv", frame, drop=["z"])
    assert "one_hot has no effect" in refusal(table, tmp_path / "x.csv", frame, one_hot=["400"])


def test_parquet_is_read_as_a_whole(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(X, columns=[f"{point:g}" for point in AXIS]).astype("Float32")
    frame.to_parquet(tmp_path / "x.parquet")
    assert np.array_equal(load_dataset(tmp_path / "x.parquet", modality="spectra", stream=True).x[:, 0], X)


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


WHOLE = "".join(f"{point:.6f}\t{value:.6f}\n" for point, value in zip(AXIS, X[0], strict=True))
LINES = WHOLE.splitlines(keepends=True)


@pytest.mark.parametrize(
    "text",
    [
        WHOLE.encode("utf-16"),
        WHOLE.encode("utf-16-le"),
        WHOLE.replace("\n", "\r\n").encode("utf-8-sig"),
        WHOLE.replace("\n", "\n\n"),
        "#x\ty\n" + "".join(LINES[:8]) + "# lamp changed\n" + "".join(LINES[8:]),
        WHOLE.replace("\n", "  # valid\n"),
        "".join(f'"{point:.6f}","{value:.6f}"\n' for point, value in zip(AXIS, X[0], strict=True)),
        "".join(f"{point:.8E} {value:.8E}\n" for point, value in zip(AXIS, X[0], strict=True)).replace("E", "D"),
        WHOLE.replace(".", ",").replace("\t", "  "),
        "".join(f"{i},{point},{value}\n" for i, (point, value) in enumerate(zip(AXIS, X[0], strict=True))),
        "value,shift\n" + "".join(f"{value},{point}\n" for point, value in zip(AXIS, X[0], strict=True)),
        WHOLE + "\n" + WHOLE,
        "".join(np.random.default_rng(0).permutation(LINES)),
        WHOLE + LINES[-1],
        WHOLE + "nan\t1\n",
    ],
)
def test_texts_of_one_spectrum(tmp_path, text):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    data = load_dataset(tmp_path, modality="spectra")
    np.testing.assert_allclose(data.x[:, 0], X[[0, 0]], atol=1e-5)
    later = load_dataset(tmp_path / "a.txt", schema=data.schema)  # one of them
    assert np.array_equal(later.x, data.x[:1])


def test_a_cell_that_is_missing_does_not_end_a_spectrum(tmp_path):
    for i, gap in enumerate((",\n", ",n.a.\n")):
        lines = [f"{point},{value}\n" for point, value in zip(np.arange(32), np.tile(X[0], 2), strict=True)]
        lines[20] = "20" + gap
        (tmp_path / f"{i}.csv").write_text("".join(lines))
    with pytest.warns(UserWarning, match="2 values of 2 spectra missing"):
        assert load_dataset(tmp_path, modality="spectra").x.shape == (2, 1, 32)


def test_files_beside_spectra_are_left_out(tmp_path):
    write(tmp_path)
    (tmp_path / "notes.txt").write_text("measured on a Monday")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "plot.png").write_bytes(b"a picture")
    with pytest.warns(UserWarning, match="2 files without a spectrum, left out: empty.csv, notes.txt"):
        data = load_dataset(tmp_path, modality="spectra")
    assert data.x.shape == (6, 1, 16)
    assert "drop has no effect" in refusal(load_dataset, tmp_path, modality="spectra", drop=["a"])
    (tmp_path / "a" / "s0.txt").write_text(WHOLE.replace("\n", "\t1\n") * 2)
    assert "of which 16 are there before" in refusal(load_dataset, tmp_path, modality="spectra")


def test_a_column_of_several_is_chosen(tmp_path, capsys):
    for i, row in enumerate(X):
        lines = [f"{point},{value},{10 * value}" for point, value in zip(AXIS, row, strict=True)]
        (tmp_path / f"{i}.csv").write_text("\n".join(["nm,A,B", *lines]))
    first = load_dataset(tmp_path, modality="spectra")
    assert "the column A is read, at the points of nm; others are B" in capsys.readouterr().err
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
    text = (tmp_path / "1.jdx").read_text()
    comment = text.replace("##XUNITS", "$$ of a spectrum\n##XUNITS").replace("##END", "$$ end\n##END")
    linked = f"##TITLE=all\n##JCAMP-DX=4.24\n##DATA TYPE=LINK\n##BLOCKS=2\n{text}{text}##END=\n"
    (tmp_path / "1.jdx").write_text(comment)
    for written in (linked, text + (tmp_path / "2.jdx").read_text()):
        (tmp_path / "0.jdx").write_text(written)
        with pytest.warns(UserWarning, match="0.jdx: the first of several spectra is read"):
            data = load_dataset(tmp_path)
        np.testing.assert_allclose(data.x[:, 0], X[[1, 1, 2, 3, 4, 5]], atol=1e-4)
    (tmp_path / "0.jdx").write_text("##TITLE=a\n##PEAK TABLE=(XY..XY)\n" + "41, 12\n44, 100\n" * 8 + "##END=\n")
    assert "is a table of peaks" in refusal(load_dataset, tmp_path)
    (tmp_path / "0.jdx").write_text(text)
    (tmp_path / "7.jdx").write_text("no spectrum")
    assert "7.jdx as a JCAMP-DX file" in refusal(load_dataset, tmp_path)


@pytest.mark.skipif(importlib.util.find_spec("jcamp") is None, reason="extra signals")
def test_units_of_jcamp_that_differ_are_told(tmp_path, recwarn):
    import jcamp

    def write(name, axis=AXIS, x="1/CM", y="ABSORBANCE"):
        made = {"x": axis, "y": X[0].astype(float), "title": name, "xunits": x, "yunits": y}
        jcamp.writefile(str(tmp_path / f"{name}.jdx"), made)

    for name in "abcd":
        write(name, x="cm-1" if name == "a" else "1/CM", y="TRANSMITTANCE" if name == "d" else "Absorbance")
    load_dataset(tmp_path)
    said = [str(w.message) for w in recwarn if "different units" in str(w.message)]
    assert len(said) == 1 and "YUNITS" in said[0] and "TRANSMITTANCE (1, such as d.jdx)" in said[0]
    write("e", axis=AXIS + 10 * np.ptp(AXIS))
    assert "do not overlap: e.jdx (" in refusal(load_dataset, tmp_path)


def test_a_table_of_points_says_what_it_may_be(tmp_path):
    frame = pd.DataFrame(np.sin(np.arange(64) / 5 + np.arange(6)[:, None]), columns=[str(900 + i) for i in range(64)])
    frame.to_csv(tmp_path / "x.csv", index=False)
    with pytest.warns(UserWarning, match="64 columns 900 to 963 are points of an axis.*--modality spectra"):
        load_dataset(tmp_path / "x.csv")
    noise = pd.DataFrame(np.random.default_rng(0).normal(size=(6, 64)), columns=frame.columns)
    level = pd.DataFrame(np.tile(np.arange(6)[:, None] / 3, 64), columns=frame.columns)
    counts = pd.DataFrame(np.random.default_rng(0).lognormal(0, 5, (6, 999)), columns=[f"ENSG{i}" for i in range(999)])
    assert smooth_points(frame) == list(frame.columns) and smooth_points(counts) == []
    for other in (noise, level, frame.add_prefix("pixel")):
        other.to_csv(tmp_path / "x.csv", index=False)
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


def write_arrays(path, **arrays):
    if path.suffix == ".mat":
        pytest.importorskip("scipy.io").savemat(path, arrays)
    elif path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        with pytest.importorskip("h5py").File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array
    return path


@pytest.mark.parametrize("ending", [".mat", ".npz", ".h5"])
@pytest.mark.parametrize("name", ["wavelengths", "wn", "ppm"])
def test_an_axis_beside_an_array_is_kept(tmp_path, capsys, ending, name):
    y = np.arange(6) % 2
    path = write_arrays(tmp_path / f"x{ending}", X=X, y=y, **{name: AXIS})
    data = load_dataset(path, modality="spectra")
    np.testing.assert_allclose(data.x[:, 0], X)
    np.testing.assert_allclose(data.schema["axis"], AXIS)
    assert data.y.tolist() == y.tolist() and f"at the points of {name}" in capsys.readouterr().err
    # Later ones run the other way, or have other points, or are a table.
    later = write_arrays(tmp_path / f"later{ending}", X=X[:, ::-1].copy(), **{name: AXIS[::-1].copy()})
    np.testing.assert_allclose(load_dataset(later, schema=data.schema).x[:, 0], X, rtol=1e-6)
    finer = np.linspace(400, 430, 31)
    made = np.stack([np.interp(finer, AXIS, row) for row in X])
    later = write_arrays(tmp_path / f"finer{ending}", X=made, **{name: finer})
    np.testing.assert_allclose(load_dataset(later, schema=data.schema).x[:, 0], X, atol=1e-5)
    short = write_arrays(tmp_path / f"short{ending}", X=X[:, :8], **{name: AXIS[:8]})
    assert "give spectra of this range" in refusal(load_dataset, short, schema=data.schema)
    frame = pd.DataFrame(X, columns=[f"{point:g}" for point in AXIS])
    frame[frame.columns[::-1]].to_csv(tmp_path / "later.csv", index=False)
    np.testing.assert_allclose(load_dataset(tmp_path / "later.csv", schema=data.schema).x[:, 0], X, rtol=1e-6)


@pytest.mark.parametrize("ending", [".mat", ".npz", ".h5"])
def test_spectra_in_columns_beside_their_axis(tmp_path, ending):
    path = write_arrays(tmp_path / f"x{ending}", x=AXIS, spectra=X.T.copy())
    data = load_dataset(path, modality="spectra")
    np.testing.assert_allclose(data.x[:, 0], X)
    np.testing.assert_allclose(data.schema["axis"], AXIS)


def test_spectra_that_seem_to_be_in_columns_are_told(tmp_path, recwarn):
    t, random = np.linspace(0, 6, 200), np.random.default_rng(0)
    x = np.sin(t[:, None]) + random.lognormal(0, 0.5, 40) * np.cos(2 * t[:, None])
    np.savetxt(tmp_path / "rows.csv", x.T, delimiter=",")
    load_dataset(tmp_path / "rows.csv", modality="spectra")
    assert not recwarn.list
    np.savetxt(tmp_path / "columns.csv", x, delimiter=",")
    with pytest.warns(UserWarning, match="200 spectra of 40 points, but values change less from row to row.*turn"):
        load_dataset(tmp_path / "columns.csv", modality="spectra")


def test_arrays_without_an_axis_stay_as_they_are(tmp_path):
    path = write_arrays(tmp_path / "x.npz", X=X, weights=AXIS)
    assert load_dataset(path, modality="spectra").schema.get("axis") is None


def test_arrays_beside_spectra_that_are_no_axis_are_not_read(tmp_path):
    path = write_arrays(tmp_path / "x.npz", X=X, wn=AXIS, names=np.array(["a", None] * 3, object))
    np.testing.assert_allclose(load_dataset(path, modality="spectra").schema["axis"], AXIS)
    path = write_arrays(tmp_path / "o.npz", X=X, wn=AXIS.astype(object))
    assert "wn in" in refusal(load_dataset, path, modality="spectra")


@pytest.mark.parametrize("ending", [".mat", ".npz", ".h5"])
def test_spectra_may_be_y_of_x(tmp_path, ending):
    data = load_dataset(write_arrays(tmp_path / f"x{ending}", x=AXIS, y=X), modality="spectra")
    np.testing.assert_allclose(data.x[:, 0], X)
    np.testing.assert_allclose(data.schema["axis"], AXIS)


def test_folders_with_a_matrix_and_an_axis_each(tmp_path, monkeypatch):
    for name, shift in (("ill_01", 0), ("ill_2b", 0), ("well_3", 2)):
        (tmp_path / "set" / name).mkdir(parents=True)
        np.savetxt(tmp_path / "set" / name / "raman_shift.csv", AXIS + shift)
        np.savetxt(tmp_path / "set" / name / "spectra.csv", X, delimiter=",")
        (tmp_path / "set" / name / "user.csv").write_text("user,kind\n1,a\n")
    data = follow(refusal(load_dataset, tmp_path / "set", modality="spectra"), tmp_path, monkeypatch)
    assert data.x.shape == (18, 1, 16) and data.y.tolist() == ["ill"] * 12 + ["well"] * 6
    assert data.groups.tolist() == [name for name in ("ill_01", "ill_2b", "well_3") for _ in range(6)]
    np.testing.assert_allclose(data.x[:6, 0], X, rtol=1e-5)
    np.testing.assert_allclose(data.x[12, 0, 1:], X[0, :-1], rtol=1e-4)


def test_columns_are_samples_if_there_are_as_many_labels(tmp_path, capsys):
    np.savez(tmp_path / "s.npz", X=X.T, y=np.arange(6) % 2, wavelengths=AXIS)
    data = load_dataset(tmp_path / "s.npz", modality="spectra")
    assert data.x.shape == (6, 1, 16) and data.y.tolist() == [0, 1] * 3 and data.schema["axis"] == AXIS.tolist()
    assert "columns of X, with as many as there are labels, are the samples" in capsys.readouterr().err
    assert load_dataset(tmp_path / "s.npz", modality="vectors").x.shape == (6, 16)
