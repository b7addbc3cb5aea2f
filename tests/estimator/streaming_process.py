"""By how much memory grows, in MB, when rows on disk are fitted, embedded and viewed; for a process of its own."""

import resource
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch

from viewsmith import Contrastive
from viewsmith.core import rows as row_source
from viewsmith.core.rows import ArrayRows

FEATURES = 300


def work(n: int, folder: Path, views: str) -> None:
    file = folder / f"{n}.npy"
    with file.open("wb") as opened:
        np.lib.format.write_array_header_1_0(opened, {"descr": "<f4", "fortran_order": False, "shape": (n, FEATURES)})
        for start in range(0, n, 1000):
            opened.write(np.random.default_rng(start).normal(size=(1000, FEATURES)).astype(np.float32).data)
    rows = ArrayRows(np.load(file, mmap_mode="r"))
    model = Contrastive(epochs=1, batch_size=1000, view_maker=views, max_rows=1000, n_components=8, random_state=0)
    model.fit(rows)
    for _ in model.transform_blocks(rows):
        pass
    for _ in model.set_params(max_rows=None).view_blocks(rows, 2, pool=rows[:1000]):
        pass


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    row_source.BLOCK_VALUES = 300_000
    with tempfile.TemporaryDirectory() as name:
        work(2000, Path(name), sys.argv[2])  # what the first training loads
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        work(int(sys.argv[1]), Path(name), sys.argv[2])
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000)
