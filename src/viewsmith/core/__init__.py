"""The lowest layer: the method contract, random streams, distributed processes, files, errors."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from viewsmith.core.errors import InputError, MissingExtra, TrainingError

if TYPE_CHECKING:
    from viewsmith.core.random import derive_seed, stream
    from viewsmith.core.schedule import Batch, Method, Optimizer, Phase, Update

__all__ = [
    "Batch",
    "InputError",
    "Method",
    "MissingExtra",
    "Optimizer",
    "Phase",
    "TrainingError",
    "Update",
    "derive_seed",
    "stream",
]


def __getattr__(name: str) -> Any:
    # Imported lazily: errors and files are also used without torch (by `viewsmith --help`), which is slow to import.
    if name in ("derive_seed", "stream"):
        return getattr(importlib.import_module("viewsmith.core.random"), name)
    if name in __all__:
        return getattr(importlib.import_module("viewsmith.core.schedule"), name)
    raise AttributeError(f"module 'viewsmith.core' has no attribute {name!r}")
