"""The run folder: the files that a training writes, and how they are read.

A checkpoint keeps tensors in safetensors files and other values as JSON, is replaced atomically, and is checked when it
is loaded.
"""

import contextlib
import functools
import json
import math
import os
import platform
import shutil
import uuid
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from viewsmith.core import __version__, files
from viewsmith.core.errors import InputError, undamaged
from viewsmith.core.tensors import DamageError, load_tensors, read_tensors, save_tensors
from viewsmith.data.places import CHECKPOINT, CONFIG, LOCK, RUN_FILES, check_free, check_run

POINTER = "latest.json"


class CheckpointFolder:
    """The last checkpoint of a training; its pointer is replaced last, so that a killed process leaves no mixture."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def save(self, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        """Replace the checkpoint. `record` has plain JSON values, among them ``steps``, the number of steps so far."""
        files.check_no_link(self.path)
        self.path.mkdir(parents=True, exist_ok=True)
        # The name is unique, because at the end of a phase the state is saved twice after the same step.
        target = self.path / f"state-{record['steps']}-{uuid.uuid4().hex[:8]}.safetensors"
        save_tensors(target, tensors)
        files.write_json_atomic(self.path / POINTER, {"file": target.name, "record": dict(record)})
        # Earlier states, and partial files of processes that were killed.
        for old in self.path.glob("*state-*.safetensors"):
            if old != target:
                old.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the states, the pointer, and the folder if nothing else is in it."""
        for pattern in ("*state-*.safetensors", POINTER, ".latest-*.json"):
            for file in self.path.glob(pattern):
                file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def seconds(self) -> float:
        """Seconds of training until the last checkpoint; 0 if there is none."""
        found = self._read_pointer()
        return 0.0 if found is None else float(found[1].get("seconds", 0.0))

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Tensors and record of the last checkpoint; None if there is none."""
        found = self._read_pointer()
        if found is None:
            return None
        target, record = found
        if not target.exists():
            raise _damaged(target, "it is missing")
        try:
            return read_tensors(target), record
        except DamageError as error:
            raise _damaged(target, str(error)) from error

    def _read_pointer(self) -> tuple[Path, dict[str, Any]] | None:
        """Tensor file and record of the last checkpoint; None if there is none."""
        pointer = self.path / POINTER
        if not pointer.exists():
            return None
        try:
            content = files.read_json(pointer)
            return self.path / Path(content["file"]).name, dict(content["record"])
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(pointer, "it is not a complete JSON record") from error


def _damaged(path: Path, reason: str) -> InputError:
    return InputError(
        f"the checkpoint file {path} is damaged: {reason}; delete the folder {path.parent} to start again"
    )


def pack_optimizer(name: str, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The tensors of an optimizer's state by flat name. Learning rates follow from the step and are not saved."""
    return {
        f"{name}/{index}/{key}": value
        for index, state in optimizer.state_dict()["state"].items()
        for key, value in state.items()
        if isinstance(value, Tensor)
    }


def unpack_optimizer(name: str, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load the state of an optimizer from the tensors that `pack_optimizer` returned; other names are ignored."""
    state: dict[int, dict[str, Tensor]] = {}
    for path, value in tensors.items():
        if path.startswith(f"{name}/"):
            index, key = path[len(name) + 1 :].split("/")
            state.setdefault(int(index), {})[key] = value
    content = optimizer.state_dict()
    content["state"] = state
    optimizer.load_state_dict(content)


NONE = "none"  # in config.toml, because TOML has no null
LOGS = ("tensorboard", "wandb")  # folders of loggers (`viewsmith.training.callbacks`)


class RunFolder:
    """The folder of one run: its files by name; ``rows.npy`` is what a training on rows on disk reads of them."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.config, self.model = self.path / CONFIG, self.path / "model.safetensors"
        self.initial, self.metrics = self.path / "initial.safetensors", self.path / "metrics.jsonl"
        self.summary, self.report = self.path / "summary.json", self.path / "report.html"
        self.evaluation = self.path / "evaluation.json"
        self.rows = self.path / "rows.npy"
        self.row_hashes = self.path / "row_hashes.safetensors"
        self.checkpoint = CheckpointFolder(self.path / CHECKPOINT)

    @property
    def files(self) -> list[Path]:
        """The files of a run, whether they exist or not; the checkpoint is a folder of its own."""
        return [self.path / name for name in RUN_FILES]

    def remove(self) -> None:
        """Remove what a training has written, and nothing else."""
        self.checkpoint.remove()
        for name in LOGS:
            if not (self.path / name).is_symlink():
                shutil.rmtree(self.path / name, ignore_errors=True)
        for file in self.files:
            for each in (file, *self.path.glob(f".{file.stem}-*{file.suffix}")):  # also one that is half written
                each.unlink(missing_ok=True)

    def exists(self) -> bool:
        """Whether the folder has a run."""
        return self.config.exists()

    def check_exists(self) -> None:
        """Raise InputError if the folder has no run."""
        check_run(self.path)

    def check_free(self) -> None:
        """Raise InputError if there is something else than a run."""
        check_free(self.path)

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Hold the folder while it is written to; raises InUseError if another process holds it."""
        if self.path.exists() and not self.path.is_dir():
            return contextlib.nullcontext()  # `open_for` refuses it
        return files.locked_folder(self.path, LOCK)

    def open_for(self, config: dict[str, Any], *, resume: bool) -> bool:
        """Prepare the folder for a training with this configuration; return whether there is a run to resume."""
        files.check_no_link(self.checkpoint.path)  # before a training whose checkpoints could not be written
        if self.exists():
            differences = _differences(self.read_config(), config)
            if differences:
                raise InputError(
                    f"{self.path} has a run with another configuration ({differences}): "
                    "choose another folder, or delete this one"
                )
            if not resume:
                raise InputError(
                    f"{self.path} already has this run: add --resume (in Python resume=True) to continue it, or choose "
                    "another folder"
                )
            self._lengthen(config)
            return True
        self.check_free()
        self.path.mkdir(parents=True, exist_ok=True)
        self.write_config(config)
        return False

    def replace_other(self, config: dict[str, Any]) -> None:
        """Start again a run with this configuration whose fitted values are others, as of other rows: what is left of
        it would not fit the model that is written now."""
        fitted = {"epochs": 0} | self.read_config().get("fitted", {})
        if to_toml(config.get("fitted", {})) | {"epochs": fitted["epochs"]} != fitted:
            self.remove()
            self.write_config(config)

    def resumed_epochs(self, wanted: Any) -> tuple[Any, Any]:
        """The `epochs` that the run was started with, which choose its other settings, and its length in epochs if
        `wanted` are asked for now; raises InputError for fewer than it has."""
        config = self.read_config()
        started, total = (config.get(section, {}).get("epochs") for section in ("parameters", "fitted"))
        if wanted == started or total is None:
            return started, total
        if not isinstance(wanted, int):
            return wanted, total  # another configuration, which `open_for` refuses
        if wanted < total:
            raise InputError(
                f"{self.path} has a run of {total} epochs, more than the {wanted} that are asked for: ask for more, or "
                "choose another folder"
            )
        return started, wanted

    def _lengthen(self, config: dict[str, Any]) -> None:
        """Write down that the run has more epochs than before."""
        saved = self.read_config()
        epochs = config.get("fitted", {}).get("epochs")
        if epochs is None or epochs == saved["fitted"].get("epochs"):
            return
        summary = self.read_summary()
        if summary.get("status") == "finished":  # no longer, whatever happens next
            self.write_summary(summary | {"status": "interrupted"})
        saved["fitted"]["epochs"] = epochs
        self.write_config(saved | {name: config[name] for name in ("command",) if name in config})

    def write_config(self, config: dict[str, Any]) -> None:
        """Write the configuration, with a table for each part of its "parts"; None is written as "none"."""
        import tomli_w

        files.write_text_atomic(self.config, tomli_w.dumps(to_toml(files.by_part(config))))

    def read_config(self) -> dict[str, Any]:
        """Read the configuration, with the options of all parts in its "parameters"; None is returned as "none"."""
        self.check_exists()
        with undamaged(self.config, "restore it or train again"):
            return files.of_all_parts(files.read_toml(self.config))

    def read_summary(self) -> dict[str, Any]:
        """Read ``summary.json``; empty if it does not exist. Raises InputError if it is damaged."""
        return self._read_json(self.summary) or {}

    def read_evaluation(self) -> dict[str, Any] | None:
        """Read ``evaluation.json``; None if it does not exist. Raises InputError if it is damaged."""
        found = self._read_json(self.evaluation)
        if found is not None and not _is_evaluation(found):
            raise InputError(f"{self.evaluation} is damaged (it has no tables of scores): delete it")
        return found

    def read_metrics(self) -> list[dict[str, Any]]:
        """Read the rows of ``metrics.jsonl``, without an incomplete last line. Raises InputError if it is damaged."""
        if not self.metrics.exists():
            return []
        rows: list[dict[str, Any]] = []
        # An incomplete last line was written by a process that was killed; a resumed run writes it again.
        with undamaged(self.metrics, "delete it"):
            lines = files.read_regular(self.metrics).split(b"\n")[:-1]
        for number, line in enumerate(lines, start=1):
            try:
                row = files.parse_json(line)
            except ValueError as error:
                raise InputError(f"{self.metrics} is damaged (line {number}: {error}): delete it") from error
            if not isinstance(row, dict):
                raise InputError(f"{self.metrics} is damaged (line {number} is not an object): delete it")
            rows.append(row)
        return rows

    def _read_json(self, path: Path) -> dict[str, Any] | None:
        if not path.exists():
            return None
        with undamaged(path, "delete it"):
            return files.read_json(path)

    def write_metrics(self, rows: list[dict[str, Any]]) -> None:
        """Write all rows of ``metrics.jsonl``."""
        files.write_text_atomic(self.metrics, "".join(json_line(row) for row in rows))

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write ``summary.json``."""
        files.write_json_atomic(self.summary, summary)

    def write_model(self, weights: dict[str, Tensor]) -> None:
        """Write the trained weights."""
        save_tensors(self.model, weights)

    def write_initial(self, weights: dict[str, Tensor]) -> None:
        """Write the weights before training."""
        save_tensors(self.initial, weights)

    def has_initial(self) -> bool:
        """Whether the weights before training are there and not damaged."""
        with contextlib.suppress(InputError):
            load_tensors(self.initial)
            return True
        return False

    def write_row_hashes(self, hashes: Tensor) -> None:
        """Write the hashes of the training rows, sorted, so that the file does not tell the order of the rows."""
        save_tensors(self.row_hashes, {"hashes": hashes.sort().values})

    def read_row_hashes(self) -> Tensor | None:
        """The hashes of the training rows; None if the run has none. Raises InputError if the file is damaged."""
        return load_tensors(self.row_hashes).get("hashes") if self.row_hashes.exists() else None

    def read_weights(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Read the trained and the initial weights."""
        self.check_exists()
        if not self.model.exists():
            raise InputError(f"the run {self.path} has no model yet: finish it with `viewsmith fit ... --resume`")
        return load_tensors(self.model), load_tensors(self.initial)


def to_toml(value: Any) -> Any:
    """Plain values for a TOML file, in which None is "none"."""
    if value is None:
        return NONE
    if isinstance(value, dict):
        return {str(k): to_toml(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_toml(v) for v in value]
    return value.item() if hasattr(value, "item") else value


def _differences(old: dict[str, Any], new: dict[str, Any]) -> str:
    """The first differences of two configurations in words, or ""; of fitted values, only `given` counts."""
    new = to_toml(new)
    if old.get("method") != new.get("method"):
        return f"method {old.get('method')!r} there, {new.get('method')!r} now"
    found, lengths = [], [each.get("fitted", {}).get("epochs") for each in (old, new)]
    for section in ("parameters", "data"):
        before, now = old.get(section, {}), new.get(section, {})
        for key in sorted(before.keys() | now.keys()):
            if key == "source" or before.get(key) == now.get(key):
                continue
            if key == "epochs" and lengths[0] == lengths[1] is not None:  # a run may be lengthened
                continue
            told = {
                "epochs": f"epochs is {before.get(key)} there, {now.get(key)} now; more train on with --resume",
                "fingerprint": "trained on other rows",
                "split": "trained on another split of the rows, which labels or groups draw",
                "neighbors": _other_graph(key in before, key in now),
            }
            found.append(told.get(key, f"{key} is {_short(before.get(key))} there, {_short(now.get(key))} now"))
    given = [config.get("fitted", {}).get("given") for config in (old, new)]
    if None not in given and given[0] != given[1]:
        found.append("trained with other labels or groups")
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return "; ".join(found[:3]) + more


def _other_graph(before: bool, now: bool) -> str:
    if before and now:
        return "trained with another neighbor graph"
    if now:
        return "trained without a neighbor graph, which is given now"
    return "trained with a neighbor graph, which is not saved in a run: give it again with neighbors, --neighbors"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def json_line(row: dict[str, Any]) -> str:
    """A metrics row as a line of JSON; numbers that are not finite become null."""
    plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
    return json.dumps(plain) + "\n"


def environment() -> dict[str, Any]:
    """Versions and hardware, for summaries and benchmark rows."""
    hardware: dict[str, Any] = {
        "machine": platform.machine(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
    if torch.cuda.is_available():
        hardware["gpu"] = torch.cuda.get_device_name()
    return {"versions": dict(_versions()), "hardware": hardware}


@functools.cache  # reading the metadata of packages takes longer than a training step
def _versions() -> dict[str, str]:
    # The source may be used without installing it, so the own version is not that of a package.
    own = {"python": platform.python_version(), "viewsmith": __version__}
    return own | {name: metadata.version(name) for name in ("torch", "numpy", "scipy", "scikit-learn")}


@functools.cache
def processor() -> str:
    """The name of the processor, from the operating system."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def _is_evaluation(found: Any) -> bool:
    """Whether the content of a file is an evaluation: tables of scores by name of the row."""
    parts = ("embeddings", "label_free", "protocols", "rows", "seconds")
    if not isinstance(found, dict) or not all(isinstance(found.get(part) or {}, dict) for part in parts):
        return False
    return all(isinstance(row, dict) for part in parts[:2] for row in (found.get(part) or {}).values())
