"""Figures of augmented features."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from viewsmith.reports import SimilarityHistogram


def feature_similarities(made: Mapping[str, np.ndarray], views: int) -> SimilarityHistogram:
    """Similarity of features of two views, of the same sample and of different samples (MetAug: figure 2).

    Parameters
    ----------
    made : mapping
        Result of `MetAug.feature_views` with one view of each sample.
    views : int
        Number of views, M.
    """
    z, a = (part[:, 0].reshape(len(part), views, -1) for part in (made["features"], made["augmented"]))
    apart = ~np.eye(len(z), dtype=bool)
    found = {}
    for kind, first in (("augmented", a), ("original", z)):
        cosines = first[:, 0] @ z[:, 1].T  # the first view's features with the second's originals
        found[f"same sample, {kind}"] = np.diagonal(cosines)
        if len(z) > 1:
            found[f"others, {kind}"] = cosines[apart]
    caption = f"Features of two views of {len(z)} rows: of the same row, and of different ones"
    return SimilarityHistogram("Similarity of features", found, caption, of="features")
