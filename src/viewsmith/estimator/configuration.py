"""Configurations of models: written from an estimator, and what is read from them checked."""

import os
import typing
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from sklearn.base import BaseEstimator

from viewsmith.core import __version__
from viewsmith.core.errors import InputError
from viewsmith.core.registry import Kind, get
from viewsmith.estimator.options import check_options, schema
from viewsmith.estimator.parts import places, slots
from viewsmith.estimator.plan import Facts, plain
from viewsmith.estimator.resolve import text_of
from viewsmith.modalities.tables.encoder import TableEncoder

# Options of where and how long to train and who watches: a resumed run may change them.
NOT_CONFIGURATION = ("verbose", "minutes", "device", "checkpoint_every", "callbacks")


def configuration(estimator: Any, seed: Any, data: Any, fitted: Mapping[str, Any]) -> dict[str, Any]:
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
    return config | {"fitted": dict(fitted)}


#: Options that a configuration has among what was resolved, besides those that can be "auto" and those that changed.
RECORDED = ("framework", "framework_options", "view_maker", "view_options", "encoder", "encoder_options")


def recorded(given: Mapping[str, Any], options: Any, facts: Facts) -> dict[str, Any]:
    """What fit has resolved, plain values by name: facts, and options, unless no part has them ("auto")."""
    cls: Any = type(options)
    found, fields = facts.as_dict(), schema(cls).model_fields
    for name, value in options.get_params(deep=False).items():
        text, before = plain(_as_text(value)), plain(_as_text(given[name]))
        automatic = fields[name].default == "auto" or "'auto'" in str(fields[name].annotation)
        number = isinstance(value, int | float | str | tuple) and text != "auto"  # no custom part
        kept = name in RECORDED or (automatic and number) or text != before
        if kept and name not in found and name not in NOT_CONFIGURATION:
            found[name] = text
    return found


def of_record(
    estimator: Any, fitted: Mapping[str, Any], custom: Mapping[str, Any] = MappingProxyType({})
) -> tuple[Any, Any]:
    """Options without "auto" and facts, from the given options and what `recorded` has; `custom` has parts by name."""
    cls, given = type(estimator), estimator.get_params(deep=False)
    facts = cls.facts_type.from_dict(fitted)
    names = (name for name in dict.fromkeys(("epochs", *fitted)) if name in given and name not in vars(facts))
    known = {name: fitted[name] for name in names}
    found = known.pop("scaling", given.get("scaling"))  # the layer of a plug-in's modality may name its own
    options = check_options(cls, given | known | dict(custom))
    options.scaling = str(found)
    return options, facts


def _as_text(value: Any) -> Any:
    """An option in a configuration: paths, modules, functions and models as text."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return text_of(value) if callable(value) or isinstance(value, BaseEstimator) else value


def read_encoder(facts: Facts, where: object) -> TableEncoder | None:
    """The encoder of a table from its plain values in a configuration; None if there are none."""
    if facts.table is None:
        return None
    try:
        encoder = TableEncoder.from_dict(facts.table)
        if len(encoder.features) != facts.row_shape[0]:
            raise ValueError(f"{len(encoder.features)} features instead of {facts.row_shape[0]}")
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
