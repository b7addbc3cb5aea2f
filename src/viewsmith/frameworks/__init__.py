"""Self-supervised objectives with their own state; each gives one loss value per sample."""

from viewsmith.frameworks.byol import BYOL
from viewsmith.frameworks.dino import DINO
from viewsmith.frameworks.memory import FeatureMemory
from viewsmith.frameworks.moco import MoCo
from viewsmith.frameworks.moco_v3 import MoCoV3
from viewsmith.frameworks.simclr import SimCLR
from viewsmith.frameworks.simsiam import SimSiam
from viewsmith.frameworks.soft import InfoNCE, SoftContrastive, SoftLoss
from viewsmith.frameworks.swav import SwAV
from viewsmith.frameworks.unified import FeatureContrast, Unified

#: Any of them: modules with `encoder` and `head`, called as ``framework(pair, progress)``.
Framework = BYOL | DINO | MoCo | MoCoV3 | SimCLR | SimSiam | SoftContrastive | SwAV | Unified

__all__ = [
    "BYOL",
    "DINO",
    "FeatureContrast",
    "FeatureMemory",
    "Framework",
    "InfoNCE",
    "MoCo",
    "MoCoV3",
    "SimCLR",
    "SimSiam",
    "SoftContrastive",
    "SoftLoss",
    "SwAV",
    "Unified",
]
