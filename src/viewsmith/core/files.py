"""Files that are written as a whole or not at all, locks, and arrays that are mapped into memory."""

import contextlib
import json
import math
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InUseError


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Temporary path in the same folder; it replaces `path`, or the target of a link, when the block ends well."""
    final = Path(os.path.realpath(path))
    temporary = final.with_name(f".{Path(path).stem[:64]}-{uuid.uuid4().hex[:12]}{Path(path).suffix}")
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


def write_text_atomic(path: str | Path, text: str) -> None:
    """Write `text` to `path` as UTF-8, atomically; see `atomic_path`."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json_atomic(path: str | Path, obj: Any) -> None:
    """Write `obj` to `path` as JSON, atomically; NaN and infinity become ``null``, arrays lists."""
    write_text_atomic(path, json.dumps(_plain(obj), indent=2, allow_nan=False) + "\n")


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
    mapped: np.ndarray = np.load(file, mmap_mode="c", allow_pickle=False)
    return mapped


def _write(opened: Any, blocks: Iterable[np.ndarray], shape: tuple[int, ...], dtype: Any) -> int:
    """Write header and blocks; returns the position of the first value."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(opened, header)
    start: int = opened.tell()
    for block in blocks:
        opened.write(np.ascontiguousarray(block, dtype).data)
    return start
