"""Replayed steps, with a recording that runs on a CPU: a replay writes to the memory of the first results."""

import pytest
import torch

from viewsmith import Contrastive
from viewsmith.core.errors import InputError
from viewsmith.core.schedule import Batch
from viewsmith.training import updates
from viewsmith.training.engine import Trainer
from viewsmith.training.updates import Compiled, ReplayedPasses


@pytest.fixture
def recorded(monkeypatch):
    """Recordings of a CPU; the number of replays."""
    count = [0]

    def record(work, generator):
        passes = work.__self__
        state = generator.get_state()
        work()
        generator.set_state(state)  # nothing runs while a GPU records
        loss, logs = passes.loss, passes.logs
        gradients = [parameter.grad for parameter in passes.parameters]

        def again():
            count[0] += 1
            work()
            for kept, new in zip([loss, *logs.values()], [passes.loss, *passes.logs.values()], strict=True):
                kept.copy_(new)
            passes.loss, passes.logs = loss, logs
            for kept, parameter in zip(gradients, passes.parameters, strict=True):
                kept.copy_(parameter.grad)

        return again

    monkeypatch.setattr(updates, "record", record)
    monkeypatch.setattr(updates, "beside", lambda work: work())
    return count


def noisy_passes(layer):
    """The passes of a layer on samples with noise."""

    def passes(batch):
        noise = torch.randn(batch.x.shape, generator=batch.generator)
        loss = (layer(batch.x + noise) * batch.index[:, None]).square().mean()
        layer.zero_grad()
        loss.backward()
        return loss.detach(), {"mean": batch.x.mean()}

    return passes


def test_every_step_has_its_own_samples_noise_loss_logs_and_gradients(recorded):
    torch.manual_seed(0)
    one, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    other.load_state_dict(one.state_dict())
    plain, replayed = noisy_passes(one), ReplayedPasses(noisy_passes(other), list(other.parameters()))
    kept = []
    for step in range(6):
        found = []
        for passes in (plain, replayed):
            generator = torch.Generator().manual_seed(step) if passes is plain else shared.manual_seed(step)
            found.append(passes(Batch(torch.full((4, 3), float(step)), torch.arange(4) + step, generator)))
        (loss, logs), (again, same) = found
        assert loss == again and logs == same
        assert all(torch.equal(a.grad, b.grad) for a, b in zip(one.parameters(), other.parameters(), strict=True))
        kept.append((loss, again))
        # What an engine does with gradients between steps must not change the next step.
        for parameter in other.parameters():
            parameter.grad.mul_(0.5) if step % 2 else setattr(parameter, "grad", None)
    assert recorded == [6 - updates.WARM_UP]
    assert all(loss == again for loss, again in kept), "a loss is overwritten by a later step"


shared = torch.Generator()


@pytest.mark.parametrize("clip", [None, 1e-2])
def test_a_training_of_replayed_steps_equals_one_of_launched_steps(recorded, monkeypatch, wine, clip):
    options = {"epochs": 3, "batch_size": 32, "view_maker": "noise", "random_state": 0, "gradient_clip": clip}
    launched = Contrastive(**options).fit(wine)
    assert recorded == [0]
    passes_of = Trainer._passes_of

    def replayed(self, run, update):
        assert update.static
        return ReplayedPasses(passes_of(self, run, update), run.parameters)

    monkeypatch.setattr(Trainer, "_passes_of", replayed)
    again = Contrastive(**options).fit(wine)
    assert recorded[0] == again.summary_["steps"] - updates.WARM_UP
    assert [row["loss"] for row in again.metrics_] == [row["loss"] for row in launched.metrics_]
    # Weights alone: this recording, unlike one of a GPU, runs the step, which BatchNorm's statistics see.
    both = zip(again.method_.parameters(), launched.method_.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in both)


def test_networks_are_compiled_within_the_context_alone(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda call, **how: lambda x: call(x) + 1)
    layer = torch.nn.Identity()
    compiled = Compiled(layer)
    x = torch.zeros(2)
    assert torch.equal(layer(x), x)
    with compiled():
        assert torch.equal(layer(x), x + 1)
    assert torch.equal(layer(x), x)


def test_compiling_needs_a_gpu_and_a_network(wine):
    with pytest.raises(InputError, match="compile is on and the device is cpu, expected a GPU: leave compile out"):
        Contrastive(compile=True, device="cpu").fit(wine)
