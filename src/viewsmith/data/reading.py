"""The interface of readers: which one takes a file or a folder, and what it returns; and work that processes share: a
folder in which each piece is claimed, and files that one process reads for all.

A reader is a part of the registry: a function of a path and `DataOptions` that returns `FileContents`. It says which
endings of files it reads, alone or as samples of a folder, and what it needs.
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
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from viewsmith.core.errors import InputError, one_line, warn
from viewsmith.core.files import digest_of, read_json, read_mapped, write_mapped, write_text_atomic
from viewsmith.core.registry import LATER, Entry, entries, find, register
from viewsmith.core.rows import BLOCK_VALUES, RowSource, check_size, return_freed_memory, stamp
from viewsmith.data import places
from viewsmith.data.damaged import Unreadable
from viewsmith.data.dataset import Tiles, Windows
from viewsmith.data.options import DataOptions
from viewsmith.data.unread import MOST_FILES, advice, refuse, refuse_data_set

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
    #: Number of the file, or patient, of each row, if some have several; a drawn split of labeled rows keeps them.
    of_file: np.ndarray | None = None
    whole: str = "file"  #: what these are
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
        raise Unreadable(
            f"cannot read {source_name} as {kind}; is it damaged, or another format? ({reason})", reason
        ) from error


class _Counted(io.RawIOBase):
    """The bytes of a file, unpacked, up to `memory_limit`."""

    def __init__(self, path: Path, advice: str) -> None:
        super().__init__()
        self._file = places.open_packed(path)
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
        with warnings.catch_warnings(record=True, action="always") as said:
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
            labels = {key: _unpacked(contents[key]) for key in ("y", "groups")}
            found = FileContents(read_mapped(self.rows), **(contents | labels))
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


def planes_of(image: Any) -> int:
    """Number of planes of an opened image that its pixels, as Pillow gives them, do not show: pages, or channels that
    are no colors; 1 if they show all."""
    # MPO is a photo with a preview; other formats with several frames are animations or have several pages.
    pages = getattr(image, "n_frames", 1) if image.format != "MPO" else 1
    if pages > 1:
        return int(pages)
    stored = int(getattr(image, "tag_v2", {}).get(277, 1))  # SamplesPerPixel of TIFF
    return stored if stored > len(image.getbands()) else 1


def deep(image: Any) -> str:
    """What an opened image has in place of 8 bits per channel, "" if it has these."""
    stored = image.tile[0][3] if image.tile else ""
    stored = str(stored[0] if isinstance(stored, tuple) and stored else stored)
    if image.mode == "F":
        return "floating-point values"
    # Pillow would silently reduce 16-bit colors to their upper 8 bits.
    return "more than 8 bits per channel" if image.mode[0] == "I" or "16" in stored else ""


_BUILT_IN = """arrays array_folders matlab_folders tables text_tables datasets h5ad cells sequences genbank folders
tiff instruments microscopes signals spectra"""
LATER["reader"] += [f"viewsmith.data.readers.{each}" for each in _BUILT_IN.split()]
R = TypeVar("R", bound=Callable[..., Any])


def reader(
    name: str,
    *endings: str,
    help: str,
    noun: str,
    modality: str | tuple[str, ...] = (),
    in_folders: Sequence[str] = (),
    options: Sequence[str] = (),
    extra: str = "",
    table: bool = False,
    once: bool = False,
    example: str = "",
    header: Callable[[Path], Any] | None = None,
    recognizes: Callable[[Path], bool] | None = None,
) -> Callable[[R], R]:
    """Decorator that registers a reader, a function of a path and `DataOptions` that returns `FileContents`.

    Parameters
    ----------
    name : str
        The name in lists.
    *endings : str
        Endings of the files that it reads, in lower case: ``".csv"``, ``".fa.gz"``; of a folder, with a slash:
        ``".zarr/"``.
    help : str
        One line: what is read.
    noun : str
        What is read, with its article, for messages: "a FASTA file".
    modality : str or tuple of str
        The modality that it gives, or several, which the contents tell apart; empty: the array says it.
    in_folders : sequence of str
        Endings of the files of a folder that it reads as a whole. Of several readers the one with the most files does.
    options : sequence of str
        Options of `DataOptions` that have an effect for such readers alone.
    extra : str
        The extra that has its library.
    table : bool
        Whether columns have names, of which one may be the label.
    once : bool
        Whether one of several processes reads for all, because decoding takes long.
    example : str
        What is written after ``viewsmith fit``.
    header : callable
        Of image files: a function of a path that returns an `ImageFile`, with which folders of them are read, too.
    recognizes : callable
        A function of a path: whether the name and the content say, whatever the ending is, that it is one of these.
    """
    if wrong := [ending for ending in (*endings, *in_folders) if not ending.startswith(".")]:
        raise ValueError(f"the reader {name!r} has the ending {wrong[0]!r}, expected a dot first, as in '.csv'")
    if not (endings or in_folders or recognizes):
        raise ValueError(f"the reader {name!r} has no endings: give those of the files that it reads, as in '.csv'")
    tags: dict[str, Any] = {"endings": endings, "in_folders": tuple(in_folders), "takes": tuple(options)}
    tags |= {"noun": noun, "extra": extra, "table": table, "once": once, "example": example, "header": header}
    tags["recognizes"] = recognizes
    return register("reader", name, help=help, modalities=modality, **tags)


def by_ending() -> dict[str, Entry]:
    """Readers by the endings of what they read; those of a plug-in come after, and so in place of, built-in ones."""
    return {ending: entry for entry in entries("reader") for ending in entry.tag("endings")}


def is_table(source: str | Path) -> bool:
    """Whether a file is a table, by its ending."""
    found = by_ending().get(places.extension_of(Path(source)).lower())
    return found is not None and bool(found.tag("table"))


def recognized(path: Path) -> Iterator[Entry]:
    """Readers that recognize a path, whatever its ending is."""
    return (entry for entry in entries("reader") if entry.tag("recognizes") and entry.tag("recognizes")(path))


def find_reader(path: Path) -> Entry:
    """The reader that recognizes a path, else that of its ending, or of the files of a folder; InputError says what
    a file without a reader is, and what converts it."""
    if path.suffix.lower() in (".h5", ".hdf5"):
        refuse(path, path.suffix, texts=False)  # of other programs
    if (found := next(recognized(path), None)) is not None:
        return found
    if path.is_dir():
        if path.suffix.lower() == ".safe":  # of Sentinel, whose only plain picture is a preview
            refuse_data_set(path)
        return by_ending().get(f"{path.suffix.lower()}/") or _reader_of_folder(path)
    places.check_source(path)
    if path.name.split(".")[0] in ("matrix", "barcodes", "features", "genes") and all(
        any(path.parent.glob(name)) for name in ("matrix.mtx*", "barcodes.tsv*")
    ):
        raise InputError(f"{path} belongs to its folder, which is read as a whole: give {path.parent}")
    ending = places.extension_of(path)
    found = by_ending().get(ending.lower())
    if found is None:
        refuse(path, ending)
        given = f"the extension {ending!r}" if ending else "no extension"
        if hint := advice(ending, path):
            raise InputError(f"{path} has {given}; {hint}")
        known = " ".join(ending for ending in by_ending() if not ending.endswith((*places.PACKED, "/")))
        raise InputError(
            f"{path} has {given}; expected {known}, a folder of images, or one of the built-in "
            f"{', '.join(places.BUILTIN)}"
        )
    if not places.file_of(path)[0].is_file():
        raise InputError(f"{path} is neither a file nor a folder; expected a {ending} file")
    return found


def _reader_of_folder(folder: Path) -> Entry:
    """The reader of most files of a folder; that of images, which says what is expected, if nothing is read."""
    counts, images = count_endings(folder), find("reader", "images")
    known = [images, *(entry for entry in entries("reader") if entry is not images)]

    def files(entry: Entry) -> tuple[bool, int]:
        """Tables in text are read if there is nothing else: beside other files they are of labels."""
        number = sum(counts[ending] for ending in entry.tag("in_folders"))
        return number > 0 and not set(entry.tag("in_folders")) <= {*places.TEXT_TABLES}, number

    return max(known, key=files)


def count_endings(folder: Path) -> Counter[str]:
    """How many files with each ending a folder and its folders have, without hidden ones and results."""
    counts: Counter[str] = Counter()
    for place, inner, names in os.walk(folder):
        inner[:] = [name for name in inner if not name.startswith(".") and not places.is_result(Path(place) / name)]
        counts.update(places.extension_of(Path(name)).lower() for name in names if not name.startswith("."))
        if counts.total() > MOST_FILES:
            break
    return counts
