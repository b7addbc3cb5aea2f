"""The parts that estimators are made of: groups of their options, given as objects, names or options by name."""

from typing import TYPE_CHECKING

from viewsmith.core import lazily

if TYPE_CHECKING:
    from viewsmith.estimator.arguments import Encoder, Input, Objective, Training, Views
    from viewsmith.methods.crl_tac.options import Averaging, Channel, Transforms
    from viewsmith.methods.diffaug.estimator import Generator, Map, SoftLoss
    from viewsmith.methods.genview.estimator import Quality, Source
    from viewsmith.methods.metaug.estimator import Memory, UnifiedLoss
    from viewsmith.methods.metaug.objective import Features
    from viewsmith.methods.pinda.training import Noise

__all__ = [
    "Averaging", "Channel", "Encoder", "Features", "Generator", "Input", "Map", "Memory", "Noise", "Objective",
    "Quality", "SoftLoss", "Source", "Training", "Transforms", "UnifiedLoss", "Views",
]  # fmt: skip

__getattr__ = lazily(
    __name__,
    {
        "viewsmith.estimator.arguments": "Encoder Input Objective Training Views",
        "viewsmith.methods.crl_tac.options": "Averaging Channel Transforms",
        "viewsmith.methods.diffaug.estimator": "Generator Map SoftLoss",
        "viewsmith.methods.genview.estimator": "Quality Source",
        "viewsmith.methods.metaug.estimator": "Memory UnifiedLoss",
        "viewsmith.methods.metaug.objective": "Features",
        "viewsmith.methods.pinda.training": "Noise",
    },
)
