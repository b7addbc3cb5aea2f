"""The command compare: several methods, seeds, splits and baselines on one data set."""

import csv
import io
import json
import sys
import types

import numpy as np
import pandas as pd
import pytest
from cli_tools import baselines_of, call, files, good
from sklearn.datasets import load_wine

from viewsmith import Contrastive, PiNDA, load
from viewsmith.core.errors import TrainingError
from viewsmith.core.files import locked_folder
from viewsmith.core.tensors import load_tensors, save_tensors
from viewsmith.data import load_dataset
from viewsmith.evaluation import baselines
from viewsmith.evaluation import compare as evaluate
from viewsmith.evaluation.label_free import MEASURES, STUDY
from viewsmith.evaluation.protocol import evaluate_embedding
from viewsmith.workflows import compare as workflow

SMALL = [part for option in ("epochs=1", "hidden=8", "n_components=4", "batch_size=200") for part in ("--set", option)]
GIVEN = ("wine", "--methods", "contrastive,pinda", "--seeds", 2, "--protocols", "knn,linear", *SMALL)
BASELINES = baselines_of("vectors")
ROWS = [*BASELINES, "untrained", "contrastive", "pinda"]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    return folder / "out", good("compare", *GIVEN, "--out", folder / "out")


def test_many_rows_are_scored_on_a_sample(tmp_path, monkeypatch):
    monkeypatch.setattr("viewsmith.workflows.compare.SCORED_ROWS", 100)
    result = good("compare", *GIVEN, "--splits", 2, "--baselines", "raw", "--out", tmp_path / "out")
    found = json.loads((tmp_path / "out" / "contrastive-0" / "evaluation.json").read_text())["rows"]
    assert found["train"] + found["test"] == 100
    assert f"accuracy on {found['test']} test rows" in " ".join(result.out.split())


@pytest.fixture(scope="module")
def content(compared):
    return json.loads((compared[0] / "leaderboard.json").read_text())


@pytest.fixture
def wine_npz(tmp_path):
    x, y = load_wine(return_X_y=True)
    np.savez(tmp_path / "wine.npz", X_train=x[::2], y_train=y[::2], X_test=x[1::2], y_test=y[1::2])
    return tmp_path / "wine.npz"


def test_methods_are_compared_with_baselines(compared, content):
    out, result = compared
    assert list(content["rows"]) == ROWS and content["protocols"] == ["knn", "linear"]
    cells = [(cell["method"], cell["seed"], cell["split"], cell["status"]) for cell in content["cells"]]
    names = ("contrastive", "pinda")
    assert cells == [(name, i, i, "finished") for i in (0, 1) for name in names]
    for cell in content["cells"]:
        saved = json.loads((out / f"{cell['method']}-{cell['seed']}" / "evaluation.json").read_text())
        values = content["rows"][cell["method"]]["knn"]["values"]
        assert saved["embeddings"]["representation"]["knn"] == values[cell["seed"]]
    for scores in content["rows"].values():
        for score in scores.values():
            assert len(score["values"]) == 2 and score["mean"] == np.mean(score["values"])
            assert score["deviation"] == np.std(score["values"], ddof=1)
    lines = result.out.splitlines()
    assert lines[0].split() == ["knn", "linear"] and [line.split()[0] for line in lines[1 : 1 + len(ROWS)]] == ROWS
    assert any("2 seeds, each with its own split" in line for line in lines)


def test_scores_are_those_of_a_training_evaluated_alone(content):
    data = load_dataset("wine", split_seed=1)
    model = Contrastive(epochs=1, hidden=(8,), n_components=4, random_state=1).fit(data.x_train)
    alone = evaluate(model, data, protocols=["knn", "linear"])["embeddings"]
    for name, row in (("raw", "raw"), ("untrained", "untrained"), ("representation", "contrastive")):
        assert alone[name] == {score: content["rows"][row][score]["values"][1] for score in ("knn", "linear")}


def test_the_row_of_given_weights_is_not_called_untrained(tmp_path, compared):
    initial = compared[0] / "contrastive-0" / "initial.safetensors"
    weights = {name.partition("encoder.")[2]: value for name, value in load_tensors(initial).items()}
    save_tensors(tmp_path / "w.safetensors", {name: value for name, value in weights.items() if name})
    given = ("--methods", "contrastive", "--seeds", 2, "--protocols", "knn", *SMALL)
    given += ("--set", f"encoder_weights={tmp_path / 'w.safetensors'}")
    for _ in range(2):  # anew, and from the scores of the runs
        result = good("compare", "wine", *given, "--out", tmp_path / "out")
        found = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
        assert list(found["rows"]) == [*BASELINES, "contrastive given encoder", "contrastive"]
        assert found["level"]["knn"] and "untrained" not in result.out


def test_settings_of_a_training_are_for_methods_that_train(wine_npz, tmp_path):
    given = ("--set", "epochs=1", "--seeds", 1, "--baselines", "raw", "--protocols", "knn", "--out", tmp_path / "out")
    result = good("compare", wine_npz, "--methods", "contrastive,linear-contrast", *given)
    found = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    assert [cell["status"] for cell in found["cells"]] == ["finished"] * 2
    assert result.err.count("linear-contrast trains no network, and is compared without 'epochs'") == 1


def test_each_seed_has_its_own_split(compared, content):
    data, tests = load_dataset("wine"), []
    for cell in content["cells"]:
        summary = json.loads((compared[0] / f"{cell['method']}-{cell['seed']}" / "summary.json").read_text())
        tests.append(tuple(summary["split"]["test_index"]))
        assert tests[-1] == tuple(load_dataset("wine", split_seed=cell["split"]).test_index)
    assert tests[0] == tests[1] == tuple(data.test_index) and tests[2] == tests[3] != tests[0]
    assert content["split"] == {"kind": "stratified", "splits": 2}
    raw = content["rows"]["raw"]["linear"]
    assert raw["values"][0] != raw["values"][1]


def test_the_leaderboard_is_a_table(compared, content):
    lines = list(csv.DictReader(io.StringIO((compared[0] / "leaderboard.csv").read_text())))
    assert sorted(line["row"] for line in lines) == sorted(ROWS)
    means = [float(line["mean"]) for line in lines]
    assert means == sorted(means, reverse=True) and [line["rank"] for line in lines] == list("1234567"[: len(ROWS)])
    for line in lines:
        scores = content["rows"][line["row"]]
        assert float(line["knn"]) == pytest.approx(scores["knn"]["mean"], abs=1e-5)
        assert float(line["linear_deviation"]) == pytest.approx(scores["linear"]["deviation"], abs=1e-5)
        assert float(line["mean"]) == pytest.approx((scores["knn"]["mean"] + scores["linear"]["mean"]) / 2, abs=1e-5)
        assert (line["level_everywhere"] == "True") == (line["row"] in content["level_everywhere"])
        assert bool(line["train_seconds"]) == (line["row"] in ("contrastive", "pinda"))


def test_a_notebook_shows_the_leaderboard(content):
    html = workflow.Comparison(content)._repr_html_()
    assert "<td>untrained</td>" in html and f"<td>{content['rows']['raw']['knn']['mean']:.3f}" in html
    assert "2 seeds, each with its own split" in html and html.count("<tr>") == 1 + len(ROWS)


def test_rows_that_are_level_with_the_best_are_named(compared, content):
    _, result = compared
    for protocol, level in content["level"].items():
        assert any(f"{protocol:6}  {', '.join(level)}" in line for line in result.out.splitlines())
    assert content["decisive"] == ["knn", "linear"] and content["labeled_rows"] == {"knn": 142, "linear": 142}
    everywhere = content["level_everywhere"]
    answer, error, step = result.out.splitlines()[-3:]
    assert f"level with the best everywhere: {everywhere[0]}." in answer if everywhere else "None is level" in answer
    assert content["test_rows"] == 36 and "on 36 test rows is up to 0.083" in error
    assert step == content["next"] and "--seeds 5" in step


def test_each_training_is_named_before_its_warnings_which_are_given_once(compared):
    told = compared[1].err
    assert told.count("142 rows are fewer than a batch of 200") == 1
    names = ["contrastive, seed 0 (1 of 4)", "rows are fewer", "pinda, seed 0 (2 of 4)", "pinda, seed 1 (4 of 4)"]
    assert sorted(names, key=told.index) == names


def test_a_long_comparison_says_how_long_the_rest_takes(tmp_path, monkeypatch):
    monkeypatch.setattr(workflow, "TOLD", 0.0)
    told = good("compare", *GIVEN, "--baselines", "raw", "--out", tmp_path / "out").err
    lines = [line for line in told.splitlines() if ", seed " in line]
    assert ["min left" in line for line in lines] == [False, True, True, True]
    assert "pinda, seed 1 (4 of 4; about 1 min left)" in lines[3]
    assert workflow.seconds_left({"pinda": 60.0, "contrastive": 20.0}, ["pinda", "diffaug"]) == 100.0


def test_differences_are_paired_by_split(content):
    assert len(content["differences"]) == len(ROWS) * (len(ROWS) - 1) // 2 * 2
    for found in content["differences"]:
        one, other = (content["rows"][found[row]][found["protocol"]]["values"] for row in ("row", "other"))
        gaps = np.subtract(one, other)
        assert found["mean"] == pytest.approx(gaps.mean())
        if found["error"] is not None:  # its rows add to it
            assert found["error"] > np.sqrt(gaps.var(ddof=1) * (1 / 2 + 36 / 142))


def test_a_given_split_stays(wine_npz, tmp_path):
    options = ("--methods", "contrastive", "--seeds", 2, "--splits", 3, "--protocols", "knn", *SMALL)
    result = good("compare", wine_npz, *options, "--out", tmp_path / "out")
    assert "--splits 3: data with a split of their own keep it" in result.err
    content = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    assert content["split"] == {"kind": "given", "splits": 1} and [cell["split"] for cell in content["cells"]] == [0, 0]
    raw = content["rows"]["raw"]["knn"]
    assert raw["values"][0] == raw["values"][1] and raw["deviation"] is None
    gaps = np.subtract(content["rows"]["contrastive"]["knn"]["values"], raw["values"])
    found = next(each for each in content["differences"] if {each["row"], each["other"]} == {"raw", "contrastive"})
    values = []
    for i in (0, 1):  # the test rows are the same
        with np.load(tmp_path / "out" / f"contrastive-{i}" / "test_rows.npz") as saved:
            values.append(saved["representation/knn"][0])
    with np.load(tmp_path / "out" / "contrastive-0" / "test_rows.npz") as saved:
        of_row = np.mean(values, axis=0) - saved["raw/knn"][0]
    n = len(of_row) + 2
    of_rows = ((of_row**2).sum() + np.abs(of_row).max() ** 2) / n - (of_row.sum() / n) ** 2
    assert found["error"] == pytest.approx(np.sqrt(gaps.var(ddof=1) / 2 + of_rows / n), rel=1e-4)
    assert abs(found["mean"]) == pytest.approx(abs(np.mean(gaps)))


def test_more_splits_than_seeds_are_more_trainings(compared, content, tmp_path):
    options = ("--methods", "contrastive", "--seeds", 1, "--splits", 2, "--protocols", "knn", *SMALL)
    good("compare", "wine", *options, "--out", tmp_path / "out")
    found = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    assert [(cell["seed"], cell["split"]) for cell in found["cells"]] == [(0, 0), (1, 1)]
    assert found["rows"]["contrastive"]["knn"] == content["rows"]["contrastive"]["knn"]


def test_the_same_command_resumes_without_training(compared, monkeypatch):
    out, result = compared
    before = files(out)
    monkeypatch.setattr(workflow, "compare", None)
    assert good("compare", *GIVEN, "--out", out).out == result.out
    written = {"leaderboard.json", "leaderboard.csv", "report.html"}
    after = files(out)
    assert {name for name, each in after.items() if each != before.get(name)} == written
    assert all(after[name][0] == before[name][0] for name in written)
    other = [*SMALL, "--set", "n_neighbors=2"]
    given = ("wine", "--methods", "contrastive", "--seeds", 1, *other, "--out", out)
    assert call("compare", *given).refused("another configuration (n_neighbors is 5 there, 2 now)")


def test_a_further_baseline_is_added_to_what_is_there(compared, content, tmp_path, monkeypatch):
    monkeypatch.setattr(baselines, "umap", lambda train, test: (train[:, :2], test[:, :2]))
    asked, real = [], workflow.compare
    monkeypatch.setattr(workflow, "compare", lambda *a, **k: asked.append(k["rows"]) or real(*a, **k))
    good("compare", *GIVEN, "--baselines", "raw,pca,umap", "--out", compared[0])
    found = json.loads((compared[0] / "leaderboard.json").read_text())
    assert asked == [["umap"], ["umap"]] and list(found["rows"]) == ["raw", "pca", "umap", "contrastive", "pinda"]
    assert any({"umap", "raw"} == {test["row"], test["other"]} and test["error"] for test in found["differences"])
    assert all(found["rows"][row] == content["rows"][row] for row in ("raw", "pca", "contrastive", "pinda"))
    good("compare", *GIVEN, "--out", compared[0])


def test_a_method_that_fails_is_a_row_that_says_why(tmp_path, monkeypatch):
    def fails(self, *args, **options):
        raise TrainingError("the loss is not finite")

    monkeypatch.setattr(PiNDA, "fit", fails)
    result = good("compare", *GIVEN, "--out", tmp_path / "out")
    found = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    assert list(found["rows"]) == [*BASELINES, "contrastive untrained", "contrastive"]
    assert found["failed"] == {"pinda": "the loss is not finite"}
    assert (
        found["leaderboard"][-1]["note"] == "failed: the loss is not finite"
        and found["leaderboard"][-1]["rank"] is None
    )
    assert "pinda failed: the loss is not finite" in result.out
    assert "failed: the loss is not finite" in (tmp_path / "out" / "report.html").read_text()
    assert [cell["status"] for cell in found["cells"]] == ["finished", "failed"] * 2
    assert not (tmp_path / "out" / "pinda-0").exists()
    monkeypatch.undo()  # the cause is removed: the same command trains what failed, and nothing else
    monkeypatch.setattr(Contrastive, "fit", fails)
    good("compare", *GIVEN, "--out", tmp_path / "out")
    assert list(json.loads((tmp_path / "out" / "leaderboard.json").read_text())["rows"]) == ROWS


def test_a_file_that_a_method_misses_is_no_fault_of_the_comparison(tmp_path, monkeypatch):
    def fails(self, *args, **options):
        raise FileNotFoundError(2, "No such file or directory", "teacher.safetensors")

    monkeypatch.setattr(PiNDA, "fit", fails)
    good("compare", *GIVEN, "--out", tmp_path / "out")
    found = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    assert "teacher.safetensors" in found["failed"]["pinda"] and "contrastive" in found["rows"]

    def full(self, *args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PiNDA, "fit", full)
    stopped = call("compare", *GIVEN, "--out", tmp_path / "full")
    assert stopped.code == 2 and "error: no space left to write" in stopped.err


def test_a_method_that_fails_in_a_repeat_has_the_scores_of_the_others(tmp_path, monkeypatch):
    real = PiNDA.fit

    def fails(self, *args, **options):
        if self.random_state == 1:
            raise TrainingError("the loss is not finite")
        return real(self, *args, **options)

    monkeypatch.setattr(PiNDA, "fit", fails)
    result = good("compare", *GIVEN, "--out", tmp_path / "out")
    found = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    assert [value is None for value in found["rows"]["pinda"]["knn"]["values"]] == [False, True]
    for text in (result.out, (tmp_path / "out" / "report.html").read_text()):
        assert "pinda failed in a repeat: the loss is not finite" in text


def test_methods_that_all_fail_are_an_error(tmp_path, monkeypatch):
    def fails(self, *args, **options):
        raise ValueError("of a plug-in")

    for method in (Contrastive, PiNDA):
        monkeypatch.setattr(method, "fit", fails)
    result = call("compare", "wine", "--methods", "contrastive,pinda", *SMALL, "--out", tmp_path / "out")
    told = "no method works with these data: contrastive, pinda: ValueError: of a plug-in"
    assert result.code == 2 and result.err.splitlines()[-1] == f"error: {told}"
    assert "`viewsmith fit DATA --method pinda --seed 0 --debug` shows where" in result.err
    assert not (tmp_path / "out").exists()


def test_a_baseline_that_fails_is_a_row_that_says_why(tmp_path, monkeypatch):
    def fails(*rows):
        raise baselines.MissingExtra("umap-learn", "viz", "the UMAP baseline")

    monkeypatch.setattr(baselines, "umap", fails)
    options = ("--methods", "contrastive", "--seeds", 1, "--protocols", "knn", "--baselines", "raw,umap", *SMALL)
    result = good("compare", "wine", *options, "--out", tmp_path / "out")
    found = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    assert list(found["rows"]) == ["raw", "contrastive"]
    assert "umap failed: the UMAP baseline needs the package 'umap-learn'" in result.out
    assert "one seed; * best of the column; paired differences are in report.html" in " ".join(result.out.split())


def test_predictors_are_rows_with_scores_of_the_linear_probe_alone(tmp_path, monkeypatch):
    def offline(**options):
        raise FileNotFoundError("cannot reach the server of the weights")  # as huggingface_hub does

    monkeypatch.setitem(sys.modules, "tabicl", types.SimpleNamespace(TabICLClassifier=offline))
    options = ("--methods", "contrastive", "--seeds", 2, "--protocols", "linear,linear_10pct,knn", *SMALL)
    given = ("--baselines", "raw,gradient-boosting,tabicl", "--out", tmp_path / "out")
    result = good("compare", "wine", *options, *given)
    found = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    boosted = found["rows"]["gradient-boosting"]
    assert boosted["linear"]["mean"] > 0.8 and boosted["linear_10pct"]["mean"] > 0.4 and boosted["knn"]["mean"] is None
    line = next(each for each in found["leaderboard"] if each["row"] == "gradient-boosting")
    assert line["mean"] is None and line["repeats"] == 2 and "gradient-boosting" not in found["level"]["knn"]
    assert "tabicl failed: the weights of TabICL are not on this machine and cannot be downloaded: run" in result.out
    assert result.out.count("models--jingang--TabICL") == 1 and "Traceback" not in result.err
    page = (tmp_path / "out" / "report.html").read_text()
    assert f"gradient-boosting {boosted['linear_10pct']['mean']:.3f}, {boosted['linear']['mean']:.3f}" in page  # curves
    assert "gradient-boosting" not in json.loads((tmp_path / "out" / "contrastive-0" / "maps.json").read_text())


def test_a_budget_ends_trainings_and_umap_is_a_baseline(tmp_path, monkeypatch):
    monkeypatch.setattr(baselines, "umap", lambda train, test: (train[:, :2], test[:, :2]))
    given = ("wine", "--methods", "contrastive", "--seeds", 1, "--budget", 0.001, "--baselines", "umap")
    sets = ("--set", "hidden=8", "--set", "epochs=9999", "--protocols", "knn", "--json", "--out", tmp_path / "out")
    content = json.loads(good("compare", *given, *sets).out)
    assert list(content["rows"]) == ["umap", "contrastive"] and content["cells"][0]["status"] == "time limit"
    assert json.loads(good("compare", *given, *sets).out)["cells"] == content["cells"]


def test_minutes_of_each_training_hold_without_a_budget(tmp_path):
    sets = ("--set", "hidden=8", "--set", "epochs=9999", "--set", "minutes=0.001", "--protocols", "knn", "--json")
    content = good("compare", "wine", "--methods", "contrastive", "--seeds", 1, *sets, "--out", tmp_path / "out").out
    assert json.loads(content)["cells"][0]["status"] == "time limit"


def test_what_a_budget_leaves_out_is_said_and_trained_later(tmp_path):
    given = (*GIVEN, "--out", tmp_path / "out")
    result = good("compare", *given, "--budget", 0.0001)
    assert "Left out, because the time of --budget was over: pinda, seed 0, 1; contrastive, seed 1." in result.out
    found = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    assert [cell["status"] for cell in found["cells"]][1:] == ["left out"] * 3 and "pinda" not in found["rows"]
    assert "the same command trains what was left out" in found["next"]
    assert "Left out" in (tmp_path / "out" / "report.html").read_text()
    good("compare", *given)
    found = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    assert not found["left_out"] and list(found["rows"]) == ROWS


def test_scoring_that_is_interrupted_loses_nothing(content, tmp_path, monkeypatch):
    real = workflow.compare

    def interrupted(model, *args, **options):
        if model.random_state == 1:
            raise KeyboardInterrupt
        return real(model, *args, **options)

    monkeypatch.setattr(workflow, "compare", interrupted)
    result = call("compare", *GIVEN, "--out", tmp_path / "out")
    assert result.code == 130 and "interrupted: the same command resumes" in result.err
    found = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    assert found["rows"]["pinda"]["knn"]["values"][0] == content["rows"]["pinda"]["knn"]["values"][0]
    monkeypatch.undo()
    good("compare", *GIVEN, "--out", tmp_path / "out")
    assert json.loads((tmp_path / "out" / "leaderboard.json").read_text())["rows"] == content["rows"]


def test_methods_auto_are_a_few_for_the_data(tmp_path):
    suggested = workflow.suggested_methods
    assert suggested("vectors", 1000, 3, None) == suggested("dna", 1000, 3, 6) == ["contrastive", "pinda"]
    three = ["linear-contrast", "contrastive", "crl-tac"]
    assert suggested("images", 1000, 3, None) == suggested("series", 1000, 3, None) == three
    assert suggested("vectors", 1000, 3, 5.9) == ["contrastive"]
    assert suggested("images", 50_001, 3, None) == ["linear-contrast"]
    result = good("compare", "wine", "--seeds", 1, "--budget", 1, "--protocols", "knn", *SMALL, "--out", tmp_path)
    assert "compared for vectors: contrastive; --methods all" in result.err
    assert [cell["method"] for cell in json.loads((tmp_path / "leaderboard.json").read_text())["cells"]] == [
        "contrastive"
    ]


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (("--methods", ","), ("no method is given",)),
        (("--seeds", 0), ("--seeds is '0'",)),
        (("--splits", 0), ("--splits is '0'",)),
    ],
)
def test_bad_options_are_refused_before_any_training(given, parts, tmp_path):
    assert call("compare", "wine", "--out", tmp_path / "out", *given).refused(*parts)
    assert not (tmp_path / "out").exists()


def test_without_labels_rows_are_measured_and_the_measured_rule_is_said(tmp_path):
    np.save(tmp_path / "x.npy", load_wine().data)
    out, options = tmp_path / "out", ("--methods", "contrastive,pinda", "--seeds", 2, *SMALL)
    result = good(
        "compare", tmp_path / "x.npy", *options, "--baselines", "majority,raw,untrained,gradient-boosting", "--out", out
    )
    found = json.loads((out / "leaderboard.json").read_text())
    assert found["protocols"] == list(MEASURES) and not found["level"] and not found["differences"]
    assert list(found["rows"]) == ["raw", "untrained", "contrastive", "pinda"]
    assert found["split"] == {"kind": "random", "splits": 2} and found["sizes"] == {
        "train": 142,
        "test": 36,
        "classes": 0,
    }
    for name, row in found["rows"].items():
        known = {measure for measure in MEASURES if row[measure]["mean"] is not None}
        views = {"lidar", "alignment", "told_apart"}
        assert known == (set(MEASURES) if name in ("contrastive", "pinda") else set(MEASURES) - views)
    assert "gradient-boosting failed: it predicts labels, and the data have none" in result.out
    said = " ".join(result.out.split())
    assert found["next"] in said and f"on {STUDY['sets']} sets no measure chose better than always" in said
    assert f"`viewsmith embed {out}/contrastive-0 DATA --out FILE`" in said and "--seeds" not in found["next"]
    page = (out / "report.html").read_text()
    assert page.count("<img class=") == 4 and "There are no labels" in page and 'id="differences"' not in page
    before = files(out)
    assert good("compare", tmp_path / "x.npy", *options, "--baselines", "raw,untrained", "--out", out).out != result.out
    assert files(out)["contrastive-0/evaluation.json"] == before["contrastive-0/evaluation.json"]


@pytest.mark.parametrize(
    ("labels", "parts"),
    [
        (["a"] * 40, ("all 32 labeled train rows have the label a", "at least two classes")),
        ([0.5] * 40, ("all 32 labeled train rows have the label 0.5", "numbers that differ")),
    ],
)
def test_labels_that_say_nothing_are_refused_before_any_training(tmp_path, labels, parts):
    table = pd.DataFrame({"x": np.arange(40) ** 0.5, "z": np.arange(40) % 7 + 0.25, "y": labels})
    table.to_csv(tmp_path / "t.csv", index=False)
    result = call("compare", tmp_path / "t.csv", "--label", "y", *SMALL, "--out", tmp_path / "out")
    assert result.refused(*parts) and not (tmp_path / "out").exists()


def test_classes_of_one_row_and_missing_labels_are_compared(tmp_path):
    x, y = load_wine(return_X_y=True)
    labels = [None if i % 9 == 0 else "rare" if i == 1 else f"kind {each}" for i, each in enumerate(y)]
    pd.DataFrame(x).assign(y=labels).to_csv(tmp_path / "t.csv", index=False)
    options = ("--label", "y", "--methods", "contrastive", "--seeds", 2, "--protocols", "knn,linear_1pct", *SMALL)
    good("compare", tmp_path / "t.csv", *options, "--out", tmp_path / "out")
    found = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    assert found["sizes"]["classes"] == 3 and found["sizes"]["train"] + found["sizes"]["test"] == 158
    assert all(np.isfinite(row["knn"]["values"]).all() for row in found["rows"].values())


def test_the_svm_and_k_means_of_rows_of_length_one_are_scored_if_they_are_asked_for(tmp_path):
    for name, given in (("default", ()), ("all", ("--protocols", "all"))):
        few = ("--methods", "contrastive", "--baselines", "raw", "--seeds", 1, *SMALL)
        good("compare", "wine", *few, *given, "--out", tmp_path / name)
    default, everything = (
        json.loads((tmp_path / name / "leaderboard.json").read_text())["protocols"] for name in ("default", "all")
    )
    assert set(everything) - set(default) == {"svm", "kmeans_accuracy_l2", "nmi_l2", "ari_l2"}
    assert {"linear", "knn", "kmeans_accuracy", "linear_1pct", "linear_10pct"} <= set(default)


def test_protocols_without_labels_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((9, 2)))
    given = (tmp_path / "x.npy", "--protocols", "knn", "--out", tmp_path / "out")
    assert call("compare", *given).refused("the data have no labels, which --protocols need")
    assert not (tmp_path / "out").exists()


def test_several_label_columns_are_scored_on_the_same_trainings(tmp_path):
    x, y = load_wine(return_X_y=True)
    table = pd.DataFrame(x[:, :6].round(3), columns=list("abcdef")).assign(
        kind=y, sweet=x[:, 7], odd=np.arange(len(y)) % 2
    )
    table.to_csv(tmp_path / "wine.csv", index=False)
    given = ("compare", tmp_path / "wine.csv", "--methods", "contrastive", "--seeds", 2, *SMALL)
    names = ["kind", "sweet", "odd"]
    labels = [part for name in names for part in ("--label", name)]
    result = good(*given, *labels, "--out", tmp_path / "out")
    found = json.loads((tmp_path / "out" / "leaderboard.json").read_text())
    assert list(found["labels_scored"]) == names[1:]
    assert "r2" in found["labels_scored"]["sweet"]["protocols"]
    assert [line for line in result.out.splitlines() if line in names] == names
    assert sorted(path.name for path in (tmp_path / "out").glob("*/summary.json")) == ["summary.json"] * 2
    assert load(tmp_path / "out" / "contrastive-0").n_features_in_ == 6
    for name, scored in found["labels_scored"].items():
        assert scored == json.loads((tmp_path / "out" / f"label-{name}" / "leaderboard.json").read_text())
        assert (tmp_path / "out" / f"label-{name}" / "report.html").exists()
        model = load(tmp_path / "out" / "contrastive-1")
        split = json.loads((tmp_path / "out" / "contrastive-1" / "summary.json").read_text())["split"]
        rows = [table.iloc[split[f"{part}_index"]] for part in ("train", "test")]
        h = [model.transform(part[list("abcdef")]) for part in rows]
        known = evaluate_embedding(h[0], rows[0][name].to_numpy(), h[1], rows[1][name].to_numpy())
        for protocol in scored["protocols"]:
            values = scored["rows"]["contrastive"][protocol]["values"]
            assert values[1] == pytest.approx(known[protocol], abs=1e-5)
    missing = call(*given, "--label", "kind", "--label", "sour", "--out", tmp_path / "missing")
    assert missing.refused("no column 'sour', given as label")
    bad = call(*given, *labels, "--set", "supervision=labels", "--out", tmp_path / "supervised")
    assert bad.code == 2 and "one column: give one label column" in bad.err and not (tmp_path / "supervised").exists()


@pytest.mark.parametrize("name", ["report.html", "leaderboard.csv", "leaderboard.json"])
def test_files_of_the_user_are_not_replaced(tmp_path, name):
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text('{"mine": 1}')
    before = files(tmp_path)
    assert call("compare", *GIVEN, "--out", out).refused(f"{name} is not of a comparison", "choose a new folder")
    assert files(tmp_path) == before


def test_a_comparison_is_not_written_into_its_data(tmp_path):
    assert call("compare", tmp_path, "--out", tmp_path).refused("the data themselves")


def test_two_comparisons_do_not_write_to_one_folder(tmp_path):
    with locked_folder(tmp_path / "out"):
        assert call("compare", *GIVEN, "--out", tmp_path / "out").refused("is in use by another process")
    assert not (tmp_path / "out" / "leaderboard.json").exists()


def test_each_label_has_a_folder_of_its_own():
    names = [
        "kind",
        "cell type",
        "größe",
        "../../x",
        "..%2Fx",
        "../x",
        "a\\b",
        "a\x1bb",
        "a" * 300,
        "a" * 301,
        "é" * 90,
    ]
    made = [workflow.label_folder(name) for name in names]
    assert made[:3] == ["label-kind", "label-cell type", "label-größe"]
    assert len(set(made)) == len(made)
    assert all(len(name.encode()) <= 130 and name.isprintable() and not set(name) & set("/\\") for name in made)
