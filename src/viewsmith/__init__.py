"""viewsmith: contrastive representations whose views are learned or generated, for vectors, images and DNA."""

from typing import TYPE_CHECKING, Any

from viewsmith.core import __version__

_LAYERS = (
    *("core", "losses", "networks", "views", "modalities", "frameworks", "data", "training", "evaluation"),
    *("reports", "estimator", "methods", "workflows", "tl"),
)

if TYPE_CHECKING:
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
    from viewsmith.workflows.hub import push
    from viewsmith.workflows.runs import report

_ESTIMATORS = ("CRLTAC", "Contrastive", "DiffAug", "Discovery", "GenView", "LinearContrast", "MetAug", "PiNDA")
__all__ = ["CRLTAC", "Contrastive", "DiffAug", "Discovery", "GenView", "LinearContrast", "MetAug", "PiNDA"]
__all__ += ["__version__", "load"]
__all__ += ["push", "report"]


def __getattr__(name: str) -> Any:
    # Estimators bring scikit-learn, which costs as much to import as torch: only on use.
    if name in (*_ESTIMATORS, "load"):
        from viewsmith.methods import loading

        return getattr(loading, name)
    if name in ("push", "report"):
        import importlib

        module = {"push": "hub", "report": "runs"}[name]
        return getattr(importlib.import_module(f"viewsmith.workflows.{module}"), name)
    if name in _LAYERS:
        import importlib

        return importlib.import_module(f"viewsmith.{name}")
    raise AttributeError(f"module 'viewsmith' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
