"""Noise schedules, and the equations of sample, noise, noised sample and prediction."""

import math

import pytest
import torch
from diffusion_toys import diffusers

from refusals import refusal
from viewsmith.views.generated.diffusion import Schedule, add_noise, recover_noise, recover_sample, target

HAND = Schedule(torch.tensor([0.64, 0.36], dtype=torch.float64))
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
