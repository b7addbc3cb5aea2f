"""Labels, for the few settings that read them because the user asked for it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import find, get
from viewsmith.core.row_source import RowSource
from viewsmith.domains.few_labels import check_no_leak, few_label_codes
from viewsmith.domains.tables.array import table_of
from viewsmith.estimators.arguments import Arguments
from viewsmith.methods.supervision import FewLabels


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


def read_labels(
    options: Arguments, y: Any, rows: np.ndarray | RowSource, names: Sequence[str], groups: Mapping[str, Any]
) -> tuple[Tensor | None, FewLabels | None, dict[str, Any]]:
    """Classes for a framework that reads labels, labels of some rows for supervision, and fields of `Resolved`.

    The fields are digests of the rows whose labels are used, and of the labels and aligned groups.
    """
    few = few_labels(options, rows, y, names)
    given = [] if few is None else [codes_digest(few.codes.numpy())]
    given += [groups["digest"]] if "digest" in groups else []
    fields = {"labeled_rows": digests_of(few, rows), "given": " ".join(given)}
    return framework_labels(options.framework, y, len(rows)), few, fields


def few_labels(options: Arguments, rows: np.ndarray | RowSource, y: Any, names: Sequence[str]) -> FewLabels | None:
    """Labels of some rows for the supervised term; None without supervision, and then `y` is not looked at.

    Parameters
    ----------
    options : Arguments
        Validated arguments of an estimator.
    rows : ndarray or RowSource, shape (n, ...)
        Training rows, as read.
    y : array-like or None
    names : sequence of str
        Names of the features, or empty.

    Raises
    ------
    InputError
        No labels, all missing or of one class, a feature that repeats them, or another setting uses all labels.
    """
    if options.supervision == "none":
        return None
    if framework_reads_labels(options.framework) or getattr(options, "condition", None) == "labels":
        raise InputError(
            "supervision is 'labels' with another setting that needs a label for every row (framework supcon, or "
            "condition='labels'): leave one of them out"
        )
    if isinstance(options.framework, str) and not isinstance(find("framework", options.framework).build, type):
        raise InputError(
            f"supervision is 'labels', but {options.framework!r} is no framework of pairs of views: use a method with "
            "one, or leave supervision out"
        )
    if not isinstance(rows, np.ndarray):
        raise InputError(
            f"supervision is 'labels', but the {len(rows):,} rows stay on disk: give fewer rows, in memory, or leave "
            "supervision out"
        )
    codes = few_label_codes(y, len(rows))
    if (table := table_of(rows)) is not None:
        names = [table.columns[number].name for number in table.column_of]
    check_no_leak(rows, codes, names)
    return FewLabels(torch.from_numpy(codes), options.supervision_weight)


def described(labels: FewLabels) -> str:
    """A line about the labels that were used, for the summary and the report."""
    used, classes = len(labels.rows), int(labels.codes.max()) + 1
    return f"supervision by labels: {used:,} of {len(labels.codes):,} training rows ({classes} classes)"


#: Characters of the digest of a row.
DIGEST = 12


def digests_of(labels: FewLabels | None, x: np.ndarray | RowSource) -> str:
    """Digests of the content of the labeled rows of `x`, (n, ...), 12 characters each, sorted and joined."""
    if labels is None:
        return ""
    return "".join(sorted(_row_digest(row) for row in x[labels.rows.numpy()]))


def codes_digest(codes: np.ndarray) -> str:
    """Digest of the numbers of the classes or aligned groups of rows, int64 (n,); `Resolved.given` has it of both."""
    return hashlib.sha256(codes.tobytes()).hexdigest()[:16]


def labels_used(model: Any) -> Callable[[Any], np.ndarray] | None:
    """From rows to bool (n,): whether a fitted estimator used their labels (``supervision="labels"``).

    None if it used none. Rows are recognized by their content, so that no other row of equal content is scored either.
    """
    joined = model.resolved_.labeled_rows
    known = {joined[start : start + DIGEST] for start in range(0, len(joined), DIGEST)}
    if not known:
        return None
    return lambda X: np.array([_row_digest(row) in known for row in model.checked_rows(X)], dtype=bool)


def _row_digest(row: np.ndarray) -> str:
    return hashlib.blake2b(np.ascontiguousarray(row).tobytes(), digest_size=DIGEST // 2).hexdigest()
