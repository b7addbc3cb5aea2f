"""Encoders, projection heads, noise generators, denoisers, and input layers."""

from viewsmith.networks.base import EncoderContext, NoiseContext
from viewsmith.networks.channels import CropScores, ImageScores, MaskScores, PositionScores, SequenceScores
from viewsmith.networks.color_split import ColorSplit, rgb_to_lab, rgb_to_ydbdr
from viewsmith.networks.encoders.alexnet import SplitAlexNet
from viewsmith.networks.encoders.cnn import CropCNN, SmallCNN
from viewsmith.networks.encoders.dense_resnet import DenseResNet18
from viewsmith.networks.encoders.hyena import Hyena
from viewsmith.networks.encoders.resnet import ResNet, resnet18, resnet50
from viewsmith.networks.encoders.sequence import SequenceCNN
from viewsmith.networks.encoders.timm import timm_encoder
from viewsmith.networks.encoders.vectors import vector_encoder
from viewsmith.networks.inputs.nucleotides import Nucleotides
from viewsmith.networks.inputs.pixels import Pixels
from viewsmith.networks.inputs.scaling import PrincipalAxes, Scaler
from viewsmith.networks.mlp import MLP
from viewsmith.networks.noise_maps import LowResolutionMap, ResNetMap, SequenceMap, SharedTrunkMap, UNet
from viewsmith.networks.per_view import ViewEncoders, ViewHeads

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
