"""Methods: one file per paper, which follows the paper's Algorithm 1."""

from viewsmith.methods.contrastive.training import ContrastiveMethod
from viewsmith.methods.crl_tac.training import CRLTACMethod
from viewsmith.methods.diffaug.training import DiffAugMethod
from viewsmith.methods.genview.training import GenViewMethod
from viewsmith.methods.metaug.training import MetAugMethod
from viewsmith.methods.pinda.training import PiNDAMethod

__all__ = ["CRLTACMethod", "ContrastiveMethod", "DiffAugMethod", "GenViewMethod", "MetAugMethod", "PiNDAMethod"]
