"""Numbers as labels: how a continuous target is told from classes, and its checks."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.core.messages import one_line, pluralize, warn
from viewsmith.domains.few_labels import missing_labels

#: What labels are: classes, or numbers that are to be predicted.
Target = Literal["class", "number"]
# Numbers with a fraction and so few values may be classes; so many different integers may be numbers.
FEW_VALUES, MANY_VALUES = 20, 100


def check_target(target: str | None) -> Target | None:
    """The option, None for automatic; raises InputError for another value."""
    if target in (None, "auto"):
        return None
    if target not in get_args(Target):
        raise InputError(f"target is {one_line(target, 60)!r}, expected auto, class or number")
    return target  # type: ignore[return-value]


def numbers_of(y: np.ndarray, what: str = "y", target: Target | None = None, *, say: bool = False) -> np.ndarray | None:
    """A continuous target as float64 (n,), NaN where it is missing; None if the labels are classes.

    Labels are numbers if they are of a numeric type and some have a fraction. -1 is then a number like any other.

    Parameters
    ----------
    y : ndarray, shape (n,)
        As read. Missing ones are NaN, None or empty.
    what : str
        Name in messages.
    target : {"class", "number"}, optional
        In place of the rule.
    say : bool
        Warn where the rule may be wrong.

    Raises
    ------
    InputError
        Text among numbers, or infinite values.
    """
    if y.ndim != 1 or target == "class" or (target is None and y.dtype.kind in "bmM"):
        return None
    values = np.char.decode(y, "utf-8", "replace") if y.dtype.kind == "S" else y
    if target is None and values.dtype.kind in "iu":
        if say:
            _warn_many(values, what)
        return None
    if target is None and values.dtype.kind != "f":
        given = [value for value in values.tolist() if not _is_gap(value)]
        texts = [value for value in given if isinstance(value, str)]
        if texts:
            _refuse_mixed(given, what)
            return None
        if not all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in given):
            return None
    found = values.astype(np.float64) if values.dtype.kind in "iufb" else _parsed(values, what)
    known = found[~np.isnan(found)]
    fractions = known[np.isfinite(known) & (known != np.round(known))]
    if target is None and not len(fractions):
        if say:
            _warn_many(known, what)
        return None
    if len(known) and not np.isfinite(known).all():
        raise InputError(f"{what} has {pluralize(int(np.isinf(known).sum()), 'infinite number')}: correct them")
    distinct = len(np.unique(known))
    if say and target is None and distinct <= FEW_VALUES and 5 * distinct <= len(known):
        warn(
            f"{what} has {distinct} different values, such as {fractions[0]:g}, taken as numbers: give --target class "
            "if they are classes"
        )
    return found


def as_classes(y: np.ndarray, target: Target | None) -> np.ndarray:
    """Labels unchanged, but numbers with a fraction as text if they are to be classes (``target="class"``)."""
    if target != "class" or numbers_of(y) is None:
        return y
    return np.array(["" if _is_gap(value) else f"{float(value):.15g}" for value in y.tolist()], dtype=np.str_)


def without_label(y: np.ndarray) -> np.ndarray:
    """Which rows have no label, bool (n,), of checked labels: numbers are float, and NaN where they are missing."""
    return np.isnan(y) if y.dtype.kind == "f" else missing_labels(y)


def kind_of(y: np.ndarray) -> Target:
    """What checked labels are."""
    return "number" if y.dtype.kind == "f" else "class"


def _is_gap(value: Any) -> bool:
    """Whether a label is missing: NaN, None, or empty text; -1 is not."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def _parsed(values: np.ndarray, what: str) -> np.ndarray:
    found = np.full(len(values), np.nan)
    for i, value in enumerate(values.tolist()):
        if _is_gap(value):
            continue
        try:
            found[i] = float(value)
        except (TypeError, ValueError):
            raise InputError(
                f"{what} holds {one_line(repr(value), 40)}, expected numbers: correct it, or give --target class"
            ) from None
    return found


def _refuse_mixed(given: list[Any], what: str) -> None:
    """Raise InputError for labels that are mostly numbers with a fraction, but not all."""
    numbers, other = [], None
    for value in given:
        try:
            numbers.append(float(value))
        except (TypeError, ValueError):
            other = value
    broken = {number for number in numbers if not number.is_integer()}
    if other is not None and len(broken) > FEW_VALUES and 2 * len(numbers) > len(given):
        raise InputError(
            f"{what} mixes {len(numbers):,} numbers and {len(given) - len(numbers):,} texts, such as "
            f"{one_line(repr(other), 40)}: correct them or leave them empty, or give --target class"
        )


def _warn_many(values: np.ndarray, what: str) -> None:
    """Warn of so many different integers that they may be a quantity."""
    distinct = len(np.unique(values))
    if distinct > MANY_VALUES and 5 * distinct > len(values):
        warn(f"{what} has {distinct:,} different integers, taken as classes: give --target number if it is a quantity")
