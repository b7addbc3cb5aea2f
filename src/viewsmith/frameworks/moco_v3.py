"""MoCo v3 (Chen et al. 2021): each view predicts the key of the other view; negatives are the keys of the batch."""

from typing import Any

import torch
from torch import Tensor

from viewsmith.core.registry import Fraction, Positive, register
from viewsmith.frameworks.base import FrameworkContext, PredictorFramework, two_way_info_nce
from viewsmith.networks.base import MLP
from viewsmith.views.base import PositivePair


def projector(n_components: int, hidden: int = 4096, out: int = 256) -> MLP:
    """MoCo v3's head for ResNets: BatchNorm in both layers, the last without scale, shift and activation."""
    return MLP(n_components, [hidden, out], norm="batch", last="normed")


def predictor(width: int = 256, hidden: int = 4096, *, bias: bool = False) -> MLP:
    """MoCo v3's predictor for ResNets: BatchNorm in the hidden layer, a linear last layer without bias."""
    return MLP(width, [hidden, width], norm="batch", bias=bias)


@register(
    "framework",
    "moco-v3",
    help="predict the key of a momentum copy, negatives from the batch, both directions",
    source="Chen, Xie et al. 2021",
)
class MoCoV3(PredictorFramework):
    """MoCo v3: each view predicts the key of the other view. The keys of the other samples are the negatives.

    A training forward (train mode, gradients enabled) first updates the copies. Other forwards change no state.

    Parameters
    ----------
    predictor, momentum
        As in `BYOL`.

    Attributes
    ----------
    encoder_copy, head_copy : nn.Module
        Momentum copies.
    """

    projector, predicts = staticmethod(projector), staticmethod(predictor)
    temperature: Positive = 1.0
    """tau; the paper uses 1 for ResNets, 0.2 for vision transformers."""
    momentum: Fraction = 0.99

    @classmethod
    def predictor_options(cls, context: FrameworkContext) -> dict[str, Any]:
        """Only the published predictor has no bias."""
        return {"bias": not context.published}

    def forward(self, pair: PositivePair, progress: float = 0.0) -> Tensor:
        """Losses (B,): 2 tau times the mean of both directions (the paper sums), keys of all processes."""
        queries, keys = self.predictions_and_targets(pair, progress)
        with torch.autocast(queries.device.type, enabled=False):
            directions = two_way_info_nce(queries, keys, pair.ids, self.temperature)
            return self.temperature * (directions[0] + directions[1])
