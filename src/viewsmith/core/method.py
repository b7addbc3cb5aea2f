"""What a method is: a list of phases, each a list of updates. The engine runs any such list and knows no method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.samples import Rows


@dataclass
class Batch:
    """The samples of one step, as every update gets them.

    Attributes
    ----------
    x : Tensor, shape (B, ...)
        Samples, scaled, on the training device.
    index : Tensor of int64, shape (B,)
        Row numbers of the samples in the training set.
    generator : torch.Generator
        Random stream of this step and update, on the device of `x`. All randomness comes from here.
    weight : Tensor, shape (B,), optional
        Weight of each sample in the training scalar ``mean(weight * loss)``; None means ones.
    epoch, step : int
        Position in the phase, from 0.
    progress : float
        Fraction of the training that is done, from 0 to less than 1: of the phase, or of all the phases that share one
        learning-rate curve (see `Optimizer`).
    """

    x: Tensor
    index: Tensor
    generator: torch.Generator
    weight: Tensor | None = None
    epoch: int = 0
    step: int = 0
    progress: float = 0.0


#: Parts of a framework that training recipes treat apart: a predictor may keep its learning rate, a last layer (the
#: prototypes) may be frozen at first. A module names its own in ``training_roles``.
Role = Literal["predictor", "last layer"]

#: What an update calls with each batch: returns the pair losses, (B,), and scalar tensors to log, by name.
Step = Callable[[Batch], tuple[Tensor, dict[str, Tensor]]]


@dataclass(frozen=True)
class Optimizer:
    """Optimizer, schedules and parameter groups of one update.

    The rate rises linearly during `warmup` (a fraction of the steps) and then follows half a cosine down to
    ``final * learning_rate``; ``schedule="constant"`` keeps it after the warm-up. `span` is the part of that curve
    that the phase covers: two phases with the spans (0, 0.5) and (0.5, 1) follow one curve together.

    Attributes
    ----------
    final_weight_decay : float or None
        The weight decay goes there from `weight_decay` by half a cosine over the whole curve (DINO: Caron et al. 2021,
        section 3.2); None: it is constant.
    exclude_norm_and_bias : bool
        Parameters of one dimension, which are biases and the weights of normalization layers, have no weight decay,
        and with "lars" the plain learning rate (SimCLR, BYOL, Barlow Twins, DINO).
    trust_coefficient : float
        eta of "lars".
    constant_predictor_rate : bool
        The predictor's rate is `learning_rate` at every step (SimSiam: Chen and He 2021, section 4.2).
    freeze_last_layer : float
        Fraction of the curve at whose start the last layer does not move (DINO, SwAV).
    """

    name: Literal["adamw", "adam", "sgd", "lars"] = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.9
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup: float = 0.0
    final: float = 0.0
    clip: float | None = None
    span: tuple[float, float] = (0.0, 1.0)
    final_weight_decay: float | None = None
    exclude_norm_and_bias: bool = False
    trust_coefficient: float = 1e-3
    constant_predictor_rate: bool = False
    freeze_last_layer: float = 0.0

    @property
    def roles(self) -> list[Role]:
        """Parts that are treated apart."""
        asked: dict[Role, bool | float] = {
            "predictor": self.constant_predictor_rate,
            "last layer": self.freeze_last_layer,
        }
        return [role for role, wanted in asked.items() if wanted]


@dataclass(frozen=True)
class Update:
    """One optimizer step inside a phase: what is computed, and what it trains.

    Attributes
    ----------
    name : str
        Used in metrics and checkpoints; unique in its phase.
    step : callable
        A bound method of the `Method`: ``step(batch)`` returns the pair losses, shape (B,), and a dict of scalar
        tensors to log. The whole loss is computed in this call, because the engine wraps it for several processes.
    trains : sequence of nn.Module or nn.Parameter
        Their parameters move, those that require a gradient. All other parameters of the method are frozen during the
        step; buffers (BatchNorm statistics, queues) change as the step changes them.
    optimizer : Optimizer, optional
        None: ``Optimizer()``.
    every : int
        The update runs on steps that are multiples of it.
    after : callable, optional
        Called after each step of the optimizer: running averages of the weights.
    may_diverge : bool
        A step whose gradients are not finite does not end the training: its gradients become zero, and its loss counts
        as zero if it is not finite. For a part that others can do without.

    Raises
    ------
    InputError
        `trains` is a module or parameter instead of a sequence of them, or `every` is less than 1.
    """

    name: str
    step: Step
    trains: Sequence[nn.Module | nn.Parameter]
    optimizer: Optimizer | None = None
    every: int = 1
    after: Callable[[], None] | None = None
    may_diverge: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.trains, list | tuple):
            given = type(self.trains).__name__
            raise InputError(f"trains of update {self.name!r} is a {given}, expected a tuple: write trains=(part,)")
        if self.every < 1:
            raise InputError(f"every of update {self.name!r} is {self.every}, expected at least 1")

    def parameters(self) -> list[nn.Parameter]:
        """Parameters that the update moves, each once, in the order of `trains`."""
        found = [p for part in self.trains for p in ([part] if isinstance(part, nn.Parameter) else part.parameters())]
        return [p for p in dict.fromkeys(found) if p.requires_grad]

    def parameters_of(self, role: Role) -> list[nn.Parameter]:
        """Parameters of what the modules of `trains` name for a role in their ``training_roles``."""
        found: list[nn.Parameter] = []
        for module in [m for part in self.trains if isinstance(part, nn.Module) for m in part.modules()]:
            roles: Any = getattr(module, "training_roles", {})
            if role in roles:
                found += module.get_submodule(roles[role]).parameters()
        return found


@dataclass(frozen=True)
class Phase:
    """A stretch of epochs with the same updates.

    `start` runs once when the phase begins (not when it is resumed): what it makes must live in buffers or parameters
    of the method, so that checkpoints hold it.

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
        if not names or len(set(names)) < len(names):
            given = ", ".join(map(repr, names)) or "no updates"
            raise InputError(f"phase {self.name!r} has {given}, expected at least one update, each with its own name")


class Method(nn.Module):
    """Encoder, head, framework, view maker and a training schedule: one paper. Subclasses say what happens when.

    The steps of its updates are bound methods, so that a method reads like its paper's algorithm::

        def phases(self):
            train = [
                Update("encoder", self.encoder_step, trains=(self.encoder, self.head)),
                Update("channel", self.channel_step, trains=(self.channel,)),
            ]
            return [Phase("train", self.epochs, train)]
    """

    def phases(self) -> list[Phase]:
        """The schedule, in order."""
        raise NotImplementedError

    def prepare(self, x: Rows, seed: int) -> None:
        """Look at the (scaled) training rows before training starts or resumes: pools and neighbor graphs.

        What it makes depends on `x` and `seed` alone and is not saved.
        """

    def finish(self) -> None:
        """Judge what was learned when training has ended, for whatever reason, while the rows are still there.

        It comes after the last checkpoint, so that a resumed training does not see what it changes.
        """

    def describe(self) -> dict[str, Any]:
        """Facts about what `prepare` made, for the run's summary: plain values by name."""
        return {}

    def release(self) -> None:
        """Let go of what `prepare` made and of the training rows, after training."""

    def warnings(self, rows: list[dict[str, Any]]) -> list[str]:
        """What a user should know after training: what went wrong and what to do, one line each.

        Parameters
        ----------
        rows : list of dict
            Metrics of all epochs, with what `diagnose` returned.
        """
        return []

    def early_warnings(self, rows: list[dict[str, Any]], progress: float) -> dict[str, str]:
        """What seems to go wrong during training, one line by a short name; asked for after each `diagnose`.

        Parameters
        ----------
        rows : list of dict
            Metrics so far, with what `diagnose` returned.
        progress : float
            Fraction of the training that is done; 1: what is still wrong at its end.
        """
        return {}

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        """Representation of scaled samples, shape (B, n_components); other outputs by name."""
        raise NotImplementedError

    @property
    def needs_pool(self) -> bool:
        """Whether `view` uses other rows, so that `prepare` must be called first."""
        return False

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """One view of each scaled sample, of the same shape."""
        raise NotImplementedError

    def diagnose(self, x: Tensor, generator: torch.Generator) -> dict[str, float]:
        """Label-free numbers that only this method has (the noise level, for instance), from scaled samples."""
        return {}
