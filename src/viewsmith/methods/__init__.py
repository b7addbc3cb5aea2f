"""Methods: one file per paper, which follows the paper's Algorithm 1."""

from viewsmith.methods.contrastive import ContrastiveMethod
from viewsmith.methods.crl_tac import CRLTACMethod
from viewsmith.methods.diffaug import DiffAugMethod
from viewsmith.methods.genview import GenViewMethod
from viewsmith.methods.metaug import MetAugMethod
from viewsmith.methods.pinda import PiNDAMethod

__all__ = ["CRLTACMethod", "ContrastiveMethod", "DiffAugMethod", "GenViewMethod", "MetAugMethod", "PiNDAMethod"]
