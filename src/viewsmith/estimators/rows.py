"""From what users hold to rows of a domain, and between rows and the scaled batches that networks take."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.random import stream
from viewsmith.core.samples import Rows
from viewsmith.domains.checks import find_domain, to_rows
from viewsmith.domains.dna import dna_rows, kmer_frequencies
from viewsmith.domains.images import image_rows, same_shape
from viewsmith.networks.inputs.nucleotides import Nucleotides
from viewsmith.networks.inputs.pixels import Pixels
from viewsmith.networks.inputs.scaling import Scaler

BLOCK = 1024
BLOCK_VALUES = 4_000_000
IMAGE_BLOCK = 64
IMAGE_VALUES = 400_000

#: What is made of some of the rows with a random stream.
Draw = Callable[[slice, torch.Generator], Tensor]


def domain_of(X: Any, domain: str) -> str:
    """The domain of what was given to fit; "auto" looks at it.

    Texts, in a list or a column, are DNA, and a list of arrays is images; arrays are told by dtype and shape
    (`viewsmith.domains.checks.find_domain`); DataFrames and sparse matrices are vectors.
    """
    if domain != "auto":
        return domain
    if _is_text(X):
        return "dna"
    if isinstance(X, list | tuple) and X and not isinstance(X[0], list | tuple) and np.ndim(X[0]) > 1:
        return "images"
    if hasattr(X, "detach"):
        X = to_rows(X)[0]
    if isinstance(X, np.ndarray):
        if X.dtype == np.uint8 and X.ndim >= 2 and X.size:
            return find_domain(X)
        if X.ndim in (3, 4):
            return find_domain(X)
    return "vectors"


def _is_text(X: Any) -> bool:
    """Whether it is a text, or a list, an array or a column of a DataFrame that begins with one."""
    if getattr(X, "ndim", 0) == 1:
        X = np.asarray(X)[:1].tolist()
    return isinstance(X, str | bytes) or (isinstance(X, list | tuple) and bool(X) and isinstance(X[0], str | bytes))


def array_rows(X: Any, domain: str, row_shape: Sequence[int] | None) -> np.ndarray:
    """uint8 images or DNA letters from what was given, checked; images must be of `row_shape` where that is known."""
    if hasattr(X, "detach"):
        X = to_rows(X)[0]
    if X is None or hasattr(X, "tocsr"):
        kind = "a list of texts or letters, uint8 (n, L)" if domain == "dna" else "an array, uint8 (n, H, W, channels)"
        raise InputError(f"the data are a {type(X).__name__}, expected {kind}, for the domain {domain!r}")
    if domain == "dna":
        return dna_rows(X)
    rows = image_rows(X)  # (n, H, W, C)
    given = np.shape(X)[1:]
    shape = given if row_shape is None else tuple(row_shape)
    if not same_shape(rows.shape[1:], shape):
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
    values = max(1, math.prod(x.shape[1:]))
    if x.dtype == torch.uint8 or x.ndim > 2:
        return max(4, min(IMAGE_BLOCK, IMAGE_VALUES // values))
    return max(1, min(BLOCK, BLOCK_VALUES // values))


def blocks(x: Tensor, views: int = 1) -> Iterator[tuple[Tensor, int]]:
    """Blocks of one size with their counts of rows, the last filled up: matrix products then round alike.

    The more `views` of each row are looked at, the smaller they are.
    """
    size = max(1, block_size(x) // views)
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
    return {"one-hot bases": scaled.flatten(1).numpy(), "4-mer frequencies": kmer_frequencies(rows)}


@torch.no_grad()
def draw_views(draw: Draw, x: Rows, n_views: int, seed: int) -> np.ndarray:
    """What `draw` makes of scaled rows, block by block, with a random stream for each view: (n, n_views, ...)."""
    size, made = block_size(x[:1]), []
    parts = [slice(start, start + size) for start in range(0, len(x), size)]
    for number in range(n_views):
        generator = stream(seed, "views", number, device=x.device)
        made.append(torch.cat([draw(part, generator).cpu() for part in parts]))
    return torch.stack(made, dim=1).numpy()
