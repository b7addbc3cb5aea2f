"""CPU time and memory of the default closed form on 10,000 to 1,000,000 images and recordings from a file.

Images: 32 x 32 x 3, those of cifar10_small repeated (`VIEWSMITH_DATA`; without it, random ones); recordings: random
walks of 100 points. `fit` reads at most 10,000 random samples (`max_samples`); `all` takes the views of every sample,
two of each, so that its time shows that of a pass. Each fit is a process of its own. Targets: time linear, or constant
where the samples are limited, and constant memory.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.methods.linear_contrast_rows [--quick]
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.speed.data.default_fit import images, walks
from benchmarks.speed.timing import parser, process, read, record
from viewsmith import LinearContrast

SIZES = {
    ("images", "fit"): (10_000, 100_000, 1_000_000),
    ("images", "all"): (10_000, 20_000, 40_000),
    ("recordings", "fit"): (10_000, 100_000),
    ("recordings", "all"): (10_000, 20_000, 40_000),
}


def write(path: Path, kind: str, rows: int) -> None:
    """Samples in a file, block by block."""
    block = images(5000) if kind == "images" else walks(5000)
    found = np.lib.format.open_memmap(path, "w+", block.dtype, (rows, *block.shape[1:]))
    for start in range(0, rows, len(block)):
        found[start : start + len(block)] = block[: rows - start]
    found.flush()


def fit(path: str, kind: str, what: str) -> None:
    """Fit to a file of samples."""
    warnings.simplefilter("ignore")
    options = {"max_samples": None, "n_views": 2} if what == "all" else {}
    modality = "images" if kind == "images" else "series"
    LinearContrast(modality=modality, random_state=0, **options).fit(np.load(path, mmap_mode="r"))


def main(arguments: Sequence[str] | None = None) -> None:
    given = read(parser(__doc__), arguments)
    with tempfile.TemporaryDirectory() as folder:
        for (kind, what), sizes in SIZES.items():
            for rows in (100,) if given.quick else sizes:
                path = Path(folder) / "x.npy"
                write(path, kind, rows)
                used = process(sys.executable, "-m", __spec__.name, path, kind, what)
                found = {key: round(value, 2) for key, value in used.items()}
                record("linear_contrast_rows", {"kind": kind, "fit": what, "rows": rows, **found}, given)
                path.unlink()


if __name__ == "__main__":
    if len(sys.argv) == 4:
        fit(*sys.argv[1:])
    else:
        main()
