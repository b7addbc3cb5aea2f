"""Work shared by processes through one folder: each piece is claimed by a file with a heartbeat."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

HEARTBEAT = 10.0  # seconds between two renewals of a claim
PATIENCE = 60.0  # seconds without a renewal after which a claim does not count anymore
POLL = 0.5  # seconds between two looks at pieces that other processes have claimed


class Claims:
    """Claims of named pieces of work, as files in a folder that any number of processes share, on any machines.

    A claim is a file that only one process can create. Its time of change is renewed while the process works; a claim
    that is not renewed, or whose process on the same machine has ended, is taken over. Ages are measured by the clock
    of the file system, because clocks of machines differ.

    A claim avoids double work, and nothing rests on it: when a process was stopped for so long that its claim was
    taken over, two processes write the same content, atomically.

    Parameters
    ----------
    folder : Path
        Created with the first claim, and removed with the last one.
    heartbeat, patience : float
        Seconds.
    """

    def __init__(self, folder: Path, heartbeat: float = HEARTBEAT, patience: float = PATIENCE) -> None:
        self.folder, self.heartbeat, self.patience = folder, heartbeat, patience

    @contextlib.contextmanager
    def hold(self, name: str, *, wait: bool = False) -> Iterator[bool]:
        """Claim a piece of work while the block runs.

        Parameters
        ----------
        name : str
        wait : bool
            If another process has it, wait for it; else the block runs at once, with False.

        Yields
        ------
        bool
            Whether this process has it.
        """
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
        """Claim pieces, one after the other, until all are done; waits for those that other processes have claimed.

        Parameters
        ----------
        pieces : iterable
            Their ``str`` names the claims.
        done : callable
            Whether a piece is done, by whatever process.

        Yields
        ------
        piece
            One that is not done, claimed until the next one is asked for.
        """
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
            holder = json.loads(path.read_text(encoding="utf-8"))
            if holder["host"] == socket.gethostname() and not _is_alive(int(holder["process"])):
                return True
        except FileNotFoundError:  # released
            return False
        except (ValueError, KeyError, TypeError):
            pass  # half-written by a process that may be at it still
        finally:
            clock.unlink(missing_ok=True)
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
