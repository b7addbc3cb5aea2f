"""The augmentation channel: its distribution, draws and inference weights; families of custom transformations."""

import copy
import math

import pytest
import torch
from torch import nn

from refusals import refusal
from viewsmith.core.tensors import stream
from viewsmith.methods.crl_tac.channel import AugmentationChannel, nonzero
from viewsmith.methods.crl_tac.transforms import Masks
from viewsmith.views import Functions


class Fixed(nn.Module):
    """The same logits for every sample, but logits of zero for samples of zeros."""

    def __init__(self, p):
        super().__init__()
        self.scores = nn.Parameter(torch.tensor(p).log())

    def forward(self, x):
        return self.scores * (x.abs().amax(1, keepdim=True) > 0)


P = [0.5, 0.25, 0.125, 0.125]


def channel(p=P):
    return AugmentationChannel(Masks(6, count=4), None if p is None else Fixed(p))


def test_the_distribution_and_its_effective_number():
    x = torch.ones(3, 6)
    x[1] = 0
    maker = channel()
    p = maker.log_p(x).exp()
    torch.testing.assert_close(p, torch.tensor([P, [0.25] * 4, P]))
    half = 2**0.5 * 4**0.25 * 8**0.25  # exp of the entropy: product of p^-p
    torch.testing.assert_close(maker.effective(x), torch.tensor([half, 4.0, half]))


def test_draws_follow_the_distribution_and_can_be_replayed():
    x = torch.ones(2, 6)
    drawn = channel().draw(x, 40_000, stream(0, "draws"))
    frequencies = torch.bincount(drawn[1], minlength=4) / 40_000
    assert (frequencies - torch.tensor(P)).abs().max() < 0.01
    assert torch.equal(drawn, channel().draw(x, 40_000, stream(0, "draws")))
    assert not torch.equal(drawn[0], drawn[1])


def test_draws_near_a_transformation_that_is_drawn_from_the_distribution():
    near = torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], dtype=torch.bool)
    drawn = channel().draw(torch.ones(40_000, 6), 2, stream(0, "draws"), near)
    assert near[drawn[:, 0], drawn[:, 1]].all()
    expected = torch.tensor([(P[0] + P[1]) / 2, (P[0] + P[1]) / 2, P[2], P[3]])
    assert (torch.bincount(drawn[:, 1], minlength=4) / 40_000 - expected).abs().max() < 0.01


def test_statistics_of_different_and_of_equal_distributions():
    x = torch.ones(4, 6)
    same = channel().statistics(x, lambda views: views.sum(1) > 0)
    assert same["effective"] == pytest.approx(math.exp(same["entropy"]))
    assert same["places"] == pytest.approx(same["effective"]) and same["largest_p"] == pytest.approx(max(P))
    assert same["nonempty_mass"] == pytest.approx(1.0)
    x[:2] = 0  # uniform there
    mixed = channel().statistics(x)
    mean = [(p + 0.25) / 2 for p in P]
    assert mixed["places"] == pytest.approx(math.exp(-sum(p * math.log(p) for p in mean)))
    assert mixed["places"] > mixed["effective"] and "nonempty_mass" not in mixed


def test_a_view_is_the_transformation_drawn():
    maker, x = channel([0.0001, 0.0001, 0.9997, 0.0001]), torch.randn(5, 6)
    view = maker(x, generator=stream(0, "view"))
    torch.testing.assert_close(view, x * maker.family.masks[2])


def test_without_a_network_the_distribution_is_uniform():
    maker = channel(None)
    torch.testing.assert_close(maker.log_p(torch.randn(2, 6)).exp(), torch.full((2, 4), 0.25))
    assert not list(maker.parameters())


def test_gradient_reaches_the_scores_only_through_the_distribution():
    maker, x = channel(), torch.ones(2, 6)
    maker.log_p(x)[:, 0].sum().backward()
    torch.testing.assert_close(maker.scores.scores.grad, 2 * (torch.tensor([1.0, 0, 0, 0]) - torch.tensor(P)))
    assert not maker(x, generator=stream(0, "x")).requires_grad


@pytest.mark.parametrize(
    ("how", "count", "expected"),
    [
        ("expectation", None, P),
        ("uniform", None, [0.25] * 4),
        ("top", 2, [0.5, 0.5, 0, 0]),
        ("top", 1, [1.0, 0, 0, 0]),
        ("top", 9, [0.25] * 4),
        # Quantiles 1/8, 3/8, 5/8, 7/8 of the distribution.
        ("expectation", 4, [0.5, 0.25, 0.25, 0]),
        ("expectation", 1, [1.0, 0, 0, 0]),
        ("expectation", 16, P),
    ],
)
def test_inference_weights(how, count, expected):
    # With one draw, the quantile 1/2 must not be on the boundary of two transformations.
    maker = channel([0.5001, 0.2499, 0.125, 0.125]) if count == 1 else channel()
    torch.testing.assert_close(
        maker.inference_weights(torch.ones(1, 6), how, count)[0], torch.tensor(expected), atol=1e-3, rtol=0
    )


def test_inference_weights_do_not_depend_on_other_samples():
    maker, x = channel(), torch.rand(7, 6)
    x[3] = 0
    for how, count in (("expectation", None), ("expectation", 5), ("top", 2), ("uniform", None)):
        together = maker.inference_weights(x, how, count)
        torch.testing.assert_close(together.sum(1), torch.ones(7))
        assert torch.equal(maker.inference_weights(x[3:4], how, count)[0], together[3])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_probability_of_views_equals_a_slow_sum(dtype, monkeypatch):
    maker = channel().to(dtype)
    x = torch.randn(7, 6, generator=torch.Generator().manual_seed(0)).to(dtype)
    x[2] = 0

    def positive(views):
        return views.sum(1) > 0

    probability = maker.probability_of(x, positive)
    for row, value in zip(x, probability, strict=True):
        p = P if row.any() else [0.25] * 4
        slow = sum(q for q, mask in zip(p, maker.family.masks, strict=True) if (row * mask).sum() > 0)
        assert value.item() == pytest.approx(slow)
    assert (
        probability.dtype is dtype and probability[2] == 0 and probability.max() > 0 and len(probability.unique()) > 3
    )
    monkeypatch.setattr("viewsmith.methods.crl_tac.channel.ROWS", 3)
    assert torch.equal(maker.probability_of(x, positive), probability)
    assert torch.equal(maker.probability_of(x, nonzero).round(decimals=5), (x != 0).any(1).to(dtype))


def test_nonzero_views():
    views = torch.zeros(4, 1, 3, 3)
    views[1, 0, 2, 2], views[2, 0, 0, 0], views[3] = 1e-30, -1, 2
    assert nonzero(views).tolist() == [False, True, True, True]


@pytest.mark.parametrize(
    ("predicate", "returned"),
    [
        (lambda views: views.any(), "torch.bool ()"),
        (lambda views: views.amax(1), "torch.float32 (12,)"),
        (lambda views: views > 0, "torch.bool (12, 6)"),
        (lambda views: [True] * len(views), "list"),
    ],
)
def test_predicates_that_do_not_return_bool_per_view_are_an_error(predicate, returned):
    message = refusal(channel().probability_of, torch.ones(3, 6), predicate)
    assert message == f"nonempty returned {returned} for views (12, 6), expected bool (12,)"


def double(x):
    return 2 * x


def first_half(x):
    return x[..., : x.shape[-1] // 2]


def second_half(x):
    return x[..., x.shape[-1] // 2 :]


FUNCTIONS = [double, torch.neg, lambda x: x.flip(1)]


def samples(n=4, dtype=torch.float32):
    return torch.arange(6.0 * n, dtype=dtype).view(n, 6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_views_are_the_outputs_of_the_functions(dtype):
    family, x = Functions(FUNCTIONS), samples(dtype=dtype)
    t = torch.tensor([[0, 2, 2, 1], [1, 1, 1, 1], [2, 0, 1, 0], [0, 0, 0, 0]])
    views = family.take(x, t)
    assert family.size == 3 and views.dtype is dtype and views.shape == (4, 4, 6)
    for i in range(4):
        for j in range(4):
            assert torch.equal(views[i, j], FUNCTIONS[t[i, j]](x[i : i + 1])[0])
    assert torch.equal(family.all_views(x), torch.stack([f(x) for f in FUNCTIONS], dim=1))


def test_a_function_gets_only_the_samples_for_which_it_is_drawn():
    seen = []

    def record(x):
        seen.append(x.clone())
        return x

    family, x = Functions([record, torch.neg]), samples()
    family.take(x, torch.tensor([[1, 1], [0, 1], [1, 1], [0, 0]]))
    family.take(x, torch.ones(4, 2, dtype=torch.int64))
    assert len(seen) == 1 and torch.equal(seen[0], x[[1, 3, 3]])


def test_is_view_distinguishes_views_of_another_shape():
    family, x = Functions([first_half, second_half]), samples()
    assert family.all_views(x).shape == (4, 2, 3) and not family.is_view(x[:, :3])
    family.shapes = (6,), (3,)
    assert family.is_view(x[:, :3]) and not family.is_view(x)
    family.shapes = (6,), (6,)
    assert not family.is_view(x)


def test_modules_are_copied_and_not_trained():
    linear = nn.Linear(6, 6)
    family = Functions([linear, nn.Identity()])
    assert len(family.state_dict()) == 2 and not any(p.requires_grad for p in family.parameters())
    other = copy.deepcopy(family)
    with torch.no_grad():
        linear.weight.zero_()
    x = samples()
    assert torch.equal(family.all_views(x), other.all_views(x)) and not torch.equal(
        family.all_views(x)[:, 0], linear(x)
    )
    assert other.double().all_views(x.double()).dtype is torch.float64
    assert linear.weight.requires_grad


def fails(x):
    raise ValueError("no\nsuch thing")


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ([], "functions: the family has 0 transformations, expected at least 2"),
        ([double], "functions: the family has 1 transformation, expected at least 2"),
        ([double, fails], "transformation 1 (fails) failed for samples (4, 6): ValueError: no such thing"),
        ([double, first_half], "transformation 1 (first_half) returned views of shape (3,)"),
        ([lambda x: x.mean(0), double], "transformation 0 (<lambda>) returned (6,) for samples (4, 6)"),
        ([double, lambda x: x.sum(1)], "transformation 1 (<lambda>) returned (4,) for samples (4, 6)"),
        ([double, lambda x: x.numpy()], "transformation 1 (<lambda>) returned ndarray for samples (4, 6)"),
        ([torch.log, double], "transformation 0 (log) returned values that are not finite"),
    ],
)
def test_invalid_functions_are_refused(functions, message):
    assert message in refusal(lambda: Functions(functions).all_views(samples()))
