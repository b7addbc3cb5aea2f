"""What PiNDA's generators add to a SimCLR step with ResNet-18 (small stem, 3 x 32 x 32).

Whole training steps (views, forward, backward, AdamW) of all in turn, medians of the ratio to SimCLR; noise on one
view, log barrier; other views: none, or the simclr recipe on both sides. Process time on a CPU, wall time on a GPU.
Target: at most 1.15 times with the low-resolution map or the shared trunk; the paper reports 28 % for its own.

    OMP_NUM_THREADS=1 python benchmarks/pinda_image_step.py [--device cuda] [--views simclr] [--batch 16] [--rounds 7]
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch
from resnet_step import MAKERS, SIDE, WARM, arguments, now, record
from torch import nn

from viewsmith.core.method import Batch, Method, Optimizer
from viewsmith.frameworks import SimCLR
from viewsmith.methods import ContrastiveMethod, PiNDAMethod
from viewsmith.networks import MLP, LowResolutionMap, ResNet, ResNetMap, SharedTrunkMap, UNet, resnet18
from viewsmith.training.optimizers import make_optimizer
from viewsmith.views import PiNoise, ViewPair

GENERATORS: dict[str, Callable[[ResNet], nn.Module]] = {
    "low-resolution map": lambda encoder: LowResolutionMap(3),
    "shared trunk": lambda encoder: SharedTrunkMap(encoder.stem, encoder.stem_width, 3),
    "small U-Net": lambda encoder: UNet(3),
    "resnet18, as published": lambda encoder: ResNetMap(3),
}


def framework() -> SimCLR:
    torch.manual_seed(0)
    return SimCLR(resnet18(), MLP(512, [512, 128]), temperature=0.5)


def pinda(generator: Callable[[ResNet], nn.Module], views: str) -> Method:
    simclr = framework()
    assert isinstance(simclr.encoder, ResNet)
    return PiNDAMethod(
        simclr,
        ViewPair([MAKERS[views]()]),
        PiNoise(generator(simclr.encoder), strength=0.25),
        two_sided=False,
        penalty="log_barrier",
        penalty_weight=1.0,
        epochs=1,
        optimizer=Optimizer(),
    )


def measure(device: str, views: str, batch: int, rounds: int, bf16: bool) -> dict[str, dict[str, float]]:
    methods: dict[str, Method] = {
        "simclr": ContrastiveMethod(framework(), ViewPair([MAKERS[views]()]), epochs=1, optimizer=Optimizer()),
        **{name: pinda(generator, views) for name, generator in GENERATORS.items()},
    }
    optimizers = {name: make_optimizer(Optimizer(), list(m.to(device).parameters())) for name, m in methods.items()}
    steps = {name: method.phases()[0].updates[0].step for name, method in methods.items()}
    generator = torch.Generator(device).manual_seed(0)
    x = 4 * torch.rand(batch, 3, SIDE, SIDE, device=device, generator=generator) - 2
    index = torch.arange(batch, device=device)

    def seconds(name: str) -> float:
        started = now(device)
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            losses, _ = steps[name](Batch(x, index, generator))
        optimizers[name].zero_grad(set_to_none=True)
        losses.mean().backward()
        optimizers[name].step()
        return now(device) - started

    rows = [{name: seconds(name) for name in methods} for _ in range(WARM + rounds)][WARM:]
    return {
        "ms": {name: round(statistics.median(row[name] for row in rows) * 1e3, 2) for name in methods},
        "ratio": {name: round(statistics.median(row[name] / row["simclr"] for row in rows), 3) for name in methods},
    }


if __name__ == "__main__":
    record("pinda_image_step", arguments(batch=16, rounds=7, views="identity"), measure, {"target": 1.15})
