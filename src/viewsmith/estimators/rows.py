"""From what users hold to rows of a domain, and between rows and the scaled batches that networks take."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.data.check import find_domain, to_rows
from viewsmith.data.dna import dna_rows
from viewsmith.data.images import image_rows
from viewsmith.networks.nucleotides import Nucleotides, kmer_counts
from viewsmith.networks.pixels import Pixels
from viewsmith.networks.scaling import Scaler

BLOCK = 1024
BLOCK_VALUES = 4_000_000
IMAGE_BLOCK = 64


def domain_of(X: Any, domain: str) -> str:
    """The domain of what was given to fit; "auto" looks at it.

    Text is DNA; arrays are told by dtype and shape (`viewsmith.data.check.find_domain`); DataFrames and sparse matrices
    are vectors.
    """
    if domain != "auto":
        return domain
    if isinstance(X, list | tuple) and X and all(isinstance(x, str | bytes) for x in X):
        return "dna"
    if hasattr(X, "detach"):
        X = to_rows(X)[0]
    if isinstance(X, np.ndarray):
        if X.dtype.kind in "SU" and X.ndim == 1:
            return "dna"
        if X.dtype == np.uint8 and X.ndim >= 2 and X.size:
            return find_domain(X)
        if X.ndim in (3, 4):
            return find_domain(X)
    return "vectors"


def array_rows(X: Any, domain: str, row_shape: Sequence[int] | None) -> np.ndarray:
    """uint8 images or DNA letters from what was given, checked; images must be of `row_shape` where that is known."""
    if hasattr(X, "detach"):
        X = to_rows(X)[0]
    if domain == "dna":
        return dna_rows(X)
    rows = image_rows(X)  # (n, H, W, C)
    given = np.shape(X)[1:]
    shape = given if row_shape is None else tuple(row_shape)
    if rows.shape[1:] != (*shape, 1)[:3]:
        raise InputError(f"the images have shape {given}, but the model was fitted on {shape}")
    return rows.reshape(-1, *shape)


def make_input(domain: str, row_shape: Sequence[int]) -> Scaler | Pixels | Nucleotides:
    """What turns rows of a domain into scaled batches, with nothing fitted yet."""
    if domain == "images":
        return Pixels(row_shape)
    return Nucleotides() if domain == "dna" else Scaler(row_shape[0])


def fit_input(module: nn.Module, raw: Tensor, scaling: str) -> str:
    """Take the statistics of the training rows; returns the scaling used."""
    return "none" if isinstance(module, Nucleotides) else str(module.fit(raw, scaling))  # type: ignore[operator]


def block_size(x: Tensor) -> int:
    """Rows to handle at once: many vectors, fewer images or sequences, whose activations are large."""
    if x.dtype == torch.uint8 or x.ndim > 2:
        return IMAGE_BLOCK
    return max(1, min(BLOCK, BLOCK_VALUES // max(1, x.shape[1])))


def blocks(x: Tensor) -> Iterator[tuple[Tensor, int]]:
    """Blocks of one size with their counts of rows, the last filled up: matrix products then round alike."""
    size = block_size(x)
    for start in range(0, len(x), size):
        block = x[start : start + size]
        count = len(block)
        if count < size:
            block = torch.cat([block, block.new_zeros(size - count, *block.shape[1:])])
        yield block, count


def fingerprint(x: np.ndarray) -> str:
    """Short name of an array's content."""
    return hashlib.sha256(np.ascontiguousarray(x).data).hexdigest()[:16]


def raw_features(rows: np.ndarray, domain: str, module: nn.Module) -> dict[str, np.ndarray]:
    """What a user would take without a model, (n, d): scaled vectors; pixels / 255; one-hot DNA or its 4-mers."""
    if domain == "images":
        return {"pixels / 255": rows.reshape(len(rows), -1).astype(np.float32) / 255}
    with torch.no_grad():
        device = next(module.buffers()).device
        scaled = module(torch.from_numpy(rows).to(device)).cpu()
    if domain == "vectors":
        return {"scaled values": scaled.numpy()}
    return {"one-hot bases": scaled.flatten(1).numpy(), "4-mer frequencies": kmer_counts(scaled).numpy()}
