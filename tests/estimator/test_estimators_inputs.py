"""What estimators take as rows in Python: warnings, containers, and messages of one line."""

import warnings
from collections import UserList

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from torch import nn

import viewsmith
from refusals import refusal
from viewsmith import Contrastive
from viewsmith.data import load_dataset
from viewsmith.estimator.plan import device_of

TINY = {"epochs": 1, "hidden": (8,), "n_components": 4, "projector_dims": (4,), "batch_size": 8, "random_state": 0}
X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)


def fit(x, **options):
    return Contrastive(**TINY | options).fit(x)


def said(function, *arguments):
    """Warnings of a call, without those of the training."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        function(*arguments)
    return [str(warning.message) for warning in caught if "collapsed" not in str(warning.message)]


def test_constant_columns_and_a_single_feature_are_named():
    x = np.c_[X, np.ones(20)]
    assert said(fit, x) == ["the data: 1 constant column (counted from 0): 3, ignored"]
    named = pd.DataFrame(x, columns=["a", "b", "c", "d"])
    assert said(fit, named) == ["the data: 1 constant column: d, ignored"]
    assert said(fit, X[:, :1]) == ["the data: only one feature (n_features=1)"]
    assert said(fit, X) == []


def far_from_zero():
    """Columns of numbers: positions, times, and one that is small."""
    rng = np.random.default_rng(0)
    start, t = 150_000_000 + rng.integers(0, 20, 40), 1.7e9 + rng.integers(0, 60, 40)
    return pd.DataFrame({"start": start, "t": t, "small": rng.normal(size=40)})


@pytest.mark.parametrize("form", ["frame", "float64", "int64", "mixed table", "csv", "mixed csv", "npy"])
def test_columns_that_float32_cannot_tell_apart_are_named(form, tmp_path):
    rows = far_from_zero()
    named = "2 columns: start, t apart"
    if form == "float64":
        rows, named = rows.to_numpy(), r"2 columns \(counted from 0\): 0, 1 apart"
    elif form == "int64":
        rows, named = rows[["start", "t"]].to_numpy().astype(np.int64), r"2 columns \(counted from 0\): 0, 1 apart"
    elif "mixed" in form:
        rows["town"], named = list("abcd") * 10, "1 column: start apart"
    if form in ("csv", "mixed csv"):
        rows.to_csv(tmp_path / "rows.csv", index=False)
        with pytest.warns(UserWarning, match=f"rows.csv: float32.*{named} .150000000 to 1500000.., in steps of 16"):
            load_dataset(tmp_path / "rows.csv")
        return
    if form == "npy":
        np.save(tmp_path / "rows.npy", rows.to_numpy())
        with pytest.warns(UserWarning, match=r"rows.npy: float32.* 0, 1 apart .* for instance 1500000"):
            load_dataset(tmp_path / "rows.npy")
        return
    with pytest.warns(UserWarning, match=f"float32, in which rows are kept.*{named} .150000000 to 1500000.., in steps"):
        Contrastive(epochs=1, batch_size=32, random_state=0).fit(rows)


def test_no_warning_if_float32_tells_values_apart(recwarn):
    rows = far_from_zero() - [150_000_000, 1.7e9, 0]
    rows["day"] = 1.7e9 + 86_400 * np.arange(40)
    Contrastive(epochs=1, batch_size=32, random_state=0).fit(rows)
    assert not [warning for warning in recwarn if "float32" in str(warning.message)]


def test_recordings_far_from_zero_are_named():
    rows = 1e9 + np.random.default_rng(0).normal(size=(20, 2, 32))
    with pytest.warns(UserWarning, match="hardly tells the values of 2 columns: channel 0, channel 1 apart"):
        Contrastive(modality="series", epochs=1, batch_size=20, random_state=0).fit(rows)


def test_a_constant_column_has_no_effect_on_new_rows():
    model, other = fit(np.c_[X, np.ones(20)]), np.c_[X, np.full(20, 7.0)]
    assert np.array_equal(model.transform(other), model.transform(np.c_[X, np.ones(20)]))


@pytest.mark.parametrize(
    "x",
    [X, np.random.default_rng(0).integers(0, 255, (16, 8, 8)).astype(np.uint8), np.full((8, 5), 65, np.uint8)],
    ids=["vectors", "images", "dna"],
)
def test_read_only_arrays_are_not_warned_about(x):
    frozen = x.copy()
    frozen.flags.writeable = False
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "The given NumPy array is not writable")
        model = fit(frozen)
        assert np.array_equal(model.transform(frozen), fit(x).transform(x))
        model.raw_features(frozen)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (X[0], "Reshape your data"),
        (None, "expected rows of features"),
        (pd.DataFrame(X, columns=["a", "b", "c"])[:0], "has no rows"),
        (X[:1], "minimum of 2"),
        ({"a": [1, 2]}, "cannot convert the data, of type dict, to an array of numbers"),
        ([{"a": 1}, {"a": 2}], "; give pandas.DataFrame(X)"),
        (UserList([(x, 1) for x in X]), "if it is a dataset, derive its class from torch.utils.data.Dataset"),
        (type("Dataset", (), {"x_train": X})(), "or x_train of what load_dataset returns"),
        ((row for row in X), "cannot convert the data"),
        (pd.DataFrame(X).to_records(), ", expected numbers; give pandas.DataFrame(X)"),
    ],
)
def test_other_data_are_refused_in_one_line(given, message):
    with warnings.catch_warnings(action="error"):
        assert message in refusal(fit, given)


def test_sparse_recordings_are_refused_with_what_makes_them_dense():
    message = refusal(viewsmith.Discovery().fit, scipy.sparse.csr_array(np.tile(X, 20)))
    assert message == "the data has the type csr_array, expected an array of numbers; give X.toarray()"


def test_the_roles_of_plain_columns_are_said_and_kept(capsys):
    x = pd.DataFrame(np.c_[X, np.ones(20)], columns=["a", "b", "c", "d"])
    line = "4 columns: numeric a, b, c; left out d (constant)"
    with pytest.warns(UserWarning, match="constant column: d"):
        model = fit(x, verbose=True)
    assert line in capsys.readouterr().err.splitlines() and model.summary_["columns"] == line
    with warnings.catch_warnings(action="ignore"):
        assert "columns" not in fit(x.to_numpy()).summary_


def test_the_device_of_a_layer_without_tensors_is_that_of_the_method():
    assert device_of(nn.Identity(), nn.Linear(1, 1, device="meta")) == torch.device("meta")
    assert device_of(nn.BatchNorm1d(1, affine=False), nn.Linear(1, 1, device="meta")) == torch.device("cpu")


@pytest.mark.parametrize("form", [str, lambda path: path, lambda path: [str(path)] * 3, lambda path: (path,)])
def test_names_of_files_are_no_samples(tmp_path, form):
    path = tmp_path / "MSKEL.png"
    path.write_text("")
    model = fit(X)
    for function in (fit, model.transform, model.views):
        message = refusal(function, form(path))
        assert "the name" in message or "file names" in message
        assert "expected samples: read the file or folder with viewsmith.data.load_dataset(path)" in message
        assert "file names" in refusal(function, ["a.png", "b.png"])  # whether there are such files or not
