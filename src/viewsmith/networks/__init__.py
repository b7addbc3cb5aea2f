"""Encoders, heads and the input layers that belong to a model."""

from viewsmith.networks.mlp import MLP
from viewsmith.networks.scaling import PrincipalAxes, Scaler

__all__ = ["MLP", "PrincipalAxes", "Scaler"]
