"""A small closed-form contrast, and its work in other processes."""

import torch

from drawn import draw
from viewsmith.methods import LinearContrastMethod
from viewsmith.methods.linear_contrast.training import LinearContrastFramework
from viewsmith.networks.features import Features
from viewsmith.networks.projected import ProjectedFeatures
from viewsmith.views import GaussianNoise, PairMaker

D = 5


class Linear(Features):
    """The samples themselves, moved and stretched."""

    n_features = D

    def of_block(self, x):
        return x * 2 + 1


def samples(n=300):
    return torch.randn(n, D, generator=draw(5)) * torch.tensor([5.0, 2.0, 1.0, 0.5, 0.1])


def method(makers=(), width=D, appended=0, **options):
    encoder = ProjectedFeatures(Linear(), width, appended)
    settings = {"n_views": 4, "ridge": None, "n_components": None, "batch_size": 16, "max_samples": None} | options
    return LinearContrastMethod(LinearContrastFramework(encoder), PairMaker(makers), **settings)


def fitted(x, *makers, **options):
    made = method(makers, **options)
    made.initialize(x, 0)
    made.prepare(x, 0)
    made.solve_for(0)
    return made


def work(rank, out):
    """Fit in one of two processes, and save the weights."""
    torch.save(fitted(samples(), GaussianNoise(0.5)).framework.encoder.state_dict(), f"{out}/{rank}.pt")
