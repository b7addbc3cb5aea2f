"""SimSiam (Chen and He 2021): each view predicts the projection of the other view, which gets no gradient."""

import torch
from torch import Tensor

from viewsmith.core.registry import register
from viewsmith.frameworks.base import PredictorFramework
from viewsmith.losses.self_distillation import negative_cosine
from viewsmith.networks.base import MLP
from viewsmith.views.base import PositivePair


def projector(n_components: int, hidden: int = 2048, out: int = 2048) -> MLP:
    """SimSiam's head: three layers with BatchNorm, the last without scale, shift and activation (section 3)."""
    return MLP(n_components, [hidden, hidden, out], norm="batch", last="normed")


def predictor(width: int = 2048, hidden: int = 512) -> MLP:
    """SimSiam's predictor, a bottleneck: BatchNorm in the hidden layer, a linear last layer (section 3)."""
    return MLP(width, [hidden, width], norm="batch")


@register(
    "framework",
    "simsiam",
    help="predict the projection of the other view, which gets no gradient",
    source="Chen and He 2021",
)
class SimSiam(PredictorFramework):
    """SimSiam: BYOL without a momentum copy. The stopped gradient prevents collapse. It has no state.

    Parameters
    ----------
    predictor
        As in `BYOL`. In the paper, the learning rate of the predictor is constant.
    """

    projector, predicts = staticmethod(projector), staticmethod(predictor)
    small_dims = ((512, 512), (128,))
    static_step = True

    def forward(self, pair: PositivePair, progress: float = 0.0) -> Tensor:
        """Losses, shape (B,): mean of the two directions (equation 4); `progress` has no effect."""
        p, z = self.predictions_and_projections(pair)
        (p0, p1), (z0, z1) = p.chunk(2), z.chunk(2)
        with torch.autocast(p.device.type, enabled=False):
            return (negative_cosine(p0, z1) + negative_cosine(p1, z0)) / 2
