"""Speed and memory of losses, forward and backward."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.speed.timing import Row, Seconds, case, clock, fresh, milliseconds, peak, ratios, time_interleaved
from viewsmith.losses import nt_xent as our_nt_xent
from viewsmith.losses import soft_contrastive as our_soft_contrastive

Loss = Callable[[Tensor, Tensor], Tensor]
WIDTH, TEMPERATURE = 128, 0.5
ROUNDS = {256: 60, 1024: 15, 4096: 5}


def cross_entropy(z0: Tensor, z1: Tensor) -> Tensor:
    z, n = F.normalize(torch.cat([z0, z1]), dim=1), len(z0)
    logits = (z @ z.T / TEMPERATURE).fill_diagonal_(float("-inf"))
    return F.cross_entropy(logits, torch.arange(2 * n, device=z.device).roll(n))


def lightly() -> Loss | None:
    """lightly's loss, or None. The import of torchvision may fail if it was built for another torch; its operators are
    not needed here.
    """
    register = torch.library.register_fake

    def without_vision(name: object, *args: object, **options: object) -> object:
        return (
            (lambda function: function) if str(name).startswith("torchvision::") else register(name, *args, **options)
        )

    torch.library.register_fake = without_vision
    try:
        from lightly.loss import NTXentLoss
    except ImportError:
        return None
    finally:
        torch.library.register_fake = register
    return NTXentLoss(temperature=TEMPERATURE)


def passes(losses: dict[str, Loss], shape: tuple[int, int], device: str) -> dict[str, Callable[[], float]]:
    """Functions that run a loss forward and backward on random projections of two views, and return its mean."""
    z = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0)).to(device)

    def work(loss: Loss) -> Callable[[], float]:
        a, b = (view.clone().requires_grad_() for view in z)

        def both() -> float:
            a.grad = b.grad = None
            value = loss(a, b).mean()
            value.backward()
            return value.item()

        return both

    return {name: work(loss) for name, loss in losses.items()}


@case(device=True, options={"--peers": {"help": "site-packages with lightly and torchvision, searched last"}})
def nt_xent(given: argparse.Namespace) -> Iterator[Row]:
    """NT-Xent against one matmul with F.cross_entropy and against lightly's NTXentLoss.

    Batches of 256, 1,024 and 4,096 pairs of 128 features, temperature 0.5, float32. Interleaved rounds; medians of the
    ratio. Targets: at most 1.05 times the cross entropy; lightly takes at least 1.4 times as long as viewsmith. A
    library that cannot be imported is recorded as absent.
    """
    sys.path += [given.peers] if given.peers else []
    losses: dict[str, Loss | None] = {
        "viewsmith": lambda x, y: our_nt_xent(x, y, temperature=TEMPERATURE),
        "viewsmith, plain": lambda x, y: our_nt_xent(x, y, temperature=TEMPERATURE, form="plain"),
        "cross entropy": cross_entropy,
        "lightly": lightly(),
    }
    present = {name: loss for name, loss in losses.items() if loss is not None}
    counts = {256: 1} if given.quick else ROUNDS
    seconds: dict[int, Seconds] = {}
    for batch, rounds in counts.items():
        works = passes(present, (batch, WIDTH), given.device)
        values = {name: work() for name, work in works.items()}
        assert max(values.values()) - min(values.values()) < 1e-4, values
        seconds[batch] = time_interleaved(works, rounds, clock(given.device))
    yield {
        "ms": {batch: milliseconds(taken) for batch, taken in seconds.items()},
        "ratio_to_viewsmith": {batch: ratios(taken, "viewsmith") for batch, taken in seconds.items()},
        "absent": [name for name in losses if name not in present],
        "target": {"cross entropy": "at least 0.952", "lightly": "at least 1.4"},
        "rounds": counts,
        "clock": "wall",
    }


def extra_memory(batch: int, negatives: str, device: str) -> Row:
    """Growth of the peak memory by the loss and its gradient."""
    now = torch.cuda.max_memory_allocated if device == "cuda" else peak
    small = torch.randn(2, 600, WIDTH, device=device, requires_grad=True)
    our_nt_xent(*small, negatives=negatives, form="chunked").mean().backward()
    draws = torch.Generator().manual_seed(0)
    z0, z1 = (torch.randn(batch, WIDTH, generator=draws).to(device).requires_grad_() for _ in range(2))
    before, started = now(), time.perf_counter()
    loss = our_nt_xent(z0, z1, negatives=negatives).mean()
    loss.backward()
    seconds, extra = round(time.perf_counter() - started, 2), round((now() - before) / 2**20, 1)
    return {"extra_mib": extra, "seconds": seconds, "loss": round(loss.item(), 6), "target_mib": 1024}


@case(device=True, options={"--case": {"nargs": 2, "action": "append", "metavar": ("BATCH", "NEGATIVES")}})
def nt_xent_memory(given: argparse.Namespace) -> Iterator[Row]:
    """Extra memory of NT-Xent for large batches of 128 features; each batch in a new process.

    Extra memory is the growth of the peak resident memory, with gradients, after a small batch has loaded the code and
    the projections have been allocated. Target: at most 1 GiB for 65,536 pairs, which take minutes on one core; the
    similarity matrix alone would take 64 GiB (negatives "all") or 16 GiB ("cross").
    """
    all_cases = [(size, kind) for size in (16384, 65536) for kind in ("cross", "all")]
    for batch, negatives in given.case or ([(600, "all")] if given.quick else all_cases):
        found = fresh(extra_memory, int(batch), negatives, given.device)
        yield {"batch": int(batch), "negatives": negatives} | found


@case(device=True)
def soft_contrastive(given: argparse.Namespace) -> Iterator[Row]:
    """The soft contrastive loss against NT-Xent of the same batch.

    Batches of 256, 1,024 and 4,096 pairs, float32, plain kernel, nu 0.1; projections and representations of 80
    features, and, as in training, projections of 32 or 2 features with representations of 256. Representations are
    drawn so that soft labels are between 0.1 and 0.3 ("near"), or almost 0 ("far"). NT-Xent has projections of the same
    width and temperature 0.5. Interleaved rounds in random order; medians of the ratio. Target: at most 1.3 times
    NT-Xent for 4,096 pairs of 80 features.
    """
    counts = {(80, 80): ROUNDS, (32, 256): {256: 60}, (2, 256): {256: 60}}  # width of z, of y: rounds by batch
    seconds: dict[str, Seconds] = {}
    for (width, target), batches in ({(2, 256): {256: 1}} if given.quick else counts).items():
        for batch, rounds in batches.items():
            y = torch.randn(batch, target, generator=torch.Generator().manual_seed(1)) / (2 * target) ** 0.5
            rows = torch.arange(batch, device=given.device)
            near, far = (y.to(given.device) * distance**0.5 for distance in (2.0, 200.0))
            losses: dict[str, Loss] = {
                "NT-Xent": lambda a, b: our_nt_xent(a, b, temperature=0.5),
                "near": lambda a, b, y=near: our_soft_contrastive(a, b, y),
                "near, rows known": lambda a, b, y=near, r=rows: our_soft_contrastive(a, b, y, ids=(r, r)),
                "far": lambda a, b, y=far: our_soft_contrastive(a, b, y),
            }
            if batch <= 1024:
                losses["near, plain form"] = lambda a, b, y=near: our_soft_contrastive(a, b, y, form="plain")
            works = passes(losses, (batch, width), given.device)
            values = {name: work() for name, work in works.items()}
            assert abs(values["near"] / values.get("near, plain form", values["near, rows known"]) - 1) < 1e-4, values
            taken = time_interleaved(works, rounds, clock(given.device), shuffle=True)
            seconds[f"{batch} pairs, z {width}, y {target}"] = taken
    yield {
        "ms": {name: milliseconds(taken) for name, taken in seconds.items()},
        "ratio_to_nt_xent": {name: ratios(taken, "NT-Xent") for name, taken in seconds.items()},
        "target": {"4096 pairs, z 80, y 80": {"near, rows known": "at most 1.3"}},
        "rounds": {f"z {z}, y {y}": batches for (z, y), batches in counts.items()},
        "clock": "wall",
    }
