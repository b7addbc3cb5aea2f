"""Rows of the training on disk, fingerprints of rows, and views drawn block by block."""

import contextlib
import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from viewsmith.core import distributed
from viewsmith.core.errors import InputError, warn
from viewsmith.core.files import read_mapped, write_mapped
from viewsmith.core.progress import with_progress
from viewsmith.core.random import stream
from viewsmith.core.rows import ArrayRows, RowSource, row_blocks, too_large_for_memory
from viewsmith.core.samples import Rows, Samples, batches, block_size, blocks, evenly_spaced, shared_tensor
from viewsmith.core.schedule import Method
from viewsmith.data.map_style import is_map_style
from viewsmith.estimator.plan import Facts
from viewsmith.modalities.images.channels import is_pil
from viewsmith.networks.scaling import PrincipalAxes

# Widest rows that are kept as they are where the encoder has no principal axes.
WIDEST = 200


def training_rows(method: Method, x: Rows, file: Path | None, *, max_rows: int | None = None, seed: int = 0) -> Rows:
    """The rows to train on: those given, or of rows on disk their coordinates, float32 (n, k), mapped from a file, if
    the method `takes_coordinates`, or a copy if their file can only be read in order."""
    if isinstance(x, Tensor) or not isinstance(x.rows, RowSource):
        return x
    rows = x.rows
    if not method.takes_coordinates or rows.ndim > 2:
        if rows.by_index:
            return x
        copy = _shared(rows.blocks(), rows.shape, file, rows.dtype)
        return Samples(ArrayRows(copy, rows.name, rows.dtype), x.scale)
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


def _shared(
    parts: Iterator[np.ndarray], shape: tuple[int, ...], file: Path | None, dtype: Any = np.float32
) -> np.ndarray:
    """Rows in a file that all processes map; without a name for it, each has its own."""
    if file is None:
        return write_mapped(parts, shape, dtype=dtype)
    if distributed.rank() == 0:
        write_mapped(parts, shape, file, dtype)
    distributed.barrier()
    return read_mapped(file)


#: From scaled rows, the slice of all rows that they are, and a random stream to views of these rows.
Draw = Callable[[Tensor, slice, torch.Generator], Tensor]

#: Rows of a training of which a run keeps a hash each: at most 800 kB.
MOST_HASHED = 100_000


def fingerprint(x: np.ndarray | RowSource) -> str:
    """Short digest of the content of rows, the same in memory and read block by block."""
    digest = hashlib.sha256()
    for block in row_blocks(x):
        digest.update(np.ascontiguousarray(block).data)
    return digest.hexdigest()[:16]


def row_hashes(x: np.ndarray | RowSource) -> Tensor | None:
    """A number for the content of each row, int64 (n,), to find it in other data; None for more than `MOST_HASHED`
    rows, and rows too large for memory."""
    if len(x) > MOST_HASHED or too_large_for_memory(x):
        return None
    rows = (row for block in row_blocks(x) for row in np.asarray(block))
    # Zeros at the end are left out: sequences are padded by them, in another file perhaps to another length.
    digests = (hashlib.blake2b(row.tobytes().rstrip(b"\0"), digest_size=8).digest() for row in rows)
    return torch.frombuffer(bytearray(b"".join(digests)), dtype=torch.int64)


def device_of(*modules: nn.Module) -> torch.device:
    """The device of the first tensor of these modules; an input layer may have none."""
    return next(itertools.chain(*((*m.buffers(), *m.parameters()) for m in modules))).device


def unscaled(rows: np.ndarray | RowSource) -> Tensor | RowSource:
    """Rows as the input layer takes them: a tensor that shares their memory, or the source itself."""
    return rows if isinstance(rows, RowSource) else shared_tensor(rows)


def represent_blocks(
    represent: Callable[[Tensor], Tensor], rows: np.ndarray | RowSource, views_a_row: int, progress: bool
) -> Iterator[np.ndarray]:
    """What `represent` makes of unscaled rows, float32, block by block in order."""
    parts: Iterable[tuple[Tensor, int]] = blocks(unscaled(rows), views_a_row)
    if progress:
        parts = with_progress(parts, "transform", len(rows), "rows", size=lambda part: part[1])
    for block, count in parts:
        with torch.no_grad():
            made = represent(block)
        yield made.float()[:count].cpu().numpy()


@contextlib.contextmanager
def prepared(method: Method, pool: Rows, seed: int) -> Iterator[None]:
    """The method with a pool of scaled rows, if its views use other rows."""
    try:
        if method.needs_pool:
            if len(pool) < 2:
                raise InputError(
                    "views of this model need other rows: expected at least two rows, got one; give pool=rows"
                )
            with torch.no_grad():
                method.prepare(pool, seed)
        yield
    finally:
        method.release()


def view_blocks(draw: Draw, x: Rows, n_views: int, seed: int) -> Iterator[np.ndarray]:
    """Views of scaled rows, block by block in order, with one random stream for each view: (b, n_views, ...)."""
    size = block_size(x[:1])
    generators = [stream(seed, "views", number, device=x.device) for number in range(n_views)]
    parts = [slice(start, min(start + size, len(x))) for start in range(0, len(x), size)]
    for part, block in zip(parts, batches(x, parts), strict=True):
        with torch.no_grad():
            yield torch.stack([draw(block, part, generator).cpu() for generator in generators], dim=1).numpy()


def drawn(model: Any, X: Any, x: Rows, index: Tensor | None, n_views: int, seed: int) -> Iterator[np.ndarray]:
    """Views of X (scaled: x, the rows `index` of the pool) in the units of the data, (b, n_views, ...)."""

    def view(block: Tensor, part: slice, generator: torch.Generator) -> Tensor:
        positions = None if index is None else index[part]
        made: Tensor = model.scaler_.inverse(model.method_.view(block, index=positions, generator=generator))
        return made

    for views in view_blocks(view, x, n_views, seed):
        yield model.modality_.in_input_format(views, extent(X, model.facts_))


@torch.no_grad()
def embed_views(method: Method, x: Rows, index: Tensor | None, seed: int) -> Iterator[np.ndarray]:
    """Representations of a view of each scaled row (of row `index` of the pool), float32, block by block in order."""
    generator, size = stream(seed, "views", device=x.device), block_size(x[:1])
    for start in range(0, len(x), size):
        part = slice(start, start + size)
        views = method.view(x[part], index=None if index is None else index[part], generator=generator)
        yield method.represent(views).float().cpu().numpy()


def collected(parts: Iterable[np.ndarray], n_rows: int) -> np.ndarray:
    """Blocks of `n_rows` rows as one array."""
    made: np.ndarray | None = None
    done = 0
    for part in parts:
        # Filled in place: collected parts and their concatenation would take twice the memory.
        made = np.empty((n_rows, *part.shape[1:]), part.dtype) if made is None else made
        made[done : done + len(part)] = part
        done += len(part)
    assert made is not None
    return made


def extent(X: Any, facts: Facts) -> tuple[int, ...]:
    """Shape of the user's samples, (n, ...); of a dataset, and a list of samples of any lengths, that of the rows they
    were read as."""
    as_read = is_map_style(X) or (isinstance(X, list) and any(map(is_pil, X)))
    as_read = as_read or (isinstance(X, list) and len({np.shape(each) for each in X}) > 1)
    return (len(X), *facts.row_shape) if as_read else np.shape(X)


# ---- rows off the scale of the fit -----------------------------------------------------------------------------------
SEEN, SEEN_VALUES = 1000, 2**24  # rows that are looked at, and values, of which large rows have many

# Times the size of the training rows from which on, and times their spread up to which, new ones are off their scale.
# Test parts of 16 sets: 0.97 to 1.04 and 0.88 to 1.12; batches and subjects held out: at most 1.6 and at least 0.37;
# whole classes held out: at most 2.6 and at least 0.27.
FAR, NEAR = 6.0, 0.03
FEWEST = 10  # rows of which a spread says something


def reach(x: Tensor) -> dict[str, float]:
    """Median and largest root mean square of scaled rows (n, ...), and their spread: the root mean square of the
    standard deviations of their values. Values that are not known (NaN) are left out of the former, and 0 in the
    latter."""
    rows = x.flatten(1).double()
    size = rows.square().nanmean(1).sqrt()
    spread = rows.nan_to_num().var(0, correction=0).mean().sqrt()
    return {"size": float(size.median()), "largest": float(size.max()), "spread": float(spread)}


def reach_of(x: Rows) -> dict[str, float]:
    """`reach` of up to `SEEN` training rows; empty if they are not finite."""
    found = reach(x[evenly_spaced(len(x), _seen(x))])
    finite = all(map(math.isfinite, found.values()))
    return {name: float(f"{value:.6g}") for name, value in found.items() if finite}


def some_of(rows: Any) -> Any:
    """Up to `SEEN` rows, spread evenly unless the rows can only be read in order."""
    if isinstance(rows, RowSource) and not rows.by_index:
        return rows[: _seen(rows)]
    return rows[evenly_spaced(len(rows), _seen(rows)).numpy()]


def _seen(rows: Any) -> int:
    """How many rows are looked at: fewer large ones, which are scaled in memory together."""
    return max(FEWEST, min(SEEN, SEEN_VALUES // max(1, math.prod(rows[:1].shape[1:]))))


def warn_off_scale(x: Tensor, fitted: dict[str, float]) -> None:
    """Warn of new scaled rows (n, ...) that are much larger than those of the fit, or differ much less."""
    if not fitted or not len(x):
        return
    found = reach(x)
    advice = "are units and preprocessing the same?"
    if not found["size"] <= max(FAR * fitted["size"], fitted["largest"]):
        times = float(f"{found['size'] / max(fitted['size'], 1e-30):.0e}")
        warn(f"the rows are off the scale of the fit, {times:,.0f} times as large as its rows after scaling: {advice}")
    elif len(x) >= FEWEST and 0 < found["spread"] < NEAR * fitted["spread"]:
        times = found["spread"] / fitted["spread"]
        warn(f"the rows are off the scale of the fit, their spread is {times:.1g} of that of its rows: {advice}")
