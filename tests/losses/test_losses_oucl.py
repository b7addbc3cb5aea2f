"""The unified loss against its double sum, and margins against their definitions."""

import pytest
import torch
from loss_cases import assert_value_and_gradient

from refusals import refusal
from viewsmith.losses import nt_xent
from viewsmith.losses.oucl import (
    Logits,
    combine_log_sums,
    margin_regularization,
    margins,
    masked_logsumexp,
    oucl,
    similarity,
)

FORMS = [
    Logits(),
    Logits("linear", beta=3.0, margin=0.3),
    Logits("circle", beta=8.0, gamma=0.25),
    Logits("circle", beta=8.0, detach=False),
    Logits("circle", beta=20.0, attenuation=6.0),
    Logits("circle", attenuation=6.0, detach=False),
    Logits("squared", beta=64.0),
    Logits("squared", beta=0.5, gamma=0.0),
]
every_form = pytest.mark.parametrize("logits", FORMS, ids=str)


def similarities(dtype=torch.float64, batch=5, positives=3, negatives=7):
    generator = torch.Generator().manual_seed(0)
    made = [torch.rand(batch, n, generator=generator, dtype=torch.float64) for n in (positives, negatives)]
    return [d.to(dtype).requires_grad_() for d in made]


def exponent(form, low, high):
    """beta times the exponent for one negative and one positive, as printed in the paper."""
    if form.form == "linear":
        return form.beta * (low - high + form.margin)
    if form.form == "squared":
        return form.beta * ((high - 1) ** 2 + low**2 - 2 * form.gamma**2)
    towards, away = (low.detach(), high.detach()) if form.detach else (low, high)
    weight_low = torch.clamp(towards - (-form.gamma), min=0) / form.attenuation
    weight_high = torch.clamp((1 + form.gamma) - away, min=0) / form.attenuation
    return form.beta * (weight_low * (low - form.gamma) - weight_high * (high - (1 - form.gamma)))


def double_sum(positives, negatives, form, excluded=None):
    losses = []
    for i in range(len(positives)):
        total = torch.ones((), dtype=positives.dtype)
        for k, low in enumerate(negatives[i]):
            if excluded is None or not excluded[i, k]:
                total = total + sum(torch.exp(exponent(form, low, high)) for high in positives[i])
        losses.append(torch.log(total) / form.beta)
    return torch.stack(losses)


@every_form
@pytest.mark.parametrize("masked", [False, True])
def test_value_and_gradient_equal_the_double_sum(logits, masked):
    positives, negatives = similarities()
    excluded = torch.rand(5, 7, generator=torch.Generator().manual_seed(1)) < 0.3 if masked else None
    found = oucl(positives, negatives, logits, excluded=excluded)
    expected = double_sum(positives, negatives, logits, excluded)
    assert_value_and_gradient(found, expected, (positives, negatives), rtol=1e-10, atol=1e-10)


@every_form
def test_float32_is_close_to_float64(logits):
    expected = oucl(*similarities(), logits)
    found = oucl(*similarities(torch.float32), logits)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=2e-5, atol=1e-6)


def test_the_squared_form_equals_the_circle_form_without_detached_weights():
    positives, negatives = similarities()

    def gradient(logits):
        return torch.cat([g.flatten() for g in torch.autograd.grad(oucl(positives, negatives, logits).sum(),
                                                                   (positives, negatives))])  # fmt: skip

    squared, whole, detached = (
        Logits("squared", beta=4.0),
        Logits("circle", beta=4.0, detach=False),
        Logits("circle", beta=4.0),
    )
    for other in (whole, detached):
        torch.testing.assert_close(oucl(positives, negatives, other), oucl(positives, negatives, squared))
    torch.testing.assert_close(gradient(whole), gradient(squared))
    assert not torch.allclose(gradient(detached), gradient(squared), rtol=0.01)


def test_one_positive_gives_info_nce():
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(6, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    d = similarity(a[:, None], b)
    others = ~torch.eye(6, dtype=torch.bool)
    found = oucl(d.diagonal()[:, None], d[others].view(6, 5), Logits(beta=10.0))
    torch.testing.assert_close(10 * found, nt_xent(a, b, temperature=0.2, negatives="cross"))


def test_a_large_beta_gives_the_loss_of_the_hardest_pair():
    positives, negatives = similarities()
    found = oucl(positives, negatives, Logits(beta=1e5, margin=0.1))
    hardest = (negatives.amax(1) - positives.amin(1) + 0.1).clamp_min(0)
    torch.testing.assert_close(found, hardest, rtol=0, atol=1e-3)


def test_log_sums_of_groups_combine_to_the_loss():
    positives, negatives = similarities()
    logits = Logits("squared")
    negative = torch.stack([masked_logsumexp(logits.negative(part)) for part in negatives.split(3, 1)], -1).logsumexp(
        -1
    )
    positive = torch.stack([masked_logsumexp(logits.positive(part)) for part in positives.split(2, 1)], -1).logsumexp(
        -1
    )
    torch.testing.assert_close(combine_log_sums(negative, positive, logits.beta), oucl(positives, negatives, logits))


def test_a_sample_without_negatives_has_no_loss_and_no_gradient():
    positives, negatives = similarities()
    excluded = torch.zeros(5, 7, dtype=torch.bool)
    excluded[2] = True
    losses = oucl(positives, negatives, excluded=excluded)
    gradients = torch.autograd.grad(losses.sum(), (positives, negatives), create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in gradients), (positives, negatives))
    assert losses[2] == 0 and (losses[[0, 1, 3, 4]] > 0).all()
    assert all((g[2] == 0).all() and torch.isfinite(g).all() for g in (*gradients, *second))


def test_a_row_of_zeros_has_cosine_zero():
    a = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    b = torch.tensor([[1.0, 0, 0], [0, 0, 0]], dtype=torch.float64)
    d = similarity(a, b)
    assert (d == 0.5).all() and torch.isfinite(torch.autograd.grad(d.sum(), a)[0]).all()
    d = similarity(torch.tensor([[2.0, 0], [3, 0], [1, 1]]), torch.tensor([[1.0, 0], [-1, 0], [1, -1]]))
    torch.testing.assert_close(d, torch.tensor([1.0, 0, 0.5]))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"form": "cubic"}, "form is 'cubic', expected linear, circle or squared"),
        ({"beta": 0}, "beta is 0, expected a number above 0"),
        ({"attenuation": -1}, "attenuation is -1"),
        ({"gamma": -0.1}, "gamma is -0.1"),
    ],
)
def test_settings_out_of_range_are_rejected(options, expected):
    assert expected in refusal(Logits, **options)


@pytest.mark.parametrize(("p", "k", "expected"), [(0, 3, "0 positives and 3"), (2, 0, "2 positives and 0")])
def test_no_positives_or_no_negatives_are_rejected(p, k, expected):
    assert expected in refusal(oucl, torch.rand(4, p), torch.rand(4, k))
    assert "(4, 2) and (3, 2)" in refusal(oucl, torch.rand(4, 2), torch.rand(3, 2))


# ---- margins


@pytest.mark.parametrize(("kind", "sigma"), [("large", (0.2, 0.9)), ("medium", (0.55, 0.55)), ("small", (0.9, 0.2))])
@pytest.mark.parametrize("swapped", [False, True])
def test_margins_by_hand(kind, sigma, swapped):
    low, high = torch.tensor(0.2, requires_grad=True), torch.tensor(0.9, requires_grad=True)
    found = margins(*((high, low) if swapped else (low, high)), kind)
    assert [s.item() for s in found] == pytest.approx(sigma) and not any(s.requires_grad for s in found)


@pytest.mark.parametrize("kind", ["large", "medium", "small"])
@pytest.mark.parametrize("per_sample", [False, True])
def test_the_regularization_equals_equation_5(kind, per_sample):
    original, augmented = similarities(), [1 - d for d in similarities()]
    excluded = torch.zeros(5, 7, dtype=torch.bool)
    excluded[1, :3] = True
    extremes = (original[0].amin(1), original[1].amax(1)) if per_sample else (original[0].min(), original[1].max())
    sigma = margins(*extremes, kind)
    found = margin_regularization(*augmented, sigma, excluded=excluded)
    for i in range(5):
        high, low = (float(s[i] if per_sample else s) for s in sigma)
        close = [max(d.item() - high, 0) for d in augmented[0][i]]
        far = [max(low - d.item(), 0) for d, out in zip(augmented[1][i], excluded[i], strict=True) if not out]
        assert found[i].item() == pytest.approx(sum(close) / len(close) + sum(far) / len(far), rel=1e-9)
    if not per_sample:
        # Without exclusions, the mean over samples equals the paper's mean over pairs.
        whole = margin_regularization(*augmented, sigma).mean()
        plain = (augmented[0] - sigma[0]).clamp_min(0).mean() + (sigma[1] - augmented[1]).clamp_min(0).mean()
        torch.testing.assert_close(whole, plain)


def test_only_augmented_pairs_get_a_gradient():
    original, augmented = similarities(), similarities(batch=5)
    sigma = margins(original[0].min(), original[1].max(), "large")
    loss = margin_regularization(*augmented, sigma).sum()
    assert torch.autograd.grad(loss, original, allow_unused=True, retain_graph=True) == (None, None)
    assert all(g.abs().sum() > 0 for g in torch.autograd.grad(loss, augmented))
