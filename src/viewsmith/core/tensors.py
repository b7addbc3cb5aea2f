"""Tensors in safetensors files: written atomically, checked on load, no pickle."""

import hashlib
import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.files import atomic_path, check_regular

CHECKSUM = "viewsmith.sha256"  # in the file's metadata, so that content and checksum are replaced together


class DamageError(ValueError):
    """A tensor file cannot be used. The message is the reason, without the name of the file."""


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file atomically, with a checksum of its content. Equal tensors give identical files."""
    from safetensors.torch import save_file

    with atomic_path(path) as temporary:
        # Copies, because safetensors rejects tensors that share memory (tied weights).
        copies = {n: t.detach().to("cpu", copy=True, memory_format=torch.contiguous_format) for n, t in tensors.items()}
        save_file(copies, str(temporary), metadata={CHECKSUM: _checksum(copies)})
        os.umask(mask := os.umask(0))
        temporary.chmod(0o666 & ~mask)  # safetensors creates files that only their owner can read


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file."""
    if not path.exists():
        raise InputError(f"no weights at {path}: expected the file that a finished training writes")
    try:
        return read_tensors(path)
    except DamageError as error:
        raise InputError(f"the weights file {path} is damaged ({error}): restore it or train again") from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file and verify its checksum, if it has one (files written by other programs do not)."""
    from safetensors import SafetensorError, safe_open

    try:
        check_regular(path)
        with safe_open(str(path), framework="pt") as file:
            checksum = (file.metadata() or {}).get(CHECKSUM)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a dict
    except (SafetensorError, OSError, ValueError) as error:
        raise DamageError(str(error).splitlines()[0]) from error
    if checksum is not None and checksum != _checksum(tensors):
        raise DamageError("its content does not match its checksum")
    return tensors


def position_of(path: Path, name: str) -> int:
    """Position of the first byte of a tensor in a safetensors file, to map its values into memory."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        start: int = json.loads(file.read(length))[name]["data_offsets"][0]
    return 8 + length + start


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
    """Copy tensors into the parameters and buffers of a module."""
    expected = module.state_dict()
    missing, unknown = sorted(expected.keys() - tensors.keys()), sorted(tensors.keys() - expected.keys())
    if missing or unknown:
        parts = [f"missing {missing[0]!r}"] if missing else []
        parts += [f"unknown {unknown[0]!r}"] if unknown else []
        count = len(missing) + len(unknown)
        raise InputError(f"{origin} does not fit {target}: {count} names differ ({', '.join(parts)})")
    for name, value in expected.items():
        if tensors[name].shape != value.shape:
            given, shape = tuple(tensors[name].shape), tuple(value.shape)
            raise InputError(f"{origin} does not fit {target}: {name} has shape {given}, expected {shape}")
    module.load_state_dict(dict(tensors))
