"""What view makers share: the contract, pairs, neighbors and generated views; and all view makers by name."""

from viewsmith.core import lazily
from viewsmith.views.base import PairMaker, PositivePair, RepresentationNoise, ViewContext, ViewMaker

# Imported on use; most are defined in higher layers.
__getattr__ = lazily(
    __name__,
    {
        "viewsmith.methods.crl_tac.channel": "AugmentationChannel",
        "viewsmith.methods.crl_tac.transforms": "Crops Family Functions Masks Windows",
        "viewsmith.methods.metaug.networks": "MetaFeatures",
        "viewsmith.methods.pinda.views": "PiNoise",
        "viewsmith.modalities.dna.views": "DNAMixup DNANoise DNAViews",
        "viewsmith.modalities.images.views": "ImageViews image_recipe",
        "viewsmith.modalities.vectors.thinning": "Thinning",
        "viewsmith.modalities.vectors.views": (
            "AdversarialViews ConditionalCorruption Corruption GaussianNoise Identity "
            "Masking Mixup NeighborMix Neighbors"
        ),
        "viewsmith.views.neighbors": "NeighborSearch nearest_neighbors",
    },
)

__all__ = [
    "AdversarialViews", "AugmentationChannel", "ConditionalCorruption", "Corruption", "Crops", "DNAMixup", "DNANoise",
    "DNAViews", "Family", "Functions", "GaussianNoise", "Identity", "ImageViews", "Masking", "Masks", "MetaFeatures",
    "Mixup", "NeighborMix", "NeighborSearch", "Neighbors", "PairMaker", "PiNoise", "PositivePair",
    "RepresentationNoise", "Thinning", "ViewContext", "ViewMaker", "Windows", "image_recipe", "nearest_neighbors",
]  # fmt: skip
