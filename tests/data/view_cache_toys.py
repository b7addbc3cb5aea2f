"""A fast generator, and jobs that are killed, for tests that start other processes."""

import os
import signal

import torch

from viewsmith.data import view_cache as caches
from viewsmith.data.view_cache import ViewCacheFolder
from viewsmith.methods.genview.parts import generate

ROWS = torch.arange(22 * 3, dtype=torch.float32).view(22, 3)


class Toy:
    """Rows plus their level plus noise from the stream of each row."""

    device = torch.device("cpu")

    def __init__(self, kill=None):
        self.kill, self.calls, self.seen = kill, 0, []

    def describe(self):
        return {"name": "toy", "version": "1"}

    def noise_tolerance(self, rows, min_max):
        assert not min_max
        return torch.linspace(0, 1, len(rows), dtype=torch.float64), torch.arange(2.0)

    def quality(self, rows, views, axis):
        return axis[1] * (views - rows).mean(1)

    def generate(self, rows, index, view, level, streams):
        self.calls += 1
        self.seen += index.tolist()
        if self.kill == self.calls:
            os.kill(os.getpid(), signal.SIGKILL)
        return rows + level[:, None] + torch.stack([torch.randn(3, generator=each) for each in streams])

    def choose(self, rows, index, views, n_views):
        """The largest ones first; none of row 5."""
        assert len(rows) == len(ROWS) and torch.equal(rows[index], ROWS[index])
        chosen = views.sum(2).argsort(dim=1, descending=True)[:, :n_views]
        return torch.where(index[:, None] == 5, -1, chosen)


def record(**changes):
    base = {
        "data": {"fingerprint": "abc"},
        "rows": len(ROWS),
        "views_per_sample": 2,
        "block": 4,
        "seed": 3,
        "noise": "adaptive",
        "generator": Toy().describe(),
    }
    return base | changes


def job(folder, *, kill=None, write=None, shard=(1, 1), **changes):
    """Run the job in a folder; kill it in the n-th call of the generator, or before or after the n-th write."""
    if write is not None:
        save, count = caches.save_tensors, [0]

        def save_or_die(path, tensors):
            count[0] += 1
            if (count[0], "before") == write:
                os.kill(os.getpid(), signal.SIGKILL)
            if (count[0], "half") == write:
                path.with_name(f".{path.stem}-half.safetensors").write_bytes(b"half")
                os.kill(os.getpid(), signal.SIGKILL)
            save(path, tensors)
            if (count[0], "after") == write:
                os.kill(os.getpid(), signal.SIGKILL)

        caches.save_tensors = save_or_die
    cache = ViewCacheFolder(folder)
    cache.open_for(record(**changes))
    toy = Toy(kill)
    generate(cache, ROWS, toy, shard=shard, choose=toy.choose)
    return cache, toy
