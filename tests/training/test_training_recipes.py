"""Training recipes: parameter groups, LARS, weight-decay schedules, frozen layers, constant learning rates."""

import copy
import math
from dataclasses import replace
from functools import partial
from typing import ClassVar

import pytest
import torch
from torch import nn
from training_toys import BATCH, SEED, D, rows

from refusals import refusal
from stopping import Stop
from viewsmith.core import Method, Optimizer, Phase, Update
from viewsmith.frameworks import BYOL, DINO, MoCoV3, SimCLR, SimSiam, SwAV
from viewsmith.methods import ContrastiveMethod
from viewsmith.networks import MLP
from viewsmith.training import Callback, CheckpointFolder, Trainer
from viewsmith.training.updates import LARS, make_groups, make_optimizer, prepare_update, set_rates, weight_decay
from viewsmith.views import GaussianNoise, PairMaker


def network():
    torch.manual_seed(2)
    # The gradient of a bias before a BatchNorm is only rounding error, which a trust ratio would amplify.
    return nn.Sequential(nn.Linear(D, 6, bias=False), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3)).double()


def backward(model, step):
    x = torch.randn(8, D, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
    model.zero_grad()
    (model(x) - x[:, :3]).square().mean().backward()


# --- torch's optimizers


@pytest.mark.parametrize(
    ("spec", "plain"),
    [
        (Optimizer("adamw", 1e-2, weight_decay=0.1), torch.optim.AdamW),
        (Optimizer("adam", 1e-2, weight_decay=0.1), torch.optim.Adam),
        (Optimizer("sgd", 1e-2, weight_decay=0.1, momentum=0.9), partial(torch.optim.SGD, momentum=0.9)),
        (Optimizer("lars", 1e-2, weight_decay=0.1, momentum=0.9), partial(LARS, momentum=0.9)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_optimizers_equal_those_of_torch(spec, plain):
    ours, theirs = network(), network()
    fused = {} if spec.name == "lars" else {"fused": True}
    optimizers = (
        make_optimizer(spec, list(ours.parameters())),
        plain(theirs.parameters(), lr=1e-2, weight_decay=0.1, **fused),
    )
    for step in range(6):
        if step == 3:  # what a checkpoint holds
            again = make_optimizer(spec, list(ours.parameters()))
            again.load_state_dict(optimizers[0].state_dict())
            optimizers = again, optimizers[1]
        for model, optimizer in zip((ours, theirs), optimizers, strict=True):
            backward(model, step)
            optimizer.step()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(p, q)
        assert p.grad is not None
    optimizers[0].zero_grad()
    assert ours[0].weight.grad is None


# --- LARS


def slow_lars(model, velocities, *, rate, momentum, decay, eta, exclude):
    """You et al. 2017, algorithm 1, as a loop over the parameters."""
    for name, p in model.named_parameters():
        w, g = p.data.flatten().tolist(), p.grad.flatten().tolist()
        plain = exclude and p.ndim == 1
        beta = 0.0 if plain else decay
        length, slope = math.sqrt(sum(v * v for v in w)), math.sqrt(sum(v * v for v in g))
        below = slope + beta * length
        trust = 1.0 if plain or length == 0 or below == 0 else eta * length / below
        v = velocities.setdefault(name, [0.0] * len(w))
        for i in range(len(w)):
            v[i] = momentum * v[i] + rate * trust * (g[i] + beta * w[i])
            w[i] -= v[i]
        p.data.copy_(torch.tensor(w, dtype=p.dtype).view_as(p))


@pytest.mark.parametrize("exclude", [True, False])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_lars_equals_a_loop(exclude, decay):
    fast, slow, velocities = network(), network(), {}
    spec = Optimizer(
        "lars", 0.7, weight_decay=decay, momentum=0.8, trust_coefficient=0.05, exclude_norm_and_bias=exclude
    )
    optimizer = make_optimizer(spec, list(fast.parameters()))
    nn.init.zeros_(fast[3].weight)  # of norm 0: the trust ratio is 1
    nn.init.zeros_(slow[3].weight)
    before = copy.deepcopy(fast.state_dict())
    for step in range(6):
        backward(fast, step)
        backward(slow, step)
        set_rates(optimizer, spec, step / 6)
        optimizer.step()
        rate = 0.7 * 0.5 * (1 + math.cos(math.pi * step / 6))
        slow_lars(slow, velocities, rate=rate, momentum=0.8, decay=decay, eta=0.05, exclude=exclude)
    for name, p in fast.named_parameters():
        torch.testing.assert_close(p, slow.get_parameter(name), rtol=1e-12, atol=1e-13)
        assert not torch.equal(p, before[name])


def test_lars_in_float32_is_close_to_float64_and_skips_what_has_no_gradient():
    one, other = network(), network().float()
    for model in (one, other):
        optimizer = LARS(model.parameters(), 0.5, weight_decay=0.1, trust_coefficient=0.02)
        for step in range(4):
            x = torch.randn(8, D, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
            optimizer.zero_grad()
            model(x.to(model[0].weight.dtype)).square().mean().backward()
            model[0].weight.grad = None
            optimizer.step()
    for name, p in one.named_parameters():
        torch.testing.assert_close(p.float(), other.get_parameter(name), rtol=1e-4, atol=1e-5)
    assert torch.equal(one[0].weight, network()[0].weight)


# --- groups and schedules


def roles_of_simsiam():
    framework = SimSiam(MLP(D, [6], norm="batch", last="activated"), MLP(6, [3]), MLP(3, [4, 3], norm="batch"))
    update = Update("encoder", lambda batch: None, (framework,))
    return framework, update


def test_without_a_recipe_there_is_one_group():
    _, update = roles_of_simsiam()
    (group,) = make_groups(Optimizer(weight_decay=0.1), update.parameters(), {})
    assert group["params"] == update.parameters() and group["weight_decay"] == 0.1
    assert not group["excluded"] and not group["constant_rate"] and not group["frozen_until"]


def test_norms_and_biases_have_no_decay_and_the_predictor_has_a_constant_rate():
    framework, update = roles_of_simsiam()
    spec = Optimizer(
        "sgd", 0.5, weight_decay=0.1, final_weight_decay=0.3, exclude_norm_and_bias=True, constant_predictor_rate=True
    )
    optimizer = make_optimizer(spec, update.parameters(), {"predictor": update.parameters_of("predictor")})
    set_rates(optimizer, spec, 0.5)
    seen = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    assert len(seen) == len(list(framework.parameters()))
    for name, p in framework.named_parameters():
        norm_or_bias = p.ndim == 1
        assert norm_or_bias == (name.endswith("bias") or ".1." in name)
        group = seen[id(p)]
        assert group["lr"] == (0.5 if name.startswith("predictor") else pytest.approx(0.25))
        assert group["weight_decay"] == (0 if norm_or_bias else pytest.approx(0.2))
    # The metrics have the rate of the schedule.
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.25)


FRAMEWORKS = {
    "simclr": lambda: SimCLR(MLP(D, [6], norm="batch"), MLP(6, [3])),
    "simsiam": lambda: SimSiam(MLP(D, [6], norm="batch"), MLP(6, [3]), MLP(3, [4, 3])),
    "byol": lambda: BYOL(MLP(D, [6], norm="batch"), MLP(6, [3]), MLP(3, [4, 3])),
    "moco-v3": lambda: MoCoV3(MLP(D, [6], norm="batch"), MLP(6, [3]), MLP(3, [4, 3])),
    "swav": lambda: SwAV(MLP(D, [6], norm="batch"), MLP(6, [3]), prototypes=5),
    "dino": lambda: DINO(MLP(D, [6], norm="batch"), MLP(6, [3]), out_dim=5),
}
PREDICTORS, PROTOTYPES = ("simsiam", "byol", "moco-v3"), ("swav", "dino")


def method(framework, epochs=3, **recipe):
    torch.manual_seed(1)
    optimizer = Optimizer(**{"name": "sgd", "learning_rate": 0.1} | recipe)
    return ContrastiveMethod(
        FRAMEWORKS[framework](), PairMaker([GaussianNoise(0.5)]), epochs=epochs, optimizer=optimizer
    )


class Watch(Callback):
    """Records the weights of a module after each step, and its learning rate."""

    def __init__(self, part):
        self.part, self.weights, self.rates = part, [], []

    def step(self, trainer):
        p = next(trainer.method.framework.get_submodule(self.part).parameters())
        self.weights.append(p.detach().clone())
        groups = trainer.running[0].optimizer.param_groups
        self.rates += [group["lr"] for group in groups if any(p is other for other in group["params"])]


def watched(framework, part, **recipe):
    watch = Watch(part)
    Trainer(method(framework, **recipe), seed=SEED, batch_size=BATCH, callbacks=[watch]).fit(rows())
    return watch


@pytest.mark.parametrize("name", PREDICTORS)
def test_the_rate_of_a_predictor_is_constant(name):
    constant, falling = (
        watched(name, "predictor", constant_predictor_rate=constant).rates for constant in (True, False)
    )
    assert constant == [0.1] * 12 and falling == sorted(falling, reverse=True) and falling[-1] < 0.01
    encoder = watched(name, "encoder", constant_predictor_rate=True).rates
    assert encoder == falling


@pytest.mark.parametrize("optimizer", ["adamw", "sgd", "lars"])
def test_the_rate_of_a_head_is_a_multiple_of_the_encoders(optimizer):
    head, encoder, plain = (
        watched("simclr", part, name=optimizer, head_lr_scale=rate).rates
        for part, rate in (("head", 0.3), ("encoder", 0.3), ("head", 1.0))
    )
    assert encoder == plain and head == [0.3 * rate for rate in encoder] and encoder[0] > encoder[-1] > 0


@pytest.mark.parametrize("name", PROTOTYPES)
@pytest.mark.parametrize("optimizer", ["adamw", "sgd", "lars"])
def test_a_frozen_last_layer_and_its_optimizer_state_do_not_change(name, optimizer):
    layer = method(name).framework.training_roles["last layer"]
    recipe = {"name": optimizer, "weight_decay": 0.1, "clip": 1e-4}
    weights = watched(name, layer, freeze_last_layer=0.5, **recipe).weights
    start = getattr(method(name).framework, layer).weight
    assert all(torch.equal(w, start) for w in weights[:6]) and not torch.equal(weights[6], start)
    assert not torch.equal(watched(name, layer, **recipe).weights[0], start)
    encoder = watched(name, "encoder", freeze_last_layer=0.5, **recipe).weights
    assert not torch.equal(encoder[0], encoder[1])


def test_gradients_of_frozen_parameters_are_not_clipped_with_the_others():
    class Two(Method):
        training_roles: ClassVar = {"last layer": "last"}

        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
            nn.init.zeros_(self.first.weight)

        def phases(self):
            spec = Optimizer("sgd", 1.0, momentum=0.0, schedule="constant", clip=0.5, freeze_last_layer=0.9)
            return [Phase("one", 1, [Update("a", self.descend, (self,), spec)])]

        def descend(self, batch):
            return -(self.first.weight[0, 0] + 100 * self.last.weight[0, 0]).expand(len(batch.x)), {}

    found = Two()
    Trainer(found, batch_size=4).fit(rows(4))
    assert found.first.weight.item() == pytest.approx(0.5, rel=1e-4)


def test_weight_decay_by_hand():
    spec = Optimizer(weight_decay=0.04, final_weight_decay=0.4, warmup=0.5)
    middle = 0.4 + (0.04 - 0.4) * 0.5 * (1 + math.cos(math.pi / 4))
    for progress, expected in ((0, 0.04), (0.25, middle), (0.5, 0.22), (1, 0.4)):
        assert weight_decay(spec, progress) == pytest.approx(expected, abs=1e-12)
        assert weight_decay(Optimizer(weight_decay=0.04), progress) == 0.04


def test_freezing_and_weight_decay_follow_the_curve_of_the_rate():
    """A phase that covers the second half of a curve starts in the middle of it."""

    class Half(ContrastiveMethod):
        def phases(self):
            (phase,) = super().phases()
            second = replace(phase.updates[0], optimizer=replace(self.optimizer, lr_span=(0.5, 1)))
            return [replace(phase, updates=[second])]

    torch.manual_seed(1)
    optimizer = Optimizer("sgd", 0.1, weight_decay=0.0, final_weight_decay=1.0, freeze_last_layer=0.75)
    half = Half(FRAMEWORKS["swav"](), PairMaker([GaussianNoise(0.5)]), epochs=2, optimizer=optimizer)
    start, watch = half.framework.prototypes.weight.detach().clone(), Watch("prototypes")
    trainer = Trainer(half, seed=SEED, batch_size=BATCH, callbacks=[watch])
    trainer.fit(rows())
    assert [torch.equal(w, start) for w in watch.weights] == [True] * 4 + [False] * 4
    assert trainer.running[0].optimizer.param_groups[0]["weight_decay"] == weight_decay(optimizer, 0.5 + 0.5 * 7 / 8)


@pytest.mark.parametrize(
    ("name", "recipe"),
    [
        (
            "simsiam",
            {"name": "lars", "weight_decay": 0.1, "exclude_norm_and_bias": True, "constant_predictor_rate": True},
        ),
        ("swav", {"name": "lars", "final_weight_decay": 0.2, "freeze_last_layer": 0.3}),
        ("dino", {"name": "adamw", "final_weight_decay": 0.2, "freeze_last_layer": 0.5, "exclude_norm_and_bias": True}),
    ],
)
def test_a_recipe_resumes_bit_for_bit(name, recipe, tmp_path):
    def run(folder, callbacks=(), resume=False):
        trainer = Trainer(
            method(name, **recipe), seed=SEED, batch_size=BATCH, callbacks=callbacks,
            checkpoint=CheckpointFolder(folder), checkpoint_every=1e9,
        )  # fmt: skip
        return trainer.fit(rows(), resume=resume), trainer.method.state_dict()

    _, whole = run(tmp_path / "whole")
    status, _ = run(tmp_path / "parts", [Stop(5)])
    assert status == "interrupted"
    _, resumed = run(tmp_path / "parts", resume=True)
    assert all(torch.equal(value, resumed[key]) for key, value in whole.items())


def test_a_recipe_for_a_role_that_no_module_has_is_refused():
    torch.manual_seed(1)
    plain = ContrastiveMethod(
        SimCLR(MLP(D, [6]), MLP(6, [3])), PairMaker([GaussianNoise()]), epochs=1,
        optimizer=Optimizer(constant_predictor_rate=True),
    )  # fmt: skip
    (phase,) = plain.phases()
    message = refusal(prepare_update, phase.updates[0], plain)
    assert message == (
        "update 'encoder' of ContrastiveMethod has no predictor, for which its optimizer has a setting: name "
        "its module in training_roles of the framework"
    )
