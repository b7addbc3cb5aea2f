"""Time that PiNDA's noise generators add to a SimCLR step with ResNet-18 (small stem, 3 x 32 x 32).

Whole training steps (views, forward, backward, AdamW) in interleaved rounds; medians of the ratio to SimCLR. Noise on
one view, log barrier; other views: none, or the simclr recipe for both views. Process time on a CPU, wall time on a
GPU. Target: at most 1.15 times with the low-resolution map or the shared trunk; the paper reports that its generator
adds 28 %.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.methods.pinda_image_step [--device cuda] [--views simclr] [--quick]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from torch import nn

from benchmarks.speed.resnet_step import MAKERS, WARM, contrastive, options, record_both, simclr, step
from benchmarks.speed.timing import clock, milliseconds, ratios, time_interleaved
from viewsmith.core.schedule import Method, Optimizer
from viewsmith.methods import PiNDAMethod
from viewsmith.networks import LowResolutionMap, ResNet, ResNetMap, SharedTrunkMap, UNet
from viewsmith.views import PairMaker, PiNoise

GENERATORS: dict[str, Callable[[ResNet], nn.Module]] = {
    "low-resolution map": lambda encoder: LowResolutionMap(3),
    "shared trunk": lambda encoder: SharedTrunkMap(encoder.stem, encoder.stem_width, 3),
    "small U-Net": lambda encoder: UNet(3),
    "resnet18, as published": lambda encoder: ResNetMap(3),
}


def pinda(generator: Callable[[ResNet], nn.Module], views: str) -> Method:
    framework = simclr()
    assert isinstance(framework.encoder, ResNet)
    return PiNDAMethod(
        framework,
        PairMaker([MAKERS[views]()]),
        PiNoise(generator(framework.encoder), strength=0.25),
        two_sided=False,
        penalty="log_barrier",
        penalty_weight=1.0,
        epochs=1,
        optimizer=Optimizer(),
    )


def measure(given: argparse.Namespace, *, bf16: bool) -> dict[str, dict[str, float]]:
    methods = {"simclr": contrastive(simclr(), given.views)}
    methods |= {name: pinda(generator, given.views) for name, generator in GENERATORS.items()}

    def whole(method: Method) -> Callable[[], None]:
        passes, update = step(method, given, bf16=bf16)

        def work() -> None:
            passes()
            update()

        return work

    works = {name: whole(method) for name, method in methods.items()}
    seconds = time_interleaved(works, given.rounds, clock(given.device, wall=False), warm=WARM)
    return {"ms": milliseconds(seconds), "ratio": ratios(seconds, "simclr")}


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(arguments, __doc__, batch=16, rounds=7, views="identity")
    record_both("pinda_image_step", given, measure, target=1.15)


if __name__ == "__main__":
    main()
