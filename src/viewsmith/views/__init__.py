"""View makers: fixed and learned."""

from viewsmith.views.channel import AugmentationChannel
from viewsmith.views.families import Crops, Family, Masks, Windows
from viewsmith.views.fixed.adversarial import AdversarialViews
from viewsmith.views.fixed.conditional import ConditionalCorruption
from viewsmith.views.fixed.dna import DNAMixup, DNANoise, DNAViews
from viewsmith.views.fixed.images import ImageViews, image_recipe
from viewsmith.views.fixed.representation import RepresentationNoise
from viewsmith.views.fixed.vectors import Corruption, GaussianNoise, Identity, Mixup, NeighbourMix, Neighbours
from viewsmith.views.functions import Functions
from viewsmith.views.maker import Pair, ViewMaker
from viewsmith.views.meta_features import MetaFeatures
from viewsmith.views.neighbours import nearest_neighbours
from viewsmith.views.pair import ViewPair
from viewsmith.views.pi_noise import PiNoise

__all__ = [
    "AdversarialViews",
    "AugmentationChannel",
    "ConditionalCorruption",
    "Corruption",
    "Crops",
    "DNAMixup",
    "DNANoise",
    "DNAViews",
    "Family",
    "Functions",
    "GaussianNoise",
    "Identity",
    "ImageViews",
    "Masks",
    "MetaFeatures",
    "Mixup",
    "NeighbourMix",
    "Neighbours",
    "Pair",
    "PiNoise",
    "RepresentationNoise",
    "ViewMaker",
    "ViewPair",
    "Windows",
    "image_recipe",
    "nearest_neighbours",
]
