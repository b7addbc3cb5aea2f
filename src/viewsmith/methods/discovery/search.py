"""What a search in each kind of data gives to `viewsmith.Discovery`, and the q-values of what it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
from torch import Tensor


class Search(Protocol):
    """Parts of several kinds in samples of one kind of data.

    Attributes
    ----------
    name : str
        Of the domain.
    max_parts : int
        Largest number of parts of a kind in a sample.
    parts : sequence
        One for each kind that recurs.
    tried : sequence of sequences
        For each kind, the solutions among which it was chosen.
    null : sequence of ndarray
        For each kind, sorted scores of what is no part.
    """

    name: ClassVar[str]
    max_parts: int
    parts: Sequence[Any]
    tried: Sequence[Sequence[Any]]
    null: Sequence[np.ndarray]

    def fit(self, X: Any) -> None:
        """Find what recurs; raises InputError for samples or options that cannot be used."""

    def describe(self) -> str:
        """What was found, in one sentence."""

    def candidates(self, X: Any) -> np.ndarray:
        """The best places of every kind in every sample: a structured array with sample, kind, place, score and q."""

    def crops(self, X: Any, found: np.ndarray, size: int) -> Any:
        """What is at these places, as samples."""

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Plain values and tensors of what was fitted."""

    def restore(self, fitted: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Take what `state` gave."""


def q_values(scores: np.ndarray, null: np.ndarray) -> np.ndarray:
    """q-values (n,) of scores against null scores, one of each image (Benjamini and Hochberg 1995).

    The p-value of a score is the fraction of null scores that reach it, the score itself among them.
    """
    ordered = np.sort(null)
    p = (1 + len(null) - np.searchsorted(ordered, scores)) / (1 + len(null))
    order = np.argsort(p)[::-1]
    ranks = np.arange(len(p), 0, -1)
    q = np.empty(len(p))
    q[order] = np.minimum.accumulate(p[order] * len(p) / ranks) if len(p) else p
    return np.minimum(q, 1.0)
