"""The lowest layer: the method contract, random streams, distributed processes, files, errors."""

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from viewsmith.core.errors import InputError, MissingExtra, TrainingError

if TYPE_CHECKING:
    from viewsmith.core.schedule import Batch, Method, Optimizer, Phase, Update
    from viewsmith.core.tensors import derive_seed, stream

__all__ = ["Batch", "InputError", "Method", "MissingExtra", "Optimizer", "Phase", "TrainingError", "Update"]
__all__ += ["derive_seed", "stream"]
__version__ = "0.2.0"


def lazily(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """A `__getattr__` of a package (PEP 562) for names by the module that defines them, separated by spaces."""
    modules = {name: module for module, names in places.items() for name in names.split()}

    def __getattr__(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(modules[name]), name)

    return __getattr__


# On use: errors and files are also used without torch (by `viewsmith --help`), which is slow to import.
__getattr__ = lazily(
    __name__,
    {"viewsmith.core.tensors": "derive_seed stream", "viewsmith.core.schedule": "Batch Method Optimizer Phase Update"},
)
