"""Training rows that are on disk: what the training reads in their place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from viewsmith.core import distributed
from viewsmith.core.errors import InputError
from viewsmith.core.mapped import read_mapped, write_mapped
from viewsmith.core.method import Method
from viewsmith.core.random import stream
from viewsmith.core.row_source import ArrayRows, RowSource
from viewsmith.core.samples import Rows, Samples, blocks
from viewsmith.networks.inputs.scaling import PrincipalAxes

# Widest rows that are kept as they are where the encoder has no principal axes.
WIDEST = 200


def training_rows(method: Method, x: Rows, file: Path | None, *, max_rows: int | None = None, seed: int = 0) -> Rows:
    """The rows to train on: those given, or of rows on disk what all of the training sees of them.

    Where the encoder and the views see rows on disk only through the encoder's principal axes
    (`Method.takes_coordinates`), their coordinates are computed once and written to a file, which is mapped into
    memory: float32 (n, k). Other methods read the rows themselves, batch by batch, from a copy if the rows of their
    file can only be read in order.

    Parameters
    ----------
    method : Method
        With fitted axes.
    x : Tensor or Samples, n rows
    file : Path, optional
        Where the coordinates are written, by the first process for all; default: a temporary file of each process.
    max_rows : int, optional
        Number of rows of which coordinates are computed, at most: random ones, drawn with the seed, in their order.
    seed : int

    Raises
    ------
    InputError
        Neighbors of the rows would be searched in memory, and the rows are too wide for that.
    """
    if isinstance(x, Tensor) or not isinstance(x.rows, RowSource):
        return x
    rows = x.rows
    if not method.takes_coordinates or rows.ndim > 2:
        if rows.by_index:
            return x
        return Samples(ArrayRows(_shared(rows.blocks(), rows.shape, file), rows.name), x.scale)
    if max_rows is not None and len(rows) > max_rows and not rows.small:
        drawn = torch.randperm(len(rows), generator=stream(seed, "rows"))[:max_rows]
        rows = rows.select(drawn.sort().values.numpy())
    axes = next((m for m in method.modules() if isinstance(m, PrincipalAxes)), None)
    width = rows.shape[1] if axes is None else axes.axes.shape[1]
    if width > WIDEST and axes is None and not rows.small:
        raise InputError(
            f"{rows.name} has {width:,} features, of rows that stay on disk: neighbors are searched on at most "
            f"{WIDEST} principal axes, give their number with input_components (auto: 50) and the encoder mlp"
        )

    def coordinates() -> Iterator[np.ndarray]:
        for block, count in blocks(rows):
            with torch.no_grad():
                scaled = x.scale(block)
                found = scaled if axes is None else axes(scaled)
            yield found[:count].numpy()

    return torch.from_numpy(_shared(coordinates(), (len(rows), width), file))


def _shared(parts: Iterator[np.ndarray], shape: tuple[int, ...], file: Path | None) -> np.ndarray:
    """Rows in a file that all processes map; without a name for it, each has its own."""
    if file is None:
        return write_mapped(parts, shape)
    if distributed.rank() == 0:
        write_mapped(parts, shape, file)
    distributed.barrier()
    return read_mapped(file)
