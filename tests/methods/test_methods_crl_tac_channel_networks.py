"""Networks of augmentation channels: initial scores, and independence of padding and of other samples."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from crl_tac_toys import randomized
from viewsmith.networks import CropScores, ImageScores, SequenceScores


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
    ("size", "grid", "crop", "stride"), [((12, 16), (4, 8), 9, 1), ((8, 40), (2, 6), 6, 1), ((44, 44), (7, 7), 32, 2)]
)
def test_crops_that_are_small_or_close_are_scored_on_an_enlarged_image(size, grid, crop, stride):
    network, x = randomized(CropScores(3, crop=crop, stride=stride)), torch.randn(2, 3, *size)
    scores = network(x, grid)
    assert scores.shape == (2, *grid)
    assert scores.std(dim=1).min() > 1e-3 and scores.std(dim=2).min() > 1e-3  # crops have different scores
    large = [max(side, 20 + 4 * (count - 1)) for side, count in zip(size, grid, strict=True)]
    torch.testing.assert_close(scores, network(F.interpolate(x, large, mode="bilinear"), grid))


@pytest.mark.parametrize(
    ("size", "crop", "stride"),
    [((84, 84), 20, 4), ((28, 31), 20, 4), ((44, 55), 20, 8), ((64, 64), 32, 4), ((62, 70), 40, 8)],
)
@torch.no_grad()
def test_the_score_of_a_crop_depends_on_this_crop_only(size, crop, stride):
    network, x = randomized(CropScores(crop=crop, stride=stride)), torch.randn(1, 1, *size)
    grid = tuple((side - crop) // stride + 1 for side in size)
    scores = network(x, grid)
    assert scores.shape == (1, *grid)
    for r in (0, grid[0] - 1):
        crops = [x[..., stride * r :, stride * c :][..., :crop, :crop] for c in range(grid[1])]
        alone = torch.cat([network(one, (1, 1)) for one in crops]).flatten()
        torch.testing.assert_close(scores[0, r], alone, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize(("crop", "stride"), [(22, 4), (30, 4), (26, 6)])
@torch.no_grad()
def test_scores_of_other_crops_are_interpolated_between_the_nearest_centers(crop, stride):
    network, x = randomized(CropScores(crop=crop, stride=stride)).double(), torch.randn(1, 1, 64, 64).double()
    count = (64 - crop) // stride + 1
    seen = crop - crop % 4
    exact = CropScores(crop=seen, stride=4).double()
    exact.load_state_dict(network.state_dict())
    every = (64 - seen) // 4 + 1
    known = exact(x, (every, every))[0]
    scores = network(x, (count, count))[0]
    for row in range(count):
        at = (stride * row + crop / 2 - seen / 2) / 4  # in the middle of its crop, as that of `exact`
        low = min(int(at), every - 1)
        part = min(at, every - 1) - low
        expected = (1 - part) * known[low] + part * known[min(low + 1, every - 1)]
        for column in range(count):
            at_column = (stride * column + crop / 2 - seen / 2) / 4
            left = min(int(at_column), every - 1)
            rest = min(at_column, every - 1) - left
            value = (1 - rest) * expected[left] + rest * expected[min(left + 1, every - 1)]
            torch.testing.assert_close(scores[row, column], value)


@pytest.mark.parametrize(
    ("size", "crop", "stride"), [((12, 12), 9, 1), ((44, 44), 20, 8), ((84, 84), 20, 4), ((64, 60), 30, 4)]
)
def test_scores_of_an_empty_image_are_equal(size, crop, stride):
    grid = tuple((side - crop) // stride + 1 for side in size)
    scores = randomized(CropScores(crop=crop, stride=stride))(torch.zeros(1, 1, *size), grid)
    assert (scores - scores[0, 0, 0]).abs().max() < 1e-5


def test_a_spot_changes_only_the_scores_of_crops_that_contain_it():
    network, x = randomized(CropScores(crop=9, stride=1)), torch.zeros(1, 1, 12, 12)
    empty = network(x, (4, 4))
    x[..., 10:, 10:] = 1  # only the lower right one of the 4 x 4 crops contains it
    moved = (network(x, (4, 4)) - empty)[0].abs()
    assert moved[3, 3] > 0.1 and moved[:2, :2].max() < 1e-5
