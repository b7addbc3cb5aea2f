"""The interface of readers, from a path and `DataOptions` to `FileContents`; and work that processes share: a folder
in which each piece is claimed, and files that one process reads for all.
"""

import contextlib
import hashlib
import io
import json
import os
import shutil
import socket
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from viewsmith.core.errors import InputError, one_line, warn
from viewsmith.core.files import digest_of, read_json, read_mapped, write_mapped, write_text_atomic
from viewsmith.core.rows import BLOCK_VALUES, RowSource, check_size, return_freed_memory, stamp
from viewsmith.data.dataset import Tiles, Windows
from viewsmith.data.options import DataOptions
from viewsmith.data.places import open_packed

T = TypeVar("T")
HEARTBEAT = 10.0  # seconds between two renewals of a claim
PATIENCE = 60.0  # seconds without a renewal after which a claim does not count anymore
POLL = 0.5  # seconds between two looks at pieces that other processes have claimed


class Claims:
    """Claims of named work: files that one process can create, renewed while it works and otherwise taken over; when
    two hold one, both write the same content, atomically."""

    def __init__(self, folder: Path, heartbeat: float = HEARTBEAT, patience: float = PATIENCE) -> None:
        self.folder, self.heartbeat, self.patience = folder, heartbeat, patience

    @contextlib.contextmanager
    def hold(self, name: str, *, wait: bool = False) -> Iterator[bool]:
        """Claim a piece of work while the block runs."""
        path = self.folder / name
        while not (self._create(path) or (self._is_stale(path) and self._take_over(path))):
            if not wait:
                yield False
                return
            time.sleep(POLL)
        done = threading.Event()
        beats = threading.Thread(target=self._renew, args=(path, done), daemon=True)
        beats.start()
        try:
            yield True
        finally:
            done.set()
            beats.join()
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self.folder.rmdir()

    def each(self, pieces: Iterable[T], done: Callable[[T], bool]) -> Generator[T, None, None]:
        """Claim pieces, one after the other, until all are done; waits for those that other processes have claimed."""
        remaining = list(pieces)
        while remaining := [piece for piece in remaining if not done(piece)]:
            worked = False
            for piece in remaining:
                if done(piece):
                    continue
                with self.hold(str(piece)) as mine:
                    if mine and not done(piece):  # it may have been done since the first look
                        worked = True
                        yield piece
            if not worked:
                time.sleep(POLL)

    def clear(self) -> None:
        """Remove all claims, when everything is done: processes that were killed have left theirs."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _create(self, path: Path) -> bool:
        with contextlib.suppress(FileExistsError):  # another process has removed the folder at the same moment
            self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("x", encoding="utf-8") as file:
                json.dump({"host": socket.gethostname(), "process": os.getpid()}, file)
        except FileExistsError:
            return False
        except FileNotFoundError:  # another process has removed the empty folder
            return self._create(path)
        return True

    def _is_stale(self, path: Path) -> bool:
        clock = self.folder / f".clock-{uuid.uuid4().hex}"
        try:
            clock.touch()
            age = clock.stat().st_mtime - path.stat().st_mtime
            holder = read_json(path)
            if holder["host"] == socket.gethostname() and not _is_alive(int(holder["process"])):
                return True
        except FileNotFoundError:  # released
            return False
        except (ValueError, KeyError, TypeError):
            pass  # half-written by a process that may be at it still
        finally:
            clock.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # whoever released the last claim could not, because of the clock
                self.folder.rmdir()
        return age > self.patience

    def _take_over(self, path: Path) -> bool:
        try:
            old = path.rename(self.folder / f".stale-{uuid.uuid4().hex}")
        except FileNotFoundError:  # another process was first
            return False
        old.unlink(missing_ok=True)
        return self._create(path)

    def _renew(self, path: Path, done: threading.Event) -> None:
        while not done.wait(self.heartbeat):
            with contextlib.suppress(OSError):
                os.utime(path)


def _is_alive(process: int) -> bool:
    if os.name != "posix":  # elsewhere this call ends the process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        return True
    return True


@dataclass(frozen=True)
class FileContents:
    """What a reader found in a file or folder, before the checks for all sources."""

    x: np.ndarray | RowSource  #: samples (n, ...); a memory map or a source: rows that are not read as a whole
    y: np.ndarray | None = None  #: labels (n,), as they are in the file
    n_train: int | None = None  #: number of train rows, which come first, if the file has a split
    names: list[str] | None = None  #: of the columns of `x`
    #: schema of a table: ``columns``, ``one_hot``, ``drop``, ``label``
    table: dict[str, Any] = field(default_factory=dict)
    #: with which later files must be read: ``layer``, ``image_size``
    options: dict[str, Any] = field(default_factory=dict)
    row_names: list[str] | None = None  #: image files, FASTA records, cells
    neighbors: Any = None  #: graph of the rows, a sparse matrix (n, n), if it was requested
    groups: np.ndarray | None = None  #: (n,), as they are in the file, if they were requested
    #: Where windows of longer recordings, or tiles of larger images, are; a drawn split does not divide these.
    windows: Windows | Tiles | None = None
    cells: bool = False  #: rows are single cells, whose raw counts are recognized
    modality: str | None = None  #: None: found from `x`


Reader = Callable[[Path, DataOptions], FileContents]


@contextlib.contextmanager
def reading(source_name: str, kind: str) -> Iterator[None]:
    """Convert the exceptions of a parser to an InputError that names the file: parsers raise many types, so only their
    call may be inside the block."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if isinstance(error, ValueError) and ("allow_pickle" in str(error) or "Python objects" in str(error)):
            raise InputError(
                f"{source_name} contains Python objects, which are never unpickled; save numbers, or text with "
                "astype(str)"
            ) from error
        reason = one_line(f"{type(error).__name__}: {error}", 200)
        raise InputError(
            f"cannot read {source_name} as {kind}; is it damaged, or another format? ({reason})"
        ) from error


class _Counted(io.RawIOBase):
    """The bytes of a file, unpacked, up to `memory_limit`."""

    def __init__(self, path: Path, advice: str) -> None:
        super().__init__()
        self._file = open_packed(path)
        self._name, self._advice, self._count = str(path), advice, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self._file.read(len(buffer))
        buffer[: len(read)] = read
        self._count += len(read)
        check_size(self._count, self._name, self._advice)
        return len(read)

    def close(self) -> None:
        self._file.close()
        super().close()


def open_text(path: Path, advice: str) -> IO[bytes]:
    """A text file that is going to be read as a whole, plain or packed. Reading raises InputError, with `advice`, for
    one that is larger than the memory: a small packed file may unpack to any size."""
    return io.BufferedReader(_Counted(path, advice), 2**20)


# What a label or the name of a group may be, for a text file to give it back as it was.
_PLAIN = (str, int, float, type(None))


def read_once(reader: Reader, path: Path, request: DataOptions, place: Path) -> FileContents:
    """What a reader finds in a file, with rows in a memory map, written by the first process into `place`; each reads
    the file itself for mixed tables, and rows that stay in the file."""
    kept = _Kept(place, path, request)
    if not kept.exists():
        with Claims(place / "claims").hold(kept.name, wait=True):
            if not kept.exists():  # no other process has read it meanwhile
                found = kept.write(reader, path, request)
                if found is not None:
                    return found
                return_freed_memory()
    return kept.found() or reader(path, request)


KEPT = 3  # version of what is kept


class _Kept:
    """What one reading of one state of a file has found: a JSON file, and the rows beside it."""

    def __init__(self, place: Path, path: Path, request: DataOptions) -> None:
        options = asdict(replace(request, table=None, stream=False, shared=False, cache=None, cache_if_large=None))
        files = [path.resolve(), *([] if request.labels is None else [request.labels.resolve()])]
        state = [[str(file), stamp(file)] for file in files]
        digest = hashlib.sha256(repr([KEPT, state, sorted(options.items())]).encode("utf-8", "surrogateescape"))
        self.name = f"{path.name[:64]}-{digest.hexdigest()[:12]}"
        self.rows, self.contents = place / f"{self.name}.npy", place / f"{self.name}.json"

    def exists(self) -> bool:
        return self.contents.exists()

    def write(self, reader: Reader, path: Path, request: DataOptions) -> FileContents | None:
        """Read the file and write what is found; return it if it cannot be kept."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = reader(path, request)
        contents, digest = None, ""
        if type(found.x) is np.ndarray and _is_plain(found.y) and _is_plain(found.groups):
            write_mapped(_blocks(found.x), found.x.shape, self.rows, found.x.dtype)
            kept = ("n_train", "names", "table", "options", "row_names", "modality")
            contents = {key: getattr(found, key) for key in kept}
            contents |= {"y": _packed(found.y), "groups": _packed(found.groups)}
            digest = digest_of(self.rows)
        heard = [str(warning.message) for warning in said] if contents else []
        record: dict[str, Any] = {"found": contents, "warnings": heard, "digest": digest}
        self.rows.parent.mkdir(parents=True, exist_ok=True)
        write_text_atomic(self.contents, json.dumps(record))
        if contents is not None:
            return None
        for warning in said:
            warn(str(warning.message))
        return found

    def found(self) -> FileContents | None:
        """What the reader found; None if that was not kept."""
        with reading(str(self.contents), "a record of rows that were read before, which may be deleted"):
            record = read_json(self.contents)
            contents = record["found"]
            if contents is None:
                return None
            if digest_of(self.rows) != record["digest"]:
                raise ValueError(f"the content of {self.rows.name} does not match its digest")
            found = FileContents(
                read_mapped(self.rows), **(contents | {key: _unpacked(contents[key]) for key in ("y", "groups")})
            )
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
