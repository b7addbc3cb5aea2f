"""Tests of every framework: one value per sample, state that changes only in training and is saved, and errors."""

import re
from pathlib import Path

import pytest
import torch
from framework_cases import FRAMEWORKS, MULTICROP, WIDTH, B, D, build, make, pair, part, state, trainable
from framework_processes import steps, work
from torch import nn

from refusals import refusal
from viewsmith import frameworks
from viewsmith.core.registry import find
from viewsmith.frameworks import SoftSettings
from viewsmith.networks import MLP
from viewsmith.views import PositivePair

every_framework = pytest.mark.parametrize("name", FRAMEWORKS)
COPYING = ("moco", "moco-v3", "byol", "dino")
# The loss of a sample depends on its own views only (and on state or batch statistics, which are constants).
SEPARATE = ("moco", "byol", "simsiam", "dino", "vicreg", "barlow-twins", "lejepa")


BUILT_IN = [name for name in FRAMEWORKS if find("framework", name).origin == "viewsmith"]
# State that a training step changes, besides momentum copies.
STATE = {"moco": {"keys", "key_ids", "pointer"}, "nnclr": {"keys", "pointer"}, "dino": {"center"}, "lejepa": {"stream"}}


def views(name, **options):
    return pair(crops=2 if name in MULTICROP else 0, **options)


def train(framework, batches, rate=0.1):
    """A plain training loop."""
    optimizer = torch.optim.SGD(trainable(framework), lr=rate)
    losses = []
    for number, batch in enumerate(batches):
        loss = framework(batch, progress=number / len(batches)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@every_framework
def test_losses_keep_the_order_of_the_batch(name):
    order = torch.tensor([3, 5, 0, 2, 4, 1])
    losses, moved = build(name)(views(name)), build(name)(part(views(name), order))
    assert losses.shape == (B,) and len(losses.unique()) == B
    torch.testing.assert_close(moved, losses[order], rtol=1e-10, atol=1e-12)


@every_framework
def test_a_loss_belongs_to_its_sample(name):
    whole = views(name)
    whole.first.requires_grad_()
    whole.second.requires_grad_()
    for i, loss in enumerate(build(name)(whole)):
        first, second = torch.autograd.grad(loss, (whole.first, whole.second), retain_graph=True, allow_unused=True)
        assert first[i].abs().max() > 0
        assert (second is None) == (name == "moco")  # its second views are keys
        assert second is None or second[i].abs().max() > 0
        if name in SEPARATE:
            others = torch.arange(B) != i
            assert first[others].abs().max() == 0 and (second is None or second[others].abs().max() == 0)


@every_framework
def test_sample_weights_scale_the_gradients_of_samples(name):
    framework = build(name).eval()
    parameters, losses = trainable(framework), framework(views(name))
    ones = torch.ones_like(losses)
    doubled = ones.clone()
    doubled[2] = 2
    plain = torch.autograd.grad(losses.mean(), parameters, retain_graph=True)
    weighted = torch.autograd.grad((ones * losses).mean(), parameters, retain_graph=True)
    assert all(torch.equal(one, other) for one, other in zip(plain, weighted, strict=True))
    more = torch.autograd.grad((doubled * losses).mean(), parameters, retain_graph=True)
    added = torch.autograd.grad(losses[2] / B, parameters)
    for a, b, c in zip(more, plain, added, strict=True):
        torch.testing.assert_close(a, b + c, rtol=1e-9, atol=1e-13)
        assert c.abs().max() > 0


@every_framework
def test_only_training_changes_state(name):
    framework = build(name, norm="batch")
    before = state(framework)
    framework.eval()(views(name)).mean().backward()
    assert all(torch.equal(value, before[key]) for key, value in framework.state_dict().items())
    framework.train()
    with torch.no_grad():
        framework(views(name))
    still = {key for key in before if "running" not in key and "tracked" not in key}
    assert all(torch.equal(framework.state_dict()[key], before[key]) for key in still)
    framework(views(name))
    moved = {key for key in still if not torch.equal(framework.state_dict()[key], before[key])}
    expected = {key for key in still if "_copy" in key}
    assert moved >= expected and moved.isdisjoint(key for key, p in framework.named_parameters() if p.requires_grad)
    if name in BUILT_IN:
        assert moved == expected | STATE.get(name, set())


@every_framework
def test_training_resumes_from_a_saved_state(name):
    batches = [views(name, seed=seed) for seed in range(5)]
    framework = build(name, norm="batch")
    train(framework, batches[:3])
    resumed = make(name, "batch").double()
    resumed.load_state_dict(state(framework))
    one, other = framework(batches[3]), resumed(batches[3])
    assert torch.equal(one, other)
    assert torch.equal(framework(batches[4]), resumed(batches[4]))


@every_framework
def test_no_gradient_reaches_copies(name):
    framework = build(name)
    framework(views(name)).mean().backward()
    copies = {key: p for key, p in framework.named_parameters() if "_copy" in key}
    assert name not in BUILT_IN or bool(copies) == (name in COPYING)
    assert all(not p.requires_grad and p.grad is None for p in copies.values())
    assert all(p.grad is not None for key, p in framework.named_parameters() if key not in copies)


@every_framework
def test_copies_have_separate_batch_norm_statistics(name):
    framework = build(name, norm="batch")
    framework(views(name))
    own = {key: value for key, value in framework.state_dict().items() if key.startswith("encoder.1.")}
    assert int(own["encoder.1.num_batches_tracked"]) == 1
    if name in COPYING:
        copied = {key.replace("encoder", "encoder_copy"): value for key, value in own.items()}
        found = framework.state_dict()
        assert int(found["encoder_copy.1.num_batches_tracked"]) == 1
        assert not torch.equal(found["encoder_copy.1.running_mean"], copied["encoder_copy.1.running_mean"])


@pytest.mark.parametrize("name", [name for name in FRAMEWORKS if name != "moco"])
def test_views_share_their_batch_norm_statistics(name):
    framework, batch = build(name, norm="batch"), pair()
    framework(batch)
    norm = framework.encoder[1]
    assert isinstance(norm, nn.BatchNorm1d) and int(norm.num_batches_tracked) == 1
    seen = framework.encoder[0](torch.cat([batch.first, batch.second])).mean(0)
    torch.testing.assert_close(norm.running_mean, 0.1 * seen)


@every_framework
def test_the_loss_is_computed_in_float32_under_autocast(name):
    def without_networks(dtype):
        """A framework whose projections are the samples."""
        framework = build(name, dtype)
        for module in ("encoder", "head", "map_head", "predictor", "encoder_copy", "head_copy"):
            if hasattr(framework, module):
                setattr(framework, module, nn.Identity())
        return framework

    def projections(dtype):
        """Values that networks return under autocast, (B, WIDTH), in a dtype that represents them exactly."""
        batch = views(name, dtype=torch.bfloat16)
        local = None if batch.local is None else batch.local[..., :WIDTH].to(dtype)
        return PositivePair(batch.first[:, :WIDTH].to(dtype), batch.second[:, :WIDTH].to(dtype), batch.ids, local)

    with torch.autocast("cpu", torch.bfloat16):
        losses = without_networks(torch.float32)(projections(torch.bfloat16))
    exact = without_networks(torch.float64)(projections(torch.float64))
    assert losses.dtype == torch.float32 and exact.dtype == torch.float64
    # In bfloat16 the error would be at least 1e-3.
    torch.testing.assert_close(losses.double(), exact, rtol=1e-4, atol=1e-5)


@every_framework
def test_float32_is_close_to_float64(name):
    one, other = build(name), build(name)
    single = other.float()(views(name, dtype=torch.float32))
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), one(views(name)), rtol=2e-4, atol=1e-5)


@every_framework
def test_multicrop_views(name):
    batch = pair(crops=2)
    if name in MULTICROP:
        assert build(name)(batch).shape == (B,)
        said = refusal(build(name), PositivePair(batch.first, batch.second, None, batch.local[:3]))
        assert said.startswith("the shape of the multi-crop views is (3, 2, 4), expected (6, views, ...)")
    else:
        said = refusal(build(name), batch)
        assert said == f"multi-crop views need one of the frameworks dino, lejepa, swav, got {name}"


@every_framework
def test_samples_of_zeros_are_legal(name):
    framework = build(name)
    batch = pair()
    losses = framework(PositivePair(torch.zeros_like(batch.first), batch.second, batch.ids))
    losses.mean().backward()
    assert losses.isfinite().all() and all(p.grad.isfinite().all() for p in trainable(framework))


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("moco", {"queue": 0}, "queue is 0, expected at least 1"),
        ("moco", {"temperature": 0}, "temperature is 0, expected a number above 0"),
        ("moco-v3", {"momentum": float("nan")}, "momentum is nan, expected a number from 0 to 1"),
        ("nnclr", {"queue": 0}, "queue is 0, expected at least 1"),
        ("swav", {"prototypes": 1}, "prototypes is 1, expected at least 2"),
        ("swav", {"temperature": float("inf")}, "temperature is inf, expected a number above 0"),
        ("swav", {"queue": -1}, "queue is -1, expected 0 or more"),
        ("dino", {"out_dim": 1}, "out_dim is 1, expected at least 2"),
        ("dino", {"warmup": 2}, "warmup is 2, expected a fraction from 0 to 1"),
        ("vicreg", {"invariance_weight": -1}, "invariance_weight is -1, expected a number of at least 0"),
        ("lejepa", {"n_slices": 0}, "n_slices is 0, expected at least 1"),
        ("lejepa", {"n_knots": 1}, "n_knots is 1, expected at least 2"),
    ],
)
def test_settings_out_of_range_are_rejected(name, options, said):
    assert refusal(build, name, **options) == said


@pytest.mark.parametrize("name", ["moco-v3", "byol", "simsiam", "nnclr"])
def test_a_predictor_of_another_width_is_rejected(name):
    framework = build(name)
    framework.predictor = MLP(3, [1]).double()
    assert refusal(framework, pair()) == "the predictor's output width is 1, expected that of the projections, 3"


@pytest.mark.parametrize("name", ["moco", "swav", "dino"])
def test_the_output_width_of_a_head_can_be_given(name):
    cls = type(build(name))
    encoder, head = MLP(D, [5]), nn.Linear(5, 3)
    assert "no attribute n_components" in refusal(cls, encoder, head)
    options = {"moco": {"queue": 8}, "swav": {"prototypes": 4}, "dino": {"out_dim": 4}}[name]
    assert cls(encoder, head, width=3, **options)(pair(torch.float32)).shape == (B,)


@pytest.mark.parametrize("name", ["moco-v3", "byol", "dino"])
def test_progress_out_of_range_is_rejected(name):
    assert "expected the fraction of the training that is done, 0 to 1" in refusal(build(name), pair(), progress=1.5)


@every_framework
def test_training_lowers_the_loss(name):
    """The views are 32 samples with jitter."""
    generator = torch.Generator().manual_seed(3)
    samples = 2 * torch.randn(32, D, generator=generator, dtype=torch.float64)

    def batch():
        ids = torch.randperm(32, generator=generator)
        jitter = 0.1 * torch.randn(2, 32, D, generator=generator, dtype=torch.float64)
        return PositivePair(samples[ids] + jitter[0], samples[ids] + jitter[1], (ids, ids))

    # DINO has a fixed teacher, and soft has hard labels, because the loss includes the entropy of its targets. With the
    # published weights of VICReg, the steps of gradient descent would be 25 times larger.
    options = {
        "moco": {"queue": 64},
        "nnclr": {"queue": 64},
        "dino": {"momentum": 1, "center_momentum": 1},
        "soft": {"loss": SoftSettings(target_distance=1e6), "map_loss": SoftSettings(target_distance=1e6)},
        "vicreg": {"invariance_weight": 1, "variance_weight": 1, "covariance_weight": 0.04},
    }.get(name, {})
    losses = train(build(name, norm="batch", **options), [batch() for _ in range(120)], rate=0.2)
    early, late = sum(losses[1:10]) / 9, sum(losses[-10:]) / 10
    assert late < early - 0.05 * abs(early)


PAGE = (Path(__file__).parents[2] / "docs/which_method.md").read_text("utf-8")


def test_the_docs_build_every_framework():
    built = re.findall(r"```python\nframework = (\w+)\(", PAGE)
    classes = [value for value in vars(frameworks).values() if isinstance(value, type)]
    expected = [c.__name__ for c in classes if issubclass(c, frameworks.Framework) and c is not frameworks.Framework]
    assert sorted(built) == sorted(expected)


@pytest.fixture(scope="module")
def of_two(tensors_of_pair):
    """The results of each of two processes, for every framework."""
    return tensors_of_pair(work)


@pytest.mark.parametrize("name", list(FRAMEWORKS))
def test_two_processes_equal_one_on_the_whole_batch(of_two, name):
    expected = steps(name)
    for found in of_two:
        torch.testing.assert_close(found[name], expected, rtol=1e-8, atol=1e-12)
    # Queue, center and weights are bit-identical in both processes.
    torch.testing.assert_close(*(found[name] for found in of_two), rtol=0, atol=0)
