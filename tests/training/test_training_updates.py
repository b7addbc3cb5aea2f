"""One update: which parameters it trains, which it does not change, and errors for invalid updates."""

import pytest
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from training_toys import BATCH, SEED, D, rows

from refusals import refusal
from viewsmith.core import Batch, Method, Optimizer, Phase, TrainingError, Update
from viewsmith.modalities.dna.networks import SequenceBatchNorm, SequenceCNN
from viewsmith.training import Trainer
from viewsmith.training.updates import prepare_update, synchronize_batch_norm


class Parts(Method):
    """A module that is trained, one that the step uses without training it, and one that it does not use."""

    def __init__(self, trains=("encoder",), step=None):
        super().__init__()
        torch.manual_seed(0)
        self.encoder = nn.Sequential(nn.BatchNorm1d(D), nn.Linear(D, 3))
        self.head = nn.Sequential(nn.Tanh(), nn.BatchNorm1d(3), nn.Linear(3, 1))
        self.idle = nn.Sequential(nn.Linear(D, 2), nn.BatchNorm1d(2))
        self.trains, self.step, self.seen = trains, step or self.compared, []

    def phases(self):
        trains = tuple(self.get_parameter(name) if "." in name else getattr(self, name) for name in self.trains)
        return [Phase("train", 1, [Update("learn", self.step, trains, Optimizer("sgd", 0.1))])]

    def compared(self, batch):
        h = self.encoder(batch.x)
        self.seen.append(h.detach())
        return self.head(h)[:, 0].square(), {}


def train(method):
    return Trainer(method, seed=SEED, batch_size=BATCH).fit(rows())


def test_parameters_that_are_not_trained_do_not_change():
    method = Parts()
    before = {name: value.clone() for name, value in method.state_dict().items()}
    train(method)
    changed = {name for name, value in method.state_dict().items() if not torch.equal(value, before[name])}
    statistics = {f"{norm}.{name}" for norm in ("encoder.0", "head.1") for name in ("running_mean", "running_var")}
    counts = {"encoder.0.num_batches_tracked", "head.1.num_batches_tracked"}
    # Only weights of the encoder change, and statistics of all modules that the step used in training mode.
    assert changed == {name for name, _ in method.encoder.named_parameters("encoder")} | statistics | counts
    assert all(p.grad is None for part in (method.head, method.idle) for p in part.parameters())
    assert all(p.requires_grad for p in method.parameters())
    mean = torch.zeros(3)
    for h in method.seen:
        mean = 0.9 * mean + 0.1 * h.tanh().mean(0)
    torch.testing.assert_close(method.head[1].running_mean, mean)


def test_one_parameter_can_be_trained_alone():
    method = Parts(trains=("encoder.1.bias",))
    before = {name: p.detach().clone() for name, p in method.named_parameters()}
    train(method)
    assert {name for name, p in method.named_parameters() if not torch.equal(p, before[name])} == {"encoder.1.bias"}


def test_parameters_are_listed_once_and_in_order():
    shared = nn.Linear(2, 2)
    frozen = nn.Linear(2, 2).requires_grad_(False)
    other = nn.Sequential(nn.Linear(2, 1), shared)
    found = Update("a", lambda batch: None, (shared, frozen, other, shared.bias)).parameters()
    expected = [shared.weight, shared.bias, other[0].weight, other[0].bias]
    assert [id(p) for p in found] == [id(p) for p in expected]


def test_an_update_without_an_optimizer_has_the_defaults():
    method = Parts()
    run = prepare_update(Update("a", method.compared, (method.encoder,)), method)
    assert run.spec == Optimizer() and isinstance(run.optimizer, torch.optim.AdamW)
    assert run.step == method.compared  # nothing is wrapped in one process
    others = {id(p) for part in (method.head, method.idle) for p in part.parameters()}
    assert {id(p) for p in run.frozen_parameters} == others


def test_parameters_without_gradients_stay_frozen():
    method = Parts()
    method.idle.requires_grad_(False)
    train(method)
    assert not any(p.requires_grad for p in method.idle.parameters())


def test_parameters_are_unfrozen_after_an_error():
    def fail(batch):
        raise KeyError("of the step")

    method = Parts(step=fail)
    with pytest.raises(KeyError, match="of the step"):
        train(method)
    assert all(p.requires_grad for p in method.parameters())


def test_synchronized_batch_norm_has_the_same_parameters():
    method = Parts(trains=("encoder", "head.1.weight"))
    (phase,) = method.phases()  # made before the layers are replaced
    nn.SyncBatchNorm.convert_sync_batchnorm(method)
    assert sum(isinstance(part, nn.SyncBatchNorm) for part in method.modules()) == 3
    expected = [*method.encoder.parameters(), method.head[1].weight]
    assert [id(p) for p in prepare_update(phase.updates[0], method).parameters] == [id(p) for p in expected]


def x(method, batch):
    return method.encoder(batch.x)


@pytest.mark.parametrize(
    ("step", "part"),
    [
        (lambda m, b: (x(m, b), {}), "returns losses of shape (8, 3), expected one per sample, (8,)"),
        (lambda m, b: (x(m, b).mean(), {}), "returns losses of shape (), expected one per sample, (8,)"),
        (lambda m, b: (0.5, {}), "returns losses of type float, expected one per sample, (8,)"),
        (lambda m, b: x(m, b)[:, 0], "returns Tensor, expected (losses, logs): a tensor and a dict"),
        (lambda m, b: (x(m, b)[:, 0], 1.0), "returns (Tensor, float), expected (losses, logs): a tensor and a dict"),
        (lambda m, b: None, "returns NoneType, expected (losses, logs): a tensor and a dict"),
        (lambda m, b: (b.x[:, 0], {}), "returns losses that depend on none of the parameters in its trains"),
        (lambda m, b: (m.idle(b.x)[:, 0], {}), "returns losses that depend on none of the parameters in its trains"),
    ],
)
def test_a_step_with_an_invalid_result_is_refused_in_one_line(step, part):
    method = Parts(step=lambda batch: step(method, batch))
    with pytest.raises(TrainingError) as caught:
        train(method)
    assert str(caught.value) == f"the step of update 'learn' of Parts {part}"


def test_an_update_that_trains_nothing_is_refused():
    method = Parts()
    method.encoder.requires_grad_(False)
    assert "update 'learn' of Parts trains nothing" in refusal(train, method)
    assert "update 'learn' of Parts trains nothing" in refusal(train, Parts(trains=()))


def test_trained_parameters_must_be_part_of_the_method():
    method = Parts()
    update = Update("learn", method.compared, (method.encoder, nn.Linear(2, 2)))
    assert "parameters that are not part of the method" in refusal(prepare_update, update, method)


def test_invalid_updates_and_phases_are_refused():
    part, step = nn.Linear(2, 2), lambda batch: None
    one, other = Update("a", step, (part,)), Update("b", step, (part,), interval=3)
    assert Phase("p", 1, [one, other]).updates == [one, other]
    message = refusal(Phase, "p", 1, [one, other, one])
    assert message == "phase 'p' has 'a', 'b', 'a', expected at least one update, each with its own name"
    assert "phase 'p' has no updates" in refusal(Phase, "p", 1, [])
    for given, name in ((part, "Linear"), (part.weight, "Parameter"), (part.parameters(), "generator")):
        message = refusal(Update, "a", step, given)
        assert message == f"trains of update 'a' is a {name}, expected a tuple: write trains=(part,)"
    assert "interval of update 'a' is 0, expected at least 1" in refusal(Update, "a", step, (part,), interval=0)


def test_progress_is_that_of_the_learning_rate():
    """The progress of a phase that covers a part of the curve is a position on the whole curve."""

    class Half(Parts):
        def phases(self):
            half = Optimizer("sgd", 1.0, lr_span=(0.5, 1.0))
            return [Phase("second half", 2, [Update("learn", self.note, (self.encoder,), half)])]

        def note(self, batch: Batch):
            self.seen.append(batch.progress)
            return self.encoder(batch.x)[:, 0], {}

    method = Half()
    train(method)
    assert method.seen == [0.5 + step / 16 for step in range(8)]


def test_layers_that_only_inherit_from_batch_norm_are_not_replaced():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Sequential(nn.BatchNorm2d(2)))
    synchronize_batch_norm(plain)
    assert isinstance(plain[1], nn.SyncBatchNorm) and isinstance(plain[2][0], nn.SyncBatchNorm)
    encoder = SequenceCNN((4, 6), n_components=5)
    synchronize_batch_norm(encoder)
    kinds = {type(module) for module in encoder.modules() if isinstance(module, _BatchNorm)}
    assert kinds == {SequenceBatchNorm, nn.SyncBatchNorm}


class OfImages(Method):
    """A convolution with a 1 x 1 kernel, one of a single channel and one of neither, of images in channels-last."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.encoder = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Conv2d(4, 6, 3), nn.Conv2d(6, 2, 1))

    def phases(self):
        return [Phase("train", 1, [Update("learn", self.compared, (self.encoder,), Optimizer("sgd", 0.1))])]

    def compared(self, batch):
        x = batch.x.reshape(-1, 1, 8, 8).clone(memory_format=torch.channels_last)
        return self.encoder(x).square().mean((1, 2, 3)), {}


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_gradients_that_processes_average_have_the_strides_of_the_weights(tmp_path, monkeypatch):
    # DistributedDataParallel warns, once in each process, of gradients with other strides.
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        monkeypatch.setattr("viewsmith.core.distributed.is_distributed", lambda: True)
        method, generator = OfImages(), torch.Generator().manual_seed(0)
        batch = Batch(torch.randn(5, 64, generator=generator), torch.arange(5), generator)
        prepare_update(method.phases()[0].updates[0], method).step(batch)[0].mean().backward()
    finally:
        torch.distributed.destroy_process_group()
    alone = OfImages()
    alone.compared(batch)[0].mean().backward()
    for weight, expected in zip(method.parameters(), alone.parameters(), strict=True):
        assert weight.grad.stride() == weight.stride()
        assert torch.equal(weight.grad, expected.grad)
