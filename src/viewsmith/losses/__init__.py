"""Pair losses and diagnostics: pure functions on embeddings, one value per pair."""

from viewsmith.losses.diagnostics import alignment, effective_rank, feature_std, uniformity
from viewsmith.losses.nt_xent import info_nce, nt_xent

__all__ = ["alignment", "effective_rank", "feature_std", "info_nce", "nt_xent", "uniformity"]
