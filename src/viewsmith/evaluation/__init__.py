"""Evaluation of a representation: protocol, baselines and comparison."""

from viewsmith.evaluation.baselines import pca, umap
from viewsmith.evaluation.compare import compare, format_table
from viewsmith.evaluation.label_free import label_free, neighbor_r2
from viewsmith.evaluation.linear import LinearModel, fit_linear, standardize
from viewsmith.evaluation.protocol import PROTOCOLS, OnlineProbe, evaluate_embedding

__all__ = ["PROTOCOLS", "LinearModel", "OnlineProbe", "compare", "evaluate_embedding", "fit_linear", "format_table"]
__all__ += ["label_free", "neighbor_r2", "pca", "standardize", "umap"]
