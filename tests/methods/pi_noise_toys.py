"""Noise generators and small samples for the tests of pi-noise."""

import torch
from torch import nn

from drawn import draw
from viewsmith.networks import LowResolutionMap, ResNetMap, SequenceMap, SharedTrunkMap, SmallCNN, UNet
from viewsmith.views import PiNoise

D = 5
X = torch.randn(7, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def generator_of(trained=True, **options):
    """A generator in float64; `trained`: with weights far from the initial ones."""
    torch.manual_seed(0)
    maker = PiNoise.for_vectors(D, hidden=(8,), **options).double()
    if trained:
        with torch.no_grad():
            for parameter in maker.parameters():
                parameter.copy_(2 * torch.randn(parameter.shape, generator=draw(1)))
    return maker


def rms(sigma):
    return sigma.square().mean(1).sqrt()


NETWORKS = {
    "low-resolution": lambda k: LowResolutionMap(3, 3 * k),
    "unet": lambda k: UNet(3, 3 * k, width=8),
    "resnet18": lambda k: ResNetMap(3, 3 * k),
    "shared": lambda k: SharedTrunkMap((encoder := SmallCNN(3)).stem, encoder.stem_width, 3 * k),
    "one map": lambda k: LowResolutionMap(3, k),
    "dna": lambda k: SequenceMap(4 * k),
    "dna, one map": lambda k: SequenceMap(k),
}


def dna(dtype=torch.float64):
    """Sequences of 9, 4 and 0 bases padded to 9."""
    letters = torch.randint(4, (3, 9), generator=draw(5))
    x = nn.functional.one_hot(letters, 4).mT.to(dtype)
    x[1, :, 4:] = 0
    x[2] = 0
    return x


def samples(name, dtype=torch.float64):
    return dna(dtype) if name.startswith("dna") else torch.randn(3, 3, 9, 10, generator=draw(4), dtype=dtype)


def maker_of(name, trained=True, dtype=torch.float64, **options):
    """A generator with the named network; `trained`: with a last layer far from the initial one."""
    torch.manual_seed(0)
    maker = PiNoise(NETWORKS[name](1 + options.get("learn_mean", False)), **options)
    if trained:
        with torch.no_grad():
            for parameter in maker.network.last.parameters():
                parameter.copy_(0.7 * torch.randn(parameter.shape, generator=draw(1)))
    if name == "shared":
        maker.network.stem.__self__.to(dtype)
    return maker.to(dtype)


def real_of(x):
    """The entries of each sample that are not padding, by a loop."""
    real = torch.ones(x.shape, dtype=torch.bool)
    if x.ndim == 3:
        for i in range(len(x)):
            for t in range(x.shape[2]):
                real[i, :, t] = any(float(v) != 0 for v in x[i, :, t])
    return real
