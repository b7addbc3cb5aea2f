"""Checkpoints: tensors as safetensors, the rest as JSON, replaced atomically and checked on load. No pickle."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.files import atomic_path, write_json_atomic

POINTER = "latest.json"
CHECKSUM = "viewsmith.sha256"  # in the file's own metadata, so that both are replaced together


class DamageError(ValueError):
    """Why a file of tensors cannot be used, in words that follow its name."""


class CheckpointFolder:
    """The last state of a training, in a folder of its own.

    ``latest.json`` names the tensor file that belongs to it, and is replaced last: a process killed at any moment
    leaves the previous checkpoint or the new one, never a mixture.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def save(self, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        """Replace the checkpoint. `record` is plain JSON data and holds ``steps``, the steps taken so far."""
        self.path.mkdir(parents=True, exist_ok=True)
        # A name of its own: at the end of a phase the state is saved twice after the same step.
        target = self.path / f"state-{record['steps']}-{uuid.uuid4().hex[:8]}.safetensors"
        save_tensors(target, tensors)
        write_json_atomic(self.path / POINTER, {"file": target.name, "record": dict(record)})
        # Earlier states, and what writers that were killed left half-way.
        for old in self.path.glob("*state-*.safetensors"):
            if old != target:
                old.unlink(missing_ok=True)

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Tensors and record of the last checkpoint; None when there is none.

        Raises
        ------
        InputError
            The checkpoint is damaged; the message names the file.
        """
        pointer = self.path / POINTER
        if not pointer.exists():
            return None
        try:
            content = json.loads(pointer.read_text(encoding="utf-8"))
            record, target = content["record"], self.path / Path(content["file"]).name
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(pointer, "it is not a complete JSON record") from error
        if not target.exists():
            raise _damaged(target, "it is missing")
        try:
            return read_tensors(target), record
        except DamageError as error:
            raise _damaged(target, str(error)) from error


def _damaged(path: Path, reason: str) -> InputError:
    return InputError(
        f"the checkpoint file {path} is damaged: {reason}; delete the folder {path.parent} to start afresh"
    )


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file atomically, with a checksum of its content. Equal tensors give equal files."""
    with atomic_path(path) as temporary:
        # Copies, because safetensors refuses tensors that share memory (tied weights).
        copies = {n: t.detach().to("cpu", copy=True, memory_format=torch.contiguous_format) for n, t in tensors.items()}
        save_file(copies, str(temporary), metadata={CHECKSUM: _checksum(copies)})
        temporary.chmod(0o666 & ~_umask())  # safetensors makes files that only their owner can read


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file.

    Raises
    ------
    InputError
        The file is missing or damaged.
    """
    if not path.exists():
        raise InputError(f"no weights at {path}: expected the file a finished training writes")
    try:
        return read_tensors(path)
    except DamageError as error:
        raise InputError(f"the weights file {path} is damaged ({error}): restore it or train again") from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file; its content has to be that of its checksum, which files of others do not have.

    Raises
    ------
    DamageError
        It cannot be read, or its content has changed.
    """
    try:
        with safe_open(str(path), framework="pt") as file:
            checksum = (file.metadata() or {}).get(CHECKSUM)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no dict
    except (SafetensorError, OSError, ValueError) as error:
        raise DamageError(str(error).splitlines()[0]) from error
    if checksum is not None and checksum != _checksum(tensors):
        raise DamageError("its content is not that of its checksum")
    return tensors


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of the names, types, shapes and bytes of contiguous tensors on the CPU."""
    digest = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def load_weights(
    module: nn.Module, tensors: Mapping[str, Tensor], origin: str, target: str = "its configuration"
) -> None:
    """Copy tensors into a module of the same names and shapes.

    Raises
    ------
    InputError
        Names or shapes differ; the message names the first ones.
    """
    own = module.state_dict()
    missing, unknown = sorted(own.keys() - tensors.keys()), sorted(tensors.keys() - own.keys())
    if missing or unknown:
        parts = [f"missing {missing[0]!r}"] if missing else []
        parts += [f"unknown {unknown[0]!r}"] if unknown else []
        count = len(missing) + len(unknown)
        raise InputError(f"{origin} does not fit {target}: {count} names differ ({', '.join(parts)})")
    for name, value in own.items():
        if tensors[name].shape != value.shape:
            given, expected = tuple(tensors[name].shape), tuple(value.shape)
            raise InputError(f"{origin} does not fit {target}: {name} has shape {given}, expected {expected}")
    module.load_state_dict(dict(tensors))


def pack_optimizer(name: str, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The tensors of an optimiser's state under flat names; rates are functions of the step and need no saving."""
    return {
        f"{name}/{index}/{key}": value
        for index, state in optimizer.state_dict()["state"].items()
        for key, value in state.items()
        if isinstance(value, Tensor)
    }


def unpack_optimizer(name: str, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Undo `pack_optimizer`."""
    state: dict[int, dict[str, Tensor]] = {}
    for path, value in tensors.items():
        if path.startswith(f"{name}/"):
            index, key = path[len(name) + 1 :].split("/")
            state.setdefault(int(index), {})[key] = value
    content = optimizer.state_dict()
    content["state"] = state
    optimizer.load_state_dict(content)
