"""Adversarial views: size and direction of the step, no side effects; noise on representations."""

import copy

import pytest
import torch
from torch import nn

from viewsmith.frameworks import SimCLR
from viewsmith.modalities.vectors.views import AdversarialViews
from viewsmith.networks import MLP
from viewsmith.views import PairMaker, PositivePair
from viewsmith.views.base import RepresentationNoise, representation_noise

D = 6


def draw(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def framework(dtype=torch.float32, norm="batch"):
    torch.manual_seed(0)
    return SimCLR(MLP(D, [16, 8], norm=norm), MLP(8, [4]), temperature=0.2).to(dtype)


def pair(rows=9, dtype=torch.float32):
    ids = torch.arange(rows)
    return PositivePair(draw(rows, D, dtype=dtype), draw(rows, D, seed=1, dtype=dtype), (ids, ids))


class Linear(nn.Module):
    """A loss with a known gradient: products of both views with a fixed direction."""

    def __init__(self, direction):
        super().__init__()
        self.direction = direction

    def forward(self, pair):
        return (pair.first * self.direction).sum(1) + 2 * (pair.second * -self.direction).sum(1)


def test_only_the_second_view_moves_by_default():
    given = pair()
    moved = AdversarialViews().pair(given, loss=framework())
    assert moved.first is given.first
    torch.testing.assert_close((moved.second - given.second).abs(), torch.full((9, D), 0.1))
    assert moved.ids is given.ids


def test_both_views_move_each_by_its_own_gradient():
    given = pair()
    moved = AdversarialViews(0.5, both=True).pair(given, loss=Linear(torch.tensor([3.0, -1.0, 0, 0, 0, 0])))
    step = torch.tensor([0.5, -0.5, 0, 0, 0, 0])
    torch.testing.assert_close(moved.first, given.first + step)
    torch.testing.assert_close(moved.second, given.second - step)


@pytest.mark.parametrize("step", ["sign", "length"])
def test_the_step_follows_the_gradient(step):
    # Finite differences of the whole batch's loss, feature by feature.
    bound = framework(torch.float64).eval()
    given = pair(4, torch.float64)
    moved = AdversarialViews(0.1, step).pair(given, loss=bound).second - given.second
    slopes = torch.zeros(4, D, dtype=torch.float64)
    for i in range(4):
        for j in range(D):
            ends = []
            for sign in (1, -1):
                other = given.second.clone()
                other[i, j] += sign * 1e-6
                ends.append(float(bound(PositivePair(given.first, other, given.ids)).sum().detach()))
            slopes[i, j] = (ends[0] - ends[1]) / 2e-6
    expected = slopes.sign() if step == "sign" else slopes / slopes.square().mean(1, keepdim=True).sqrt()
    torch.testing.assert_close(moved, 0.1 * expected, rtol=1e-4, atol=1e-7)


class Stateful(SimCLR):
    """A framework with state that changes in forward passes in training mode, like the queue of MoCo."""

    def __init__(self, *parts):
        super().__init__(*parts)
        self.register_buffer("pointer", torch.zeros(()))

    def forward(self, pair, progress=0.0):
        if self.training:
            self.pointer += 1
        return super().forward(pair)


def test_the_framework_does_not_change():
    torch.manual_seed(0)
    bound = Stateful(MLP(D, [16, 8], norm="batch"), MLP(8, [4]))
    bound.head.eval()  # a part that is in evaluation mode during training
    before, modes = copy.deepcopy(bound.state_dict()), [part.training for part in bound.modules()]
    state = torch.get_rng_state()
    AdversarialViews().pair(pair(), loss=bound)
    assert [part.training for part in bound.modules()] == modes
    assert all(torch.equal(bound.state_dict()[key], value) for key, value in before.items())
    assert all(parameter.grad is None for parameter in bound.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_training_modes_are_restored_after_an_error():
    bound = framework()
    with pytest.raises(RuntimeError):
        AdversarialViews().pair(PositivePair(draw(9, D + 1), draw(9, D + 1)), loss=bound)
    assert all(part.training for part in bound.modules())


def test_the_step_is_not_differentiated():
    first, second = (x.requires_grad_() for x in (draw(9, D), draw(9, D, seed=1)))
    moved = AdversarialViews(both=True).pair(PositivePair(first, second), loss=framework())
    (moved.first.sum() + moved.second.sum()).backward()
    torch.testing.assert_close(first.grad, torch.ones(9, D))
    torch.testing.assert_close(second.grad, torch.ones(9, D))


def test_the_step_is_the_same_under_no_grad_and_autocast():
    bound, given = framework(), pair()
    expected = AdversarialViews().pair(given, loss=bound).second
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found = AdversarialViews().pair(given, loss=bound).second
    assert torch.equal(found, expected) and not found.requires_grad


def test_the_framework_is_not_a_submodule_of_the_views():
    views, bound = PairMaker([AdversarialViews()]), framework()
    pair = views(draw(9, D), framework=bound)
    assert pair.second.shape == (9, D) and torch.equal(pair.first, draw(9, D))
    assert torch.equal(views.view(draw(9, D), framework=bound), pair.second)
    assert not views.state_dict() and [type(part) for part in views.makers.modules()][1:] == [AdversarialViews]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_single_view_moves_away_from_a_noisy_copy(dtype):
    maker, x, loss = AdversarialViews(0.2), draw(9, D, dtype=dtype), framework(dtype)
    one, again, other = (maker(x, generator=generator(seed), loss=loss) for seed in (0, 0, 1))
    assert torch.equal(one, again) and not torch.equal(one, other)
    assert one.shape == x.shape and one.dtype == dtype
    torch.testing.assert_close((one - x).abs(), torch.full_like(x, 0.2))


def test_padding_of_sequences_stays_zero():
    x = torch.zeros(5, 4, 12)
    x[:, :, :8] = torch.softmax(draw(5, 4, 8), 1)
    bound = SimCLR(nn.Sequential(nn.Conv1d(4, 8, 5), nn.Flatten()), nn.Linear(64, 4))
    for step in ("sign", "length"):
        maker = AdversarialViews(0.1, step, both=True)
        moved = maker.pair(PositivePair(x, x.clone()), loss=bound)
        for view in (moved.second, maker(x, generator=generator(), loss=bound)):
            assert (view[:, :, 8:] == 0).all()
            assert (view[:, :, :8] != x[:, :, :8]).all()


def test_a_missing_loss_is_an_error():
    for call in (lambda: AdversarialViews().pair(pair()), lambda: PairMaker([AdversarialViews()])(draw(9, D))):
        with pytest.raises(RuntimeError, match="give the framework, as loss=framework"):
            call()


# --- noise on representations


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_representation_noise_has_the_given_norm_and_keeps_signs(dtype):
    h = draw(200, 10, dtype=dtype)
    noise = representation_noise(h, 0.3, generator()) - h
    torch.testing.assert_close(noise.norm(dim=1), torch.full((200,), 0.3, dtype=dtype), rtol=1e-4, atol=1e-6)
    assert (noise.sign() == h.sign()).all()
    # For uniform u, the ratio of mean and root mean square is sqrt(3) / 2.
    assert float(noise.abs().mean()) == pytest.approx(0.3 / 10**0.5 * 3**0.5 / 2, rel=0.05)


def test_the_module_acts_only_in_training_and_has_its_own_stream():
    noise, h = RepresentationNoise(0.3, seed=1), draw(5, 4).requires_grad_()
    state = torch.get_rng_state()
    one, two = noise(h), noise(h)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(one, two)
    assert noise.eval()(h) is h
    again = RepresentationNoise(0.3, seed=1)
    assert torch.equal(again(h), one)
    resumed = RepresentationNoise(0.3, seed=7)
    resumed.load_state_dict(again.state_dict())
    assert torch.equal(resumed(h), two)
    one.sum().backward()
    torch.testing.assert_close(h.grad, torch.ones(5, 4))


def test_the_default_seed_is_drawn_from_the_global_generator():
    outputs = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        outputs.append(RepresentationNoise()(torch.ones(2, 3)))
    assert torch.equal(outputs[0], outputs[1]) and not torch.equal(outputs[0], outputs[2])


def test_a_momentum_copy_draws_different_noise():
    student = RepresentationNoise(0.3, seed=1)
    teacher, h = copy.deepcopy(student), draw(5, 4)
    assert not torch.equal(student(h.clone().requires_grad_()), teacher(h))
