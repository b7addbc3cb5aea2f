"""Two processes with half a batch each equal one process with the whole batch."""

import json
import warnings
from functools import partial
from pathlib import Path

import pytest
import torch
from training_toys import BATCH, SEED, N, apart, make_contrastive, make_players, rows

from viewsmith.core import Optimizer, distributed
from viewsmith.core.tensors import load_tensors, save_tensors
from viewsmith.methods import GenViewMethod
from viewsmith.methods.genview.parts import ViewQuality
from viewsmith.training import Callback, CheckpointFolder, History, Trainer, engine
from viewsmith.views import Identity, Neighbors

SGD = Optimizer("sgd", learning_rate=0.1)


def make_weighted():
    """Pairs are weighted by their quality from the second epoch."""
    plain = make_contrastive([Neighbors(1)], norm="none", optimizer=SGD, temperature=0.5)
    return GenViewMethod(
        plain.framework,
        plain.views,
        None,
        ViewQuality(plain.framework.encoder, rows(1)),
        alpha=0.0,
        gamma=5.0,
        on_top=False,
        first_fraction=0.25,
        epochs=plain.epochs,
        generator_epochs=0,
        optimizer=SGD,
        generator_optimizer=SGD,
    )


METHODS = {
    "cosine": lambda: make_contrastive([Identity()], norm="none", optimizer=SGD, temperature=0.5),
    "cauchy": lambda: make_contrastive([Identity()], norm="none", kernel="cauchy", negatives="cross", temperature=1.0),
    # With one neighbor per row nothing is random; a row that is in the batch twice is masked across processes.
    "ids": lambda: make_contrastive([Neighbors(1)], norm="none", optimizer=SGD, temperature=0.5),
    "players": lambda: make_players(dropout=0.0),
    # The softmax of the weights is over the batches of both processes.
    "weighted": make_weighted,
}
# Statistics of BatchNorm are those of a process's own batches.
NORMALIZED = {"normalized": lambda: make_contrastive([Identity()], norm="batch", optimizer=SGD, temperature=0.5)}


def train(folder, which, resume=False, stop=None):
    """Train in float64; save the weights after every step and at the end."""
    folder = Path(folder)
    steps, seeds = [], []
    engine.AGREE = 0.0  # in this process: they ask each other after every step

    class Note(Callback):
        def step(self, trainer):
            steps.append([p.detach().clone() for p in trainer.method.parameters()])
            seeds.append(trainer._generator.initial_seed() % 2**62)
            # A signal reaches one process, but all processes stop at the same step.
            trainer._stop |= trainer.steps == stop and distributed.rank() == 1

    trainer = Trainer(
        (METHODS | NORMALIZED)[which]().double(),
        seed=SEED,
        batch_size=BATCH,
        callbacks=[Note(), history := History(folder / "metrics.jsonl")],
        checkpoint=CheckpointFolder(folder / "checkpoint"),
    )
    trainer.fit(rows().double(), resume=resume)
    out = folder / f"out-{distributed.rank()}"
    out.mkdir(exist_ok=True)
    weights = {f"{number}/{i}": p for number, step in enumerate(steps) for i, p in enumerate(step)}
    save_tensors(out / "steps.safetensors", weights)
    save_tensors(out / "final.safetensors", trainer.method.state_dict())
    losses = torch.tensor([row["loss"] for row in history.rows], dtype=torch.float64)
    save_tensors(out / "losses.safetensors", {"loss": losses})
    save_tensors(out / "seeds.safetensors", {"seed": torch.tensor(seeds)})


def member(rank, folder, which, **options):
    warnings.simplefilter("error", FutureWarning)  # of another process than pytest's
    check_gathering(rank)
    train(folder, which, **options)


def check_gathering(rank):
    x = (10.0 * rank + torch.arange(6.0).view(3, 2)).requires_grad_()
    with warnings.catch_warnings(action="error"):
        whole = distributed.gather(x)
    assert whole.shape == (6, 2) and torch.equal(whole[distributed.local_rows(3)], x)
    assert distributed.gather(torch.tensor([rank])).tolist() == [0, 1]
    # Each process multiplies the gathered rows by other factors: the gradient is the sum over both processes.
    (whole * (rank + 1)).sum().backward()
    assert (x.grad == 3).all()
    # Second derivatives; rows of several dimensions that are not contiguous, in bf16.
    (first,) = torch.autograd.grad((distributed.gather(x) ** 3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(first, 2 * 3 * x**2) and torch.equal(second, 2 * 6 * x)
    odd = torch.full((4, 3, 2), rank + 1.0, dtype=torch.bfloat16).transpose(0, 1).requires_grad_()
    rows = distributed.gather(odd)
    assert rows.shape == (6, 4, 2) and (rows[:3] == 1).all() and (rows[3:] == 2).all()
    (rows * (rank + 1)).sum().backward()
    assert odd.grad.shape == odd.shape and (odd.grad == 3).all()


@pytest.fixture
def pair_of_processes(in_pair):
    def run(folder, which, **options):
        in_pair(partial(apart, member), str(folder), which, **options)
        return [load_all(folder / f"out-{rank}") for rank in (0, 1)]

    return run


def load_all(out):
    return {path.stem: load_tensors(path) for path in sorted(out.iterdir())}


@pytest.mark.parametrize("which", METHODS)
def test_two_processes_equal_one(pair_of_processes, tmp_path, which):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    train(one, which)
    alone = load_all(one / "out-0")
    members = pair_of_processes(two, which)

    assert len(alone["steps"]) > 4 * N // BATCH
    # The first process draws what it would alone, the second one other numbers in every step.
    seeds = [each["seeds"]["seed"] for each in (alone, *members)]
    assert torch.equal(seeds[0], seeds[1]) and not (seeds[1] == seeds[2]).any()
    assert len(seeds[2].unique()) == len(seeds[2])
    for member_ in members:
        torch.testing.assert_close(member_["steps"], alone["steps"], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(*(each["steps"] for each in members), rtol=0, atol=0)
    moved = [not torch.equal(alone["steps"]["0/0"], value) for value in (alone["steps"]["4/0"], alone["steps"]["19/0"])]
    assert all(moved)


def test_all_processes_end_with_one_model(pair_of_processes, tmp_path):
    first, second = pair_of_processes(tmp_path, "normalized")
    assert any("running_mean" in name for name in first["final"])
    torch.testing.assert_close(first["final"], second["final"], rtol=0, atol=0)


def test_only_the_first_process_writes(pair_of_processes, tmp_path, monkeypatch):
    pair_of_processes(tmp_path, "players")
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    ours = {name for name in files if not name.startswith("out-")}
    assert len(ours) == 3 and {"metrics.jsonl", "checkpoint/latest.json"} < ours
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 5  # not ten


def test_two_processes_resume(pair_of_processes, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    expected = pair_of_processes(whole, "players")
    pair_of_processes(parts, "players", stop=9)
    record = json.loads((parts / "checkpoint" / "latest.json").read_text())["record"]
    assert record["steps"] == 9 and record["step"] == 1  # not at the end of an epoch
    found = pair_of_processes(parts, "players", resume=True)
    for rank in (0, 1):
        torch.testing.assert_close(found[rank]["final"], expected[rank]["final"], rtol=0, atol=0)
    assert torch.equal(found[0]["losses"]["loss"], expected[0]["losses"]["loss"])
