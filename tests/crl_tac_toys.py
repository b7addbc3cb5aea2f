"""Settings and small data of the tests of CRL-TAC."""

import numpy as np
import torch
from torch import nn

TINY = {"epochs": 1, "batch_size": 8, "random_state": 0, "draws": 2, "channel_rows": 4}


def images(n=16, shape=(28, 32), seed=0):
    rng = np.random.default_rng(seed)
    x = np.zeros((n, *shape), np.uint8)
    x[:, 4:20, 8:24] = rng.integers(0, 256, (n, 16, 16, *shape[2:]))
    return x


def vectors(n=16):
    return np.random.default_rng(0).normal(size=(n, 9)).astype(np.float32)


def dna(n=16):
    return np.frombuffer(b"ACGT", np.uint8)[np.random.default_rng(0).integers(0, 4, (n, 41))].copy()


def randomized(network):
    """The network with random weights."""
    torch.manual_seed(0)
    for weight in network.parameters():
        nn.init.normal_(weight, std=0.3)
    return network


def overlap(a, b):
    """Intersection over union of two boxes (top, left, height, width)."""
    down = max(0.0, min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0]))
    across = max(0.0, min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1]))
    return down * across / (a[2] * a[3] + b[2] * b[3] - down * across)


DATA = {"vectors": vectors, "images": images, "dna": dna}
