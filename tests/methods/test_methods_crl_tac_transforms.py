"""Finite families of transformations: views, representations in one pass, scores."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from cases import covering, slow
from crl_tac_toys import randomized
from refusals import refusal
from viewsmith.methods.crl_tac.scores import CropScores, MaskScores, PositionScores
from viewsmith.methods.crl_tac.transforms import Crops, Masks, Windows
from viewsmith.modalities.images.encoders import CropCNN, DenseResNet18

FAMILIES = {
    "the paper's crops": Crops(84, 84),
    "crop x flip x scale": Crops(32, 28, crop=16, stride=5, scales=(1.0, 0.75), flip=True),
    "masks": Masks(10, count=6, keep=0.3, seed=1),
    "windows": Windows(fraction=0.4, count=7),
}


def samples(family, n=3, dtype=torch.float32):
    shape = {Masks: (10,), Windows: (4, 50)}.get(type(family))
    if isinstance(family, Crops):
        shape = (3 if family.flip else 1, *family.sizes[0])
    x = torch.randn(n, *shape, generator=torch.Generator().manual_seed(0), dtype=dtype)
    if isinstance(family, Windows):
        x[1, :, 31:] = 0
    return x


def slow_view(family, x, t):
    """One view of one sample, by slices."""
    if isinstance(family, Masks):
        return x * family.masks[t].to(x.dtype)
    if isinstance(family, Windows):
        length = int((x != 0).any(0).sum())
        width = max(1, round(family.fraction * length))
        start = round((length - width) * t / (family.size - 1))
        return F.pad(x[:, start : start + width], (0, 20 - width))
    number = 0
    for scale in family.scales:
        size = [round(side * scale) for side in x.shape[1:]]
        image = x if scale == 1 else F.interpolate(x[None], size, mode="bilinear", antialias=True)[0]
        for mirrored in (False, True) if family.flip else (False,):
            flipped = image.flip(2) if mirrored else image
            for row in range(0, size[0] - family.crop + 1, family.stride):
                for column in range(0, size[1] - family.crop + 1, family.stride):
                    if number == t:
                        return flipped[:, row : row + family.crop, column : column + family.crop]
                    number += 1
    raise AssertionError(f"no transformation {t} of {number}")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FAMILIES)
def test_views_equal_slices(name, dtype):
    family = FAMILIES[name]
    x = samples(family, dtype=dtype)
    t = torch.randint(family.size, (3, 5), generator=torch.Generator().manual_seed(1))
    t[0, 0], t[2, 4] = 0, family.size - 1
    views = family.take(x, t)
    assert views.dtype is dtype and views.shape[:2] == (3, 5)
    for i in range(3):
        for j in range(5):
            torch.testing.assert_close(views[i, j], slow_view(family, x[i], int(t[i, j])))


@pytest.mark.parametrize("name", FAMILIES)
def test_all_views_are_in_order(name):
    family = FAMILIES[name]
    x = samples(family, 2)
    every = family.all_views(x)
    assert every.shape[:2] == (2, family.size)
    for t in range(0, family.size, max(1, family.size // 7)):
        torch.testing.assert_close(every[1, t], slow_view(family, x[1], t))


def test_numbers_of_transformations():
    assert FAMILIES["the paper's crops"].size == 289
    # 32 x 28: 4 x 3 corners; 24 x 21: 2 x 2; each with its mirror image.
    assert FAMILIES["crop x flip x scale"].size == 2 * (12 + 4)
    starts, widths = FAMILIES["windows"].bounds(samples(FAMILIES["windows"]))
    assert starts[0].tolist() == [0, 5, 10, 15, 20, 25, 30] and widths.tolist() == [20, 12, 20]
    assert starts[1].tolist() == [0, 3, 6, 10, 13, 16, 19]


def test_windows_do_not_depend_on_padding():
    family, network = Windows(fraction=0.4, count=7), randomized(PositionScores())
    x = samples(family)
    for length in (31, 90):
        other = x.new_zeros(1, 4, length)
        other[..., :31] = x[1, :, :31]
        view = family.all_views(other)[0]
        torch.testing.assert_close(view, family.all_views(x)[1][..., : view.shape[2]])
        torch.testing.assert_close(family.scores(network, other)[0], family.scores(network, x)[1])
    one = family.all_views(x[:1, :, :1])
    assert one.shape == (1, 7, 4, 1) and (one == x[:1, None, :, :1]).all()


def test_scores_of_windows_are_means_over_their_positions():
    family, network = FAMILIES["windows"], randomized(PositionScores())
    x = samples(family)
    at = network(x)
    starts, widths = family.bounds(x)
    for row in range(3):
        for t, start in enumerate(starts[row].tolist()):
            expected = at[row, start : start + int(widths[row])].mean()
            torch.testing.assert_close(family.scores(network, x)[row, t], expected, atol=1e-5, rtol=1e-5)


def test_masks_keep_the_given_fraction_and_differ():
    family = Masks(40, count=30, keep=0.25, seed=3)
    assert (family.masks.sum(1) == 10).all()
    assert len({tuple(row) for row in family.masks.tolist()}) == 30
    assert torch.equal(family.masks, Masks(40, count=30, keep=0.25, seed=3).masks)
    assert not torch.equal(family.masks, Masks(40, count=30, keep=0.25, seed=4).masks)
    # At least one feature is kept and at least one is set to 0.
    assert (Masks(3, count=4, keep=0.01).masks.sum(1) == 1).all()
    assert (Masks(3, count=4, keep=0.99).masks.sum(1) == 2).all()


# ---- representations of all views in one pass ---------------------------------------------------------------------


class Mean(nn.Module):
    def forward(self, x):
        return torch.stack([x.flatten(1).mean(1), x.flatten(1).std(1)], dim=1)


@pytest.mark.parametrize("name", FAMILIES)
def test_encoding_all_views_equals_encoding_each(name):
    family = FAMILIES[name]
    x = samples(family, 2)
    h = family.embed(Mean(), x)
    assert h.shape == (2, family.size, 2)
    for t in (0, family.size // 2, family.size - 1):
        view = slow_view(family, x[1], t)
        torch.testing.assert_close(h[1, t], torch.stack([view.mean(), view.std()]))


@pytest.mark.parametrize(
    ("bias", "size"),
    [
        slow(False, (84, 84)),
        (False, (28, 28)),
        slow(False, (31, 45)),
        slow(True, (84, 84)),
        slow(True, (28, 28)),
        (True, (31, 45)),
    ],
)
def test_the_dense_pass_equals_encoding_each_crop(bias, size):
    family = Crops(*size, scales=(1.0, 0.8) if size[0] > 28 else (1.0,), flip=size[0] == 31)
    encoder = CropCNN(bias=bias)
    x = torch.rand(2, 1, *size)
    assert family.is_dense(encoder)
    dense = family.embed(encoder, x)
    one_by_one = torch.stack([encoder(family.take(x, torch.full((2, 1), t))[:, 0]) for t in range(family.size)], 1)
    assert dense.shape == (2, family.size, 200)
    torch.testing.assert_close(dense, one_by_one, atol=1e-5, rtol=1e-5)
    dense.square().sum().backward()
    gradients = [weight.grad.clone() for weight in encoder.parameters()]
    encoder.zero_grad()
    one_by_one.square().sum().backward()
    for weight, expected in zip(encoder.parameters(), gradients, strict=True):
        torch.testing.assert_close(weight.grad, expected, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", FAMILIES)
def test_encoding_some_views_equals_encoding_each(name):
    family = FAMILIES[name]
    x = samples(family, 2)
    t = torch.randint(family.size, (2, 5), generator=torch.Generator().manual_seed(1))
    h = family.embed_some(Mean(), x, t)
    for i in range(2):
        for j in range(5):
            view = slow_view(family, x[i], int(t[i, j]))
            torch.testing.assert_close(h[i, j], torch.stack([view.mean(), view.std()]))


# Of 8 crops 6 are distinct: 2,400 pixels. All four layers of an image have 4,590, its two without the smaller 2,304.
@pytest.mark.parametrize(("scales", "calls"), [((1.0, 0.8), [("forward", 12)]), ((1.0,), [("dense", 2)] * 2)])
def test_some_crops_are_encoded_once_each_or_in_one_pass(scales, calls):
    family = Crops(31, 45, scales=scales, flip=True) if len(scales) > 1 else Crops(36, 32, scales=scales, flip=True)
    encoder, made = CropCNN(), []
    for name in {name for name, _ in calls}:
        real = getattr(encoder, name)
        setattr(encoder, name, lambda x, name=name, real=real: made.append((name, len(x))) or real(x))
    x = torch.rand(2, 1, *family.image_size)
    t = torch.stack([torch.randperm(family.size, generator=torch.Generator().manual_seed(row))[:6] for row in range(2)])
    t = torch.cat([t, t[:, :1], t[:, 2:3]], dim=1)
    h = family.embed_some(encoder, x, t)
    assert made == calls
    slow = torch.stack([encoder(family.take(x, t[:, j : j + 1])[:, 0]) for j in range(8)], 1)
    torch.testing.assert_close(h, slow, atol=1e-5, rtol=1e-5)
    gradients = torch.autograd.grad(slow.square().sum(), list(encoder.parameters()))
    for found, expected in zip(
        torch.autograd.grad(h.square().sum(), list(encoder.parameters())), gradients, strict=True
    ):
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-3)


def test_is_view_distinguishes_crops_from_images():
    family = Crops(84, 84)
    assert family.is_view(torch.zeros(1, 1, 20, 20)) and not family.is_view(torch.zeros(1, 1, 84, 84))
    # A crop of the size of the reduced image is a view, but an image of the size of a crop is not.
    assert Crops(40, 40, scales=(1.0, 0.5)).is_view(torch.zeros(1, 1, 20, 20))
    assert not Crops(20, 20, scales=(1.0, 1.5)).is_view(torch.zeros(1, 1, 20, 20))
    assert not Masks(4).is_view(torch.zeros(1, 4)) and not Windows().is_view(torch.zeros(1, 4, 9))


def test_the_dense_pass_needs_a_grid_of_the_encoder():
    assert not Crops(84, 84, stride=2).is_dense(CropCNN())
    assert not Crops(84, 84, crop=18).is_dense(CropCNN())
    assert Crops(84, 84, crop=24, stride=8).is_dense(CropCNN())
    assert not Crops(84, 84).is_dense(Mean())
    assert Crops(84, 84).is_dense(DenseResNet18().eval())
    assert not Crops(84, 84).is_dense(DenseResNet18())  # BatchNorm in train mode
    assert not Crops(84, 84).is_dense(DenseResNet18(stem="standard").eval())


ENCODERS = {
    "crl-cnn": lambda: CropCNN(3),
    "resnet18-dense": lambda: DenseResNet18(3, zero_init=False),
    "resnet18-dense, standard stem": lambda: DenseResNet18(3, "standard", zero_init=False),
}


@pytest.mark.parametrize(
    ("name", "sizes"),
    covering(itertools.product(ENCODERS, [((60, 53), 40, 8), ((61, 58), 47, 8), ((57, 52), 41, 16)]), (0,), (1,)),
)
def test_crops_of_other_sizes_than_the_smallest_are_encoded_in_one_pass(name, sizes):
    size, crop, stride = sizes
    torch.manual_seed(0)
    encoder = ENCODERS[name]().double().eval()
    for module in encoder.modules():  # other statistics than those of initialization
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 2)
            module.bias.data.normal_(0, 0.3)
    n = 2 if name == "crl-cnn" else 1
    family, x = Crops(*size, crop=crop, stride=stride, flip=size[0] == 61), torch.randn(n, 3, *size).double()
    assert family.is_dense(encoder)
    dense = family.embed(encoder, x)
    one_by_one = torch.stack([encoder(slow_view(family, one, t)[None])[0] for one in x for t in range(family.size)])
    torch.testing.assert_close(dense, one_by_one.unflatten(0, (n, -1)), rtol=1e-10, atol=1e-10)
    assert one_by_one.std(dim=0).mean() > 1e-3
    weights = torch.randn(dense.shape).double()
    parameters = list(encoder.parameters())
    gradients = torch.autograd.grad((weights.flatten(0, 1) * one_by_one).sum(), parameters)
    for found, expected in zip(torch.autograd.grad((weights * dense).sum(), parameters), gradients, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


def test_the_rows_that_are_encoded_at_a_time_take_bounded_memory():
    x = torch.zeros(4, 3, 84, 84)
    assert Crops(84, 84).rows_at_once(CropCNN(), x) == 37  # images
    assert Crops(84, 84).rows_at_once(Mean(), x) == 12  # 289 x 3 x 20 x 20 values of views each
    assert Crops(84, 84, flip=True).rows_at_once(CropCNN(), x) == 18
    assert Crops(84, 84).rows_at_once(None, x) == 12
    assert Crops(600, 600).rows_at_once(CropCNN(), x[..., :1, :1].expand(-1, -1, 600, 600)) == 1
    assert Masks(1000, count=64).rows_at_once(Mean(), torch.zeros(2, 1000)) == 65


def test_without_biases_empty_crops_are_encoded_as_zero():
    x = torch.zeros(1, 1, 84, 84)
    x[0, 0, :10, :10] = 1
    h = Crops(84, 84).embed(CropCNN(bias=False), x)[0]
    empty = torch.tensor([(x[0, 0, 4 * (t // 17) :, 4 * (t % 17) :][:20, :20] == 0).all() for t in range(289)])
    assert empty.sum() == 289 - 9 and (h[empty] == 0).all() and (h[~empty].norm(dim=1) > 1e-4).all()


# ---- scores -------------------------------------------------------------------------------------------------------


def scorers():
    crops, several = FAMILIES["the paper's crops"], FAMILIES["crop x flip x scale"]
    return [
        (crops, crops.score_network(1, 3)),
        (several, several.score_network(3, 3)),
        (FAMILIES["masks"], MaskScores(10, 6)),
        (FAMILIES["windows"], PositionScores()),
    ]


@pytest.mark.parametrize("number", range(4))
def test_there_is_one_score_per_transformation_initially_zero(number):
    family, network = scorers()[number]
    x = samples(family)
    assert family.scores(network, x).shape == (3, family.size) and not family.scores(network, x).any()
    scores = family.scores(randomized(network), x)
    assert scores.std(dim=1).min() > 1e-3
    # In float64: in float32 the rounding of such scores near 0 depends on the other rows.
    network, x = network.double(), x.double()
    torch.testing.assert_close(family.scores(network, x[1:2])[0], family.scores(network, x)[1])


def test_scores_of_the_papers_crops_depend_only_on_their_crop():
    family, network = Crops(84, 84), randomized(CropScores())
    x = samples(family, 1)
    scores = family.scores(network, x)[0]
    alone = torch.cat([network(family.take(x, torch.tensor([[t]]))[:, 0], (1, 1)).flatten() for t in range(289)])
    torch.testing.assert_close(scores, alone, atol=1e-4, rtol=1e-4)


# ---- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Crops(16, 84), "the images have 16 x 84 pixels, expected at least the 20 x 20 of a crop"),
        (lambda: Crops(30, 30, scales=(1.0, 0.5)), "15 x 15 pixels at 0.5 of their size"),
        (lambda: Crops(20, 20), "crops of 20 x 20 pixels with stride 4 of 20 x 20 pixels: the family has 1 "),
        (lambda: Masks(1), "the rows have 1 feature, expected at least 2"),
        (lambda: Masks(10, count=1), "the family has 1 transformation, expected at least 2"),
        (lambda: Windows(count=1), "windows: the family has 1 transformation"),
    ],
)
def test_families_with_fewer_than_two_transformations_are_an_error(make, message):
    assert message in refusal(make)
