"""By how much memory grows, in MB, when views in a cache on disk are read in a training; for a process of its own."""

import resource
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch

from viewsmith import GenView
from viewsmith.data.view_cache import ViewCacheFolder
from viewsmith.estimator.plan import fingerprint

ROWS, FEATURES, BLOCK = 4096, 500, 256


def written(folder: Path, x: np.ndarray, n_views: int) -> str:
    """A view cache of rows, of which each view is the rows and a number."""
    cache = ViewCacheFolder(folder)
    record = {"rows": len(x), "seed": 0, "noise": "none", "block": BLOCK, "views_per_sample": n_views}
    data = {"fingerprint": fingerprint(x), "modality": "vectors", "transductive": True}
    cache.open_for(record | {"data": data, "generator": {"name": "toy", "version": "1"}})
    level = torch.full((len(x), n_views), -1)
    cache.write_levels(torch.full((len(x),), torch.nan, dtype=torch.float64), level, torch.zeros(0))
    for number in cache.numbers():
        rows = cache.rows_of(number)
        views = torch.stack([torch.from_numpy(x)[rows] + view for view in range(n_views)], dim=1)
        cache.write_block(number, views, seed=level[rows], level=level[rows], quality=torch.zeros(len(rows), n_views))
    return str(folder)


def train(folder: Path, n_views: int) -> None:
    x = np.random.default_rng(0).normal(size=(ROWS, FEATURES)).astype(np.float32)
    cache = written(folder / str(n_views), x, n_views)
    GenView(epochs=1, n_components=4, hidden=(8,), projector_dims=(4,), view_cache=cache, random_state=0).fit(x)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        train(Path(name), 1)  # what the first training loads
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        train(Path(name), int(sys.argv[1]))
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000)
