"""CPU time of the graph of 5 nearest neighbors: exact search against inverted lists, 5,000 to 100,000 rows.

The rows are synthetic, with 50 features, for timing only: 100 Gaussian clusters, whose centers have standard deviation
2; and uniform rows, for which inverted lists do not help, so that the search becomes exact. `recall_estimate` is the
estimate of the search from 1,000 rows, `recall` the recall of all rows. `--alone N` adds N clustered rows with the
approximate search only. Targets: 50,000 clustered rows in 5 s with a recall near 1; faster than the exact search from
20,000 clustered rows.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.data.neighbor_graph [--largest 100000] [--alone 1000000] [--quick]
"""

from __future__ import annotations

import resource
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.speed.timing import clock, parser, read, record
from viewsmith.views import NeighborSearch, nearest_neighbors

SIZES = (5_000, 10_000, 20_000, 50_000, 100_000)
NEIGHBORS, FEATURES, CLUSTERS = 5, 50, 100


def clustered(n: int, generator: torch.Generator) -> Tensor:
    """Rows (n, 50) of Gaussian clusters."""
    centers = 2 * torch.randn(CLUSTERS, FEATURES, generator=generator)
    labels = torch.randint(CLUSTERS, (n,), generator=generator)
    return centers[labels] + torch.randn(n, FEATURES, generator=generator)


def uniform(n: int, generator: torch.Generator) -> Tensor:
    """Uniform rows (n, 50) in the unit cube."""
    return torch.rand(n, FEATURES, generator=generator)


def measure(x: Tensor, device: str, with_exact: bool) -> dict[str, Any]:
    """Seconds of both searches, and settings and recall of the approximate one."""
    now, row = clock(device, wall=device != "cpu"), dict[str, Any]()
    exact = None
    if with_exact:
        started = now()
        exact = nearest_neighbors(x, NEIGHBORS)
        row["exact"] = round(now() - started, 2)
    started = now()
    search = NeighborSearch(x, NEIGHBORS, exact_up_to=0)
    graph = search.graph()
    row["approximate"] = round(now() - started, 2)
    summary = search.summary
    row |= {
        "search": summary.search,
        "lists": summary.lists,
        "probes": summary.probes,
        "recall_estimate": round(summary.recall, 4),
    }
    if exact is not None:
        hits = sum((graph[:, i, None] == exact).sum() for i in range(NEIGHBORS))
        row["recall"] = round(int(hits) / exact.numel(), 4)
    return row


def main(arguments: Sequence[str] | None = None) -> None:
    given = read(parser(__doc__, device=True, largest=SIZES[-1], alone=0), arguments)
    sizes = (2_000, 4_000) if given.quick else [n for n in SIZES if n <= given.largest]
    seconds: dict[str, dict[str, Any]] = {}
    for kind in (clustered, uniform):
        seconds[kind.__name__] = {}
        for n in [*sizes, *([given.alone] if given.alone and kind is clustered else [])]:
            x = kind(n, torch.Generator().manual_seed(n)).to(given.device)
            seconds[kind.__name__][str(n)] = found = measure(x, given.device, n in sizes)
            print(f"{kind.__name__:10} {n:9,} {found}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    record("neighbor_graph", {"seconds": seconds, "peak_gib": round(peak, 2)}, given)


if __name__ == "__main__":
    main()
