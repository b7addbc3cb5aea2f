"""Any file is loaded or refused in one line, and loaded data equal the written data."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from properties import examples
from viewsmith.core.errors import InputError
from viewsmith.data import load_dataset
from viewsmith.data.reading import by_ending
from viewsmith.modalities.checks import as_vectors, to_rows
from viewsmith.modalities.tables import table_of

SHAPES = st.tuples(st.integers(2, 6), st.integers(1, 5))
SINGLES = st.floats(width=32, allow_nan=False, allow_infinity=False)
MATRICES = SHAPES.flatmap(lambda shape: hnp.arrays(np.float32, shape, elements=SINGLES))
# pandas writes a lone carriage return without quotes, so a .csv of it holds another table than the one given.
CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0\r")
NAMES = st.text(CHARACTERS, max_size=6)


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def loads_or_refuses(*args, **kwargs):
    """The data set, or None if it is refused in one line."""
    try:
        return load_dataset(*args, **kwargs)
    except InputError as error:
        assert str(error).strip() and len(str(error).splitlines()) == 1
        return None


def encoded(x: np.ndarray, suffix: str, path: Path) -> Path:
    path = path / f"given{suffix}"
    if suffix == ".npz":
        np.savez(path, X=x, y=np.arange(len(x)) % 2)
    elif suffix == ".npy":
        np.save(path, x)
    else:
        frame = pd.DataFrame(x, columns=[f"c{i}" for i in range(x.shape[1])])
        if suffix == ".parquet":
            frame.to_parquet(path)
        else:
            frame.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
    return path


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".tsv", ".parquet"])
@examples(60)
@given(x=MATRICES)
def test_a_matrix_is_read_as_written_in_every_format(folder, suffix, x):
    data = load_dataset(encoded(x, suffix, folder))
    np.testing.assert_array_equal(data.x, x)
    assert data.x.dtype == np.float32 and data.split == "none"


@examples(60)
@given(x=MATRICES, n_train=st.integers(2, 5), labels=st.booleans())
def test_a_given_split_is_read_as_written(folder, x, n_train, labels):
    x = np.repeat(x, 3, axis=0)
    y = np.arange(len(x))
    parts = {"X_train": x[:n_train], "X_test": x[n_train:]}
    if labels:
        parts |= {"y_train": y[:n_train], "y_test": y[n_train:]}
    np.savez(folder / "split.npz", **parts)
    data = load_dataset(folder / "split.npz")
    np.testing.assert_array_equal(data.x_train, x[:n_train])
    np.testing.assert_array_equal(data.x_test, x[n_train:])
    assert (data.y is None) != labels
    if labels:
        np.testing.assert_array_equal(data.y, y)


@examples(60)
@given(x=hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(max_dims=5, max_side=4)))
def test_any_array_loads_or_is_refused(folder, x):
    np.save(folder / "any.npy", x, allow_pickle=False)
    data = loads_or_refuses(folder / "any.npy")
    if data is not None:
        assert data.x.dtype in (np.float32, np.uint8) and data.x.flags.c_contiguous and len(data.x) == len(x)
    try:
        rows, _ = to_rows(x)
        assert np.isfinite(as_vectors(rows)).all()
    except InputError as error:
        assert len(str(error).splitlines()) == 1


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".parquet"])
@examples(60)
@given(data=st.data(), x=MATRICES)
def test_a_truncated_file_is_refused(folder, suffix, data, x):
    path = encoded(x, suffix, folder)
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    assert loads_or_refuses(path) is None


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".parquet", ".csv"])
@examples(60)
@given(data=st.data(), x=MATRICES)
def test_changed_bytes_load_or_are_refused(folder, suffix, data, x):
    path = encoded(x, suffix, folder)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content))
    loads_or_refuses(path)


@pytest.mark.parametrize("suffix", sorted(ending for ending in by_ending() if not ending.endswith("/")))
@examples(25)
@example(content=b"\x1f\x8b")  # of gzip, which ends there
@given(content=st.binary(max_size=200) | st.text("01,\t\n\"ab.-'#e", max_size=60).map(str.encode))
def test_any_bytes_load_or_are_refused(folder, suffix, content):
    path = folder / f"bytes{suffix}"
    path.write_bytes(content)
    loads_or_refuses(path)


def columns(n: int) -> st.SearchStrategy:
    """One column of `n` values of some type, some of them missing."""
    kinds = [
        st.integers(-(2**63), 2**63 - 1),
        st.floats(),
        st.booleans(),
        st.text(CHARACTERS, max_size=4),
        st.none() | st.integers(0, 3),
        st.none() | st.booleans(),
        st.none() | st.sampled_from(["x", "y", "two\nlines"]),
        st.datetimes(min_value=pd.Timestamp(1700, 1, 1), max_value=pd.Timestamp(2200, 1, 1)),
        st.just(None),
    ]
    return st.sampled_from(kinds).flatmap(lambda kind: st.lists(kind, min_size=n, max_size=n))


FRAMES = st.integers(0, 6).flatmap(lambda n: st.dictionaries(NAMES, columns(n), min_size=1, max_size=4))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@examples(60)
@given(table=FRAMES, data=st.data(), impute=st.sampled_from(["none", "median"]))
def test_any_mixture_of_columns_loads_or_is_refused(folder, suffix, table, data, impute):
    frame = pd.DataFrame(table)
    path = folder / f"mixture{suffix}"
    if suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False)
    names = st.lists(st.sampled_from([*frame.columns, "other"]), max_size=2)
    found = loads_or_refuses(
        path,
        label=data.draw(st.none() | st.sampled_from(list(frame.columns))),
        drop=data.draw(names),
        one_hot=data.draw(names),
        impute=impute,
    )
    if found is not None:
        assert found.x.shape == (len(frame), len(found.feature_names)) and len(frame) >= 2
        assert not np.isinf(found.x).any() and (impute == "median" or not np.isnan(found.x).any())
        again = load_dataset(path, schema=json.loads(json.dumps(found.schema)), table=table_of(found.x))
        np.testing.assert_array_equal(again.x, found.x)
        assert again.feature_names == found.feature_names


@examples(60)
@given(table=FRAMES)
def test_any_frame_is_accepted_or_refused(table):
    try:
        rows, names = to_rows(pd.DataFrame(table))
        assert rows.shape == (len(next(iter(table.values()))), len(table)) and names == list(table)
    except InputError as error:
        assert len(str(error).splitlines()) == 1
