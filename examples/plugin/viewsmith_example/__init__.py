"""A plug-in for viewsmith. Importing this module registers its parts."""

from viewsmith_example.align_uniform import AlignUniform
from viewsmith_example.denoising import Denoising
from viewsmith_example.drift import Drift
from viewsmith_example.points import CloudViews, Points
from viewsmith_example.xyz import read_xyz

__all__ = ["AlignUniform", "CloudViews", "Denoising", "Drift", "Points", "read_xyz"]
