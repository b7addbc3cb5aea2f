"""Networks of augmentation channels: initial scores, and independence of padding and of other samples."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from viewsmith.networks import CropScores, ImageScores, SequenceScores


def randomized(network):
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
def test_there_is_one_score_per_transformation_initially_zero(name, dtype):
    make, samples = CASES[name]
    network, x = make().to(dtype), samples().to(dtype)
    assert network(x).shape == (4, 5) and not network(x).any()
    scores = randomized(network)(x)
    assert scores.dtype is dtype and scores.std(dim=1).min() > 1e-3
    torch.testing.assert_close(network(x[1:2])[0], scores[1], atol=1e-4, rtol=1e-4)
    scores.sum().backward()
    assert all(weight.grad is not None for weight in network.parameters())


def test_scores_of_images_depend_on_positions():
    network = randomized(ImageScores(1, 5))
    x = torch.zeros(2, 1, 32, 32)
    x[0, 0, 2:8, 2:8] = x[1, 0, 22:28, 22:28] = 1
    scores = network(x)
    assert (scores[0] - scores[1]).abs().max() > 1e-2


def test_scores_of_sequences_do_not_depend_on_padding():
    network = randomized(SequenceScores(5))
    short, long = dna([29, 12], 29), dna([29, 12], 64)
    torch.testing.assert_close(network(short), network(long), atol=1e-4, rtol=1e-4)


def test_scores_of_sequences_use_means_over_equal_parts():
    network = randomized(SequenceScores(5)).double()
    x = dna([21], 30).double()
    h = torch.relu(network.conv2(torch.relu(network.conv1(x)) * (torch.arange(30) < 21)))[0]
    ends = [round(21 * k / 8) for k in range(9)]  # 0, 3, 5, 8, 10, 13, 16, 18, 21
    means = torch.stack([h[:, a:b].mean(1) for a, b in itertools.pairwise(ends)], dim=1)
    torch.testing.assert_close(network(x)[0], network.outer(means.flatten()), rtol=1e-6, atol=1e-8)


# ---- crops of small images ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "grid"), [((12, 16), (4, 8)), ((20, 24), (4, 6)), ((8, 40), (2, 6)), ((28, 28), (9, 9))]
)
def test_small_crops_are_scored_on_an_enlarged_image(size, grid):
    network, x = randomized(CropScores(3)), torch.randn(2, 3, *size)
    scores = network(x, grid)
    assert scores.shape == (2, *grid)
    assert scores.std(dim=1).min() > 1e-3 and scores.std(dim=2).min() > 1e-3  # crops have different scores
    large = [max(side, 20 + 4 * (count - 1)) for side, count in zip(size, grid, strict=True)]
    torch.testing.assert_close(scores, network(F.interpolate(x, large, mode="bilinear"), grid))


@pytest.mark.parametrize(("size", "grid"), [((84, 84), (17, 17)), ((44, 52), (7, 9)), ((28, 31), (3, 3))])
@torch.no_grad()
def test_the_image_is_not_resized_for_the_papers_grid(size, grid):
    network, x = randomized(CropScores()), torch.randn(1, 1, *size)
    alone = [
        [network(x[..., 4 * r : 4 * r + 20, 4 * c : 4 * c + 20], (1, 1))[0, 0, 0] for c in range(grid[1])]
        for r in (0, 2)
    ]
    torch.testing.assert_close(network(x, grid)[0, [0, 2]], torch.tensor(alone), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("size", "grid"), [((12, 12), (4, 4)), ((44, 44), (4, 4)), ((84, 84), (17, 17))])
def test_scores_of_an_empty_image_are_equal(size, grid):
    scores = randomized(CropScores())(torch.zeros(1, 1, *size), grid)
    assert (scores - scores[0, 0, 0]).abs().max() < 1e-5


def test_a_spot_changes_only_the_scores_of_crops_that_contain_it():
    network, x = randomized(CropScores()), torch.zeros(1, 1, 12, 12)
    empty = network(x, (4, 4))
    x[..., 10:, 10:] = 1  # only the lower right one of the 4 x 4 crops contains it
    moved = (network(x, (4, 4)) - empty)[0].abs()
    assert moved[3, 3] > 0.1 and moved[:2, :2].max() < 1e-5
