"""Time and memory of MetAug's loss and of its meta update.

- "oucl": the unified loss with 6 positives and 6,144 negatives, batch 64, forward and backward, against the
  double sum of the paper on the whole (B, K, P) array. Target: 5 times less time, 5 times less memory.
- "mlp", "resnet18": the update of the generators against a plain update of the encoder (forward, backward and step of
  the same framework without generators). MLP: 561 features, 3 layers of 1,024, batch 256; ResNet-18: 32 x 3 x 32 x 32.
  Two views, 256 negatives. The inner gradient comes from an earlier encoder update, as in training. Target: at most
  2.5 times the time, 1.5 times the memory.
- "terms": five losses of three views (one without and four with augmented features), with 1,024 separate negatives for
  each sample, batch 64, 128 features: one draw of the negatives and one pass over them for all losses, against one for
  each loss. Target: 3 times less time.

Interleaved rounds; CPU time; medians of the ratio. Memory is the growth of the peak memory of a new process.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.methods.meta_features [--rounds 7] [--quick]
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.speed.timing import Work, clock, milliseconds, parser, ratio, read, record, time_interleaved
from viewsmith.core import Batch, Optimizer
from viewsmith.frameworks import FeatureContrast, FeatureMemory, Unified
from viewsmith.losses.oucl import Logits, oucl
from viewsmith.methods import MetAugMethod
from viewsmith.networks import MLP, resnet18
from viewsmith.training.updates import frozen, prepare_update
from viewsmith.views import GaussianNoise, MetaFeatures, PairMaker


def double_sum(positives: Tensor, negatives: Tensor, beta: float = 16.0) -> Tensor:
    """Equation 8 as printed, on the array of all pairs; the largest entry is subtracted to avoid overflow."""
    pairs = beta * (negatives[:, :, None] - positives[:, None, :])
    top = pairs.amax((1, 2), keepdim=True).clamp_min(0)
    return ((-top).exp().flatten() + (pairs - top).exp().sum((1, 2))).log() / beta + top.flatten() / beta


def loss_work(kind: str) -> Work:
    """Forward and backward pass of the unified loss or of the double sum."""
    generator = torch.Generator().manual_seed(0)
    positives = torch.rand(64, 6, generator=generator).requires_grad_()
    negatives = torch.rand(64, 6 * 1024, generator=generator).requires_grad_()
    function = oucl if kind == "oucl" else double_sum

    def work() -> None:
        positives.grad = negatives.grad = None
        function(positives, negatives).mean().backward()

    return work


def method(network: str, *, meta: str) -> tuple[MetAugMethod, Tensor]:
    """A MetAug method and a batch of samples."""
    torch.manual_seed(0)
    if network == "mlp":
        encoder, width, x = MLP(561, [1024] * 3, norm="batch", last="activated"), 1024, torch.randn(256, 561)
    else:
        encoder, width, x = resnet18(3, stem="small"), 512, torch.randn(32, 3, 32, 32)
    contrast = FeatureContrast(FeatureMemory(2, 256, 128, negatives=256))
    features = None if meta == "none" else MetaFeatures(2, 128)
    made = MetAugMethod(
        Unified(encoder, MLP(width, [128]), contrast),
        PairMaker([GaussianNoise(0.5)]),
        features,
        meta=meta,
        feature_weight=0.3,
        inner_rate=0.1,
        margin="large",
        margin_weight=1.0,
        margin_per_sample=False,
        epochs=1,
        optimizer=Optimizer(),
        feature_optimizer=Optimizer(),
    )
    return made, x


def update_work(network: str, *, meta: str, number: int) -> Work:
    """Forward, backward and step of update 0 (encoder) or 1 (generators, after one encoder update)."""
    made, x = method(network, meta=meta)
    batch = Batch(x, torch.arange(len(x)), torch.Generator().manual_seed(0))
    steps = [prepare_update(update, made) for update in made.phases()[0].updates]
    inner: list[Any] = []  # the inner step of the encoder update

    def work() -> None:
        if number == 1:
            made.inner = inner[0]
        update = steps[number]
        with frozen(update.frozen_parameters):
            losses, _ = update.step(batch)
            update.optimizer.zero_grad()
            losses.mean().backward()
            update.optimizer.step()

    if number == 1:
        number = 0
        work()
        inner.append(made.inner)
        number = 1
    return work


def terms_work(kind: str) -> Work:
    """Forward pass of the five losses of three views, together or one by one."""
    contrast = FeatureContrast(FeatureMemory(3, 10_000, 128, negatives=1024, per_sample=True), Logits())
    generator = torch.Generator().manual_seed(0)
    z, a = (torch.nn.functional.normalize(torch.randn(3, 64, 128, generator=generator), dim=-1) for _ in range(2))
    ids = torch.arange(64).expand(3, -1)
    replaced = [(), (0,), (1,), (2,), (0, 1, 2)]

    @torch.no_grad()
    def together() -> object:
        draw = contrast.memory.draw(64, ids, generator)
        return contrast.losses(contrast.log_sums(z, draw, a))

    @torch.no_grad()
    def each() -> object:
        found = []
        for views in replaced:
            queries = z.clone()
            queries[list(views)] = a[list(views)]
            found.append(contrast.losses(contrast.log_sums(queries, contrast.memory.draw(64, ids, generator))))
        return found

    return together if kind == "together" else each


def peak() -> float:
    """Largest resident memory of this process so far, MiB; `getrusage` would include the parent process."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def growth(make: Callable[[], Work], out: Any) -> None:
    """Put the growth of the peak memory of this process during the work, MiB, into a queue."""
    torch.set_num_threads(1)
    work = make()
    before = peak()
    work()
    work()
    out.put(round(peak() - before, 1))


def memory(make: Callable[[], Work]) -> float:
    """Peak memory that the work adds in a new process, MiB."""
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    process = context.Process(target=growth, args=(make, out))
    process.start()
    found: float = out.get()
    process.join()
    return found


def compare(one: Callable[[], Work], other: Callable[[], Work], rounds: int, repeats: int = 1) -> dict[str, float]:
    """Milliseconds of both, and the median ratio of the second to the first."""
    works = {"first": one(), "second": other()}
    seconds = time_interleaved(works, rounds, clock(wall=False), repeats=dict.fromkeys(works, repeats))
    ms = milliseconds(seconds)
    return {"first_ms": ms["first"], "second_ms": ms["second"], "ratio": ratio(seconds["first"], seconds["second"], 2)}


def main(arguments: Sequence[str] | None = None) -> None:
    given = read(parser(__doc__, rounds=7), arguments)
    plain, update = partial(update_work, meta="none", number=0), partial(update_work, meta="second-order", number=1)
    compared: dict[str, tuple[Callable[[], Work], Callable[[], Work], int]] = {
        "oucl": (partial(loss_work, "oucl"), partial(loss_work, "double sum"), 5),
        "mlp": (partial(plain, "mlp"), partial(update, "mlp"), 3),
        "resnet18": (partial(plain, "resnet18"), partial(update, "resnet18"), 1),
        "terms": (partial(terms_work, "together"), partial(terms_work, "each"), 1),
    }
    found: dict[str, Any] = {}
    for name, (one, other, repeats) in compared.items():
        found[name] = compare(one, other, given.rounds, 1 if given.quick else repeats)
        if name != "terms" and not given.quick:
            found[name] |= {"first_mib": memory(one), "second_mib": memory(other)}
        print(name, found[name], flush=True)
    record("meta_features", found, given)


if __name__ == "__main__":
    main()
