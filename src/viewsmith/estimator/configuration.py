"""Configurations of models: written from an estimator, and what is read from them checked."""

import os
import typing
from collections.abc import Mapping
from typing import Any, cast

from sklearn.base import BaseEstimator

from viewsmith.core import __version__
from viewsmith.core.errors import InputError
from viewsmith.core.registry import Kind, get
from viewsmith.estimator.parts import places, slots
from viewsmith.estimator.plan import Resolved
from viewsmith.estimator.resolve import text_of
from viewsmith.modalities.tables.encoder import TableEncoder

# Options of where and how long to train and who watches: a resumed run may change them.
NOT_CONFIGURATION = ("verbose", "minutes", "device", "checkpoint_every", "callbacks")


def configuration(estimator: Any, seed: Any, data: Any, resolved: Resolved | None) -> dict[str, Any]:
    """Everything that rebuilds the model: method, parameters and their parts, origin of the data, resolved settings."""
    name, parameters, cls = estimator.name, estimator.get_params(deep=False), cast(type, type(estimator))
    kept = {k: v for k, v in parameters.items() if k not in NOT_CONFIGURATION} | {"random_state": seed}
    kept = {k: _as_text(v) for k, v in kept.items()}
    config: dict[str, Any] = {"viewsmith": __version__, "method": name}
    entry = get("method", name)
    if entry is not None and entry.origin != "viewsmith":
        config["package"] = entry.origin
    found = places(cls)
    config["parts"] = {slot: [option for option in kept if found[option] == slot] for slot in slots(cls)}
    config["parameters"] = kept
    if data is not None:
        config["data"] = data
    return config | {"fitted": {} if resolved is None else resolved.as_dict()}


def _as_text(value: Any) -> Any:
    """An option in a configuration: paths, modules, functions and models as text."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return text_of(value) if callable(value) or isinstance(value, BaseEstimator) else value


def read_encoder(resolved: Resolved, where: object) -> TableEncoder | None:
    """The encoder of a table from its plain values in a configuration; None if there are none."""
    if resolved.table is None:
        return None
    try:
        encoder = TableEncoder.from_dict(resolved.table)
        if len(encoder.features) != resolved.row_shape[0]:
            raise ValueError(f"{len(encoder.features)} features instead of {resolved.row_shape[0]}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{where} is damaged: its table has {error}; restore it or train again") from error
    return encoder


def check_packages(packages: Mapping[str, str], where: object) -> None:
    """Raise InputError if a part of a model, ``KIND NAME``, comes from a package that is not installed."""
    for part, package in packages.items():
        # Kinds and names may contain spaces; no kind is a prefix of another.
        kind: Kind = next(k for k in typing.get_args(Kind) if part.startswith(f"{k} "))
        check_package(kind, part.removeprefix(f"{kind} "), package, where)


def check_package(kind: Kind, name: str, package: str, where: object) -> None:
    """Raise InputError, with the package to install, if a part is not registered."""
    if get(kind, name) is not None:
        return
    if package == "__main__":
        missing = "was registered by a script or notebook: run that part of it first"
    else:
        missing = f"is part of the package {package!r}, which is not installed: install it first"
    raise InputError(f"the model of {where} uses the {kind} {name!r}, which {missing}")
