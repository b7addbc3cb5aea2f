"""Decoded images of a folder in a file that is mapped into memory: decoded once, and again when the folder changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.errors import InputError
from viewsmith.core.files import write_json_atomic
from viewsmith.core.mapped import read_mapped, write_mapped
from viewsmith.core.messages import warn


class ImageCache:
    """The decoded images of one folder, read with the same options.

    Parameters
    ----------
    place : Path
        Folder of caches; it is made when images are written.
    source : Path
        Folder of image files.
    files : list of Path
        Its image files, in order.
    options : dict
        What else the pixels depend on, as plain values.
    """

    def __init__(self, place: Path, source: Path, files: list[Path], options: dict[str, Any]) -> None:
        whole = source.resolve()
        key = hashlib.sha256(json.dumps([str(whole), options], sort_keys=True).encode("utf-8", "surrogateescape"))
        self.source, name = source, f"{whole.name[:64] or 'images'}-{key.hexdigest()[:12]}"
        self.pixels, self.record = place / f"{name}.npy", place / f"{name}.json"
        self._digest = _digest(source, files)

    def read(self) -> np.ndarray | None:
        """The images, mapped, if they were decoded and the folder has the same files since; else None, with a warning.

        Raises
        ------
        InputError
            The file of decoded images is damaged.
        """
        try:
            known = json.loads(self.record.read_text(encoding="utf-8"))["files"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if known != self._digest:
            warn(
                f"{self.source} has other files than when its images were decoded (names, sizes or dates): they are "
                "decoded again"
            )
            return None
        try:
            return read_mapped(self.pixels)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"the decoded images {self.pixels} are damaged ({error}): delete this file") from error

    def write(self, images: Iterable[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """Decode the images into the file, and map it."""
        self.pixels.parent.mkdir(parents=True, exist_ok=True)
        self.record.unlink(missing_ok=True)
        write_mapped((image[None] for image in images), shape, self.pixels, np.uint8)
        write_json_atomic(self.record, {"source": str(self.source), "files": self._digest, "shape": list(shape)})
        return read_mapped(self.pixels)


def _digest(source: Path, files: list[Path]) -> str:
    """Digest of names, sizes and dates of the files."""
    digest = hashlib.sha256()
    for file in files:
        found = file.stat()
        line = f"{file.relative_to(source).as_posix()}\0{found.st_size}\0{found.st_mtime_ns}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
