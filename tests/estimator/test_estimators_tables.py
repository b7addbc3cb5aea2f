"""Estimators on DataFrames of mixed columns."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import viewsmith
from people import N
from people import people as people_table
from refusals import refusal
from viewsmith import CRLTAC, Contrastive, DiffAug, GenView, MetAug, PiNDA
from viewsmith.data import load_dataset
from viewsmith.workflows.runs import data_record, report

TINY = {"epochs": 2, "hidden": (8,), "n_components": 4, "projector_dims": (4,), "random_state": 0}
SMALL = {
    PiNDA: {"generator_hidden": (4,)},
    CRLTAC: {"masks": 4},
    DiffAug: {"map_hidden": (4,), "generator_epochs": 1, "sampler_steps": 2},
    GenView: {"generator_epochs": 1, "sampler_steps": 2},
}


def people() -> pd.DataFrame:
    return people_table("id", "age", "town", "street", "since")


@pytest.mark.parametrize("cls", [Contrastive, PiNDA, CRLTAC, MetAug, DiffAug, GenView])
def test_a_frame_without_options(cls, tmp_path):
    frame = people()
    model = cls(**TINY | SMALL.get(cls, {})).fit(frame, run=tmp_path / "run")
    h = model.transform(frame)
    assert len(h) == N and np.isfinite(h).all()
    assert model.n_features_in_ == 5 and model.feature_names_in_.tolist() == list(frame)
    assert model.summary_["columns"].startswith("5 columns: numeric age; category town; text street; date since")
    loaded = viewsmith.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.transform(frame[list(frame)[::-1]]), h)
    assert loaded.n_features_in_ == 5 and loaded.feature_names_in_.tolist() == list(frame)
    np.testing.assert_array_equal(model.transform(frame[:1].copy()), loaded.transform(frame[:1].copy()))


def test_views_are_rows_of_the_table():
    frame = people()
    model = Contrastive(**TINY).fit(frame)
    views = model.views(frame, n_views=2)
    assert views.index.names == ["row", "view"] and len(views) == 2 * N
    assert list(views) == ["age", "town", "street", "since"]
    known = {tuple(map(str, row)) for row in frame[list(views)].itertuples(index=False)}
    assert all(tuple(map(str, row)) in known for row in views.itertuples(index=False))  # neighbors are other rows


def test_views_of_new_rows_are_values_of_the_pool():
    frame = people()
    views = Contrastive(**TINY).fit(frame).views(frame[:3].drop(columns="id"), n_views=4, pool=frame)
    assert len(set(views["street"])) > 3 and set(views["street"]) <= set(frame["street"])
    assert set(views["since"]) <= set(frame["since"])


def test_corrupted_views_are_values_of_the_table():
    frame = people()
    model = Contrastive(view_maker="corruption", **TINY).fit(frame)
    views = model.views(frame, n_views=3)
    for name in views:
        assert set(views[name].dropna()) <= set(frame[name].dropna())
    moved = (views["town"].to_numpy().reshape(N, 3) != frame["town"].to_numpy()[:, None]).mean()
    assert 0.1 < moved < 0.6


def test_plain_frames_are_arrays():
    x = np.random.default_rng(0).normal(size=(40, 3))
    frame = pd.DataFrame(x, columns=list("abc"))
    expected = Contrastive(**TINY).fit(x).transform(x)
    model = Contrastive(**TINY).fit(frame)
    assert model.table_ is None
    np.testing.assert_array_equal(model.transform(frame), expected)
    np.testing.assert_array_equal(model.transform(frame[["c", "a", "b"]]), expected)
    with pytest.warns(UserWarning, match="1 column that the model does not know, ignored: more"):
        np.testing.assert_array_equal(model.transform(frame.assign(more=1)), expected)


@pytest.mark.parametrize("names", [[30, 10, 20], [2, 0, 1], [0.5, 1.5, 2.5], [("a", 1), ("a", 2), ("b", 1)]])
def test_columns_whose_names_are_not_text_are_found_by_name(names, tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 3))
    frame = pd.DataFrame(x, columns=names)
    fitted = Contrastive(**TINY).fit(frame, run=tmp_path / "run")
    expected = Contrastive(**TINY).fit(x).transform(x)
    for model in (fitted, viewsmith.load(tmp_path / "run")):
        unnamed = frame[[0, 1, 2]] if names == [2, 0, 1] else pd.DataFrame(x)
        for given in (x, frame, frame.iloc[:, [2, 0, 1]], frame.iloc[:, [1, 2, 0]].assign(more=1), unnamed):
            np.testing.assert_array_equal(model.transform(given), expected)
        said = refusal(model.transform, pd.DataFrame(x, columns=[30, 10, 99]))
        assert "lacks" in said and "that the model was fitted on" in said and "X.to_numpy()" in said
        assert not hasattr(model, "feature_names_in_")  # scikit-learn's, of text


@pytest.mark.parametrize("fitted", [pd.DataFrame, np.asarray])
def test_numbered_columns_in_another_order_are_refused_without_names(fitted):
    x = np.random.default_rng(0).normal(size=(40, 3))
    model = Contrastive(**TINY).fit(fitted(x))
    frame, expected = pd.DataFrame(x), model.transform(x)
    for given in (frame, pd.DataFrame(x, columns=[7, 8, 9])):
        np.testing.assert_array_equal(model.transform(given), expected)
    with pytest.warns(UserWarning, match="fitted without feature names"):
        np.testing.assert_array_equal(model.transform(pd.DataFrame(x, columns=list("cab"))), expected)
    said = refusal(model.transform, frame[[2, 0, 1]])
    assert "are 2, 0, 1, and the model was fitted on columns without names: give X[list(range(3))]" in said
    np.testing.assert_array_equal(model.transform(frame[[2, 0, 1]][list(range(3))]), expected)


def test_columns_are_found_by_the_names_of_a_file(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    frame = pd.DataFrame(x, columns=list("abc"))
    frame.to_csv(tmp_path / "t.csv", index=False)
    data = load_dataset(tmp_path / "t.csv")
    Contrastive(**TINY).fit(data.x_train, run=tmp_path / "run", context=data_record(data))
    model = viewsmith.load(tmp_path / "run")
    expected = model.transform(x)
    for given in (frame, frame[["c", "a", "b"]], pd.DataFrame(x)):
        np.testing.assert_array_equal(model.transform(given), expected)
    said = refusal(model.transform, frame.rename(columns={"a": "A"}))
    assert "the DataFrame lacks 1 column that the model was fitted on: a; it has A, b, c" in said


def test_roles_are_arguments():
    model = Contrastive(columns={"town": "drop", "id": "numeric"}, **TINY).fit(people())
    assert model.table_.roles["town"] == "drop" and model.table_.roles["id"] == "numeric"
    assert model.get_params()["columns"] == {"town": "drop", "id": "numeric"}
    assert "expected" in refusal(Contrastive(columns={"town": "word"}, **TINY).fit, people())
    assert "without named columns" in refusal(Contrastive(columns={"a": "drop"}, **TINY).fit, np.eye(12))


@pytest.mark.parametrize(
    ("given", "part"),
    [
        (lambda t: t.drop(columns="age"), "the DataFrame lacks 1 column that the model was fitted on: age"),
        (lambda t: np.eye(5), "the model was fitted on a table: give a DataFrame with the columns age, town"),
        (lambda t: t[:0], "has no rows"),
    ],
)
def test_later_samples_refused(given, part):
    assert part in refusal(Contrastive(**TINY).fit(people()).transform, given(people()))


def test_encoded_rows_are_known_again():
    model = Contrastive(**TINY).fit(people())
    rows = model.checked_rows(people())
    np.testing.assert_array_equal(model.transform(rows), model.transform(people()))
    np.testing.assert_array_equal(model.transform(np.asarray(rows)), model.transform(people()))
    other = Contrastive(**TINY).fit(people()[["age", "town"]])
    assert "encoded for another model" in refusal(other.transform, rows)
    plain = Contrastive(**TINY).fit(np.eye(12))
    assert "fitted on numbers" in refusal(plain.transform, rows)


def test_in_pipelines_and_column_transformers():
    frame = people()
    alone = Contrastive(**TINY).fit_transform(frame)
    np.testing.assert_array_equal(make_pipeline("passthrough", Contrastive(**TINY)).fit_transform(frame), alone)
    both = make_column_transformer(
        (Contrastive(**TINY), ["age", "town"]), (StandardScaler(), ["id"]), verbose_feature_names_out=False
    ).set_output(transform="pandas")
    made = both.fit(frame).transform(frame)
    assert list(made) == [*(f"contrastive{i}" for i in range(4)), "id"]


@pytest.mark.slow
def test_noise_strength_is_chosen_on_encoded_rows():
    model = Contrastive(view_maker="noise", noise_strength="auto", **TINY).fit(pd.concat([people()] * 2))
    assert str(model.fitted_["noise_strength"]) in model.fitted_["strength_scores"]


@pytest.mark.slow
def test_report_names_the_columns(tmp_path):
    PiNDA(**TINY | SMALL[PiNDA]).fit(people(), run=tmp_path / "run")
    text = report(tmp_path / "run", people()).read_text()
    assert "town=Oslo" in text or "street axis" in text


def test_polars_and_arrow_frames():
    frame = people()
    h = Contrastive(**TINY).fit_transform(frame)
    pyarrow = pytest.importorskip("pyarrow")
    np.testing.assert_array_equal(Contrastive(**TINY).fit_transform(pyarrow.Table.from_pandas(frame)), h)
    polars = pytest.importorskip("polars")
    table = polars.from_dict({name: frame[name].tolist() for name in frame})
    assert Contrastive(**TINY).fit(table).transform(table).shape == (N, 4)


def test_weights_are_loaded_without_pickle(tmp_path):
    model = Contrastive(**TINY).fit(people())
    model.save(tmp_path / "run")
    assert sorted(name for name in model.weights() if name.startswith("table.")) == ["table.2.axes", "table.2.mean"]
    path = tmp_path / "run" / "config.toml"
    text = path.read_text()
    assert '"Oslo"' in text and 'town = "category"' in text
    path.write_text(text.replace('    "Oslo",\n', "", 1))
    assert "features instead of" in refusal(viewsmith.load, tmp_path / "run")
    assert torch.isfinite(model.table_.arrays()["2"].axes).all()
