"""Write public sets of images and of recordings as .npz files for the study of symmetries.

signs     hands that show ten digits, 32 x 32 in color (Mavi 2020, github.com/ardamavi/Sign-Language-Digits-Dataset)
smiles    faces that smile or not, 32 x 32 in gray (github.com/hromi/SMILEsmileD)
omniglot  characters of the small background sets, 28 x 28; the class is the alphabet (Lake et al. 2015,
          github.com/brendenlake/omniglot)
letters   A to J in many typefaces, 28 x 28, the 10,000 of the smaller file (notMNIST, Bulatov 2011,
          github.com/davidflanagan/notMNIST-to-MNIST)
series    OSULeaf, ArrowHead, GunPoint, ItalyPowerDemand and JapaneseVowels of the UCR and UEA archives (Dau et al.
          2019, Bagnall et al. 2018), from the data that the package aeon holds; shorter recordings are stretched

    python -m benchmarks.common.prepare_sets FOLDER_OF_CLONES FOLDER_OF_DATA

The folder of clones has signs, smiles, omniglot and letters, and aeon's folder ``datasets/data`` as series. A random
quarter of the images and a random third of the recordings, seed 0, is for the test.
"""

from __future__ import annotations

import gzip
import io
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SERIES = ("OSULeaf", "ArrowHead", "GunPoint", "ItalyPowerDemand", "JapaneseVowels")


def signs(folder: Path) -> Iterator[tuple[np.ndarray, int]]:
    """Image and class."""
    for file in sorted((folder / "Dataset").rglob("*.JPG")):
        yield np.asarray(Image.open(file).convert("RGB").resize((32, 32), Image.Resampling.BOX)), int(file.parent.name)


def smiles(folder: Path) -> Iterator[tuple[np.ndarray, int]]:
    """Image and class."""
    for number, name in enumerate(("negatives", "positives")):
        for file in sorted((folder / "SMILEs" / name).rglob("*.jpg")):
            yield np.asarray(Image.open(file).convert("L").resize((32, 32), Image.Resampling.BOX)), number


def omniglot(folder: Path) -> Iterator[tuple[np.ndarray, int]]:
    """Image, white on black, and class."""
    seen: list[str] = []
    for part in ("small1", "small2"):
        with zipfile.ZipFile(folder / "python" / f"images_background_{part}.zip") as archive:
            for name in sorted(archive.namelist()):
                if not name.endswith(".png") or "__MACOSX" in name:
                    continue
                alphabet = name.split("/")[1]
                if alphabet not in seen:
                    seen.append(alphabet)
                image = Image.open(io.BytesIO(archive.read(name))).convert("L").resize((28, 28), Image.Resampling.BOX)
                yield 255 - np.asarray(image), seen.index(alphabet)


def letters(folder: Path) -> Iterator[tuple[np.ndarray, int]]:
    """Image and class, from the files with headers of 16 and 8 bytes."""
    pixels, labels = (
        np.frombuffer(gzip.decompress((folder / f"t10k-{name}-ubyte.gz").read_bytes()), np.uint8, offset=offset)
        for name, offset in (("images-idx3", 16), ("labels-idx1", 8))
    )
    yield from zip(pixels.reshape(-1, 28, 28), labels.tolist(), strict=True)


def recordings(folder: Path, name: str) -> Iterator[tuple[np.ndarray, str]]:
    """Recording (channels, time), and class."""
    found = []
    for part in ("TRAIN", "TEST"):
        for line in (folder / name / f"{name}_{part}.ts").read_text(encoding="utf-8").splitlines():
            if line.strip() and line[0] not in "#@":
                *channels, label = line.strip().split(":")
                found.append(([np.fromstring(channel, sep=",") for channel in channels], label))
    longest = max(len(channels[0]) for channels, _ in found)
    for channels, label in found:
        at = np.linspace(0, len(channels[0]) - 1, longest)
        yield np.stack([np.interp(at, np.arange(len(c)), c) for c in channels]).astype(np.float32), label


def main(clones: Path, out: Path) -> None:
    """Write the files."""
    readers: dict[str, Callable[[], Iterable[tuple[np.ndarray, Any]]]] = {
        read.__name__: partial(read, clones / read.__name__) for read in (signs, smiles, omniglot, letters)
    }
    readers |= {name: partial(recordings, clones / "series", name) for name in SERIES}
    for name, read in readers.items():
        samples, labels = zip(*read(), strict=True)
        x, y = np.stack(samples), np.unique(labels, return_inverse=True)[1]
        order = np.random.default_rng(0).permutation(len(x))
        tests = len(x) // (3 if name in SERIES else 4)
        test, train = order[:tests], order[tests:]
        np.savez(out / f"{name}.npz", X_train=x[train], y_train=y[train], X_test=x[test], y_test=y[test])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
