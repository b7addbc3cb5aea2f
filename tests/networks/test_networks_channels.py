"""Networks that score transformations of any kind: all alike to begin with, and of each sample alone."""

import itertools

import pytest
import torch
from torch import nn

from viewsmith.networks import ImageScores, SequenceScores


def shaken(network):
    torch.manual_seed(0)
    for weight in network.parameters():
        nn.init.normal_(weight, std=0.3)
    return network


def dna(lengths, padded):
    x = torch.zeros(len(lengths), 4, padded)
    generator = torch.Generator().manual_seed(1)
    for row, length in enumerate(lengths):
        letters = torch.randint(4, (length,), generator=generator)
        x[row, letters, torch.arange(length)] = 1
    return x


CASES = {
    "images": (lambda: ImageScores(3, 5), lambda: torch.randn(4, 3, 17, 23)),
    "one pixel": (lambda: ImageScores(1, 5), lambda: torch.randn(4, 1, 1, 1)),
    "sequences": (lambda: SequenceScores(5), lambda: dna([40, 33, 7, 1], 40)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", CASES)
def test_one_score_for_each_transformation_and_all_alike_at_first(name, dtype):
    make, samples = CASES[name]
    network, x = make().to(dtype), samples().to(dtype)
    assert network(x).shape == (4, 5) and not network(x).any()
    scores = shaken(network)(x)
    assert scores.dtype is dtype and scores.std(dim=1).min() > 1e-3
    torch.testing.assert_close(network(x[1:2])[0], scores[1], atol=1e-4, rtol=1e-4)
    scores.sum().backward()
    assert all(weight.grad is not None for weight in network.parameters())


def test_scores_of_images_know_where_something_is():
    network = shaken(ImageScores(1, 5))
    x = torch.zeros(2, 1, 32, 32)
    x[0, 0, 2:8, 2:8] = x[1, 0, 22:28, 22:28] = 1
    scores = network(x)
    assert (scores[0] - scores[1]).abs().max() > 1e-2


def test_scores_of_sequences_do_not_depend_on_padding():
    network = shaken(SequenceScores(5))
    short, long = dna([29, 12], 29), dna([29, 12], 64)
    torch.testing.assert_close(network(short), network(long), atol=1e-4, rtol=1e-4)


def test_scores_of_sequences_are_of_the_means_over_equal_stretches():
    network = shaken(SequenceScores(5)).double()
    x = dna([21], 30).double()
    h = torch.relu(network.conv2(torch.relu(network.conv1(x)) * (torch.arange(30) < 21)))[0]
    ends = [round(21 * k / 8) for k in range(9)]  # 0, 3, 5, 8, 10, 13, 16, 18, 21
    means = torch.stack([h[:, a:b].mean(1) for a, b in itertools.pairwise(ends)], dim=1)
    torch.testing.assert_close(network(x)[0], network.outer(means.flatten()), rtol=1e-6, atol=1e-8)
