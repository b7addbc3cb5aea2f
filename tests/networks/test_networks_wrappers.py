"""Which training steps launch the same kernels every time."""

import pytest
import torch
from torch import nn

from viewsmith.frameworks import BarlowTwins, MoCo, SimCLR, SimSiam, VICReg, simsiam
from viewsmith.modalities.images.views import image_recipe
from viewsmith.networks import MLP, SmallCNN, resnet18
from viewsmith.networks.base import is_static
from viewsmith.views import Identity, PairMaker
from viewsmith.views.base import RepresentationNoise


class Own(nn.Module):
    """A module of a user: it may do anything."""

    def forward(self, x):
        return x


class OwnFramework(SimCLR):
    """A framework of a user, which inherits what SimCLR says of itself."""


@pytest.mark.parametrize("framework", [SimCLR, BarlowTwins, VICReg])
def test_frameworks_without_state_are(framework):
    views = PairMaker([image_recipe("byol", size=32)])
    assert is_static(framework(SmallCNN(3), MLP(256, [8])), views)


def test_simsiam_is():
    assert is_static(SimSiam(resnet18(), simsiam.projector(512, 8, 8), simsiam.predictor(8, 8)))


def test_a_queue_is_not():
    assert not is_static(MoCo(resnet18(), MLP(512, [8])))


def test_neighbors_that_are_searched_again_are_not():
    assert is_static(PairMaker([Identity()]))
    assert not is_static(PairMaker([Identity()], refreshed=True))


def test_noise_with_a_seed_of_its_own_is_not():
    head = nn.Sequential(RepresentationNoise(0.1, seed=0), nn.Linear(2, 2))
    assert not is_static(SimCLR(nn.Linear(2, 2), head))


def test_modules_of_others_are_not():
    assert is_static(nn.Sequential(nn.Linear(2, 2)))
    assert not is_static(nn.Sequential(Own()))
    assert not is_static(OwnFramework(nn.Linear(2, 2), nn.Linear(2, 2)))


def test_every_declared_view_maker_draws_the_same_with_the_same_seed_on_any_values():
    """A step that is declared static reads no value: with other samples it draws the same random numbers."""
    maker = image_recipe("simclr", size=8)
    one, other = (torch.Generator().manual_seed(0) for _ in range(2))
    maker.draw(4, torch.zeros(4, 3, 8, 8), one), maker.draw(4, torch.ones(4, 3, 8, 8), other)
    assert torch.equal(one.get_state(), other.get_state())
