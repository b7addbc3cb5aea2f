"""Text tables without a header line, and those whose separator is found: .txt, .dat, .data."""

import numpy as np
import pandas as pd
import pytest

from refusals import refusal
from viewsmith.data import load_dataset
from viewsmith.data.headers import has_header
from viewsmith.data.options import DataOptions
from viewsmith.data.readers import text_tables
from viewsmith.data.text_lines import has_decimal_commas

VALUES = "5.1,3.5,1.4,0.2,setosa\n7.0,3.2,4.7,1.4,versicolor\n4.9,3.0,1.4,0.2,setosa\n6.4,3.2,4.5,1.5,versicolor\n"


@pytest.mark.parametrize(
    ("first", "rest", "named"),
    [
        ("5.1 3.5 1.4 setosa", "4.9 3 1.4 setosa", False),  # in order by chance, but a class is that of another line
        ("3 0 9 1 9", "4 0 1 7 2", False),
        ("3 ? 1 2", "2 1 1 5", False),
        ("400 410 420", "1 2 3", True),  # wavelengths
        ("4000 3998.1 3996.2", "1 2 3", True),
        ("id 0.1 1 10", "g1 5 5 5", True),
        ("a b 3", "1 2 3", True),
        ("a 1", "b 2", True),
        ("a b", "c d", True),
    ],
)
def test_whether_the_first_line_has_names(first, rest, named):
    assert has_header(pd.DataFrame([first.split(), *[rest.split()] * 3])) is named


def test_a_column_of_an_index_has_an_empty_name():
    counts = [[f"SRR{i}", *map(str, np.arange(i, i + 6) % 4), "low"] for i in range(9)]  # by numbers of bacteria
    names = ["sample", "463361", "29566", "4467447", "88", "1012112", "520", "score"]
    assert has_header(pd.DataFrame([names, *counts]))
    assert not has_header(pd.DataFrame(counts))
    assert has_header(pd.DataFrame([["", "0", "2", "1"], ["0", "5", "4", "3"], ["1", "2", "1", "0"]]))


def test_a_line_of_a_sequence_and_its_class_is_no_header():
    rows = [["ACGTA"[: 3 + i % 3], str(i % 2)] for i in range(8)]
    assert not has_header(pd.DataFrame(rows)) and not has_header(pd.DataFrame([row[::-1] for row in rows]))
    named = [[text, ("EI", "IE", "N")[i % 3]] for i, (text, _) in enumerate(rows)]
    assert not has_header(pd.DataFrame(named)) and not has_header(pd.DataFrame([row[::-1] for row in named]))
    assert has_header(pd.DataFrame([["seq", "kind"], *named])) and has_header(pd.DataFrame([["", "EI"], *named]))
    assert has_header(pd.DataFrame([["dna", "7"], *rows])) and has_header(pd.DataFrame([["s", "1"], *rows]))
    three = [[kind, f"DONOR-{number}", text] for number, (text, kind) in enumerate(named)]
    assert not has_header(pd.DataFrame(three)) and has_header(pd.DataFrame([["kind", "id", "seq"], *three]))
    assert has_header(pd.DataFrame([["town", "1"], *([str(i), str(i % 2)] for i in range(8))]))


@pytest.mark.parametrize("name", ["a.csv", "a.data"])
def test_a_table_without_header_keeps_its_first_row(tmp_path, capsys, name):
    (tmp_path / name).write_text(VALUES * 5)
    data = load_dataset(tmp_path / name, label="4")
    assert "the first line has values, as the others: columns are named 0 to 4" in capsys.readouterr().err
    assert len(data.x) == 20 and data.feature_names == ["0", "1", "2", "3"] and data.y[0] == "setosa"
    (tmp_path / name).write_text("1,2,3,4,setosa\n" + VALUES * 5)  # whose first line, in order, would be names
    assert load_dataset(tmp_path / name, schema=data.schema).x[0].tolist() == [1, 2, 3, 4]
    (tmp_path / name).write_text("0,1,2,3,4\n" + VALUES * 5)
    assert len(load_dataset(tmp_path / name, schema=data.schema).x) == 20


def test_the_header_is_told(tmp_path):
    (tmp_path / "a.csv").write_text("3,1,2\n" + "4,5,6\n7,8,8\n" * 5)
    assert load_dataset(tmp_path / "a.csv", header="yes").feature_names == ["3", "1", "2"]
    (tmp_path / "a.csv").write_text("1,2,3\n" + "4,5,6\n7,8,8\n" * 5)
    assert len(load_dataset(tmp_path / "a.csv", header="no").x) == 11
    assert "header is 'maybe', expected auto, yes or no" in refusal(load_dataset, tmp_path / "a.csv", header="maybe")
    np.save(tmp_path / "a.npy", np.eye(3))
    assert "header=no has no effect" in refusal(load_dataset, tmp_path / "a.npy", header="no")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("  1.5e0  7 3\n 4 5  1\n 3 2 9\n", "0 1 2"),  # as Fortran and UCI HAR write it
        ("# t flux error\n1 2 0.5\n2 1 0.4\n3 3 1\n", "t flux error"),  # as numpy.savetxt writes it
        ("# made by hand\nt\tflux\n1\t2\n2\t3\n5 \t4\n", "t flux"),
        ('"s1" "s2"\n"g1" 1 2\n"g2" 3 1\n"g3" 3 1\n', "s1 s2"),  # as R writes it: names of rows have none
        ("name\torigin\tt\nAda Byron\tUK\t1\nJo Smith\tUSA\t2\nMy Li\tUK\t2\n", "t"),  # names of two words
        ("39, 7, 9\n3, 9, -2\n4, 4, 4\n", "0 1 2"),
        ('18.0 8 7\t"a b"\n15.0 3 1\t"c d"\n18.0 8 2\t"a b"\n', "0 1 2"),
    ],
)
def test_the_separator_of_text_is_found(tmp_path, text, names):
    (tmp_path / "a.txt").write_text(text)
    found = load_dataset(tmp_path / "a.txt")
    assert [name for name in found.feature_names if "=" not in name] == names.split() and len(found.x) == 3


@pytest.mark.parametrize("ending", ["csv", "txt"])
@pytest.mark.parametrize(("rows", "columns"), [(3, 2), (60, 2), (3, 5), (60, 5)])
def test_decimal_commas_between_semicolons(tmp_path, rows, columns, ending):
    x = np.random.default_rng(0).normal(size=(rows, columns)).round(2)
    names = [f"width, mm {i}" for i in range(columns)]
    values = "".join(";".join(str(value).replace(".", ",") for value in row) + "\n" for row in x.tolist())
    above = "Study X, of 3 May\n\n" if ending == "csv" and columns == 5 else ""
    (path := tmp_path / f"t.{ending}").write_text(f"{above}{';'.join(names)}\n{values}")
    with pytest.warns(UserWarning, match="commas are read as marks of decimals in"):
        data = load_dataset(path)
    assert data.feature_names == names
    np.testing.assert_allclose(data.x, x, atol=1e-6)
    if rows > 3:  # of which the first has no names
        path.write_text(values)
        np.testing.assert_allclose(load_dataset(path).x, x, atol=1e-6)


@pytest.mark.parametrize(
    "lines",
    [
        ["x,y", "1;2,3;4", "5;6,7;8"],  # lists between commas
        ["a;b", "1;2", "3;4"],
        ["a,b", "1,5", "2,5"],
        ["a;b", "1;x, y", "2;z"],
        ["a;b", '1;"2', '3,4"'],
        [],
    ],
)
def test_other_lines_have_no_decimal_commas(lines):
    assert not has_decimal_commas(lines)


@pytest.mark.parametrize(("name", "mark"), [("a.csv", ","), ("a.csv", ";"), ("a.tsv", "\t"), ("a.txt", " ")])
def test_lines_longer_than_a_field_of_csv(tmp_path, name, mark):
    rows = [f"{'gene' * 40_000}{mark}b", *(f"{i}.5{mark}{i % 2}" for i in range(5))]
    (tmp_path / name).write_text("\n".join(rows) + "\n")
    assert load_dataset(tmp_path / name).x.shape == (5, 2)


@pytest.mark.parametrize("content", [b"some words\nthat are no table\n", b"\0\1\2\n\0\n", b""])
def test_other_files_of_these_endings_are_no_tables(tmp_path, content):
    (tmp_path / "a.dat").write_bytes(content)
    assert "a.dat is not a table: expected lines with equal numbers" in refusal(load_dataset, tmp_path / "a.dat")
    (tmp_path / "a.dat").write_text("# Rate (Hz):= 1000\n" + "2094.0\n2095.5\n" * 3)
    assert "a.dat has one column of numbers" in refusal(load_dataset, tmp_path / "a.dat")
    (tmp_path / "a.txt").write_text(">one\nACGT\nAC\n")
    assert "has sequences, by its first letter: rename it to a.fasta" in refusal(load_dataset, tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("above", "ending", "mark"),
    [
        ("Study X\n\n", "csv", ","),
        ("Study X,,,\nunit,mm,,\n", "csv", ","),
        ("a\nb;c\n", "csv", ";"),
        ("a\n\n", "tsv", "\t"),
    ],
)
def test_lines_above_the_names_of_columns_are_left_out(tmp_path, above, ending, mark, capsys):
    rows = "\n".join(f"{i},{i / 8},{i % 3},{i * i}" for i in range(12))
    text = above + f"length,width,height,area\n{rows}\n".replace(",", mark)
    (path := tmp_path / f"t.{ending}").write_text(text)
    data = load_dataset(path)
    assert data.feature_names == ["length", "width", "height", "area"] and len(data.x) == 12
    assert "2 lines above the names of the columns left out" in capsys.readouterr().err
    assert load_dataset(path, schema=data.schema).x.shape == (12, 4) and not capsys.readouterr().err
    # A row of values of which most are missing is none of them.
    path.write_text(f"1,,,\n{rows}\n".replace(",", mark))
    assert len(load_dataset(path, header="no").x) == 13


@pytest.mark.parametrize("channels", [1, 3])
def test_start_and_rate_of_a_wristband_are_no_moments(tmp_path, channels, capsys):
    x = np.random.default_rng(0).integers(-60, 60, (200, channels))
    lines = [["1680686620.000000"] * channels, ["32.000000"] * channels, *x.astype(str).tolist()]
    (path := tmp_path / "ACC.csv").write_text("".join(", ".join(line) + "\n" for line in lines))
    data = load_dataset(path, modality="series", length="50")
    assert data.x.shape == (4, channels, 50) and (data.x[0, :, :2] == x[:2].T).all()
    assert data.schema["signal"]["rate"] == 32
    assert "(Empatica E4), and are left out: 32 Hz" in capsys.readouterr().err
    assert load_dataset(path, schema=data.schema).x.shape == data.x.shape


def test_titles_above_a_sheet(tmp_path, capsys):
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame({name: np.arange(12.0) * i for i, name in enumerate("abcd", 1)})
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        pd.DataFrame([["Study X"]]).to_excel(book, index=False, header=False)
        frame.to_excel(book, index=False, startrow=2)
    data = load_dataset(tmp_path / "t.xlsx")
    assert data.feature_names == [*"abcd"] and data.x[3].tolist() == [3, 6, 9, 12]
    assert "2 lines above the names of the columns left out (Study X)" in capsys.readouterr().err


def test_none_is_a_class_of_labels_of_a_sheet(tmp_path, capsys):
    pytest.importorskip("openpyxl")
    pd.DataFrame({"y": ["None", "x", "NA", ""] * 5, "a": np.arange(20) / 8}).to_excel(tmp_path / "t.xlsx", index=False)
    assert load_dataset(tmp_path / "t.xlsx", label="y").y.tolist() == ["None", "x", "", ""] * 5
    assert "None in the label column y is a class, of 5 rows" in capsys.readouterr().err


def test_none_is_a_class_of_labels_and_other_words_are_said(tmp_path, capsys):
    kinds = ["None", "apnea", "NA", " None", ""] * 8
    text = "sleep,a,b\n" + "".join(f"{kind},{i},{i % 7}\n" for i, kind in enumerate(kinds))
    (path := tmp_path / "t.csv").write_text(text)
    data = load_dataset(path, label="sleep")
    assert dict(zip(*np.unique(data.y, return_counts=True), strict=True)) == {"": 16, "None": 16, "apnea": 8}
    said = capsys.readouterr().err
    assert "None in the label column sleep is a class, of 8 rows" in said and "NA is no label, in 8 rows" in said
    assert load_dataset(path, schema=data.schema, table=data.x.table).y.tolist() == data.y.tolist()
    path.write_text(text.replace("apnea", "1").replace("None", "2.5"))
    assert load_dataset(path, label="sleep", target="class").y.tolist()[:2] == ["2.5", "1"]


COLUMNS = {
    "number": lambda i: f"{i / 8}",
    "whole then broken": lambda i: str(i) if i < 30 else f"{i}.5",
    "gaps at first": lambda i: "" if i < 30 else str(i),
    "flag": lambda i: "" if i == 3 else str(i % 2 == 0),
    "words": lambda i: "" if i < 30 else "ab"[i % 2],
    "flag at the end": lambda i: str(i % 2 if i < 40 else i % 2 == 0),
    "large at the end": lambda i: str(2**53 + i if i < 40 else 2**63 + i),
    "code at the end": lambda i: str(10 + i % 7) if i < 50 else f"0{i % 7}x",
}


@pytest.mark.parametrize("names", [COLUMNS, [*COLUMNS][:5], *([name] for name in COLUMNS)])
def test_parts_of_a_text_table_are_those_of_the_whole(tmp_path, monkeypatch, names):
    rows = [",".join(COLUMNS[name](i) for name in names) for i in range(60)]
    (tmp_path / "t.csv").write_text("\n".join([",".join(names), *rows]))
    request = DataOptions()
    whole, _ = text_tables.text_frame(tmp_path / "t.csv", request)
    monkeypatch.setattr(text_tables, "VALUES", 10 * len(names))
    parts, _ = text_tables.text_frame(tmp_path / "t.csv", request)
    pd.testing.assert_frame_equal(parts, whole)


def test_codes_below_many_lines_and_in_quotes_are_found(tmp_path):
    first = "\n".join(["zip,x", *("\n90210,1" for _ in range(text_tables.SAMPLE - 1))])
    for last, kept in (("\n01234,2", True), ('\n"01234",2', True), ("\n90210,1\n01234,2", False)):
        (tmp_path / "t.csv").write_text(first + last + "\n")
        frame, _ = text_tables.text_frame(tmp_path / "t.csv", DataOptions())
        assert ("01234" in set(frame["zip"])) is kept


def test_a_wide_table_without_header_keeps_its_first_row(tmp_path):
    rows = np.random.default_rng(0).normal(size=(6, text_tables.WIDE + 5))
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", header=False, index=False)
    found = load_dataset(tmp_path / "t.csv").x
    np.testing.assert_allclose(found, rows, rtol=1e-6)


ACTIGRAPH = """------------ Data File Created By ActiGraph GT3X+ date format M/d/yyyy{rate} Filter Normal -----------
Serial Number: NEO1F16120034
Start Time 10:00:00
Start Date 3/1/2024
Epoch Period (hh:mm:ss) {epoch}
Download Date 3/1/2024
Current Battery Voltage: 4.12     Mode = 12
--------------------------------------------------
{names}"""


@pytest.mark.parametrize("names", ["", "Accelerometer X,Accelerometer Y,Accelerometer Z\n"])
@pytest.mark.parametrize(("rate", "epoch", "hertz"), [(" at 30 Hz ", "00:00:00", 30), ("", "00:00:15", 1 / 15)])
def test_rate_above_a_recording_of_an_accelerometer(tmp_path, names, rate, epoch, hertz, capsys):
    x = np.random.default_rng(0).normal(0, 1, (240, 3)).round(3)
    (path := tmp_path / "a.csv").write_text(
        ACTIGRAPH.format(rate=rate, epoch=epoch, names=names) + "".join(",".join(row) + "\n" for row in x.astype(str))
    )
    data = load_dataset(path, modality="series", length="2min" if hertz < 1 else "2s")
    points = round(120 * hertz if hertz < 1 else 2 * hertz)
    assert data.schema["signal"]["rate"] == pytest.approx(hertz) and data.x.shape == (240 // points, 3, points)
    assert np.allclose(data.x[0, :, :8], x[:8].T)
    assert "8 lines above the names of the columns left out (------------ Data File" in (
        told := capsys.readouterr().err
    )
    assert f": {hertz:.4g} Hz" in told


def test_rows_below_a_title_with_a_rate_may_be_recordings(tmp_path, capsys):
    x = np.random.default_rng(0).normal(size=(20, 100)).round(3)
    frame = pd.DataFrame(x, columns=[f"t{i}" for i in range(100)])
    (tmp_path / "r.csv").write_text("Signals sampled at 50 Hz\n" + frame.to_csv(index=False))
    assert load_dataset(tmp_path / "r.csv", modality="series").x.shape == (20, 1, 100)


def test_cells_between_dashes_are_no_titles_of_tables(tmp_path):
    rows = "".join(f"----- kind {i % 3} -----,{i}\n" for i in range(30))
    (tmp_path / "r.csv").write_text("text,v\n" + rows)
    assert len(load_dataset(tmp_path / "r.csv").x) == 30


def test_words_with_a_number_are_one_cell(tmp_path):
    (path := tmp_path / "t.txt").write_text(
        "sample\ttime point\tvalue\n" + "".join(f"s{i}\tday {i % 3}\t0.{i + 1}\n" for i in range(60))
    )
    assert load_dataset(path).x.table.columns[0].name == "time point"
