"""Which rows of a data set are scored: with labels, and not those whose labels were used in training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.domains.few_labels import MISSING, missing_labels
from viewsmith.domains.targets import without_label


@dataclass(frozen=True)
class ScoredRows:
    """Rows on which classifiers are fitted and scored.

    Attributes
    ----------
    train, test : bool arrays (n,) and (m,)
        Train rows with a label, and test rows with a label that was not used in training.
    unlabeled, used : int
        Test rows that are left out because they have no label, or because their label was used.
    """

    train: np.ndarray
    test: np.ndarray
    unlabeled: int
    used: int


def scored_rows(dataset: Any, label_used: Callable[[Any], np.ndarray] | None) -> ScoredRows:
    """The rows to score.

    Parameters
    ----------
    dataset : LabeledSplit
    label_used : callable or None
        Maps rows to bool (n,): whether their labels were used in training. None: no labels were used.

    Raises
    ------
    InputError
        No train row, or no test row, is left.
    """
    train, test = (np.ones(len(y), dtype=bool) for y in (dataset.y_train, dataset.y_test))
    if label_used is not None or getattr(dataset, "partly_labeled", False):
        train, test = (~_absent(np.asarray(y), dataset) for y in (dataset.y_train, dataset.y_test))
    unlabeled, used = int((~test).sum()), 0
    if label_used is not None:
        seen = label_used(dataset.x_test) & test
        used, test = int(seen.sum()), test & ~seen
    for mask, rows in ((train, "train"), (test, "test")):
        if not mask.any():
            why = f"their labels are missing ({MISSING}) or were used in training"
            raise InputError(f"no {rows} row is left to score: {why}; give more labels, or other test rows")
    return ScoredRows(train, test, unlabeled, used)


def _absent(y: np.ndarray, dataset: Any) -> np.ndarray:
    """Which rows have no label; floats of a data set that does not say that they are numbers may be classes."""
    return without_label(y) if getattr(dataset, "target", "class") == "number" else missing_labels(y)
