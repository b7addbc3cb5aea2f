"""SimCLR (Chen et al. 2020): the two views of a sample attract, all other views of the batch repel."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.core.registry import Positive, register
from viewsmith.core.schedule import Role
from viewsmith.frameworks.base import DataSummary, Framework, FrameworkContext, nt_xent_of_all
from viewsmith.losses.nt_xent import Kernel, Negatives
from viewsmith.networks.base import MLP
from viewsmith.views.base import PositivePair


@register(
    "framework",
    "simclr",
    help="two views attract, all other views of the batch repel; kernels cosine and cauchy",
    source="Chen et al. 2020",
)
class SimCLR(Framework):
    """SimCLR: an encoder and a head that are trained with NT-Xent.

    Parameters
    ----------
    temperature, kernel, negatives
        As in `viewsmith.losses.nt_xent`.
    """

    training_roles: ClassVar[Mapping[Role, str]] = {"head": "head"}
    static_step = True

    temperature: Positive = 0.5
    kernel: Kernel = "cosine"
    negatives: Negatives = "all"

    @classmethod
    def build(
        cls,
        context: FrameworkContext,
        *,
        kernel: Literal["auto", "cosine", "cauchy"] = "auto",
        temperature: float | None = None,
        projector_dims: tuple[int, ...] | None = None,
    ) -> "SimCLR":
        """Build SimCLR with a plain head. `resolve` replaces "auto" and None."""
        cauchy = kernel == "cauchy"
        dims = projector_dims or ((32,) if cauchy else context.simclr_dims)
        return cls(
            context.encoder,
            context.wrap(MLP(context.n_components, dims)),
            temperature=1.0 if temperature is None else temperature,
            kernel="cauchy" if cauchy else "cosine",
            # With neighbors as second views, "cross" is faster and gives better representations (docs).
            negatives="cross" if cauchy else "all",
        )

    @classmethod
    def resolve(cls, options: dict[str, Any], data: DataSummary) -> dict[str, Any]:
        """Choose the kernel from the modality and its view makers, and the temperature from the kernel."""
        kernel, temperature = options.get("kernel", "auto"), options.get("temperature")
        if kernel not in ("auto", "cosine", "cauchy"):
            raise InputError(f"kernel is {kernel!r}, expected auto, cosine or cauchy with the framework simclr")
        if kernel == "auto":
            kernel = "cauchy" if data.other_samples else data.defaults.get("kernel", "cosine")
        if temperature is None:
            temperature = 1.0 if kernel == "cauchy" else data.defaults.get("temperature", 0.1)
        return options | {"kernel": kernel, "temperature": temperature}

    def forward(self, pair: PositivePair, progress: float = 0.0) -> Tensor:
        """Losses, shape (B,). Negatives are gathered from all processes; `progress` has no effect."""
        z = self.project_pair(pair)
        return nt_xent_of_all(z, pair.ids, temperature=self.temperature, kernel=self.kernel, negatives=self.negatives)
