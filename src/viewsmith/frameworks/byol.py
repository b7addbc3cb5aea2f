"""BYOL (Grill et al. 2020): each view predicts the momentum copy's projection of the other view; no negatives."""

import torch
from torch import Tensor

from viewsmith.core.registry import Fraction, register
from viewsmith.frameworks.base import PredictorFramework
from viewsmith.losses.self_distillation import negative_cosine
from viewsmith.networks.base import MLP
from viewsmith.views.base import PositivePair


def projector(n_components: int, hidden: int = 4096, out: int = 256) -> MLP:
    """BYOL's head: BatchNorm in the hidden layer, a linear last layer (Grill et al. 2020, section 3.3)."""
    return MLP(n_components, [hidden, out], norm="batch")


def predictor(width: int = 256, hidden: int = 4096) -> MLP:
    """BYOL's predictor, with the same layers as its head."""
    return MLP(width, [hidden, width], norm="batch")


@register(
    "framework", "byol", help="predict the projection of a momentum copy, no negatives", source="Grill et al. 2020"
)
class BYOL(PredictorFramework):
    """BYOL: a network with a predictor predicts the output of its own moving average.

    A training forward (train mode, gradients enabled) first updates the copies. Other forwards change no state.

    Parameters
    ----------
    predictor : nn.Module
        Projections to predictions (B, d).

    Attributes
    ----------
    encoder_copy, head_copy : nn.Module
        Momentum copies: the target network.
    """

    projector, predicts = staticmethod(projector), staticmethod(predictor)
    momentum: Fraction = 0.996
    """Momentum of the copies at the start of training, 0 to 1; it rises to 1 along half a cosine."""

    def forward(self, pair: PositivePair, progress: float = 0.0) -> Tensor:
        """Losses, shape (B,): mean of the two directions' ``2 - 2 cos`` (equation 2; the paper sums the directions)."""
        p, z = self.predictions_and_targets(pair, progress)
        (p0, p1), (z0, z1) = p.chunk(2), z.chunk(2)
        with torch.autocast(p.device.type, enabled=False):
            return 2 + negative_cosine(p0, z1) + negative_cosine(p1, z0)
