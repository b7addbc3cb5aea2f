"""Figures of learned noise."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from viewsmith.reports import FeatureProfile, Gallery


def noise_profile(mean: np.ndarray, scale: np.ndarray, names: list[str] | None) -> FeatureProfile:
    """Mean deviation of the noise for each feature, (d,), in standard deviations of the data."""
    return FeatureProfile(
        "Learned noise",
        mean / scale,
        names,
        "mean standard deviation of the noise over the training rows",
        "standard deviations of the data",
    )


def noise_gallery(samples: np.ndarray, made: Mapping[str, np.ndarray]) -> Gallery:
    """Images beside the noise made for them (`PiNDA.noise_parts`)."""
    sigma = made["sigma"]
    # White is the largest sigma; gray is a mean or noise of 0.
    parts = [255 * sigma / max(sigma.max(), 1e-12)]
    parts += [
        127.5 + 127.5 * made[name] / max(abs(made[name]).max(), 1e-12) for name in ("mean", "noise") if name in made
    ]
    tiles = [np.moveaxis(tile.round().astype(np.uint8), 1, 3).reshape(samples.shape) for tile in parts]
    mean = f"its mean (gray 0, white {abs(made['mean']).max():.2g}); " if "mean" in made else ""
    caption = (
        f"Image; standard deviation of its noise (white {sigma.max():.2f}, in standard deviations of the data); {mean}"
        "a draw of the noise; the image with it"
    )
    return Gallery("Learned noise", caption, samples, np.stack([*tiles, made["view"]], axis=1), "pixels")
