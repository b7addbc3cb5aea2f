"""View makers: fixed, learned and generated."""

from viewsmith.methods.crl_tac import transforms as transform_names
from viewsmith.methods.crl_tac.channel import AugmentationChannel
from viewsmith.methods.crl_tac.transforms import Crops, Family, Functions, Masks, Windows
from viewsmith.methods.metaug.networks import MetaFeatures
from viewsmith.methods.pinda.views import PiNoise
from viewsmith.modalities.dna import views as dna_names
from viewsmith.modalities.dna.views import DNAMixup, DNANoise, DNAViews
from viewsmith.modalities.images import views as image_names
from viewsmith.modalities.images.views import ImageViews, image_recipe
from viewsmith.modalities.series import views as series
from viewsmith.modalities.vectors.counts import Thinning
from viewsmith.modalities.vectors.trained_views import AdversarialViews, ConditionalCorruption
from viewsmith.modalities.vectors.views import (
    Corruption,
    GaussianNoise,
    Identity,
    Masking,
    Mixup,
    NeighborMix,
    Neighbors,
)
from viewsmith.views.base import Pair, RepresentationNoise, ViewContext, ViewMaker
from viewsmith.views.neighbor_search import NeighborSearch
from viewsmith.views.neighbors import nearest_neighbors
from viewsmith.views.pair import ViewPair

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
    "Masking",
    "Masks",
    "MetaFeatures",
    "Mixup",
    "NeighborMix",
    "NeighborSearch",
    "Neighbors",
    "Pair",
    "PiNoise",
    "RepresentationNoise",
    "Thinning",
    "ViewContext",
    "ViewMaker",
    "ViewPair",
    "Windows",
    "image_recipe",
    "nearest_neighbors",
]
