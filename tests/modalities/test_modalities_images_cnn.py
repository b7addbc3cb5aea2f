"""Small convolutional encoders."""

import pytest
import torch

from viewsmith.core.errors import InputError
from viewsmith.networks import CropCNN, SmallCNN


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
    with pytest.raises(InputError, match="widths is empty"):
        SmallCNN(widths=())


def test_memory_format_and_half_precision():
    torch.manual_seed(0)
    network, x = SmallCNN().eval(), images(4, 3, 32, 32)
    h = network(x)
    assert torch.equal(network(x.to(memory_format=torch.channels_last)), h)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(network(x).float(), h, rtol=0.1, atol=0.02)


@pytest.mark.parametrize("network", [SmallCNN(1), CropCNN(1)])
def test_every_weight_learns(network):
    network(images(6, 1, 20, 20)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in network.parameters())


def test_small_images_are_refused():
    with pytest.raises(InputError, match="images are 7 x 20 pixels, expected at least 8 x 8: enlarge them"):
        SmallCNN()(images(2, 3, 7, 20))
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
