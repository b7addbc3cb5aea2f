"""The conditional diffusion model: its samples, saved state, precision and settings."""

import copy

import pytest
import torch
from diffusion_toys import MODALITIES, C, ToyDenoiser, data_of, draw, model_of, randn

from cases import slow
from refusals import refusal
from viewsmith.modalities.vectors.networks import VectorLatents
from viewsmith.networks import PrincipalAxes
from viewsmith.views.generated import diffusion as module
from viewsmith.views.generated.diffusion import ConditionalDiffusion


def by_steps(model, x, y, noise):
    """DDIM for one row of vectors, without the functions under test."""
    u = noise
    condition = (y - model.condition_mean) * model.condition_scale
    alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 2e-2, 1000, dtype=torch.float64), 0)
    for t, s in zip(model.times, [*model.times[1:], None], strict=True):
        a, b = alpha_bar[t].item(), 1.0 if s is None else alpha_bar[s].item()
        eps = model.averaged(u[None], torch.tensor([t]), condition[None])[0]
        x0 = (u - (1 - a) ** 0.5 * eps) / a**0.5
        x0 = torch.maximum(torch.minimum(x0, model.latents.high), model.latents.low)
        u = b**0.5 * x0 + (1 - b) ** 0.5 * (u - a**0.5 * x0) / (1 - a) ** 0.5
    return u * model.latents.scale + model.latents.mean


@pytest.mark.parametrize("strength", [1.0, 0.4])
def test_samples_against_a_loop(strength):
    model, (x, y) = model_of("vectors", sampler="ddim", steps=4, strength=strength), data_of("vectors")
    found, noise = model.sample(x, y, draw(2)), randn(6, 5, seed=2)
    if strength < 1:
        alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 2e-2, 1000, dtype=torch.float64), 0)[399]
        noise = alpha_bar.sqrt() * model.latents.encode(x) + (1 - alpha_bar).sqrt() * noise
    with torch.no_grad():
        for row in range(6):
            torch.testing.assert_close(found[row], by_steps(model, x[row], y[row], noise[row]), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("sampler", "dtype"), [("ddim", torch.float32), ("ddpm", torch.float64), ("dpm", torch.float32)]
)
@pytest.mark.parametrize("modality", MODALITIES)
def test_samples_have_the_form_of_their_sources(modality, sampler, dtype):
    model, (x, y) = model_of(modality, dtype, sampler=sampler, steps=4, strength=0.7), data_of(modality, dtype=dtype)
    model.train()
    views = model.sample(x, y, draw())
    assert views.shape == x.shape and views.dtype == dtype and not views.requires_grad
    assert model.training and model.averaged.training
    assert torch.equal(model.sample(x, y, draw()), views) and not torch.equal(model.sample(x, y, draw(1)), views)
    assert not torch.equal(model.sample(x, y + 3, draw()), views)
    u = model.latents.encode(views)
    torch.testing.assert_close(model.latents.clip(u), u)
    if modality == "dna":
        real = (x != 0).any(1)
        assert torch.equal((views != 0).sum(1), real.int()) and torch.equal(views.sum(1), real.to(dtype))
        assert all((seen[0].abs().amax(1) > 0).tolist() == real.tolist() for seen in model.averaged.seen)


def test_samples_come_from_the_average_in_evaluation_mode():
    class Dropping(ToyDenoiser):
        def forward(self, x, t, condition):
            assert not self.training
            return super().forward(x, t, condition)

    x, y = data_of("vectors")
    model = ConditionalDiffusion(Dropping(5, C), VectorLatents(5), condition=C).double().train()
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


@pytest.mark.parametrize("modality", MODALITIES)
@pytest.mark.parametrize("guidance", [1.0, 2.0])
def test_a_sample_does_not_depend_on_its_batch(modality, guidance, monkeypatch):
    model, (x, y) = model_of(modality, sampler="ddpm", steps=3, drop=0.1, guidance=guidance), data_of(modality)
    noise = randn(6, *model.latents.encode(x).shape[1:], seed=4)
    monkeypatch.setattr(module, "randn", lambda like, generator: noise[rows])
    rows = slice(0, 6)
    whole = model.sample(x, y)
    for rows in (slice(0, 1), slice(1, 4), slice(4, 6)):
        torch.testing.assert_close(model.sample(x[rows], y[rows]), whole[rows], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("prediction", ["eps", "v", "x0"])
def test_guidance_extrapolates_from_the_learned_vector(prediction):
    options = {"prediction": prediction, "sampler": "ddim", "steps": 1, "drop": 0.2}
    x, y = data_of("vectors")
    guided, plain = (model_of("vectors", guidance=g, **options) for g in (2.5, 1.0))
    for model in (guided, plain):
        model.averaged_null.copy_(torch.tensor([1.0, -1.0, 2.0]))
        model.latents.low.fill_(-1e9)
        model.latents.high.fill_(1e9)
    given = plain.sample(x, y, draw())
    # The sample conditioned on the learned vector; one step without clipping is linear in the output.
    null = plain.sample(x, plain.condition_mean + (plain.averaged_null / plain.condition_scale).expand(6, C), draw())
    torch.testing.assert_close(guided.sample(x, y, draw()), null + 2.5 * (given - null), rtol=1e-7, atol=1e-6)
    assert len(guided.averaged.seen) == 1 and len(guided.averaged.seen[0][0]) == 12  # both in one batch


def trained(**options):
    """A model trained for some steps on data whose mean depends on the condition."""
    torch.manual_seed(0)
    generator = draw()
    y = torch.randint(3, (600, 1), generator=generator).float()
    x = torch.tensor([[-2.0, 1.0], [0.0, -2.0], [2.0, 1.0]])[y[:, 0].long()]
    x = x + torch.randn(600, 2, generator=generator) * torch.tensor([0.5, 0.1])
    model = ConditionalDiffusion(ToyDenoiser(2, 1), VectorLatents(2), condition=1, **options)
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


@pytest.mark.parametrize("options", [slow({"prediction": "eps"}), {"prediction": "v", "drop": 0.1, "guidance": 1.2}])
def test_samples_follow_their_condition(options):
    model, x, y = trained(**options)
    source = x[torch.randperm(600, generator=draw(1))]  # from pure noise, samples must not depend on the source
    views = model.sample(source, y, draw(2))
    for label in (0.0, 1.0, 2.0):
        data, generated = x[y[:, 0] == label], views[y[:, 0] == label]
        assert ((data.mean(0) - generated.mean(0)).abs() < 0.4).all()  # means of conditions differ by 2 and more
        if model.guidance == 1:  # guidance changes the spread
            assert 0.3 < generated.std(0)[0] < 0.7 and 0.05 < generated.std(0)[1] < 0.3


def test_a_loaded_model_draws_the_same_samples():
    x, y = randn(20, 8, dtype=torch.float32), randn(20, C, seed=1, dtype=torch.float32)

    def make():
        axes = PrincipalAxes(8, 4)
        return axes, ConditionalDiffusion(
            ToyDenoiser(4, C), VectorLatents(8, axes), condition=C, drop=0.1, guidance=1.5, strength=0.5
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
    for each in (model, loaded):  # the state of training is the same, too
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
@pytest.mark.parametrize("modality", MODALITIES)
def test_no_value_is_read_from_the_device(modality, sampler):
    # On the meta device tensors have no values: reading a value, or mixing devices, is an error.
    options = {"sampler": sampler, "drop": 0.1, "guidance": 2.0, "strength": 0.5, "blur": 0.1}
    model = model_of(modality, torch.float32, **options).to("meta")
    x, y = (given.to("meta") for given in data_of(modality, dtype=torch.float32))
    assert model.loss(x, y).shape == (6,)
    model.update_average()
    assert model.sample(x, y).shape == x.shape


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prediction": "noise"}, "prediction is 'noise', expected eps, v or x0"),
        ({"sampler": "euler"}, "sampler is 'euler', expected ddim, ddpm or dpm"),
        ({"drop": 1.0}, "drop is 1.0, expected a number from 0 to less than 1"),
        ({"blur": -1.0}, "blur is -1.0, expected a number of at least 0"),
        ({"average": -0.1}, "average is -0.1, expected a number from 0 to less than 1"),
        ({"guidance": 2.0}, "guidance is 2.0 with drop 0, which trains no unconditional prediction"),
    ],
)
def test_invalid_settings_are_refused(options, message):
    assert message in refusal(model_of, "vectors", **options)
