"""Pair losses and diagnostics: pure functions of projections and representations. Losses have one value per pair."""

from viewsmith.losses.barlow_twins import barlow_twins
from viewsmith.losses.diagnostics import alignment, effective_rank, feature_std, uniformity
from viewsmith.losses.info_max import importance_weights, info_max, info_max_bound, recurrence, sampled_info_max
from viewsmith.losses.nt_xent import info_nce, moco_info_nce, nt_xent
from viewsmith.losses.numerics import per_sample
from viewsmith.losses.oucl import Logits, margin_regularization, margins, oucl
from viewsmith.losses.quality import attention_pools, foreground_map, pair_quality, quality_weights
from viewsmith.losses.self_distillation import negative_cosine, self_distillation, sinkhorn, swapped_prediction
from viewsmith.losses.sigreg import random_directions, sigreg
from viewsmith.losses.soft_contrastive import soft_contrastive, soft_normalized
from viewsmith.losses.sup_con import rank_n_contrast, sup_con
from viewsmith.losses.vicreg import vicreg

__all__ = ["Logits", "alignment", "attention_pools", "barlow_twins", "effective_rank", "feature_std", "foreground_map"]
__all__ += ["importance_weights", "info_max", "info_max_bound", "info_nce", "margin_regularization", "margins"]
__all__ += ["moco_info_nce", "negative_cosine", "nt_xent", "oucl", "pair_quality", "per_sample", "quality_weights"]
__all__ += ["random_directions", "rank_n_contrast", "recurrence", "sampled_info_max", "self_distillation", "sigreg"]
__all__ += ["sinkhorn", "soft_contrastive", "soft_normalized", "sup_con", "swapped_prediction", "uniformity", "vicreg"]
