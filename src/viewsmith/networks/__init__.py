"""What networks share: bases, scaling, wrappers; and all encoders, heads and input layers by name."""

from viewsmith.core import lazily
from viewsmith.networks.base import MLP, EncoderContext, NoiseContext, PartContext, ViewEncoders, ViewHeads
from viewsmith.networks.features import Features
from viewsmith.networks.scaling import PrincipalAxes, Scaler

# Defined in higher layers, and imported on use.
__getattr__ = lazily(
    __name__,
    {
        "viewsmith.methods.crl_tac.scores": "CropScores ImageScores MaskScores PositionScores SequenceScores",
        "viewsmith.methods.metaug.networks": "ColorSplit SplitAlexNet rgb_to_lab rgb_to_ydbdr",
        "viewsmith.methods.pinda.views": "LowResolutionMap ResNetMap SequenceMap SharedTrunkMap UNet",
        "viewsmith.modalities.dna.hyena": "Hyena",
        "viewsmith.modalities.dna.networks": "Nucleotides SequenceCNN",
        "viewsmith.modalities.images.encoders": (
            "CropCNN DenseResNet18 ResNet SmallCNN resnet18 resnet50 timm_encoder"
        ),
        "viewsmith.modalities.images.pixels": "Pixels",
        "viewsmith.modalities.vectors.networks": "vector_encoder",
    },
)

__all__ = [
    "MLP", "ColorSplit", "CropCNN", "CropScores", "DenseResNet18", "EncoderContext", "Features",
    "Hyena", "ImageScores", "LowResolutionMap", "MaskScores", "NoiseContext", "Nucleotides", "PartContext", "Pixels",
    "PositionScores", "PrincipalAxes", "ResNet", "ResNetMap", "Scaler", "SequenceCNN", "SequenceMap",
    "SequenceScores", "SharedTrunkMap", "SmallCNN", "SplitAlexNet", "UNet", "ViewEncoders", "ViewHeads", "resnet18",
    "resnet50", "rgb_to_lab", "rgb_to_ydbdr", "timm_encoder", "vector_encoder",
]  # fmt: skip
