"""The conditional diffusion model: its loss, conditions and averaged weights."""

import copy

import pytest
import torch
from diffusion_toys import MODALITIES, C, ToyDenoiser, data_of, draw, model_of
from torch import nn

from refusals import refusal
from viewsmith.views.generated.diffusion import Schedule

# --- the loss


@pytest.mark.parametrize(("prediction", "dtype"), [("eps", torch.float32), ("v", torch.float64), ("x0", torch.float64)])
@pytest.mark.parametrize("modality", MODALITIES)
def test_the_loss_against_a_loop(modality, prediction, dtype):
    model, (x, y) = model_of(modality, dtype, prediction=prediction, schedule="cosine"), data_of(modality, dtype=dtype)
    found = model.loss(x, y, draw(3))
    assert found.shape == (len(x),) and found.dtype == dtype

    generator, u, schedule = draw(3), model.latents.encode(x), Schedule.named("cosine")
    times = torch.randint(1000, (len(x),), generator=generator)
    noise = torch.randn(u.shape, generator=generator, dtype=dtype)
    deviation = y.std(0, correction=0)
    for row, t in enumerate(times.tolist()):
        alpha_bar = schedule.alpha_bar[t].item()
        real = [i for i in range(x.shape[-1]) if modality != "dna" or x[row, :, i].abs().sum() > 0]
        x_t = alpha_bar**0.5 * u[row] + (1 - alpha_bar) ** 0.5 * noise[row]
        if modality == "dna":
            x_t[:, len(real) :] = 0
        condition = (y[row] - y.mean(0)) / deviation
        output = model.denoiser(x_t[None], times[row : row + 1], condition[None])[0]
        targets = {"eps": noise[row], "x0": u[row], "v": alpha_bar**0.5 * noise[row] - (1 - alpha_bar) ** 0.5 * u[row]}
        target = targets[prediction]
        expected = (output - target).square()[..., real].mean()
        torch.testing.assert_close(found[row], expected, rtol=1e-4 if dtype == torch.float32 else 1e-10, atol=0)


def test_gradients_reach_the_denoiser_and_nothing_else():
    model, (x, y) = model_of("vectors"), data_of("vectors")
    y.requires_grad_()
    model.loss(x, y, draw()).sum().backward()
    assert all(p.grad.abs().max() > 0 for p in model.denoiser.parameters())
    assert y.grad is None and all(p.grad is None for p in model.averaged.parameters())
    moving = {name for name, p in model.named_parameters() if p.requires_grad}
    assert moving == {f"denoiser.{name}" for name, _ in model.denoiser.named_parameters()}


def test_a_prediction_of_zero_has_the_variance_of_the_noise_as_loss():
    x = data_of("vectors", 4000)[0]
    model = model_of("vectors", fitted=False)
    nn.init.zeros_(model.denoiser.last.weight)
    nn.init.zeros_(model.denoiser.last.bias)
    y = torch.zeros(len(x), C, dtype=x.dtype)
    model.fit(x, y)
    assert model.loss(x, y, draw()).mean().item() == pytest.approx(1, abs=0.03)


def test_times_are_drawn_uniformly():
    model, (x, y) = model_of("vectors"), data_of("vectors", 5000)
    model.loss(x, y, draw())
    times = model.denoiser.seen[-1][1]
    assert times.dtype == torch.int64 and times.min() < 5 and times.max() in range(995, 1000)
    assert (torch.histc(times.double(), 10, 0, 1000) / 500 - 1).abs().max() < 0.2


def test_padding_is_zero_in_the_input_and_not_in_the_loss():
    model, (x, y) = model_of("dna"), data_of("dna")
    padding = (x == 0).all(1, keepdim=True).expand_as(x)
    assert padding.any()
    model.loss(x, y, draw())
    assert (model.denoiser.seen[-1][0][padding] == 0).all() and (model.denoiser.seen[-1][0][~padding] != 0).all()
    before = model.loss(x, y, draw())

    class NonzeroPadding(ToyDenoiser):
        def forward(self, x, t, condition):
            return super().forward(x, t, condition) + 100 * (x == 0)

    model.denoiser.__class__ = NonzeroPadding
    assert torch.equal(model.loss(x, y, draw()), before)
    empty = torch.zeros_like(x[:1])
    assert model.loss(empty, y[:1], draw()).tolist() == [0.0]


# --- conditions


def test_conditions_are_standardized():
    x, y = data_of("vectors")
    y = torch.cat([y[:, :2], torch.full((6, 1), 4.0, dtype=y.dtype)], dim=1)
    model = model_of("vectors", fitted=False)
    model.fit(x, y)
    model.loss(x, y, draw())
    seen = model.denoiser.seen[-1][2]
    assert seen.mean(0).abs().max() < 1e-12
    torch.testing.assert_close(seen.square().mean(0), torch.tensor([1.0, 1.0, 0.0], dtype=y.dtype))
    model.sample(x, y + 1, draw())
    seen = model.averaged.seen[-1][2]
    assert (seen[:, 2] == 0).all()  # constant in training, so it has no effect for other rows
    torch.testing.assert_close(seen[:, :2].mean(0), 1 / y[:, :2].std(0, correction=0))


def test_conditions_of_another_width_are_refused():
    model = model_of("vectors", fitted=False)
    message = "the generator was given conditions of shape (6, 4), expected (n, 3)"
    assert refusal(model.fit, data_of("vectors")[0], torch.zeros(6, 4)) == message


def test_dropped_conditions_become_a_learned_vector():
    model, (x, y) = model_of("vectors", drop=0.3), data_of("vectors", 2000)
    with torch.no_grad():
        model.null.copy_(torch.tensor([50.0, 60.0, 70.0]))
    found = model.loss(x, y, draw(3))
    found.sum().backward()
    assert model.null.grad.abs().min() > 0
    generator = draw(3)
    torch.randint(1000, (2000,), generator=generator)
    torch.randn(2000, 5, generator=generator, dtype=x.dtype)
    dropped = torch.rand(2000, 1, generator=generator, dtype=x.dtype)[:, 0] < 0.3
    seen = model.denoiser.seen[-1][2]
    assert torch.equal((seen == model.null).all(1), dropped) and 500 < dropped.sum() < 700
    torch.testing.assert_close(seen[~dropped], ((y - model.condition_mean) * model.condition_scale)[~dropped])
    # The losses with other conditions do not change.
    plain = copy.deepcopy(model)
    plain.null = None
    torch.testing.assert_close(plain.loss(x, y, draw(3))[~dropped], found[~dropped])


def test_blurred_conditions():
    x, y = data_of("vectors", 2000)
    model, plain = model_of("vectors", blur=0.5), model_of("vectors")
    found = model.loss(x, y, draw(3))
    generator = draw(3)
    torch.randint(1000, (2000,), generator=generator)
    torch.randn(2000, 5, generator=generator, dtype=x.dtype)
    noise = torch.randn(2000, C, generator=generator, dtype=x.dtype)
    # A blur is noise on the condition of the plain model, in units of the standardized condition.
    blurred = y + 0.5 * noise / model.condition_scale
    torch.testing.assert_close(found, plain.loss(x, blurred, draw(3)))
    views = model.sample(x, y, draw(3))
    generator = draw(3)
    torch.randn(2000, 5, generator=generator, dtype=x.dtype)
    blurred = y + 0.5 * torch.randn(2000, C, generator=generator, dtype=x.dtype) / model.condition_scale
    torch.testing.assert_close(views, plain.sample(x, blurred, draw(3)))


def test_without_drop_there_is_no_learned_vector():
    model = model_of("vectors")
    assert model.null is None and model.averaged_null is None
    assert not any("null" in name for name in model.state_dict())


# --- the average


def test_the_average_by_hand():
    model = model_of("vectors", average=0.3, drop=0.1)
    model.restart_average()
    weight = model.denoiser.last.weight
    expected, null = weight.detach().clone(), 0.0
    assert torch.equal(model.averaged.last.weight, expected)
    for n, decay in enumerate([0.1, 2 / 11, 0.25, 0.3, 0.3]):  # (1 + n) / (10 + n) up to 0.3
        with torch.no_grad():
            weight.add_(n + 1.0)
            model.null.fill_(n)
        model.update_average()
        expected, null = decay * expected + (1 - decay) * weight.detach(), decay * null + (1 - decay) * n
        torch.testing.assert_close(model.averaged.last.weight, expected)
        torch.testing.assert_close(model.averaged_null, torch.full((C,), null, dtype=torch.float64))
    assert model.updates.item() == 5 and model.updates.dtype == torch.int64


def test_the_loss_with_averaged_weights():
    model, (x, y) = model_of("vectors", drop=0.3), data_of("vectors", 50)
    now = model.loss(x, y, draw())
    assert torch.equal(model.loss(x, y, draw(), averaged=True), now)
    with torch.no_grad():
        model.null.add_(1)
        for parameter in model.denoiser.parameters():
            parameter.add_(0.1)
    assert torch.equal(model.loss(x, y, draw(), averaged=True), now)
    assert not torch.isclose(model.loss(x, y, draw()), now).any()
    model.restart_average()
    assert torch.equal(model.loss(x, y, draw(), averaged=True), model.loss(x, y, draw()))


def test_a_restart_sets_the_average_to_the_denoiser():
    model = model_of("vectors", drop=0.1)
    for _ in range(3):
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.add_(1)
        model.update_average()
    own, averaged = model.denoiser.state_dict(), model.averaged.state_dict()
    assert not any(torch.equal(own[name], averaged[name]) for name in own)
    model.restart_average()
    assert all(torch.equal(own[name], model.averaged.state_dict()[name]) for name in own)
    assert torch.equal(model.null, model.averaged_null) and model.updates == 0
    assert not any(p.requires_grad for p in model.averaged.parameters())


def test_the_average_is_not_trained():
    model, (x, y) = model_of("vectors"), data_of("vectors")
    before = copy.deepcopy(model.averaged.state_dict())
    loss = model.loss(x, y, draw()).sum()
    model.update_average()
    loss.backward()  # the update does not change tensors that the backward pass needs
    assert all(torch.equal(value, before[name]) for name, value in model.averaged.state_dict().items())
