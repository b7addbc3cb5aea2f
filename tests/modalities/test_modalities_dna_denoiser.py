"""The denoiser of DNA: padding, receptive field, and Bayes' rule in its last layer."""

import itertools

import pytest
import torch

from viewsmith.modalities.dna.networks import SequenceDenoiser

CONDITION = 5


def network_of(dtype=torch.float32, **options):
    torch.manual_seed(0)
    return SequenceDenoiser(CONDITION, **options).to(dtype)


def randomized(dtype=torch.float32, **options):
    """A network with a random last layer, so that its predictions are not 0."""
    network = network_of(dtype, **options)
    torch.nn.init.normal_(network.factors.weight, std=0.3)
    torch.nn.init.normal_(network.factors.bias)
    return network


def batch(n, length, dtype=torch.float32, seed=0):
    """Noised letters, times and conditions."""
    g = torch.Generator().manual_seed(seed)
    letters = torch.nn.functional.one_hot(torch.randint(4, (n, length), generator=g), 4).mT.to(dtype)
    x = 2 * letters - 1 + torch.randn(n, 4, length, generator=g, dtype=dtype)
    return x, torch.randint(1000, (n,), generator=g), torch.randn(n, CONDITION, generator=g, dtype=dtype)


def test_sequences_of_several_lengths_in_one_batch():
    lengths = (1, 6, 20, 41)
    x, t, condition = batch(4, 41, torch.float64)
    x = x * (torch.arange(41) < torch.tensor(lengths)[:, None])[:, None]
    network = randomized(torch.float64)
    found = network(x, t, condition)
    for i, length in enumerate(lengths):
        alone = network(x[i : i + 1, :, :length], t[i : i + 1], condition[i : i + 1])[0]
        torch.testing.assert_close(found[i, :, :length], alone)
        assert not found[i, :, length:].any()


def test_a_batch_of_padding_only():
    _, t, condition = batch(2, 9)
    assert not randomized()(torch.zeros(2, 4, 9), t, condition).any()


def test_bayes_rule_for_independent_letters():
    """If logits do not depend on other positions, and the factors are exact, the prediction is the expected noise."""
    a, b = 0.8, 0.6
    network = network_of(torch.float64)
    torch.nn.init.zeros_(network.logits.weight)
    frequencies = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    with torch.no_grad():
        network.logits.bias.copy_(frequencies.log())
        network.factors.bias.copy_(torch.tensor([2 * a / b**2, 1.0, 1.0]).log())
        network.factors.bias[1:] = torch.tensor([1 / b, (1 - a) / b])
    x, t, condition = batch(2, 5, torch.float64)
    found = network(x, t, condition)
    for i, position in itertools.product(range(2), range(5)):
        column = x[i, :, position]
        letters = 2 * torch.eye(4, dtype=torch.float64) - 1
        likelihoods = torch.stack(
            [frequencies[k] * torch.exp(-(column - a * letters[k]).square().sum() / (2 * b**2)) for k in range(4)]
        )
        expected = (likelihoods[:, None] * letters).sum(0) / likelihoods.sum()
        torch.testing.assert_close(found[i, :, position], (column - a * expected) / b)


@pytest.mark.full_size
def test_the_receptive_field():
    network = randomized(torch.float64)
    x, t, condition = batch(1, 150, torch.float64)
    x.requires_grad_()
    middle = torch.autograd.grad(network(x, t, condition)[0, 0, 75], x)[0].abs().sum(1)[0]
    assert bool((middle[75 - 60 : 75 + 61] > 1e-12).all())
    last = torch.autograd.grad(network(x, t, condition)[0, 0, -1], x)[0].abs().sum(1)[0]
    assert bool((last[-40:] > 1e-12).all())


def test_the_incomplete_last_patch_is_used():
    """Without convolutions at full resolution, only patches connect the last base to others."""
    network = randomized(torch.float64)
    with torch.no_grad():
        network.motifs.weight[:, :, :4] = network.motifs.weight[:, :, 5:] = 0
        network.local.weight.zero_()
    x, t, condition = batch(1, 41, torch.float64)
    x.requires_grad_()
    found = torch.autograd.grad(network(x, t, condition)[0, 0, 20], x)[0]
    assert bool((found[0, :, 40].abs() > 1e-12).all())


def test_sizes_of_the_layers():
    network = network_of(width=8, fine=4, dilations=(1, 2, 4))
    assert len(network.dilated) == 3 and network.dilated[2].dilation == (4,)
    assert network.motifs.out_channels == 4 and network.down.out_channels == 8
    assert network(*batch(2, 11)).shape == (2, 4, 11)
