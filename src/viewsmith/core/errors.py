"""Errors a user can act on: each message is one line that says what was given, what was expected, what to do."""

from __future__ import annotations


class InputError(ValueError):
    """Bad data, option or file given by the user. The command line prints it and exits with 2."""


class MissingExtra(ImportError, InputError):
    """An optional dependency is not installed; the message names the extra that brings it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed; "
            f"install it with: pip install 'viewsmith[{extra}]'"
        )


class TrainingError(RuntimeError):
    """Training could not go on (a loss that is not finite, for instance). The command line exits with 1."""
