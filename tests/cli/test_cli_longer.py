"""Runs that get more epochs after they are finished, or stopped."""

import json

import numpy as np
import pytest
from cli_tools import call, files, good

import viewsmith
from viewsmith.training.run import RunFolder

SMALL = ("--set", "hidden=8", "--set", "n_components=4")
CONSTANT = ("--set", "schedule=constant")


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32))
    return path


def fit(rows, run, epochs, *more):
    return call("fit", rows, "--out", run, "--epochs", epochs, *SMALL, *more)


def losses(run):
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(row["epoch"], row["loss"], row["learning_rate"]) for row in rows]


def weights(run):
    return (run / "model.safetensors").read_bytes()


@pytest.mark.parametrize("method", ["contrastive", "pinda"])
def test_with_a_constant_rate_a_longer_run_is_one_of_that_length(tmp_path, rows, method):
    options = (*CONSTANT, "--method", method)
    assert fit(rows, tmp_path / "whole", 5, *options).code == 0
    assert fit(rows, tmp_path / "grown", 3, *options).code == 0
    assert fit(rows, tmp_path / "grown", 5, *options, "--resume").code == 0
    assert weights(tmp_path / "grown") == weights(tmp_path / "whole")
    assert losses(tmp_path / "grown") == losses(tmp_path / "whole")
    assert json.loads((tmp_path / "grown" / "summary.json").read_text())["epochs"] == 5


def test_a_longer_run_has_the_learning_rate_of_its_new_length(tmp_path, rows):
    fit(rows, tmp_path / "whole", 8)
    fit(rows, tmp_path / "short", 4)
    fit(rows, tmp_path / "grown", 4)
    assert fit(rows, tmp_path / "grown", 8, "--resume").code == 0
    rates = [[rate for _, _, rate in losses(tmp_path / run)] for run in ("short", "whole", "grown")]
    assert rates[2] == rates[0] + rates[1][4:] and len(rates[2]) == 8
    assert viewsmith.load(tmp_path / "grown").options_.epochs == 8


def test_a_run_of_that_length_is_left_as_it_is(tmp_path, rows):
    run = tmp_path / "run"
    fit(rows, run, 3)
    fit(rows, run, 5, "--resume")
    before = files(run)
    for again in (("fit", rows, "--out", run, "--epochs", 5, *SMALL, "--resume"), ("fit", "--out", run, "--resume")):
        assert good(*again).out == f"{run}\n"
        assert files(run) == before


def test_a_run_cannot_become_shorter_and_does_not_grow_unasked(tmp_path, rows):
    run = tmp_path / "run"
    fit(rows, run, 3)
    before = files(run)
    assert fit(rows, run, 2, "--resume").refused("has a run of 3 epochs, more than the 2", "ask for more")
    assert fit(rows, run, 5).refused("epochs is 3 there, 5 now; more train on with --resume")
    assert call("fit", rows, "--out", run, *SMALL, "--resume").refused("epochs is 3 there, auto now")
    assert fit(rows, run, 5, "--resume", "--set", "temperature=.3").refused("temperature is")
    assert files(run) == before


def test_a_longer_run_that_is_stopped_is_resumed(tmp_path, rows):
    fit(rows, tmp_path / "whole", 3)
    fit(rows, tmp_path / "whole", 6, "--resume")
    run = tmp_path / "run"
    fit(rows, run, 3)
    stopped = fit(rows, run, 6, "--resume", "--minutes", 1e-9)
    assert "time limit" in stopped.err
    good("fit", "--out", run, "--resume", "--minutes", 10)
    assert weights(run) == weights(tmp_path / "whole") and losses(run) == losses(tmp_path / "whole")


def test_settings_that_follow_from_the_number_of_epochs_stay(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 3))
    options = {"random_state": 0, "hidden": (8,), "n_components": 4}
    run = tmp_path / "run"
    first = viewsmith.Contrastive(**options).fit(x, run=run)
    before = first.options_
    longer = viewsmith.Contrastive(**options, epochs=before.epochs + 2).fit(x, run=run, resume=True)
    kept = ("learning_rate", "head_learning_rate", "batch_size")
    assert [getattr(longer.options_, name) for name in kept] == [getattr(before, name) for name in kept]
    assert longer.options_.epochs == longer.summary_["epochs"] == before.epochs + 2
    config = RunFolder(run).read_config()
    assert (config["parameters"]["epochs"], config["fitted"]["epochs"]) == ("auto", before.epochs + 2)
    again = viewsmith.Contrastive(**options).fit(x, run=run, resume=True)  # "auto", as it was started
    assert again.summary_["epochs"] == before.epochs + 2
    longer.save(run)


def test_a_run_of_several_phases_does_not_grow(tmp_path, rows):
    run = tmp_path / "run"
    options = ("--method", "diffaug", "--set", "generator_epochs=2")
    assert fit(rows, run, 4, *options).code == 0
    before = files(run)
    assert fit(rows, run, 6, *options, "--resume").refused("4 epochs in 3 phases", "another folder")
    assert files(run) == before
