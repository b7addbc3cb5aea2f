"""scikit-learn's face of the methods."""

from __future__ import annotations

import os

from torch import nn

from viewsmith.core.errors import InputError
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.build.custom_transforms import OWN, FamilyOption
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


def load(
    path: str | os.PathLike[str],
    *,
    encoder: nn.Module | None = None,
    family: FamilyOption | None = None,
    features: nn.Module | None = None,
) -> ViewsmithEstimator:
    """The fitted model of a run folder. Nothing in it is executed or unpickled.

    Parameters
    ----------
    path : path
    encoder : torch.nn.Module, optional
        For a model whose encoder was the user's own: a module of the same structure, which takes its weights.
    family : Family or list of callable, optional
        For a model of CRL-TAC whose transformations were the user's own: the same ones.
    features : torch.nn.Module, optional
        For a model of GenView whose features were of the user's own network: the same one, with its weights. Without
        it the model does all but see quality and adaptive noise.

    Raises
    ------
    InputError
        There is no run, or it is damaged; what the user gave to fit is missing, or was not given then.
    """
    folder = RunFolder(path)
    config = folder.read_config()
    cls = ESTIMATORS.get(config.get("method", ""))
    if cls is None or "parameters" not in config or "fitted" not in config:
        raise InputError(f"{folder.config} describes no model of this version (method {config.get('method')!r})")
    given = {"encoder": encoder, "family": family, "features": features}
    own = {name: part for name, part in given.items() if part is not None}
    for name in own:
        known = str(config["parameters"].get(name))
        if not known.startswith(("module:", OWN)):
            raise InputError(f"the {name} of {folder.path} is {known!r}, which loads by itself: leave {name} out")
    try:
        return cls._load(folder, config, own)
    except KeyError as error:
        raise InputError(f"{folder.config} is incomplete: it has no {error}; restore it or train again") from error
