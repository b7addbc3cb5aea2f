"""Every method's estimator, by name, and models of run folders."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import nn

import viewsmith.methods.metaug.networks
import viewsmith.methods.pinda.views  # noqa: F401, they register parts
from viewsmith.core import lazily
from viewsmith.core.errors import InputError, error_text
from viewsmith.core.registry import LATER, entries, get
from viewsmith.data.places import downloaded
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.estimator.options import MODULE
from viewsmith.estimator.plan import check_package
from viewsmith.methods.crl_tac.families import CUSTOM, FamilyOption
from viewsmith.training.run import RunFolder

if TYPE_CHECKING:
    from viewsmith.methods.contrastive.estimator import Contrastive
    from viewsmith.methods.crl_tac.estimator import CRLTAC
    from viewsmith.methods.diffaug.estimator import DiffAug
    from viewsmith.methods.discovery.estimator import Discovery
    from viewsmith.methods.genview.estimator import GenView
    from viewsmith.methods.linear_contrast.estimator import LinearContrast
    from viewsmith.methods.metaug.estimator import MetAug
    from viewsmith.methods.pinda.estimator import PiNDA

__all__ = ["CRLTAC", "Contrastive", "DiffAug", "Discovery", "GenView", "LinearContrast", "MetAug", "PiNDA"]
__all__ += ["estimators", "load"]

_PLACES = {
    "viewsmith.methods.linear_contrast.estimator": "LinearContrast",
    "viewsmith.methods.contrastive.estimator": "Contrastive",
    "viewsmith.methods.crl_tac.estimator": "CRLTAC",
    "viewsmith.methods.diffaug.estimator": "DiffAug",
    "viewsmith.methods.discovery.estimator": "Discovery",
    "viewsmith.methods.genview.estimator": "GenView",
    "viewsmith.methods.metaug.estimator": "MetAug",
    "viewsmith.methods.pinda.estimator": "PiNDA",
}
# Each is imported on use: together they take as long as the rest of the package.
LATER["method"] += _PLACES
__getattr__ = lazily(__name__, _PLACES)


def estimators() -> dict[str, type[ViewsmithEstimator]]:
    """Estimator class of every registered method, plug-ins included, by method name."""
    return {entry.name: entry.build for entry in entries("method")}  # type: ignore[misc]


def load(
    path: str | os.PathLike[str],
    *,
    encoder: nn.Module | None = None,
    framework: nn.Module | None = None,
    view_maker: nn.Module | None = None,
    family: FamilyOption | None = None,
    features: nn.Module | Callable[..., Any] | None = None,
) -> ViewsmithEstimator:
    """Load the fitted model of a run folder, also of `viewsmith discover`. Nothing there is executed or unpickled.

    Parameters
    ----------
    path : path
        Run folder; or a repository of the Hugging Face Hub, ``hf://OWNER/NAME`` or ``hf://OWNER/NAME@REVISION`` (extra
        ``hub``), which is downloaded once.
    encoder, framework, view_maker : torch.nn.Module, optional
        For a model that was fitted with a custom module as this part: a module of the same structure, for the saved
        weights.
    family : Family or list of callable, optional
        For a CRL-TAC model that was fitted with custom transformations: the same transformations.
    features : torch.nn.Module or callable, optional
        For a GenView model that was fitted with a custom feature extractor: the same network, with its weights.
        Without it the model cannot compute quality and adaptive noise. For a LinearContrast model that was fitted with
        features of your own: the same function, or a module of the same structure, for the saved weights.

    Raises
    ------
    InputError
        There is no run, or it is damaged; a custom part is missing, or is given for a model without it; a plug-in that
        the model needs is not installed.
    """
    path = downloaded(path)
    folder = RunFolder(path)
    config = folder.read_config()
    method = str(config.get("method", ""))
    if method == "discovery":
        from viewsmith.methods.discovery.estimator import Discovery

        return Discovery.load(path)
    entry = get("method", method)
    if entry is None and "package" in config:
        check_package("method", method, str(config["package"]), folder.path)
    if entry is None or "parameters" not in config or "fitted" not in config:
        raise InputError(
            f"{folder.config} does not describe a model of this version (method {config.get('method')!r}): train again"
        )
    parts = {"encoder": encoder, "framework": framework, "view_maker": view_maker, "family": family}
    custom: dict[str, Any] = {n: part for n, part in (parts | {"features": features}).items() if part is not None}
    for name in custom:
        known = str(config["parameters"].get(name))
        if not known.startswith((MODULE, CUSTOM)):
            raise InputError(f"the {name} of {folder.path} is {known!r}, which is not custom: leave {name} out")
    cls: type[ViewsmithEstimator] = entry.build  # type: ignore[assignment]
    try:
        return cls._load(folder, config, custom)
    except KeyError as error:
        raise InputError(f"{folder.config} is incomplete: it has no {error}; restore it or train again") from error
    except (InputError, OSError, MemoryError):
        raise
    except Exception as error:  # values that no run has, which any constructor may refuse in its own words
        detail = error_text(error)
        raise InputError(f"{folder.path} is damaged ({detail}): restore it or train again") from error
