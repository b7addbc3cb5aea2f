"""Images that are not the same as their mirror images."""

import numpy as np


def strokes(n=120, mirrored=False):
    """Images with a stroke from the upper left to the lower right; half of them mirrored if `mirrored`."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 40, (n, 16, 16)).astype(np.uint8)
    for image, shift in zip(x, rng.integers(-3, 4, n), strict=True):
        for i in range(16):
            image[i, np.clip(i + shift, 0, 15)] = 255
    return np.where((rng.random(n) < 0.5)[:, None, None], x[:, :, ::-1], x) if mirrored else x
