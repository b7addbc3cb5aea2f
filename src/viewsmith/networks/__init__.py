"""Encoders, projection heads, noise generators, denoisers, and input layers."""

from viewsmith.methods.crl_tac.scores import CropScores, ImageScores, MaskScores, PositionScores, SequenceScores
from viewsmith.methods.metaug.networks import ColorSplit, SplitAlexNet, rgb_to_lab, rgb_to_ydbdr
from viewsmith.methods.pinda.networks import LowResolutionMap, ResNetMap, SequenceMap, SharedTrunkMap, UNet
from viewsmith.modalities.dna.hyena import Hyena
from viewsmith.modalities.dna.networks import SequenceCNN
from viewsmith.modalities.dna.nucleotides import Nucleotides
from viewsmith.modalities.images.cnn import CropCNN, SmallCNN
from viewsmith.modalities.images.encoders import DenseResNet18, ResNet, resnet18, resnet50, timm_encoder
from viewsmith.modalities.images.pixels import Pixels
from viewsmith.modalities.vectors.networks import vector_encoder
from viewsmith.networks.base import MLP, EncoderContext, NoiseContext
from viewsmith.networks.scaling import PrincipalAxes, Scaler
from viewsmith.networks.wrappers import ViewEncoders, ViewHeads

__all__ = [
    "MLP",
    "ColorSplit",
    "CropCNN",
    "CropScores",
    "DenseResNet18",
    "EncoderContext",
    "Hyena",
    "ImageScores",
    "LowResolutionMap",
    "MaskScores",
    "NoiseContext",
    "Nucleotides",
    "Pixels",
    "PositionScores",
    "PrincipalAxes",
    "ResNet",
    "ResNetMap",
    "Scaler",
    "SequenceCNN",
    "SequenceMap",
    "SequenceScores",
    "SharedTrunkMap",
    "SmallCNN",
    "SplitAlexNet",
    "UNet",
    "ViewEncoders",
    "ViewHeads",
    "resnet18",
    "resnet50",
    "rgb_to_lab",
    "rgb_to_ydbdr",
    "timm_encoder",
    "vector_encoder",
]
