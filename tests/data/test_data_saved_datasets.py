"""Data sets of Hugging Face on disk, of `save_to_disk` and of the hub: tables, images, sound, lists, splits."""

import io
import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from refusals import refusal
from viewsmith.data import load_dataset

rng = np.random.default_rng(0)
LABEL = {"names": ["cat", "dog"], "_type": "ClassLabel"}


def save(folder, table, features, shards=1):
    """Write a table as `Dataset.save_to_disk` does."""
    folder.mkdir(parents=True)
    names = [f"data-{i:05d}-of-{shards:05d}.arrow" for i in range(shards)]
    step = -(-len(table) // shards)
    for i, name in enumerate(names):
        with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table.slice(i * step, step))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    return folder


def numbers(n):
    return pa.table({"a": rng.normal(size=n), "b": rng.normal(size=n), "label": np.arange(n) % 2})


PLAIN = {"a": {"dtype": "float64", "_type": "Value"}, "b": {"dtype": "float64", "_type": "Value"}, "label": LABEL}


def test_a_table_in_several_files_with_names_of_classes(tmp_path):
    table = numbers(20)
    data = load_dataset(save(tmp_path / "x", table, PLAIN, shards=3), label="label")
    np.testing.assert_allclose(data.x, table.select(["a", "b"]).to_pandas(), rtol=1e-6)
    assert data.y.tolist() == ["cat", "dog"] * 10 and data.feature_names == ["a", "b"]


def test_splits_are_kept_and_others_left_out(tmp_path):
    path = tmp_path / "x"
    parts = {name: numbers(n) for name, n in (("train", 12), ("test", 6), ("validation", 10))}
    for name, table in parts.items():
        save(path / name, table.append_column("t", pa.array(["u", "v"] * (len(table) // 2))), PLAIN | {"t": {}})
    (path / "dataset_dict.json").write_text(json.dumps({"splits": list(parts)}))
    with pytest.warns(UserWarning, match="the splits validation are left out"):
        data = load_dataset(path, label="label")
    assert data.split == "given" and len(data.train_index) == 12 and len(data.test_index) == 6
    assert len(load_dataset(path / "validation", label="label").x) == 10
    (path / "dataset_dict.json").write_text(json.dumps({"splits": ["validation", "test"]}))
    assert f"expected train: give {path / 'validation'}" in refusal(load_dataset, path)
    (path / "validation" / "data-00000-of-00001.arrow").unlink()
    assert "without its files .arrow: copy it from" in refusal(load_dataset, path / "validation")


def stored(images):
    """Images as cells of a table."""
    cells = []
    for each in images:
        buffer = io.BytesIO()
        Image.fromarray(each).save(buffer, "png")
        cells.append({"bytes": buffer.getvalue(), "path": None})
    return cells


def test_images_and_lists(tmp_path):
    pixels = rng.integers(0, 255, (8, 6, 5, 3), dtype=np.uint8)
    cells = stored(pixels)
    table = pa.table({"image": cells, "label": np.arange(8) % 2})
    features = {"image": {"_type": "Image"}, "label": LABEL}
    data = load_dataset(save(tmp_path / "images", table, features), label="label")
    assert data.modality == "images" and np.array_equal(data.x, pixels) and data.y[1] == "dog"
    series = pa.table({"x": list(rng.normal(size=(8, 30))), "label": np.arange(8) % 2})
    of_lists = {"x": {"feature": {"dtype": "float64", "_type": "Value"}, "_type": "List"}, "label": LABEL}
    path = save(tmp_path / "lists", series, of_lists)
    assert load_dataset(path).x.shape == (8, 30)
    pd.testing.assert_series_equal(pd.Series(load_dataset(path, label="label").y), pd.Series(["cat", "dog"] * 4))
    both = save(tmp_path / "both", table.append_column("x", series["x"]), features | of_lists)
    assert "images, sound or lists in image, x, expected one such column" in refusal(load_dataset, both)
    assert load_dataset(both, drop=["x"]).modality == "images"
    uneven = save(tmp_path / "uneven", pa.table({"x": [[1.0, 2.0], [1.0]]}), {"x": of_lists["x"]})
    assert "row 1 (counted from 0) has shape (1,), and row 0 (2,)" in refusal(load_dataset, uneven)


def test_images_of_the_hub_in_files_of_parquet(tmp_path):
    pixels = rng.integers(0, 255, (12, 8, 8), dtype=np.uint8)
    frame = pd.DataFrame({"image": stored(pixels), "label": np.arange(12) % 2})
    about = json.dumps({"info": {"features": {"image": {"_type": "Image"}, "label": LABEL}}})
    named = pa.Table.from_pandas(frame).replace_schema_metadata({"huggingface": about})
    (tmp_path / "x" / "data").mkdir(parents=True)
    parts = {"train-00000-of-00002": slice(0, 4), "train-00001-of-00002": slice(4, 8), "validation": slice(8, 12)}
    for name, part in parts.items():
        pq.write_table(named.slice(part.start, 4), tmp_path / "x" / "data" / f"{name}.parquet")
    data = load_dataset(tmp_path / "x", label="label")
    np.testing.assert_array_equal(data.x[..., 0] if data.x.ndim == 4 else data.x, pixels)
    assert len(data.train_index) == 8 and data.y.tolist() == ["cat", "dog"] * 6
    later = load_dataset(tmp_path / "x" / "data" / "validation.parquet", schema=data.schema)
    assert later.modality == "images" and later.y.tolist() == ["cat", "dog"] * 2
    frame.assign(image=stored([*pixels[:11], pixels[11, :5]])).to_parquet(tmp_path / "sizes.parquet")
    assert load_dataset(tmp_path / "sizes.parquet", image_size=6).x.shape[1:3] == (6, 6)


def test_sound_of_a_data_set(tmp_path):
    soundfile, sounds = pytest.importorskip("soundfile"), []
    for each in rng.uniform(-0.5, 0.5, (6, 800)):
        buffer = io.BytesIO()
        soundfile.write(buffer, each, 8000, format="wav")
        sounds.append({"bytes": buffer.getvalue(), "path": "a.wav"})
    pd.DataFrame({"audio": sounds, "label": [0, 1] * 3}).to_parquet(tmp_path / "train.parquet")
    data = load_dataset(tmp_path, label="label")
    assert data.modality == "series" and data.x.shape == (6, 1, 800) and data.y.tolist() == [0, 1] * 3
    assert load_dataset(tmp_path / "train.parquet", length="0.05s").x.shape == (12, 1, 400)


def test_parts_of_a_table(tmp_path):
    for i in range(3):
        numbers(10).to_pandas().to_parquet(tmp_path / f"part-{i}.parquet")
    assert load_dataset(tmp_path, label="label").x.shape == (30, 2)
    pd.DataFrame({"c": [1.0]}).to_parquet(tmp_path / "part-3.parquet")
    assert "part-0.parquet and part-3.parquet have different columns" in refusal(load_dataset, tmp_path)


CODES = pa.dictionary(pa.int8(), pa.string())


@pytest.mark.parametrize(
    ("column", "first", "second"),
    [
        ("n", pa.int64(), pa.float64()),
        ("n", pa.int32(), pa.int64()),
        ("n", pa.float32(), pa.float64()),
        ("n", pa.null(), pa.int64()),
        ("kind", pa.string(), pa.large_string()),
        ("kind", CODES, pa.string()),
        ("kind", CODES, pa.large_string()),
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_parts_with_different_types_of_a_column(tmp_path, column, first, second, swapped):
    values = {"n": rng.integers(0, 9, 10), "x": rng.normal(size=10), "kind": ["a", "b"] * 5}
    expected = []
    for i, kind in enumerate([second, first] if swapped else [first, second]):
        table = pa.table(values)
        if kind == pa.float64():  # which the type of the other part would change
            table = table.set_column(0, "n", pa.array(values["n"] + 0.1))
        cells = pa.nulls(10) if kind == pa.null() else table[column].cast(kind)
        table = table.set_column(table.column_names.index(column), column, cells)
        pq.write_table(table.select(["kind", "x", "n"] if i else ["n", "x", "kind"]), tmp_path / f"{i}.parquet")
        expected.append(table["n"].to_pandas().astype(np.float32))
    data = load_dataset(tmp_path, label="kind")
    assert data.y.tolist() == ["a", "b"] * 10 and data.feature_names[0] == "n"
    numbers_of = np.concatenate(expected)
    there = ~np.isnan(numbers_of)
    np.testing.assert_array_equal(data.x[there, 0], numbers_of[there])
    np.testing.assert_array_equal(data.x[:, data.feature_names.index("x")], np.tile(values["x"], 2).astype(np.float32))


def test_parts_of_pandas_with_whole_numbers_and_others(tmp_path):
    frame = pd.DataFrame({"n": pd.array([1, None] * 5, dtype="Int64"), "x": rng.normal(size=10)})
    frame.to_parquet(tmp_path / "0.parquet")
    frame.assign(n=np.arange(10) + 0.5).to_parquet(tmp_path / "1.parquet")
    data = load_dataset(tmp_path, impute="median")
    np.testing.assert_array_equal(data.x[10:, 0], np.arange(10) + np.float32(0.5))


def test_parts_with_numbers_and_texts_in_a_column(tmp_path):
    frame = pd.DataFrame({"n": range(10), "x": 0.5})
    frame.to_parquet(tmp_path / "0.parquet")
    for values, kind in (("b", "string"), (True, "bool")):
        frame.assign(n=values).to_parquet(tmp_path / "1.parquet")
        message = refusal(load_dataset, tmp_path)
        assert re.search(f"column n is int64 in .*0.parquet and (large_)?{kind} in .*1.parquet", message)


def test_folders_of_parts_are_columns(tmp_path):
    table = numbers(20).to_pandas().assign(site=["a b", "c"] * 10, year=np.repeat([2020, 2021], 10))
    table.to_parquet(tmp_path, partition_cols=["site", "year"])
    data = load_dataset(tmp_path, label="site")
    assert data.feature_names == ["a", "b", "label", "year"] and sorted(set(data.y)) == ["a b", "c"]
    first = table[table.site == "c"].sort_values("year", kind="stable")
    np.testing.assert_allclose(data.x[10:], first[["a", "b", "label", "year"]], rtol=1e-6)


def test_folders_of_parquet_whose_files_have_the_column_too(tmp_path):
    for year in (2020, 2021):
        (tmp_path / f"year={year}").mkdir()
        table = numbers(20).to_pandas().assign(year=np.int64(year))
        table.to_parquet(tmp_path / f"year={year}/1.parquet", index=False)
    assert load_dataset(tmp_path, label="year").y.tolist() == [2020] * 20 + [2021] * 20


def test_a_delta_table_has_files_of_earlier_versions_too(tmp_path):
    numbers(9).to_pandas().to_parquet(tmp_path / "part-0.parquet")
    (tmp_path / "_delta_log").mkdir()
    assert "is a table of Delta Lake, which is not read yet: pip install deltalake" in refusal(load_dataset, tmp_path)
