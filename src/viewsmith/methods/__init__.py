"""One file per method; each reads like its paper's Algorithm 1."""

from viewsmith.methods.contrastive import ContrastiveMethod
from viewsmith.methods.diffaug import DiffAugMethod
from viewsmith.methods.genview import GenViewMethod
from viewsmith.methods.pinda import PiNDAMethod

__all__ = ["ContrastiveMethod", "DiffAugMethod", "GenViewMethod", "PiNDAMethod"]
