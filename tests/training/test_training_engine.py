"""The engine: phases, updates, schedules, and equality with a plain training loop."""

import math

import pytest
import torch
from torch import nn
from training_toys import BATCH, SEED, STEPS, D, N, make_contrastive, make_players, rows

from viewsmith.core import Method, Optimizer, Phase, TrainingError, Update, derive_seed
from viewsmith.losses import nt_xent
from viewsmith.training import Callback, CheckpointFolder, History, Trainer
from viewsmith.training.updates import learning_rate


def trained(method, x=None, **options):
    trainer = Trainer(method, **{"seed": SEED, "batch_size": BATCH} | options)
    assert trainer.fit(rows() if x is None else x) == "finished"
    return trainer


# --- phases and updates


class Watch:
    """Records for each update: its name and epoch, all weights, and the parameters that require a gradient."""

    def __init__(self):
        self.turns = []

    def __call__(self, name, players, batch):
        weights = {key: value.clone() for key, value in players.state_dict().items()}
        free = {key for key, value in players.named_parameters() if value.requires_grad}
        gradients = {key: None if p.grad is None else p.grad.clone() for key, p in players.named_parameters()}
        self.turns.append((name, batch.step, weights, free, gradients))


def of(part, keys):
    return {key for key in keys if key.startswith(part)}


def test_each_update_trains_only_its_parameters():
    watch = Watch()
    players = make_players(watch=watch)
    trained(players)
    watch("end", players, type("batch", (), {"step": 0}))
    names = [(name, step) for name, step, *_ in watch.turns[:-1]]
    play = [(name, step) for step in range(12) for name in ("encoder", "channel")]
    every_other = [turn for turn in play if turn[0] == "encoder" or turn[1] % 2 == 0]
    assert names == [("encoder", step) for step in range(8)] + every_other

    keys = set(dict(players.named_parameters()))
    for (name, _, before, free, stale), (_, _, after, _, fresh) in zip(watch.turns, watch.turns[1:], strict=False):
        expected = of(name, keys)
        assert free == expected
        assert {key for key in keys if not torch.equal(before[key], after[key])} == expected
        # Frozen parameters get no gradient: the gradient that they have is from the update that trains them.
        for key in keys - expected:
            assert (stale[key] is None and fresh[key] is None) or torch.equal(stale[key], fresh[key])
    assert all(parameter.requires_grad for parameter in players.parameters())


def test_a_phase_starts_once_with_its_seed():
    watch = Watch()
    trained(make_players(watch=watch))
    offsets = [weights["offset"] for _, _, weights, *_ in watch.turns]
    assert all((offset == 0).all() for offset in offsets[:8])
    addressed = torch.randn(D, generator=torch.Generator().manual_seed(derive_seed(SEED, "phase", 1)))
    assert ((offsets[8] - addressed).abs() < 0.5).all() and (offsets[8] != 0).all()
    assert all(torch.equal(offset, offsets[8]) for offset in offsets[8:])


def test_batches_have_distinct_rows_and_separate_random_streams():
    seen = []

    class Note(Method):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(()))

        def phases(self):
            a, b = (Update(name, self.note, (self,)) for name in "ab")
            return [Phase("one", 2, [a, b]), Phase("two", 1, [a])]

        def note(self, batch):
            assert torch.equal(batch.x, x[batch.index])
            draw = torch.rand((), generator=batch.generator)
            seen.append((batch.epoch, batch.step, batch.index.tolist(), float(draw)))
            return self.weight * batch.x[:, 0], {}

    x = rows(20)
    trained(Note(), x)
    turns = seen[::2][:4] + seen[8:]
    assert [turn[:2] for turn in turns] == [(0, 0), (0, 1), (1, 2), (1, 3), (0, 0), (0, 1)]
    epochs = [turns[i][2] + turns[i + 1][2] for i in (0, 2, 4)]
    for rows_of_epoch in epochs:
        assert len(set(rows_of_epoch)) == 16  # 20 rows in full batches of 8: 4 rows are left out
    assert epochs[0] != epochs[1] != epochs[2]
    # Both updates of a step use the same rows, with different random streams.
    assert all(one[2] == other[2] for one, other in zip(seen[:8:2], seen[1:8:2], strict=True))
    assert len({turn[3] for turn in seen}) == len(seen)


# --- a plain loop


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_training_equals_a_plain_loop(name):
    rate, epochs, decay = 0.02, 4, 0.1
    spec = Optimizer(name, learning_rate=rate, weight_decay=decay, momentum=0.9)
    trainer = trained(
        make_contrastive(optimizer=spec, epochs=epochs, temperature=0.5), callbacks=[history := History()]
    )

    method, x = make_contrastive(), rows()
    encoder, head = method.framework.encoder, method.framework.head
    parameters = list(method.parameters())
    if name == "adamw":
        optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=decay, fused=True)
    else:
        optimizer = torch.optim.SGD(parameters, lr=rate, momentum=0.9, weight_decay=decay, fused=True)
    step, losses = 0, []
    for epoch in range(epochs):
        order = torch.randperm(N, generator=torch.Generator().manual_seed(derive_seed(SEED, "order", 0, epoch)))
        for start in range(0, N, BATCH):
            sample = x[order[start : start + BATCH]]
            generator = torch.Generator().manual_seed(derive_seed(SEED, "step", 0, step, 0, 0))
            first = sample + 0.5 * torch.randn(sample.shape, generator=generator)
            second = sample + 0.5 * torch.randn(sample.shape, generator=generator)
            z0, z1 = head(encoder(torch.cat([first, second]))).chunk(2)
            loss = nt_xent(z0, z1, temperature=0.5).mean()
            for group in optimizer.param_groups:
                group["lr"] = rate * 0.5 * (1 + math.cos(math.pi * step / (epochs * N // BATCH)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            step += 1
    expected = method.state_dict()
    assert all(torch.equal(value, expected[key]) for key, value in trainer.method.state_dict().items())
    means = [sum(losses[4 * e : 4 * e + 4]) / 4 for e in range(epochs)]
    assert [row["loss"] for row in history.rows] == pytest.approx(means, rel=1e-6)


def test_equal_seeds_give_equal_weights_and_others_differ():
    one, again, other = (trained(make_contrastive(), seed=seed).method.state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[key], again[key]) for key in one)
    assert not torch.equal(one["framework.head.0.weight"], other["framework.head.0.weight"])


def test_the_callers_random_stream_is_not_used():
    one, other = make_players(), make_players()  # with dropout, which draws from the global stream
    for seed, method in ((3, one), (4, other)):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        trained(method)
        assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(value, other.state_dict()[key]) for key, value in one.state_dict().items())


def test_training_ends_in_evaluation_mode_and_fewer_rows_than_a_batch_train_too():
    trainer = trained(make_contrastive(), rows(5), batch_size=256)
    assert not trainer.method.training and trainer.steps == 5


# --- weights, schedules, metrics, failures


class Weighted(Method):
    """One parameter, trained by gradient descent, so that its change is the gradient of the weighted mean."""

    def __init__(self, weight):
        super().__init__()
        self.values, self.weight = nn.Parameter(torch.zeros(4, dtype=torch.float64)), weight

    def phases(self):
        spec = Optimizer("sgd", learning_rate=1.0, momentum=0.0, schedule="constant")
        return [Phase("one", 1, [Update("a", self.descend, (self.values,), spec)])]

    def descend(self, batch):
        if self.weight is not None:
            batch.weight = torch.tensor(self.weight, dtype=torch.float64)[batch.index]
        return -self.values[batch.index], {}


def test_weights_multiply_the_loss_of_each_sample():
    def fractions(weight):
        return trained(Weighted(weight), rows(4), batch_size=4).method.values.detach()

    quarter = torch.full((4,), 0.25, dtype=torch.float64)
    assert torch.equal(fractions(None), quarter)
    assert torch.equal(fractions([1.0, 1.0, 1.0, 1.0]), quarter)
    assert torch.equal(fractions([1.0, 2.0, 0.0, 1.0]), quarter * torch.tensor([1, 2, 0, 1]))


@pytest.mark.parametrize(
    ("options", "points"),
    [
        # Half a cosine from 1 to 0.
        ({}, {0: 1, 0.25: 0.5 + 0.5**0.5 / 2, 0.5: 0.5, 0.75: 0.5 - 0.5**0.5 / 2, 1: 0}),
        ({"final_lr_scale": 0.2}, {0: 1, 0.5: 0.6, 1: 0.2}),
        ({"schedule": "constant"}, {0: 1, 0.5: 1, 1: 1}),
        ({"schedule": "constant", "warmup": 0.5}, {0: 0, 0.25: 0.5, 0.5: 1, 1: 1}),
        ({"warmup": 0.2}, {0: 0, 0.1: 0.5, 0.2: 1, 0.6: 0.5, 1: 0}),
        ({"warmup": 1.0}, {0: 0, 0.9: 0.9}),
    ],
)
def test_learning_rate_by_hand(options, points):
    for progress, fraction in points.items():
        assert learning_rate(Optimizer(learning_rate=3.0, **options), progress) == pytest.approx(
            3.0 * fraction, abs=1e-12
        )


def test_clipping_bounds_the_gradient():
    class Steep(Weighted):
        def phases(self):
            spec = Optimizer("sgd", learning_rate=1.0, momentum=0.0, schedule="constant", clip=0.1)
            return [Phase("one", 1, [Update("a", self.descend, (self.values,), spec)])]

    moved = trained(Steep([300.0, 400.0, 0.0, 0.0]), rows(4), batch_size=4).method.values.detach()
    torch.testing.assert_close(moved, torch.tensor([0.06, 0.08, 0, 0], dtype=torch.float64), rtol=1e-4, atol=0)


def test_metrics_have_every_epoch():
    trained(make_players(), callbacks=[history := History()])
    assert [(row["phase"], row["epoch"], row["step"]) for row in history.rows] == [
        ("warm up", 1, 4), ("warm up", 2, 8), ("play", 3, 12), ("play", 4, 16), ("play", 5, 20),
    ]  # fmt: skip
    warm, play = history.rows[0], history.rows[-1]
    assert set(warm) == {"phase", "epoch", "step", "loss", "size", "learning_rate", "seconds"}
    assert set(play) == {*warm, "loss/encoder", "loss/channel", "play"} and play["loss"] == play["loss/encoder"]
    assert warm["learning_rate"] == 0.05 and play["learning_rate"] < 0.01


class Broken(Callback):
    """Sets a weight to NaN after a step, as a diverging loss would."""

    def step(self, trainer):
        if trainer.steps == 6:
            next(trainer.method.parameters()).data.fill_(float("nan"))


def test_a_loss_that_is_not_finite_ends_training_in_one_line():
    with pytest.raises(TrainingError) as caught:
        trained(make_players(), callbacks=[Broken()])
    message = str(caught.value)
    assert "update 'encoder' became nan in step 7, epoch 2 of phase 'warm up' (not finite: size)" in message
    assert "lower the learning rate (0.05)" in message and "\n" not in message


def test_on_a_gpu_it_is_noticed_at_the_end_of_the_epoch(monkeypatch):
    monkeypatch.setattr("viewsmith.training.engine.on_host", lambda x: False)
    with pytest.raises(TrainingError, match=r"became nan in epoch 2 of phase 'warm up' \(not finite: size\)"):
        trained(make_players(), callbacks=[Broken()])


@pytest.mark.parametrize("host", [True, False])
def test_the_last_finite_state_is_kept(host, tmp_path, monkeypatch):
    monkeypatch.setattr("viewsmith.training.engine.on_host", lambda x: host)
    folder = CheckpointFolder(tmp_path)
    with pytest.raises(TrainingError):
        trained(make_players(), callbacks=[Broken()], checkpoint=folder, checkpoint_every=0)
    tensors, record = folder.load()
    assert record["steps"] == 5  # the weights broke after step 6, before its checkpoint
    assert all(value.isfinite().all() for value in tensors.values() if value.is_floating_point())


def test_weights_that_break_in_the_last_step_are_an_error():
    class LastStep(Callback):
        def step(self, trainer):
            if trainer.steps == STEPS:
                next(trainer.method.parameters()).data.fill_(float("inf"))

    with pytest.raises(TrainingError, match=f"the weights that update 'encoder' trains .* after step {STEPS}: lower"):
        trained(make_players(), callbacks=[LastStep()])


def test_bf16_trains_close_to_float32_with_float32_losses():
    seen = []

    class Note(Callback):
        def step(self, trainer):
            seen.append(trainer.running[0].loss.dtype)

    spec = Optimizer(learning_rate=1e-3)
    single, half = (
        trained(make_contrastive(optimizer=spec, temperature=0.5), precision=p, callbacks=[Note(), History()])
        for p in ("32", "bf16")
    )
    assert set(seen) == {torch.float32}
    assert half.loss == pytest.approx(single.loss, rel=0.05) and half.loss != single.loss
    assert all(p.dtype == torch.float32 for p in half.method.parameters())
