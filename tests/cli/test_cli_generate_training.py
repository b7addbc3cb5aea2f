"""The generator that ``viewsmith generate`` trains: time budget, announced plan, stop and resume."""

import os
import signal

import pytest
from cli_tools import call, contents, good

from viewsmith.estimator.resolve import default_epochs
from viewsmith.modalities import modality_of
from viewsmith.training.engine import Trainer
from viewsmith.workflows.generate import plan_training


def plan(modality, n, shape, **options):
    return plan_training(modality_of(modality), n, shape, batch_size=256, **options)


SIZES = [
    ("images", 10_000, (32, 32, 3)),
    ("images", 60_000, (28, 28)),
    ("images", 1_600, (48, 48, 3)),
    ("images", 10_000, (96, 96, 3)),
    ("images", 100, (224, 224, 3)),
    ("dna", 10_000, (81,)),
    ("dna", 30_000, (500,)),
]


@pytest.mark.parametrize(("modality", "n", "shape"), SIZES)
def test_every_plan_takes_at_most_ten_minutes_on_two_cores(modality, n, shape):
    found = plan(modality, n, shape)
    assert 0 < found.minutes(2) <= 10 < found.minutes(1) * 10
    assert 1 <= found.epochs <= default_epochs(n, 256, modality_of(modality).steps)
    assert found.generator_epochs == max(1, round(found.epochs / 2))


def test_smaller_data_get_less_time():
    assert plan("images", 10_000, (32, 32, 3)).minutes(2) > 7
    assert plan("images", 10_000, (32, 32, 3)).epochs == default_epochs(10_000, 256, 1500)  # the plan is not shortened
    assert plan("images", 1_600, (48, 48, 3)).minutes(2) < 4
    assert plan("vectors", 10_000, (50,)).epochs == default_epochs(10_000, 256, 2000)
    assert plan("vectors", 10_000, (50,)).cpu_seconds == 0


def test_large_images_get_the_small_network():
    kinds = [plan("images", 1_000, (side, side, 3)).denoiser for side in (32, 40, 41, 96)]
    assert kinds == ["fast", "fast", "small", "small"] and plan("dna", 1_000, (9_000,)).denoiser == "fast"


def test_minutes_and_epochs_given_by_the_user():
    size = ("images", 10_000, (48, 48, 3))
    assert 1.5 < plan(*size, minutes=2).minutes(2) <= 2 < 4 < plan(*size, minutes=5).minutes(2) <= 5
    assert plan(*size, epochs=7, minutes=1e-3).epochs == 7 and plan(*size, epochs=7).generator_epochs == 4
    assert plan(*size, minutes=1e-9).epochs == 1


def command(data, out, *more):
    return ("generate", data / "given.npz", "--out", out, "--epochs", 4, "--batch-size", 8, *more)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("whole")
    result = good(*command(data, folder / "cache"))
    assert "4 epochs of the encoder and 2 of the generator" in result.err
    return contents(folder / "cache")


@pytest.mark.parametrize("after", [2, 5])  # in the encoder's training, and in the generator's
def test_a_signal_stops_it_and_the_same_command_resumes_it(whole, data, tmp_path, monkeypatch, after):
    finish = Trainer._stopped

    def stopped(trainer):
        if trainer.steps == after:
            os.kill(os.getpid(), signal.SIGTERM)
        return finish(trainer)

    monkeypatch.setattr(Trainer, "_stopped", stopped)
    result = call(*command(data, tmp_path / "cache"))
    assert result.code == 130 and "was interrupted" in result.err and "the same command again" in result.err
    assert "diverged" not in result.err and "learned anything" not in result.err
    monkeypatch.undo()
    result = good(*command(data, tmp_path / "cache"))
    assert "is resumed" in result.err and contents(tmp_path / "cache") == whole


def test_a_time_limit_applies_to_each_call(whole, data, tmp_path):
    for _ in range(2):
        result = call(*command(data, tmp_path / "cache", "--minutes", 1e-9))
        assert result.code == 130 and "the same command again" in result.err
    assert "diverged" not in result.err and "ended early" not in result.err
    assert not (tmp_path / "cache" / "view_cache.json").exists()
    # The plan of the first call is used.
    result = good("generate", data / "given.npz", "--out", tmp_path / "cache", "--batch-size", 8)
    assert contents(tmp_path / "cache") == whole


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--run", "here", "--epochs", 1), "trained already: leave --epochs out"),
        (("--generator", "folder:views.npz", "--epochs", 1), "has no option epochs"),
        (("--generator", "unclip:here", "--epochs", 1), "has no option epochs"),
    ],
)
def test_training_options_without_a_training_are_refused(data, tmp_path, monkeypatch, options, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "config.toml").touch()
    assert call("generate", data / "given.npz", "--out", tmp_path / "cache", *options).refused(expected)
    assert not (tmp_path / "cache").exists()


def test_a_run_that_was_stopped_is_named(data, tmp_path):
    fit = ("fit", data / "given.npz", "--method", "diffaug", "--epochs", 2, "--out", tmp_path / "run")
    call(*fit, "--minutes", 1e-9)
    out = ("--out", tmp_path / "cache", "--run", tmp_path / "run")
    assert call("generate", data / "given.npz", *out).refused("was not finished (time limit)", "--resume")
