"""The data set, its split, built-in data and numpy's files."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from PIL import Image

from refusals import refusal
from viewsmith.core.errors import InputError
from viewsmith.data import load_dataset, split_indices

rng = np.random.default_rng(0)
X = rng.normal(size=(20, 3)).astype(np.float32)
Y = np.arange(20) % 2
IMAGES = rng.integers(0, 256, size=(6, 4, 5), dtype=np.uint8)
DNA = np.frombuffer(b"ACGTNacgtnAC" * 2, dtype=np.uint8).reshape(6, 4)


@pytest.fixture
def npz(tmp_path):
    def write(**arrays):
        np.savez(tmp_path / "data.npz", **arrays)
        return tmp_path / "data.npz"

    return write


@pytest.fixture
def npy(tmp_path):
    def write(array):
        np.save(tmp_path / "data.npy", array)
        return tmp_path / "data.npy"

    return write


# --- the split


def test_split_is_stratified_complete_and_the_same_every_time():
    y = np.repeat(["a", "b", "c"], [50, 30, 20])
    train, test = split_indices(y)
    assert sorted([*train, *test]) == list(range(100))
    assert (np.diff(train) > 0).all() and (np.diff(test) > 0).all()
    assert np.unique(y[test], return_counts=True)[1].tolist() == [10, 6, 4]
    for one, other in zip(split_indices(y), (train, test), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(split_indices(y, seed=1)[1], test)


def test_a_class_with_one_row_goes_to_train():
    y = np.array([0] * 10 + [7] + [1] * 10 + [9])
    train, test = split_indices(y)
    assert {10, 21} <= set(train) and len(test) == 4


@pytest.mark.parametrize(
    ("y", "part"),
    [
        (np.arange(100), "100 labeled rows of 100 classes"),
        (np.repeat(np.arange(40), 2), "the test split would have 16 rows"),
        (np.array([0, 0, 1, 1]), "the test split would have 1 row;"),
        (np.array(["a"]), "1 labeled row of 1 class "),
    ],
)
def test_labels_that_cannot_be_stratified(y, part):
    message = refusal(split_indices, y)
    assert part in message and "X_train and X_test" in message


# --- built-in data


@pytest.mark.parametrize(("name", "shape"), [("digits", (1797, 64)), ("breast_cancer", (569, 30)), ("wine", (178, 13))])
@pytest.mark.filterwarnings("ignore:.*constant column")
def test_built_in(name, shape):
    data = load_dataset(name)
    assert data.x.shape == shape and data.x.dtype == np.float32 and data.x.flags.c_contiguous
    assert (data.split, data.modality, data.source, data.label_name) == ("stratified", "vectors", name, None)
    assert len(data.feature_names) == data.n_features == shape[1]
    assert len(data.x_test) == -(-shape[0] // 5) and len(data.x_train) + len(data.x_test) == shape[0]
    np.testing.assert_array_equal(data.x_train, data.x[data.train_index])
    np.testing.assert_array_equal(data.y_test, data.y[data.test_index])
    assert data.fit_rows(transductive=False).shape == data.x_train.shape
    assert data.fit_rows(transductive=True) is data.x


def test_a_folder_with_the_name_of_a_built_in_data_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"path wine does not exist.*give the text 'wine' for the built-in data set"):
        load_dataset(Path("wine"))
    images = np.random.default_rng(0).integers(0, 256, (8, 6, 6), dtype=np.uint8)
    (tmp_path / "digits").mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / "digits" / f"{number}.png")
    for given in (Path("digits"), "./digits", "digits/"):
        data = load_dataset(given)
        assert data.x.shape == (8, 6, 6, 1) or data.x.shape == (8, 6, 6)
        assert load_dataset(data.source).x.shape == data.x.shape  # as the report of a run reads it
    with pytest.warns(UserWarning, match=r"'digits' is the built-in data set.*\./digits"):
        assert load_dataset("digits").x.shape == (1797, 64)


def test_unknown_names():
    assert "did you mean digits?" in refusal(load_dataset, "digit")
    assert ".npz .npy .csv .tsv .parquet" in refusal(load_dataset, "zzz")
    assert "leave label out" in refusal(load_dataset, "wine", label="class")


def test_unknown_extension_lists_the_known_ones(tmp_path):
    (tmp_path / "a.xyz").write_text("")
    message = refusal(load_dataset, tmp_path / "a.xyz")
    known = ".npy .npz .hdf5 .mat .parquet .csv .tsv .txt"
    assert "'.xyz'" in message and known in message and "digits" in message
    assert "does not exist" in refusal(load_dataset, tmp_path / "b.npz")
    (tmp_path / "c.npz").mkdir()
    assert "is a folder" in refusal(load_dataset, tmp_path / "c.npz")
    (tmp_path / "d").write_text("")
    assert "no extension" in refusal(load_dataset, tmp_path / "d")
    (tmp_path / "e.npz.gz").write_bytes(b"")
    assert "'.npz.gz'" in refusal(load_dataset, tmp_path / "e.npz.gz")


# --- npz and npy


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ">f8", np.float16, np.int16, np.int64, np.uint8, bool])
def test_numbers_of_any_dtype_become_float32_vectors(npy, dtype):
    given = np.asarray(np.abs(X * 3).round(), dtype=dtype, order="C" if dtype is np.float32 else "F")
    data = load_dataset(npy(given))
    assert data.x.dtype == np.dtype("=f4") and data.x.flags.c_contiguous
    np.testing.assert_array_equal(data.x, given.astype(np.float32))
    assert (data.split, data.modality, data.y, data.test_index) == ("none", "vectors", None, None)
    assert data.x_test is None and data.y_train is None and data.y_test is None
    np.testing.assert_array_equal(data.train_index, np.arange(20))


def test_given_split_is_train_then_test(npz):
    data = load_dataset(npz(X_train=X[:15], X_test=X[15:], y_train=Y[:15], y_test=Y[15:], other=np.zeros(3)))
    assert data.split == "given"
    np.testing.assert_array_equal(data.x_train, X[:15])
    np.testing.assert_array_equal(data.x_test, X[15:])
    np.testing.assert_array_equal(data.y_train, Y[:15])
    np.testing.assert_array_equal(data.y_test, Y[15:])
    assert np.shares_memory(data.x_train, data.x)


def test_labels_make_a_stratified_split(npz):
    data = load_dataset(npz(X=X, y=Y.astype(float)))
    assert data.split == "stratified" and data.y.dtype == np.int64
    np.testing.assert_array_equal(data.test_index, split_indices(Y)[1])
    assert load_dataset(npz(X=X)).split == "none"


def test_texts_are_dna(npz, npy):
    data = load_dataset(
        npz(X=["ACGT", "nN", "acgta"], y=[0, 1, 0]), modality="dna", schema=load_dataset(npy(DNA)).schema
    )
    assert data.modality == "dna" and data.x.tolist() == [[*b"ACGT\0"], [*b"nN\0\0\0"], [*b"acgta"]]
    given = load_dataset(npz(X_train=[b"ACGT", b"A"], X_test=[b"ACGTA"]))
    assert given.split == "given" and given.x_train.shape == (2, 5) and given.x_test.tolist() == [[*b"ACGTA"]]
    np.testing.assert_array_equal(load_dataset(npy(np.array(["AC", "G"]))).x, [[*b"AC"], [ord("G"), 0]])


def test_padded_dna_is_dna_of_any_length(npy):
    padded = np.concatenate([DNA, np.zeros_like(DNA)], axis=1)
    data = load_dataset(npy(padded))
    assert data.modality == "dna" and data.schema["row_shape"] == [None]
    np.testing.assert_array_equal(data.x, padded)
    schema = json.loads(json.dumps(data.schema))
    assert load_dataset(npy(DNA), schema=schema).x.shape == DNA.shape
    assert "row 0, position 0" in refusal(load_dataset, npy(padded[:, ::-1]), schema=schema)


def test_images_and_dna_keep_their_dtype(npz, npy):
    for given, modality in ((IMAGES, "images"), (IMAGES[..., None], "images"), (DNA, "dna")):
        data = load_dataset(npy(given))
        assert data.modality == modality and data.x.dtype == np.uint8 and data.feature_names is None
        np.testing.assert_array_equal(data.x, given)
    flat = load_dataset(npy(IMAGES), modality="vectors")
    assert flat.modality == "vectors" and flat.x.dtype == np.float32 and flat.n_features == 20
    np.testing.assert_array_equal(flat.x, IMAGES.reshape(6, 20))


@pytest.mark.parametrize("labels", [{}, {"y": np.arange(9) % 2}])
def test_an_array_beside_a_given_split_is_named(npz, labels):
    split = {"X_train": np.ones((6, 2)) * np.arange(2), "X_test": np.zeros((3, 2))}
    with pytest.warns(
        UserWarning, match=f"has X_train and X_test, which are used, and X{' and y' if labels else ''}, "
    ):
        data = load_dataset(npz(X=np.zeros((9, 2)), **split, **labels))
    assert data.split == "given" and len(data.x_train) == 6 and data.y is None


@pytest.mark.parametrize("names", [["a", "b", "c"], [b"a", b"b", b"c"]])
def test_feature_names(npz, names):
    assert load_dataset(npz(X=X, feature_names=names)).feature_names == ["a", "b", "c"]


@pytest.mark.parametrize("names", [["a", "b"], [1, 2, 3], np.array(["a", "b", "c"], dtype=object)])
def test_feature_names_that_do_not_fit_are_ignored_with_a_warning(npz, names):
    with pytest.warns(UserWarning, match="feature_names does not have one string per column"):
        assert load_dataset(npz(X=X, feature_names=names)).feature_names is None


def test_loading_a_file_runs_no_code_in_it(tmp_path):
    witness = tmp_path / "witness"

    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(witness),)

    bomb = np.array([[Bomb()]], dtype=object)
    np.savez(tmp_path / "a.npz", X=bomb)
    np.save(tmp_path / "a.npy", bomb)
    (tmp_path / "b.npy").write_bytes(pickle.dumps(Bomb()))
    (tmp_path / "b.npz").write_bytes(pickle.dumps(Bomb()))
    for name in ("a.npz", "a.npy"):
        message = refusal(load_dataset, tmp_path / name)
        assert name in message and "Python objects, which are never unpickled" in message
    assert "not an .npy file" in refusal(load_dataset, tmp_path / "b.npy")
    assert "not an .npz archive" in refusal(load_dataset, tmp_path / "b.npz")
    assert not witness.exists()


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"X": "x", "y": "Y"}, ""),
        ({"X": "data", "y": "target", "feature_names": "feature_names"}, "data as X, target as y"),
        ({"X": "anything"}, ""),
        ({"X_train": "x_train", "X_test": "x_test", "y_train": "y_train", "y_test": "y_test"}, ""),
        (
            {"X_train": "train_images", "X_test": "test_images", "y_train": "train_labels", "y_test": "test_labels"}
            | {"left": "val_images"},
            "train_images as X_train, test_images as X_test, train_labels as y_train, test_labels as y_test; "
            "val_images is not used",
        ),
    ],
)
def test_names_of_others_for_arrays_are_read(npz, capsys, names, said):
    own = {"X": X, "y": Y[:, None], "X_train": X, "X_test": X[:9], "y_train": Y[:, None], "y_test": Y[:9], "left": X}
    own["feature_names"] = np.array(["a", "b", "c"])
    path = npz(**{name: own[key] for key, name in names.items()})
    found = load_dataset(path)
    assert capsys.readouterr().err.strip() == (f"{path}: {said}" if said else "")
    test = 0 if found.x_test is None else len(found.x_test)
    assert len(found.x_train) + test == len(X) + 9 * ("X_train" in names)
    assert np.isin(found.x_train, X).all()
    assert found.y_train is None or found.y_train.shape == (len(found.x_train),)


def test_groups_of_an_archive_with_other_names_are_used(npz, capsys):
    found = load_dataset(npz(data=X, target=Y, person=np.arange(20) % 5), groups="person")
    assert found.groups is not None and "not used" not in capsys.readouterr().err


def test_a_sparse_matrix_of_scipy_is_read(tmp_path):
    scipy.sparse.save_npz(tmp_path / "x.npz", scipy.sparse.csr_array(X))
    np.testing.assert_array_equal(load_dataset(tmp_path / "x.npz").x_train, X)


def test_object_labels_say_how_to_save_them(npz):
    message = refusal(load_dataset, npz(X=X, y=np.array(["a"] * 20, dtype=object)))
    assert message.startswith("y in ") and "astype(str)" in message


@pytest.mark.parametrize(
    ("arrays", "part"),
    [
        ({"a": X, "b": Y}, "has a, b; expected X_train and X_test"),
        ({}, "has no arrays"),
        ({"X_train": X}, "X_train without X_test; expected both; name the array X if there is no split"),
        ({"X_test": X}, "X_test without X_train"),
        ({"X": X, "y_train": Y}, "y_train without X_train"),
        ({"X_train": X, "X_test": X, "y": Y}, "y without X;"),
        ({"X_train": X, "X_test": X, "y_train": Y}, "y_train without y_test"),
        ({"X_train": X, "X_test": X[:, :2]}, "a row is (3,) in X_train and (2,) in X_test"),
        ({"X_train": X, "X_test": X.astype(np.uint8)}, "X_train is float32 and X_test is uint8"),
        ({"X_train": X, "X_test": X[:0]}, "X_test in"),
        ({"X_train": X[:0], "X_test": X}, "has no rows"),
        ({"X_train": X[:1], "X_test": X}, "1 row for training (n_samples=1), expected at least 2"),
        ({"X_train": X, "X_test": X, "y_train": Y[:5], "y_test": Y}, "y_train has shape (5,)"),
        ({"X_train": X, "X_test": X, "y_train": Y, "y_test": Y.astype(str)}, "expected the same"),
        ({"X": X, "y": Y[:5]}, "5 labels for 20 rows"),
        ({"X": X, "y": np.stack([Y, Y], 1)}, "shape (20, 2), expected one label per row"),
        ({"X": X, "y": np.where(X[:, 0] > 1, np.inf, X[:, 0])}, "infinite number"),
        ({"X": X, "y": np.arange(20)}, "20 labeled rows of 20 classes"),
        ({"X": X, "y": np.full(len(X), np.nan)}, "labels are missing (NaN or empty)"),
        ({"X": X[:1], "y": Y[:1]}, "n_samples=1"),
        ({"X": np.array([["a"], ["b"]])}, "expected numbers"),
        ({"X": np.zeros(3, dtype=[("a", int)])}, "expected numbers"),
        ({"X": np.where(X > 1, np.nan, X)}, "missing value"),
        ({"X": ["ACGT", "ACXT"]}, "row 1, position 2 (counted from 0) is 'X', expected A C G T N"),
        ({"X_train": ["ACGT", "AC-T"], "X_test": [b"A"]}, "is '-', expected A C G T N, upper or lower case"),
        ({"X_train": ["ACGT", "AC"], "X_test": X}, "expected numbers"),
    ],
)
def test_npz_refused(npz, arrays, part):
    path = npz(**arrays)
    message = refusal(load_dataset, path)
    assert part in message and "data.npz" in message


def test_missing_values_stay_nan_with_impute_median(npz):
    given = X.copy()
    given[3, 1] = np.nan
    data = load_dataset(npz(X=given), impute="median")
    np.testing.assert_array_equal(data.x, given)
    assert data.schema["impute"] == "median"
    given[:, 1] = np.nan
    message = refusal(load_dataset, npz(X=given, feature_names=["a", "b", "c"]), impute="median")
    assert "1 column without any value in the train rows: b;" in message


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"labels": "names.tsv"}, "on which labels=names.tsv has no effect; leave labels out, or, of one scene"),
        ({"layer": "counts"}, "is not an .h5ad file or an .h5mu file or a loom file, so layer=counts has no effect"),
        ({"image_size": 32}, "is an .npz file, on which image_size=32 has no effect"),
        ({"image_size": 3}, "image_size is 3, expected at least 4"),
        ({"label": "kind"}, "is not a table and has no column for label=kind; labels are the array y"),
        ({"drop": ["a"]}, "leave drop out"),
        ({"one_hot": ["a"]}, "leave one_hot out"),
        ({"modality": "images"}, "images are uint8"),
        ({"modality": "dna"}, "DNA is uint8"),
        ({"modality": "vector"}, "did you mean 'vectors'?"),
        ({"impute": "mean"}, "impute is 'mean', expected none or median"),
        ({"drop": "a"}, "expected a list"),
    ],
)
def test_options_that_do_not_fit_arrays(npz, options, part):
    assert part in refusal(load_dataset, npz(X=X), **options)


def test_the_array_of_labels_may_be_named(npz):
    y = np.arange(len(X)) % 2
    for name, given in (("y", {"X": X, "y": y}), ("labels", {"data": X, "labels": y})):
        assert load_dataset(npz(**given), label=name).y.tolist() == y.tolist()
    assert "has no column for label=y" in refusal(load_dataset, npz(X=X), label="y")


def test_errors_name_damaged_files(npz, npy, tmp_path):
    whole = npz(X=X).read_bytes()
    for content in (whole[: len(whole) // 2], whole[:-30], b"PK\x03\x04" + b"\0" * 50):
        (tmp_path / "data.npz").write_bytes(content)
        assert "data.npz as an .npz archive; is it damaged" in refusal(load_dataset, tmp_path / "data.npz")
    npy(X).write_bytes(npy(X).read_bytes()[:-5])
    assert "data.npy as an .npy file; is it damaged" in refusal(load_dataset, tmp_path / "data.npy")
    (tmp_path / "data.npy").write_bytes(b"")
    assert "data.npy is empty" in refusal(load_dataset, tmp_path / "data.npy")
    npy(X).rename(tmp_path / "data.npz")
    assert "not an .npz archive" in refusal(load_dataset, tmp_path / "data.npz")


def test_a_damaged_header_does_not_allocate_memory(npy):
    path = npy(X)
    path.write_bytes(path.read_bytes().replace(b"(20, 3), }              ", b"(20, 300000000000000), }"))
    assert "cannot read" in refusal(load_dataset, path)


def test_warnings_for_one_feature_and_constant_columns(npz):
    with pytest.warns(UserWarning, match="only one feature"):
        load_dataset(npz(X=X[:, :1]))
    with pytest.warns(UserWarning, match=r"1 constant column \(counted from 0\): 2"):
        load_dataset(npz(X_train=X * [1, 1, 0], X_test=X))


def test_capital_extension_is_known(npy):
    path = npy(X)
    assert load_dataset(path.rename(path.with_suffix(".NPY"))).x.shape == (20, 3)


# --- another file for a fitted run


def test_schema_of_arrays_is_plain_json_and_holds_the_row_shape(npy):
    schema = load_dataset(npy(IMAGES)).schema
    assert json.loads(json.dumps(schema)) == schema
    assert schema["row_shape"] == [4, 5] and schema["modality"] == "images"
    data = load_dataset(npy(IMAGES[:1]), schema=schema)
    assert data.x.shape == (1, 4, 5) and data.schema == schema
    assert "but the run was fitted on (4, 5)" in refusal(load_dataset, npy(IMAGES[:, :, :4]), schema=schema)
    assert "images are uint8" in refusal(load_dataset, npy(X), schema=schema)
    assert load_dataset(npy(IMAGES[..., None]), schema=schema).x.shape == (6, 4, 5, 1)
    assert "rows of shape (4, 5, 3)" in refusal(load_dataset, npy(np.stack([IMAGES] * 3, axis=-1)), schema=schema)


def test_schema_of_vectors(npz, npy, recwarn):
    schema = load_dataset(npz(X=X, feature_names=["a", "b", "c"])).schema
    assert load_dataset(npy(X[:1]), schema=schema).x.shape == (1, 3)
    assert "has 2 features per row, but the run was fitted on 3" in refusal(load_dataset, npy(X[:, :2]), schema=schema)
    message = refusal(load_dataset, npz(X=X, feature_names=["a", "c", "b"]), schema=schema)
    assert "feature 1 (counted from 0) is c, but the run was fitted on b there" in message
    assert [str(warning.message) for warning in recwarn] == []


def test_the_schema_has_the_modality_of_flattened_rows(npy):
    schema = load_dataset(npy(IMAGES), modality="vectors").schema
    assert load_dataset(npy(IMAGES[:2]), schema=schema).x.shape == (2, 20)


def test_options_that_contradict_the_schema_are_refused(npy):
    schema = load_dataset(npy(X)).schema
    for option in ({"modality": "images"}, {"drop": ["a"]}, {"one_hot": ["a"]}, {"impute": "median"}):
        assert "but the run was fitted with" in refusal(load_dataset, npy(X), schema=schema, **option)
    assert load_dataset(npy(X), schema=schema, modality="vectors").x.shape == (20, 3)


def test_too_few_new_rows_are_not_split(npz):
    schema = load_dataset(npz(X=X, y=Y)).schema
    with pytest.warns(UserWarning, match="the rows are not split"):
        data = load_dataset(npz(X=X[:4], y=Y[:4]), schema=schema)
    assert data.split == "none" and data.y.tolist() == [0, 1, 0, 1]
    assert load_dataset(npz(X=X, y=Y), schema=schema).split == "stratified"


# --- real data


def test_an_archive_that_unpacks_to_more_than_the_memory_is_refused(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "x.npz", X=np.zeros((1000, 50)), y=np.arange(1000) % 2)
    assert (tmp_path / "x.npz").stat().st_size < 10_000
    monkeypatch.setattr("viewsmith.data.readers.arrays.memory_limit", lambda: 199_000)
    assert "X in" in (said := refusal(load_dataset, tmp_path / "x.npz")) and "more than the memory" in said
    monkeypatch.setattr("viewsmith.data.readers.arrays.memory_limit", lambda: 201_000)
    load_dataset(tmp_path / "x.npz")
