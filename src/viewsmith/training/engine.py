"""The engine: runs the phases and updates of any method, in one or several processes; stops and resumes at any step."""

import contextlib
import math
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from viewsmith.core import distributed
from viewsmith.core.distributed import OutOfTime, check_time, time_limit, together
from viewsmith.core.errors import InputError, TrainingError
from viewsmith.core.rows import TRAINING, return_blocks, return_freed_memory
from viewsmith.core.samples import Rows, batches
from viewsmith.core.schedule import Batch, Method, Phase, Update
from viewsmith.core.tensors import derive_seed, global_streams, load_weights, on_host
from viewsmith.training import updates
from viewsmith.training.run import CheckpointFolder
from viewsmith.training.updates import Compiled, Passes, ReplayedPasses

Status = Literal["finished", "interrupted", "time limit"]


class Callback:
    """Base class of callbacks, with hooks that the engine calls during training; each hook is optional."""

    def start(self, trainer: "Trainer") -> None:
        """Called before the first step, also of a resumed training."""

    def step(self, trainer: "Trainer") -> None:
        """Called after every step; must be fast and must not wait for the device."""

    def epoch(self, trainer: "Trainer", row: dict[str, Any]) -> None:
        """Called after every epoch with the row of metrics, to which it may add entries."""

    def end(self, trainer: "Trainer", status: Status) -> None:
        """Called after the last step, whether training is finished or was stopped."""

    def fitted(self, model: Any, rows: Any) -> None:
        """Called by an estimator after its training, in the first process, with itself and the rows of `fit`."""

    def close(self) -> None:
        """Called by an estimator when `fit` is over, also by an exception."""

    def state(self) -> dict[str, Any]:
        """State to save in checkpoints, as plain data."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""


#: Seconds, about, after which several processes ask each other whether to stop.
AGREE = 1.0
CPU = torch.device("cpu")


@dataclass(kw_only=True, eq=False, repr=False)
class Trainer:
    """Trains a method on scaled rows, in memory or on disk.

    Attributes
    ----------
    phase_index, epoch, step : int
        Position: number of the phase, epoch in the phase and step in the epoch, each from 0.
    steps : int
        Steps of all phases so far.
    x : Tensor or Samples, n rows
        The rows on the device; set by `fit`, as the next two.
    local_batch, steps_per_epoch : int
        Samples per step in this process, and steps in an epoch.
    loss : float
        Mean loss of the last complete epoch, of the first update; NaN before.
    """

    method: Method = field(kw_only=False)
    seed: int = 0  #: from which all random streams are derived; see `viewsmith.core.tensors`
    batch_size: int = 256  #: samples per step over all processes; at most the number of rows is used
    device: torch.device = CPU  #: or its name
    precision: Literal["32", "bf16"] = "32"  #: "bf16": forward passes use bfloat16 autocast
    #: On a GPU, in one process: steps that launch the same kernels every time (`Update.static`) are replayed as one
    #: CUDA graph.
    replay: bool = True
    #: The network of each update (`Update.network`) is compiled by `torch.compile`, which takes half a minute.
    compile: bool = False
    callbacks: Sequence[Callback] = ()
    #: Stop after this time, including `Method.prepare` and the time before a resume, but take at least one step, unless
    #: the preparation alone takes longer.
    minutes: float | None = None
    spent: float = 0.0  #: seconds of `minutes` that are over when `fit` is called
    #: Where the state is saved: after some time, after each phase, and when training stops. On a CPU, with the same
    #: number of threads, a resumed training equals an uninterrupted one bit for bit.
    checkpoint: CheckpointFolder | None = None
    checkpoint_every: float = 30.0  #: seconds from one of these checkpoints to the next
    #: On SIGINT or SIGTERM, finish the step, save the state and return, instead of raising. Before the first step, when
    #: there is nothing to save, it raises KeyboardInterrupt. A signal that the process already ignores stays ignored,
    #: such as SIGINT in background jobs of a shell.
    interruptible: bool = False
    phases: Sequence[Phase] = ()  #: the schedule to run; empty: ``method.phases()``
    settings: Mapping[str, Any] = field(default_factory=dict)  #: plain values that describe the training, for loggers

    def __post_init__(self) -> None:
        self.device, self.callbacks = torch.device(self.device), list(self.callbacks)
        self.phases = list(self.phases) or self.method.phases()
        self.prepared = False
        self.phase_index = self.epoch = self.step = self.steps = 0
        self.seconds = 0.0
        self.loss = float("nan")
        updates.check_continued(self.phases)
        if self.compile and not any(update.network for phase in self.phases for update in phase.updates):
            raise InputError(
                f"compile is on, and {type(self.method).__name__} names no network to compile (Update.network): leave "
                "compile out"
            )
        self.running: list[updates.RunningUpdate] = []
        self._kept: dict[str, Tensor] = {}  # states of optimizers that continue in a later phase
        self._stop = False
        self._saved_at: int | None = None  # step of the last checkpoint

    @property
    def phase(self) -> Phase:
        return self.phases[min(self.phase_index, len(self.phases) - 1)]

    @property
    def epochs(self) -> int:
        """Epochs of all phases."""
        return sum(phase.epochs for phase in self.phases)

    @property
    def epochs_done(self) -> int:
        return sum(phase.epochs for phase in self.phases[: self.phase_index]) + self.epoch

    def stop(self) -> None:
        """End the training after this step, or after the epoch if it is called there; its status is "interrupted"."""
        self._stop = True

    def fit(self, x: Rows, *, resume: bool = False) -> Status:
        """Train the method, and return why training ended.

        Parameters
        ----------
        x : Tensor, shape (n, ...), or Samples
            Scaled rows, or rows that are scaled batch by batch.
        resume : bool
            Start from the last checkpoint, if there is one. If the schedule has one phase, it may have more epochs than
            before: training continues with the learning rate and the progress that a training of this length has there.

        Returns
        -------
        {"finished", "interrupted", "time limit"}

        Raises
        ------
        TrainingError
            A step does not return pair losses and values to log, or a loss is not finite (raised in its step on a CPU,
            at the end of the epoch on a GPU). A state with weights that are not finite is never saved.
        InputError
            The checkpoint is damaged, or was written for another number of rows; or an update trains no parameter.
        """
        self.method.to(self.device)
        if distributed.is_distributed() and self.device.type == "cuda":
            updates.synchronize_batch_norm(self.method)
        self.x: Rows = x.to(self.device)
        world = distributed.world_size()
        self.local_batch = max(1, min(self.batch_size, len(x)) // world)
        self.steps_per_epoch = max(1, len(x) // (self.local_batch * world))
        self._started = self._saved = time.monotonic()
        self._generator = torch.Generator(self.device)
        seed = derive_seed(self.seed, "global")
        with global_streams(seed, self.device), self._signals(), distributed.equal_batches():
            if not self._prepare():
                if resume:
                    self._restore()
                self.method.eval()
                return "time limit"
            return_blocks(TRAINING)
            return_freed_memory()
            restored = self._restore() if resume else None
            for callback in self.callbacks:
                callback.start(self)
            status = self._run(restored)
            for run in self.running:
                updates.check_weights(run, self.steps)
            distributed.broadcast_module(self.method)  # each has other statistics of BatchNorm on CPUs
            if self.checkpoint and self._saved_at != self.steps:
                self._save()
            self.method.finish()
            for callback in self.callbacks:
                callback.end(self, status)
        self.method.eval()
        return status

    def _prepare(self) -> bool:
        """Prepare the method; whether it was done within the time limit."""
        try:
            with time_limit(self.seconds_left(), self.device):
                self.method.prepare(self.x, self.seed)
            self.prepared = True
        except OutOfTime:
            self.method.release()
        return self.prepared

    def _run(self, restored: dict[str, Tensor] | None) -> Status:
        """Run the phases, the first one from the tensors of a checkpoint if there is one."""
        while self.phase_index < len(self.phases):
            phase = self.phase
            if self.epoch == 0 and self.step == 0 and phase.start is not None:
                phase.start(derive_seed(self.seed, "phase", self.phase_index))
            self.running = [updates.prepare_update(update, self.method) for update in phase.updates]
            for run, update in zip(self.running, phase.updates, strict=True):
                run.passes = self._passes_of(run, update)
                if restored is not None:
                    run.restore(restored, self.device)
                elif run.continues:
                    run.restore(self._kept, self.device)
            restored = None
            self._asked, self._ask_at = (self.steps, time.monotonic()), self.steps
            self.method.train()
            while self.epoch < phase.epochs:
                stopped = self._one_epoch(phase)
                if stopped:
                    return stopped
            self.phase_index, self.epoch = self.phase_index + 1, 0
            for run in self.running:
                self._kept |= updates.continued_state(run, self.phases[self.phase_index :])
            self._save_if_due(phase_ended=self.phase_index < len(self.phases))
        return "finished"

    def _one_epoch(self, phase: Phase) -> Status | None:
        order = self._order()
        rank, size = distributed.rank(), self.local_batch
        width = size * distributed.world_size()
        total = phase.epochs * self.steps_per_epoch
        starts = range(self.step * width + rank * size, self.steps_per_epoch * width, width)
        indices = [order[start : start + size] for start in starts]
        for index, samples in zip(indices, batches(self.x, indices), strict=True):
            done = self.epoch * self.steps_per_epoch + self.step
            for number, run in enumerate(self.running):
                if done % run.interval:
                    continue
                self._generator.manual_seed(derive_seed(self.seed, "step", self.phase_index, done, number, rank))
                start, end = run.spec.lr_span
                progress = start + done / total * (end - start)
                batch = Batch(samples, index, self._generator, epoch=self.epoch, step=done, progress=progress)
                with updates.frozen(run.frozen_parameters):
                    self._update(run, batch)
            self.step += 1
            self.steps += 1
            for callback in self.callbacks:
                callback.step(self)
            stopped = self._stopped()
            if self.step == self.steps_per_epoch:
                self._finish_epoch(phase)
                stopped = stopped or self._stopped()  # a callback may have called `stop`
            if stopped and self.epochs_done < self.epochs:
                return stopped
            self._save_if_due()
        return None

    def _passes_of(self, run: updates.RunningUpdate, update: Update) -> Passes:
        """Forward and backward pass of an update; on a GPU replayed, if every step is the same."""
        compiled = Compiled(update.network) if self.compile and update.network is not None else contextlib.nullcontext
        replayed = update.static and self.replay and self.device.type == "cuda" and not distributed.is_distributed()
        # Half-precision copies of weights are not kept for later uses in a recorded step.
        autocast = torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.precision == "bf16", cache_enabled=not replayed
        )

        def passes(batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
            with compiled(), autocast:
                found = run.step(batch)
            updates.check_result(found, run, batch, self.method)
            losses, logs = found
            loss = (losses if batch.weight is None else batch.weight * losses).mean()
            run.clear_gradients()
            loss.backward()
            return loss.detach(), {name: value.detach() for name, value in logs.items()}

        return ReplayedPasses(passes, run.parameters) if replayed else passes

    def _update(self, run: updates.RunningUpdate, batch: Batch) -> None:
        updates.set_rates(run.optimizer, run.spec, batch.progress)
        loss, logs = run.passes(batch)
        if run.may_diverge:
            loss = run.drop_divergence(loss)
        if on_host(loss) and not math.isfinite(loss):
            raise TrainingError(self._not_finite(run, float(loss), logs, f"step {self.steps + 1}, "))
        updates.drop_frozen_gradients(run.optimizer, batch.progress)
        if run.spec.clip is not None:
            nn.utils.clip_grad_norm_(run.parameters, run.spec.clip)
        run.optimizer.step()
        if run.after is not None:
            run.after()
        run.add(loss, logs)

    def _finish_epoch(self, phase: Phase) -> None:
        row: dict[str, Any] = {"phase": phase.name, "epoch": self.epochs_done + 1, "step": self.steps}
        for run in self.running:
            if run.loss is None:
                continue
            loss = float(run.loss) / run.count
            if not math.isfinite(loss):  # on a GPU, where a step cannot read its loss without waiting
                raise TrainingError(self._not_finite(run, loss, run.logs))
            row.setdefault("loss", loss)
            if len(self.running) > 1:
                row[f"loss/{run.name}"] = loss
            row.update({name: float(value) / run.count for name, value in run.logs.items()})
            run.clear()
        self.loss = row.get("loss", float("nan"))
        row["learning_rate"] = self.running[0].optimizer.param_groups[0]["lr"]
        row["seconds"] = round(self.elapsed, 3)
        for callback in self.callbacks:
            callback.epoch(self, row)
        self.epoch, self.step = self.epoch + 1, 0

    @property
    def elapsed(self) -> float:
        """Seconds of training so far, including the time before a resume."""
        return self.seconds + time.monotonic() - self._started

    def mean_loss(self) -> float:
        """Mean loss of the current epoch so far; waits for the device."""
        run = self.running[0] if self.running else None
        return self.loss if run is None or run.loss is None else float(run.loss) / run.count

    def _not_finite(self, run: updates.RunningUpdate, loss: float, logs: Mapping[str, Tensor], step: str = "") -> str:
        terms = ", ".join(name for name, value in logs.items() if not math.isfinite(value.detach()))
        return (
            f"the loss of update {run.name!r} became {loss} in {step}epoch {self.epochs_done + 1} of phase "
            f"{self.phase.name!r}{terms and f' (not finite: {terms})'}: lower the learning rate "
            f"({run.spec.learning_rate}) or check the data for extreme values"
        )

    def _order(self) -> Tensor:
        """Order of the rows in this epoch, int64 (n,): a permutation that depends on seed, phase and epoch."""
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "order", self.phase_index, self.epoch))
        return torch.randperm(len(self.x), generator=generator).to(self.device)

    def seconds_left(self) -> float | None:
        """Seconds until the time limit; None without one."""
        return None if self.minutes is None else self.minutes * 60 - self.spent - self.elapsed

    def _stopped(self) -> Status | None:
        if self.minutes is None and (self.step == self.steps_per_epoch or not distributed.is_distributed()):
            with together():
                check_time()  # a short training that prepares another one
        late = (left := self.seconds_left()) is not None and left < 0
        code = 2 if self._stop else int(late)
        if distributed.is_distributed():
            code = self._agreed(code)
        reasons: list[Status | None] = [None, "time limit", "interrupted"]
        return reasons[code]

    def _agreed(self, code: int) -> int:
        """The largest code of all processes, which must stop at the same step; they ask each other about once in
        `AGREE` seconds, and have 0 in between."""
        if self.steps < self._ask_at:
            return 0
        now = time.monotonic()
        steps = max(1, int(AGREE * (self.steps - self._asked[0]) / max(now - self._asked[1], 1e-6)))
        self._asked, self._ask_at = (self.steps, now), self.steps - distributed.max_over_processes(-steps, self.device)
        return distributed.max_over_processes(code, self.device)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        if not self.interruptible or threading.current_thread() is not threading.main_thread():
            yield
            return

        def handler(number: int, frame: Any) -> None:
            if self._stop or not self.steps:
                raise KeyboardInterrupt
            self._stop = True

        # None is a handler that was not installed from Python. It could not be restored, so it is not replaced.
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        before = {number: old for number, old in before.items() if old not in (signal.SIG_IGN, None)}
        for number in before:
            signal.signal(number, handler)
        try:
            yield
        finally:
            for number, old in before.items():
                signal.signal(number, old)

    def _save_if_due(self, phase_ended: bool = False) -> None:
        if self.checkpoint and (phase_ended or time.monotonic() - self._saved >= self.checkpoint_every):
            self._save()

    def _save(self) -> None:
        for run in self.running:
            updates.check_weights(run, self.steps)  # the checkpoint before this one is kept
        self._saved, self._saved_at = time.monotonic(), self.steps
        if distributed.rank() != 0:
            return
        tensors = {f"method/{name}": value for name, value in self.method.state_dict().items()}
        tensors["random/cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["random/cuda"] = torch.cuda.get_rng_state(self.device)
        tensors |= self._kept if self.phase_index < len(self.phases) else {}
        for run in self.running:
            if self.phase_index == len(self.phases):  # a single phase may become longer
                tensors |= run.optimizer_state()
            elif self.epoch or self.step:
                tensors |= run.state()
        record = {
            "phase": self.phase_index,
            "epoch": self.epoch,
            "step": self.step,
            "steps": self.steps,
            "seconds": self.elapsed,
            "rows": len(self.x),
            "callbacks": {name: callback.state() for name, callback in self._named_callbacks()},
        }
        assert self.checkpoint is not None
        self.checkpoint.save(tensors, record)

    def _restore(self) -> dict[str, Tensor] | None:
        loaded = self.checkpoint.load() if self.checkpoint else None
        if loaded is None:
            return None
        tensors, record = loaded
        if record["rows"] != len(self.x):
            raise InputError(
                f"the checkpoint is of a training on {record['rows']} rows, but {len(self.x)} rows are given: "
                "resume with the same data, or train in another folder"
            )
        prefix = "method/"
        weights = {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}
        load_weights(self.method, weights, "the checkpoint")
        torch.set_rng_state(tensors["random/cpu"])
        if "random/cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random/cuda"], self.device)
        self.phase_index, self.epoch, self.step = record["phase"], record["epoch"], record["step"]
        self.steps, self.seconds = record["steps"], record["seconds"]
        if self.phase_index == len(self.phases) == 1 and self.steps < self.phase.epochs * self.steps_per_epoch:
            # It has more epochs now, so it is at this epoch of a longer training.
            self.phase_index, self.epoch, self.step = 0, self.steps // self.steps_per_epoch, 0
        self._saved_at = self.steps
        for name, callback in self._named_callbacks():
            callback.restore(record["callbacks"].get(name, {}))
        every = (update for phase in self.phases for update in phase.updates)
        continued = tuple(f"optimizer/{update.name}/" for update in every if update.continues)
        self._kept = {path: value for path, value in tensors.items() if path.startswith(continued)}
        return tensors

    def _named_callbacks(self) -> Iterator[tuple[str, Callback]]:
        """Callbacks by class; the second of a class is CLASS-2."""
        count: Counter[str] = Counter()
        for callback in self.callbacks:
            name = type(callback).__name__
            count[name] += 1
            yield name if count[name] == 1 else f"{name}-{count[name]}", callback
