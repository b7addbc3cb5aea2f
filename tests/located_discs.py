"""Images of noise with violet discs, and where these are."""

import numpy as np

SIDE = 64


def noise(n, seed=0, height=SIDE, width=SIDE):
    """Colored noise, smooth over some pixels."""
    rng = np.random.default_rng(seed)
    coarse = rng.normal(128, 25, (n, height // 4, width // 4, 3)).repeat(4, 1).repeat(4, 2)
    return np.clip(coarse + rng.normal(0, 8, coarse.shape), 0, 255).astype(np.uint8)


def with_discs(n, seed=0, per_image=1, height=SIDE, width=SIDE):
    """Noise with violet discs of radius 9, and their centers (n, per_image, 2), row and column."""
    x, rng = noise(n, seed, height, width), np.random.default_rng(seed + 1)
    row, column = np.mgrid[:height, :width]
    centers = np.zeros((n, per_image, 2), int)
    for i in range(n):
        for j in range(per_image):
            left = 12 + j * width // per_image
            centers[i, j] = rng.integers(12, height - 12), rng.integers(left, (j + 1) * width // per_image - 12)
            disc = (row - centers[i, j, 0]) ** 2 + (column - centers[i, j, 1]) ** 2 < 81
            x[i][disc] = np.clip(rng.normal((110, 40, 160), 10, (disc.sum(), 3)), 0, 255)
    return x, centers
