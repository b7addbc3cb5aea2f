"""Speed of training steps and of whole trainings."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.speed.timing import Row, Work, case, clock, fresh, milliseconds, peak, ratio, ratios, time_interleaved
from viewsmith.core.schedule import Batch, Method, Optimizer
from viewsmith.frameworks import FeatureContrast, FeatureMemory, SimCLR, Unified
from viewsmith.losses.oucl import Logits, oucl
from viewsmith.methods import ContrastiveMethod, MetAugMethod, PiNDAMethod
from viewsmith.modalities.images.views import image_recipe
from viewsmith.networks import MLP, LowResolutionMap, ResNet, ResNetMap, SharedTrunkMap, UNet, resnet18
from viewsmith.parts import Features, Noise
from viewsmith.training import History, Trainer
from viewsmith.training.engine import Callback
from viewsmith.training.updates import Compiled, ReplayedPasses, frozen, make_optimizer, prepare_update
from viewsmith.views import GaussianNoise, Identity, MetaFeatures, PairMaker, PiNoise, ViewMaker

FEATURES, SIDE = 561, 32
MAKERS: dict[str, Callable[[], ViewMaker]] = {
    # For images whose pixels have mean 1/2 and standard deviation 1/4.
    "simclr": lambda: image_recipe("simclr", size=SIDE, mean=0.5, std=0.25),
    "identity": Identity,
}


def whole_step(method: Method, optimizer: torch.optim.Optimizer, batch: Batch) -> Work:
    """A training step: views, forward, backward, update."""
    losses_of = method.phases()[0].updates[0].step

    def work() -> None:
        losses, _ = losses_of(batch)
        optimizer.zero_grad(set_to_none=True)
        losses.mean().backward()
        optimizer.step()

    return work


def small(epochs: int) -> ContrastiveMethod:
    """A training whose network is so small that the engine's own time is visible."""
    torch.manual_seed(0)
    framework = SimCLR(MLP(FEATURES, [16, 16]), MLP(16, [16]), temperature=0.5)
    return ContrastiveMethod(framework, PairMaker([GaussianNoise()]), epochs=epochs, optimizer=Optimizer())


@case(rounds=7)
def engine_overhead(given: argparse.Namespace) -> Iterator[Row]:
    """CPU time per training step that the engine adds to a hand-written loop with the same model.

    The network is small, so that the overhead is visible: 561 features, batch 32, width 16, NT-Xent, AdamW. Interleaved
    rounds; process time, which excludes other work on the machine. Target: at most 0.1 ms.
    """
    rows, batch, epochs = 640 if given.quick else 6400, 32, 3
    x = torch.randn(rows, FEATURES, generator=torch.Generator().manual_seed(0))

    def bare() -> None:
        model = small(epochs)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.0, fused=True)
        generator = torch.Generator().manual_seed(0)
        for _ in range(epochs):
            order = torch.randperm(len(x), generator=generator)
            for start in range(0, len(x), batch):
                index = order[start : start + batch]
                loss = model.framework(model.views(x[index], index=index, generator=generator)).mean()
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()

    def engine() -> None:
        Trainer(small(epochs), seed=0, batch_size=batch, callbacks=[History()]).fit(x)

    seconds = time_interleaved({"bare": bare, "engine": engine}, given.rounds, clock(wall=False))
    steps = epochs * rows // batch
    bare_ms, engine_ms = ([1e3 * taken / steps for taken in seconds[name]] for name in ("bare", "engine"))
    added = [b - a for a, b in zip(bare_ms, engine_ms, strict=True)]
    yield {
        "bare_ms": round(statistics.median(bare_ms), 4),
        "engine_ms": round(statistics.median(engine_ms), 4),
        "overhead_ms": round(statistics.median(added), 4),
        "overhead_range_ms": [round(min(added), 4), round(max(added), 4)],
        "target_ms": 0.1,
        "steps": steps,
    }


def with_noise(framework: SimCLR, views: ViewMaker, generator: PiNoise, *, two_sided: bool = False) -> Method:
    """PiNDA with the log barrier."""
    return PiNDAMethod(
        framework, PairMaker([views]), generator, options=Noise(two_sided=two_sided), epochs=1, optimizer=Optimizer()
    )


@case(rounds=40)
def pinda_step(given: argparse.Namespace) -> Iterator[Row]:
    """A PiNDA step against a SimCLR step with fixed noise and the same encoder: 561 features, three layers.

    Encoder 1024-1024-256, head 256-128, cosine kernel, batch 256; PiNDA's default generator and the published one.
    Whole training steps (views, forward, backward, Adam) in interleaved rounds; process time; medians of the ratio.
    Target: at most 1.25 times with the default generator.
    """

    def framework() -> SimCLR:
        torch.manual_seed(0)
        return SimCLR(MLP(FEATURES, [1024, 1024, 256]), MLP(256, [256, 128]), temperature=0.1)

    def pinda(hidden: list[int], two_sided: bool = False) -> Method:
        generator = PiNoise.for_vectors(FEATURES, hidden=hidden, strength=1.0)
        return with_noise(framework(), Identity(), generator, two_sided=two_sided)

    views = PairMaker([GaussianNoise()])
    methods: dict[str, Method] = {
        "simclr, noise": ContrastiveMethod(framework(), views, epochs=1, optimizer=Optimizer(name="adam")),
        "pinda, default generator (64)": pinda([64]),
        "pinda, default generator, noise on both views": pinda([64], two_sided=True),
        "pinda, published generator (1024, 1024)": pinda([1024, 1024]),
    }
    x = torch.randn(256, FEATURES, generator=torch.Generator().manual_seed(0))
    batch = Batch(x, torch.arange(256), torch.Generator().manual_seed(0))
    works = {
        name: whole_step(method, torch.optim.Adam(method.parameters(), 1e-3, fused=True), batch)
        for name, method in methods.items()
    }
    seconds = time_interleaved(works, given.rounds, clock(wall=False), warm=5)
    times = ratios(seconds, "simclr, noise")
    yield {"ms": milliseconds(seconds), "ratio": times, "target": 1.25, "clock": "process time"}


# ---- images ---------------------------------------------------------------------------------------------------------


def simclr() -> SimCLR:
    torch.manual_seed(0)
    return SimCLR(resnet18(), MLP(512, [512, 128]), temperature=0.5)


def contrastive(framework: SimCLR, views: str, epochs: int = 1) -> Method:
    return ContrastiveMethod(framework, PairMaker([MAKERS[views]()]), epochs=epochs, optimizer=Optimizer())


def image_step(method: Method, given: argparse.Namespace, *, bf16: bool) -> tuple[Work, Work]:
    """A training step on random images in two parts: views, forward and backward; and the optimizer's update."""
    device, batch_size = given.device, 4 if given.quick else given.batch
    optimizer = make_optimizer(Optimizer(), list(method.to(device).parameters()))
    generator = torch.Generator(device).manual_seed(0)
    x = 4 * torch.rand(batch_size, 3, SIDE, SIDE, device=device, generator=generator) - 2
    batch, losses_of = Batch(x, torch.arange(batch_size, device=device), generator), method.phases()[0].updates[0].step

    def passes() -> None:
        with torch.autocast(device, torch.bfloat16, enabled=bf16):
            losses, _ = losses_of(batch)
        optimizer.zero_grad(set_to_none=True)
        losses.mean().backward()

    return passes, optimizer.step


def both_precisions(given: argparse.Namespace, measure: Callable[..., Any], **target: float) -> Row:
    """The results in float32 and bfloat16."""
    return {
        "network": "resnet18, small stem",
        "images": [3, SIDE, SIDE],
        "views": given.views,
        "float32": measure(given, bf16=False),
        "bfloat16": measure(given, bf16=True),
        **target,
        "clock": "wall time" if given.device == "cuda" else "process time",
    }


def inside_and_outside(given: argparse.Namespace, *, bf16: bool) -> dict[str, float]:
    framework, now = simclr(), clock(given.device, wall=False)
    passes, update = image_step(contrastive(framework, given.views), given, bf16=bf16)
    marks: dict[str, float] = {}

    def after_encoder(module: nn.Module, inputs: object, h: Tensor) -> None:
        marks["forward ends"] = now()
        # Called when the gradient has passed the loss and the head: the rest of backward is the encoder's.
        h.register_hook(lambda _: marks.update({"backward starts": now()}))

    framework.encoder.register_forward_pre_hook(lambda *_: marks.update({"forward starts": now()}))
    framework.encoder.register_forward_hook(after_encoder)
    rows = []
    for _ in range(1 + given.rounds):
        started = now()
        passes()
        backward_ends = now()
        update()
        whole = now() - started
        inside = marks["forward ends"] - marks["forward starts"] + backward_ends - marks["backward starts"]
        rows.append((whole, inside))
    rows = rows[1:]
    whole = statistics.median(a for a, _ in rows)
    return {
        "step_ms": round(whole * 1e3, 2),
        "encoder_ms": round(statistics.median(b for _, b in rows) * 1e3, 2),
        "images_per_second": round((4 if given.quick else given.batch) / whole, 1),
        "outside_fraction": round(statistics.median(1 - b / a for a, b in rows), 4),
    }


@case(device=True, options={"--views": {"choices": list(MAKERS), "default": "simclr"}}, batch=32, rounds=7)
def resnet_step(given: argparse.Namespace) -> Iterator[Row]:
    """A SimCLR step with ResNet-18 (small stem, 3 x 32 x 32), and the fraction spent outside of the encoder.

    Whole training steps: views, encoder, head 512-512-128, NT-Xent, backward, AdamW. The encoder's forward and backward
    are timed inside these steps, because separate steps of the encoder vary more than the difference. float32 and
    bfloat16 autocast. Process time on a CPU, wall time on a GPU. Target: at most 5 % outside of the encoder.
    """
    yield both_precisions(given, inside_and_outside, target_fraction=0.05)


GENERATORS: dict[str, Callable[[ResNet], nn.Module]] = {
    "low-resolution map": lambda encoder: LowResolutionMap(3),
    "shared trunk": lambda encoder: SharedTrunkMap(encoder.stem, encoder.stem_width, 3),
    "small U-Net": lambda encoder: UNet(3),
    "resnet18, as published": lambda encoder: ResNetMap(3),
}


def generators_added(given: argparse.Namespace, *, bf16: bool) -> dict[str, dict[str, float]]:
    methods = {"simclr": contrastive(simclr(), given.views)}
    for name, make in GENERATORS.items():
        framework = simclr()
        assert isinstance(framework.encoder, ResNet)
        noise = PiNoise(make(framework.encoder), strength=0.25)
        methods[name] = with_noise(framework, MAKERS[given.views](), noise)

    def whole(method: Method) -> Work:
        passes, update = image_step(method, given, bf16=bf16)
        return lambda: (passes(), update())

    works = {name: whole(method) for name, method in methods.items()}
    seconds = time_interleaved(works, given.rounds, clock(given.device, wall=False), warm=1)
    return {"ms": milliseconds(seconds), "ratio": ratios(seconds, "simclr")}


@case(device=True, options={"--views": {"choices": list(MAKERS), "default": "identity"}}, batch=16, rounds=7)
def pinda_image_step(given: argparse.Namespace) -> Iterator[Row]:
    """What PiNDA's noise generators add to a SimCLR step with ResNet-18 (small stem, 3 x 32 x 32).

    Whole training steps (views, forward, backward, AdamW) in interleaved rounds; medians of the ratio to SimCLR. Noise
    on one view, log barrier; other views: none, or the simclr recipe for both views. Process time on a CPU, wall time
    on a GPU. Target: at most 1.15 times with the low-resolution map or the shared trunk; the paper reports that its
    generator adds 28 %.
    """
    yield both_precisions(given, generators_added, target=1.15)


class Epochs(Callback):
    """Seconds of every epoch, and the last loss."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now, self.seconds = now, list[float]()

    def start(self, trainer: Trainer) -> None:
        self.began = self.now()

    def epoch(self, trainer: Trainer, row: Row) -> None:
        self.loss = row["loss"]
        self.seconds.append(self.now() - self.began)
        self.began = self.now()


def training(given: argparse.Namespace, x: Tensor, **options: Any) -> dict[str, float]:
    """Milliseconds of a step, the median of all epochs but the first."""
    method, timed = contrastive(simclr(), "simclr", epochs=4), Epochs(clock(given.device))
    trainer = Trainer(
        method, batch_size=given.batch, device=given.device, precision="bf16", callbacks=[timed], **options
    )
    trainer.fit(x)
    seconds = statistics.median(timed.seconds[1:]) / trainer.steps_per_epoch
    return {
        "ms": round(seconds * 1e3, 3),
        "images_per_second": round(given.batch / seconds),
        "loss": round(timed.loss, 4),
        "seconds_first_epoch": round(timed.seconds[0], 1),
    }


def encoder_alone(given: argparse.Namespace, x: Tensor, compiled: bool) -> float:
    """Milliseconds of forward and backward pass of the encoder on both views of a batch."""
    torch.manual_seed(0)
    encoder = resnet18().to(given.device)
    within = Compiled(encoder) if compiled else nullcontext
    views = torch.cat([x, x]).to(given.device)

    def passes(batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        with within(), torch.autocast(given.device, torch.bfloat16, cache_enabled=False):
            loss = encoder(batch.x).float().square().mean()
        for parameter in encoder.parameters():
            parameter.grad = None
        loss.backward()
        return loss.detach(), {}

    batch = Batch(views, torch.arange(len(views), device=given.device), torch.Generator(given.device))
    step = ReplayedPasses(passes, list(encoder.parameters())) if given.device == "cuda" else passes
    return per_call(lambda: step(batch), given)


def per_call(work: Work, given: argparse.Namespace) -> float:
    """Milliseconds of a call: the median of five runs of a fifth of `length` calls each, after a warm-up."""
    calls = max(1, given.length // 5)
    seconds = time_interleaved({"work": work}, 5, clock(given.device), repeats={"work": calls})
    return milliseconds(seconds, 3)["work"]


def lightly(given: argparse.Namespace, x: Tensor) -> dict[str, float]:
    """Milliseconds of a step with lightly's head and loss, and pairs of views its transforms make in a second."""
    from lightly.loss import NTXentLoss
    from lightly.models.modules import SimCLRProjectionHead
    from lightly.transforms import SimCLRTransform
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset

    encoder, head = resnet18().to(given.device), SimCLRProjectionHead(512, 512, 128).to(given.device)
    optimizer = torch.optim.AdamW([*encoder.parameters(), *head.parameters()], fused=True)
    criterion, views = NTXentLoss(0.5), x.to(given.device)

    def step() -> None:
        with torch.autocast(given.device, torch.bfloat16):
            loss = criterion(head(encoder(views)), head(encoder(views)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    pixels = np.random.default_rng(0).integers(0, 256, (64, SIDE, SIDE, 3), np.uint8)
    images, transform = [Image.fromarray(each) for each in pixels], SimCLRTransform(input_size=SIDE, gaussian_blur=0.0)

    class Views(Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return given.batch * 60

        def __getitem__(self, row: int) -> Any:
            return transform(images[row % len(images)])

    found = {"ms_without_views": per_call(step, given)}
    batches = iter(DataLoader(Views(), batch_size=given.batch, num_workers=15))
    for _ in range(20):
        next(batches)
    began, count = time.perf_counter(), sum(1 for _ in batches)
    return found | {"pairs_of_views_per_second": round(count * given.batch / (time.perf_counter() - began))}


@case(device=True, batch=256, length=100)
def training_step(given: argparse.Namespace) -> Iterator[Row]:
    """Steps of whole trainings of SimCLR with a ResNet-18 (small stem, 3 x 32 x 32) on a GPU, beside the encoder alone.

    The engine trains on random images: views of the simclr recipe, forward and backward pass, AdamW, in bfloat16.

    - "as it is": every kernel is launched by Python. "replayed": the step is one CUDA graph, the default on a GPU.
    - "compiled": with `compile=True`; "compiled and measured": the convolutions' algorithms are also chosen by timing
      (`torch.backends.cudnn.benchmark`).
    - "encoder": forward and backward pass of the encoder alone on two views, as a graph, without and with
      `torch.compile`.
    - "lightly": head and loss of lightly on the same encoder, without views, and how many pairs of views its transforms
      make in 15 processes.

    Wall time. The mean loss of the last epoch tells that all trainings learn alike. Asked: 35,000 images a second, and
    at most 15 % of the step outside of the encoder.
    """
    if given.quick:
        given.batch, given.length = 2, 3
    x = 4 * torch.rand(given.batch * given.length, 3, SIDE, SIDE) - 2
    on_gpu, few = given.device == "cuda", x[: given.batch]
    rows = {"as it is": training(given, x, replay=False), "replayed": training(given, x)}
    row: Row = {"network": "resnet18, small stem", "rows": rows}
    if on_gpu:
        rows["compiled"] = training(given, x, compile=True)
        with torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=True):
            rows["compiled and measured"] = training(given, x, compile=True)
            row["encoder_ms_compiled_and_measured"] = encoder_alone(given, few, True)
        row["encoder_ms_compiled"] = encoder_alone(given, few, True)
        row["lightly"] = lightly(given, few)
    row["encoder_ms"] = encoder_alone(given, few, False)
    yield row | {"clock": "wall time", "asked_images_per_second": 35_000}


# ---- MetAug ---------------------------------------------------------------------------------------------------------


def double_sum(positives: Tensor, negatives: Tensor, beta: float = 16.0) -> Tensor:
    """Equation 8 as printed, on the array of all pairs; the largest entry is subtracted to avoid overflow."""
    pairs = beta * (negatives[:, :, None] - positives[:, None, :])
    top = pairs.amax((1, 2), keepdim=True).clamp_min(0)
    return ((-top).exp().flatten() + (pairs - top).exp().sum((1, 2))).log() / beta + top.flatten() / beta


def loss_work(function: Callable[[Tensor, Tensor], Tensor]) -> Work:
    """Forward and backward pass of the unified loss or of the double sum."""
    generator = torch.Generator().manual_seed(0)
    positives = torch.rand(64, 6, generator=generator).requires_grad_()
    negatives = torch.rand(64, 6 * 1024, generator=generator).requires_grad_()

    def work() -> None:
        positives.grad = negatives.grad = None
        function(positives, negatives).mean().backward()

    return work


def metaug(network: str, meta: str) -> tuple[MetAugMethod, Tensor]:
    """A MetAug method and a batch of samples."""
    torch.manual_seed(0)
    if network == "mlp":
        encoder, width, x = MLP(FEATURES, [1024] * 3, norm="batch", last="activated"), 1024, torch.randn(256, FEATURES)
    else:
        encoder, width, x = resnet18(3, stem="small"), 512, torch.randn(32, 3, SIDE, SIDE)
    made = MetAugMethod(
        Unified(encoder, MLP(width, [128]), FeatureContrast(FeatureMemory(2, 256, 128, negatives=256))),
        PairMaker([GaussianNoise(0.5)]),
        None if meta == "none" else MetaFeatures(2, 128),
        options=Features(meta=meta, feature_every=1),
        epochs=1,
        optimizer=Optimizer(),
        feature_optimizer=Optimizer(),
    )
    return made, x


def update_work(network: str, meta: str) -> Work:
    """Forward, backward and step: of the encoder without generators, or of the generators after one encoder update."""
    made, x = metaug(network, meta)
    batch = Batch(x, torch.arange(len(x)), torch.Generator().manual_seed(0))
    updates = [prepare_update(update, made) for update in made.phases()[0].updates]

    def run(update: Any) -> None:
        with frozen(update.frozen_parameters):
            losses, _ = update.step(batch)
            update.optimizer.zero_grad()
            losses.mean().backward()
            update.optimizer.step()

    if meta == "none":
        return lambda: run(updates[0])
    run(updates[0])
    inner = made.inner  # the inner step of the encoder update

    def work() -> None:
        made.inner = inner
        run(updates[1])

    return work


def terms_work(together: bool) -> Work:
    """Forward pass of the five losses of three views, together or one by one."""
    contrast = FeatureContrast(FeatureMemory(3, 10_000, 128, negatives=1024, per_sample=True), Logits())
    generator = torch.Generator().manual_seed(0)
    z, a = (torch.nn.functional.normalize(torch.randn(3, 64, 128, generator=generator), dim=-1) for _ in range(2))
    ids = torch.arange(64).expand(3, -1)

    @torch.no_grad()
    def work() -> None:
        if together:
            contrast.losses(contrast.log_sums(z, contrast.memory.draw(64, ids, generator), a))
            return
        for views in [(), (0,), (1,), (2,), (0, 1, 2)]:
            queries = z.clone()
            queries[list(views)] = a[list(views)]
            contrast.losses(contrast.log_sums(queries, contrast.memory.draw(64, ids, generator)))

    return work


def growth(make: Callable[[], Work]) -> float:
    """Growth of the peak memory of this process during the work, MiB."""
    work = make()
    before = peak()
    work()
    work()
    return round((peak() - before) / 2**20, 1)


@case(rounds=7)
def meta_features(given: argparse.Namespace) -> Iterator[Row]:
    """Time and memory of MetAug's loss and of its meta update.

    - "oucl": the unified loss with 6 positives and 6,144 negatives, batch 64, forward and backward, against the double
      sum of the paper on the whole (B, K, P) array. Target: 5 times less time, 5 times less memory.
    - "mlp", "resnet18": the update of the generators against a plain update of the encoder (forward, backward and step
      of the same framework without generators). MLP: 561 features, 3 layers of 1,024, batch 256; ResNet-18: 32 x 3 x 32
      x 32. Two views, 256 negatives. The inner gradient comes from an earlier encoder update, as in training. Target:
      at most 2.5 times the time, 1.5 times the memory.
    - "terms": five losses of three views (one without and four with augmented features), with 1,024 separate negatives
      for each sample, batch 64, 128 features: one draw of the negatives and one pass over them for all losses, against
      one for each loss. Target: 3 times less time.

    Interleaved rounds; CPU time; medians of the ratio. Memory is the growth of the peak memory of a new process.
    """
    compared: dict[str, tuple[Callable[[], Work], Callable[[], Work], int]] = {
        "oucl": (partial(loss_work, oucl), partial(loss_work, double_sum), 5),
        **{
            network: (partial(update_work, network, "none"), partial(update_work, network, "second-order"), repeats)
            for network, repeats in (("mlp", 3), ("resnet18", 1))
        },
        "terms": (partial(terms_work, True), partial(terms_work, False), 1),
    }
    found: Row = {}
    for name, (one, other, repeats) in compared.items():
        calls = dict.fromkeys(("first", "second"), 1 if given.quick else repeats)
        seconds = time_interleaved({"first": one(), "second": other()}, given.rounds, clock(wall=False), repeats=calls)
        found[name] = {f"{which}_ms": taken for which, taken in milliseconds(seconds).items()}
        found[name]["ratio"] = ratio(seconds["first"], seconds["second"], 2)
        if name != "terms" and not given.quick:
            found[name] |= {"first_mib": fresh(growth, one), "second_mib": fresh(growth, other)}
    yield found
