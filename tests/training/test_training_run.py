"""The run folder: files are read as written, and other folders are refused."""

import json
import math
import os
import shutil
import tomllib

import numpy as np
import pytest
import torch

from refusals import refusal
from viewsmith import Contrastive
from viewsmith.core.errors import InUseError
from viewsmith.reports import ReportContent, write_report
from viewsmith.training import RunFolder
from viewsmith.training.callbacks import History
from viewsmith.training.run import json_line
from viewsmith.workflows.runs import removed_on_error

CONFIG = {
    "viewsmith": "1",
    "method": "contrastive",
    "parameters": {
        "temperature": None,
        "hidden": (256, 64),
        "rate": np.float32(0.5),
        "count": np.int64(3),
        "impute": "none",
        "text": 'a "quoted" \\ line\nand é',
        "flag": True,
        "learning_rate": 1e-05,
        "none": (),
    },
    "data": {"source": "a.npz", "fingerprint": "12"},
    "fitted": {"n_features": 4, "scores": {"0.5": 0.25}},
}


@pytest.fixture
def run(tmp_path):
    folder = RunFolder(tmp_path / "a" / "run")
    assert folder.open_for(CONFIG, resume=False) is False
    return folder


def changed(**parameters):
    return CONFIG | {"parameters": CONFIG["parameters"] | parameters}


def test_the_configuration_is_read_as_written(run):
    parameters = run.read_config()["parameters"]
    assert parameters == {
        "temperature": "none",
        "hidden": [256, 64],
        "rate": 0.5,
        "count": 3,
        "impute": "none",
        "text": 'a "quoted" \\ line\nand é',
        "flag": True,
        "learning_rate": 1e-05,
        "none": [],
    }
    assert run.read_config()["fitted"] == {"n_features": 4, "scores": {"0.5": 0.25}}
    # Writing the configuration that was read gives the same text.
    text = run.config.read_text()
    run.write_config(run.read_config())
    assert run.config.read_text() == text and tomllib.loads(text)


@pytest.mark.parametrize("resume", [True, False])
def test_the_same_configuration_resumes_only_with_resume(run, resume):
    if resume:
        assert run.open_for(CONFIG, resume=True) is True
    else:
        message = refusal(run.open_for, CONFIG, resume=False)
        assert str(run.path) in message and "add --resume" in message


def test_facts_values_and_the_source_of_the_data_may_differ(run):
    moved = CONFIG | {"data": {"source": "/elsewhere/a.npz", "fingerprint": "12"}, "fitted": {}, "viewsmith": "2"}
    assert run.open_for(moved, resume=True) is True


@pytest.mark.parametrize(
    ("config", "difference"),
    [
        (changed(temperature=0.5), "temperature is 'none' there, 0.5 now"),
        (changed(hidden=(256,)), "hidden is [256, 64] there, [256] now"),
        (changed(more=1), "more is None there, 1 now"),
        (CONFIG | {"method": "pinda"}, "method 'contrastive' there, 'pinda' now"),
        (CONFIG | {"data": {"source": "a.npz", "fingerprint": "13"}}, "trained on other rows"),
        (changed(a=1, b=2, c=3, d=4, e=5), "c is None there, 3 now and 2 more"),
    ],
)
@pytest.mark.parametrize("resume", [True, False])
def test_another_configuration_is_refused_by_name(run, config, difference, resume):
    message = refusal(run.open_for, config, resume=resume)
    assert "has a run with another configuration" in message and difference in message
    assert run.read_config()["parameters"]["hidden"] == [256, 64]


def test_a_folder_with_other_files_is_refused_and_not_changed(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    assert "is not a run of viewsmith" in refusal(RunFolder(tmp_path).open_for, CONFIG, resume=True)
    file = tmp_path / "notes.txt"
    assert "is not a run of viewsmith" in refusal(RunFolder(file).open_for, CONFIG, resume=False)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"] and file.read_text() == "mine"


def test_an_empty_folder_is_accepted(tmp_path):
    assert RunFolder(tmp_path).open_for(CONFIG, resume=True) is False
    assert RunFolder(tmp_path).exists()


def test_reading_a_folder_without_a_run_is_refused(tmp_path, run):
    assert "it is not a folder" in refusal(RunFolder(tmp_path / "none").read_config)
    assert "has no config.toml" in refusal(RunFolder(tmp_path).read_config)
    assert "has no model yet" in refusal(run.read_weights)
    run.write_model({"x": torch.zeros(1)})
    assert "initial.safetensors" in refusal(run.read_weights)


def test_damaged_files_are_named(run):
    run.config.write_text("method = [")
    assert str(run.config) in refusal(run.read_config)
    run.config.write_bytes(b"\xff\xfe")
    assert str(run.config) in refusal(run.read_config)
    run.summary.write_text("{")
    assert str(run.summary) in refusal(run.read_summary)


def test_metrics_and_summaries_are_read_without_values_that_json_lacks(run):
    assert run.read_metrics() == [] and run.read_summary() == {} and run.read_evaluation() is None
    rows = [{"epoch": 1, "loss": 0.1, "phase": "é"}, {"epoch": 2, "loss": math.nan, "phase": "a"}]
    run.write_metrics(rows)
    assert run.read_metrics() == [rows[0], rows[1] | {"loss": None}]
    assert json.loads(json_line({"a": math.inf})) == {"a": None}
    with run.metrics.open("a") as file:
        file.write('{"epoch": 3, "lo')  # a partly written line
    assert len(run.read_metrics()) == 2
    run.write_summary({"seconds": 1.5, "warnings": []})
    assert run.read_summary() == {"seconds": 1.5, "warnings": []}


def test_a_partly_written_configuration_is_ignored(run):
    run.path.mkdir(parents=True, exist_ok=True)
    for file in run.path.iterdir():
        file.unlink()
    (run.path / ".config-0123456789ab.toml").write_text("viewsm")
    assert run.open_for(CONFIG, resume=True) is False
    assert run.read_config()["method"] == CONFIG["method"]


def test_a_run_is_written_by_one_training_at_a_time(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 3)).astype("float32")
    path = tmp_path / "run"
    model = Contrastive(epochs=1, hidden=(4,), n_components=2, random_state=0)
    with RunFolder(path).locked():
        assert f"{path} is in use by another process" in refusal(model.fit, x, run=path)
        assert os.listdir(path) == [".lock"]  # the other process has not written anything yet
        with pytest.raises(InUseError), removed_on_error(path):
            model.fit(x, run=path)
    model.fit(x, run=path)
    before = (path / "model.safetensors").read_bytes()
    with RunFolder(path).locked(), pytest.raises(InUseError):
        model.save(path)
    assert (path / "model.safetensors").read_bytes() == before and not (path / ".lock").exists()


def test_the_folder_of_another_process_is_not_removed(tmp_path):
    # The folder is absent when the command starts, and another process makes it meanwhile.
    path = tmp_path / "run"
    with pytest.raises(InUseError), removed_on_error(path):
        path.mkdir()
        (path / "config.toml").write_text("of another process")
        raise InUseError("in use")
    assert (path / "config.toml").exists()


@pytest.mark.parametrize("exists", [False, True])
def test_a_file_put_into_a_run_that_fails_stays(tmp_path, exists):
    path = tmp_path / "a" / "run"
    if exists:
        path.mkdir(parents=True)
    with pytest.raises(KeyboardInterrupt), removed_on_error(path):
        RunFolder(path).open_for(CONFIG, resume=False)
        for name in ("metrics.jsonl", ".initial-0a.safetensors", "summary.json", "notes.txt"):
            (path / name).write_text("mine")
        (path / "mine").mkdir()
        (path / "checkpoint").mkdir()
        (path / "checkpoint" / "state-0-a.safetensors").touch()
        raise KeyboardInterrupt
    assert sorted(os.listdir(path)) == ["mine", "notes.txt"]


@pytest.mark.parametrize("exists", [False, True])
def test_a_run_that_fails_leaves_what_was_there(tmp_path, exists):
    path = tmp_path / "a" / "run"
    if exists:
        path.mkdir(parents=True)
    with pytest.raises(KeyboardInterrupt), removed_on_error(path):
        RunFolder(path).open_for(CONFIG, resume=False)
        (path / "tensorboard").mkdir()
        (path / "tensorboard" / "events").touch()
        raise KeyboardInterrupt
    assert path.exists() == exists == (tmp_path / "a").exists() and (not exists or os.listdir(path) == [])


WRITERS = {
    "config": lambda run: run.write_config(CONFIG),
    "model": lambda run: run.write_model({"w": torch.zeros(2)}),
    "initial": lambda run: run.write_initial({"w": torch.zeros(2)}),
    "row_hashes": lambda run: run.write_row_hashes(torch.arange(3)),
    "summary": lambda run: run.write_summary({}),
    "metrics": lambda run: History(run.metrics).start(None),
    "report": lambda run: write_report(run.report, ReportContent("run", "contrastive")),
}


@pytest.mark.parametrize("name", list(WRITERS))
def test_a_file_of_a_run_is_never_written_through_a_link(tmp_path, name):
    run, mine = RunFolder(tmp_path), tmp_path / "mine"
    mine.write_text("mine")
    getattr(run, name).symlink_to(mine)
    WRITERS[name](run)
    assert mine.read_text() == "mine" and not getattr(run, name).is_symlink()


def test_checkpoints_follow_no_link(tmp_path, wine):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "state-1.safetensors").write_text("mine")
    model = Contrastive(epochs=1, random_state=0)
    model.fit(wine[:40], run=tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoint")
    (tmp_path / "run" / "checkpoint").symlink_to(tmp_path / "mine")
    assert "checkpoint is a symbolic link" in refusal(model.fit, wine[:40], run=tmp_path / "run", resume=True)
    assert os.listdir(tmp_path / "mine") == ["state-1.safetensors"]
