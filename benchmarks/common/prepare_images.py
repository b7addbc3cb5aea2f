"""Write three public sets of images as .npz files for the study of symmetries, from clones of their repositories.

signs     hands that show ten digits, 32 x 32 in color (Mavi 2020, github.com/ardamavi/Sign-Language-Digits-Dataset)
smiles    faces that smile or not, 32 x 32 in gray (github.com/hromi/SMILEsmileD)
omniglot  characters of the small background sets, 28 x 28; the class is the alphabet (Lake et al. 2015,
          github.com/brendenlake/omniglot)

    python -m benchmarks.common.prepare_images FOLDER_OF_CLONES FOLDER_OF_DATA

A random quarter of the images, seed 0, is for the test.
"""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image


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


def main(clones: Path, out: Path) -> None:
    """Write the files."""
    for name, read in (("signs", signs), ("smiles", smiles), ("omniglot", omniglot)):
        images, labels = zip(*read(clones / name), strict=True)
        x, y = np.stack(images), np.array(labels)
        order = np.random.default_rng(0).permutation(len(x))
        test, train = order[: len(x) // 4], order[len(x) // 4 :]
        np.savez(out / f"{name}.npz", X_train=x[train], y_train=y[train], X_test=x[test], y_test=y[test])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
