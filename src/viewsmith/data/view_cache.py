"""A view cache on disk: processes write its views block by block, and trainings read them by index."""

import contextlib
import csv
import io
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from viewsmith.core.errors import InputError, undamaged
from viewsmith.core.files import atomic_path, read_json, write_json_atomic
from viewsmith.core.rows import RowSource, stamp
from viewsmith.core.tensors import DamageError, derive_seed, load_tensors, position_of, read_tensors, save_tensors
from viewsmith.data.places import VIEW_CACHE, check_view_cache
from viewsmith.data.reading import Claims


@dataclass(frozen=True)
class Block:
    """The views (b, K, ...) in a file: position of their first byte, shape, type, and size and date of the file."""

    path: Path
    position: int
    shape: tuple[int, ...]
    dtype: Any
    stamp: tuple[int, int] | None

    def read(self, rows: np.ndarray, number: int, made: np.ndarray) -> None:
        """Read view `number` of some rows into an array (m, ...), by seeking: a tenth of the time of a map."""
        size = self.dtype.itemsize * math.prod(self.shape[2:])
        with self._opened() as file:
            for row, view in zip(rows.tolist(), made.reshape(len(rows), -1), strict=True):
                file.seek(self.position + (row * self.shape[1] + number) * size)
                file.readinto(view.data)

    def _opened(self) -> io.FileIO:
        """The file, which must be the one that was checked."""
        with contextlib.suppress(FileNotFoundError):
            file = io.FileIO(self.path)
            if stamp(file.fileno()) == self.stamp:
                return file
            file.close()
        raise InputError(f"{self.path} was changed while it was read: start again, and leave it as it is meanwhile")


class CachedView(RowSource):
    """One view of every row."""

    def __init__(self, blocks: Sequence[Block], number: int, name: str) -> None:
        first = blocks[0]
        super().__init__((sum(b.shape[0] for b in blocks), *first.shape[2:]), name, dtype=first.dtype)
        self.blocks_on_disk, self.number, self.rows_in_block = blocks, number, first.shape[0]

    def read_range(self, start: int, stop: int) -> np.ndarray:
        return self.read_index(np.arange(start, stop))

    def read_index(self, index: np.ndarray) -> np.ndarray:
        rows = np.empty((len(index), *self.shape[1:]), self.dtype)
        block, first = np.unique(index // self.rows_in_block, return_index=True)
        for number, start, stop in zip(block, first, np.append(first, len(index))[1:], strict=True):
            position = index[start:stop] - number * self.rows_in_block
            self.blocks_on_disk[number].read(position, self.number, rows[start:stop])
        return rows


LAYOUT = 3


class ViewCacheFolder:
    """The folder of a view cache.

    ``view_cache.json``
        The record: data, generator and version, seed, noise, views per sample, candidates for each, rows per block.
    ``levels.safetensors``
        ``tolerance``, float64 (n,): how much noise a view of each sample tolerates (NaN if not computed); ``level``,
        int64 (n, K): noise levels; ``axis``, (D,): foreground axis of the features from which the tolerance was
        computed (D = 0 if the features have no patches).
    ``blocks/000000.safetensors``
        ``views`` (b, K, ...) of the rows from ``number * block``, in the units of the data, with ``index`` (b,),
        ``seed``, ``level`` and ``quality`` (b, K) and ``tolerance`` (b,). ``quality`` compares each view with its
        sample, by the features from which the tolerance was computed (NaN if not computed). If all candidates for a
        view were rejected, the view is the sample, with seed and level -1.
    ``claims/``
        While processes work: the blocks that each process generates now (`viewsmith.data.reading.Claims`).
    ``manifest.csv``
        One line per view, written when all blocks exist: sample, view, seed, level, tolerance, quality, block,
        generator, version.

    Blocks are written atomically, and the record and the data determine their content. A job that was killed therefore
    continues with the missing blocks. Several jobs may write to one folder, or to several folders that are then merged.

    Parameters
    ----------
    path : str or Path
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.record_file, self.levels = self.path / VIEW_CACHE, self.path / "levels.safetensors"
        self.blocks, self.manifest = self.path / "blocks", self.path / "manifest.csv"
        self.claims = Claims(self.path / "claims")

    def exists(self) -> bool:
        """Whether the folder has a record."""
        return self.record_file.exists()

    def remove(self) -> None:
        """Remove record, levels, manifest and claims, and the folders if nothing else is in them."""
        self.claims.clear()
        for file in (self.record_file, self.levels, self.manifest):
            for each in (file, *self.path.glob(f".{file.stem}-*{file.suffix}")):  # also one that is half written
                each.unlink(missing_ok=True)
        for folder in (self.blocks, self.path):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def open_for(self, record: dict[str, Any]) -> None:
        """Create a view cache with this record (plain JSON values), or continue the one in the folder if it fits."""
        self.check_record(record)
        if not self.exists():
            self.blocks.mkdir(parents=True, exist_ok=True)
            write_json_atomic(self.record_file, {"layout": LAYOUT, "candidates": 1, **record})

    def check_record(self, record: dict[str, Any]) -> None:
        """Raise InputError if the folder has other files, or a view cache that differs in one of the given values."""
        # Listed before another process may write the record.
        fits = not self.path.exists() or (self.path.is_dir() and all(map(_may_precede_record, self.path.iterdir())))
        if self.exists():
            existing = self.read_record()
            if difference := _difference({key: existing.get(key) for key in record}, record):
                raise InputError(
                    f"{self.path} has another view cache ({difference}): give another folder, or delete this one"
                )
        elif not fits:
            raise InputError(f"{self.path} exists and is not a view cache: give an empty or new folder")

    def read_record(self) -> dict[str, Any]:
        """Read ``view_cache.json``, which must be complete."""
        check_view_cache(self.path)
        with undamaged(self.record_file, "restore it or generate again", (ValueError, AttributeError)):
            record: dict[str, Any] = read_json(self.record_file)
            needed = {"rows", "views_per_sample", "candidates", "block", "seed", "generator"}
            complete = record.get("layout") == LAYOUT and needed <= record.keys()
        if not complete:
            raise InputError(
                f"{self.record_file} was written by another version of viewsmith, or is not complete: generate again"
            )
        return record

    def block(self, number: int) -> Path:
        """File of a block."""
        return self.blocks / f"{number:06d}.safetensors"

    def numbers(self) -> range:
        """All block numbers."""
        record = self.read_record()
        return range(-(-record["rows"] // record["block"]))

    def missing(self) -> list[int]:
        """Numbers of the blocks that do not exist yet."""
        return [number for number in self.numbers() if not self.block(number).exists()]

    def rows_of(self, number: int) -> Tensor:
        """Rows of a block, int64 (b,)."""
        record = self.read_record()
        return torch.arange(number * record["block"], min((number + 1) * record["block"], record["rows"]))

    def seeds(self, index: Tensor) -> list[list[int]]:
        """Seed of each view of each row, candidates included; it depends only on the cache's seed, row and view."""
        record = self.read_record()
        views = range(record["views_per_sample"] * record["candidates"])
        return [[derive_seed(record["seed"], "view", row, view) for view in views] for row in index.tolist()]

    def write_levels(self, tolerance: Tensor, level: Tensor, axis: Tensor) -> None:
        """Write noise tolerances (n,), noise levels (n, K) and the foreground axis (D,)."""
        save_tensors(self.levels, {"tolerance": tolerance, "level": level, "axis": axis})

    def read_levels(self) -> tuple[Tensor, Tensor] | None:
        """Noise tolerances (n,) and noise levels (n, K); None if they have not been written yet."""
        if not self.levels.exists():
            return None
        stored = load_tensors(self.levels)
        return stored["tolerance"], stored["level"]

    def read_axis(self) -> Tensor:
        """Foreground axis, (D,)."""
        return load_tensors(self.levels)["axis"]

    def write_block(self, number: int, views: Tensor, *, seed: Tensor, level: Tensor, quality: Tensor) -> None:
        """Write the views (b, K, ...) of a block with their seeds, noise levels and quality, each (b, K)."""
        index = self.rows_of(number)
        levels = self.read_levels()
        assert levels is not None
        rows = {"views": views, "index": index, "seed": seed, "tolerance": levels[0][index]}
        save_tensors(self.block(number), rows | {"level": level, "quality": quality})

    def finish(self) -> None:
        """Write the manifest; all blocks must exist."""
        if self.manifest.exists():
            return
        record = self.read_record()
        generator, version = record["generator"]["name"], record["generator"]["version"]
        names = ("index", "seed", "level", "tolerance", "quality")
        with atomic_path(self.manifest) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(["sample", "view", "seed", "level", "tolerance", "quality", "block", "generator", "version"])
            for number in self.numbers():
                block = self._read_block(number, names)
                columns = (block[name].tolist() for name in names)
                for row, seeds, levels, tolerance, quality in zip(*columns, strict=True):
                    for view, (seed, level, q) in enumerate(zip(seeds, levels, quality, strict=True)):
                        numbers = ["" if value != value else value for value in (tolerance, q)]
                        lines.writerow([row, view, seed, level, *numbers, number, generator, version])

    def sources(self, n: int | None = None) -> list[CachedView]:
        """The first n views of every sample (default: all), read by index on demand; all blocks are checked now."""
        available = self.read_record()["views_per_sample"]
        if n is not None and n > available:
            raise InputError(
                f"{n} views of each sample were requested, but the view cache {self.path} has {available}: "
                f"request at most {available}"
            )
        self._check_complete()
        blocks = [self._checked(number) for number in self.numbers()]
        for block in blocks:
            if block.shape[1:] != blocks[0].shape[1:] or block.dtype != blocks[0].dtype:
                raise InputError(
                    f"the block {block.path} has views of shape {block.shape[1:]} ({block.dtype}), but the first block "
                    f"{blocks[0].shape[1:]} ({blocks[0].dtype}): delete it and run `viewsmith generate` again"
                )
        return [CachedView(blocks, number, f"view {number} in {self.path}") for number in range(n or available)]

    def _checked(self, number: int) -> Block:
        """Where the views of a block are in its file, after its checksum and rows have been checked."""
        path, before = self.block(number), stamp(self.block(number))
        views = self._read_block(number, ("views", "index"))["views"]
        return Block(path, position_of(path, "views"), tuple(views.shape), views.numpy().dtype, before)

    def read(self, name: str) -> Tensor:
        """Read the tensor `name` from all blocks, (n, ...), in the order of the samples; of views see `sources`."""
        self._check_complete()
        blocks = (self._read_block(number, (name, "index")) for number in self.numbers())
        first = next(blocks)
        tensor = first[name].new_empty(self.read_record()["rows"], *first[name].shape[1:])
        for block in itertools.chain([first], blocks):
            tensor[block["index"]] = block[name]
        return tensor

    def _check_complete(self) -> None:
        if missing := self.missing():
            raise InputError(
                f"the view cache {self.path} lacks {len(missing)} of {len(self.numbers())} blocks: run `viewsmith "
                "generate` with the same options again, which generates them"
            )

    def _read_block(self, number: int, names: Sequence[str]) -> dict[str, Tensor]:
        path, index = self.block(number), self.rows_of(number)
        try:
            block = read_tensors(path)
            complete = all(name in block and len(block[name]) == len(index) for name in names)
            if complete and torch.equal(block["index"], index):
                return block
            reason = "its rows are not those of the block"
        except DamageError as error:
            reason = str(error)
        raise InputError(f"the block {path} is damaged ({reason}): delete it and run `viewsmith generate` again")


def merge_folders(folders: Sequence[str | Path], out: str | Path) -> ViewCacheFolder:
    """Merge the folders that the shards of a job wrote into one view cache; each folder has some of the blocks.

    Parameters
    ----------
    folders : sequence of path
        Folders with the same record.
    out : path
        A new folder, or one of `folders`.

    Returns
    -------
    ViewCacheFolder

    Raises
    ------
    InputError
        The folders have different records or noise levels, or blocks are damaged.
    """
    if not folders:
        raise InputError("no view caches to merge: expected the folders that the shards of a job wrote")
    caches, merged = [ViewCacheFolder(folder) for folder in folders], ViewCacheFolder(out)
    record = caches[0].read_record()
    for cache in caches:
        if difference := _difference(record, cache.read_record()):
            raise InputError(
                f"{cache.path} and {caches[0].path} are different view caches ({difference}): merge shards of one job"
            )
    _check_equal_levels([merged, *caches] if merged.exists() else caches)
    merged.open_for(record)
    for cache in caches:
        if not merged.levels.exists() and cache.levels.exists():
            save_tensors(merged.levels, load_tensors(cache.levels))
        for number in cache.numbers():
            if cache.block(number).exists() and not merged.block(number).exists():
                save_tensors(merged.block(number), cache._read_block(number, ("views", "index")))
    if not merged.missing():
        merged.finish()
    return merged


def _check_equal_levels(caches: Sequence[ViewCacheFolder]) -> None:
    """Raise InputError if two folders differ in noise levels, which every shard computes by itself."""
    known = [(cache, levels) for cache in caches if (levels := cache.read_levels()) is not None]
    for cache, (_, level) in known[1:]:
        first, (_, expected) = known[0]
        count = int((level != expected).any(dim=1).sum())
        if count:
            raise InputError(
                f"{cache.path} and {first.path} differ in the noise levels of {count} of {len(level)} rows: make all "
                "shards with the same --run, on machines of one kind"
            )


def _may_precede_record(entry: Path) -> bool:
    """Whether an entry may exist before the record: generator, blocks, claims, a partly written record."""
    return entry.name in ("generator", "blocks", "claims") or entry.name.startswith(".view_cache-")


def _difference(existing: dict[str, Any], given: dict[str, Any]) -> str:
    """The first difference of two records, in words; empty if they are equal."""
    for key in sorted(existing.keys() | given.keys()):
        before, after = existing.get(key), given.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            if difference := _difference(before, after):
                return f"{key}: {difference}"
        elif before != after:
            return f"{key} is {before!r} there, {after!r} now"
    return ""
