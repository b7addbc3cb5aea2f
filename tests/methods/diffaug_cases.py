"""Small DiffAug methods for tests, with a small denoiser."""

import torch
from torch import nn

from viewsmith.core import Batch, Optimizer
from viewsmith.frameworks import SoftContrastive
from viewsmith.methods import DiffAugMethod
from viewsmith.modalities.vectors.networks import VectorLatents
from viewsmith.networks import MLP
from viewsmith.training.engine import Trainer
from viewsmith.views import Neighbors, PairMaker
from viewsmith.views.generated.diffusion import ConditionalDiffusion
from viewsmith.views.generated.diffusion_views import GeneratedViews

N, D, M = 60, 4, 5
X = torch.randn(N, D, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(N) % 3


class Denoiser(nn.Module):
    """A small denoiser that depends on noise, time and condition."""

    def __init__(self, width, condition):
        super().__init__()
        self.layers = MLP(width + 1 + condition, [16, width], activation="gelu")

    def forward(self, x, t, condition):
        return self.layers(torch.cat([x, t[:, None] / 1000, condition], 1))


def diffaug(schedule="ABA", condition="representation", makers=None, seed=0, **options):
    torch.manual_seed(seed)
    encoder = MLP(D, [8, M], norm="batch", last="activated")
    framework = SoftContrastive(encoder, MLP(M, [3]), MLP(M, [2]))
    width = 2 if condition == "map" else M
    generator = ConditionalDiffusion(Denoiser(D, width), VectorLatents(D), condition=width, steps=3, prediction="v")
    generated = GeneratedViews(
        generator,
        encoder,
        framework.map_head,
        n_components=M,
        condition=condition,
        labels=LABELS if condition == "labels" else None,
        n_classes=3 if condition == "labels" else 0,
        n_views=options.pop("n_views", 2),
        keep_outliers=options.pop("keep_outliers", True),
    )
    settings = {
        "epochs": 4,
        "generator_epochs": 3,
        "optimizer": Optimizer(learning_rate=1e-3),
        "generator_optimizer": Optimizer(learning_rate=1e-2),
        "replacement": 0.5,
        "refresh": 0,
        "fresh": False,
        "on_top": False,
    } | options
    return DiffAugMethod(framework, PairMaker(makers or [Neighbors(3)]), generated, schedule=schedule, **settings)


def trained(*arguments, **options):
    method = diffaug(*arguments, **options)
    Trainer(method, seed=1, batch_size=20).fit(X)
    return method


def batch(seed=0, epoch=0):
    index = torch.arange(20)
    return Batch(X[index], index, torch.Generator().manual_seed(seed), epoch=epoch)


def weights(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def changed(before, module):
    return any(not torch.equal(before[name], value) for name, value in module.state_dict().items())
