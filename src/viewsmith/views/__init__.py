"""View makers: fixed and learned."""

from viewsmith.views.fixed.vectors import Corruption, GaussianNoise, Identity, Mixup, NeighbourMix, Neighbours
from viewsmith.views.maker import ViewMaker
from viewsmith.views.neighbours import nearest_neighbours
from viewsmith.views.pair import Pair, ViewPair
from viewsmith.views.pi_noise import PiNoise

__all__ = [
    "Corruption",
    "GaussianNoise",
    "Identity",
    "Mixup",
    "NeighbourMix",
    "Neighbours",
    "Pair",
    "PiNoise",
    "ViewMaker",
    "ViewPair",
    "nearest_neighbours",
]
