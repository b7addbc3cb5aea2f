"""Time of a PiNDA step against a SimCLR step with fixed noise and the same encoder: 561 features, three layers.

Encoder 1024-1024-256, head 256-128, cosine kernel, batch 256; PiNDA's default generator and the published one. Whole
training steps (views, forward, backward, Adam) in interleaved rounds; process time; medians of the ratio. Target: at
most 1.25 times with the default generator.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.methods.pinda_step [--threads 1] [--rounds 40] [--quick]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from benchmarks.speed.timing import clock, milliseconds, parser, ratios, read, record, time_interleaved
from viewsmith.core.schedule import Batch, Method, Optimizer
from viewsmith.frameworks import SimCLR
from viewsmith.methods import ContrastiveMethod, PiNDAMethod
from viewsmith.networks import MLP
from viewsmith.views import GaussianNoise, Identity, PairMaker, PiNoise

FEATURES, BATCH = 561, 256


def framework() -> SimCLR:
    torch.manual_seed(0)
    return SimCLR(MLP(FEATURES, [1024, 1024, 256]), MLP(256, [256, 128]), temperature=0.1)


def pinda(hidden: list[int], two_sided: bool) -> Method:
    return PiNDAMethod(
        framework(),
        PairMaker([Identity()]),
        PiNoise.for_vectors(FEATURES, hidden=hidden, strength=1.0),
        two_sided=two_sided,
        penalty="log_barrier",
        penalty_weight=1.0,
        epochs=1,
        optimizer=Optimizer(),
    )


def step(method: Method, optimizer: torch.optim.Optimizer, batch: Batch) -> Callable[[], None]:
    """A training step: views, forward, backward, update."""
    losses_of = method.phases()[0].updates[0].step

    def work() -> None:
        losses, _ = losses_of(batch)
        optimizer.zero_grad(set_to_none=True)
        losses.mean().backward()
        optimizer.step()

    return work


def main(arguments: Sequence[str] | None = None) -> None:
    given = read(parser(__doc__, rounds=40), arguments)
    methods: dict[str, Method] = {
        "simclr, noise": ContrastiveMethod(
            framework(), PairMaker([GaussianNoise()]), epochs=1, optimizer=Optimizer(name="adam")
        ),
        "pinda, default generator (64)": pinda([64], two_sided=False),
        "pinda, default generator, noise on both views": pinda([64], two_sided=True),
        "pinda, published generator (1024, 1024)": pinda([1024, 1024], two_sided=False),
    }
    x = torch.randn(BATCH, FEATURES, generator=torch.Generator().manual_seed(0))
    batch = Batch(x, torch.arange(BATCH), torch.Generator().manual_seed(0))
    works = {
        name: step(method, torch.optim.Adam(method.parameters(), 1e-3, fused=True), batch)
        for name, method in methods.items()
    }
    seconds = time_interleaved(works, given.rounds, clock(wall=False), warm=5)
    row = {
        "ms": milliseconds(seconds),
        "ratio": ratios(seconds, "simclr, noise"),
        "target": 1.25,
        "clock": "process time",
    }
    record("pinda_step", row, given)


if __name__ == "__main__":
    main()
