"""The conditional diffusion model: its loss, its average, its samples."""

import copy

import pytest
import torch
from diffusion_toys import ToyDenoiser
from torch import nn

from refusals import refusal
from viewsmith.networks import Nucleotides, PrincipalAxes
from viewsmith.views.generated.diffusion import ConditionalDiffusion, LetterCodes, PixelCodes, Schedule, VectorCodes
from viewsmith.views.generated.diffusion import diffusion as module

C = 3


def draw(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=draw(seed), dtype=dtype)


def data_of(domain, n=6, dtype=torch.float64):
    """Scaled samples and their representations."""
    if domain == "vectors":
        x = randn(n, 5) * 2 + 1
    elif domain == "images":
        x = randn(n, 2, 4, 3)
    else:
        letters = torch.tensor(list(b"ACGTN"), dtype=torch.uint8)[torch.randint(5, (n, 9), generator=draw())]
        for row in range(n):  # sequences of different lengths, the last whole
            letters[row, 9 - n + row + 1 :] = 0
        x = Nucleotides()(letters)
    return x.to(dtype), (randn(n, C, seed=5) * torch.tensor([1.0, 10.0, 0.1]) + 4).to(dtype)


def model_of(domain, dtype=torch.float64, fitted=True, **options):
    torch.manual_seed(0)
    channels, codes = {
        "vectors": (5, VectorCodes(5)),
        "images": (2, PixelCodes(2, 0.5, 0.25)),
        "dna": (4, LetterCodes()),
    }[domain]
    model = ConditionalDiffusion(ToyDenoiser(channels, C), codes, condition=C, **options).to(dtype)
    if fitted:
        model.fit(*data_of(domain, dtype=dtype))
    return model


DOMAINS = ["vectors", "images", "dna"]


# --- the loss


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("prediction", ["eps", "v", "x0"])
@pytest.mark.parametrize("domain", DOMAINS)
def test_the_loss_against_a_loop(domain, prediction, dtype):
    model, (x, y) = model_of(domain, dtype, prediction=prediction, schedule="cosine"), data_of(domain, dtype=dtype)
    found = model.loss(x, y, draw(3))
    assert found.shape == (len(x),) and found.dtype == dtype

    generator, u, schedule = draw(3), model.codes.encode(x), Schedule.named("cosine")
    times = torch.randint(1000, (len(x),), generator=generator)
    noise = torch.randn(u.shape, generator=generator, dtype=dtype)
    deviation = y.std(0, correction=0)
    for row, t in enumerate(times.tolist()):
        share = schedule.alpha_bar[t].item()
        real = [i for i in range(x.shape[-1]) if domain != "dna" or x[row, :, i].abs().sum() > 0]
        x_t = share**0.5 * u[row] + (1 - share) ** 0.5 * noise[row]
        if domain == "dna":
            x_t[:, len(real) :] = 0
        condition = (y[row] - y.mean(0)) / deviation
        output = model.denoiser(x_t[None], times[row : row + 1], condition[None])[0]
        goal = {
            "eps": noise[row],
            "x0": u[row],
            "v": share**0.5 * noise[row] - (1 - share) ** 0.5 * u[row],
        }[prediction]
        expected = (output - goal).square()[..., real].mean()
        torch.testing.assert_close(found[row], expected, rtol=1e-4 if dtype == torch.float32 else 1e-10, atol=0)


def test_gradients_reach_the_denoiser_and_nothing_else():
    model, (x, y) = model_of("vectors"), data_of("vectors")
    y.requires_grad_()
    model.loss(x, y, draw()).sum().backward()
    assert all(p.grad.abs().max() > 0 for p in model.denoiser.parameters())
    assert y.grad is None and all(p.grad is None for p in model.averaged.parameters())
    moving = {name for name, p in model.named_parameters() if p.requires_grad}
    assert moving == {f"denoiser.{name}" for name, _ in model.denoiser.named_parameters()}


def test_a_network_that_says_nothing_has_the_loss_of_the_noise():
    x = data_of("vectors", 4000)[0]
    model = model_of("vectors", fitted=False)
    nn.init.zeros_(model.denoiser.last.weight)
    nn.init.zeros_(model.denoiser.last.bias)
    y = torch.zeros(len(x), C, dtype=x.dtype)
    model.fit(x, y)
    assert model.loss(x, y, draw()).mean().item() == pytest.approx(1, abs=0.03)


def test_times_are_drawn_evenly():
    model, (x, y) = model_of("vectors"), data_of("vectors", 5000)
    model.loss(x, y, draw())
    times = model.denoiser.seen[-1][1]
    assert times.dtype == torch.int64 and times.min() < 5 and times.max() in range(995, 1000)
    assert (torch.histc(times.double(), 10, 0, 1000) / 500 - 1).abs().max() < 0.2


def test_padding_is_not_seen_and_not_counted():
    model, (x, y) = model_of("dna"), data_of("dna")
    padding = (x == 0).all(1, keepdim=True).expand_as(x)
    assert padding.any()
    model.loss(x, y, draw())
    assert (model.denoiser.seen[-1][0][padding] == 0).all() and (model.denoiser.seen[-1][0][~padding] != 0).all()
    before = model.loss(x, y, draw())

    class Loud(ToyDenoiser):
        def forward(self, x, t, condition):
            return super().forward(x, t, condition) + 100 * (x == 0)

    model.denoiser.__class__ = Loud
    assert torch.equal(model.loss(x, y, draw()), before)
    empty = torch.zeros_like(x[:1])
    assert model.loss(empty, y[:1], draw()).tolist() == [0.0]


# --- conditions


def test_conditions_are_standardized_inside():
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
    assert (seen[:, 2] == 0).all()  # constant in training, so it says nothing of other rows
    torch.testing.assert_close(seen[:, :2].mean(0), 1 / y[:, :2].std(0, correction=0))


def test_conditions_of_another_width_are_refused():
    model = model_of("vectors", fitted=False)
    message = "the generator was given conditions of shape (6, 4), expected (n, 3)"
    assert refusal(model.fit, data_of("vectors")[0], torch.zeros(6, 4)) == message


def test_conditions_are_dropped_for_a_learned_vector():
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
    # Apart from the dropped ones it is the same loss.
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
    # A blur is noise on what the plain model sees, in units of the standardized condition.
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


def test_the_loss_of_the_average():
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


def test_a_restart_makes_the_average_the_denoiser():
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


def test_the_average_takes_no_part_in_training():
    model, (x, y) = model_of("vectors"), data_of("vectors")
    before = copy.deepcopy(model.averaged.state_dict())
    loss = model.loss(x, y, draw()).sum()
    model.update_average()
    loss.backward()  # the update has not touched what the gradient needs
    assert all(torch.equal(value, before[name]) for name, value in model.averaged.state_dict().items())


# --- samples


def by_steps(model, x, y, noise):
    """DDIM written out for one row of vectors, without any of the parts."""
    u = noise
    condition = (y - model.condition_mean) * model.condition_scale
    alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 2e-2, 1000, dtype=torch.float64), 0)
    for t, s in zip(model.times, [*model.times[1:], None], strict=True):
        a, b = alpha_bar[t].item(), 1.0 if s is None else alpha_bar[s].item()
        eps = model.averaged(u[None], torch.tensor([t]), condition[None])[0]
        x0 = (u - (1 - a) ** 0.5 * eps) / a**0.5
        x0 = torch.maximum(torch.minimum(x0, model.codes.high), model.codes.low)
        u = b**0.5 * x0 + (1 - b) ** 0.5 * (u - a**0.5 * x0) / (1 - a) ** 0.5
    return u * model.codes.scale + model.codes.mean


@pytest.mark.parametrize("strength", [1.0, 0.4])
def test_samples_against_a_loop(strength):
    model, (x, y) = model_of("vectors", sampler="ddim", steps=4, strength=strength), data_of("vectors")
    found, noise = model.sample(x, y, draw(2)), randn(6, 5, seed=2)
    if strength < 1:
        share = torch.cumprod(1 - torch.linspace(1e-4, 2e-2, 1000, dtype=torch.float64), 0)[399]
        noise = share.sqrt() * model.codes.encode(x) + (1 - share).sqrt() * noise
    with torch.no_grad():
        for row in range(6):
            torch.testing.assert_close(found[row], by_steps(model, x[row], y[row], noise[row]), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sampler", ["ddim", "ddpm", "dpm"])
@pytest.mark.parametrize("domain", DOMAINS)
def test_samples_are_like_their_sources(domain, sampler, dtype):
    model, (x, y) = model_of(domain, dtype, sampler=sampler, steps=4, strength=0.7), data_of(domain, dtype=dtype)
    model.train()
    views = model.sample(x, y, draw())
    assert views.shape == x.shape and views.dtype == dtype and not views.requires_grad
    assert model.training and model.averaged.training
    assert torch.equal(model.sample(x, y, draw()), views) and not torch.equal(model.sample(x, y, draw(1)), views)
    assert not torch.equal(model.sample(x, y + 3, draw()), views)
    u = model.codes.encode(views)
    torch.testing.assert_close(model.codes.clip(u), u)
    if domain == "dna":
        real = (x != 0).any(1)
        assert torch.equal((views != 0).sum(1), real.int()) and torch.equal(views.sum(1), real.to(dtype))
        assert all((seen[0].abs().amax(1) > 0).tolist() == real.tolist() for seen in model.averaged.seen)


def test_samples_come_from_the_average_in_evaluation_mode():
    class Dropping(ToyDenoiser):
        def forward(self, x, t, condition):
            assert not self.training
            return super().forward(x, t, condition)

    x, y = data_of("vectors")
    model = ConditionalDiffusion(Dropping(5, C), VectorCodes(5), condition=C).double().train()
    model.fit(x, y)
    views = model.sample(x, y, draw())
    with torch.no_grad():
        for parameter in model.denoiser.parameters():
            parameter.add_(1)
    assert torch.equal(model.sample(x, y, draw()), views)
    assert model.averaged.training
    model.averaged.eval()
    model.sample(x, y, draw())
    assert not model.averaged.training


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("guidance", [1.0, 2.0])
def test_a_sample_does_not_depend_on_its_block(domain, guidance, monkeypatch):
    model, (x, y) = model_of(domain, sampler="ddpm", steps=3, drop=0.1, guidance=guidance), data_of(domain)
    noise = randn(6, *model.codes.encode(x).shape[1:], seed=4)
    monkeypatch.setattr(module, "randn", lambda like, generator: noise[rows])
    monkeypatch.setattr("viewsmith.views.generated.diffusion.samplers.randn", lambda like, generator: noise[rows])
    rows = slice(0, 6)
    whole = model.sample(x, y)
    for rows in (slice(0, 1), slice(1, 4), slice(4, 6)):
        torch.testing.assert_close(model.sample(x[rows], y[rows]), whole[rows], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("prediction", ["eps", "v", "x0"])
def test_guidance_goes_beyond_the_condition(prediction):
    options = {"prediction": prediction, "sampler": "ddim", "steps": 1, "drop": 0.2}
    x, y = data_of("vectors")
    guided, plain = (model_of("vectors", guidance=g, **options) for g in (2.5, 1.0))
    for model in (guided, plain):
        model.averaged_null.copy_(torch.tensor([1.0, -1.0, 2.0]))
        model.codes.low.fill_(-1e9)
        model.codes.high.fill_(1e9)
    given = plain.sample(x, y, draw())
    # The same, conditioned on the learned vector; one step without clipping is linear in the output.
    null = plain.sample(x, plain.condition_mean + (plain.averaged_null / plain.condition_scale).expand(6, C), draw())
    torch.testing.assert_close(guided.sample(x, y, draw()), null + 2.5 * (given - null), rtol=1e-7, atol=1e-6)
    assert len(guided.averaged.seen) == 1 and len(guided.averaged.seen[0][0]) == 12  # both in one batch


@pytest.mark.parametrize("sampler", ["ddim", "ddpm", "dpm"])
def test_less_strength_stays_nearer_to_the_source(sampler):
    x, y = data_of("vectors")
    distances = [
        (model_of("vectors", sampler=sampler, strength=strength).sample(x, y, draw()) - x).norm().item()
        for strength in (0.001, 0.05, 1.0)
    ]
    assert 0 < 10 * distances[0] < distances[1] < distances[2]


def trained(**options):
    """A model of data whose every condition has its own mean and spread, after some steps."""
    torch.manual_seed(0)
    generator = draw()
    y = torch.randint(3, (600, 1), generator=generator).float()
    x = torch.tensor([[-2.0, 1.0], [0.0, -2.0], [2.0, 1.0]])[y[:, 0].long()]
    x = x + torch.randn(600, 2, generator=generator) * torch.tensor([0.5, 0.1])
    model = ConditionalDiffusion(ToyDenoiser(2, 1), VectorCodes(2), condition=1, **options)
    model.fit(x, y)
    model.restart_average()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    for _ in range(400):
        rows = torch.randint(600, (200,), generator=generator)
        optimizer.zero_grad()
        model.loss(x[rows], y[rows], generator).mean().backward()
        optimizer.step()
        model.update_average()
    return model, x, y


@pytest.mark.parametrize("options", [{"prediction": "eps"}, {"prediction": "v", "drop": 0.1, "guidance": 1.2}])
def test_samples_are_what_the_condition_says(options):
    model, x, y = trained(**options)
    source = x[torch.randperm(600, generator=draw(1))]  # of pure noise, the source must not matter
    views = model.sample(source, y, draw(2))
    for label in (0.0, 1.0, 2.0):
        of, made = x[y[:, 0] == label], views[y[:, 0] == label]
        assert ((of.mean(0) - made.mean(0)).abs() < 0.4).all()  # the means of the conditions are 2 and more apart
        if model.guidance == 1:  # guidance changes the spread
            assert 0.3 < made.std(0)[0] < 0.7 and 0.05 < made.std(0)[1] < 0.3


def test_a_state_dict_brings_the_samples_back():
    x, y = randn(20, 8, dtype=torch.float32), randn(20, C, seed=1, dtype=torch.float32)

    def make():
        axes = PrincipalAxes(8, 4)
        return axes, ConditionalDiffusion(
            ToyDenoiser(4, C), VectorCodes(8, axes), condition=C, drop=0.1, guidance=1.5, strength=0.5
        )

    axes, model = make()
    axes.fit(x)
    model.fit(x, y)
    with torch.no_grad():
        model.null.add_(1)
    for _ in range(3):
        model.update_average()
    views = model.sample(x, y, draw())
    loaded = make()[1]
    loaded.load_state_dict(model.state_dict())
    assert torch.equal(loaded.sample(x, y, draw()), views)
    assert torch.equal(copy.deepcopy(model).sample(x, y, draw()), views)
    for each in (model, loaded):  # training goes on from the same place, too
        with torch.no_grad():
            each.denoiser.last.bias.add_(1)
        each.update_average()
    assert torch.equal(loaded.sample(x, y, draw()), model.sample(x, y, draw()))


def test_autocast_stays_in_float32_outside_the_network():
    model, (x, y) = model_of("vectors", torch.float32), data_of("vectors", dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        loss, views = model.loss(x, y, draw()), model.sample(x, y, draw())
    assert loss.dtype == views.dtype == torch.float32
    torch.testing.assert_close(loss, model.loss(x, y, draw()), rtol=0.1, atol=0.05)


@pytest.mark.parametrize("sampler", ["ddim", "ddpm", "dpm"])
@pytest.mark.parametrize("domain", DOMAINS)
def test_no_value_is_read_back_from_the_device(domain, sampler):
    # On the meta device tensors have no values: whatever looked at one, or mixed devices, would fail.
    options = {"sampler": sampler, "drop": 0.1, "guidance": 2.0, "strength": 0.5, "blur": 0.1}
    model = model_of(domain, torch.float32, **options).to("meta")
    x, y = (given.to("meta") for given in data_of(domain, dtype=torch.float32))
    assert model.loss(x, y).shape == (6,)
    model.update_average()
    assert model.sample(x, y).shape == x.shape


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prediction": "noise"}, "prediction is 'noise', expected one of eps, v, x0"),
        ({"sampler": "euler"}, "sampler is 'euler', expected one of ddim, ddpm, dpm"),
        ({"schedule": "square"}, "the noise schedule is 'square', expected one of linear, cosine"),
        ({"steps": 0}, "the sampler was given 0 steps, expected at least 1"),
        ({"strength": 0.0}, "the strength of the noise is 0.0, expected a number above 0 and at most 1"),
        ({"drop": 1.0}, "drop is 1.0, expected a number from 0 to less than 1"),
        ({"blur": -1.0}, "blur is -1.0, expected a number of at least 0"),
        ({"average": -0.1}, "average is -0.1, expected a number from 0 to less than 1"),
        (
            {"guidance": 2.0},
            "guidance is 2.0 with drop 0, which trains no unconditional prediction: give drop, such as 0.1",
        ),
    ],
)
def test_impossible_settings_are_refused(options, message):
    assert refusal(model_of, "vectors", **options) == message
