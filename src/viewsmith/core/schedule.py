"""The interface of a method: a list of phases, each a list of updates. The training engine runs any such list."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.samples import Rows


@dataclass
class Batch:
    """The samples of one training step."""

    x: Tensor  #: samples (B, ...), scaled, on the training device
    index: Tensor  #: (B,): row numbers in the training set
    generator: torch.Generator  #: of this step and update, on the device of `x`: every draw uses it
    weight: Tensor | None = None  #: (B,), in the training scalar ``mean(weight * loss)``; None: ones
    epoch: int = 0  #: in the phase, from 0
    step: int = 0  #: in the phase, from 0
    #: Fraction of the training that is done, from 0 to less than 1: of the phase, or of all the phases that share one
    #: learning-rate curve (see `Optimizer`).
    progress: float = 0.0


#: Parts of a framework that an optimizer can treat separately: the learning rate of a predictor can be constant, a last
#: layer can be frozen at the start. A module names these parts in ``training_roles``.
Role = Literal["predictor", "last layer", "head"]

#: Function of an update. From a batch it computes the pair losses, (B,), and scalar tensors to log, by name.
Step = Callable[[Batch], tuple[Tensor, dict[str, Tensor]]]


@dataclass(frozen=True)
class Optimizer:
    """Optimizer, schedules and parameter groups of one update.

    The learning rate rises linearly during the warm-up. It then decreases along half a cosine, or stays constant.
    """

    name: Literal["adamw", "adam", "sgd", "lars"] = "adamw"
    learning_rate: float = 1e-3  #: after the warm-up
    weight_decay: float = 0.0
    momentum: float = 0.9  #: of "sgd" and "lars"
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup: float = 0.0  #: fraction of the steps in which the rate rises
    final_lr_scale: float = 0.0  #: last rate of the cosine, as a fraction of `learning_rate`
    clip: float | None = None  #: largest norm of the gradient; None: no limit
    #: Part of the learning-rate curve that the phase covers: phases with the spans (0, 0.5) and (0.5, 1) share one
    #: curve.
    lr_span: tuple[float, float] = (0.0, 1.0)
    #: The last weight decay, after half a cosine over the whole curve (DINO: Caron et al. 2021, section 3.2); None: it
    #: is constant.
    final_weight_decay: float | None = None
    #: Parameters with one dimension (biases, weights of norms) have no weight decay and, with "lars", the plain
    #: learning rate (SimCLR, BYOL, Barlow Twins, DINO).
    exclude_norm_and_bias: bool = False
    trust_coefficient: float = 1e-3  #: eta of "lars"
    constant_predictor_rate: bool = False  #: that of the predictor stays (SimSiam: Chen and He 2021, section 4.2)
    freeze_last_layer: float = 0.0  #: fraction of the curve, from its start, in which it is frozen (DINO, SwAV)
    head_lr_scale: float = 1.0  #: rate of the projection head, as a multiple of the others'

    @property
    def roles(self) -> list[Role]:
        """Roles whose parameters the optimizer treats separately."""
        settings: dict[Role, bool | float] = {
            "predictor": self.constant_predictor_rate,
            "last layer": self.freeze_last_layer,
            "head": self.head_lr_scale != 1,
        }
        return [role for role, setting in settings.items() if setting]


@dataclass(frozen=True)
class Update:
    """One optimizer step inside a phase: what is computed, and what it trains.

    Raises
    ------
    InputError
        `trains` is a module or parameter instead of a sequence of them, or `interval` is less than 1.
    """

    name: str  #: in metrics and checkpoints; unique in its phase
    #: A bound method of the `Method`: from a batch to the pair losses, (B,), and a dict of scalar tensors to log. It
    #: computes the whole loss, because the engine wraps it for distributed training.
    step: Step
    #: Their parameters that require a gradient are trained, all others of the method are frozen during the step;
    #: buffers (BatchNorm statistics, queues) are not.
    trains: Sequence[nn.Module | nn.Parameter]
    optimizer: Optimizer | None = None  #: default: ``Optimizer()``
    interval: int = 1  #: it runs in every step whose number is a multiple of this
    #: called after each step, for example to update a running average of the weights
    after: Callable[[], None] | None = None
    #: Gradients, and a loss, that are not finite are set to zero: for parts that the rest of the training does not
    #: need.
    may_diverge: bool = False
    #: The optimizer keeps its state over all phases with an update of this name that continues, as one optimizer for
    #: the whole training would, on the same parameters with the same `optimizer` apart from its `lr_span`.
    continues: bool = False
    #: Every step launches the same kernels with the same shapes: it reads no value, changes no Python number, and does
    #: not depend on the progress. A GPU can then replay it, see `viewsmith.networks.base.is_static`.
    static: bool = False
    network: nn.Module | None = None  #: that takes most of the time, for a training that compiles it

    def __post_init__(self) -> None:
        if not isinstance(self.trains, list | tuple):
            given = type(self.trains).__name__
            raise InputError(f"trains of update {self.name!r} is a {given}, expected a tuple: write trains=(part,)")
        if self.interval < 1:
            raise InputError(f"interval of update {self.name!r} is {self.interval}, expected at least 1")

    def parameters(self) -> list[nn.Parameter]:
        """Parameters that the update trains, without duplicates, in the order of `trains`."""
        found = [p for part in self.trains for p in ([part] if isinstance(part, nn.Parameter) else part.parameters())]
        return [p for p in dict.fromkeys(found) if p.requires_grad]

    def parameters_of(self, role: Role) -> list[nn.Parameter]:
        """Parameters of the submodules that modules in `trains` name for a role in their ``training_roles``."""
        found: list[nn.Parameter] = []
        for module in [m for part in self.trains if isinstance(part, nn.Module) for m in part.modules()]:
            roles: Any = getattr(module, "training_roles", {})
            if role in roles:
                found += module.get_submodule(roles[role]).parameters()
        return found


@dataclass(frozen=True)
class Phase:
    """Consecutive epochs with the same updates.

    `start` is called with a seed when the phase begins, but not when it is resumed. It must store its results in
    buffers or parameters of the method, so that checkpoints contain them. A phase of 0 epochs is its start alone.

    Raises
    ------
    InputError
        There is no update, or two have the same name.
    """

    name: str
    epochs: int
    updates: Sequence[Update]
    start: Callable[[int], None] | None = None

    def __post_init__(self) -> None:
        names = [update.name for update in self.updates]
        if not (names or (self.epochs == 0 and self.start)) or len(set(names)) < len(names):
            given = ", ".join(map(repr, names)) or "no updates"
            raise InputError(f"phase {self.name!r} has {given}, expected at least one update, each with its own name")


class Method(nn.Module):
    """Base class of methods: the encoder, head, framework, view maker and training schedule of one paper.

    Subclasses define the schedule. The steps of its updates are bound methods, which read like the paper's algorithm::

        def phases(self):
            train = [
                Update("encoder", self.encoder_step, trains=(self.encoder, self.head)),
                Update("channel", self.channel_step, trains=(self.channel,)),
            ]
            return [Phase("train", self.epochs, train)]
    """

    def phases(self) -> list[Phase]:
        """The training schedule: phases in order."""
        raise NotImplementedError

    def initialize(self, x: Rows, seed: int) -> None:
        """Fit what is not trained, such as fixed features, to the scaled training rows of a new model."""

    def prepare(self, x: Rows, seed: int) -> None:
        """Compute pools and neighbor graphs from the scaled training rows, before training; never saved."""

    def finish(self) -> None:
        """Check the trained parts when training ends or is stopped, before `release`.

        It is called after the last checkpoint, so that its changes do not affect a resumed training.
        """

    def describe(self) -> dict[str, Any]:
        """Facts about the results of `prepare`, by name, for the summary of the run."""
        return {}

    def release(self) -> None:
        """Delete the results of `prepare` and references to the training rows, after training."""

    def warnings(self, rows: list[dict[str, Any]]) -> list[str]:
        """Warnings after training from the metrics of all epochs: one line each, with the problem and what to do."""
        return []

    def early_warnings(self, rows: list[dict[str, Any]], progress: float) -> dict[str, str]:
        """Warnings during training, one line each, by a short name; called after each `diagnose`.

        `rows` are the metrics so far, `progress` the fraction of the training that is done; 1: what remains at the end.
        """
        return {}

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        """Representation of scaled samples, shape (B, n_components); other outputs by name."""
        raise NotImplementedError

    def represent_trained(self, x: Tensor) -> Tensor:
        """Columns of the representation that are trained, for diagnostics of the training."""
        return self.represent(x)

    @property
    def needs_pool(self) -> bool:
        """Whether `view` uses other rows, so that `prepare` must be called first."""
        return False

    @property
    def takes_coordinates(self) -> bool:
        """Whether rows may be given as their coordinates on the encoder's principal axes, which is all that it sees.

        Views are then rows, or mixtures of rows. Rows that stay on disk are read once for such a method.
        """
        return False

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """One view of each scaled sample, of the same shape."""
        raise NotImplementedError

    def view_of_training(self, x: Tensor, index: Tensor, generator: torch.Generator) -> Tensor:
        """One view of each training sample, of those that the representation learns from, for diagnostics."""
        return self.view(x, index=index, generator=generator)

    def diagnose(self, x: Tensor, generator: torch.Generator, index: Tensor | None = None) -> dict[str, float]:
        """Label-free diagnostics of this method on scaled samples, such as the noise level, by name."""
        return {}
