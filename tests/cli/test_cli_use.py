"""Commands that use a run: embed, evaluate, views, report; and the list of methods."""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from cli_tools import baselines_of, call, files, good

import viewsmith
from refusals import refusal
from registered import ENCODERS, FRAMEWORKS, VIEWS
from viewsmith import PiNDA
from viewsmith.estimator.options import places
from viewsmith.evaluation import PROTOCOLS, baselines
from viewsmith.methods.loading import estimators
from viewsmith.modalities import modality_of
from viewsmith.workflows.export import export_encoder

ISSUE = {"linear", "knn", "svm", "kmeans_accuracy", "nmi", "ari", "linear_1pct", "linear_10pct"}


def forbid(constant):
    raise AssertionError(f"{constant} is no JSON")


@pytest.fixture(scope="module")
def expected(runs, table):
    """Representations of the rows of the table, in its order."""
    return viewsmith.load(runs / "table").transform(table[list("abcd")].to_numpy(np.float32))


# ---- embed ----------------------------------------------------------------------------------------------------------


def test_embed_writes_representations_labels_and_split(tmp_path, data, runs, table, expected):
    out = tmp_path / "h.csv"
    result = good("embed", runs / "table", data / "t.csv", "--out", out)
    assert result.out == f"{out}\n" and result.err == ""
    frame, split = pd.read_csv(out), json.loads((runs / "table" / "summary.json").read_text())["split"]
    assert list(frame) == [*(f"h{i}" for i in range(256)), "split", "label"]
    np.testing.assert_array_equal(frame.iloc[:, :256].to_numpy(np.float32), expected)
    assert list(frame["label"]) == list(table["type"])
    assert np.flatnonzero(frame["split"] == "test").tolist() == split["test_index"]
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_embed_of_a_given_split(tmp_path, data, runs):
    good("embed", runs / "given", data / "given.npz", "--out", tmp_path / "h.npz")
    with np.load(tmp_path / "h.npz") as h, np.load(data / "given.npz") as given:
        assert sorted(h.files) == ["H_test", "H_train", "y_test", "y_train"]
        np.testing.assert_array_equal(h["H_test"], viewsmith.load(runs / "given").transform(given["X_test"]))
        np.testing.assert_array_equal(h["y_train"], given["y_train"])
        assert h["H_train"].shape == (30, 256)


def test_embed_of_columns_in_another_order_with_more_of_them_and_without_labels(tmp_path, data, runs, table, expected):
    new = table[["d", "b", "a", "c"]].assign(extra="text", other=1.5).iloc[5:]
    new.to_csv(tmp_path / "new.csv", index=False)
    result = good("embed", runs / "table", tmp_path / "new.csv", "--out", tmp_path / "h.csv")
    assert "2 columns that the run does not know, ignored: extra, other" in result.err
    frame = pd.read_csv(tmp_path / "h.csv")
    assert "label" not in frame and "split" not in frame
    np.testing.assert_array_equal(frame.to_numpy(np.float32), expected[5:])


def test_embed_of_a_single_row(tmp_path, runs, table, expected):
    table.iloc[[7]].to_csv(tmp_path / "one.csv", index=False)
    good("embed", runs / "table", tmp_path / "one.csv", "--out", tmp_path / "h.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "h.npy"), expected[[7]])


def test_embed_with_another_label_column(tmp_path, data, runs, table):
    table.assign(kind=["p", "q", "r", "s"] * 10).to_csv(tmp_path / "new.csv", index=False)
    given = ("embed", runs / "table", tmp_path / "new.csv", "--out", tmp_path / "h.csv")
    assert call(*given, "--label", "nope").refused("no column 'nope'", "label")
    result = good(*given, "--label", "kind")
    assert result.err == ""  # the label of the run is a known column
    assert pd.read_csv(tmp_path / "h.csv")["label"].tolist() == ["p", "q", "r", "s"] * 10


def test_embed_with_a_model_saved_from_python(tmp_path, data, table):
    features = table[list("abcd")]
    model = PiNDA(epochs=1, random_state=0).fit(features)
    model.save(tmp_path / "run")
    table[["type", "c", "a", "d", "b"]].to_csv(tmp_path / "new.csv", index=False)
    result = good("embed", tmp_path / "run", tmp_path / "new.csv", "--label", "type", "--out", tmp_path / "h.npy")
    assert result.err == ""
    np.testing.assert_array_equal(np.load(tmp_path / "h.npy"), model.transform(features.astype(np.float32)))
    good("embed", tmp_path / "run", data / "x.npy", "--out", tmp_path / "same.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "same.npy"), np.load(tmp_path / "h.npy"))
    assert call("embed", tmp_path / "run", "wine", "--out", tmp_path / "w.npy").refused("13 features", "fitted on 4")


def test_embed_replaces_a_file_and_follows_links(tmp_path, data, runs, expected):
    (tmp_path / "old.npy").write_text("old")
    (tmp_path / "link.npy").symlink_to("old.npy")
    good("embed", runs / "table", data / "t.csv", "--out", tmp_path / "link.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "old.npy"), expected)


@pytest.mark.parametrize("name", ["model.safetensors", "initial.safetensors", "config.toml", "checkpoint/latest.json"])
def test_a_file_of_a_run_is_not_replaced_by_an_output(name, data, runs, tmp_path):
    run = shutil.copytree(runs / "table", tmp_path / "run")
    before = files(run)
    for other in (runs / "table", run):
        assert call("export", other, "--out", run / name).refused("a file of the run", "which it would destroy")
    link = tmp_path / "link.safetensors"
    link.symlink_to(run / name)
    assert call("export", run, "--out", link).refused("a file of the run")
    assert "a file of the run" in refusal(export_encoder, viewsmith.load(run), run / name, "safetensors")
    assert files(run) == before


@pytest.mark.parametrize("command", ["embed", "views", "locate", "locate --crops"])
def test_data_are_not_replaced_by_the_output(command, data, runs, tmp_path):
    shutil.copy(data / "given.npz", tmp_path / "given.npz")
    shutil.copy(data / "t.csv", tmp_path / "t.csv")
    before, name = files(tmp_path), "t.csv" if command == "locate" else "given.npz"
    same = tmp_path / "." / ".." / tmp_path.name / name
    assert call(*command.split(), runs / "given", same, "--out", tmp_path / name).refused(
        "--out is", "the data themselves"
    )
    assert files(tmp_path) == before


# ---- evaluate -------------------------------------------------------------------------------------------------------


def test_evaluate_prints_and_saves_json(data, runs):
    result = good("evaluate", runs / "table", data / "t.csv", "--json")
    content = json.loads(result.out, parse_constant=forbid)
    assert list(content["embeddings"]) == [*baselines_of("vectors"), "untrained", "representation"]
    for scores in content["embeddings"].values():
        assert set(scores) == set(PROTOCOLS) >= ISSUE
        assert all(-1 <= score <= 1 for score in scores.values())
    assert content["protocols"] == PROTOCOLS
    assert content["rows"] == {"train": 32, "test": 8, "classes": 2}
    numbers = {"feature_std", "effective_rank", "uniformity"}
    assert content["label_free"]["raw"].keys() == numbers
    assert content["label_free"]["representation"].keys() == numbers | {"alignment"}
    assert (runs / "table" / "evaluation.json").read_text() == result.out


def test_evaluate_prints_a_table(data, runs):
    result = good("evaluate", runs / "given", data / "given.npz", "--protocols", "knn, linear")
    lines = result.out.splitlines()
    assert lines[0].split() == ["knn", "linear"]
    expected = [*baselines_of("vectors"), "untrained", "representation"]
    assert [line.split()[0] for line in lines[1 : 1 + len(expected)]] == expected
    assert lines[-2].startswith("Representation ") and "kNN (" in lines[-2] and "svm" not in result.out
    assert "This is one run: a claim needs several seeds." in lines[-1]
    assert "Fitted on 30 train rows, scored on 10 test rows, 2 classes." in lines


def test_undefined_scores_are_null(tmp_path, runs):
    x = np.random.default_rng(0).normal(size=(30, 4))
    np.savez(tmp_path / "d.npz", X_train=x[:28], X_test=x[28:], y_train=np.arange(28) % 4, y_test=[0, 1])
    given = ("evaluate", runs / "plain", tmp_path / "d.npz", "--json", "--protocols", "nmi,knn")
    result = good(*given)
    content = json.loads(result.out, parse_constant=forbid)
    assert content["embeddings"]["raw"]["nmi"] is None and content["embeddings"]["raw"]["knn"] is not None
    assert all(line.startswith("warning: ") for line in result.err.splitlines()) and "2 test rows" in result.err
    assert "nan" in good(*given[:3], *given[4:]).out


def test_evaluate_scores_a_sample_of_many_rows(data, runs, monkeypatch):
    monkeypatch.setattr("viewsmith.data.dataset.SCORED_ROWS", 30)
    result = good("evaluate", runs / "given", data / "given.npz")
    found = json.loads((runs / "given" / "evaluation.json").read_text())["rows"]
    assert found["sampled_from"] == 40 and found["train"] + found["test"] == 30 and found["test"] < 10
    assert f"scored on {found['test']} test rows, 2 classes. A random sample of 40 rows." in " ".join(
        result.out.split()
    )


def test_evaluate_with_umap(data, runs, monkeypatch):
    monkeypatch.setattr(baselines, "umap", lambda train, test: (train, test))  # compiled for 20 seconds
    result = good("evaluate", runs / "given", data / "given.npz", "--umap", "--json", "--protocols", "knn")
    assert list(json.loads(result.out)["embeddings"])[-1] == "umap"


# ---- views ----------------------------------------------------------------------------------------------------------


def test_views_are_in_the_units_of_the_data(tmp_path, data, runs, table):
    good("views", runs / "table", data / "t.csv", "--n", 3, "--out", tmp_path / "v.npz")
    split = json.loads((runs / "table" / "summary.json").read_text())["split"]
    rows = table[list("abcd")].to_numpy(np.float32)[split["train_index"]]
    with np.load(tmp_path / "v.npz") as arrays:
        assert sorted(arrays.files) == ["index", "views"]
        views, index = arrays["views"], arrays["index"]
    assert views.shape == (32, 3, 4) and views.dtype == np.float32 and index.tolist() == split["train_index"]
    # The run's view maker takes neighbors: each view is another train row, to rounding.
    distance = np.abs(views[:, :, None, :] - rows) / rows.std(0)
    nearest = distance.max(-1).argmin(-1)
    assert distance.max(-1).min(-1).max() < 1e-3
    assert (nearest != np.arange(32)[:, None]).all()


def test_views_of_the_test_rows(tmp_path, data, runs):
    given = ("views", runs / "given", data / "given.npz", "--n", 2, "--out")
    good(*given, tmp_path / "v.npz", "--split", "test")
    with np.load(tmp_path / "v.npz") as arrays:
        assert arrays["views"].shape == (10, 2, 4) and arrays["index"].tolist() == list(range(10))
    np.save(tmp_path / "x.npy", np.load(data / "x.npy")[::-1])  # in the order of the run it has the split of the run
    refused = call(*given[:2], tmp_path / "x.npy", *given[3:], tmp_path / "w.npz", "--split", "test")
    assert refused.refused("has no test rows", "--split train")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v.npz", "x.npy"]


def test_views_of_data_without_labels_have_all_rows(tmp_path, data, runs):
    good("views", runs / "plain", data / "x.npy", "--out", tmp_path / "v.npz")
    with np.load(tmp_path / "v.npz") as arrays:
        assert arrays["views"].shape == (40, 4, 4) and arrays["index"].tolist() == list(range(40))


# ---- report ---------------------------------------------------------------------------------------------------------


def test_report_shows_curves_comparison_and_maps(data, runs):
    (runs / "given" / "report.html").unlink(missing_ok=True)
    good("evaluate", runs / "given", data / "given.npz")
    refreshed = (runs / "given" / "report.html").read_text()
    assert "Not evaluated yet" not in refreshed and "t-SNE of 10 test rows" in refreshed
    assert 'class="verdict"' in refreshed.split('id="maps"')[0] and "Time for the features" not in refreshed
    assert refreshed.index('id="maps"') < refreshed.index('id="comparison"')  # verdict, map, table
    folded = re.findall(r"<details><summary>(.*?)</summary>", refreshed)
    assert {"What the columns mean", "The same clusterings of rows normalized to length 1"} <= {*folded}
    result = good("report", runs / "given")
    page = (runs / "given" / "report.html").read_text()
    assert result.out == f"{runs / 'given' / 'report.html'}\n" and result.err == ""
    assert "Not evaluated yet" not in page
    assert "t-SNE of 10 test rows" in page


def test_report_of_learned_noise(tmp_path):
    good("fit", "wine", "--method", "pinda", "--out", tmp_path / "run", "--epochs", 2)
    good("report", tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Learned noise" in page and "flavanoids" in page


def test_scores_of_a_run_that_cannot_be_written_to_are_shown(data, runs, monkeypatch):
    def refuse(path, _):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("viewsmith.core.files.write_json_atomic", refuse)
    result = good("evaluate", runs / "given", data / "given.npz", "--protocols", "linear", "--json")
    assert "linear" in json.loads(result.out)["embeddings"]["representation"]
    assert "evaluation.json is not written (Permission denied): copy the run" in result.err


def test_the_configuration_of_a_run_says_that_its_label_is_no_option_of_a_file(tmp_path, data, runs):
    command = ("fit", data / "t.csv", "--config", runs / "table" / "config.toml", "--epochs", 1, "--out")
    assert "is of a run with --label type, which no file sets" in good(*command, tmp_path / "without").err
    assert "is of a run" not in good(*command, tmp_path / "with", "--label", "type").err


def test_report_from_another_folder(tmp_path, data, monkeypatch):
    monkeypatch.chdir(data)
    good("fit", "given.npz", "--out", tmp_path / "run", "--epochs", 1)
    monkeypatch.chdir(tmp_path)
    result = good("report", "run")
    assert result.err.startswith("warning: no maps and galleries: given.npz does not exist")
    assert result.err.endswith("; give the data (--data)\n")
    assert "t-SNE" not in (tmp_path / "run" / "report.html").read_text()
    assert call("fit", "--out", "run", "--resume").refused("given.npz, the data of the run run, is not here: resume in")
    assert good("report", "run", "--data", data / "given.npz").err == ""
    assert "t-SNE" in (tmp_path / "run" / "report.html").read_text()


def test_report_on_too_few_rows_and_before_the_end(tmp_path, data, runs, table):
    table.iloc[[0]].to_csv(tmp_path / "one.csv", index=False)
    run = shutil.copytree(runs / "table", tmp_path / "run")
    assert "warning: no maps and galleries: " in good("report", run, "--data", tmp_path / "one.csv").err
    (run / "model.safetensors").unlink()
    (run / "summary.json").unlink()
    assert "the training has not finished" in good("report", run).err
    assert "t-SNE" not in (run / "report.html").read_text()


def test_report_of_a_model_saved_from_python(tmp_path, table):
    PiNDA(epochs=1, random_state=0).fit(table[list("abcd")]).save(tmp_path / "run")
    assert "has no path of its data; give --data" in good("report", tmp_path / "run").err


# ---- methods --------------------------------------------------------------------------------------------------------


def test_help_does_not_break_lines_within_names(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = good("fit", "--help").out.splitlines()
    assert "linear-contrast" in "".join(lines) and not [line for line in lines if line.endswith("-")]


@pytest.mark.parametrize("method", estimators())
def test_options_of_a_method_name_the_registered_parts(method):
    text = good("methods", method).out
    assert not re.search(r"\{[a-z ]+\}", text) and "vectors" in text.partition("--set modality=")[2]


def test_methods_of_a_name():
    text = good("methods", "pinda").out
    assert (
        text.startswith("pinda  (vectors")
        and '  --set strength=0.25  [noise]  float or "auto"\n      Noise level' in text
    )
    assert all(f"  --set {option}=" in text for option in places(PiNDA))
    assert json.loads(good("methods", "pinda", "--json").out).keys() == {"methods"}
    assert "dna" in json.loads(good("methods", "mutation", "--json").out)["view makers"]
    assert good("methods", "edf").out.startswith("readers") and "frameworks" not in good("methods", "edf").out


def test_methods_are_listed():
    listed = json.loads(good("methods", "--json").out)
    assert list(listed["methods"]) == list(estimators())
    for name, entry in listed["methods"].items():
        assert estimators()[name].__name__ == entry["estimator"] and hasattr(viewsmith, entry["estimator"])
        assert entry["source"] and set(entry["modalities"]) <= set(listed["modalities"])
    recordings = [name for name, entry in listed["methods"].items() if "series" in entry["modalities"]]
    # The others have no generator for them.
    assert recordings == ["linear-contrast", "contrastive", "crl-tac", "metaug"]
    assert {*listed["frameworks"]} == {"info-max", "linear-contrast", "soft", "oucl", *FRAMEWORKS}
    listed_views = {modality: {*makers} - {"channel:RUN"} for modality, makers in listed["view makers"].items()}
    assert listed_views.keys() == {*VIEWS, "letters:ABC", "proteins", "series", "spectra"}
    assert {modality: listed_views[modality] for modality in VIEWS} == {
        modality: {*makers} for modality, makers in VIEWS.items()
    }
    for modality, found in listed["features"].items():
        assert modality_of(modality).default_features in {"", *found}
        assert all(entry["options"] and entry["source"] for entry in found.values())
    text = good("methods").out
    for name in (*estimators(), *FRAMEWORKS, *sum(VIEWS.values(), ()), *sum(ENCODERS.values(), ())):
        assert name in text


def test_commands_write_only_the_requested_files_into_a_run(tmp_path, data, runs):
    before = files(runs / "plain")
    good("embed", runs / "plain", data / "x.npy", "--out", tmp_path / "h.npy")
    good("views", runs / "plain", data / "x.npy", "--out", tmp_path / "v.npz")
    assert files(runs / "plain") == before


def test_views_of_metaug_are_features_with_their_samples(tmp_path):
    good("fit", "wine", "--method", "metaug", "--out", tmp_path / "run", "--epochs", 1)
    good("views", tmp_path / "run", "wine", "--n", 3, "--out", tmp_path / "views.npz")
    with np.load(tmp_path / "views.npz") as arrays:
        assert set(arrays) == {"index", "views", "features"}
        assert arrays["views"].shape == arrays["features"].shape == (142, 3, 64)
        assert not np.allclose(arrays["views"], arrays["features"])
    good("embed", tmp_path / "run", "wine", "--out", tmp_path / "h.npz")
    with np.load(tmp_path / "h.npz") as arrays:
        assert arrays["H"].shape == (178, 256)
