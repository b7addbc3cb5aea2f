"""`viewsmith fit`: the files of a run, sources of options, and resuming a run."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_tools import call, files, good, metrics

import viewsmith
from viewsmith.core.errors import printable
from viewsmith.estimator.options import check_options
from viewsmith.methods.loading import estimators
from viewsmith.training.run import RunFolder

EPOCHS = ("--epochs", 2)
FILES = {"config.toml", "initial.safetensors", "metrics.jsonl", "model.safetensors", "report.html"}
FILES |= {"row_hashes.safetensors", "summary.json"}


def config(run):
    return RunFolder(run).read_config()


def parameters(run):
    return config(run)["parameters"]


def model_bytes(run):
    return (run / "model.safetensors").read_bytes()


def test_features_of_linear_contrast_and_their_options_by_name(tmp_path):
    method = ("--method", "linear-contrast")
    good("fit", "wine", *method, "--set", "width=30", "--set", "ridge=0.1", "--out", tmp_path / "one")
    assert parameters(tmp_path / "one")["features_options"] == {"width": 30}
    assert config(tmp_path / "one")["fitted"]["features"] == "random-relu"
    good("fit", "wine", *method, "--set", f"features={tmp_path / 'one'}", "--out", tmp_path / "two")
    assert config(tmp_path / "two")["fitted"]["features"] == "run:linear-contrast"
    shutil.rmtree(tmp_path / "one")
    assert good("embed", tmp_path / "two", "wine", "--out", tmp_path / "h.npy")
    wrong = call("fit", "wine", *method, "--set", "features=nowhere", "--out", tmp_path / "three")
    assert wrong.refused("features is 'nowhere', expected auto, 'random-relu', the folder of a run")
    without = call("fit", "wine", "--set", "coordinates=9", "--out", tmp_path / "three")
    assert without.refused("but the features 'random-relu' has: choose --method linear-contrast")


def test_the_way_of_a_training_through_the_files(tmp_path):
    """Files of the project in which a function runs between the command and the trained model: not more than these."""
    root, passed = f"{Path(viewsmith.__file__).parent}/", set()

    def note(frame, event, argument):
        passed.add(frame.f_code.co_filename)

    good("fit", "wine", *EPOCHS, "--out", tmp_path / "first")  # imports run functions, too
    sys.setprofile(note)
    try:
        good("fit", "wine", *EPOCHS, "--out", tmp_path / "run")
    finally:
        sys.setprofile(None)
    assert len({file for file in passed if file.startswith(root)}) <= 54


# ---- files of a run -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [name for name in estimators() if name != "linear-contrast"])
def test_the_run_folder(tmp_path, method):
    run = tmp_path / "deep" / "run"
    result = good("fit", "wine", "--method", method, "--out", run, *EPOCHS)
    # Two epochs are too few for a good generator or channel.
    untaught = {"diffaug": "generated views drift from their samples", "crl-tac": "the channel has not left"}
    message = rf"warning: {untaught[method]}.*\n" if method in untaught else ""
    message += rf"next: open {run}/report.html, `viewsmith evaluate {run} wine`, `viewsmith embed {run} wine .*`\n"
    assert result.out == f"{run}\n" and re.fullmatch(message, result.err)
    assert {path.name for path in run.iterdir()} == FILES | {"checkpoint"}
    assert {path.suffix for path in (run / "checkpoint").iterdir()} == {".safetensors", ".json"}

    saved = config(run)
    assert saved["method"] == method and saved["viewsmith"] == viewsmith.__version__
    cls = estimators()[method]
    options = vars(check_options(cls, saved["parameters"]))
    changing = {"verbose", "minutes", "device", "checkpoint_every", "callbacks"}  # they do not change the result
    assert set(saved["parameters"]) == set(options) - changing
    assert options == vars(check_options(cls, {"epochs": 2, "random_state": 0}))
    assert saved["data"]["source"] == "wine" and saved["data"]["modality"] == "vectors"

    rows = metrics(run)
    assert [row["epoch"] for row in rows] == ([1, 2, 3] if method in ("diffaug", "genview") else [1, 2])
    assert rows[-1].keys() >= {"loss", "feature_std", "effective_rank", "alignment", "uniformity"}
    summary = json.loads((run / "summary.json").read_text())
    assert summary["status"] == "finished" and summary["seed"] == 0 and summary["rows"] == 142
    assert summary["versions"].keys() >= {"viewsmith", "torch", "numpy", "python"}
    assert summary["hardware"]["threads"] == 1 and summary["seconds"]["training"] > 0
    split = summary["split"]
    assert split["kind"] == "stratified" and (split["train"], split["test"]) == (142, 36)
    assert sorted(split["train_index"] + split["test_index"]) == list(range(178))
    assert "wine" in (run / "report.html").read_text()


def test_weights_have_one_metadata_key_at_most_and_nothing_is_a_pickle(runs):
    for path in (runs / "table").rglob("*"):
        if path.suffix == ".safetensors":
            content = path.read_bytes()
            header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
            assert len(header.get("__metadata__", {})) <= 1
        elif path.is_file():
            path.read_text(encoding="utf-8")  # everything else is text
    initial = (runs / "table" / "initial.safetensors").read_bytes()
    assert initial != model_bytes(runs / "table")


def test_columns_dropped_encoded_and_imputed(tmp_path, data):
    run = tmp_path / "run"
    options = ("--label", "type", "--drop", "note", "--one-hot", "site", "--impute", "median", "--strict")
    good("fit", data / "more.csv", "--out", run, *EPOCHS, *options)
    assert config(run)["fitted"]["feature_names"] == [*"abcd", "site=north", "site=south"]
    frame = pd.read_csv(data / "more.csv")
    frame.loc[0, "c"] = np.nan
    frame.to_csv(tmp_path / "new.csv", index=False)
    good("embed", run, tmp_path / "new.csv", "--out", tmp_path / "h.npy")
    assert np.isfinite(np.load(tmp_path / "h.npy")).all()


def test_labels_are_never_read_by_fit(tmp_path, data):
    frame = pd.read_csv(data / "t.csv")
    frame["type"] = np.random.default_rng(1).permutation(frame["type"])
    frame.to_csv(tmp_path / "other.csv", index=False)
    for name, source in (("a", data / "t.csv"), ("b", tmp_path / "other.csv")):
        good("fit", source, "--label", "type", "--out", tmp_path / name, *EPOCHS, "--transductive")
    assert model_bytes(tmp_path / "a") == model_bytes(tmp_path / "b")


# ---- sources of options ---------------------------------------------------------------------------------------------


def test_options_override_set_then_files_then_presets(tmp_path, data):
    (tmp_path / "c.toml").write_text('view_maker = "corruption"\nbatch_size = 8\nweight_decay = 0.25\n')
    steps = [
        ("--preset", "paper"),
        ("--config", tmp_path / "c.toml"),
        ("--set", "view_maker=mixup", "--set", "weight-decay=0.5"),
        ("--views", "identity+noise"),
    ]
    found = []
    for count in range(1, 5):
        run = tmp_path / str(count)
        given = [option for step in steps[:count] for option in step]
        good("fit", data / "x.npy", "--out", run, "--epochs", 1, *given)
        found.append(parameters(run))
    assert [p["view_maker"] for p in found] == ["noise", "corruption", "mixup", "identity+noise"]
    assert [p["weight_decay"] for p in found] == [0.0, 0.25, 0.5, 0.5]
    assert [p["batch_size"] for p in found] == ["auto", 8, 8, 8]
    assert all(p["kernel"] == "cosine" and p["epochs"] == 1 for p in found)


def test_seed_and_impute_come_from_a_file_or_set_too(tmp_path, data):
    (tmp_path / "c.toml").write_text('method = "pinda"\nrandom_state = 5\nimpute = "median"\n')
    given = ("fit", data / "gaps.csv", "--label", "type", *EPOCHS)
    good(*given, "--out", tmp_path / "file", "--config", tmp_path / "c.toml")
    assert config(tmp_path / "file")["method"] == "pinda" and parameters(tmp_path / "file")["random_state"] == 5
    good(*given, "--out", tmp_path / "set", "--set", "impute=median", "--set", "random_state=5", "--method", "pinda")
    good(*given, "--out", tmp_path / "flags", "--impute", "median", "--seed", 5, "--method", "pinda")
    assert model_bytes(tmp_path / "file") == model_bytes(tmp_path / "set") == model_bytes(tmp_path / "flags")


def test_the_configuration_of_a_run_gives_the_same_run(tmp_path, runs, data):
    good("fit", "wine", "--method", "pinda", "--out", tmp_path / "a", *EPOCHS, "--seed", 3, "--set", "hidden=16")
    again = ("fit", "wine", "--out", tmp_path / "b", "--config", tmp_path / "a" / "config.toml")
    assert call(*again, "--method", "contrastive").refused("is for the method 'pinda'", "leave --method out")
    good(*again)
    assert model_bytes(tmp_path / "a") == model_bytes(tmp_path / "b")
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b")


# ---- resuming -------------------------------------------------------------------------------------------------------


@pytest.fixture
def stopped(tmp_path, data):
    """A run that a time limit ended after one of three epochs, and its command."""
    command = ("fit", data / "x.npy", "--out", tmp_path / "stopped", "--epochs", 3, "--batch-size", 8)
    result = good(*command, "--minutes", 1e-9)
    assert "warning: training ended early (time limit)" in result.err and "--resume" in result.err
    return tmp_path / "stopped", command


def test_resume_without_a_run_starts_a_new_run(tmp_path, data, runs):
    command = ("fit", data / "x.npy", *EPOCHS, "--resume", "--out")
    good(*command, tmp_path / "new")
    (tmp_path / "empty").mkdir()
    good(*command, tmp_path / "empty")
    begun = tmp_path / "begun"  # killed before the first checkpoint
    begun.mkdir()
    shutil.copy(runs / "plain" / "config.toml", begun)
    good(*command, begun)
    assert {model_bytes(run) for run in (tmp_path / "new", tmp_path / "empty", begun)} == {model_bytes(runs / "plain")}


def test_resume_of_a_finished_run_changes_no_file(data, runs):
    before = files(runs / "table")
    command = ("fit", data / "t.csv", "--label", "type", "--out", runs / "table", *EPOCHS)
    result = good(*command, "--resume")
    assert result.out == f"{runs / 'table'}\n" and result.err == ""
    assert call(*command).refused("already has this run", "add --resume")
    assert files(runs / "table") == before


@pytest.mark.parametrize(
    ("other", "part"),
    [
        (("--batch-size", 7), "batch_size is 'auto' there, 7 now"),
        (("--method", "pinda"), "method 'contrastive' there, 'pinda' now"),
        (("--transductive",), "transductive is False there, True now"),
    ],
)
def test_a_run_of_another_configuration_is_refused(data, runs, stopped, other, part):
    command = ("fit", data / "t.csv", "--label", "type", "--out", runs / "table", *EPOCHS)
    before = files(runs / "table")
    assert call(*command, *other, "--resume").refused("another configuration", part, "choose another folder")
    assert call(*command, *other).refused(part)
    assert files(runs / "table") == before
    unfinished, command = stopped
    before = files(unfinished)
    assert call(*command, "--seed", 9, "--resume").refused("random_state is 0 there, 9 now")
    assert files(unfinished) == before


def test_a_run_on_other_data_is_refused(data, runs):
    before = files(runs / "table")
    given = ("--label", "type", "--out", runs / "table", *EPOCHS, "--resume")
    assert call("fit", data / "gaps.csv", *given, "--impute", "median").refused("other rows or columns", "gaps.csv")
    assert call("fit", "wine", *given[2:]).refused("other rows or columns", "now 'wine'")
    assert files(runs / "table") == before


def test_device_time_limit_and_checkpoint_interval_may_change(stopped):
    run, command = stopped
    good(*command, "--resume", "--checkpoint-every", 0, "--device", "cpu", "--threads", 1)
    assert json.loads((run / "summary.json").read_text())["status"] == "finished"


def test_a_run_is_resumed_by_its_folder_alone(tmp_path):
    given = ("fit", "wine", "--epochs", 40, "--set", "hidden=8", "--seed", 3)
    good(*given, "--out", tmp_path / "whole")
    first = good(*given, "--out", tmp_path / "cut", "--minutes", 1e-9)
    assert f"resume with `viewsmith fit --out {tmp_path / 'cut'} --resume --minutes 2e-09`" in first.err
    assert call("fit", "--out", tmp_path / "cut").refused("Missing argument 'DATA'")
    good("fit", "--out", tmp_path / "cut", "--resume", "--minutes", 10)
    assert model_bytes(tmp_path / "cut") == model_bytes(tmp_path / "whole")
    assert parameters(tmp_path / "cut") == parameters(tmp_path / "whole")
    assert call("fit", "--out", tmp_path / "none", "--resume").refused("no run at")
    viewsmith.Contrastive(epochs=1).fit(np.random.default_rng(0).normal(size=(20, 3)), run=tmp_path / "python")
    assert call("fit", "--out", tmp_path / "python", "--resume").refused("does not say with which arguments")


def test_names_of_files_do_not_control_the_terminal(tmp_path, data, monkeypatch):
    """Commands that are shown to be copied have each path as one word; a pipe gets the path as it is."""
    out, table = tmp_path / "my\x1b[31m run", tmp_path / "it's\x1b]0;x\x07.csv"
    shutil.copy(data / "t.csv", table)
    result = good("fit", table, "--label", "type", "--out", out, "--epochs", 1)
    assert result.out == f"{out}\n" and "\x1b" not in result.err and r"\x1b[31m run" in result.err
    words = re.findall("`viewsmith (.*?)`", result.err)
    shown = subprocess.run(["bash", "-c", f"printf '%s\\0' {words[0]}"], capture_output=True, check=True).stdout
    assert os.fsdecode(shown).split("\0")[:-1] == ["evaluate", str(out), str(table)]
    failed = call("fit", tmp_path / "a\x1b[2J.csv", "--out", tmp_path / "no")
    assert failed.refused(r"a\x1b[2J.csv does not exist")
    monkeypatch.setattr(io, "StringIO", type("Terminal", (io.StringIO,), {"isatty": lambda self: True}))
    assert good("fit", table, "--label", "type", "--out", out, "--epochs", 1, "--resume").out == f"{printable(out)}\n"
