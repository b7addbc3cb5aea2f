"""Seeded random streams, addressed by names and counters; tensors in files, which are checked when they are read, and a
limit of the memory that a model of them may take; and what a training step reads without waiting for a GPU.

A stream is derived from the run's seed and a path of names and numbers, such as ``("train", phase, step, "view")``.
The same path gives the same numbers, so no generator state has to be saved to replay a draw or to resume a run.
"""

import contextlib
import functools
import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from viewsmith.core.errors import InputError, undamaged
from viewsmith.core.files import atomic_path, check_regular

_MASK = (1 << 64) - 1


def derive_seed(seed: int, *path: str | int) -> int:
    """Seed of the stream at `path` under `seed`; equal on every machine."""
    digest = hashlib.blake2b(digest_size=8)
    digest.update(struct.pack("<Q", seed & _MASK))
    for part in path:
        if isinstance(part, str):
            digest.update(b"s" + part.encode() + b"\0")
        else:
            digest.update(b"i" + struct.pack("<q", part))
    return int.from_bytes(digest.digest(), "little") >> 1


def stream(seed: int, *path: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """A new ``torch.Generator`` at a path; see `derive_seed`."""
    return torch.Generator(device=device).manual_seed(derive_seed(seed, *path))


@contextlib.contextmanager
def global_streams(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the global streams of the CPU and of the device, which torch's modules use; at the end those of the caller
    are back."""
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(gpus):
        # `torch.manual_seed` would seed all devices, also later ones, and record the stack for each kind of them.
        torch.default_generator.manual_seed(seed)
        for gpu in gpus:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(seed)
        yield


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
    with undamaged(f"the weights file {path}", "restore it or train again", DamageError):
        return read_tensors(path)


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


#: What names of a classifier begin with in published weights, also of one beside it in training; encoders have none.
CLASSIFIERS = ("fc.", "classifier.", "head.", "head_dist.", "last_linear.", "aux_head.", "AuxLogits.")
TABLES = ("relative_position_index", "relative_coords_table", "attn_mask")  # of places, which networks make themselves
COUNTS = "num_batches_tracked"  # how many batches are behind the statistics of a BatchNorm


def read_published(path: Path, option: str, target: str, advice: str = "") -> dict[str, Tensor]:
    """Read a safetensors file of weights that another program may have written, given as `option` for `target`."""
    if not path.is_file():
        raise InputError(f"no weights at {path} ({option}): expected a safetensors file for {target}{advice}")
    try:
        return read_tensors(path)
    except DamageError as error:
        raise InputError(
            f"{path} ({option}) is damaged or not a safetensors file: pickled weights are never read, save them with "
            "safetensors.torch.save_file(network.state_dict(), path)"
        ) from error


def load_published(module: nn.Module, tensors: Mapping[str, Tensor], origin: str, target: str) -> None:
    """Copy published weights into a network without a classifier.

    The classifier of the file is left out, and tables of places. A first convolution of three colors is fitted to
    other channels as timm does (Wightman 2019): one channel has their sum, and several have them in turn, times 3 /
    channels.
    """
    expected = module.state_dict()
    kept = {
        name: value
        for name, value in tensors.items()
        if name in expected or not (name.startswith(CLASSIFIERS) or name.endswith(TABLES))
    }
    counts = [name for name in expected if name.endswith(COUNTS)]
    kept |= {name: torch.ones_like(expected[name]) for name in counts if name not in kept}
    first = next((name for name, value in expected.items() if value.ndim == 4), "")
    colors, channels = kept.get(first), expected[first].shape[1] if first else 3
    if colors is not None and colors.ndim == 4 and colors.shape[1] == 3 != channels:
        in_turn = colors[:, torch.arange(channels) % 3] * (3 / channels)
        kept[first] = colors.sum(dim=1, keepdim=True) if channels == 1 else in_turn
    load_weights(module, kept, origin, target)
    count_batches(module)


@torch.no_grad()
def count_batches(module: nn.Module) -> None:
    """Tell that statistics of BatchNorm are given: the oldest published weights, and those from TensorFlow, lack how
    many batches are behind them, or say none."""
    for name, count in module.named_buffers():
        if name.endswith(COUNTS):
            count.clamp_(min=1)


#: What makes tensors of a size that is given.
MAKERS = frozenset(
    (
        *(torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.randint, torch.randperm),
        *(torch.arange, torch.linspace, torch.logspace, torch.eye, torch.empty_strided),
        *(torch.tril_indices, torch.triu_indices),
        *(Tensor.new_empty, Tensor.new_zeros, Tensor.new_ones, Tensor.new_full, Tensor.repeat),
    )
)
#: A network takes at most so many times the bytes of its weights, and so many more: fixed tables, and what is drawn and
#: then changed. Measured on all methods, ResNet-18, HyenaDNA and the default networks: at most 1.7 times.
TIMES, MORE = 8, 2**26


class AllocationLimit(TorchFunctionMode):
    """Within it, no tensors are made that together are much larger than the weights of a network.

    A network that is built from a configuration, which a stranger may have written, is as large as its numbers say; its
    weights have been read, so that there is memory for them.

    Parameters
    ----------
    weights : mapping of str to Tensor
        The weights that the network will get.
    config : path
        The configuration, for messages.
    """

    def __init__(self, weights: Mapping[str, Tensor], config: str | os.PathLike[str]) -> None:
        super().__init__()
        self.config, self.made = config, 0
        self.limit = TIMES * sum(each.numel() * each.element_size() for each in weights.values()) + MORE

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in MAKERS:
            self.made += _size(func, args, kwargs)
            if self.made > self.limit:
                raise InputError(
                    f"{self.config} describes a network that is much larger than its weights: restore it or train again"
                )
        return func(*args, **kwargs)

    def __enter__(self) -> Self:
        super().__enter__()
        return self


def _size(func: Callable[..., Tensor], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """Bytes of what a function makes, which is not made."""
    plain = {name: value for name, value in kwargs.items() if name not in ("generator", "out", "pin_memory")}
    if args and isinstance(args[0], Tensor):
        made = func(args[0].to("meta"), *args[1:], **plain)
    else:
        made = func(*args, **plain | {"device": "meta"})
    return made.numel() * made.element_size()


#: Types of devices whose values Python can read without waiting.
HOST = {"cpu"}


def on_host(x: Tensor) -> bool:
    """Whether Python can read the values of a tensor without waiting until a GPU has done all queued work."""
    return x.device.type in HOST


def constant(values: Sequence[float], like: Tensor) -> Tensor:
    """Numbers as a tensor (len(values),) like `like`, made once: it must not be changed."""
    return _constant(tuple(values), like.dtype, like.device)


@functools.cache
def _constant(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    # `torch.tensor` would make it on the host and wait for a copy. A tensor of inference mode could not be used in a
    # training later.
    with torch.inference_mode(False):
        return torch.cat([torch.full((1,), value, dtype=dtype, device=device) for value in values])


class HostNumbers(nn.Module):
    """Numbers ``numbers["rounds"]`` saved with a module: buffers, for which a read would wait, and Python numbers."""

    def __init__(self, **values: float) -> None:
        super().__init__()
        self._values = dict(values)
        for name, value in values.items():
            self.register_buffer(name, torch.tensor(value))
        self.register_load_state_dict_post_hook(_read_numbers)

    def __getitem__(self, name: str) -> float:
        return self._values[name]

    def __setitem__(self, name: str, value: float) -> None:
        self._values[name] = value
        self.get_buffer(name).fill_(value)


def _read_numbers(numbers: HostNumbers, keys: object) -> None:
    numbers._values = {name: buffer.item() for name, buffer in numbers.named_buffers()}
