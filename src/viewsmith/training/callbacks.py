"""Callbacks: progress on the terminal, metrics on disk, label-free diagnostics, warnings, memory."""

from __future__ import annotations

import math
import os
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from viewsmith.core.distributed import rank
from viewsmith.core.errors import TrainingError
from viewsmith.core.memory import resident_bytes, return_freed_memory
from viewsmith.core.random import stream
from viewsmith.losses.diagnostics import alignment, effective_rank, feature_std, uniformity
from viewsmith.training.engine import Callback, Status, Trainer
from viewsmith.training.run import json_line

if TYPE_CHECKING:
    from rich.progress import Progress


class ProgressBar(Callback):
    """A bar on stderr with loss, rate and time left; when stderr is no terminal, a line every `every` seconds."""

    def __init__(self, every: float = 30.0) -> None:
        self.every = every
        self._bar: Progress | None = None
        self._shown = 0.0

    def start(self, trainer: Trainer) -> None:
        self._first, self._born = trainer.steps, time.monotonic()
        self._shown = self._born
        if not sys.stderr.isatty() or rank() != 0:
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%  loss {task.fields[loss]:.4f}  {task.fields[rate]:,.0f} samples/s"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        total = trainer.epochs * trainer.steps_per_epoch
        self._task = self._bar.add_task(trainer.phase.name, total=total, completed=trainer.steps, loss=math.nan, rate=0)
        self._bar.start()
        for name, facts in trainer.method.describe().items():
            said = ", ".join(f"{key} {value}" for key, value in facts.items()) if isinstance(facts, dict) else facts
            self._bar.console.print(f"{name.replace('_', ' ')}: {said}", highlight=False)

    def step(self, trainer: Trainer) -> None:
        if time.monotonic() - self._shown < (self.every if self._bar is None else 0.25):
            return
        if self._bar is not None:
            self._show(trainer)
        elif rank() == 0:
            self._shown = time.monotonic()
            print(self._line(trainer), file=sys.stderr, flush=True)

    def _line(self, trainer: Trainer) -> str:
        """Phase, epoch and time left, at the rate of this session."""
        total, epoch = trainer.epochs * trainer.steps_per_epoch, min(trainer.epochs_done + 1, trainer.epochs)
        pace = (time.monotonic() - self._born) / max(1, trainer.steps - self._first)
        left = math.ceil(pace * max(0, total - trainer.steps) / 60)
        return f"{trainer.phase.name}: epoch {epoch} of {trainer.epochs}, about {left} min left"

    def _show(self, trainer: Trainer) -> None:
        assert self._bar is not None
        self._shown = time.monotonic()
        rate = (trainer.steps - self._first) * trainer.local_batch / max(self._shown - self._born, 1e-9)
        self._bar.update(
            self._task,
            completed=trainer.epochs_done * trainer.steps_per_epoch + trainer.step,
            description=trainer.phase.name,
            loss=trainer.mean_loss(),
            rate=rate,
        )

    def end(self, trainer: Trainer, status: Status) -> None:
        if self._bar is not None:
            self._show(trainer)
            self._bar.stop()
            self._bar = None


class History(Callback):
    """Keeps the metric rows and, with a path, appends each to a file of JSON lines at once."""

    def __init__(self, path: Path | None = None) -> None:
        self.rows: list[dict[str, Any]] = []
        self.path = path if rank() == 0 else None

    def start(self, trainer: Trainer) -> None:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Rows written after the checkpoint that training resumes from belong to epochs that run again.
            self.path.write_text("".join(json_line(row) for row in self.rows), encoding="utf-8")

    def epoch(self, trainer: Trainer, row: dict[str, Any]) -> None:
        self.rows.append(row)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json_line(row))
                file.flush()
                os.fsync(file.fileno())

    def state(self) -> dict[str, Any]:
        return {"rows": self.rows}

    def restore(self, state: dict[str, Any]) -> None:
        self.rows = list(state.get("rows", []))


class GiveBackMemory(Callback):
    """Gives freed memory back to the system when the process has grown.

    Where the sizes of tensors vary from step to step, as the number of different crops in CRL-TAC does, what one step
    frees seldom suits the next one, and the process grows with the number of steps.

    Parameters
    ----------
    growth : int
        Bytes by which the process has grown since it last gave memory back.
    every : int
        Steps between two looks.
    """

    def __init__(self, growth: int = 2**27, every: int = 8) -> None:
        self.growth, self.every = growth, every
        self._least = 0

    def start(self, trainer: Trainer) -> None:
        self._least = resident_bytes() or 0

    def step(self, trainer: Trainer) -> None:
        if trainer.steps % self.every or (resident_bytes() or 0) < self._least + self.growth:
            return
        return_freed_memory()
        self._least = resident_bytes() or 0


class Diagnostics(Callback):
    """Label-free numbers of the representation of a fixed sample of rows, about `points` times in a training.

    Feature standard deviation, effective rank, uniformity, alignment of each row with a view of it, and what
    `Method.diagnose` returns. Computed with the current weights and BatchNorm statistics; training is not changed.
    """

    def __init__(self, points: int = 12, rows: int = 512) -> None:
        self.points, self.rows = points, rows

    def epoch(self, trainer: Trainer, row: dict[str, Any]) -> None:
        every = max(1, trainer.epochs // self.points)
        number = trainer.epochs_done + 1
        if number % every and number != trainer.epochs:
            return
        generator = stream(trainer.seed, "diagnostics", device=trainer.device)
        order = torch.randperm(len(trainer.x), generator=stream(trainer.seed, "diagnostics", "rows"))
        index = order[: self.rows].to(trainer.device)
        trainer.method.eval()
        row.update(representation_numbers(trainer, index, generator))
        trainer.method.train()


@torch.no_grad()
def representation_numbers(trainer: Trainer, index: Tensor, generator: torch.Generator) -> dict[str, float]:
    """Diagnostics of the rows at `index`; see `Diagnostics`."""
    method, x = trainer.method, trainer.x[index]
    h = method.represent(x).float()
    if not torch.isfinite(h).all():
        raise TrainingError(
            f"the representation is no longer finite after {trainer.steps} steps: lower the learning rate "
            "or check the data for extreme values"
        )
    h_view = method.represent(method.view(x, index=index, generator=generator)).float()
    return {
        "feature_std": float(feature_std(h)),
        "effective_rank": float(effective_rank(h)),
        "uniformity": float(uniformity(h)),
        "alignment": float(alignment(h, h_view)),
        **method.diagnose(x, generator),
    }


class EarlyWarnings(Callback):
    """Warns of each thing that `Method.early_warnings` finds once; at the end withdraws what is no longer true.

    Place it after `Diagnostics` and `History` among the callbacks. What is wrong at the end is reported elsewhere
    (`collapse_warnings`, `Method.warnings`).
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self.named: dict[str, str] = {}

    def epoch(self, trainer: Trainer, row: dict[str, Any]) -> None:
        number = trainer.epochs_done + 1
        if "effective_rank" not in row or number == trainer.epochs:
            return
        found = trainer.method.early_warnings(self.history.rows, number / trainer.epochs)
        for name, line in found.items():
            if name not in self.named:
                self.named[name] = f"epoch {number} of {trainer.epochs}: {line}"
                self._say(self.named[name])

    def end(self, trainer: Trainer, status: Status) -> None:
        still = trainer.method.early_warnings(self.history.rows, 1.0)
        for name, line in self.named.items():
            if name not in still:
                self._say(f"no longer true when training ended: {line}")

    def state(self) -> dict[str, Any]:
        return {"named": self.named}

    def restore(self, state: dict[str, Any]) -> None:
        self.named = dict(state.get("named", {}))

    @staticmethod
    def _say(line: str) -> None:
        if rank() == 0:
            warnings.warn(line, UserWarning, stacklevel=3)


def collapse_warnings(rows: list[dict[str, Any]], n_samples: int = 512) -> list[str]:
    """What is wrong in the last diagnostics, of `n_samples` training samples; each line is also issued as a warning.

    Only what holds for any method; `Method.warnings` returns the rest.
    """
    last = next((row for row in reversed(rows) if "effective_rank" in row), None)
    found = []
    # n samples span n - 1 dimensions at most.
    if last is not None and last["effective_rank"] < min(2, (n_samples - 1) / 2):
        found.append(
            f"the representation has collapsed: its effective rank is {last['effective_rank']:.1f}; "
            "if the rows are not all alike, use stronger views, a larger batch or a lower learning rate"
        )
    for line in found:
        warnings.warn(line, UserWarning, stacklevel=2)
    return found
