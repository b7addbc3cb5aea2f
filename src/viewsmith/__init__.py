"""viewsmith: contrastive representations whose views are learned or generated, for vectors, images and DNA."""

from __future__ import annotations

import os

# Threads of libgomp (torch, scikit-learn) and OpenBLAS (numpy, scipy) spin for milliseconds while they wait, and take
# the cores from other work and from one another. They sleep soon, unless the environment says how they wait. It is
# read when these libraries are loaded.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")

# typing, like all else, is imported on use: an interrupt before that of `viewsmith.__main__` shows a traceback.
TYPE_CHECKING = False

_LAYERS = (
    *("core", "losses", "networks", "views", "modalities", "frameworks", "data", "training", "evaluation"),
    *("reports", "estimator", "methods", "workflows", "tl"),
)

if TYPE_CHECKING:
    from typing import Any

    from viewsmith.core import __version__
    from viewsmith.methods.loading import (
        CRLTAC,
        Contrastive,
        DiffAug,
        Discovery,
        GenView,
        LinearContrast,
        MetAug,
        PiNDA,
        load,
    )
    from viewsmith.workflows.export import push
    from viewsmith.workflows.runs import report

__all__ = ["CRLTAC", "Contrastive", "DiffAug", "Discovery", "GenView", "LinearContrast", "MetAug", "PiNDA", "load"]
_PLACES = dict.fromkeys(__all__, "methods.loading")
__all__ += ["__version__", "push", "report"]
_PLACES |= {"__version__": "core", "push": "workflows.export", "report": "workflows.runs"}


def __getattr__(name: str) -> Any:
    # Estimators bring scikit-learn, which costs as much to import as torch: only on use.
    import importlib

    if name in _PLACES:
        return getattr(importlib.import_module(f"viewsmith.{_PLACES[name]}"), name)
    if name in _LAYERS:
        return importlib.import_module(f"viewsmith.{name}")
    raise AttributeError(f"module 'viewsmith' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
