"""Signals and time limits stop a training with a usable model, and a resumed training has the identical result."""

import json
import os
import signal

import pytest
import torch
from training_toys import BATCH, METHODS, SEED, STEPS, make_pinda, rows

from viewsmith.training import Callback, CheckpointFolder, History, Trainer


class Send(Callback):
    """Sends signals to this process after a step."""

    def __init__(self, at, *signals):
        self.at, self.signals, self.ended = at, signals, None

    def step(self, trainer):
        if trainer.steps == self.at:
            for number in self.signals:
                os.kill(os.getpid(), number)

    def end(self, trainer, status):
        self.ended = status


def trainer_for(which, folder=None, callbacks=(), **options):
    checkpoint = None if folder is None else CheckpointFolder(folder)
    return Trainer(
        METHODS[which](),
        seed=SEED,
        batch_size=BATCH,
        callbacks=[History(), *callbacks],
        checkpoint=checkpoint,
        checkpoint_every=1e9,
        **options,
    )


def outcome(trainer):
    metrics = [{k: v for k, v in row.items() if k != "seconds"} for row in trainer.callbacks[0].rows]
    return {key: value.clone() for key, value in trainer.method.state_dict().items()}, metrics


def assert_same(one, other):
    assert one[1] == other[1]
    assert all(torch.equal(value, other[0][key]) for key, value in one[0].items())


@pytest.fixture(scope="module")
def whole():
    found = {}
    for which in METHODS:
        trainer = trainer_for(which)
        trainer.fit(rows())
        found[which] = outcome(trainer)
    return found


@pytest.mark.parametrize(
    ("which", "at", "number"),
    [
        ("players", 3, signal.SIGINT),
        ("players", 8, signal.SIGTERM),
        ("players", 12, signal.SIGINT),
        ("pinda", 10, signal.SIGTERM),
    ],
)
def test_a_signal_stops_after_the_step_and_training_can_be_resumed(tmp_path, whole, which, at, number):
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    first = trainer_for(which, tmp_path, [send := Send(at, number)], interruptible=True)
    assert first.fit(rows()) == "interrupted" == send.ended
    assert first.steps == at and not first.method.training
    assert first.method.represent(rows()).isfinite().all()
    assert handlers == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))

    second = trainer_for(which, tmp_path)
    assert second.fit(rows(), resume=True) == "finished"
    assert second.steps == STEPS
    assert_same(outcome(second), whole[which])


def test_a_resumed_training_with_two_threads_is_identical(tmp_path):
    torch.set_num_threads(2)

    def trained(*callbacks, **options):
        trainer = Trainer(
            make_pinda(epochs=1), seed=SEED, batch_size=BATCH, callbacks=[History(), *callbacks], **options
        )
        trainer.fit(rows(), resume=bool(options))
        return trainer

    options_of_checkpoint = {"checkpoint": CheckpointFolder(tmp_path), "checkpoint_every": 1e9}
    assert trained(Send(2, signal.SIGINT), interruptible=True, **options_of_checkpoint).steps == 2
    assert_same(outcome(trained(**options_of_checkpoint)), outcome(trained()))


class Enough(Callback):
    """Ends the training in the hook `hook`, at a step."""

    def __init__(self, hook, at):
        setattr(self, hook, lambda trainer, *row: trainer.stop() if trainer.steps == at else None)


@pytest.mark.parametrize(("hook", "at"), [("step", 3), ("epoch", 4)])
def test_a_callback_ends_the_training(tmp_path, whole, hook, at):
    first = trainer_for("players", tmp_path, [Enough(hook, at)])
    assert first.fit(rows()) == "interrupted" and first.steps == at
    second = trainer_for("players", tmp_path)
    assert second.fit(rows(), resume=True) == "finished"
    assert_same(outcome(second), whole["players"])


def test_a_signal_in_the_last_step_changes_nothing(tmp_path, whole):
    trainer = trainer_for("players", tmp_path, [Send(STEPS, signal.SIGINT)], interruptible=True)
    assert trainer.fit(rows()) == "finished"
    assert_same(outcome(trainer), whole["players"])


def test_a_second_signal_does_not_wait(tmp_path):
    trainer = trainer_for("players", tmp_path, [Send(3, signal.SIGINT, signal.SIGINT)], interruptible=True)
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(rows())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_first_step_does_not_wait(tmp_path, number):
    trainer, ended = trainer_for("players", tmp_path, interruptible=True), []

    def prepare(x, seed):
        os.kill(os.getpid(), number)
        ended.append(True)

    trainer.method.prepare = prepare
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(rows())
    assert not ended and not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_ignored_signal_stays_ignored(tmp_path, whole, number):
    before = signal.signal(number, signal.SIG_IGN)
    try:
        trainer = trainer_for("players", tmp_path, [Send(3, number)], interruptible=True)
        assert trainer.fit(rows()) == "finished"
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)
    assert_same(outcome(trainer), whole["players"])


def test_without_a_checkpoint_folder_a_signal_raises():
    with pytest.raises(KeyboardInterrupt):
        trainer_for("players", callbacks=[Send(3, signal.SIGINT)]).fit(rows())


@pytest.mark.parametrize("which", METHODS)
def test_a_time_limit_includes_the_time_before_a_resume(tmp_path, whole, which):
    first = trainer_for(which, tmp_path, minutes=1e-9)
    assert first.fit(rows()) == "time limit"
    assert first.steps == 1
    spent = json.loads((tmp_path / "latest.json").read_text())["record"]["seconds"]
    again = trainer_for(which, tmp_path, minutes=spent / 60)
    assert again.fit(rows(), resume=True) == "time limit"
    assert again.steps == 2 and again.elapsed > spent > 0

    last = trainer_for(which, tmp_path, minutes=10)
    assert last.fit(rows(), resume=True) == "finished"
    assert_same(outcome(last), whole[which])


def test_resume_of_a_finished_training_takes_no_step(tmp_path, whole):
    trainer_for("players", tmp_path).fit(rows())
    again = trainer_for("players", tmp_path, [send := Send(STEPS + 1)])
    assert again.fit(rows(), resume=True) == "finished" == send.ended
    assert again.steps == STEPS
    assert_same(outcome(again), whole["players"])


def test_resume_without_a_checkpoint_starts_a_new_training(tmp_path, whole):
    trainer = trainer_for("players", tmp_path)
    assert trainer.fit(rows(), resume=True) == "finished"
    assert_same(outcome(trainer), whole["players"])
