"""Settings and small data of the tests of CRL-TAC."""

import numpy as np

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


DATA = {"vectors": vectors, "images": images, "dna": dna}
