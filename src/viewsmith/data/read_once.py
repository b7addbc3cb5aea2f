"""Files that only one of several processes reads: it writes the rows to a file that all of them map into memory."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.files import write_text_atomic
from viewsmith.core.mapped import read_mapped, write_mapped
from viewsmith.core.memory import return_freed_memory
from viewsmith.core.messages import warn
from viewsmith.core.row_source import BLOCK_VALUES, stamp
from viewsmith.data.claims import Claims
from viewsmith.data.reading import Found, Reader, Request, reading

# What a label or the name of a group may be, for a text file to give it back as it was.
_PLAIN = (str, int, float, type(None))


def read_once(reader: Reader, path: Path, request: Request, place: Path) -> Found:
    """What a reader finds in a file, with the rows in a memory map.

    The first process reads the file while the others wait, and writes rows, labels, names and warnings into `place`.
    Each process reads the file itself if it is a mixed table, whose rows come with their encoder, or if the rows stay
    in the file.

    Parameters
    ----------
    reader : callable
    path : Path
    request : Request
    place : Path
        Folder on a disk that all processes see; it is made if it is not there.

    Raises
    ------
    InputError
        That of the reader, in each process; or what was written is damaged.
    """
    kept = _Kept(place, path, request)
    if not kept.exists():
        with Claims(place / "claims").hold(kept.name, wait=True):
            if not kept.exists():  # no other process has read it meanwhile
                found = kept.write(reader, path, request)
                if found is not None:
                    return found
                return_freed_memory()
    return kept.found() or reader(path, request)


class _Kept:
    """What one reading of one state of a file has found: a JSON file, and the rows beside it."""

    def __init__(self, place: Path, path: Path, request: Request) -> None:
        options = asdict(replace(request, table=None, stream=False, shared=False, cache=None, cache_if_large=None))
        files = [path.resolve(), *([] if request.labels is None else [request.labels.resolve()])]
        state = [[str(file), stamp(file)] for file in files]
        digest = hashlib.sha256(repr([state, sorted(options.items())]).encode("utf-8", "surrogateescape"))
        self.name = f"{path.name[:64]}-{digest.hexdigest()[:12]}"
        self.rows, self.facts = place / f"{self.name}.npy", place / f"{self.name}.json"

    def exists(self) -> bool:
        return self.facts.exists()

    def write(self, reader: Reader, path: Path, request: Request) -> Found | None:
        """Read the file and write what is found; return it if it cannot be kept."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = reader(path, request)
        facts = None
        if type(found.x) is np.ndarray and _is_plain(found.y) and _is_plain(found.groups):
            write_mapped(_blocks(found.x), found.x.shape, self.rows, found.x.dtype)
            facts = {key: getattr(found, key) for key in ("n_train", "names", "table", "options", "row_names")}
            facts |= {"y": _packed(found.y), "groups": _packed(found.groups)}
        record = {"found": facts, "warnings": [str(warning.message) for warning in said] if facts else []}
        self.rows.parent.mkdir(parents=True, exist_ok=True)
        write_text_atomic(self.facts, json.dumps(record))
        if facts is not None:
            return None
        for warning in said:
            warn(str(warning.message))
        return found

    def found(self) -> Found | None:
        """What the reader found; None if that was not kept."""
        with reading(str(self.facts), "a record of rows that were read before, which may be deleted"):
            record = json.loads(self.facts.read_text(encoding="utf-8"))
            facts = record["found"]
            if facts is None:
                return None
            found = Found(read_mapped(self.rows), **(facts | {key: _unpacked(facts[key]) for key in ("y", "groups")}))
        for text in record["warnings"]:
            warn(text)
        return found


def _blocks(x: np.ndarray) -> Iterator[np.ndarray]:
    size = max(1, BLOCK_VALUES // max(1, x[:1].size))
    return (x[start : start + size] for start in range(0, len(x), size))


def _is_plain(array: np.ndarray | None) -> bool:
    if array is None or array.dtype.kind in "biufU":
        return True
    return array.dtype == object and all(isinstance(value, _PLAIN) for value in array)


def _packed(array: np.ndarray | None) -> dict[str, Any] | None:
    return None if array is None else {"dtype": array.dtype.str, "values": array.tolist()}


def _unpacked(packed: dict[str, Any] | None) -> np.ndarray | None:
    return None if packed is None else np.array(packed["values"], dtype=packed["dtype"])
