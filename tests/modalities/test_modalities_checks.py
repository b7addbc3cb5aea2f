"""Checks of all data: rows from Python objects, modalities, missing and infinite values, labels."""

import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from refusals import refusal
from viewsmith import Contrastive
from viewsmith.modalities.base import Modality, find_modality
from viewsmith.modalities.checks import as_vectors, check_finite, check_labels, to_rows, warn_columns

rng = np.random.default_rng(0)
FLOATS = rng.normal(size=(6, 3))
BYTES = rng.integers(0, 256, size=(5, 4, 4, 3), dtype=np.uint8)
DNA = np.frombuffer(b"ACGTNacgtn", dtype=np.uint8).reshape(2, 5)


def test_importing_the_package_imports_no_slow_packages():
    code = (
        "HEAVY = ('pandas', 'pyarrow', 'sklearn', 'scipy', 'PIL', 'anndata', 'h5py'); "
        "import sys, viewsmith.data; print([m for m in HEAVY if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- to_rows


@pytest.mark.parametrize(
    "given",
    [
        FLOATS,
        FLOATS.tolist(),
        tuple(map(tuple, FLOATS)),
        torch.tensor(FLOATS, requires_grad=True),
        torch.tensor(FLOATS).to_sparse(),
        pd.DataFrame(FLOATS),
        np.asfortranarray(FLOATS),
        FLOATS.astype(object),
    ],
    ids=["numpy", "lists", "tuples", "tensor", "sparse tensor", "frame", "fortran", "object"],
)
def test_rows_of_any_kind(given):
    rows, names = to_rows(given)
    assert isinstance(rows, np.ndarray) and rows.dtype == np.float64
    np.testing.assert_array_equal(rows, FLOATS)
    assert names is None


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr"])
def test_sparse_rows_become_dense_float32(form):
    values = np.random.default_rng(0).random((8, 5))
    maker = scipy.sparse.csr_matrix if form in ("csr", "coo", "dok") else scipy.sparse.csr_array
    given = maker(np.where(values < 0.4, values, 0)).asformat(form)
    rows, names = to_rows(given)
    assert rows.dtype == np.float32 and rows.flags.c_contiguous and names is None
    np.testing.assert_array_equal(rows, given.toarray().astype(np.float32))


def test_bfloat16_tensor():
    rows, _ = to_rows(torch.tensor([[1.5, 2.0], [3.0, 4.0]], dtype=torch.bfloat16))
    np.testing.assert_array_equal(rows, [[1.5, 2.0], [3.0, 4.0]])


def test_images_keep_their_dtype():
    rows, _ = to_rows(torch.tensor(BYTES))
    assert rows.dtype == np.uint8 and rows.shape == BYTES.shape


def test_masked_values_are_missing_values():
    rows, _ = to_rows(np.ma.masked_array([[1, 2], [3, 4]], mask=[[False, True], [False, False]]))
    np.testing.assert_array_equal(rows, [[1, np.nan], [3, 4]])


def test_frame_of_every_numeric_kind():
    frame = pd.DataFrame(
        {
            "i": [1, 2],
            "b": [True, False],
            "gap": pd.array([1, None], dtype="Int64"),
            "maybe": pd.array([True, None], dtype="boolean"),
            "objects": np.array([True, None], dtype=object),
            "decimal": [Decimal("1.5"), Decimal(2)],
            "nothing": [None, None],
        }
    )
    rows, names = to_rows(frame)
    nan = np.nan
    np.testing.assert_array_equal(rows, [[1, 1, 1, 1, 1, 1.5, nan], [2, 0, nan, nan, nan, 2, nan]])
    assert names == list(frame.columns)


def test_frame_with_columns_that_are_not_numbers():
    frame = pd.DataFrame(
        {
            "good": [1.0, 2.0],
            "town": ["Oslo", "Bergen"],
            "kind": pd.Categorical([1, 2]),
            "when": pd.to_datetime(["2020-01-01"] * 2),
            "wave": [1j, 2j],
            "?": ["1", "?"],
        }
    )
    message = refusal(to_rows, frame)
    assert "5 columns" in message and "good" not in message and "--drop" in message and "--one-hot" in message
    for name in ("town (contains 'Oslo')", "kind", "when", "wave", "? (contains '?')"):
        assert name in message


def test_frame_with_duplicate_names():
    assert "equal names: a" in refusal(to_rows, pd.DataFrame(FLOATS, columns=["a", "b", "a"]))


def test_column_names_with_line_breaks_stay_on_one_line():
    assert "two lines" in refusal(to_rows, pd.DataFrame({"two\nlines": ["a", "b"]}))


class Record(list):
    """A record of Biopython, which is read letter by letter."""

    seq = "AC"


@pytest.mark.parametrize(
    ("given", "part"),
    [
        (np.zeros(5), "Reshape your data"),
        (np.float64(1.0), "0 dimensions"),
        (pd.Series([1.0, 2.0]), "Reshape your data"),
        (np.zeros((2, 1, 1, 1, 1)), "5 dimensions, shape (2, 1, 1, 1, 1)"),
        (np.zeros((0, 3)), "0 sample(s) (shape=(0, 3))"),
        (np.zeros((12, 0)), "0 feature(s) (shape=(12, 0)) while a minimum of 1 is required;"),
        (np.ones((3, 2), dtype=complex), "Complex data not supported"),
        (scipy.sparse.eye(3, dtype=complex), "Complex data not supported"),
        (np.zeros((3, 2), dtype="datetime64[s]"), "datetime64[s], expected numbers"),
        (np.array([["a", "b"]]), "the data contain text, such as 'a', expected numbers: give a DataFrame of pandas"),
        (np.array([[1, "b"]], dtype=object), "the data contain text, such as 'b', expected numbers: give a DataFrame"),
        (np.array([["1", "2.5"]], dtype=object), "such as '1', expected numbers: give X.astype(float), because all"),
        (np.array([["1", "2.5"]]), "such as '1', expected numbers: give X.astype(float), because all"),
        ([[1, 2], [3]], "of type list, to an array of numbers"),
        ([np.zeros(3), np.zeros(4)], "different shapes, such as (3,) and (4,), expected equal ones: name recordings"),
        ([Record("AC")], "give letters as text, [str(record.seq) for record in X]"),
        (None, "0 dimensions"),
    ],
)
def test_rows_refused(given, part):
    assert part in refusal(to_rows, given)


def test_objects_that_are_not_numbers_are_a_type_error_too():
    with pytest.raises(TypeError, match=r"argument must be .* string.* number"):
        to_rows(np.array([[{"a": 1}, 2.0]], dtype=object))


# --- find_modality, as_vectors


@pytest.mark.parametrize(
    ("x", "modality"),
    [
        (FLOATS, "vectors"),
        (np.ones((3, 2), dtype=np.int64), "vectors"),
        (np.ones((3, 2), dtype=bool), "vectors"),
        (np.ones((3, 2), dtype=np.uint8), "vectors"),
        (BYTES, "images"),
        (BYTES[..., :1], "images"),
        (BYTES[..., 0], "images"),
        (DNA, "dna"),
        (np.where(np.isin(DNA, ord("N")), ord("X"), DNA), "vectors"),
        (DNA.astype(np.int64), "vectors"),
        (np.concatenate([DNA, np.zeros((2, 3), np.uint8)], axis=1), "dna"),
        (np.concatenate([np.zeros((2, 1), np.uint8), DNA], axis=1), "vectors"),
        (np.concatenate([DNA, np.zeros((1, 5), np.uint8)]), "vectors"),
        (np.zeros((3, 5), np.uint8), "vectors"),
    ],
)
def test_modality_by_shape_and_dtype(x, modality):
    assert find_modality(x).name == modality
    assert find_modality(x, modality).name == modality
    assert find_modality(x, "vectors").name == "vectors"


@pytest.mark.parametrize(
    ("x", "modality", "part"),
    [
        (BYTES[..., 0] / np.float32(255), None, "if they are images, set modality='images' (--modality images)"),
        (BYTES.astype(np.int16) - 300, None, "which keeps their values: X.astype(np.float32)"),
        (BYTES.astype(np.int64), None, "which keeps their values: X.astype(np.uint8)"),
        (BYTES.astype(np.int32) * 256, None, "which keeps their values: X.astype(np.uint16)"),
        (np.moveaxis(BYTES, 3, 1), None, "put the channels last: X.transpose(0, 2, 3, 1)"),
        (np.moveaxis(BYTES, 3, 1) / 255, "images", "X.transpose(0, 2, 3, 1)"),
        (np.zeros((2, 4, 4, 501), np.uint16), None, "keep at most 500 channels"),
        (np.zeros((2, 5, 8, 8), np.uint16), None, "X.transpose(0, 2, 3, 1)"),
        (BYTES[:, :3], None, "must have at least 4 pixels"),
        (BYTES[..., 0, 0], "images", "reshape them"),
        (np.zeros((3, 5), np.uint8), "dna", "row 0 (counted from 0) has no letter"),
        (BYTES[..., 0].astype(np.float32), None, "float32 of shape (5, 4, 4); expected images, uint8"),
        (np.moveaxis(BYTES, 3, 1), None, "shape (5, 3, 4, 4)"),
        (FLOATS, "images", "images are uint8"),
        (DNA, "images", "images are uint8"),
        (BYTES, "dna", "DNA is uint8"),
        (FLOATS, "dna", "DNA is uint8"),
        (FLOATS, "image", "unknown modality 'image' (did you mean 'images'?)"),
        (FLOATS, "x", "unknown modality 'x': expected one of"),
    ],
)
def test_modality_refused(x, modality, part):
    assert part in refusal(find_modality, x, modality)


def test_letters_that_are_not_dna_are_vectors_with_a_warning(recwarn):
    assert find_modality(np.where(ord("T") == DNA, ord("L"), DNA)).name == "vectors"
    (warning,) = recwarn
    assert "ASCII letters, but not only A C G T N" in str(warning.message)
    find_modality(np.full((3, 4), 7, dtype=np.uint8))
    assert len(recwarn) == 1


def test_vectors_are_float32_and_contiguous():
    x = as_vectors(np.asfortranarray(BYTES))
    assert x.shape == (5, 48) and x.dtype == np.float32 and x.flags.c_contiguous
    np.testing.assert_array_equal(x, BYTES.reshape(5, 48))
    assert np.shares_memory(as_vectors(x), x)
    big_endian = as_vectors(FLOATS.astype(">f8"))
    assert big_endian.dtype == np.dtype("=f4")
    np.testing.assert_array_equal(big_endian, FLOATS.astype(np.float32))


# --- check_finite


def test_missing_values_are_counted_and_named():
    x = FLOATS.copy()
    x[0, 0] = x[1, 0] = x[2, 2] = np.nan
    message = refusal(check_finite, x, ["a", "b", "c"])
    assert "3 missing values (NaN) in 2 columns: a, c;" in message and "--impute median" in message
    assert "2 columns (counted from 0): 0, 2;" in refusal(check_finite, x)
    check_finite(x, None, "median")


def test_at_most_five_columns_are_named():
    assert "8 columns: c0, c1, c2, c3, c4 and 3 more;" in refusal(
        check_finite, np.full((2, 8), np.nan), [f"c{i}" for i in range(8)]
    )


@pytest.mark.parametrize(("impute", "dtype"), [("none", np.float16), ("median", np.float32), ("median", np.float64)])
def test_infinite_values_are_refused_even_beside_missing_ones(impute, dtype):
    x = FLOATS.astype(dtype)
    x[0, 1], x[3, 1], x[2, 2] = np.inf, -np.inf, np.nan
    assert "2 infinite values (infinity) in 1 column: b;" in refusal(check_finite, x, ["a", "b", "c"], impute)


def test_values_beyond_float32_have_another_message_than_infinite_ones():
    x = FLOATS.copy()
    x[0, 1] = -1e39
    assert "1 value too large for float32" in refusal(as_vectors, x, ["a", "b", "c"])
    x[0, 1] = np.finfo(np.float32).max
    assert as_vectors(x)[0, 1] == np.finfo(np.float32).max


# --- labels and columns


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (np.array([0, 1], dtype=np.uint8), np.array([0, 1], dtype=np.uint8)),
        (np.array([-1, 1], dtype=">i4"), np.array([-1, 1], dtype=np.int32)),
        (np.array([True, False]), np.array([True, False])),
        (np.array([1.0, 2.0], dtype=np.float32), np.array([1, 2])),
        (np.array(["a", "bc"]), np.array(["a", "bc"])),
        (np.array([b"a", b"bc"]), np.array(["a", "bc"])),
    ],
)
def test_labels_that_are_classes(y, expected):
    found = check_labels(y, 2)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("y", "part"),
    [
        (np.zeros(3), "3 labels for 2 rows"),
        (np.zeros((2, 1)), "shape (2, 1), expected one label per row"),
        (np.array([0.0, np.nan]), "1 missing label (NaN)"),
        (np.array([0.0, 0.37]), "0.37, expected classes"),
        (np.array([0.0, np.inf]), "inf, expected classes"),
        (np.array([0j, 1]), "complex128, expected classes"),
        (np.array(["2020"] * 2, dtype="datetime64[Y]"), "expected classes"),
    ],
)
def test_labels_refused(y, part):
    assert part in refusal(check_labels, y, 2)


def test_constant_columns_with_missing_values_give_a_warning():
    x = FLOATS.astype(np.float32)
    x[:, 0] = 2.0
    x[:, 2] = [5.0, np.nan, 5.0, 5.0, 5.0, 5.0]
    with pytest.warns(UserWarning, match="2 constant columns: a, c, ignored"):
        warn_columns(x, ["a", "b", "c"])


def test_one_feature_gives_a_warning():
    with pytest.warns(UserWarning, match="only one feature") as caught:
        warn_columns(FLOATS[:, :1])
    assert len(caught) == 1


def test_ordinary_columns_give_no_warning(recwarn):
    warn_columns(FLOATS)
    assert not recwarn.list


# --- input layers of modalities


def test_an_input_layer_without_fit_has_nothing_to_fit():
    assert Modality().fit_input(torch.nn.Identity(), torch.zeros(2, 1), "auto") == ("none", {})


def test_a_path_in_place_of_rows_is_refused_with_the_function_that_reads_it():
    message = refusal(Contrastive().fit, "cells.csv")
    assert "the data are the name of a file or folder, such as 'cells.csv', expected samples" in message
