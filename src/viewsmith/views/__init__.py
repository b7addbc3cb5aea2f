"""View makers: fixed, learned and generated."""

from viewsmith.views.base import Pair, ViewContext, ViewMaker
from viewsmith.views.fixed import dna_names, image_names, series  # noqa: F401, these register view makers
from viewsmith.views.fixed.adversarial import AdversarialViews
from viewsmith.views.fixed.conditional import ConditionalCorruption
from viewsmith.views.fixed.dna import DNAMixup, DNANoise, DNAViews
from viewsmith.views.fixed.images import ImageViews, image_recipe
from viewsmith.views.fixed.masking import Masking
from viewsmith.views.fixed.representation import RepresentationNoise
from viewsmith.views.fixed.thinning import Thinning
from viewsmith.views.fixed.vectors import Corruption, GaussianNoise, Identity, Mixup, NeighborMix, Neighbors
from viewsmith.views.learned import transform_names  # noqa: F401, this registers families of transformations
from viewsmith.views.learned.augmentation_channel import AugmentationChannel
from viewsmith.views.learned.custom_transforms import Functions
from viewsmith.views.learned.feature_augmenters import MetaFeatures
from viewsmith.views.learned.pi_noise import PiNoise
from viewsmith.views.learned.transforms import Crops, Family, Masks
from viewsmith.views.learned.windows import Windows
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
