"""Samples and their views in the fixed features of a modality: how far views are from other samples, and their own.

Distances are Euclidean, in the first principal components of standardized features. Features and components are fitted
to samples alone, in seconds and without labels.
"""

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch import Tensor

from viewsmith.networks.features import Features
from viewsmith.networks.projected import leading_axes

COMPONENTS = 64
BLOCK = 256
#: Part of the median deviation that a feature is divided by at least: one that hardly varies among samples, as the
#: corner of digits, would otherwise be all that is seen of views.
LEAST = 0.1


class FeatureSpace:
    """Principal coordinates of standardized fixed features, fitted to scaled samples x (n, ...): of the samples,
    `standard` (n, d) has the features and `coordinates` (n, k) at most 64 axes."""

    def __init__(self, features: Features, x: Tensor) -> None:
        self.features = features
        found = self.features_of(x)
        self.center, deviation = found.mean(0), found.std(0, correction=0)
        varying = deviation[deviation > 0]
        self.scale = deviation.clamp_min(LEAST * float(varying.median()) if len(varying) else 1.0)
        self.standard = (found - self.center) / self.scale
        n, d = self.standard.shape
        k = min(COMPONENTS, n, d)
        if n < d:  # by the smaller of both matrices of second moments
            values, left = leading_axes(self.standard @ self.standard.T, k)
            self.axes = self.standard.T @ left / values.clamp_min(1e-12).sqrt()
        else:
            self.axes = leading_axes(self.standard.T @ self.standard, k)[1]
        self.coordinates = self.projected(self.standard)

    @torch.no_grad()
    def features_of(self, x: Tensor) -> Tensor:
        """Features of scaled samples (n, ...), (n, d)."""
        return torch.cat([self.features(block) for block in x.split(BLOCK)])

    def standardized(self, x: Tensor) -> Tensor:
        """Standardized features of scaled samples, (n, d)."""
        return (self.features_of(x) - self.center) / self.scale

    def projected(self, standard: Tensor) -> np.ndarray:
        """Coordinates of standardized features (n, d), (n, k)."""
        return np.asarray((standard @ self.axes).cpu().numpy(), np.float64)


def nearest(queries: np.ndarray, rows: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """Distance of each query to the nearest row of another kind (an equal sample, or one of its group, is no other)."""
    found = np.empty(len(queries))
    for start in range(0, len(queries), 500):
        block = slice(start, start + 500)
        distance = cdist(queries[block], rows)
        distance[kinds[block][:, None] == kinds] = np.inf
        found[block] = distance.min(1)
    return found


def ratio_of_medians(distances: np.ndarray, of_samples: np.ndarray) -> float:
    """The median of distances, over that of samples."""
    return float(np.median(distances) / max(float(np.median(of_samples)), 1e-12))
