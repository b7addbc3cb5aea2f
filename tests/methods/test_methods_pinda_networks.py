"""Networks of the noise generator: shapes of the maps, and the encoder of a shared trunk."""

import copy
import itertools

import pytest
import torch
from torch import nn

from cases import covering, slow
from viewsmith import networks
from viewsmith.networks.base import enlarged


def shared(encoder, outputs=3, **options):
    return networks.SharedTrunkMap(encoder.stem, encoder.stem_width, outputs, **options)


class SharedWithEncoder(nn.Module):
    """A model that contains the generator and its encoder, as methods do."""

    def __init__(self, encoder, **options):
        super().__init__()
        self.generator = shared(encoder, **options)
        self.encoder = encoder
        self.last = self.generator.last

    def forward(self, x):
        return self.generator(x)


IMAGE_MAPS = {
    "low-resolution": lambda outputs: networks.LowResolutionMap(3, outputs),
    "unet": lambda outputs: networks.UNet(3, outputs, width=8),
    "resnet18": lambda outputs: networks.ResNetMap(3, outputs),
    "resnet50": lambda outputs: networks.ResNetMap(3, outputs, depth=50),
    "resnet18, standard stem": lambda outputs: networks.ResNetMap(3, outputs, stem="standard"),
    "shared, resnet18": lambda outputs: SharedWithEncoder(networks.resnet18(), outputs=outputs),
    "shared, resnet18, standard stem": lambda outputs: SharedWithEncoder(
        networks.resnet18(stem="standard"), outputs=outputs
    ),
    "shared, cnn": lambda outputs: SharedWithEncoder(networks.SmallCNN(3), outputs=outputs),
    "shared, crops": lambda outputs: SharedWithEncoder(networks.CropCNN(3), outputs=outputs),
}
SEPARATE = ("low-resolution", "unet", "resnet18")
every_map = pytest.mark.parametrize(
    "name", [slow(name) if "standard" in name or "50" in name else name for name in IMAGE_MAPS]
)


def network_of(name, outputs=3):
    torch.manual_seed(0)
    return IMAGE_MAPS[name](outputs)


def images(n, height, width, seed=0):
    return torch.randn(n, 3, height, width, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("name", "size"), covering(itertools.product(IMAGE_MAPS, [(8, 8), (9, 13), (30, 21)]), (0,), (1,))
)
def test_maps_have_the_size_of_the_images(name, size):
    x = images(2, *size)
    for outputs in (1, 6):
        raw = network_of(name, outputs)(x)
        assert raw.shape == (2, outputs, *size) and raw.dtype == x.dtype


@pytest.mark.parametrize("name", SEPARATE)
def test_the_default_is_one_map_per_channel(name):
    kinds = {"low-resolution": networks.LowResolutionMap, "unet": networks.UNet, "resnet18": networks.ResNetMap}
    assert kinds[name](1)(images(2, 10, 10)[:, :1]).shape == (2, 1, 10, 10)


@every_map
def test_maps_do_not_depend_on_the_batch(name):
    network, x = network_of(name).train(), images(4, 12, 9)
    torch.testing.assert_close(network(x)[1:3], network(x[1:3]), rtol=1e-4, atol=1e-5)
    own = [m for n, m in network.named_modules() if not n.startswith("encoder")]
    assert not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in own)


@every_map
def test_a_constant_last_layer_gives_a_constant_map(name):
    network = network_of(name, 2)
    with torch.no_grad():
        network.last.weight.zero_()
        network.last.bias.copy_(torch.tensor([0.7, -2.0]))
    raw = network(images(2, 11, 14))
    expected = torch.tensor([0.7, -2.0]).view(1, 2, 1, 1).expand(2, 2, 11, 14)
    torch.testing.assert_close(raw, expected, rtol=1e-6, atol=0)


def test_maps_are_enlarged_linearly():
    h = torch.tensor([0.0, 4.0])
    # The centers of 4 points over 2: at -1/4 (clamped to 0), 1/4, 3/4 and 5/4 (clamped to 1).
    expected = torch.tensor([0.0, 1.0, 3.0, 4.0])
    torch.testing.assert_close(enlarged(h.view(1, 1, 2), (4,)).flatten(), expected)
    grid = enlarged(h.view(1, 1, 1, 2), (3, 4))
    torch.testing.assert_close(grid[0, 0], expected.expand(3, 4))
    assert enlarged(grid, (3, 4)) is grid


# --- the shared trunk


ENCODERS = {
    "resnet18": lambda: networks.resnet18(),
    "cnn": lambda: networks.SmallCNN(3),
    "dna": lambda: networks.SequenceCNN((16, 32)),
}


def trunk(name, **options):
    torch.manual_seed(0)
    encoder = ENCODERS[name]()
    if name == "dna":
        return encoder, networks.SharedTrunkMap(encoder.stem, 16, 4, dims=1, **options)
    return encoder, shared(encoder, **options)


def sample(name, n=3):
    return one_hot(n, 20) if name == "dna" else images(n, 12, 12)


def one_hot(n, length, seed=0):
    letters = torch.randint(4, (n, length), generator=torch.Generator().manual_seed(seed))
    return nn.functional.one_hot(letters, 4).mT.float()


@pytest.mark.parametrize("name", ENCODERS)
def test_the_weights_of_the_encoder_are_not_saved_twice(name):
    encoder, network = trunk(name)
    assert set(network.state_dict()) == {"head.0.weight", "head.0.bias", "last.weight", "last.bias"}
    method = nn.ModuleDict({"encoder": encoder, "network": network})
    saved = list(method.state_dict())
    assert len(saved) == len(set(saved)) == len(encoder.state_dict()) + 4


@pytest.mark.parametrize("name", ENCODERS)
def test_statistics_and_modes_of_the_encoder_do_not_change(name):
    encoder, network = trunk(name)
    encoder.train()
    frozen = next(m for m in encoder.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm))
    before, modes = copy.deepcopy(encoder.state_dict()), {n: m.training for n, m in encoder.named_modules()}
    in_training = network(sample(name))
    assert all(torch.equal(value, before[key]) for key, value in encoder.state_dict().items())
    assert {n: m.training for n, m in encoder.named_modules()} == modes and frozen.training
    encoder.eval()
    assert torch.equal(network(sample(name)), in_training)


def test_modes_of_the_encoder_are_restored_after_an_error():
    encoder, network = trunk("resnet18")
    with pytest.raises(RuntimeError):
        network(torch.randn(2, 5, 12, 12))
    assert all(m.training for m in encoder.modules())


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("detach", [True, False])
def test_the_gradient_reaches_the_encoder_only_without_detach(name, detach):
    encoder, network = trunk(name, detach=detach)
    network(sample(name)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in network.parameters())
    reached = {n for n, p in encoder.named_parameters() if p.grad is not None}
    assert bool(reached) == (not detach)


@pytest.mark.parametrize("name", ENCODERS)
def test_a_copy_uses_the_copied_encoder(name):
    encoder, network = trunk(name)
    # In both orders of copying.
    for order in (("encoder", "network"), ("network", "encoder")):
        method = nn.ModuleDict({key: {"encoder": encoder, "network": network}[key] for key in order}).eval()
        other = copy.deepcopy(method)
        assert other["network"].stem.__self__ is other["encoder"] is not encoder
        x = sample(name)
        before = network(x)
        assert torch.equal(other["network"](x), before)
        with torch.no_grad():
            for weight in other["encoder"].parameters():
                weight.mul_(1.5)
        assert torch.equal(network(x), before) and not torch.equal(other["network"](x), before)


def test_stems_that_are_not_methods_of_a_module_are_refused():
    encoder = networks.resnet18()
    for stem in (lambda x: encoder.stem(x), nn.Identity(), "stem".upper):
        with pytest.raises(ValueError, match=r"expected a method of the encoder, as in encoder\.stem"):
            networks.SharedTrunkMap(stem, 64, 3)


# --- DNA


def padded(x, more):
    return nn.functional.pad(x, (0, more))


@pytest.mark.parametrize(("length", "outputs"), [(1, 4), (7, 1), (30, 8)])
def test_maps_of_sequences(length, outputs):
    assert networks.SequenceMap(outputs)(one_hot(3, length)).shape == (3, outputs, length)


@pytest.mark.parametrize("name", ["separate", "shared"])
def test_maps_do_not_depend_on_padding(name):
    network = networks.SequenceMap() if name == "separate" else trunk("dna")[1]
    x = one_hot(3, 21)
    torch.testing.assert_close(network(padded(x, 13))[:, :, :21], network(x), rtol=1e-5, atol=1e-6)
