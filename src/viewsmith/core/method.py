"""What a method is: a list of phases, each a list of updates. The engine runs any such list and knows no method."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from viewsmith.core.samples import Rows


@dataclass
class Batch:
    """One step's samples, as handed to every update's module.

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
        Share of the phase's steps that are done, from 0 to less than 1.
    """

    x: Tensor
    index: Tensor
    generator: torch.Generator
    weight: Tensor | None = None
    epoch: int = 0
    step: int = 0
    progress: float = 0.0


@dataclass(frozen=True)
class Optimizer:
    """Optimizer and learning-rate schedule of one update.

    The rate rises linearly over `warmup` (a share of the phase's steps) and falls by half a cosine
    to ``final * learning_rate``; ``schedule="constant"`` keeps it after the warm-up. `span` is the stretch of that
    schedule which the phase goes through: phases that share a training follow one curve, as (0, 0.5) and (0.5, 1).
    """

    name: Literal["adamw", "adam", "sgd"] = "adamw"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.9
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup: float = 0.0
    final: float = 0.0
    clip: float | None = None
    span: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class Update:
    """One optimizer step inside a phase.

    Attributes
    ----------
    name : str
        Used in metrics and checkpoints; unique in its phase.
    module : nn.Module
        ``module(batch)`` returns the pair losses, shape (B,), and a dict of scalars to log. The whole loss is in
        this forward, because only what happens inside it is kept in step across processes.
    parameters : iterable of Parameter, optional
        Those that move; by default all of the module's that require a gradient.
    optimizer : Optimizer, optional
    every : int
        The update runs on steps that are multiples of it.
    """

    name: str
    module: nn.Module
    parameters: Iterable[nn.Parameter] | None = None
    optimizer: Optimizer = Optimizer()
    every: int = 1


@dataclass(frozen=True)
class Phase:
    """A stretch of epochs with the same updates.

    `start` runs once when the phase is entered (not when it is resumed): what it makes must live in buffers or
    parameters of the method, so that checkpoints hold it.
    """

    name: str
    epochs: int
    updates: list[Update]
    start: Callable[[int], None] | None = None


class Method(nn.Module):
    """Encoder, head, framework, view maker and a training schedule: one paper. Subclasses say what happens when."""

    def phases(self) -> list[Phase]:
        """The schedule, in order."""
        raise NotImplementedError

    def prepare(self, x: Rows, seed: int) -> None:
        """Look at the (scaled) training rows before training or resuming: pools and neighbor graphs.

        What it makes is a function of `x` and `seed` alone and is not saved.
        """

    def release(self) -> None:
        """Let go of what `prepare` made and of the training rows, after training."""

    def warnings(self) -> list[str]:
        """What went otherwise than a user would expect, in plain words, one line each; asked for after training."""
        return []

    def early_warnings(self, rows: list[dict[str, Any]], progress: float) -> dict[str, str]:
        """What seems to go wrong while it trains, in plain words by a short name; asked for after each diagnosis.

        Parameters
        ----------
        rows : list of dict
            Metrics so far, with what `diagnose` found.
        progress : float
            Share of the training that is done; 1: what holds at its end.
        """
        return {}

    def represent(self, x: Tensor, output: str = "representation") -> Tensor:
        """Representation of scaled samples, shape (B, n_components); other outputs by name."""
        raise NotImplementedError

    @property
    def needs_pool(self) -> bool:
        """Whether `view` takes something from other rows, so that `prepare` must be called first."""
        return False

    def view(self, x: Tensor, *, index: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """One view of each scaled sample, of the same shape."""
        raise NotImplementedError

    def diagnose(self, x: Tensor, generator: torch.Generator) -> dict[str, float]:
        """Label-free numbers of this method alone (the noise level, for instance), from scaled samples."""
        return {}
