"""Checkpoints: tensors in safetensors files and other values as JSON, replaced atomically and checked when loaded."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.core.files import write_json_atomic
from viewsmith.core.tensors import DamageError, read_tensors, save_tensors

POINTER = "latest.json"


class CheckpointFolder:
    """The folder of the last checkpoint of a training.

    ``latest.json`` names the tensor file and is replaced last: a process that is killed at any moment leaves the
    previous checkpoint or the new one, never a mixture.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def save(self, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        """Replace the checkpoint. `record` has plain JSON values, among them ``steps``, the number of steps so far."""
        self.path.mkdir(parents=True, exist_ok=True)
        # The name is unique, because at the end of a phase the state is saved twice after the same step.
        target = self.path / f"state-{record['steps']}-{uuid.uuid4().hex[:8]}.safetensors"
        save_tensors(target, tensors)
        write_json_atomic(self.path / POINTER, {"file": target.name, "record": dict(record)})
        # Earlier states, and partial files of processes that were killed.
        for old in self.path.glob("*state-*.safetensors"):
            if old != target:
                old.unlink(missing_ok=True)

    def seconds(self) -> float:
        """Seconds of training until the last checkpoint; 0 if there is none."""
        found = self._read_pointer()
        return 0.0 if found is None else float(found[1].get("seconds", 0.0))

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Tensors and record of the last checkpoint; None if there is none.

        Raises
        ------
        InputError
            The checkpoint is damaged; the message names the file.
        """
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
            content = json.loads(pointer.read_text(encoding="utf-8"))
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
