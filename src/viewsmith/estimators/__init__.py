"""The scikit-learn face of the methods."""

from __future__ import annotations

import os
from typing import Any

from torch import nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import entries, get
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.build.custom_transforms import CUSTOM, FamilyOption
from viewsmith.estimators.build.resolve import MODULE
from viewsmith.estimators.contrastive import Contrastive
from viewsmith.estimators.crl_tac import CRLTAC
from viewsmith.estimators.diffaug import DiffAug
from viewsmith.estimators.genview import GenView
from viewsmith.estimators.metaug import MetAug
from viewsmith.estimators.pinda import PiNDA
from viewsmith.estimators.saving import check_package
from viewsmith.training.run import RunFolder

__all__ = [
    "CRLTAC",
    "Contrastive",
    "DiffAug",
    "GenView",
    "MetAug",
    "PiNDA",
    "ViewsmithEstimator",
    "estimators",
    "load",
]


def estimators() -> dict[str, type[ViewsmithEstimator]]:
    """The estimators of all registered methods by the names of the methods, those of plug-ins too."""
    return {entry.name: entry.build for entry in entries("method")}  # type: ignore[misc]


def load(
    path: str | os.PathLike[str],
    *,
    encoder: nn.Module | None = None,
    framework: nn.Module | None = None,
    view_maker: nn.Module | None = None,
    family: FamilyOption | None = None,
    features: nn.Module | None = None,
) -> ViewsmithEstimator:
    """The fitted model of a run folder. Nothing in it is executed or unpickled.

    Parameters
    ----------
    path : path
    encoder, framework, view_maker : torch.nn.Module, optional
        For a model with such a part of the user's own: a module of the same structure, which takes its weights.
    family : Family or list of callable, optional
        For a model of CRL-TAC whose transformations were the user's own: the same ones.
    features : torch.nn.Module, optional
        For a model of GenView whose features were of the user's own network: the same one, with its weights. Without
        it the model does all but see quality and adaptive noise.

    Raises
    ------
    InputError
        There is no run, or it is damaged; what the user gave to fit is missing, or was not given then; a plug-in that
        it needs is not installed.
    """
    folder = RunFolder(path)
    config = folder.read_config()
    method = str(config.get("method", ""))
    entry = get("method", method)
    if entry is None and "package" in config:
        check_package("method", method, str(config["package"]), folder.path)
    if entry is None or "parameters" not in config or "fitted" not in config:
        raise InputError(f"{folder.config} describes no model of this version (method {config.get('method')!r})")
    given: dict[str, Any] = {
        "encoder": encoder,
        "framework": framework,
        "view_maker": view_maker,
        "family": family,
        "features": features,
    }
    own = {name: part for name, part in given.items() if part is not None}
    for name in own:
        known = str(config["parameters"].get(name))
        if not known.startswith((MODULE, CUSTOM)):
            raise InputError(f"the {name} of {folder.path} is {known!r}, which loads by itself: leave {name} out")
    cls: type[ViewsmithEstimator] = entry.build  # type: ignore[assignment]
    try:
        return cls._load(folder, config, own)
    except KeyError as error:
        raise InputError(f"{folder.config} is incomplete: it has no {error}; restore it or train again") from error
