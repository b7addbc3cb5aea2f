"""Callbacks: progress bar, metrics file, label-free diagnostics, early warnings, memory; loggers
(TensorBoard, MLflow, Weights & Biases)."""

import importlib
import io
import math
import os
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from viewsmith.core.distributed import rank
from viewsmith.core.errors import InputError, MissingExtra, TrainingError, error_text, one_line, pluralize, warn
from viewsmith.core.files import write_text_atomic
from viewsmith.core.progress import NotebookBar, in_notebook
from viewsmith.core.rows import resident_bytes, return_freed_memory
from viewsmith.core.tensors import stream
from viewsmith.losses.diagnostics import alignment, effective_rank, feature_std, told_apart, uniformity, view_distance
from viewsmith.training.engine import Callback, Status, Trainer
from viewsmith.training.run import json_line

if TYPE_CHECKING:
    from rich.progress import Progress


SMALL = 14  # pixels of a side of images whose views are compared with samples
FEWEST_TOLD_APART = 50  # samples
LARGEST = 2**25  # values of the samples of which there are diagnostics: 170 photographs of 256 x 256 pixels


class ProgressBar(Callback):
    """A progress bar on stderr or in a notebook; elsewhere a line of text on stderr every `interval` seconds."""

    def __init__(self, interval: float = 30.0) -> None:
        self.interval = interval
        self._bar: Progress | None = None
        self._below: NotebookBar | None = None
        self._updated = 0.0

    def start(self, trainer: Trainer) -> None:
        self._first_step, self._started = trainer.steps, time.monotonic()
        self._updated = self._started
        if rank() == 0 and in_notebook():
            self._below = NotebookBar()
            return
        if not sys.stderr.isatty() or rank() != 0:
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%  {task.fields[state]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[limit]}"),
            console=Console(stderr=True),
        )
        total = trainer.epochs * trainer.steps_per_epoch
        self._task = self._bar.add_task(trainer.phase.name, total=total, completed=trainer.steps, state="", limit="")
        self._bar.start()
        for name, summary in trainer.method.describe().items():
            text = ", ".join(f"{k} {v}" for k, v in summary.items()) if isinstance(summary, dict) else summary
            self._bar.console.print(f"{name.replace('_', ' ')}: {text}", highlight=False)

    def step(self, trainer: Trainer) -> None:
        if time.monotonic() - self._updated < (0.25 if self._bar or self._below else self.interval):
            return
        if self._below is not None:
            self._update_below(trainer, self._line(trainer))
        elif self._bar is not None:
            self._update_bar(trainer)
        elif rank() == 0:
            self._updated = time.monotonic()
            print(self._line(trainer), file=sys.stderr, flush=True)

    def _line(self, trainer: Trainer) -> str:
        """Phase, epoch and time left, at the mean speed since training was started or resumed."""
        total, epoch = trainer.epochs * trainer.steps_per_epoch, min(trainer.epochs_done + 1, trainer.epochs)
        seconds_per_step = (time.monotonic() - self._started) / max(1, trainer.steps - self._first_step)
        seconds = seconds_per_step * max(0, total - trainer.steps)
        if (limit := trainer.seconds_left()) is not None and limit < seconds:
            return f"{trainer.phase.name}: epoch {epoch} of {trainer.epochs}, the time limit in {_minutes(limit)}"
        return f"{trainer.phase.name}: epoch {epoch} of {trainer.epochs}, about {_minutes(seconds)} left"

    def _update_below(self, trainer: Trainer, text: str) -> None:
        assert self._below is not None
        self._updated = time.monotonic()
        total = trainer.epochs * trainer.steps_per_epoch
        self._below.update(f"{text}, loss {trainer.mean_loss():.4f}", trainer.steps, total)

    def _update_bar(self, trainer: Trainer) -> None:
        assert self._bar is not None
        self._updated = time.monotonic()
        rate = (trainer.steps - self._first_step) * trainer.local_batch / max(self._updated - self._started, 1e-9)
        self._bar.update(
            self._task,
            completed=trainer.steps,
            description=trainer.phase.name,
            state=f"loss {trainer.mean_loss():.4f}  {rate:,.0f} samples/s",
            limit="" if (left := trainer.seconds_left()) is None else f"time limit in {_minutes(left)}",
        )

    def end(self, trainer: Trainer, status: Status) -> None:
        if self._below is not None:
            self._update_below(trainer, f"{status} after {trainer.elapsed:.0f} s")
        if self._bar is not None:
            self._update_bar(trainer)
            self._bar.stop()
            self._bar = None


def _minutes(seconds: float) -> str:
    return f"{math.ceil(max(0.0, seconds) / 60)} min"


class History(Callback):
    """Stores the rows of metrics and, with a path, appends each row to a file of JSON lines immediately."""

    def __init__(self, path: Path | None = None) -> None:
        self.rows: list[dict[str, Any]] = []
        self.path = path if rank() == 0 else None

    def start(self, trainer: Trainer) -> None:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Remove rows that were written after the checkpoint: their epochs are run again.
            write_text_atomic(self.path, "".join(json_line(row) for row in self.rows))

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


class FreeMemory(Callback):
    """Gives freed memory back when the process has grown: tensors of other sizes (in CRL-TAC) cannot use it again."""

    def __init__(self, growth: int = 2**27, interval: int = 8) -> None:
        self.growth, self.interval = growth, interval
        self._least = 0

    def start(self, trainer: Trainer) -> None:
        self._least = resident_bytes() or 0

    def step(self, trainer: Trainer) -> None:
        if trainer.steps % self.interval or (resident_bytes() or 0) < self._least + self.growth:
            return
        return_freed_memory()
        self._least = resident_bytes() or 0


class Diagnostics(Callback):
    """Adds label-free diagnostics of at most `rows` fixed rows (fewer of large samples, which would take more memory
    than a step) and their views to metrics, about `points` times."""

    def __init__(self, points: int = 12, rows: int = 512) -> None:
        self.points, self.rows = points, rows

    def epoch(self, trainer: Trainer, row: dict[str, Any]) -> None:
        interval = max(1, trainer.epochs // self.points)
        number = trainer.epochs_done + 1
        if number % interval and number != trainer.epochs:
            return
        generator = stream(trainer.seed, "diagnostics", device=trainer.device)
        order = torch.randperm(len(trainer.x), generator=stream(trainer.seed, "diagnostics", "rows"))
        order = order[: self.rows].to(trainer.device)
        index = order[: max(FEWEST_TOLD_APART, LARGEST // trainer.x[order[:1]].numel())]
        trainer.method.eval()
        row.update(representation_numbers(trainer, index, generator))
        trainer.method.train()


@torch.no_grad()
def representation_numbers(trainer: Trainer, index: Tensor, generator: torch.Generator) -> dict[str, float]:
    """Diagnostics of the rows at `index`; see `Diagnostics`."""
    method, x = trainer.method, trainer.x[index]
    h = method.represent_trained(x).float()
    if not torch.isfinite(h).all():
        raise TrainingError(
            f"the representation is no longer finite after {pluralize(trainer.steps, 'step')}: lower the learning rate "
            "or check the data for extreme values"
        )
    view = method.view_of_training(x, index, generator)
    h_view = method.represent_trained(view).float()
    return {
        "feature_std": float(feature_std(h)),
        "effective_rank": float(effective_rank(h)),
        "uniformity": float(uniformity(h)),
        "alignment": float(alignment(h, h_view)),
        **view_numbers(x, view),
        **method.diagnose(x, generator, index),
    }


def view_numbers(x: Tensor, view: Tensor, rows: int = 256) -> dict[str, float]:
    """How far views are from the data, for views of the shape of their samples; see `viewsmith.losses.diagnostics`."""
    if view.shape != x.shape or len(x) < FEWEST_TOLD_APART:
        return {}
    flat = [(F.adaptive_avg_pool2d(part, SMALL) if part.ndim == 4 else part).flatten(1) for part in (x, view)]
    a, b = (part[:rows].float().nan_to_num() for part in flat)  # not known: the scaled mean
    return {"view_distance": float(view_distance(a, b)), "told_apart": float(told_apart(a, b))}


class EarlyWarnings(Callback):
    """Issues each of `Method.early_warnings` once, after `Diagnostics` and `History`; at the end, those of the past."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.issued: dict[str, str] = {}

    def epoch(self, trainer: Trainer, row: dict[str, Any]) -> None:
        number = trainer.epochs_done + 1
        if "effective_rank" not in row or number == trainer.epochs:
            return
        found = trainer.method.early_warnings(self.history.rows, number / trainer.epochs)
        for name, line in found.items():
            if name not in self.issued:
                self.issued[name] = f"epoch {number} of {trainer.epochs}: {line}"
                self._warn(self.issued[name])

    def end(self, trainer: Trainer, status: Status) -> None:
        remaining = trainer.method.early_warnings(self.history.rows, 1.0)
        for name, line in self.issued.items():
            if name not in remaining:
                self._warn(f"no longer true when training ended: {line}")

    def state(self) -> dict[str, Any]:
        return {"issued": self.issued}

    def restore(self, state: dict[str, Any]) -> None:
        self.issued = dict(state.get("issued", {}))

    @staticmethod
    def _warn(line: str) -> None:
        if rank() == 0:
            warn(line)


def collapse_warnings(rows: list[dict[str, Any]], n_samples: int = 512) -> list[str]:
    """Signs of collapse in the last diagnostics of any method, one line each; each is also issued as a warning."""
    last = next((row for row in reversed(rows) if "effective_rank" in row), None)
    found = []
    # n samples span at most n - 1 dimensions.
    if last is not None and last["effective_rank"] < min(2, (n_samples - 1) / 2):
        found.append(
            f"the representation has collapsed: its effective rank is {last['effective_rank']:.1f}; "
            "if the rows differ from each other, use stronger views, a larger batch or a lower learning rate"
        )
    for line in found:
        warn(line)
    return found


#: Distance of views from the data (`viewsmith.losses.diagnostics.view_distance`) above which training warns.
FAR = 2.0


def left_the_data(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line if the views of the last diagnostics are far from all samples."""
    last = next((row for row in reversed(rows) if "view_distance" in row), None)
    if last is None or last["view_distance"] < FAR:
        return []
    return [
        f"the views have left the data: they are {last['view_distance']:.1f} times as far from other samples as "
        f"samples are (told apart in {last['told_apart']:.0%}); use weaker noise or less strength, and compare with "
        "--method contrastive"
    ]


#: Seconds that a training waits at its end for what is not yet logged.
PATIENCE = 30.0


class Store(Protocol):
    """Where a training is logged; its methods are called in a thread of their own."""

    id: str  # under which a resumed training continues

    def settings(self, values: Mapping[str, str]) -> None: ...
    def numbers(self, values: Mapping[str, float], step: int) -> None: ...
    def picture(self, name: str, png: bytes, step: int) -> None: ...
    def close(self, status: str) -> None: ...


class Tracker(Callback):
    """Logs a training: settings, all numbers of the metrics after each epoch, pictures at the end.

    It works in a thread of its own, so the training never waits for a server. If the store fails or does not answer,
    a warning says so once and the training continues; the metrics are in the run folder all the same.

    Parameters
    ----------
    kind : {"tensorboard", "mlflow", "wandb"}
    where : str or path, optional
        TensorBoard: the folder of the events (default: ``tensorboard`` in the run folder). MLflow: the tracking URI
        (default: MLFLOW_TRACKING_URI, or MLflow's local store). Weights & Biases: the folder of its files; without an
        account, or with WANDB_MODE=offline, it logs to files only.
    project : str
        MLflow's experiment, the project of Weights & Biases.
    run : str, optional
        Name of the run; default: that of the run folder.
    """

    def __init__(
        self,
        kind: str,
        where: str | os.PathLike[str] | None = None,
        *,
        project: str = "viewsmith",
        run: str | None = None,
    ) -> None:
        if kind not in STORES:
            raise InputError(f"the logger is {one_line(repr(kind), 60)}, expected one of {', '.join(STORES)}")
        self.kind, self.where, self.project, self.run = kind, where, project, run
        self.status, self._id, self._failure, self._said = "failed", "", "", False
        self._tasks: queue.Queue[Callable[[Store], None] | None] | None = None

    def start(self, trainer: Trainer) -> None:
        if rank() != 0:
            return
        for package in STORES[self.kind].packages:
            try:
                importlib.import_module(package)
            except ImportError as error:
                missing = "wandb" if self.kind == "wandb" else "track"
                raise MissingExtra(error.name or package, missing, f"logging to {self.kind}") from error
        folder = None if trainer.checkpoint is None else trainer.checkpoint.path.parent
        name = self.run or (folder.resolve().name if folder else "run")
        self._tasks, self._first = queue.Queue(), trainer.steps
        self._thread = threading.Thread(target=self._work, args=(folder, name), daemon=True)
        self._thread.start()
        self._put(lambda store: store.settings({key: str(value) for key, value in trainer.settings.items()}))

    def epoch(self, trainer: Trainer, row: dict[str, Any]) -> None:
        numbers = {k: float(v) for k, v in row.items() if isinstance(v, int | float) and math.isfinite(v)}
        step = int(numbers.pop("step", trainer.steps))
        self._put(lambda store: store.numbers(numbers, step))
        self._step = step
        self._say_failure()

    def end(self, trainer: Trainer, status: Status) -> None:
        self.status = status

    def fitted(self, model: Any, rows: Any) -> None:
        if self._tasks is None or self._failure:
            return
        try:
            pictures = model.pictures(rows)
        except Exception as error:  # a picture is not worth a trained model
            warn(f"no pictures for {self.kind}: {one_line(error_text(error), 160)}")
            return
        for name, png in pictures.items():
            self._put(lambda store, name=name, png=png: store.picture(name, png, self._step))  # type: ignore[misc]

    def close(self) -> None:
        if self._tasks is None:
            return
        self._put(lambda store: store.close(self.status))
        self._tasks.put(None)
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            self._failure = f"no answer in {PATIENCE:.0f} s"
        self._tasks = None
        self._say_failure()

    def state(self) -> dict[str, Any]:
        return {"id": self._id}

    def restore(self, state: dict[str, Any]) -> None:
        self._id = str(state.get("id", ""))

    def _put(self, task: Callable[[Store], None]) -> None:
        if self._tasks is not None and not self._failure:
            self._tasks.put(task)

    def _say_failure(self) -> None:
        if self._failure and not self._said:
            self._said = True
            warn(
                f"logging to {self.kind} has ended ({self._failure}); the training does not need it, and keeps its "
                "metrics"
            )

    def _work(self, folder: Path | None, name: str) -> None:
        assert self._tasks is not None
        tasks = self._tasks
        try:
            store = STORES[self.kind](self, folder, name)
            self._id = store.id
            while (task := tasks.get()) is not None:
                task(store)
        except Exception as error:  # of any library, server and network
            self._failure = one_line(error_text(error), 160)


class TensorBoard:
    """Event files in a folder."""

    packages = ("tensorboard", "torch.utils.tensorboard")

    def __init__(self, tracker: Tracker, folder: Path | None, name: str) -> None:
        from torch.utils.tensorboard import SummaryWriter

        where = tracker.where or (folder or Path(".")) / "tensorboard"
        self.id = str(where)
        self.writer: Any = SummaryWriter(str(where), purge_step=tracker._first + 1 if tracker._first else None)

    def settings(self, values: Mapping[str, str]) -> None:
        lines = [f"| {key} | {value} |" for key, value in values.items()]
        self.writer.add_text("settings", "\n".join(["| setting | value |", "|---|---|", *lines]))

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        for key, value in values.items():
            self.writer.add_scalar(key, value, step)
        self.writer.flush()

    def picture(self, name: str, png: bytes, step: int) -> None:
        from matplotlib.image import imread

        self.writer.add_image(name, imread(io.BytesIO(png))[..., :3], step, dataformats="HWC")

    def close(self, status: str) -> None:
        self.writer.close()


class MLflow:
    """A run in an experiment of MLflow."""

    packages = ("mlflow",)

    def __init__(self, tracker: Tracker, folder: Path | None, name: str) -> None:
        from mlflow.tracking import MlflowClient

        self.client: Any = MlflowClient(None if tracker.where is None else str(tracker.where))
        self.id = tracker._id
        if self.id:
            self.client.update_run(self.id, status="RUNNING")
            return
        found = self.client.get_experiment_by_name(tracker.project)
        experiment = self.client.create_experiment(tracker.project) if found is None else found.experiment_id
        self.id = self.client.create_run(experiment, run_name=name).info.run_id

    def settings(self, values: Mapping[str, str]) -> None:
        for key, value in values.items():
            self.client.log_param(self.id, key, value[:500])

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self.client.log_batch(self.id, [Metric(key, value, now, step) for key, value in values.items()])

    def picture(self, name: str, png: bytes, step: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"{name}.png")
            path.write_bytes(png)
            self.client.log_artifact(self.id, str(path), "pictures")

    def close(self, status: str) -> None:
        self.client.set_terminated(self.id, {"finished": "FINISHED", "failed": "FAILED"}.get(status, "KILLED"))


class WandB:
    """A run of Weights & Biases."""

    packages = ("wandb",)

    def __init__(self, tracker: Tracker, folder: Path | None, name: str) -> None:
        import wandb

        mode = os.environ.get("WANDB_MODE") or ("online" if wandb.login(prompt=False) else "offline")
        self.run: Any = wandb.init(
            project=tracker.project,
            name=name,
            dir=tracker.where or folder,
            id=tracker._id or None,
            resume="allow",
            mode=mode,
        )
        self.id = str(self.run.id)

    def settings(self, values: Mapping[str, str]) -> None:
        self.run.config.update(dict(values), allow_val_change=True)

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        self.run.log(dict(values), step=step)

    def picture(self, name: str, png: bytes, step: int) -> None:
        import wandb
        from matplotlib.image import imread

        self.run.log({name: wandb.Image(imread(io.BytesIO(png))[..., :3])}, step=step)

    def close(self, status: str) -> None:
        self.run.finish(exit_code=int(status == "failed"))


STORES: dict[str, Any] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}


def with_trackers(callbacks: Any) -> list[Callback]:
    """The callbacks of a training; the name of a logger stands for one with its defaults."""
    given = [] if callbacks is None else [callbacks] if isinstance(callbacks, str | Callback) else callbacks
    listed: Any = given if isinstance(given, list | tuple) else [None]
    found: list[Any] = [Tracker(each) if isinstance(each, str) and each in STORES else each for each in listed]
    if not all(isinstance(each, Callback) for each in found):
        raise InputError(
            f"callbacks is {one_line(repr(callbacks), 60)}, expected a list of viewsmith.training.Callback or "
            f"of names: {', '.join(STORES)} (--log)"
        )
    return found
