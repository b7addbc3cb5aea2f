"""Updates whose optimizer lives on over phases: one training, whatever comes between, and resumed bit for bit."""

import pytest
import torch
from torch import nn
from training_toys import BATCH, SEED, rows

from refusals import refusal
from stopping import Stop
from viewsmith.core import Method, Optimizer, Phase, Update
from viewsmith.training import CheckpointFolder, Trainer

OPTIMIZERS = {
    "adamw": Optimizer("adamw", learning_rate=0.05, weight_decay=0.01, schedule="constant"),
    "sgd": Optimizer("sgd", learning_rate=0.05, schedule="constant"),
    "lars": Optimizer("lars", learning_rate=0.5, schedule="constant"),
}


class Alternating(Method):
    """An encoder in the phases called A, another network in B; batches are whole and in order."""

    def __init__(self, schedule, optimizer="adamw", continues=True):
        super().__init__()
        torch.manual_seed(1)
        self.encoder, self.other = nn.Linear(4, 2), nn.Linear(4, 2)
        self.schedule, self.optimizer, self.continues = schedule, OPTIMIZERS[optimizer], continues

    def phases(self):
        updates = {
            "A": Update("encoder", self.encoder_step, (self.encoder,), self.optimizer, continues=self.continues),
            "B": Update("other", self.other_step, (self.other,), self.optimizer),
        }
        return [Phase(f"{letter}{at}", epochs, [updates[letter]]) for at, (letter, epochs) in enumerate(self.schedule)]

    def encoder_step(self, batch):
        """A squared error of the encoder."""
        return self.error(self.encoder, batch)

    def other_step(self, batch):
        """A squared error of the other network."""
        return self.error(self.other, batch)

    def error(self, network, batch):
        x = batch.x[batch.index.argsort()]
        return (network(x) - x[:, :2].sin()).square().mean(1), {}


def trained(schedule, folder=None, resume=False, callbacks=(), **options):
    method = Alternating(schedule, **options)
    checkpoint = None if folder is None else CheckpointFolder(folder)
    trainer = Trainer(method, seed=SEED, batch_size=64, checkpoint=checkpoint, callbacks=callbacks)
    trainer.fit(rows(), resume=resume)
    return method


def same(one, other):
    return all(torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_phases_of_one_update_equal_one_long_phase(optimizer):
    alone = trained([("A", 6)], optimizer=optimizer).encoder
    parts = trained([("A", 2), ("B", 3), ("A", 3), ("B", 1), ("A", 1)], optimizer=optimizer).encoder
    assert same(alone, parts)


def test_without_continues_a_phase_starts_a_new_optimizer():
    alone = trained([("A", 4)], continues=False).encoder
    parts = trained([("A", 2), ("B", 3), ("A", 2)], continues=False).encoder
    assert not same(alone, parts)


@pytest.mark.parametrize("after", range(1, 8))
def test_a_training_resumed_anywhere_equals_an_uninterrupted_one(after, tmp_path):
    schedule = [("A", 2), ("B", 3), ("A", 3)]
    whole = trained(schedule)
    trained(schedule, tmp_path, callbacks=[Stop(after)])
    assert same(whole, trained(schedule, tmp_path, resume=True))


def test_a_checkpoint_keeps_only_what_later_phases_need(tmp_path):
    def names(after, schedule):
        trained(schedule, tmp_path, callbacks=[Stop(after)])
        tensors, _ = CheckpointFolder(tmp_path).load()
        return {path.split("/")[1] for path in tensors if path.startswith("optimizer/")}

    assert names(3, [("A", 2), ("B", 3), ("A", 3)]) == {"encoder", "other"}
    assert names(3, [("A", 2), ("B", 3)]) == {"other"}


def test_updates_that_continue_are_the_same():
    class Different(Alternating):
        def phases(self):
            a, b = super().phases()[0].updates[0], Update("encoder", self.other_step, (self.other,), continues=True)
            return [Phase("one", 1, [a]), Phase("two", 1, [b])]

    said = refusal(Trainer, Different([("A", 1)]), batch_size=BATCH)
    assert said.startswith("update 'encoder' continues") and "continues=False" in said
