"""The two steps of CRL-TAC, its inference and its warnings, on masks of a few features."""

import copy
import math

import pytest
import torch
from crl_tac_processes import CASES, M, batch, crl_tac, crl_tac_of, fixed_draws, gradients, samples, work
from torch import nn

from cases import slow
from slow_info_max import series, slow_bound, slow_info_max, slow_recurrence, slow_sampled
from viewsmith.core import Optimizer
from viewsmith.core.tensors import stream
from viewsmith.losses.info_max import MIN_NORM, entropy, on_sphere
from viewsmith.networks import CropCNN, CropScores
from viewsmith.training import Trainer
from viewsmith.views import AugmentationChannel, Crops


def steps(method):
    return {update.name: update for update in method.phases()[0].updates}


def slow_projections(method, x):
    """Projections of every view of every sample, computed one at a time."""
    empty = method.head(method.encoder(torch.zeros_like(x[:1])))[0] if method.options.centered else 0
    return torch.stack(
        [
            torch.stack([on_sphere(method.head(method.encoder((row * mask)[None]))[0] - empty) for mask in masks])
            for row, masks in zip(x, [method.channel.family.masks.double()] * len(x), strict=True)
        ]
    )


# ---- both steps as sums -------------------------------------------------------------------------------------------


def slow_gain(method, name, x, t):
    """The objective of a step by slow sums, with drawn transformations `t`."""
    z, p = slow_projections(method, x), method.channel.log_p(x).exp()
    drawn = z.gather(1, t[..., None].expand(-1, -1, z.shape[2]))
    if name == "encoder":
        if method.options.encoder_step == "exact":
            if method.options.objective == "information":
                return slow_info_max(z, p.detach(), 3.0)
            return slow_bound(z, p.detach(), 3.0, distinct=method.options.distinct)
        if method.options.objective == "information":
            return slow_info_max(drawn, torch.full_like(drawn[..., 0], 1 / 3), 3.0)
        return slow_sampled(drawn, torch.ones_like(drawn[..., 0]), 3.0)
    beta = method.options.channel_beta
    if method.options.channel_step == "exact":
        exp = series if beta <= 1 else torch.exp
        if method.options.objective == "information":
            gain = slow_info_max(z.detach(), p, beta, exp)
        else:
            gain = slow_bound(z.detach(), p, beta, distinct=method.options.distinct, exp=exp)
    else:
        w = torch.stack([torch.stack([M * row[k] for k in draws]) for row, draws in zip(p, t, strict=True)])
        if method.options.importance_weights == "normalized":
            w = torch.stack([3 * row / sum(row) for row in w])
        information = method.options.objective == "information"
        gain = slow_info_max(drawn.detach(), w / 3, beta) if information else slow_sampled(drawn.detach(), w, beta)
    if method.chosen_views is not None:
        used, weights = (z, p) if (method.options.channel_step == "exact") else (drawn, w / 3)
        stored, own = method.chosen_views.projections, torch.arange(len(x))[:, None] == method.chosen_views.rows
        gain = gain + 2.0 * beta * slow_recurrence(used.detach(), weights, stored, own)
    h = torch.stack([-sum(q * q.log() for q in row) for row in p])
    gain = gain + 0.1 * h
    if method.effective_target is not None:
        gain = gain - torch.stack([max(math.log(4) - each, 0 * each) ** 2 / 2 for each in h])
    return gain


@pytest.mark.parametrize("name", list(CASES))
def test_both_steps_equal_the_slow_sums_in_value_and_gradient(name):
    x, t = samples(), torch.randint(M, (8, 3), generator=torch.Generator().manual_seed(3))
    fast, slow = crl_tac(**CASES[name]), crl_tac(**CASES[name])
    for step, update in steps(fast).items():
        with fixed_draws(fast, t):
            loss, _ = update.step(batch(x))
        gain = slow_gain(slow, step, x, t)
        torch.testing.assert_close(loss, -gain, atol=1e-10, rtol=1e-10)
        weight = torch.arange(1.0, 9, dtype=torch.float64)
        found = torch.autograd.grad((weight * loss).sum(), update.parameters())
        expected = torch.autograd.grad(-(weight * gain).sum(), steps(slow)[step].parameters())
        assert max(each.abs().max() for each in expected) > 1e-3
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-8, msg=lambda m, n=number: f"{n}: {m}")


@pytest.mark.parametrize("name", list(CASES))
def test_the_channel_is_trained_in_float32_under_autocast(name):
    t, x = torch.randint(M, (8, 3), generator=torch.Generator().manual_seed(3)), samples().float()
    found = {}
    for enabled in (False, True):
        method = crl_tac(**CASES[name]).float()
        with fixed_draws(method, t), torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            p = method.channel.log_p(x)
            losses = {step: update.step(batch(x))[0] for step, update in steps(method).items()}
        assert all(loss.dtype is torch.float32 for loss in losses.values())
        slopes = torch.autograd.grad(losses["channel"].mean(), steps(method)["channel"].parameters())
        found[enabled] = p, torch.cat([slope.flatten() for slope in slopes])
    assert torch.equal(found[True][0], found[False][0])  # the channel's network is computed in float32
    # The remaining difference comes from the encoder's projections.
    assert (found[True][1] - found[False][1]).norm() < 0.03 * found[False][1].norm()


# ---- the encoder's step -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["exact", "sampled"])
def test_each_step_trains_its_modules(step):
    method = crl_tac(encoder_step=step, channel_step=step)
    parts = {"encoder": (method.encoder, method.head), "channel": (method.channel,)}
    for name, update in steps(method).items():
        method.zero_grad()
        update.step(batch())[0].sum().backward()
        for part, modules in parts.items():
            moves = [w.grad is not None and bool(w.grad.any()) for m in modules for w in m.parameters()]
            # Subtracting the empty view removes the last bias of the head.
            assert all(moves[:-1]) and moves[:-1] if part == name else not any(moves), (name, part)
        moved = {id(w) for w in update.parameters()}
        assert moved == {id(w) for m in parts[name] for w in m.parameters()}


# ---- the channel's step -------------------------------------------------------------------------------------------


def test_rows_that_the_channel_step_does_not_use_have_no_effect():
    method, x = crl_tac(channel_rows=3, effective_target=4.0), samples()
    loss, _ = steps(method)["channel"].step(batch(x))
    few, _ = steps(method)["channel"].step(batch(x[:3]))
    assert loss.shape == (8,) and not loss[3:].any()
    torch.testing.assert_close(loss.mean(), few.mean())


@pytest.mark.parametrize("step", ["exact", "sampled"])
def test_channel_step_does_not_change_batch_norm(step):
    method = crl_tac(norm="batch", channel_step=step)
    method.train()
    before = copy.deepcopy(method.encoder.state_dict())
    steps(method)["channel"].step(batch())
    assert all(torch.equal(before[key], value) for key, value in method.encoder.state_dict().items())
    assert method.encoder.training and method.head.training
    steps(method)["encoder"].step(batch())
    assert any(not torch.equal(before[key], value) for key, value in method.encoder.state_dict().items())


# ---- empty views --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["none", "batch"])
@pytest.mark.parametrize("training", [False, True])
def test_the_projection_of_a_centered_empty_view_is_zero(norm, training):
    method = crl_tac(norm=norm).train(training)
    views = samples(4)
    views[2] = 0
    z = method.project(views)
    assert z[2].norm() < 1e-9 and (z[[0, 1, 3]].norm(dim=1) > 0.9).all()
    assert crl_tac(norm=norm, centered=False).train(training).project(views)[2].norm() > 0.9


def test_on_sphere_is_smooth_at_zero():
    v = torch.zeros(2, 3, dtype=torch.float64)
    v[1] = torch.tensor([3.0, 0, 4])
    v.requires_grad_()
    z = on_sphere(v)
    torch.testing.assert_close(z, torch.tensor([[0, 0, 0], [0.6, 0, 0.8]]).double(), atol=1e-6, rtol=0)
    z.sum().backward()
    torch.testing.assert_close(v.grad[0], torch.full((3,), 1 / MIN_NORM).double())


def crops(bias, centered):
    """CRL-TAC on crops of images."""
    torch.manual_seed(0)
    channel = AugmentationChannel(Crops(64, 64), CropScores())
    encoder = CropCNN(n_components=16, bias=bias)
    head = nn.Sequential(nn.ReLU(), nn.Linear(16, 8, bias=bias))
    options = {
        "centered": centered,
        "draws": 4,
        "channel_rows": 32,
        "entropy_weight": 0.0,
        "effective_target": 4.0,
        "epochs": 20,
    }
    return crl_tac_of(encoder, head, channel, Optimizer("adam", 3e-3, schedule="constant"), **options)


def squares(n=96):
    generator = torch.Generator().manual_seed(0)
    """Images of a bright 8 x 8 square at a random position on black."""
    x = torch.zeros(n, 1, 64, 64)
    for row, corner in enumerate(torch.randint(57, (n, 2), generator=generator).tolist()):
        x[row, 0, corner[0] : corner[0] + 8, corner[1] : corner[1] + 8] = torch.rand(8, 8, generator=generator)
    return x


@pytest.mark.parametrize(
    ("bias", "centered", "starts"), [slow(False, False, True), slow(True, True, True), slow(True, False, False)]
)
def test_the_channel_leaves_the_uniform_distribution_if_empty_crops_have_no_information(bias, centered, starts):
    """If empty crops have a projection that is not zero, the channel stays uniform."""
    method, x = crops(bias, centered), squares()
    Trainer(method, seed=0, batch_size=32).fit(x)
    method.diagnose(x, stream(0, "x"))
    p = method.channel.log_p(x).detach().exp()
    seen = method.channel.family.all_views(x).flatten(2).amax(2) > 0
    uniform = float(seen.float().mean())
    mass = float((p * seen).sum(1).mean())
    assert 0.1 < uniform < 0.3
    assert (mass > 0.8) == starts, mass
    assert not (starts and method.warnings([]))


# ---- inference ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inference", "count"), [("expectation", None), ("expectation", 3), ("top", 2), ("uniform", None)]
)
def test_representation_and_projection_are_expectations_over_the_channel(inference, count):
    method = crl_tac(inference=inference, inference_count=count).eval()
    x = samples()
    weights = method.channel.inference_weights(x, inference, count)
    f = torch.stack([method.encoder(x * mask) for mask in method.channel.family.masks.double()], dim=1)
    torch.testing.assert_close(method.represent(x), (weights[..., None] * f).sum(1))
    z = (weights[..., None] * slow_projections(method, x)).sum(1)
    torch.testing.assert_close(method.represent(x, "projection"), on_sphere(z))


def test_the_representation_of_a_crop_is_the_encoders_output():
    method = crops(False, False).eval()
    view = method.view(squares(3), generator=stream(0, "x"))
    assert view.shape == (3, 1, 20, 20)
    torch.testing.assert_close(method.represent(view), method.encoder(view))
    torch.testing.assert_close(method.represent(view, "projection"), method.project(view))


# ---- diagnostics --------------------------------------------------------------------------------------------------


def test_diagnostics_of_the_channel():
    method, x = crl_tac(), samples()
    diagnostics = method.diagnose(x, stream(0, "x"))
    log_p = method.channel.log_p(x)
    assert diagnostics["entropy"] == pytest.approx(float(entropy(log_p).mean()))
    assert diagnostics["effective"] == pytest.approx(math.exp(diagnostics["entropy"]))
    assert diagnostics["largest_p"] == pytest.approx(float(log_p.exp().amax(1).mean()))


@pytest.mark.parametrize(
    ("scale", "target", "said"),
    [
        (0.0, None, "the channel has not left the uniform distribution: it draws from 5 of 5 transformations"),
        (0.0, 4.9, None),  # at its target
        (1.0, None, None),
        (1000.0, None, "the channel has collapsed: it draws from 1 of 5 transformations"),
        (1000.0, 2.0, None),  # close to its target
        (1000.0, 4.0, "the channel has collapsed"),
    ],
)
def test_warnings_of_a_uniform_or_collapsed_channel(scale, target, said):
    method = crl_tac(effective_target=target)
    assert not method.warnings([])
    with torch.no_grad():
        method.channel.scores.outer.weight.mul_(scale)
        method.channel.scores.outer.bias.zero_()
    method.diagnose(samples(), stream(0, "x"))
    assert [said in line for line in method.warnings([])] == ([] if said is None else [True])


@pytest.mark.parametrize(
    ("effective", "progress", "target", "name"),
    [
        ([1.2], 0.1, None, "collapse"),  # it starts with 5
        ([4.0, 1.49], 0.2, None, "collapse"),
        ([4.0, 1.51], 0.2, None, None),
        ([1.1, 1.4], 0.2, None, None),  # recovering
        ([1.1, 1.4], 1.0, None, "collapse"),  # not recovered at the end
        ([1.1, 1.1], 0.2, 4.0, "collapse"),
        ([4.0, 1.2], 0.2, 2.0, None),  # close to its target
        ([4.9, 4.9, 4.9], 0.19, None, None),
        ([4.9, 4.9], 0.2, None, None),  # too few diagnostics
        ([4.9, 4.9, 4.9], 0.2, None, "idle"),
        ([4.9, 4.9, 4.7], 0.5, None, None),
        ([4.9, 4.9, 4.9], 1.0, 4.5, None),  # at its target
    ],
)
def test_early_warnings_of_a_collapsing_or_uniform_channel(effective, progress, target, name):
    method = crl_tac(effective_target=target)
    rows = [{"loss": 1.0}] + [{"effective": value} for value in effective]
    found = method.early_warnings(rows, progress)
    assert list(found) == ([] if name is None else [name])
    said = {
        "collapse": f"the channel is collapsing: it draws from {effective[-1]:.3g} of 5 transformations, after ",
        "idle": "the channel has not left the uniform distribution yet: it draws from 4.9 of 5 transformations",
    }
    assert all(found[key].startswith(said[key]) for key in found)
    assert method.early_warnings(rows[:1], progress) == {}
    assert crl_tac(learned=False).early_warnings(rows, progress) == {}


def test_a_uniform_channel_has_one_update_and_no_warning():
    method = crl_tac(learned=False)
    assert list(steps(method)) == ["encoder"]
    method.diagnose(samples(), stream(0, "x"))
    assert not method.warnings([])


# ---- several processes --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_two(tensors_of_pair):
    """The results of each of two processes."""
    return tensors_of_pair(work)


@pytest.mark.parametrize("name", list(CASES))
def test_two_processes_have_the_same_gradients_as_one(of_two, name):
    expected = gradients(name)
    assert {key.split(":")[0] for key in expected} == {"encoder", "channel"}
    for found in of_two:
        torch.testing.assert_close(found[name], expected, rtol=1e-10, atol=1e-12)
