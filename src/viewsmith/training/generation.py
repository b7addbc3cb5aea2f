"""Generating views as a job: blocks of samples fixed by their ids, so that it stops, resumes and shards at will."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.core.progress import with_progress
from viewsmith.core.random import stream
from viewsmith.data.view_cache import ViewCacheFolder
from viewsmith.views.generated.noise_level import LEVELS, adaptive_levels, random_levels

#: The fraction of a sample for which none was computed.
UNKNOWN = float("nan")


class ViewGenerator(Protocol):
    """Anything that makes a view of each sample, in the units of the data.

    Attributes
    ----------
    device : torch.device
        Where its random streams have to be.
    """

    @property
    def device(self) -> torch.device: ...

    def describe(self) -> dict[str, Any]:
        """What it is, in plain JSON values, with ``name`` and ``version``: caches with other values are other caches.

        With ``features`` where fractions and quality are computed for every kind of noise.
        """
        ...

    def noise_tolerance(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """How much noise each of all rows tolerates, float64 (n,), from 0 to 1.

        Also the axis of the foreground, (D,), from which it was computed; of width 0 where there are no patches.
        """
        ...

    def quality(self, rows: Tensor, views: Tensor, axis: Tensor) -> Tensor:
        """q of some rows and a view of each, (B,), by the features that gave the fractions."""
        ...

    def generate(
        self, rows: Tensor, index: Tensor, view: int, level: Tensor, streams: Sequence[torch.Generator]
    ) -> Tensor:
        """View number `view` of some rows, (B, ...) like them, from their ids, noise levels and random streams."""
        ...


def generate(
    cache: ViewCacheFolder,
    rows: Tensor,
    generator: ViewGenerator,
    *,
    shard: tuple[int, int] = (1, 1),
    progress: bool = False,
) -> None:
    """Make the blocks that are missing in a cache of views.

    Any number of processes may do this in one folder at the same time: they share the blocks among them, and each
    returns when all blocks (of its shard) exist.

    Parameters
    ----------
    cache : ViewCacheFolder
        Opened for these rows and this generator.
    rows : Tensor, shape (n, ...)
        Samples in the units of the data.
    generator : ViewGenerator
    shard : (int, int)
        i of n: every n-th block, from the i-th on, counted from 1.
    progress : bool
        Show a bar with the time left on stderr when that is a terminal.
    """
    record = cache.read_record()
    with cache.claims.hold("levels", wait=True):
        if cache.read_levels() is None:
            cache.write_levels(*find_levels(record, rows, generator))
    known, axis = cache.read_levels(), cache.read_axis()
    assert known is not None
    (part, parts), measured = shard, _measured(record)
    todo = [number for number in cache.missing() if number % parts == part - 1]
    with contextlib.closing(cache.claims.each(todo, lambda number: cache.block(number).exists())) as claimed:
        bar = with_progress(claimed, "generate", len(todo), "blocks", after=0) if progress else claimed
        for number in bar:
            index = cache.rows_of(number)
            block, level, seeds = rows[index], known[1][index], cache.seeds(index)
            views, quality = [], []
            for view in range(record["views_per_sample"]):
                streams = [torch.Generator(generator.device).manual_seed(own[view]) for own in seeds]
                views.append(generator.generate(block, index, view, level[:, view], streams))
                q = generator.quality(block, views[-1], axis) if measured else torch.full((len(block),), UNKNOWN)
                quality.append(q.float().cpu())
            cache.write_block(number, torch.stack(views, dim=1), torch.stack(quality, dim=1))
    if not cache.missing():
        cache.finish()
        cache.claims.clear()


def find_levels(record: dict[str, Any], rows: Tensor, generator: ViewGenerator) -> tuple[Tensor, Tensor, Tensor]:
    """Fractions, float64 (n,), noise levels, int64 (n, K), and axis, (D,), for the noise in a cache's record.

    ``adaptive``: by the fraction, the same for all views of a sample; ``random``: one of the five levels for each view;
    ``constant:L``: L; ``none``: views that exist already, of unknown level (-1). Except for ``adaptive``, fractions are
    computed only where the generator was given features; else they are NaN, and there is no axis.
    """
    n, k, noise = len(rows), record["views_per_sample"], record["noise"]
    fraction, axis = torch.full((n,), UNKNOWN, dtype=torch.float64), torch.zeros(0)
    if _measured(record):
        fraction, axis = (found.cpu() for found in generator.noise_tolerance(rows))
    if noise == "adaptive":
        return fraction, adaptive_levels(fraction)[:, None].repeat(1, k), axis
    if noise == "random":
        return fraction, random_levels(n * k, stream(record["seed"], "levels")).view(n, k), axis
    return fraction, torch.full((n, k), -1 if noise == "none" else int(noise.partition(":")[2])), axis


def _measured(record: dict[str, Any]) -> bool:
    """Whether fractions and quality are computed."""
    return record["noise"] == "adaptive" or "features" in record["generator"]


def check_noise(noise: str) -> str:
    """The noise itself.

    Raises
    ------
    InputError
        It is none that a generator can be asked for (`find_levels`).
    """
    constant = re.fullmatch(r"constant:(\d{1,3})", noise)
    if noise in ("adaptive", "random") or (constant and int(constant[1]) <= LEVELS[-1]):
        return noise
    raise InputError(f"noise is {noise!r}, expected adaptive, random or constant:L with L from 0 to {LEVELS[-1]}")


def parse_shard(text: str) -> tuple[int, int]:
    """ "2/8" as (2, 8).

    Raises
    ------
    InputError
        It is no such text, or out of range.
    """
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise InputError(f"the shard is {text!r}, expected i/n with i from 1 to n, such as 1/4")
    return int(found[1]), int(found[2])
