"""Tables and FASTA files that one of several processes reads for all of them, and images that are decoded once."""

import dataclasses
import json
import os
import warnings

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from refusals import refusal
from viewsmith.core import rows as row_source
from viewsmith.core.rows import RowSource
from viewsmith.data import any_size, load_dataset, sources

rng = np.random.default_rng(0)
FRAME = pd.DataFrame(rng.normal(size=(40, 5)), columns=list("abcde")).assign(kind=["u", "v"] * 20, lab=["x", "y"] * 20)
COLUMNS = {"label": "kind", "groups": "lab"}


def csv(folder):
    FRAME.to_csv(path := folder / "x.csv", index=False)
    return path, COLUMNS


def tsv(folder):
    FRAME.drop(columns=["lab", "kind"]).to_csv(path := folder / "x.tsv", index=False, sep="\t")
    return path, {}


def one_hot(folder):
    FRAME.to_csv(path := folder / "one_hot.csv", index=False)
    return path, {"one_hot": ["kind"], "drop": ["lab"], "strict": True}


def labels_with_gaps(folder):
    FRAME.assign(kind=[*["u", "v"] * 15, *[None] * 10]).to_csv(path := folder / "gaps.csv", index=False)
    return path, COLUMNS | {"few_labels": True}


def parquet(folder):
    pytest.importorskip("pyarrow")
    FRAME.to_parquet(path := folder / "x.parquet")
    return path, COLUMNS


def fasta(folder):
    lines = [f">s{i} label={'uv'[i % 2]}\n{''.join(rng.choice(list('ACGTN'), 12 + i % 5))}\n" for i in range(40)]
    (path := folder / "x.fasta").write_text("".join(lines))
    return path, {}


def mixed(folder):
    FRAME.to_csv(path := folder / "mixed.csv", index=False)
    return path, {"label": "kind"}


FORMATS = {make.__name__: make for make in (csv, tsv, one_hot, labels_with_gaps, parquet, fasta)}


def is_shared(x):
    """Whether rows are in a file."""
    while isinstance(x, np.ndarray) and not isinstance(x, np.memmap):
        x = x.base
    return isinstance(x, RowSource | np.memmap)


def same(one, other):
    assert np.array_equal(other.x[:], one.x) and other.x.dtype == one.x.dtype
    assert np.array_equal(other.x_train[:], one.x_train)
    for name in ("schema", "feature_names", "row_names", "label_name", "split"):
        assert getattr(other, name) == getattr(one, name)
    for name in ("y", "groups"):
        found, expected = getattr(other, name), getattr(one, name)
        assert (found is None and expected is None) or (found.tolist() == expected.tolist())
        assert getattr(found, "dtype", None) == getattr(expected, "dtype", None)


def counted(monkeypatch, reads):
    """Append the path of each file that is read."""
    found = sources.find_reader

    def counting(path):
        entry = found(path)
        read = entry.build
        return dataclasses.replace(entry, build=lambda *given: (reads.append(given[0]), read(*given))[1])

    monkeypatch.setattr(sources, "find_reader", counting)


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_is_read_once_and_gives_what_it_gives_in_memory(form, tmp_path, monkeypatch):
    path, options = FORMATS[form](tmp_path)
    one = load_dataset(path, **options)
    counted(monkeypatch, reads := [])
    for _ in range(2):
        shared = load_dataset(path, **options, shared=True, cache_if_large=tmp_path / "run.cache")
        same(one, shared)
        assert is_shared(shared.x) and (form == "fasta" or (shared.x.small and shared.x_train.small))
    assert reads == [path]
    # Without a place, or for one process, rows are in memory.
    assert not is_shared(load_dataset(path, **options, shared=True).x)
    assert not is_shared(load_dataset(path, **options, cache_if_large=tmp_path / "run.cache").x)


def test_each_process_reads_a_mixed_table(tmp_path, monkeypatch):
    path, options = mixed(tmp_path)
    with pytest.warns(UserWarning, match="column lab says the label kind"):
        one = load_dataset(path, **options)
    counted(monkeypatch, reads := [])
    for count in (1, 2):
        with pytest.warns(UserWarning, match="column lab says the label kind"):
            shared = load_dataset(path, **options, shared=True, cache_if_large=tmp_path / "run.cache")
        assert np.array_equal(shared.x, one.x) and type(shared.x) is type(one.x) and len(reads) == count


@pytest.mark.parametrize("change", ["date", "rows", "options"])
def test_another_file_or_other_options_are_read_again(change, tmp_path, monkeypatch):
    path, options = csv(tmp_path)
    counted(monkeypatch, reads := [])
    shared = {"shared": True, "cache_if_large": tmp_path / "run.cache"}
    load_dataset(path, **options, **shared)
    if change == "date":
        os.utime(path, ns=(1, 1))
    elif change == "rows":
        FRAME[:30].to_csv(path, index=False)
    else:
        options = options | {"drop": ["a"]}
    found = load_dataset(path, **options, **shared)
    assert len(reads) == 2 and found.x.shape == {"date": (40, 5), "rows": (30, 5), "options": (40, 4)}[change]


def test_large_tables_are_large_data_to_several_processes(tmp_path, monkeypatch):
    path, options = csv(tmp_path)
    monkeypatch.setattr(row_source, "STREAM_ABOVE", 40 * 5 * 4 - 1)
    assert not load_dataset(path, **options, shared=True, cache_if_large=tmp_path / "run.cache").x.small


def test_warnings_of_the_reader_are_repeated(tmp_path):
    pd.DataFrame(rng.normal(size=(20, 2)), columns=["1", "2"]).to_csv(path := tmp_path / "x.csv", index=False)
    for _ in range(2):
        with pytest.warns(UserWarning, match="the first line has only numbers"):
            load_dataset(path, shared=True, cache_if_large=tmp_path / "run.cache")


def test_errors_and_damage_are_one_line(tmp_path):
    path, options = csv(tmp_path)
    shared = {"shared": True, "cache_if_large": tmp_path / "run.cache"}
    for _ in range(2):
        assert "no column 'kinds'" in refusal(load_dataset, path, label="kinds", **shared)
    load_dataset(path, **options, **shared)
    (rows,) = (tmp_path / "run.cache").glob("*.npy")
    (record_file,) = (tmp_path / "run.cache").glob("*.json")
    content = rows.read_bytes()
    rows.write_bytes(content[:-10])
    assert "damaged" in refusal(load_dataset, path, **options, **shared)
    rows.write_bytes(content[:-8] + content[-4:] + content[-8:-4])  # two values have changed places
    assert "does not match its digest" in refusal(load_dataset, path, **options, **shared)
    rows.write_bytes(content)
    record = json.loads(record_file.read_text())
    for damaged in ("{", json.dumps([1]), json.dumps(record | {"found": {"y": 3}})):
        record_file.write_text(damaged)
        assert "damaged" in refusal(load_dataset, path, **options, **shared)


def read_shared(path, options, place, done):
    """Report how many files this process reads, and the sum of its rows."""
    reads = []
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(action="ignore"):
        counted(patch, reads)
        data = load_dataset(path, **options, cache_if_large=place, shared=True)
    done.put((len(reads), is_shared(data.x), float(data.x[:].sum())))


@pytest.mark.parametrize("form", ["csv", "parquet", "fasta"])
def test_several_processes_read_a_file_once(form, tmp_path, in_three_processes):
    path, options = FORMATS[form](tmp_path)
    found = in_three_processes(read_shared, path, options, tmp_path / "run.cache")
    assert sorted(reads for reads, _, _ in found) == [0, 0, 1]
    assert {(shared, total) for _, shared, total in found} == {(True, float(load_dataset(path, **options).x.sum()))}


@pytest.mark.parametrize("modes", [("L",), ("RGB",), ("L", "RGB"), ("RGB", "L"), ("RGBA", "P")])
@pytest.mark.parametrize("kept", [1, 3])
def test_images_that_stay_decoded_are_those_of_their_files(tmp_path, monkeypatch, modes, kept):
    rng, sizes = np.random.default_rng(0), [(30, 41), (41, 30), (20, 20), (64, 50)]
    for i, (height, width) in enumerate(sizes):
        image = Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8)).convert(modes[i % len(modes)])
        exif = Image.Exif()
        exif[0x0112] = 6 if i == 1 else 1  # a picture that was taken on its side
        image.save(tmp_path / f"{i}.png", exif=exif)
    monkeypatch.setattr(any_size, "DECODED", 0)
    again = any_size.read_samples(tmp_path)[0]
    monkeypatch.setattr(any_size, "DECODED", kept * 41 * 30 * 3)
    once = any_size.read_samples(tmp_path)[0]
    for i in range(len(sizes)):
        for size in (None, once.shapes[i], (16, 12)):
            np.testing.assert_array_equal(once.read(i, size), again.read(i, size))
    assert once.shapes == again.shapes and (once.order == again.order).all()
