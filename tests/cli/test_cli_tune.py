"""The command tune: a search of options on validation rows."""

import json
import os
import shlex
import signal
import tomllib

import numpy as np
import pandas as pd
import pytest
from cli_tools import call, files, good

from people import people
from viewsmith import Contrastive, PiNDA
from viewsmith.core.errors import InputError, TrainingError
from viewsmith.data import load_dataset
from viewsmith.training import engine
from viewsmith.training.run import RunFolder
from viewsmith.workflows import tune as workflow

pytest.importorskip("optuna")

SMALL = [part for option in ("epochs=2", "hidden=8", "n_components=4", "batch_size=16") for part in ("--set", option)]
RATE = ("--search", "learning_rate=1e-4..1e-1")


def blobs(rng, n):
    """Rows of three classes that overlap."""
    y = np.arange(n) % 3
    return (rng.normal(size=(n, 5)) + y[:, None]).astype(np.float32), y


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """120 rows of three classes in an .npz file, 90 of them for training."""
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("tune") / "d.npz"
    (x, y), (x_test, y_test) = blobs(rng, 90), blobs(rng, 30)
    np.savez(path, X_train=x, y_train=y, X_test=x_test, y_test=y_test)
    return path


@pytest.fixture(scope="module")
def searched(file, tmp_path_factory):
    """A search of three options in six trainings, and what it prints."""
    out = tmp_path_factory.mktemp("searched") / "out"
    ranges = (*RATE, "--search", "n_neighbors=2..9", "--search", "norm=batch,none")
    given = ("tune", file, *ranges, "--trials", 6, *SMALL, "--out", out)
    return given, good(*given), json.loads((out / "tune.json").read_text())


def without_time(result):
    return result | {"trials": [{k: v for k, v in trial.items() if k != "seconds"} for trial in result["trials"]]}


def test_the_first_trial_is_the_default_and_others_are_in_their_ranges(searched):
    _, result, content = searched
    assert [trial["number"] for trial in content["trials"]] == list(range(6)) and content["status"] == "finished"
    assert content["trials"][0]["values"] == {}
    for trial in content["trials"][1:]:
        rate, count, norm = (trial["values"][name] for name in ("learning_rate", "n_neighbors", "norm"))
        assert 1e-4 <= rate <= 1e-1 and isinstance(count, int) and 2 <= count <= 9 and norm in ("batch", "none")
    scores = [trial["score"] for trial in content["trials"]]
    assert scores[content["best"]] == max(scores) and content["best"] == scores.index(max(scores))
    assert content["rows"] == {"train": 72, "fitted": 72, "validation": 18, "classes": 3}
    lines = result.out.splitlines()
    assert lines[0].split() == ["trial", "knn", "learning_rate", "n_neighbors", "norm", "seconds"]
    assert lines[1].split()[2:5] == ["default"] * 3 and len([line for line in lines[1:7] if "*" in line]) == 1
    said = " ".join(result.out.split())
    assert "learning_rate 0.0001 to 0.1 (logarithmic); n_neighbors 2 to 9 (whole numbers); norm batch or none" in said
    assert max(map(len, lines[:-2])) <= 120
    assert "Scored on 18 of 90 labeled train rows" in result.out and "test rows were not used" in result.out
    html = workflow.Search(content)._repr_html_()
    assert html.count("<tr>") == 7 and f"{max(scores):.3f}*</td>" in html and "test rows were not used" in html


def test_the_score_of_a_trial_is_that_of_a_training_on_the_other_rows(searched, file):
    from viewsmith.data.dataset import validation_split
    from viewsmith.evaluation import evaluate_embedding

    rows = validation_split(load_dataset(file), 0)
    given = {"epochs": 2, "hidden": (8,), "n_components": 4, "batch_size": 16, "random_state": 0}
    for trial in searched[2]["trials"][:2]:
        model = Contrastive(**given, **trial["values"]).fit(rows.x_train)
        h, h_test = model.transform(rows.x_train), model.transform(rows.x_test)
        assert evaluate_embedding(h, rows.y_train, h_test, rows.y_test)["knn"] == trial["score"]


def test_the_printed_commands_train_and_evaluate_the_best_settings(searched):
    given, result, content = searched
    commands = [shlex.split(line)[1:] for line in result.out.splitlines() if line.startswith("  viewsmith ")]
    assert [command[0] for command in commands] == ["fit", "evaluate"]
    good(*commands[0])
    good(*commands[1], "--protocols", "knn")
    fitted = RunFolder(given[-1] / "best").read_config()["parameters"]
    best = content["trials"][content["best"]]["values"]
    assert fitted["hidden"] == [8] and fitted["random_state"] == 0
    assert {name: fitted[name] for name in best} == best
    written = tomllib.loads((given[-1] / "best.toml").read_text())
    differing = {name: value for name, value in best.items() if (name, value) != ("norm", "batch")}
    small = {"batch_size": 16, "epochs": 2, "hidden": [8], "n_components": 4}
    assert written == {"method": "contrastive"} | small | differing


def test_the_same_command_trains_nothing_and_more_trials_continue(searched, monkeypatch, tmp_path):
    given, result, content = searched
    before = files(given[-1])
    assert good(*given, "--json").out == (given[-1] / "tune.json").read_text()
    assert good(*given).out == result.out
    assert {name: file for name, (file, _) in files(given[-1]).items()} == {n: file for n, (file, _) in before.items()}
    few = [*given[: given.index("--trials")], "--trials", 3, *SMALL, "--out", tmp_path / "out"]
    good(*few)
    few[few.index("--trials") + 1] = 6
    good(*few)
    assert without_time(json.loads((tmp_path / "out" / "tune.json").read_text())) == without_time(content)


@pytest.mark.parametrize("when", ["training", "writing"])
def test_an_interrupted_search_resumes_to_the_same_result(searched, when, monkeypatch, tmp_path):
    given, _, content = searched
    given = (*given[:-1], tmp_path / "out")
    count = iter(range(1000))

    def interrupted(function, number):
        def interrupting(*arguments, **options):
            if next(count) == number:
                raise KeyboardInterrupt
            return function(*arguments, **options)

        return interrupting

    with monkeypatch.context() as patch:
        if when == "writing":
            patch.setattr(workflow, "_remove", interrupted(workflow._remove, 3))  # once at the start
        else:
            step = engine.Trainer._order

            def stopping(trainer):
                if next(count) == 5:  # the second epoch of the third training
                    os.kill(os.getpid(), signal.SIGINT)
                return step(trainer)

            patch.setattr(engine.Trainer, "_order", stopping)
        stopped = call(*given)
    assert stopped.code == 130 and ("the same command resumes" in stopped.err) == (when == "training")
    assert len(json.loads((tmp_path / "out" / "tune.json").read_text())["trials"]) == (3 if when == "writing" else 2)
    good(*given)
    assert without_time(json.loads((tmp_path / "out" / "tune.json").read_text())) == without_time(content)
    assert sorted(os.listdir(tmp_path / "out")) == ["best.toml", "tune.json"]


def test_test_rows_make_no_difference(searched, file, tmp_path):
    with np.load(file) as data:
        rows = dict(data)
    rows["X_test"], rows["y_test"] = rows["X_test"][:7] * -50, rows["y_test"][:7] * 0 + 2
    np.savez(tmp_path / "other.npz", **rows)
    given, _, content = searched
    good("tune", tmp_path / "other.npz", *given[2:-1], tmp_path / "out")
    other = without_time(json.loads((tmp_path / "out" / "tune.json").read_text()))
    assert other | {"data": ""} == without_time(content) | {"data": ""}


def test_settings_that_fail_are_recorded_and_the_search_goes_on(file, tmp_path, monkeypatch):
    fit = Contrastive.fit

    def failing(self, *arguments, **options):
        if self.learning_rate != "auto" and self.learning_rate > 0.01:
            raise TrainingError("the loss became nan")
        if self.learning_rate != "auto" and self.learning_rate < 1e-3:
            raise InputError("these do not fit together")
        return fit(self, *arguments, **options)

    monkeypatch.setattr(Contrastive, "fit", failing)
    given = ("tune", file, *RATE, "--trials", 6, *SMALL, "--out", tmp_path / "out")
    result = good(*given)
    trials = json.loads((tmp_path / "out" / "tune.json").read_text())["trials"]
    failed = {trial["number"]: trial["failed"] for trial in trials if trial["score"] is None}
    assert set(failed.values()) == {"the loss became nan", "these do not fit together"} and len(failed) < 5
    for number, reason in failed.items():
        assert f"trial {number} failed: {reason}" in result.out
        assert result.out.splitlines()[1 + number].split()[1] == "failed"
    assert sorted(os.listdir(tmp_path / "out")) == ["best.toml", "tune.json"]
    assert good(*given).out == result.out


def test_a_default_that_diverges_is_a_failed_trial(file, tmp_path, monkeypatch):
    fit = Contrastive.fit

    def failing(self, *arguments, **options):
        if self.learning_rate == "auto":
            raise TrainingError("the loss became nan")
        return fit(self, *arguments, **options)

    monkeypatch.setattr(Contrastive, "fit", failing)
    out = good("tune", file, *RATE, "--trials", 2, *SMALL, "--out", tmp_path / "out").out
    assert "Best: trial 1" in out and "the default failed" in out
    monkeypatch.setattr(Contrastive, "fit", lambda self, *_, **__: (_ for _ in ()).throw(TrainingError("nan")))
    out = good("tune", file, *RATE, "--trials", 2, *SMALL, "--out", tmp_path / "none").out
    assert "Best" not in out and "viewsmith fit" not in out
    assert os.listdir(tmp_path / "none") == ["tune.json"]


def test_a_mixed_table_and_another_metric(tmp_path):
    people().to_csv(tmp_path / "people.csv", index=False)
    given = ("tune", tmp_path / "people.csv", "--label", "kind", "--metric", "linear", "--set", "epochs=1")
    result = good(*given, "--trials", 2, "--out", tmp_path / "out", "--json")
    assert all(trial["score"] is not None for trial in json.loads(result.out)["trials"])


def test_choices_are_not_trained_twice(file, tmp_path):
    result = good("tune", file, "--search", "norm=batch,none", *SMALL, "--out", tmp_path / "out", "--json")
    content = json.loads(result.out)
    assert content["status"] == "exhausted" and len(content["trials"]) == 3
    assert sorted(trial["values"]["norm"] for trial in content["trials"][1:]) == ["batch", "none"]
    result = good("tune", file, "--search", "norm=batch,none", *SMALL, "--out", tmp_path / "out")
    assert "No new setting was found" in result.out


def test_an_option_of_a_part_is_searched_with_the_part(file, tmp_path):
    knots = ("--search", "n_knots=3..20")  # an option of the framework lejepa
    assert call("tune", file, *knots, "--out", tmp_path / "out").refused("'n_knots', but the framework 'lejepa' has")
    ranges = ("--search", "framework=simclr,lejepa", *knots)
    content = json.loads(good("tune", file, *ranges, *SMALL, "--trials", 6, "--out", tmp_path / "out", "--json").out)
    failed = {trial["values"]["framework"]: trial.get("failed", "") for trial in content["trials"][1:]}
    assert "'n_knots'" in failed["simclr"] and failed["lejepa"] == ""


def test_a_budget_ends_the_search_and_more_minutes_resume_it(file, tmp_path):
    given = ("tune", file, *RATE, "--trials", 3, "--out", tmp_path / "out")
    slow = ("--set", "hidden=8", "--set", "n_components=4", "--set", "batch_size=16")
    result = good(*given, *slow, "--set", "epochs=9999", "--budget", 0.005)
    content = json.loads((tmp_path / "out" / "tune.json").read_text())
    assert content["status"] == "time limit" and content["trials"] == [] and content["best"] is None
    assert "more minutes resume" in result.out
    more = ("tune", file, *RATE, "--trials", 3, *SMALL, "--out", tmp_path / "more")
    content = json.loads(good(*more, "--json").out)
    content["trials"][2]["seconds"] = 120.0
    (tmp_path / "more" / "tune.json").write_text(json.dumps(content))
    more = (*more, "--trials", 4)
    assert len(json.loads(good(*more, "--budget", 1, "--json").out)["trials"]) == 3
    assert len(json.loads(good(*more, "--budget", 5, "--json").out)["trials"]) == 4


def test_labels_are_for_scores_unless_the_method_reads_them(tmp_path, monkeypatch):
    seen = []
    fit = Contrastive.fit
    monkeypatch.setattr(Contrastive, "fit", lambda s, X, y=None, **o: seen.append(y) or fit(s, X, y, **o))
    x, y = blobs(np.random.default_rng(0), 60)
    table = pd.DataFrame(x, columns=list("abcde")).assign(kind=np.where(np.arange(60) < 40, y.astype(str), ""))
    table.to_csv(tmp_path / "t.csv", index=False)
    given = ("tune", tmp_path / "t.csv", "--label", "kind", "--trials", 2, *SMALL, *RATE, "--json")
    rows = json.loads(good(*given, "--out", tmp_path / "a").out)["rows"]
    # 40 labels, of which 8 are of test rows; 20 rows have none and are trained on.
    assert rows == {"train": 46, "fitted": 26, "validation": 6, "classes": 3} and seen == [None, None]
    good(*given, "--set", "supervision=labels", "--out", tmp_path / "b")
    assert all(len(each) == 46 and sum(label is not None for label in each) == 26 for each in seen[2:])


def test_whole_groups_are_validation_rows(tmp_path, monkeypatch):
    seen = []
    fit = PiNDA.fit
    monkeypatch.setattr(PiNDA, "fit", lambda s, X, y=None, **o: seen.append(X) or fit(s, X, y, **o))
    x, y = blobs(np.random.default_rng(0), 60)
    x[:, 0] = np.arange(60) // 6 + np.linspace(0.1, 0.9, 60)
    table = pd.DataFrame(x, columns=list("abcde")).assign(kind=y, who=[f"p{i // 6}" for i in range(60)])  # ten persons
    table.to_csv(tmp_path / "t.csv", index=False)
    given = (
        "tune",
        tmp_path / "t.csv",
        "--label",
        "kind",
        "--groups",
        "who",
        "--trials",
        2,
        "--method",
        "pinda",
        *SMALL,
    )
    result = good(*given, *RATE, "--out", tmp_path / "out", "--split-groups")
    assert [len(rows) for rows in seen] == [36, 36]  # 2 of 10 persons are test rows, 2 of the others validation rows
    assert all(len(set(np.asarray(rows)[:, 0].astype(int))) == 6 for rows in seen)
    assert "--label kind --groups who --split-groups" in result.out


def test_what_is_said_of_the_gain():
    rows = {"train": 80, "fitted": 80, "validation": 100, "classes": 2}
    result = {"method": "pinda", "search": {"strength": "0.1..1"}, "metric": "knn", "rows": rows, "status": "finished"}
    result["seed"] = 3

    def said(metric, *scores):
        trials = [{"number": i, "values": {}, "score": score, "seconds": 1.0} for i, score in enumerate(scores)]
        best = int(np.argmax(scores))
        text = workflow.format_search(result | {"metric": metric, "trials": trials, "best": best})
        return text.replace("\n    ", " ").splitlines()[-2:]

    best, optimistic = said("knn", 0.8, 0.9)
    assert best == "Best: trial 1, knn 0.900 (0.800 with the default, +0.100; the standard error of a score is 0.030)."
    assert optimistic.startswith("This gain is optimistic")
    assert said("knn", 0.88, 0.9)[1].startswith("Such a gain can be chance")
    assert said("nmi", 0.88, 0.9)[0].endswith("+0.020).")
    assert said("linear", 0.9, 0.9)[1].startswith("No setting was better than the default: linear 0.900; the standard")


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        (("--seed", 3), "seed is 0 there, 3 now"),
        (("--search", "temperature=0.1..1"), "search is"),
        (("--method", "pinda"), "method is 'contrastive' there, 'pinda' now"),
    ],
)
def test_a_folder_with_another_search_is_refused(searched, changed, part):
    given, _, _ = searched
    before = files(given[-1])
    assert call(*given, *changed).refused("has another search", part, "choose another folder")
    assert files(given[-1]) == before


def test_other_folders_are_refused(searched, file, tmp_path):
    given, _, _ = searched
    with np.load(file) as data:
        np.savez(tmp_path / "other.npz", **{**data, "X_train": data["X_train"] + 1})
    assert call("tune", tmp_path / "other.npz", *given[2:]).refused("has another search (of other rows or labels)")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    assert call(*given[:-1], tmp_path / "taken").refused("is not a search of viewsmith")
    assert call(*given[:-1], tmp_path / "other.npz").refused("is a file")
    (tmp_path / "broken").mkdir()
    content = json.loads((given[-1] / "tune.json").read_text())
    for broken in ("{", '{"method": "contrastive"}', json.dumps(content | {"trials": [{"number": 0}]})):
        (tmp_path / "broken" / "tune.json").write_text(broken)
        assert call(*given[:-1], tmp_path / "broken").refused("tune.json is damaged", "restore it or delete")
    assert (tmp_path / "taken" / "notes.txt").exists() and (tmp_path / "broken" / "tune.json").exists()


def test_images_search_the_method_that_fit_takes_unless_a_training_is_searched(tmp_path, monkeypatch):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 16, 16), dtype=np.uint8)
    np.savez(tmp_path / "x.npz", X=pixels, y=np.arange(40) % 2)
    asked = []

    def found(dataset, out, make, ranges, **more):
        asked.append((make({}).name, set(ranges)))
        raise InputError("that is all")

    monkeypatch.setattr(workflow, "tune", found)
    for further in ((), RATE, ("--method", "contrastive")):
        assert call("tune", tmp_path / "x.npz", "--out", tmp_path / "out", *further).refused("that is all")
    views = {"crop_minimum", "color_strength"}
    assert asked == [
        ("linear-contrast", {"ridge", *views}),
        ("contrastive", {"learning_rate"}),
        ("contrastive", {"learning_rate", *views}),
    ]
