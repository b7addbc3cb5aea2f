"""LeJEPA (Balestriero and LeCun 2025): views predict the mean of the full views; projections become normal."""

from typing import Annotated, Any, Self

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import broadcast_tensors, total
from viewsmith.core.registry import Bounds, Fraction, register
from viewsmith.core.tensors import stream
from viewsmith.frameworks.base import Framework, FrameworkContext, full_precision, updates_state
from viewsmith.losses.sigreg import random_directions, sigreg
from viewsmith.networks.base import MLP
from viewsmith.views.base import PositivePair


def projector(n_components: int, hidden: int = 2048, out: int = 128) -> MLP:
    """LeJEPA's head: three layers with BatchNorm in the two hidden ones, a linear last layer (the authors' program)."""
    return MLP(n_components, [hidden, hidden, out], norm="batch")


def prediction(z: Tensor) -> Tensor:
    """Mean squared distance of all views (V, B, d) to the mean of the first two, (B,) (section 5.1, algorithm 2)."""
    return (z - z[:2].mean(dim=0)).square().mean(dim=(0, 2))


@register(
    "framework",
    "lejepa",
    help="predict the mean view while projections become normal; takes multicrop",
    source="Balestriero and LeCun 2025",
    local_views=True,
)
class LeJEPA(Framework):
    """LeJEPA: views predict the mean of the two full views, and SIGReg makes the projections normally distributed.

    The normal distribution prevents collapse. There are no negatives, no momentum copies, no predictor and no stopped
    gradient. Each training forward draws new directions for SIGReg, the same on all processes. In eval mode, or without
    gradients, the directions of the next training forward are used; in a functional call with a copy of the buffer,
    those of the last one. Multi-crop views are supported.

    Parameters
    ----------
    seed : int, optional
        Seed of the directions. Default: drawn from torch's global generator, as initial weights are.

    Attributes
    ----------
    stream : Tensor of int64, shape (2,)
        Seed, and number of draws so far.
    """

    sigreg_weight: Fraction = 0.05
    """lambda, weight of SIGReg, 0 to 1; the weight of the prediction is 1 - lambda. SIGReg grows with the batch size:
    halve its weight if you double the batch size."""
    n_slices: Annotated[int, Bounds(ge=1)] = 1024
    """Number of directions in each step."""
    n_knots: Annotated[int, Bounds(ge=2)] = 17
    """Number of points at which characteristic functions are compared, at least 2."""

    def __init__(self, encoder: nn.Module, head: nn.Module, *, seed: int | None = None, **options: Any) -> None:
        super().__init__(encoder, head, **options)
        first = int(torch.randint(2**62, (), device="cpu")) if seed is None else seed
        self.stream = nn.Buffer(torch.tensor([first, 0]))
        # The buffer, and the seed and draws of the first process: reading them in each step would wait for a GPU.
        self.address: tuple[Tensor, int, int] | None = None
        self.register_load_state_dict_post_hook(_forget_address)

    @classmethod
    def build(
        cls,
        context: FrameworkContext,
        *,
        n_slices: Annotated[int, Bounds(ge=1)] | None = None,
        projector_dims: tuple[int, ...] | None = None,
        **options: Any,
    ) -> "LeJEPA":
        """Build LeJEPA with its head. The default number of directions depends on the size of the encoder."""
        head = projector(context.n_components, **context.dims("projector_dims", projector_dims, (512, 64)))
        slices = (1024 if context.published else 256) if n_slices is None else n_slices
        return cls(context.encoder, context.wrap(head), n_slices=slices, **options)

    def forward(self, pair: PositivePair, progress: float = 0.0) -> Tensor:
        """Losses, shape (B,), see `prediction` and `viewsmith.losses.sigreg`; `progress` has no effect."""
        z = full_precision(self.head(self.represent_views(pair))).unflatten(0, (-1, len(pair.first)))
        with torch.autocast(z.device.type, enabled=False):
            normality = sigreg(z, self.directions(z), n_knots=self.n_knots, total=total)
            return (1 - self.sigreg_weight) * prediction(z) + self.sigreg_weight * normality

    def directions(self, z: Tensor) -> Tensor:
        """SIGReg's directions for projections `z`, (d, n_slices). A training forward increments the number of draws."""
        if self.address is None:
            first = self.stream.clone()
            broadcast_tensors(first)
            self.address = (self.stream, *first.tolist())
        buffer, seed, draws = self.address
        if self.stream is not buffer:  # a functional call (MetAug's lookahead): the state before the last draw
            draws = max(draws - 1, 0)
        elif updates_state(self):
            self.stream[1] += 1
            self.address = (buffer, seed, draws + 1)
        return random_directions(z.shape[-1], self.n_slices, z, stream(seed, "sigreg", draws, device=z.device))

    def _apply(self, *given: Any, **more: Any) -> Self:
        self.address = None  # the buffer may become another tensor
        return super()._apply(*given, **more)


def _forget_address(framework: LeJEPA, keys: object) -> None:
    framework.address = None
