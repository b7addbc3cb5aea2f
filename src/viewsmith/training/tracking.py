"""Loggers: metrics, settings and pictures of a training in TensorBoard, MLflow or Weights & Biases."""

import importlib
import io
import math
import os
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from viewsmith.core.distributed import rank
from viewsmith.core.errors import InputError, MissingExtra, error_text, one_line, warn
from viewsmith.training.engine import Callback, Status, Trainer

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
