"""Labels, for the few settings that read them because the user asked for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import get


def framework_reads_labels(framework: str | nn.Module) -> bool:
    """Whether a framework, by name or as an object, needs labels."""
    if isinstance(framework, nn.Module):
        return bool(getattr(framework, "reads_labels", False))
    entry = get("framework", framework)
    return entry is not None and bool(getattr(entry.build, "reads_labels", False))


def framework_labels(framework: str | nn.Module, y: Any, n_rows: int) -> Tensor | None:
    """Class codes for a framework that reads labels; None for other frameworks, for which `y` is not read.

    Raises
    ------
    InputError
        There are no labels, or not one for each row.
    """
    if not framework_reads_labels(framework):
        return None
    name = framework if isinstance(framework, str) else type(framework).__name__
    return find_classes(y, n_rows, f"framework is {name!r}, which reads labels", "another framework")


def find_classes(y: Any, n_rows: int, asked: str, instead: str) -> Tensor:
    """Labels as class numbers 0, 1, ..., int64 (n,).

    Parameters
    ----------
    y : array-like or None
    n_rows : int
    asked, instead : str
        For the message where there are none: what asks for labels, and what to take without.

    Raises
    ------
    InputError
        There are none, or not one for each row.
    """
    if y is None:
        raise InputError(f"{asked}, but no labels were given: call fit(X, y), or take {instead}")
    values = np.asarray(y)
    if values.shape != (n_rows,):
        raise InputError(f"the labels have shape {values.shape}, expected one for each of the {n_rows} rows")
    if missing := sum(value is None or value != value for value in values.tolist()):
        raise InputError(f"the labels hold {missing} missing values, expected a label for each of the {n_rows} rows")
    return torch.from_numpy(np.unique(values.astype(str), return_inverse=True)[1].astype(np.int64))
