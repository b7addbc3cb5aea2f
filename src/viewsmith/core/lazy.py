"""Names of a package that are imported on use: those of higher layers, or of modules that are slow to import."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazily(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """A `__getattr__` of a package (PEP 562) for names by the module that defines them, separated by spaces."""
    modules = {name: module for module, names in places.items() for name in names.split()}

    def __getattr__(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(modules[name]), name)

    return __getattr__
