"""Files that are written as a whole or not at all, locks, checked reading, and arrays that are mapped into memory."""

import contextlib
import functools
import hashlib
import json
import math
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError, InUseError


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Temporary path in the same folder; it replaces `path` when the block ends well.

    A symbolic link is replaced, not followed: it may be in a folder that somebody else made, and lead out of it. For a
    path that the user gave, see `target_of`.
    """
    final = Path(path)
    temporary = final.with_name(f".{final.stem[:64]}-{uuid.uuid4().hex[:12]}{final.suffix}")
    try:
        yield temporary
        _flush(temporary)
        os.replace(temporary, final)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    # Some file systems cannot flush a folder; the file itself is already written.
    with contextlib.suppress(OSError):
        _flush(final.parent)


def target_of(path: str | os.PathLike[str]) -> Path:
    """The file that the user means by a path: what a symbolic link leads to."""
    return Path(os.path.realpath(path))


@contextlib.contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Temporary, empty folder; it becomes `path` when the block ends without an exception, otherwise it is removed."""
    final = Path(os.path.realpath(path))
    temporary = final.with_name(f".{final.name[:64]}-{uuid.uuid4().hex[:12]}")
    temporary.mkdir()
    try:
        yield temporary
        if final.is_dir():
            final.rmdir()  # not every system renames onto an empty folder
        os.rename(temporary, final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


@contextlib.contextmanager
def locked_folder(path: str | Path, name: str = ".lock") -> Iterator[None]:
    """Hold a folder, created if needed, while the block runs, for this process alone; where a network mount has no
    locks, filelock's file names the process."""
    import filelock  # not above: it takes a tenth of a second

    folder = Path(path)
    absent = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    check_no_link(folder / name)  # filelock would empty the file that it leads to
    lock = filelock.FileLock(folder / name, blocking=False, thread_local=False)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise InUseError(
            f"{path} is in use by another process, which writes to it: wait until that ends, or choose another folder"
        ) from None
    try:
        yield
    finally:
        # While it is still held: filelock does not accept a lock on a file that has been removed.
        with contextlib.suppress(OSError):
            (folder / name).unlink()
        lock.release()
        with contextlib.suppress(OSError):
            for parent in absent:
                parent.rmdir()


def check_no_link(path: Path) -> None:
    """Raise InputError for a symbolic link, through which work in a folder would write outside of it."""
    if path.is_symlink():
        raise InputError(f"{path} is a symbolic link, which is not followed: remove it, or choose another folder")


def write_text_atomic(path: str | Path, text: str) -> None:
    """Write `text` to `path` as UTF-8, atomically; see `atomic_path`."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def json_text(obj: Any) -> str:
    """`obj` as JSON; NaN and infinity become ``null``, arrays lists."""
    return json.dumps(_plain(obj), indent=2, allow_nan=False)


def write_json_atomic(path: str | Path, obj: Any) -> None:
    """Write `obj` to `path` as JSON (`json_text`), atomically."""
    write_text_atomic(path, json_text(obj) + "\n")


def spreadsheet_text(value: Any) -> Any:
    """A cell of a CSV file: a text of the user's data, not a number, that a spreadsheet would run as a formula begins
    with ``'``."""
    if not isinstance(value, str) or len(value) < 2 or value[0] not in "=+-@\t\r":
        return value
    with contextlib.suppress(ValueError):
        float(value)
        return value
    return f"'{value}"


def digest_of(path: Path) -> str:
    """Digest of the content of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def read_json(path: Path) -> Any:
    """The value in a JSON file; raises ValueError if it is damaged, nested too deeply or no regular file."""
    return parse_json(read_regular(path))


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; raises ValueError, also for one that is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_toml(path: Path) -> dict[str, Any]:
    """The values in a TOML file; raises ValueError if it is damaged, nested too deeply or no regular file."""
    try:
        found: dict[str, Any] = _copied(_parsed(read_regular(path)))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return found


@functools.lru_cache(maxsize=1)
def _parsed(content: bytes) -> dict[str, Any]:
    """The values of TOML; the last are kept, because a command reads the configuration of a run several times, which
    for 20,000 columns takes longer than a second."""
    import tomllib

    return tomllib.loads(content.decode("utf-8"))


def _copied(value: Any) -> Any:
    """New dicts and lists of the same values."""
    if isinstance(value, dict):
        return {name: _copied(each) for name, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


def read_regular(path: Path) -> bytes:
    """The content of a file; raises ValueError for a pipe, which would be waited for, a folder or a device."""
    check_regular(path)
    return path.read_bytes()


def check_regular(path: Path) -> None:
    """Raise ValueError unless a path, which exists, is of a regular file."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is not a regular file")


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _plain(obj: Any) -> Any:
    if hasattr(obj, "tolist"):
        obj = obj.tolist()
    if isinstance(obj, dict):
        return {key: _plain(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple):
        return [_plain(value) for value in obj]
    if isinstance(obj, float) and not math.isfinite(obj):
        return None
    return obj


def write_mapped(
    blocks: Iterable[np.ndarray], shape: tuple[int, ...], file: Path | None = None, dtype: Any = np.float32
) -> np.ndarray:
    """Write blocks of rows one after the other to an .npy file, and map it."""
    if file is not None:
        with atomic_path(file) as temporary, temporary.open("wb") as opened:
            _write(opened, blocks, shape, dtype)
        return read_mapped(file)
    with tempfile.TemporaryFile() as opened:
        start = _write(opened, blocks, shape, dtype)
        opened.flush()
        return np.memmap(opened, dtype, "c", start, shape)


def read_mapped(file: Path) -> np.ndarray:
    """The array in an .npy file, mapped; changes to it are not written to the file."""
    return np.load(file, mmap_mode="c", allow_pickle=False)


def _write(opened: Any, blocks: Iterable[np.ndarray], shape: tuple[int, ...], dtype: Any) -> int:
    """Write header and blocks; returns the position of the first value."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(opened, header)
    start: int = opened.tell()
    for block in blocks:
        opened.write(np.ascontiguousarray(block, dtype).data)
    return start


def by_part(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration with the options of each part in a table of its own; "parts" then has the names of the parts."""
    parts: dict[str, list[str]] = config.get("parts", {})
    parameters = dict(config.get("parameters", {}))
    known = {part: [name for name in names if name in parameters] for part, names in parts.items()}
    tables = {part: {name: parameters.pop(name) for name in names} for part, names in known.items()}
    if not parts:
        return config
    # Before what was fitted: a file that lacks its end lacks that, too, and is refused.
    last = {name: config[name] for name in ("data", "fitted") if name in config}
    head = {name: value for name, value in config.items() if name not in last}
    return head | {"parts": list(tables), "parameters": parameters} | tables | last


def of_all_parts(config: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `by_part`; raises ValueError if a part has no table."""
    parts = config.get("parts")
    if not isinstance(parts, list):
        return config
    tables: dict[str, Any] = {part: config.get(part) for part in parts}
    if not all(isinstance(table, dict) for table in [config.get("parameters"), *tables.values()]):
        raise ValueError("a table of its parts is missing")
    parameters = dict(config["parameters"])
    for table in tables.values():
        parameters |= table
    kept = {name: value for name, value in config.items() if name not in tables}
    return kept | {"parts": {part: list(table) for part, table in tables.items()}, "parameters": parameters}
