"""Dense features of images in a file: computed once, read through a memory map, and reused after a stop."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass
class MapCache:
    """Maps of n images, float32, in `KEY.maps`; `KEY.rows` has a byte for each image, 1 if its map is there."""

    folder: Path
    key: str  # names the images and the features, see `key_of`
    n: int
    size: tuple[int, int]  # height and width of the largest map

    def read(self, rows: np.ndarray, height: int, width: int) -> np.ndarray | None:
        """Maps (b, height, width, d) of these images, or None unless all are there."""
        if not self._rows.exists() or not np.fromfile(self._rows, np.uint8)[rows].all():
            return None
        maps = np.memmap(self._maps, np.float32, "r").reshape(self.n, *self.size, -1)
        return np.array(maps[rows, :height, :width])

    def write(self, rows: np.ndarray, maps: np.ndarray) -> None:
        """Add maps (b, height, width, d) of these images."""
        _, height, width, d = maps.shape
        if not self._rows.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._maps.open("wb") as file:
                file.truncate(4 * self.n * self.size[0] * self.size[1] * d)
            self._rows.write_bytes(bytes(self.n))
        padded = np.zeros((*self.size, d), np.float32)
        # Written as a file: a full disk is an error here, and would end the process through a memory map.
        with self._maps.open("r+b") as data, self._rows.open("r+b") as there:
            for row, own in zip(rows, maps, strict=True):
                padded[:height, :width] = own
                data.seek(int(row) * padded.nbytes)
                data.write(padded.tobytes())
                data.flush()
                there.seek(int(row))
                there.write(b"\1")

    @property
    def _maps(self) -> Path:
        return self.folder / f"{self.key}.maps"

    @property
    def _rows(self) -> Path:
        return self.folder / f"{self.key}.rows"


def key_of(parts: Iterable[bytes]) -> str:
    """A name for what has these contents, 16 letters."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:16]
