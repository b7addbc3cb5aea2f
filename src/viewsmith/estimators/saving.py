"""Configuration and weights of a model, for its run folder."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import Kind, get
from viewsmith.core.version import __version__
from viewsmith.estimators.build.plan import Resolved
from viewsmith.estimators.build.resolve import text_of
from viewsmith.training.run import RunFolder

if TYPE_CHECKING:
    from viewsmith.domains.tables.encoder import TableEncoder

# Options of where and how long to train: a resumed run may change them.
NOT_CONFIGURATION = ("verbose", "minutes", "device", "checkpoint_every")


def configuration(
    name: str, parameters: Mapping[str, Any], seed: Any, data: Any, resolved: Resolved | None
) -> dict[str, Any]:
    """Everything that rebuilds the model: method, parameters, origin of the data, resolved settings."""
    kept = {k: v for k, v in parameters.items() if k not in NOT_CONFIGURATION} | {"random_state": seed}
    kept = {k: text_of(v) if isinstance(v, nn.Module) else v for k, v in kept.items()}
    config: dict[str, Any] = {"viewsmith": __version__, "method": name}
    entry = get("method", name)
    if entry is not None and entry.origin != "viewsmith":
        config["package"] = entry.origin
    config["parameters"] = kept
    if data is not None:
        config["data"] = data
    return config | {"fitted": {} if resolved is None else resolved.as_dict()}


def read_encoder(resolved: Resolved, where: object) -> TableEncoder | None:
    """The encoder of a table from its plain values in a configuration; None if there are none.

    Raises
    ------
    InputError
        The values are damaged.
    """
    if resolved.table is None:
        return None
    from viewsmith.domains.tables.encoder import TableEncoder  # imports pandas

    try:
        encoder = TableEncoder.from_dict(resolved.table)
        if len(encoder.features) != resolved.row_shape[0]:
            raise ValueError(f"{len(encoder.features)} features instead of {resolved.row_shape[0]}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{where} is damaged: its table has {error}; restore it or train again") from error
    return encoder


def copied_weights(modules: nn.Module) -> dict[str, Tensor]:
    """Weights and buffers on the CPU."""
    return {name: value.detach().cpu().clone() for name, value in modules.state_dict().items()}


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


def with_saved_seed(options: Any, folder: RunFolder | None) -> Any:
    """The options, with the seed of the run in the folder if there is one and the options have no seed."""
    if options.random_state is not None or folder is None or not folder.exists():
        return options
    seed = folder.read_config().get("parameters", {}).get("random_state")
    return dataclasses.replace(options, random_state=seed)
