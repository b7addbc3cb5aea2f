"""Denoisers of images: shapes, what they depend on, and the published one against its listing."""

import pytest
import torch

from viewsmith.core.errors import InputError
from viewsmith.networks.denoisers.images import ImageDenoiser, PublishedImageDenoiser

KINDS = {"default": ImageDenoiser, "published": PublishedImageDenoiser}
every_kind = pytest.mark.parametrize("kind", KINDS)
CONDITION = 5


def made(kind, channels=3, dtype=torch.float32):
    torch.manual_seed(0)
    return KINDS[kind](channels, CONDITION).to(dtype)


def batch(n, height, width, channels=3, dtype=torch.float32, seed=0):
    """Noised images, times and conditions."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, channels, height, width, generator=g, dtype=dtype)
    return x, torch.randint(1000, (n,), generator=g), torch.randn(n, CONDITION, generator=g, dtype=dtype)


def steps(network, count, x, t, condition, wanted, rate=1e-2):
    """Errors of a few steps towards `wanted`."""
    optimizer = torch.optim.Adam(network.parameters(), lr=rate)
    errors = []
    for _ in range(count):
        error = (network(x, t, condition) - wanted).square().mean()
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        errors.append(float(error.detach()))
    return errors


@every_kind
@pytest.mark.parametrize("size", [(8, 8), (9, 13), (28, 28), (32, 32)])
@pytest.mark.parametrize("channels", [1, 3])
def test_predictions_have_the_size_of_the_images(kind, size, channels):
    x, t, condition = batch(2, *size, channels)
    prediction = made(kind, channels)(x, t, condition)
    assert prediction.shape == x.shape and prediction.dtype == x.dtype and torch.isfinite(prediction).all()


@every_kind
def test_double_precision(kind):
    x, t, condition = batch(2, 8, 8, dtype=torch.float64)
    network = made(kind, dtype=torch.float64)
    assert network(x, t, condition).dtype == torch.float64
    torch.testing.assert_close(network(x, t.double(), condition), network(x, t, condition), rtol=1e-4, atol=1e-4)


def test_an_untrained_default_predicts_zero():
    assert not made("default")(*batch(2, 8, 8)).any()
    assert made("published")(*batch(2, 8, 8)).any()  # as published, see its documentation


@every_kind
def test_smaller_images_are_refused(kind):
    with pytest.raises(InputError, match="8"):
        made(kind)(*batch(2, 7, 12))


@every_kind
def test_image_time_and_condition_matter(kind):
    network, (x, t, condition) = made(kind), batch(4, 8, 8)
    steps(network, 3, x, t, condition, x + condition[:, :1, None, None] + (t / 500 - 1)[:, None, None, None])
    before = network(x, t, condition).detach()
    for other in ((x.flip(3), t, condition), (x, (t + 500) % 1000, condition), (x, t, condition + 1)):
        assert (network(*other) - before).abs().max() > 1e-3


@every_kind
def test_an_image_does_not_depend_on_its_batch(kind):
    network, (x, t, condition) = made(kind), batch(4, 8, 8)
    steps(network, 2, x, t, condition, x)
    whole, alone = network(x, t, condition), network(x[2:3], t[2:3], condition[2:3])
    torch.testing.assert_close(whole[2:3], alone, rtol=1e-4, atol=1e-5)


@every_kind
def test_every_weight_learns(kind):
    network, (x, t, condition) = made(kind), batch(4, 16, 16)
    # The default's ends start at zero, so that what is before them waits for them.
    steps(network, 3, x, t, condition, x * condition[:, :1, None, None])
    still = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
    assert still == []


@every_kind
def test_a_few_images_are_learned_by_heart(kind):
    x, t, condition = batch(8, 8, 8, 1)
    wanted = batch(8, 8, 8, 1, seed=1)[0]
    errors = steps(made(kind, 1), 120, x, t, condition, wanted, rate=5e-3)
    assert errors[0] > 0.8 and errors[-1] < 0.4


def test_the_published_network_has_the_listed_widths():
    network = made("published")
    convolutions = [m for m in network.modules() if isinstance(m, torch.nn.Conv2d)]
    assert [c.out_channels for c in convolutions[:2]] == [16, 16] and convolutions[-1].kernel_size == (1, 1)
    assert [m.change.layers[3].out_channels for m in (*network.down, *network.up)] == [32, 64, 64, 32, 16, 16]
    assert [m.same.layers[0].in_channels for m in (*network.down, *network.up)] == [16, 32, 64, 128, 64, 32]
    attention = (*network.down_attention, *network.up_attention)
    assert [m.attention.embed_dim for m in attention] == [32, 64, 64, 32, 16, 16]
    assert {m.attention.num_heads for m in attention} == {4}


def test_the_published_time_code_is_that_of_the_listing():
    from viewsmith.networks.denoisers.images import _listed_time_code

    code = _listed_time_code(torch.tensor([0, 7]))
    assert code.shape == (2, 256)
    assert torch.equal(code[0], torch.cat([torch.zeros(128), torch.ones(128)]))
    rates = [10_000 ** -(2 * k / 256) for k in range(128)]
    torch.testing.assert_close(code[1, :128], torch.sin(7 * torch.tensor(rates)), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(code[1, 128:], torch.cos(7 * torch.tensor(rates)), rtol=1e-4, atol=1e-5)
