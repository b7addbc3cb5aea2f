"""Schedules and samplers: against diffusers, on Gaussian data with a known score, and by hand."""

import itertools
import math

import pytest
import torch
from diffusion_toys import ToyDenoiser, diffusers, gaussian_denoiser

from drawn import draw
from refusals import refusal
from viewsmith.modalities.vectors.networks import VectorLatents
from viewsmith.views.generated.diffusion import (
    ConditionalDiffusion,
    Schedule,
    add_noise,
    recover_noise,
    recover_sample,
    sample,
    target,
    timesteps,
)

LINEAR = Schedule.named("linear")
THEIR_PREDICTION = {"eps": "epsilon", "v": "v_prediction", "x0": "sample"}


def bounded(x, t):
    """A network output between -1 and 1 that depends on all of x and on t."""
    mix = torch.linspace(-1, 1, 16).outer(torch.linspace(0.5, -1.5, 16)).cos()
    return torch.tanh(x @ mix.to(x) + t / 500 - 1)


def to_range(x0):
    return x0.clamp(-1, 1)


# --- times


def test_the_times_of_ten_steps():
    assert timesteps(LINEAR, 10) == [999, 809, 639, 489, 359, 249, 159, 89, 39, 9]
    assert timesteps(LINEAR, 4, 0.2) == [199, 111, 49, 11]  # 200 * 9 / 16 = 112.5 is rounded to even
    assert timesteps(LINEAR, 1) == [999] and timesteps(LINEAR, 5, 0.001) == [0]
    assert timesteps(LINEAR, 1000) == list(range(999, -1, -1)) == timesteps(LINEAR, 10**6)


@pytest.mark.parametrize("strength", [0.0011, 0.01, 0.123, 0.5, 1.0])
def test_times_decrease_and_start_at_the_strength(strength):
    for steps in (1, 2, 3, 7, 25, 90, 333, 999):
        times = timesteps(LINEAR, steps, strength)
        assert len(times) == min(steps, round(1000 * strength)) and times[0] == round(1000 * strength) - 1
        assert all(later < earlier for earlier, later in itertools.pairwise(times)) and times[-1] >= 0


def test_invalid_steps_and_strengths_are_refused():
    assert refusal(timesteps, LINEAR, 0) == "the sampler was given 0 steps, expected at least 1"
    for strength in (0.0, -0.5, 1.01, float("nan")):
        message = f"the strength of the noise is {strength}, expected a number above 0 and at most 1"
        assert refusal(timesteps, LINEAR, 10, strength) == message


def test_an_unknown_sampler_is_refused():
    message = refusal(sample, bounded, torch.zeros(1, 16), LINEAR, [0], sampler="euler")
    assert message == "the sampler is 'euler', expected ddim, ddpm or dpm"


# --- against diffusers


def theirs(scheduler, times, predict, start, generator=None):
    options = {"generator": generator} if generator else {}
    for t in times:
        start = scheduler.step(predict(start, t), t, start, **options).prev_sample
    return start


def assert_equal_samples(ours, other, clip):
    # diffusers computes its tables in float32; unclipped samples reach sizes of hundreds.
    torch.testing.assert_close(ours, other, rtol=2e-3, atol=2e-4 if clip else 2e-3 * float(other.abs().max()))


@pytest.mark.parametrize(
    ("prediction", "clip", "steps"),
    [("eps", True, 2), ("eps", False, 20), ("v", True, 10), ("v", False, 2), ("x0", True, 20), ("x0", False, 10)],
)
class TestAgainstDiffusers:
    start = torch.randn(5, 4, 16, generator=draw())

    def ours(self, sampler, times, prediction, clip):
        options = {"sampler": sampler, "prediction": prediction, "clip": to_range if clip else None}
        return sample(bounded, self.start, LINEAR, times, **options, generator=draw(7))

    def test_ddim(self, prediction, clip, steps):
        scheduler = diffusers().DDIMScheduler(
            prediction_type=THEIR_PREDICTION[prediction], clip_sample=clip, timestep_spacing="trailing"
        )
        scheduler.set_timesteps(steps)
        # DDIMScheduler has only even spacing. This option computes the noise from the clipped sample, as `ddim` does.
        step, scheduler.step = (scheduler.step, lambda *given: step(*given, use_clipped_model_output=True))
        times = scheduler.timesteps.tolist()
        assert_equal_samples(
            self.ours("ddim", times, prediction, clip), theirs(scheduler, times, bounded, self.start), clip
        )

    def test_ddpm(self, prediction, clip, steps):
        scheduler = diffusers().DDPMScheduler(prediction_type=THEIR_PREDICTION[prediction], clip_sample=clip)
        times = timesteps(LINEAR, steps)
        scheduler.set_timesteps(timesteps=times)
        other = theirs(scheduler, times, bounded, self.start, draw(7))
        assert_equal_samples(self.ours("ddpm", times, prediction, clip), other, clip)

    def test_dpm(self, prediction, clip, steps):
        scheduler = diffusers().DPMSolverMultistepScheduler(
            prediction_type=THEIR_PREDICTION[prediction],
            algorithm_type="dpmsolver++",
            solver_order=2,
            lower_order_final=True,
            thresholding=clip,  # with a largest value of 1, the same as clipping to -1 and 1
            sample_max_value=1.0,
        )
        times = timesteps(LINEAR, steps)
        scheduler.set_timesteps(timesteps=times)
        assert_equal_samples(
            self.ours("dpm", times, prediction, clip),
            theirs(scheduler, scheduler.timesteps, lambda x, t: bounded(x, int(t)), self.start),
            clip,
        )


# --- data whose score is known

MEAN = torch.tensor([0.3, -1.0, 0.0], dtype=torch.float64)
DEVIATION = torch.tensor([1.0, 0.3, 0.1], dtype=torch.float64)


def gaussian_samples(sampler, steps, prediction="eps", schedule=LINEAR, start=None, strength=1.0):
    if start is None:
        start = torch.randn(10_000, 3, generator=draw(), dtype=torch.float64)
    predict = gaussian_denoiser(schedule, MEAN, DEVIATION, prediction)
    times = timesteps(schedule, steps, strength)
    return sample(predict, start, schedule, times, sampler=sampler, prediction=prediction, generator=draw(1))


@pytest.mark.parametrize(("sampler", "steps", "tolerance"), [("ddim", 50, 0.1), ("dpm", 20, 0.04), ("ddpm", 100, 0.12)])
@pytest.mark.parametrize(("schedule", "prediction"), [("linear", "eps"), ("cosine", "v"), ("linear", "x0")])
def test_samples_of_gaussian_data_have_its_mean_and_deviation(sampler, steps, tolerance, schedule, prediction):
    x = gaussian_samples(sampler, steps, prediction, Schedule.named(schedule))
    assert ((x.mean(0) - MEAN).abs() < 0.04 * DEVIATION).all()
    torch.testing.assert_close(x.std(0), DEVIATION, rtol=tolerance, atol=0)


def test_ancestral_sampling_with_all_steps_is_exact_in_float32():
    predict = gaussian_denoiser(LINEAR, MEAN.float(), DEVIATION.float(), "eps")
    start = torch.randn(4_000, 3, generator=draw())
    x = sample(predict, start, LINEAR, timesteps(LINEAR, 1000), sampler="ddpm", generator=draw(1))
    assert x.dtype == torch.float32
    assert ((x.mean(0) - MEAN).abs() < 0.06 * DEVIATION).all()
    torch.testing.assert_close(x.std(0).double(), DEVIATION, rtol=0.05, atol=0)


def test_the_order_of_convergence():
    # For Gaussian data a deterministic sampler is a linear function of the start, whose exact value is known. Twice as
    # many steps give half the error of DDIM, and a quarter of that of DPM-Solver++.
    start = torch.ones(1, 3, dtype=torch.float64)
    alpha_bar = LINEAR.alpha_bar_at(999)
    exact = MEAN + DEVIATION * (start - alpha_bar**0.5 * MEAN) / (alpha_bar * DEVIATION**2 + 1 - alpha_bar).sqrt()
    for sampler, order in (("ddim", 1), ("dpm", 2)):
        errors = [(gaussian_samples(sampler, k, start=start) - exact).abs().amax().item() for k in (20, 40)]
        assert 0.75 * 2**order < errors[0] / errors[1] < 1.6 * 2**order, sampler
    assert errors[0] < 0.01


@pytest.mark.parametrize("sampler", ["ddim", "dpm", "ddpm"])
def test_less_initial_noise_stays_closer_to_the_source(sampler):
    x0 = MEAN + DEVIATION * torch.randn(500, 3, generator=draw(), dtype=torch.float64)
    distances = []
    for strength in (0.02, 0.1, 0.4):
        signal, noise = LINEAR.rates(timesteps(LINEAR, 20, strength)[0])
        start = signal * x0 + noise * torch.randn(500, 3, generator=draw(2), dtype=torch.float64)
        x = gaussian_samples(sampler, 20, start=start, strength=strength)
        distances.append((x - x0).square().mean().sqrt().item())
        torch.testing.assert_close(x.std(0), DEVIATION, rtol=0.2, atol=0)
    assert 0 < 2 * distances[0] < distances[1] < 0.6 * distances[2] < 0.6


# --- by hand

HAND = Schedule(torch.tensor([0.64, 0.36], dtype=torch.float64))


def by_time(*outputs):
    return lambda x, t: torch.full_like(x, outputs[t])


@pytest.mark.parametrize("sampler", ["ddim", "dpm"])  # the same in two steps, which are both of first order
def test_two_steps_by_hand(sampler):
    start = torch.tensor([[1.0]], dtype=torch.float64)
    # x_0 = (1 - .8 * .5) / .6 = 1, x = .8 * 1 + .6 * .5 = 1.1, and at the end (1.1 - .6 * .3) / .8 = 1.15
    assert sample(by_time(0.3, 0.5), start, HAND, [1, 0], sampler=sampler).item() == pytest.approx(1.15)
    # With x_0 clipped to .5 the noise becomes (1 - .6 * .5) / .8 = .875, x = .8 * .5 + .6 * .875 = .925.
    seen = []

    def predict(x, t):
        seen.append((t, x.item()))
        return by_time(0.3, 0.5)(x, t)

    x = sample(predict, start, HAND, [1, 0], sampler=sampler, clip=lambda x0: x0.clamp(-0.5, 0.5))
    assert [t for t, _ in seen] == [1, 0] and [value for _, value in seen] == pytest.approx([1.0, 0.925])
    assert x.item() == 0.5


def test_two_ancestral_steps_by_hand():
    start = torch.tensor([[1.0]], dtype=torch.float64)
    noise = torch.randn(1, 1, generator=draw(), dtype=torch.float64).item()
    # alpha = .5625; mean .8 * .4375 / .64 + .75 * .36 / .64 = .96875, variance .36 / .64 * .4375
    x = 0.96875 + math.sqrt(0.24609375) * noise
    generator = draw()
    sampled = sample(by_time(0.3, 0.5), start, HAND, [1, 0], sampler="ddpm", generator=generator).item()
    assert sampled == pytest.approx((x - 0.6 * 0.3) / 0.8)
    # The last step draws no noise.
    assert torch.equal(generator.get_state(), after_draws(1, 1).get_state())


def after_draws(*shape):
    generator = draw()
    torch.randn(shape, generator=generator, dtype=torch.float64)
    return generator


def test_the_second_order_step_by_hand():
    schedule = Schedule(torch.tensor([0.9, 0.5, 0.1], dtype=torch.float64))
    estimates = [0.7, -0.2, 0.4]
    lam = [0.5 * math.log(alpha_bar / (1 - alpha_bar)) for alpha_bar in (0.9, 0.5, 0.1)]
    h1, h2 = lam[1] - lam[2], lam[0] - lam[1]
    x = math.sqrt(0.5 / 0.9) * 1.5 - math.sqrt(0.5) * (math.exp(-h1) - 1) * estimates[2]
    d = estimates[1] + h2 / h1 / 2 * (estimates[1] - estimates[2])
    x = math.sqrt(0.1 / 0.5) * x - math.sqrt(0.9) * (math.exp(-h2) - 1) * d
    seen = []

    def predict(x, t):
        seen.append(x.item())
        return by_time(*estimates)(x, t)

    start = torch.tensor([[1.5]], dtype=torch.float64)
    assert sample(predict, start, schedule, [2, 1, 0], sampler="dpm", prediction="x0").item() == 0.7
    assert seen[2] == pytest.approx(x, rel=1e-12)


@pytest.mark.parametrize("sampler", ["ddim", "dpm"])
def test_deterministic_samplers_draw_no_numbers(sampler):
    generator = draw()
    sample(bounded, torch.zeros(2, 16), LINEAR, [500, 20], sampler=sampler, generator=generator)
    assert torch.equal(generator.get_state(), draw().get_state())


PREDICTIONS = ["eps", "v", "x0"]


def draws(*shape, dtype=torch.float64, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_the_linear_schedule_is_a_product():
    schedule, product = Schedule.named("linear"), 1.0
    for t in range(1000):
        product *= 1 - (1e-4 + t / 999 * (2e-2 - 1e-4))
        assert schedule.alpha_bar_at(t) == pytest.approx(product, rel=1e-12)
    assert product == pytest.approx(4.0358e-5, rel=1e-4)  # almost nothing is left of the sample


def test_the_cosine_schedule_is_that_of_the_paper():
    schedule = Schedule.named("cosine")

    def f(t):
        return math.cos((t / 1000 + 0.008) / 1.008 * math.pi / 2) ** 2

    for t in (0, 1, 250, 500, 900, 998):
        assert schedule.alpha_bar_at(t) == pytest.approx(f(t + 1) / f(0), rel=1e-9)
    assert schedule.alpha_bar_at(999) == pytest.approx(
        1e-3 * schedule.alpha_bar_at(998), rel=1e-9
    )  # the last beta is limited to 0.999


@pytest.mark.parametrize(("name", "theirs"), [("linear", "linear"), ("cosine", "squaredcos_cap_v2")])
def test_schedules_equal_those_of_diffusers(name, theirs):
    schedule = Schedule.named(name)
    assert len(schedule) == 1000 and schedule.alpha_bar.dtype == torch.float64
    expected = diffusers().DDPMScheduler(beta_schedule=theirs).alphas_cumprod.double()
    torch.testing.assert_close(schedule.alpha_bar, expected, rtol=2e-4, atol=0)


def test_factors_at_one_time():
    assert HAND.rates(0) == pytest.approx((0.8, 0.6)) and HAND.rates(1) == pytest.approx((0.6, 0.8))
    assert HAND.rates(-1) == (1.0, 0.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3,), (2, 4, 4)])
def test_factors_at_the_time_of_each_sample(dtype, shape):
    schedule = Schedule.named("linear")
    t = torch.tensor([0, 999, 417, 3])
    signal, noise = schedule.rates_of(t, torch.zeros(4, *shape, dtype=dtype))
    assert signal.dtype == noise.dtype == dtype and signal.shape == noise.shape == (4, *[1] * len(shape))
    # A strict tolerance: 1 - alpha_bar computed in float32 would be wrong by 1e-4 at time 0.
    expected = torch.tensor([schedule.rates(int(each)) for each in t], dtype=torch.float64)
    torch.testing.assert_close(signal.flatten().double(), expected[:, 0], rtol=1e-7, atol=0)
    torch.testing.assert_close(noise.flatten().double(), expected[:, 1], rtol=1e-7, atol=0)


def test_the_equations_by_hand():
    x0, eps = torch.tensor([[2.0]]), torch.tensor([[-1.0]])
    rates = HAND.rates_of(torch.tensor([0]), x0)
    x_t = add_noise(x0, eps, rates)
    torch.testing.assert_close(x_t, torch.tensor([[0.8 * 2 - 0.6]]))
    for prediction, expected in (("eps", -1.0), ("x0", 2.0), ("v", 0.8 * -1 - 0.6 * 2)):
        torch.testing.assert_close(target(x0, eps, rates, prediction), torch.tensor([[expected]]))


@pytest.mark.parametrize("prediction", PREDICTIONS)
@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_an_exact_prediction_recovers_the_sample(prediction, name):
    x0, eps = draws(6, 2, 3), draws(6, 2, 3, seed=1)
    schedule, times = Schedule.named(name), torch.tensor([0, 1, 100, 500, 900, 998])
    rates = schedule.rates_of(times, x0)
    x_t = add_noise(x0, eps, rates)
    for row, t in enumerate(times):  # with one time for all samples, as in samplers
        torch.testing.assert_close(add_noise(x0[row], eps[row], schedule.rates(int(t))), x_t[row])
    output = target(x0, eps, rates, prediction)
    torch.testing.assert_close(recover_sample(output, x_t, rates, prediction), x0, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(recover_noise(x_t, x0, rates), eps, rtol=1e-9, atol=1e-9)


def test_noise_and_velocity_equal_those_of_diffusers():
    x0, eps, t = draws(5, 3, dtype=torch.float32), draws(5, 3, dtype=torch.float32, seed=1), torch.arange(5) * 249
    theirs, rates = diffusers().DDPMScheduler(), Schedule.named("linear").rates_of(t, x0)
    torch.testing.assert_close(add_noise(x0, eps, rates), theirs.add_noise(x0, eps, t), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(target(x0, eps, rates, "v"), theirs.get_velocity(x0, eps, t), rtol=1e-4, atol=1e-5)


def test_an_unknown_schedule_is_refused():
    assert refusal(Schedule.named, "square") == "the noise schedule is 'square', expected one of linear, cosine"


def model_of(**options):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 5, generator=generator, dtype=torch.float64)
    y = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    model = ConditionalDiffusion(ToyDenoiser(5, 3), VectorLatents(5), condition=3, steps=4, **options).double()
    model.fit(x, y)
    return model, x, y


def streams(rows):
    return [torch.Generator().manual_seed(int(row)) for row in rows]


STRENGTH = torch.tensor([0.3, 0.9, 0.3, 1.0, 0.1, 0.9])


@pytest.mark.parametrize("sampler", ["ddim", "ddpm", "dpm"])
@pytest.mark.parametrize("blur", [0.0, 0.5])
def test_each_sample_equals_a_sample_drawn_alone(sampler, blur):
    model, x, y = model_of(sampler=sampler, blur=blur)
    together = model.sample(x, y, streams(range(6)), strength=STRENGTH)
    for row in range(6):
        one, _, _ = model_of(sampler=sampler, blur=blur, strength=float(STRENGTH[row]))
        alone = one.sample(x[row : row + 1], y[row : row + 1], streams([row]))
        torch.testing.assert_close(together[row], alone[0], rtol=1e-9, atol=1e-9)
    order = torch.tensor([4, 0, 5])
    others = model.sample(x[order], y[order], streams(order), strength=STRENGTH[order])
    torch.testing.assert_close(others, together[order], rtol=1e-9, atol=1e-9)


def test_one_stream_for_all_samples_can_be_replayed():
    model, x, y = model_of()
    one, other = (model.sample(x, y, torch.Generator().manual_seed(3), strength=STRENGTH) for _ in range(2))
    assert torch.equal(one, other) and not torch.equal(one[0], one[2])
