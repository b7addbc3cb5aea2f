"""Errors for the user: each message is one line with what was given, what was expected and what to do."""

from __future__ import annotations


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
