"""Small methods and trainings that tests start in other processes, kill and compare."""

import json
import os
import signal
from pathlib import Path

import torch
from torch import nn

from viewsmith.core import Method, Optimizer, Phase, Update
from viewsmith.core.tensors import save_tensors
from viewsmith.frameworks import SimCLR
from viewsmith.methods import ContrastiveMethod, PiNDAMethod
from viewsmith.networks import MLP
from viewsmith.parts import Noise
from viewsmith.training import Callback, CheckpointFolder, Diagnostics, History, Trainer
from viewsmith.views import GaussianNoise, Identity, PairMaker, PiNoise

D = 4
N, BATCH, SEED = 32, 8, 5
STEPS = 20  # of the two players: 2 epochs of 4 steps, then 3


def rows(n=N):
    return torch.randn(n, D, generator=torch.Generator().manual_seed(0))


class TwoPlayers(Method):
    """A phase for the encoder alone, then one of two alternating updates, with dropout from the global stream."""

    def __init__(self, dropout=0.2, watch=None):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(D, 6), nn.Dropout(dropout), nn.Tanh(), nn.Linear(6, 2))
        self.channel = nn.Linear(D, D)
        self.register_buffer("offset", torch.zeros(D))
        self.watch = watch

    def phases(self):
        momentum = Optimizer("sgd", learning_rate=0.05, momentum=0.9, schedule="constant")
        adam = Optimizer("adam", learning_rate=0.01, clip=1.0)
        return [
            Phase("warm up", 2, [Update("encoder", self.encoder_step, (self.encoder,), momentum)]),
            Phase(
                "play",
                3,
                [
                    Update("encoder", self.encoder_step, (self.encoder,), adam),
                    Update("channel", self.channel_step, (self.channel,), momentum, interval=2),
                ],
                start=self.draw_offset,
            ),
        ]

    def encoder_step(self, batch):
        """Train the encoder on the output of the channel."""
        return self.move(batch, "encoder")

    def channel_step(self, batch):
        """Train the channel on the opposite loss, with a penalty on its weights."""
        losses, logs = self.move(batch, "channel")
        return sum(p.square().mean() for p in self.channel.parameters()) - 0.1 * losses, {"play": logs["size"]}

    def move(self, batch, name):
        if self.watch is not None:
            self.watch(name, self, batch)
        h = self.encoder(self.channel(batch.x) + self.offset)
        losses = (h - batch.x[:, :2]).square().mean(1)
        return losses, {"size": h.square().mean()}

    def draw_offset(self, seed):
        # Random numbers from the stream of the step and from the global stream: both must be restored.
        self.offset.copy_(torch.randn(D, generator=torch.Generator().manual_seed(seed)) + 0.1 * torch.randn(D))

    def represent(self, x, output="representation"):
        return self.encoder(self.channel(x))

    def view(self, x, *, index=None, generator=None):
        return self.channel(x)


def make_players(**options):
    torch.manual_seed(1)
    return TwoPlayers(**options)


def make_contrastive(makers=None, norm="batch", optimizer=None, epochs=5, **options):
    torch.manual_seed(1)
    framework = SimCLR(MLP(D, [8, 5], norm=norm, last="activated"), MLP(5, [3]), **options)
    makers = [GaussianNoise(0.5)] if makers is None else makers
    return ContrastiveMethod(framework, PairMaker(makers), epochs=epochs, optimizer=optimizer or Optimizer())


def make_pinda(epochs=5):
    torch.manual_seed(1)
    framework = SimCLR(MLP(D, [8, 5], norm="batch", last="activated"), MLP(5, [3]), temperature=0.5)
    return PiNDAMethod(
        framework,
        PairMaker([Identity()]),
        PiNoise.for_vectors(D, hidden=(8,)),
        options=Noise(two_sided=True),
        epochs=epochs,
        optimizer=Optimizer("adamw", learning_rate=0.01, weight_decay=0.1),
    )


METHODS = {"players": make_players, "pinda": make_pinda}


def apart(function, *args, **kwargs):
    """A call in another process: one thread, and without fsync, which is needed only for a power cut."""
    torch.set_num_threads(1)
    os.fsync = lambda descriptor: None
    function(*args, **kwargs)


class Kill(Callback):
    """Ends the process immediately, as a power cut would, after a given step."""

    def __init__(self, step):
        self.at = step

    def step(self, trainer):
        if trainer.steps == self.at:
            die()


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def die_in_write(number, when):
    """End the process when the `number`-th file of a checkpoint is put in its place, or its tensors are written."""
    import safetensors.torch

    from viewsmith.core import files

    count = 0
    replace, save_file = os.replace, safetensors.torch.save_file

    def dying_replace(source, target):
        nonlocal count
        if Path(target).parent.name != "checkpoint":
            return replace(source, target)
        count += 1
        if count == number and when == "before":
            die()
        replace(source, target)
        if count == number and when == "after":
            die()

    def dying_save(given, path, **options):
        save_file(given, path, **options)
        if count + 1 == number and when == "half" and Path(path).parent.name == "checkpoint":
            os.truncate(path, os.path.getsize(path) // 2)
            die()

    files.os.replace, safetensors.torch.save_file = dying_replace, dying_save


def train(folder, which, *, kill=None, write=None, resume=False, every=0.0):
    """Train with checkpoints in `folder`; at the end, write weights and metrics there."""
    folder = Path(folder)
    if write is not None:
        die_in_write(*write)
    trainer = Trainer(
        METHODS[which](),
        seed=SEED,
        batch_size=BATCH,
        callbacks=[Diagnostics(points=3), History(folder / "metrics.jsonl"), *([] if kill is None else [Kill(kill)])],
        checkpoint=CheckpointFolder(folder / "checkpoint"),
        checkpoint_every=every,
    )
    assert trainer.fit(rows(), resume=resume) == "finished"
    save_tensors(folder / "final.safetensors", trainer.method.state_dict())


def result(folder):
    """Weights and metrics of a training, as bytes and rows, without times."""
    lines = (Path(folder) / "metrics.jsonl").read_text().splitlines()
    metrics = [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]
    return (Path(folder) / "final.safetensors").read_bytes(), metrics
