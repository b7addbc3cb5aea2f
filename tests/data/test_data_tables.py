"""Tables of numbers (strict): which columns become features, and later files for a fitted run."""

import bz2
import functools
import gzip
import json
import lzma
import sys
import warnings
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest

from refusals import refusal
from viewsmith.core import rows as core_rows
from viewsmith.core.errors import MissingExtra
from viewsmith.data import load_dataset as load_table

ROWS = 20
load_dataset = functools.partial(load_table, strict=True)
rng = np.random.default_rng(0)


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": np.arange(ROWS),
            "town": ["Oslo", "Bergen"] * (ROWS // 2),
            "height": rng.normal(size=ROWS),
            "well": np.arange(ROWS) % 3 == 0,
            "code": ["01", "02", "10", "01"] * (ROWS // 4),
            "kind": ["x", "y"] * (ROWS // 2),
        }
    )


# --- columns


def test_numeric_columns_then_encoded_ones(save):
    table = frame()
    data = load_dataset(save(table), label="kind", drop=["code"], one_hot=["town"])
    assert data.feature_names == ["age", "height", "well", "town=Bergen", "town=Oslo"]
    assert data.x.dtype == np.float32 and data.x.flags.c_contiguous
    expected = table[["age", "height", "well"]].to_numpy(np.float32)
    np.testing.assert_array_equal(data.x[:, :3], expected)
    np.testing.assert_array_equal(data.x[:, 3], table["town"] == "Bergen")
    np.testing.assert_array_equal(data.x[:, 4], table["town"] == "Oslo")
    assert data.y.tolist() == table["kind"].tolist() and data.y.dtype.kind == "U"
    assert (data.split, data.label_name, data.modality) == ("stratified", "kind", "vectors")
    assert data.schema == {
        "columns": ["age", "height", "well"],
        "one_hot": {"town": ["Bergen", "Oslo"]},
        "drop": ["code"],
        "label": "kind",
        "modality": "vectors",
        "impute": "none",
        "row_shape": [5],
        "feature_names": data.feature_names,
    }
    assert json.loads(json.dumps(data.schema)) == data.schema


def test_without_a_label_there_is_no_split(save):
    data = load_dataset(save(frame()[["age", "height"]]))
    assert data.y is None and data.split == "none" and data.label_name is None


def test_a_column_that_is_named_like_a_label_is_told(save, recwarn):
    path = save(frame()[["age", "height", "town"]].rename(columns={"town": "Class"}))
    load_table(path)
    assert [str(each.message) for each in recwarn] == [
        f"{path}: column Class is a feature: --label Class makes it the label, --drop Class leaves it out, "
        "--columns Class=category says that it is meant"
    ]
    recwarn.clear()
    for options in ({"label": "Class"}, {"drop": ["Class"]}, {"columns": {"Class": "category"}}):
        load_table(path, **options)
    assert not recwarn


@pytest.mark.parametrize(("label", "kind"), [("age2", "i"), ("well", "b"), ("half", "i"), ("town", "U")])
def test_labels_keep_their_dtype(save, label, kind):
    table = frame().assign(age2=np.arange(ROWS) // 10, half=np.repeat([1.0, 2.0], ROWS // 2))
    data = load_dataset(save(table), label=label, drop=[c for c in ("town", "code", "kind") if c != label])
    assert data.y.dtype.kind == kind and data.y.tolist() == table[label].tolist()
    assert label not in data.feature_names


def test_text_columns_are_refused_by_name_with_a_value(save):
    message = refusal(load_dataset, save(frame()), label="kind")
    assert (
        "town (contains 'Oslo')" in message and "--drop" in message and "--one-hot" in message and "age" not in message
    )


def test_messages_quote_the_value_that_makes_a_column_text(csv):
    message = refusal(load_dataset, csv("a,b\n1,2\n?,3\n"))
    assert "1 column that is not numbers: a (contains '?')" in message


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"label": "kinds"}, "no column 'kinds', given as label; did you mean kind?"),
        ({"label": "zzz"}, "its columns are: age, town, height, well, code and 1 more"),
        ({"drop": ["towns"]}, "given as drop; did you mean town?"),
        ({"one_hot": ["twon"]}, "given as one_hot; did you mean town?"),
        ({"drop": ["town"], "one_hot": ["town"]}, "both drop and one_hot"),
        ({"label": "kind", "drop": ["kind"]}, "both label and drop"),
        ({"label": "kind", "one_hot": ["kind"]}, "both label and one_hot"),
        ({"label": "kind", "drop": ["age", "town", "height", "well", "code"]}, "has no feature, only the label"),
        ({"drop": ["town", "code", "kind"], "modality": "images"}, "has no column with names of image files"),
    ],
)
def test_options_refused(save, options, part):
    assert part in refusal(load_dataset, save(frame()), **options)


def test_missing_values_are_refused_with_count_and_columns(save):
    table = frame().drop(columns=["code", "kind"])
    table.loc[[1, 2], "height"] = np.nan
    table.loc[3, "town"] = None
    path = save(table)
    message = refusal(load_dataset, path, one_hot=["town"])
    assert "3 missing values (NaN) in 2 columns: height, town;" in message and "--impute median" in message
    data = load_dataset(path, one_hot=["town"], impute="median")
    assert np.isnan(data.x[[1, 2], 1]).all() and np.isnan(data.x).sum() == 2
    np.testing.assert_array_equal(data.x[3, -2:], 0)


def test_booleans_with_missing_values_are_numbers(save):
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [True, None, False]})
    assert "1 missing value (NaN) in 1 column: b" in refusal(load_dataset, save(table))
    np.testing.assert_array_equal(load_dataset(save(table), impute="median").x[:, 1], [1, np.nan, 0])


@pytest.mark.parametrize("options", [{}, {"one_hot": ["b"]}])
def test_a_column_without_any_value_is_refused(save, options):
    table = pd.DataFrame({"a": [1.0, 2.0], "b": [None, None]})
    message = refusal(load_dataset, save(table), impute="median", **options)
    assert "b" in message and "--drop" in message and "value" in message


def test_infinite_values_are_refused_with_count_and_columns(save):
    table = pd.DataFrame({"a": [1.0, 2.0, np.inf], "b": [1.0, -np.inf, 3.0], "c": [1.0, 2.0, 3.0]})
    assert "2 infinite values (infinity) in 2 columns: a, b;" in refusal(load_dataset, save(table), impute="median")


def test_missing_labels_are_said_with_their_count(save):
    table = frame()[["age", "height", "kind"]]
    table.loc[:4, "kind"] = None
    with pytest.warns(UserWarning, match=f"5 of {len(table)} rows have no label"):
        dataset = load_dataset(save(table), label="kind", impute="median")
    assert (dataset.y[:5] == "").all() and (dataset.y[5:] != "").all() and dataset.partly_labeled


def test_no_rows_and_one_row(save):
    table = frame()[["age", "height"]]
    assert "has no rows, only a header line with 2 columns" in refusal(load_dataset, save(table[:0]))
    assert "n_samples=1" in refusal(load_dataset, save(table[:1]))


def test_integers_with_a_missing_value_are_one_category_each(save):
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0], "level": [1, 2, 1]})
    schema = load_dataset(save(table), one_hot=["level"], impute="median").schema
    assert schema["one_hot"] == {"level": ["1", "2"]}
    if save(table).suffix == ".parquet":
        gap = pd.DataFrame({"a": [1.0, 2.0], "level": [2.0, np.nan]})
        np.testing.assert_array_equal(load_dataset(save(gap), schema=schema).x[:, 1:], [[0, 1], [0, 0]])


# --- a later file


def test_a_later_file_gives_the_same_columns_in_the_same_order(save, recwarn):
    table = frame()
    first = load_dataset(save(table), label="kind", drop=["code"], one_hot=["town"])
    shuffled = table[["kind", "well", "town", "height", "age"]]
    again = load_dataset(save(shuffled, "later"), schema=json.loads(json.dumps(first.schema)))
    np.testing.assert_array_equal(again.x, first.x)
    np.testing.assert_array_equal(again.test_index, first.test_index)
    assert again.feature_names == first.feature_names and again.y.tolist() == first.y.tolist()
    assert not recwarn.list


def test_a_later_file_without_labels(save):
    schema = load_dataset(save(frame()), label="kind", drop=["code", "town"]).schema
    later = load_dataset(save(frame()[["age", "height", "well"]][:1], "later"), schema=schema)
    assert (later.y, later.split, later.label_name, later.x.shape) == (None, "none", None, (1, 3))


def test_a_later_file_with_another_label_column(save):
    schema = load_dataset(save(frame()), label="kind", drop=["code", "town"]).schema
    path = save(frame().rename(columns={"kind": "sort"}), "later")
    later = load_dataset(path, schema=schema, label="sort")
    assert later.label_name == "sort" and later.split == "stratified" and later.x.shape == (ROWS, 3)
    assert "given as label" in refusal(load_dataset, path, schema=schema, label="other")


def test_a_later_file_that_lacks_a_column(save):
    schema = load_dataset(save(frame()), label="kind", drop=["code"], one_hot=["town"]).schema
    message = refusal(load_dataset, save(frame().drop(columns=["height", "town"]), "later"), schema=schema)
    assert "lacks 2 columns that the run was fitted on: height, town;" in message


def test_a_later_file_with_more_columns(save):
    schema = load_dataset(save(frame()[["age", "height"]])).schema
    with pytest.warns(UserWarning, match="4 columns that the run does not know, ignored: town, well, code, kind"):
        assert load_dataset(save(frame(), "later"), schema=schema).x.shape == (ROWS, 2)


def test_a_later_file_with_an_unseen_category(save):
    schema = load_dataset(save(frame()[["age", "town"]]), one_hot=["town"]).schema
    with pytest.warns(UserWarning, match="town has 1 category that the run has not seen, encoded as zeros: Rome"):
        later = load_dataset(save(pd.DataFrame({"age": [1, 2], "town": ["Rome", "Oslo"]}), "later"), schema=schema)
    np.testing.assert_array_equal(later.x, [[1, 0, 0], [2, 0, 1]])


def test_a_later_file_with_text_or_gaps_in_a_column(save):
    schema = load_dataset(save(frame()[["age", "height"]])).schema
    text = pd.DataFrame({"age": ["old", "new"], "height": [1.0, 2.0]})
    assert "age (contains 'old')" in refusal(load_dataset, save(text, "later"), schema=schema)
    gap = pd.DataFrame({"age": [1.0, None], "height": [1.0, 2.0]})
    assert "1 missing value (NaN) in 1 column: age" in refusal(load_dataset, save(gap, "later"), schema=schema)


def test_a_table_for_a_run_fitted_on_arrays(save, tmp_path):
    np.save(tmp_path / "a.npy", np.ones((3, 2)) * [[1], [2], [3]])
    schema = load_dataset(tmp_path / "a.npy").schema
    assert load_dataset(save(frame()[["age", "height", "kind"]]), schema=schema, label="kind").x.shape == (ROWS, 2)
    assert "has 1 feature per row" in refusal(load_dataset, save(frame()[["age"]]), schema=schema)


# --- csv files


def test_categories_are_the_text_in_the_file(csv):
    schema = load_dataset(csv("a,code\n1,01\n2,x\n"), one_hot=["code"]).schema
    assert schema["one_hot"] == {"code": ["01", "x"]}
    later = load_dataset(csv("a,code\n1,01\n2,01\n", "later.csv"), schema=schema)
    np.testing.assert_array_equal(later.x[:, 1:], [[1, 0], [1, 0]])


def test_an_index_is_just_a_column(csv):
    assert load_dataset(csv(",a\n0,1.5\n1,2.5\n")).feature_names == ["Unnamed: 0", "a"]


def test_a_byte_order_mark_is_not_part_of_a_name(csv):
    assert load_dataset(csv("a,b\n1,2\n3,4\n".encode("utf-8-sig"))).feature_names == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("a,b\n", "no rows, only a header line with 2 columns"),
        ("a,b,a\n1,2,3\n4,5,6\n", "columns with equal names: a;"),
        ("a,b\n1,2,3\n4,5,6\n", "more fields than the header line has names (a, ...)"),
        ("a,b\n1,2\n3,4,5\n", "Expected 2 fields in line 3, saw 3"),
        ("a,b\n1,2\n3\n", "1 missing value (NaN) in 1 column: b"),
        ("a|b\n1|2\n3|4\n", "has the separator '|', expected ','"),
        ('a,b\n1,"2\n3,4\n', "is it damaged"),
        ("a,b\n1,2\n".encode("utf-16")[:-1], "table in utf-16"),
        ('"two\nlines",b\nx,2\n', "two lines (contains 'x')"),
    ],
)
def test_csv_refused(csv, text, part):
    message = refusal(load_dataset, csv(text))
    assert part in message and "table.csv" in message


def test_a_feature_of_the_run_is_not_the_label_of_a_later_table(csv):
    schema = load_dataset(csv("a,b\n1,2\n3,4\n")).schema
    message = refusal(load_dataset, csv("a,b\n1,2\n3,4\n"), schema=schema, label="b")
    assert "the column b as a feature, so it cannot be the label: fit a run with --label b" in message


@pytest.mark.parametrize("mark", [";", "\t"])
def test_the_separators_of_other_programs_are_found_and_said(csv, mark):
    expected = load_dataset(csv("a,b\n1,2.5\n3,4\n"))
    with pytest.warns(UserWarning, match=f"columns are separated by {mark!r}".replace("\\", "\\\\")):
        found = load_dataset(csv("a,b\n1,2.5\n3,4\n".replace(",", mark), "other.csv"))
    np.testing.assert_array_equal(found.x, expected.x)
    assert found.feature_names == ["a", "b"]


@pytest.mark.filterwarnings("ignore:.*columns are separated")
@pytest.mark.parametrize(
    ("text", "mark", "rows"),
    [
        ("a;b\n1.5;2,5\n3.5;-,25\n2;4\n", "decimals", [[1.5, 2.5], [3.5, -0.25], [2, 4]]),
        ("a;b\n1;1,5E-07\n3;-2,5e+3\n2;0,25\n", "decimals", [[1, 1.5e-7], [3, -2500], [2, 0.25]]),
        ('a,b\n1,"1,234.5"\n2,"-1,000,000"\n3,10\n', "thousands", [[1, 1234.5], [2, -1e6], [3, 10]]),
    ],
)
def test_commas_in_numbers_are_read_and_said(csv, text, mark, rows):
    with pytest.warns(UserWarning, match=f"commas are read as marks of {mark} in b"):
        np.testing.assert_array_equal(load_dataset(csv(text)).x, np.float32(rows))


def test_blanks_are_empty_and_lists_of_numbers_are_text(csv):
    lists = ",".join(map(str, range(290, 350)))
    rows = "".join(f'{i * 7 % 11},{" " if i % 9 == 2 else i / 2},"{lists}"\n' for i in range(40))
    data = load_dataset(csv("a,total,waves\n" + rows), columns={"waves": "drop"}, impute="median")
    assert data.feature_names == ["a", "total"] and np.isnan(data.x).sum(axis=0).tolist() == [0, 5]


@pytest.mark.filterwarnings("ignore:.*(columns are separated|commas are read)")
def test_cells_that_are_no_numbers_are_named_beside_decimal_commas(csv):
    rows = "".join(f"{i},5;1\n" for i in range(30))
    assert "'5x' in row 31" in refusal(load_table, csv(f"a;b\n{rows}5x;1\n"))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("cells", ["Rome, IT|Bari, IT", "1,2|3,45", "1,234|x|y"])
def test_other_text_with_commas_stays_text(csv, cells):
    rows = "".join(f'{number},"{cell}"\n' for number, cell in enumerate(cells.split("|")))
    assert "1 column that is not numbers: b" in refusal(load_dataset, csv(f"a,b\n{rows}"))


@pytest.mark.parametrize("pack", [gzip, bz2, lzma])
def test_packed_tables(csv, pack):
    ending = {gzip: "gz", bz2: "bz2", lzma: "xz"}[pack]
    for kind, mark in (("csv", b","), ("tsv", b"\t"), ("txt", b" "), ("txt", b";")):
        text = b"# made by R\na,b\n1,2\n3,4\n".replace(b",", mark)[12 * (kind != "txt") :]
        np.testing.assert_array_equal(load_dataset(csv(pack.compress(text), f"t.{kind}.{ending}")).x, [[1, 2], [3, 4]])
    assert "able" in refusal(load_dataset, csv(pack.compress(text)[:-20], f"d.txt.{ending}"))


def test_a_table_alone_in_a_zip(tmp_path):
    for ending, mark in (("csv", ","), ("tsv", "\t"), ("txt", " ")):
        pd.DataFrame({"a": [1, 3], "b": [2, 4]}).to_csv(path := tmp_path / f"t.{ending}.zip", sep=mark, index=False)
        with ZipFile(path, "a") as archive:
            archive.writestr(f"__MACOSX/._t.{ending}", "of Finder")
        np.testing.assert_array_equal(load_dataset(path).x, [[1, 2], [3, 4]])
    with ZipFile(path, "a") as archive:
        archive.writestr("more.txt", "1 2")
    assert "has 2 files, expected one table: unpack it" in refusal(load_dataset, path)
    path.write_bytes(path.read_bytes()[:40])
    assert "is it damaged" in refusal(load_dataset, path)
    path.rename(archive := tmp_path / "photos.v1.zip")
    assert "it is an archive: unpack it" in refusal(load_dataset, archive)


def test_tables_packed_by_gzip(csv):
    text = b"a,b\n1,2\n3,4\n"
    np.testing.assert_array_equal(load_dataset(csv(gzip.compress(text), "t.csv.gz")).x, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(
        load_dataset(csv(gzip.compress(text.replace(b",", b"\t")), "t.tsv.gz")).x, [[1, 2], [3, 4]]
    )
    assert "is it damaged" in refusal(load_dataset, csv(gzip.compress(text)[:-9], "d.csv.gz"))
    assert "is not UTF-8" in refusal(load_dataset, csv(gzip.compress(b"a\n\xe9\n"), "l.csv.gz"))


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv", "t.tsv.gz"])
def test_a_table_that_unpacks_to_more_than_the_memory_is_refused_before_it_is_read(tmp_path, name, monkeypatch):
    text = b"a,b\n" + b"1,2\n" * 5000
    (path := tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    monkeypatch.setattr(core_rows, "memory_limit", lambda: 10_000)
    monkeypatch.setattr(pd, "read_csv", None)
    said = refusal(load_dataset, path)
    assert said.startswith(f"{path} would take") and "save it as .parquet" in said


def test_a_table_without_a_header_gives_a_warning(csv):
    with pytest.warns(UserWarning, match=r"only numbers \(1.5, 2.5\)"):
        load_dataset(csv("1.5,2.5\n3,4\n5,6\n"))


@pytest.mark.filterwarnings("error")
def test_column_names_that_count_from_0_give_no_warning(csv):
    assert load_dataset(csv("0,1\n3,4\n5,6\n")).feature_names == ["0", "1"]


# --- parquet


def test_the_parquet_index_is_not_a_column(tmp_path):
    table = frame()[["age", "height"]].set_index(np.arange(ROWS)[::-1])
    table.to_parquet(tmp_path / "a.parquet")
    assert load_dataset(tmp_path / "a.parquet").feature_names == ["age", "height"]


def test_parquet_in_a_folder_that_looks_like_a_partition(tmp_path):
    (tmp_path / "year=2020").mkdir()
    frame()[["age", "height"]].to_parquet(tmp_path / "year=2020" / "a.parquet")
    assert load_dataset(tmp_path / "year=2020" / "a.parquet").feature_names == ["age", "height"]


def test_parquet_nullable_types_and_lists(tmp_path):
    table = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": pd.array([1, 2, 3], dtype="Int8")})
    table.to_parquet(tmp_path / "a.parquet")
    np.testing.assert_array_equal(
        load_dataset(tmp_path / "a.parquet", impute="median").x, [[1, 1], [np.nan, 2], [3, 3]]
    )
    table.assign(b=[[1], [2], [3]]).to_parquet(tmp_path / "a.parquet")
    assert "b (contains" in refusal(load_dataset, tmp_path / "a.parquet", impute="median")
    message = refusal(load_dataset, tmp_path / "a.parquet", impute="median", one_hot=["b"])
    assert "cannot be one-hot encoded" in message


def test_parquet_with_duplicate_names(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table([[1, 2], [3, 4]], names=["a", "a"]), tmp_path / "a.parquet")
    assert "equal names: a" in refusal(load_dataset, tmp_path / "a.parquet")


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    frame().to_parquet(tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'viewsmith\[parquet\]'"):
        load_dataset(tmp_path / "a.parquet")


def test_a_data_set_prints_one_line():
    from viewsmith.data import load_dataset

    assert repr(load_dataset("wine")) == "Dataset('wine': vectors, 178 x 13 (142 train, 36 test), labels)"


def test_columns_of_pixels_are_images(tmp_path, capsys):
    pixels = rng.integers(0, 256, (20, 16))
    frame = pd.DataFrame(pixels, columns=[f"pixel{i}" for i in range(16)])
    frame.insert(0, "digit", np.arange(20) % 2)
    frame.to_csv(tmp_path / "a.csv", index=False)
    load_dataset(tmp_path / "a.csv", label="digit")
    assert "its 16 pixels are columns; images of 4 x 4: --modality images" in capsys.readouterr().err
    data = load_dataset(tmp_path / "a.csv", label="digit", modality="images")
    assert data.x.dtype == np.uint8 and data.y.tolist() == [0, 1] * 10 and data.modality == "images"
    np.testing.assert_array_equal(data.x.reshape(20, 16), pixels)
    frame.iloc[:, [0, *range(16, 0, -1)]].to_csv(tmp_path / "b.csv", index=False)  # columns are found by name
    np.testing.assert_array_equal(load_dataset(tmp_path / "b.csv", schema=data.schema).x, data.x)
    message = refusal(load_dataset, tmp_path / "a.csv", modality="images")
    assert "it has 17 columns; is one of them the label? --label COLUMN" in message


def test_names_of_image_files_are_not_opened_and_it_is_said(tmp_path):
    frame = pd.DataFrame(
        {"path": [f"img/{i}.JPG" for i in range(30)], "age": rng.normal(size=30), "size": rng.normal(size=30)}
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.warns(UserWarning, match="path has names of image files, which are not opened: --modality images"):
        refusal(load_dataset, tmp_path / "a.csv")  # it is text
    with warnings.catch_warnings(action="error"):
        assert load_dataset(tmp_path / "a.csv", drop=["path"]).x.shape == (30, 2)
