"""Self-supervised objectives with their own state; each gives one loss value per sample."""

from viewsmith.frameworks.barlow_twins import BarlowTwins
from viewsmith.frameworks.base import DataSummary, Framework, FrameworkContext
from viewsmith.frameworks.byol import BYOL
from viewsmith.frameworks.dino import DINO
from viewsmith.frameworks.lejepa import LeJEPA
from viewsmith.frameworks.moco import MoCo
from viewsmith.frameworks.moco_v3 import MoCoV3
from viewsmith.frameworks.nnclr import NNCLR
from viewsmith.frameworks.simclr import SimCLR
from viewsmith.frameworks.simsiam import SimSiam
from viewsmith.frameworks.soft import InfoNCESettings, SoftContrastive, SoftSettings, SoftTargets
from viewsmith.frameworks.sup_con import SupCon
from viewsmith.frameworks.swav import SwAV
from viewsmith.frameworks.unified import FeatureContrast, FeatureMemory, Unified
from viewsmith.frameworks.vicreg import VICReg

__all__ = ["BYOL", "DINO", "NNCLR", "BarlowTwins", "DataSummary", "FeatureContrast", "FeatureMemory", "Framework"]
__all__ += ["FrameworkContext", "InfoNCESettings", "LeJEPA", "MoCo", "MoCoV3", "SimCLR"]
__all__ += ["SimSiam", "SoftContrastive", "SoftSettings", "SoftTargets", "SupCon", "SwAV", "Unified", "VICReg"]
