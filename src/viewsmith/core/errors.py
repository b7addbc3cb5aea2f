"""Errors for the user, each one line with what was given, what was expected and what to do; checks that raise them."""

from __future__ import annotations

from typing import Any, get_args


class InputError(ValueError):
    """Invalid data, option or file given by the user. The command line prints the message and exits with 2."""


class InUseError(InputError):
    """Another process writes to the folder now. Nothing in it may be removed."""


class MissingExtra(ImportError, InputError):
    """An optional dependency is not installed; the message names the extra that installs it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed; "
            f"install it with: pip install 'viewsmith[{extra}]'"
        )


class TrainingError(RuntimeError):
    """Training cannot continue, for instance because a loss is not finite. The command line exits with 1."""


class StoppedEarly(RuntimeError):
    """A signal or a time limit stopped work that can be resumed. The command line exits with 130."""


def check(holds: bool, setting: str, given: object, expected: str) -> None:
    """Raise InputError with what was given and what was expected, unless `holds`."""
    if not holds:
        raise InputError(f"{setting} is {given}, expected {expected}")


def check_choice(setting: str, given: object, choices: Any) -> None:
    """Raise InputError unless a setting is one of the values of a Literal type."""
    known = get_args(choices)
    if given not in known:
        raise InputError(f"{setting} is {given!r}, expected {', '.join(known[:-1])} or {known[-1]}")


def check_temperature(setting: str, given: Any) -> None:
    """Raise InputError unless a temperature is above 0 and finite."""
    check(0 < given < float("inf"), setting, given, "a number above 0")


def check_fraction(setting: str, given: float) -> None:
    """Raise InputError unless a number is from 0 to 1."""
    check(0 <= given <= 1, setting, given, "a number from 0 to 1")


def check_weight(setting: str, given: float) -> None:
    """Raise InputError unless the weight of a term is at least 0 and finite."""
    check(0 <= given < float("inf"), setting, given, "a number of at least 0")
