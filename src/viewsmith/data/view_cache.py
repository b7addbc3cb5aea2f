"""A bank of generated views on disk: made once, block by block, by one process or several, and read by trainings."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from viewsmith.core.errors import InputError
from viewsmith.core.files import atomic_path, write_json_atomic
from viewsmith.core.random import derive_seed
from viewsmith.core.tensors import DamageError, load_tensors, read_tensors, save_tensors

LAYOUT = 2


class ViewCacheFolder:
    """The folder of a bank.

    ``bank.json``
        What made it: data, generator and version, seed, noise, views of each sample, rows in a block.
    ``levels.safetensors``
        ``share``, float64 (n,): how much noise each sample can bear (NaN: not asked); ``level``, int64 (n, K);
        ``axis`` (D,): where the foreground lies in the features that shares were found in (D = 0: no patches).
    ``blocks/000000.safetensors``
        ``views`` (b, K, ...) of the rows from ``number * block`` on, in the units of the data, with ``index`` (b,),
        ``seed``, ``level`` and ``quality`` (b, K) and ``share`` (b,). ``quality``: q of sample and view, seen by what
        gave the shares (NaN: not asked).
    ``manifest.csv``
        One line for each view, once all are there: sample, view, seed, level, share, quality, block, generator,
        version.

    A block appears whole or not at all, and what is in it follows from ``bank.json`` and the data: a job that was
    killed goes on with the missing ones, and several may share a folder, or be merged.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.head, self.levels = self.path / "bank.json", self.path / "levels.safetensors"
        self.blocks, self.manifest = self.path / "blocks", self.path / "manifest.csv"

    # ---- what made it ---------------------------------------------------------------------------------------------

    def exists(self) -> bool:
        return self.head.exists()

    def open_for(self, record: dict[str, Any]) -> None:
        """Make the folder ready for a bank of this record (plain JSON values), or go on with it.

        Raises
        ------
        InputError
            The folder holds a bank of another record, or something else.
        """
        self.check_only(record)
        if not self.exists():
            self.blocks.mkdir(parents=True, exist_ok=True)
            write_json_atomic(self.head, {"layout": LAYOUT, **record})

    def check_only(self, record: dict[str, Any]) -> None:
        """Raise InputError if the folder holds something else, or a bank that differs in what `record` says."""
        if self.exists():
            there = self.read_record()
            if found := _difference({key: there.get(key) for key in record}, record):
                raise InputError(f"{self.path} holds another bank ({found}): choose another folder, or delete this one")
        elif self.path.exists() and not (self.path.is_dir() and all(map(_own, self.path.iterdir()))):
            raise InputError(f"{self.path} exists and is no bank of views: choose an empty or new folder")

    def read_record(self) -> dict[str, Any]:
        """``bank.json``.

        Raises
        ------
        InputError
            There is none, it is damaged, or of another layout.
        """
        if not self.exists():
            reason = "has no bank.json" if self.path.is_dir() else "is no folder"
            raise InputError(f"no bank at {self.path} (it {reason}): expected the folder `viewsmith generate` wrote")
        try:
            record: dict[str, Any] = json.loads(self.head.read_text(encoding="utf-8"))
            known = {"layout", "rows", "views_per_sample", "block", "seed", "generator"} <= record.keys()
        except (ValueError, AttributeError) as error:
            raise InputError(f"{self.head} is damaged ({error}): restore it or generate again") from error
        if not known or record["layout"] != LAYOUT:
            raise InputError(f"{self.head} is of another version of viewsmith, or not complete: generate again")
        return record

    # ---- blocks ---------------------------------------------------------------------------------------------------

    def block(self, number: int) -> Path:
        return self.blocks / f"{number:06d}.safetensors"

    def numbers(self) -> range:
        """All block numbers."""
        record = self.read_record()
        return range(-(-record["rows"] // record["block"]))

    def missing(self) -> list[int]:
        """Blocks that are not there yet."""
        return [number for number in self.numbers() if not self.block(number).exists()]

    def rows_of(self, number: int) -> Tensor:
        """Sample ids of a block, int64."""
        record = self.read_record()
        return torch.arange(number * record["block"], min((number + 1) * record["block"], record["rows"]))

    def seeds(self, index: Tensor) -> list[list[int]]:
        """Seed of each view of each sample: of the bank's seed, the sample and the view, and nothing else."""
        record = self.read_record()
        views = range(record["views_per_sample"])
        return [[derive_seed(record["seed"], "view", row, view) for view in views] for row in index.tolist()]

    def write_levels(self, share: Tensor, level: Tensor, axis: Tensor) -> None:
        save_tensors(self.levels, {"share": share, "level": level, "axis": axis})

    def read_levels(self) -> tuple[Tensor, Tensor] | None:
        """Shares and levels; None where they are not known yet."""
        if not self.levels.exists():
            return None
        found = load_tensors(self.levels)
        return found["share"], found["level"]

    def read_axis(self) -> Tensor:
        """Where the foreground lies in the features that shares were found in, (D,)."""
        return load_tensors(self.levels)["axis"]

    def write_block(self, number: int, views: Tensor, quality: Tensor) -> None:
        """Keep the views (b, K, ...) of a block and their quality (b, K)."""
        index = self.rows_of(number)
        known = self.read_levels()
        assert known is not None
        content = {
            "views": views,
            "index": index,
            "seed": torch.tensor(self.seeds(index)),
            "share": known[0][index],
            "level": known[1][index],
            "quality": quality,
        }
        save_tensors(self.block(number), content)

    def finish(self) -> None:
        """Write the manifest of a bank that has all its blocks."""
        if self.manifest.exists():
            return
        record = self.read_record()
        generator, version = record["generator"]["name"], record["generator"]["version"]
        with atomic_path(self.manifest) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(["sample", "view", "seed", "level", "share", "quality", "block", "generator", "version"])
            for number in self.numbers():
                block = self._read_block(number, ("index", "seed", "level", "share", "quality"))
                columns = (block[name].tolist() for name in ("index", "seed", "level", "share", "quality"))
                for row, seeds, levels, share, quality in zip(*columns, strict=True):
                    for view, (seed, level, q) in enumerate(zip(seeds, levels, quality, strict=True)):
                        shown = ["" if value != value else value for value in (share, q)]
                        lines.writerow([row, view, seed, level, *shown, number, generator, version])

    def read_views(self) -> Tensor:
        """All views, (n, K, ...), in the units of the data."""
        return self.read("views")

    def read_first(self, n: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The first n views of every sample, (rows, n, ...), and their levels; by default all.

        Raises
        ------
        InputError
            There are fewer, or blocks are missing or damaged.
        """
        kept = self.read_record()["views_per_sample"]
        if n is not None and n > kept:
            raise InputError(
                f"{n} views of each sample are asked for, and the bank {self.path} has {kept}: ask for those"
            )
        return self.read("views")[:, :n].numpy(), self.read("level")[:, :n].numpy()

    def read(self, name: str) -> Tensor:
        """What all blocks hold under a name, (n, ...), in the order of the samples.

        Raises
        ------
        InputError
            Blocks are missing or damaged.
        """
        missing = self.missing()
        if missing:
            raise InputError(
                f"the bank {self.path} lacks {len(missing)} of {len(self.numbers())} blocks: run `viewsmith generate` "
                "with its options again, which makes the rest"
            )
        blocks = (self._read_block(number, (name, "index")) for number in self.numbers())
        first = next(blocks)
        found = first[name].new_empty(self.read_record()["rows"], *first[name].shape[1:])
        for block in itertools.chain([first], blocks):
            found[block["index"]] = block[name]
        return found

    def _read_block(self, number: int, names: Sequence[str]) -> dict[str, Tensor]:
        path, index = self.block(number), self.rows_of(number)
        try:
            block = read_tensors(path)
            whole = all(name in block and len(block[name]) == len(index) for name in names)
            if whole and torch.equal(block["index"], index):
                return block
            reason = "it holds other rows"
        except DamageError as error:
            reason = str(error)
        raise InputError(f"the block {path} is damaged ({reason}): delete it and run `viewsmith generate` again")


def merge(parts: Sequence[str | Path], out: str | Path) -> ViewCacheFolder:
    """One bank from the folders that shards of a job wrote, each with some of its blocks.

    Parameters
    ----------
    parts : sequence of path
        Folders of one and the same ``bank.json``.
    out : path
        A new folder, or one of the parts.

    Raises
    ------
    InputError
        The folders are of different banks, or blocks are damaged.
    """
    if not parts:
        raise InputError("no banks to merge: expected the folders that shards of a job wrote")
    banks, whole = [ViewCacheFolder(part) for part in parts], ViewCacheFolder(out)
    record = banks[0].read_record()
    for bank in banks:
        if found := _difference(record, bank.read_record()):
            raise InputError(f"{bank.path} and {banks[0].path} are different banks ({found}): merge shards of one job")
    whole.open_for(record)
    for bank in banks:
        if not whole.levels.exists() and bank.levels.exists():
            save_tensors(whole.levels, load_tensors(bank.levels))
        for number in bank.numbers():
            if bank.block(number).exists() and not whole.block(number).exists():
                save_tensors(whole.block(number), bank._read_block(number, ("views", "index")))
    if not whole.missing():
        whole.finish()
    return whole


def _own(entry: Path) -> bool:
    """Whether it may lie in a folder before ``bank.json`` does: the generator, empty blocks, a half-written head."""
    return entry.name in ("generator", "blocks") or entry.name.startswith(".bank-")


def _difference(there: dict[str, Any], now: dict[str, Any]) -> str:
    """The first difference of two records in words; "" when they are equal."""
    for key in sorted(there.keys() | now.keys()):
        before, after = there.get(key), now.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            if found := _difference(before, after):
                return f"{key}: {found}"
        elif before != after:
            return f"{key} is {before!r} there, {after!r} now"
    return ""
