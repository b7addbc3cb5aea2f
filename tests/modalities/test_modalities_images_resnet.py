"""Encoders of images: residual networks as published, with the names of all weights, and small ones."""

import pytest
import torch
from torch import nn

from refusals import refusal
from viewsmith.core.errors import InputError
from viewsmith.modalities.images.encoders import BasicBlock, Bottleneck
from viewsmith.networks import CropCNN, ResNet, SmallCNN, resnet18, resnet50

MAKERS = {"resnet18": resnet18, "resnet50": resnet50}


def norm(name, n):
    weights = {f"{name}.{part}": (n,) for part in ("weight", "bias", "running_mean", "running_var")}
    return weights | {f"{name}.num_batches_tracked": ()}


def structure(depths, bottleneck, channels=3, kernel=7):
    """Shapes from table 1 of the paper, with torchvision's names."""
    expected = {"conv1.weight": (64, channels, kernel, kernel)} | norm("bn1", 64)
    n_in = 64
    for stage, depth in enumerate(depths, 1):
        width = 32 * 2**stage
        n_out = 4 * width if bottleneck else width
        for i in range(depth):
            block = f"layer{stage}.{i}"
            shapes = [(width, n_in, 1), (width, width, 3), (n_out, width, 1)]
            for j, (rows, columns, k) in enumerate(shapes if bottleneck else [(width, n_in, 3), (width, width, 3)], 1):
                expected |= {f"{block}.conv{j}.weight": (rows, columns, k, k)} | norm(f"{block}.bn{j}", rows)
            if n_in != n_out:
                expected |= {f"{block}.downsample.0.weight": (n_out, n_in, 1, 1)} | norm(f"{block}.downsample.1", n_out)
            n_in = n_out
    return expected


@pytest.mark.parametrize(
    ("name", "depths", "bottleneck", "count"),
    [("resnet18", (2, 2, 2, 2), False, 11_176_512), ("resnet50", (3, 4, 6, 3), True, 23_508_032)],
)
def test_names_shapes_and_count_of_the_published_networks(name, depths, bottleneck, count):
    network = MAKERS[name](stem="standard")
    assert {key: tuple(value.shape) for key, value in network.state_dict().items()} == structure(depths, bottleneck)
    assert sum(p.numel() for p in network.parameters()) == count
    assert network.n_components == (2048 if bottleneck else 512)
    small = {key: tuple(value.shape) for key, value in MAKERS[name](1).state_dict().items()}
    assert small == structure(depths, bottleneck, channels=1, kernel=3)


@pytest.mark.parametrize(
    ("stem", "first", "last"), [("small", (33, 30), (5, 4)), ("standard", (17, 15), (2, 1))], ids=["small", "standard"]
)
@pytest.mark.parametrize("name", MAKERS)
def test_maps_and_representation(name, stem, first, last):
    torch.manual_seed(0)
    network = MAKERS[name](stem=stem)
    x = torch.randn(2, 3, 33, 30)
    assert network.stem(x).shape == (2, 64, *first) and (network.stem(x) >= 0).all()
    stages = network.stages(x)
    assert stages.shape == (2, network.n_components, *last)
    network.eval()
    h = network(x)
    assert h.shape == (2, network.n_components) and h.dtype == torch.float32
    torch.testing.assert_close(h, network.stages(x).sum((2, 3)) / (last[0] * last[1]))
    # Rows are independent, and the memory format changes only the rounding.
    torch.testing.assert_close(network(x[:1]), h[:1], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(network(x.to(memory_format=torch.channels_last)), h, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stem", ["small", "standard"])
def test_the_smallest_images(stem):
    network = resnet18(1, stem)
    assert network(torch.randn(4, 1, 8, 8)).shape == (4, 512)
    assert "images are 9 x 7 pixels, expected at least 8 x 8: enlarge them" in refusal(network, torch.randn(4, 1, 9, 7))


def test_an_unknown_stem_is_refused():
    assert "stem is 'large', expected small or standard" in refusal(resnet18, stem="large")


@pytest.mark.parametrize(("block", "n_in"), [(BasicBlock, 4), (Bottleneck, 16)])
def test_an_initialized_block_is_its_shortcut(block, n_in):
    torch.manual_seed(0)
    x = torch.randn(3, n_in, 5, 5)
    started = ResNet(block, (2, 1, 1, 1)).layer1[1]
    wide = torch.randn(3, 64 * block.expansion, 5, 5)
    assert torch.equal(started(wide), wide.relu())
    plain = block(n_in, 4, 1, nn.BatchNorm2d)
    assert plain.downsample is None and not torch.equal(plain(x), x.relu())
    assert all((m.bn2.weight == 1).all() for m in resnet18(zero_init=False).modules() if isinstance(m, BasicBlock))


def test_a_basic_block_by_hand():
    block = BasicBlock(1, 1, 1, nn.BatchNorm2d).eval()
    with torch.no_grad():
        for convolution, factor in ((block.conv1, 2.0), (block.conv2, -3.0)):
            convolution.weight.zero_()
            convolution.weight[0, 0, 1, 1] = factor
        block.bn1.running_mean.fill_(1.0)
        block.bn2.bias.fill_(0.5)
    # relu(2 x - 1) times -3, plus 0.5, plus x; the norms divide by sqrt(1 + 1e-5).
    x = torch.tensor([0.0, 1.0, 0.25]).view(1, 1, 1, 3)
    torch.testing.assert_close(block(x).flatten(), torch.tensor([0.5, 0.0, 0.75]), rtol=1e-4, atol=1e-4)


def test_convolutions_are_initialized_by_their_fan_out():
    torch.manual_seed(0)
    for name, module in resnet18(stem="standard").named_modules():
        if isinstance(module, nn.Conv2d):
            fan_out = module.out_channels * module.kernel_size[0] ** 2
            assert module.weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.05), name


def test_the_stride_of_a_bottleneck_is_in_its_3x3():
    block = resnet50().layer2[0]
    assert block.conv1.stride == (1, 1) and block.conv2.stride == (2, 2) and block.downsample[0].stride == (2, 2)


def images(n, channels, height, width, dtype=torch.float32):
    return torch.randn(n, channels, height, width, generator=torch.Generator().manual_seed(0), dtype=dtype)


@pytest.mark.parametrize(("channels", "height", "width"), [(1, 8, 8), (3, 28, 28), (1, 33, 30), (3, 64, 64)])
def test_images_of_any_size(channels, height, width):
    torch.manual_seed(0)
    network, x = SmallCNN(channels, 40), images(5, channels, height, width)
    h, stem = network(x), network.stem(x)
    assert h.shape == (5, network.n_components) == (5, 40) and h.dtype == torch.float32 and (h >= 0).all()
    assert stem.shape == (5, network.stem_width, height // 2, width // 2) and (stem >= 0).all()
    network.eval()
    torch.testing.assert_close(network(x)[1:3], network(x[1:3]), rtol=1e-4, atol=1e-5)


@pytest.mark.full_size
def test_widths_of_the_layers():
    shapes = {name: tuple(p.shape) for name, p in SmallCNN(3, 20, widths=(8, 16)).named_parameters() if p.ndim > 1}
    assert shapes == {"stages.0.0.weight": (8, 3, 4, 4), "stages.1.0.weight": (16, 8, 3, 3), "project.weight": (20, 16)}
    assert sum(p.numel() for p in SmallCNN().parameters()) == 455_616
    assert "widths is empty" in refusal(SmallCNN, widths=())


def test_small_images_are_refused():
    assert "images are 7 x 20 pixels, expected at least 8 x 8: enlarge them" in refusal(SmallCNN(), images(2, 3, 7, 20))
    with pytest.raises(InputError, match="images are 20 x 19 pixels, expected at least 20 x 20: enlarge them"):
        CropCNN()(images(2, 1, 20, 19))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_one_pass_encodes_all_crops(dtype, tolerance):
    torch.manual_seed(0)
    network, x = CropCNN(1).to(dtype), images(2, 1, 33, 28, dtype)
    crops = torch.stack(
        [
            torch.stack([network(x[:, :, i : i + 20, j : j + 20]) for j in range(0, 28 - 20 + 1, 4)], dim=-1)
            for i in range(0, 33 - 20 + 1, 4)
        ],
        dim=-2,
    )
    dense = network.dense(x)
    assert dense.shape == (2, 200, 4, 3) == crops.shape
    torch.testing.assert_close(dense, crops, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(network(x), crops.mean((2, 3)), rtol=tolerance, atol=tolerance)
    weights = torch.randn(dense.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)
    parameters = list(network.parameters())
    for one, other in zip(
        torch.autograd.grad((weights * dense).sum(), parameters),
        torch.autograd.grad((weights * crops).sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=10 * tolerance, atol=10 * tolerance)


def test_the_papers_grid_of_289_crops():
    network = CropCNN()
    assert network.dense(images(1, 1, 84, 84)).shape == (1, 200, 17, 17)
    assert network(images(3, 1, 20, 20)).shape == (3, network.n_components) == (3, 200)
    assert network.stem(images(1, 1, 20, 20)).shape == (1, network.stem_width, 8, 8)
