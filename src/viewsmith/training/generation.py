"""Generate a view cache block by block, so that the job can stop, resume and be split into shards."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.core.progress import with_progress
from viewsmith.core.random import stream
from viewsmith.core.row_source import RowSource
from viewsmith.core.samples import take_rows
from viewsmith.data.view_cache import ViewCacheFolder
from viewsmith.views.generated.noise_level import LEVELS, adaptive_levels, random_levels

#: Noise tolerance and quality that were not computed.
NOT_COMPUTED = float("nan")

#: Samples in the units of the data, (n, ...), in memory or on disk.
AnySamples = Tensor | RowSource
#: Maps all rows (n, ...), an index (B,) of rows, their candidates (B, C, ...) and K to the numbers of the candidates to
#: keep, (B, K); -1 for the sample itself.
Choose = Callable[[AnySamples, Tensor, Tensor, int], Tensor]


class ViewGenerator(Protocol):
    """The interface of generators: they make views of samples, in the units of the data.

    Attributes
    ----------
    device : torch.device
        The device of its random streams.
    """

    @property
    def device(self) -> torch.device: ...

    def describe(self) -> dict[str, Any]:
        """Describe the generator in plain JSON values, as part of the record of a view cache.

        ``name`` and ``version`` are required. With ``features``, noise tolerance and quality are computed for every
        kind of noise.
        """
        ...

    def noise_tolerance(self, rows: AnySamples) -> tuple[Tensor, Tensor]:
        """Noise tolerance of all rows, float64 (n,), 0 to 1, and the foreground axis it was computed from, (D,).

        D is 0 if the features have no patches.
        """
        ...

    def quality(self, rows: Tensor, views: Tensor, axis: Tensor) -> Tensor:
        """Quality q of one view of each of some rows, (B,), by the features that gave the noise tolerance."""
        ...

    def generate(
        self, rows: Tensor, index: Tensor, view: int, level: Tensor, streams: Sequence[torch.Generator]
    ) -> Tensor:
        """View number `view` of some rows, (B, ...), from their row numbers, noise levels and random streams."""
        ...


def generate(
    cache: ViewCacheFolder,
    rows: AnySamples,
    generator: ViewGenerator,
    *,
    shard: tuple[int, int] = (1, 1),
    choose: Choose | None = None,
    progress: bool = False,
) -> None:
    """Generate the blocks that are missing in a view cache.

    Any number of processes may do this in one folder at the same time: they share the blocks among them, and each
    returns when all blocks (of its shard) exist.

    Parameters
    ----------
    cache : ViewCacheFolder
        Opened for these rows and this generator.
    rows : Tensor or RowSource, shape (n, ...)
        Samples in the units of the data.
    generator : ViewGenerator
    shard : (int, int)
        (i, n): every n-th block, starting with the i-th, counted from 1.
    choose : callable, optional
        Selects views if the record of the cache has several candidates for each view.
    progress : bool
        Show a progress bar on stderr if it is a terminal.
    """
    record = cache.read_record()
    with cache.claims.hold("levels", wait=True):
        if cache.read_levels() is None:
            cache.write_levels(*find_levels(record, rows, generator))
    known, axis = cache.read_levels(), cache.read_axis()
    assert known is not None
    (part, parts), compared = shard, _needs_features(record)
    todo = [number for number in cache.missing() if number % parts == part - 1]
    with contextlib.closing(cache.claims.each(todo, lambda number: cache.block(number).exists())) as claimed:
        bar = with_progress(claimed, "generate", len(todo), "blocks", after=0) if progress else claimed
        for number in bar:
            index, count = cache.rows_of(number), record["candidates"]
            block, seed = take_rows(rows, index), torch.tensor(cache.seeds(index))
            level = known[1][index].repeat(1, count)
            made = []
            for view in range(seed.shape[1]):
                streams = [torch.Generator(generator.device).manual_seed(each) for each in seed[:, view].tolist()]
                made.append(generator.generate(block, index, view, level[:, view], streams))
            views = torch.stack(made, dim=1)
            if count > 1:
                assert choose is not None
                chosen = choose(rows, index, views, record["views_per_sample"])
                views, seed, level = _take(chosen, block, views), _take(chosen, -1, seed), _take(chosen, -1, level)
            quality = torch.full(seed.shape, NOT_COMPUTED)
            if compared:
                columns = [generator.quality(block, view, axis).float().cpu() for view in views.unbind(1)]
                quality = torch.stack(columns, dim=1)
            cache.write_block(number, views, seed=seed, level=level, quality=quality)
    if not cache.missing():
        cache.finish()
        cache.claims.clear()


def _take(chosen: Tensor, default: Tensor | int, values: Tensor) -> Tensor:
    """Values (B, K, ...) of the candidates with the numbers `chosen`, (B, K), from (B, C, ...); -1: the default."""
    rest = values.new_full((len(values), 1), default) if isinstance(default, int) else default[:, None]
    return torch.cat([rest, values], dim=1)[torch.arange(len(chosen))[:, None], chosen + 1]


def find_levels(record: dict[str, Any], rows: AnySamples, generator: ViewGenerator) -> tuple[Tensor, Tensor, Tensor]:
    """Noise tolerances, float64 (n,), noise levels, int64 (n, K), and foreground axis, (D,), for a cache's record.

    The levels depend on the noise in the record. ``adaptive``: by the tolerance, equal for all views of a sample.
    ``random``: one of the five levels for each view. ``constant:L``: L. ``none``: unknown (-1), for views that exist
    already. With noise other than ``adaptive``, tolerances are computed only if the generator has features; otherwise
    they are NaN and D is 0.
    """
    n, k, noise = len(rows), record["views_per_sample"], record["noise"]
    tolerance, axis = torch.full((n,), NOT_COMPUTED, dtype=torch.float64), torch.zeros(0)
    if _needs_features(record):
        tolerance, axis = (found.cpu() for found in generator.noise_tolerance(rows))
    if noise == "adaptive":
        return tolerance, adaptive_levels(tolerance)[:, None].repeat(1, k), axis
    if noise == "random":
        return tolerance, random_levels(n * k, stream(record["seed"], "levels")).view(n, k), axis
    return tolerance, torch.full((n, k), -1 if noise == "none" else int(noise.partition(":")[2])), axis


def _needs_features(record: dict[str, Any]) -> bool:
    """Whether noise tolerance and quality are computed, which needs features."""
    return record["noise"] == "adaptive" or "features" in record["generator"]


def check_noise(noise: str) -> str:
    """Return `noise` if it is valid for a generator (`find_levels`).

    Raises
    ------
    InputError
        It is not ``adaptive``, ``random`` or ``constant:L`` with a level in range.
    """
    constant = re.fullmatch(r"constant:(\d{1,3})", noise)
    if noise in ("adaptive", "random") or (constant and int(constant[1]) <= LEVELS[-1]):
        return noise
    raise InputError(f"noise is {noise!r}, expected adaptive, random or constant:L with L from 0 to {LEVELS[-1]}")


def parse_shard(text: str) -> tuple[int, int]:
    """Convert the text i/n, such as "2/8", to (i, n).

    Raises
    ------
    InputError
        The text has another form, or i is not between 1 and n.
    """
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise InputError(f"the shard is {text!r}, expected i/n with i from 1 to n, such as 1/4")
    return int(found[1]), int(found[2])
