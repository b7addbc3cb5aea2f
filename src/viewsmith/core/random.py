"""Seeded random streams, addressed by name and counter instead of carried along.

A stream is derived from the run's seed and a path of names and numbers, such as ``("train", phase, step, "view")``.
Nothing has to be stored to replay a draw or to resume a run in mid-phase: the same address gives the same numbers.
"""

from __future__ import annotations

import hashlib
import struct

import torch

_MASK = (1 << 64) - 1


def derive_seed(seed: int, *path: str | int) -> int:
    """Seed of the stream at `path` under `seed`: 63 bits, equal on every machine.

    Parameters
    ----------
    seed : int
        The run's seed; any non-negative integer.
    *path : str or int
        Names and counters that address the stream.
    """
    digest = hashlib.blake2b(digest_size=8)
    digest.update(struct.pack("<Q", seed & _MASK))
    for part in path:
        if isinstance(part, str):
            digest.update(b"s" + part.encode() + b"\0")
        else:
            digest.update(b"i" + struct.pack("<q", part))
    return int.from_bytes(digest.digest(), "little") >> 1


def stream(seed: int, *path: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """A fresh ``torch.Generator`` at an address; see `derive_seed`."""
    return torch.Generator(device=device).manual_seed(derive_seed(seed, *path))
