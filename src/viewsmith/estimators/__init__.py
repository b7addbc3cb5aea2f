"""scikit-learn's face of the methods."""

from __future__ import annotations

import os

from torch import nn

from viewsmith.core.errors import InputError
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.contrastive import Contrastive
from viewsmith.estimators.crl_tac import CRLTAC
from viewsmith.estimators.diffaug import DiffAug
from viewsmith.estimators.genview import GenView
from viewsmith.estimators.metaug import MetAug
from viewsmith.estimators.pinda import PiNDA
from viewsmith.training.run import RunFolder

ESTIMATORS: dict[str, type[ViewsmithEstimator]] = {
    cls.name: cls for cls in (Contrastive, PiNDA, DiffAug, CRLTAC, MetAug, GenView)
}

__all__ = ["CRLTAC", "ESTIMATORS", "Contrastive", "DiffAug", "GenView", "MetAug", "PiNDA", "ViewsmithEstimator", "load"]


def load(path: str | os.PathLike[str], *, encoder: nn.Module | None = None) -> ViewsmithEstimator:
    """The fitted model of a run folder. Nothing in it is executed or unpickled.

    Parameters
    ----------
    path : path
    encoder : torch.nn.Module, optional
        For a model whose encoder was the user's own: a module of the same structure, which takes its weights.

    Raises
    ------
    InputError
        There is no run, or it is damaged.
    """
    folder = RunFolder(path)
    config = folder.read_config()
    cls = ESTIMATORS.get(config.get("method", ""))
    if cls is None or "parameters" not in config or "fitted" not in config:
        raise InputError(f"{folder.config} describes no model of this version (method {config.get('method')!r})")
    named = str(config["parameters"].get("encoder"))
    if encoder is not None and not named.startswith("module:"):
        raise InputError(f"the encoder of {folder.path} is {named!r}, which loads by itself: leave encoder out")
    try:
        return cls._load(folder, config, encoder)
    except KeyError as error:
        raise InputError(f"{folder.config} is incomplete: it has no {error}; restore it or train again") from error
