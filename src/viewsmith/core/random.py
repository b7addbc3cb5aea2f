"""Seeded random streams, addressed by names and counters.

A stream is derived from the run's seed and a path of names and numbers, such as ``("train", phase, step, "view")``.
The same path gives the same numbers, so no generator state has to be saved to replay a draw or to resume a run.
"""

import contextlib
import hashlib
import struct
from collections.abc import Iterator

import torch

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
