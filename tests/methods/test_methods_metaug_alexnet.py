"""Split AlexNet, and networks with one part per view."""

import pytest
import torch

from refusals import refusal
from viewsmith.methods.metaug.networks import ColorSplit
from viewsmith.networks import MLP, SplitAlexNet, ViewEncoders, ViewHeads


def images(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_the_published_architecture():
    torch.manual_seed(0)
    sizes = {c: sum(p.numel() for p in SplitAlexNet(c).parameters()) for c in (3, 1, 2)}
    # Three encoders and three heads, 2048 to 128, have 44.5 million weights.
    assert sum(sizes.values()) + 3 * (2048 * 128 + 128) == pytest.approx(44.5e6, rel=0.005)
    network = SplitAlexNet(3).eval()
    x = images(1, 3, 224, 224)
    shapes = [tuple(p.shape) for p in network.parameters() if p.ndim == 4]
    assert shapes == [(48, 3, 11, 11), (128, 48, 5, 5), (192, 128, 3, 3), (192, 192, 3, 3), (128, 192, 3, 3)]
    assert network.maps(x).shape == (1, 128, 6, 6) and network(x).shape == (1, 2048)
    pooled = network.pool(network.conv5(network.conv4(network.conv3(network.pool(network.conv2(
        network.pool(network.conv1(x))))))))  # fmt: skip
    assert torch.equal(network.maps(x), pooled)  # no map is resized for images of 224 pixels


@pytest.mark.parametrize(("stem", "size"), [("small", (8, 8)), ("small", (32, 28)), ("standard", (63, 70))])
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_images_of_other_sizes(stem, size, channels):
    torch.manual_seed(0)
    network = SplitAlexNet(channels, 24, stem=stem)
    x = images(4, channels, *size)
    h = network(x)
    assert h.shape == (4, network.n_components) == (4, 24) and (h >= 0).all()
    h.square().sum().backward()
    assert all(p.grad is not None for p in network.parameters())


@pytest.mark.parametrize(("stem", "size", "width"), [("small", 32, 512), ("standard", 224, 4608)])
def test_the_conv_backbone_is_the_last_map_alone(stem, size, width):
    torch.manual_seed(0)
    network = SplitAlexNet(3, 24, stem=stem, backbone_output="conv").eval()
    x = images(2, 3, size, size)
    h = network(x)
    assert h.shape == (2, network.n_components) == (2, width) and torch.equal(h, network.maps(x).flatten(1))
    assert not any(name.startswith("fc") for name, _ in network.named_parameters())


def test_small_images_and_unknown_stems_are_refused():
    message = refusal(SplitAlexNet(3), images(2, 3, 62, 80))
    assert "expected at least 63 x 63: enlarge them, or take the stem 'small'" in message
    assert "expected at least 8 x 8" in refusal(SplitAlexNet(3, 8, stem="small"), images(2, 3, 7, 8))
    assert "stem is 'large', expected standard or small" in refusal(SplitAlexNet, 3, stem="large")


# ---- several views


def test_outputs_of_view_encoders_are_concatenated():
    torch.manual_seed(0)
    networks = [MLP(5, [4]) for _ in range(3)]
    encoders, heads = ViewEncoders(networks), ViewHeads([MLP(4, [2]) for _ in range(3)])
    views = [torch.randn(6, 5) for _ in range(3)]
    h = encoders.represent(views)
    z = heads(h)
    for j in range(3):
        torch.testing.assert_close(h[:, 4 * j : 4 * j + 4], networks[j](views[j]))
        torch.testing.assert_close(z[:, 2 * j : 2 * j + 2], heads.networks[j](networks[j](views[j])))
    assert torch.equal(encoders(views[0]), encoders.represent([views[0]] * 3)) and heads.n_components == 2


def test_each_encoder_gets_its_view_of_the_split():
    torch.manual_seed(0)
    split = ColorSplit((0.5,) * 3, (0.2,) * 3)
    encoders = ViewEncoders([SplitAlexNet(c, 8, stem="small") for c in split.channels], split).eval()
    x = images(4, 3, 16, 16)
    h = encoders(x)
    assert h.shape == (4, 24)
    for j, view in enumerate(split(x)):
        torch.testing.assert_close(h[:, 8 * j : 8 * j + 8], encoders.networks[j](view))


def test_one_view_is_refused():
    assert "1 encoder was given, expected at least 2" in refusal(ViewEncoders, [MLP(5, [4])])
