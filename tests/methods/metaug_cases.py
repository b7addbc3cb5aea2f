"""Small MetAug methods for tests, also in other processes."""

import torch

from viewsmith.core import Batch, Optimizer
from viewsmith.frameworks import DINO, NNCLR, FeatureContrast, FeatureMemory, MoCo, SimCLR, SimSiam, Unified
from viewsmith.losses.oucl import Logits
from viewsmith.methods import MetAugMethod
from viewsmith.networks import MLP, SmallCNN, ViewEncoders, ViewHeads
from viewsmith.parts import Features
from viewsmith.training.updates import frozen, prepare_update
from viewsmith.views import GaussianNoise, Identity, MetaFeatures, PairMaker

N, D, H, Z = 24, 4, 6, 3
X = torch.randn(N, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
OPTIONS = {"feature_weight": 0.5, "inner_rate": 0.3, "margin_weight": 0.7, "feature_every": 1}
RATE = Optimizer("sgd", learning_rate=0.05)


def encoder(norm, width=D):
    # GELU, because the second derivative of ReLU is zero.
    return MLP(width, [8, H], norm=norm, last="activated", activation="gelu")


def contrast(views, kind="queue", **options):
    return FeatureContrast(FeatureMemory(views, N, Z, negatives=N, kind=kind), Logits(beta=5.0), **options)


def build(
    name="oucl",
    norm="batch",
    views=2,
    kind="queue",
    makers=None,
    seed=0,
    united=True,
    stored_positives=False,
    optimizer=None,
    **options,
):
    """A method on vectors, float64. `name`: oucl, per-view, images, or another framework."""
    torch.manual_seed(seed)
    added = contrast(views, kind, united=united, stored_positives=stored_positives)
    head = MLP(H, [Z])
    if name == "per-view":
        net = ViewEncoders([encoder(norm) for _ in range(views)])
        framework = Unified(net, ViewHeads([MLP(H, [Z]) for _ in range(views)]), added)
    elif name == "images":
        framework = Unified(SmallCNN(3, H, widths=(4, 8)), head, added)
    else:
        framework = {
            "oucl": lambda: Unified(encoder(norm), head, added),
            "simclr": lambda: SimCLR(encoder(norm), head),
            "moco": lambda: MoCo(encoder(norm), head, queue=16, momentum=0.5),
            "simsiam": lambda: SimSiam(encoder(norm), head, MLP(Z, [5, Z], activation="gelu")),
            "nnclr": lambda: NNCLR(encoder(norm), head, MLP(Z, [5, Z], activation="gelu"), queue=16),
            "dino": lambda: DINO(encoder(norm), head, out_dim=5, momentum=0.5),
        }[name]()
    with_features = options.get("meta") != "none"
    features = MetaFeatures(views, Z, hidden=(7,), norm=norm) if with_features else None
    own = None if name in ("oucl", "per-view", "images") or not with_features else added
    more = {"options": Features(**OPTIONS | options), "optimizer": optimizer or RATE, "feature_optimizer": RATE}
    pairs = PairMaker(makers or [GaussianNoise(0.5)])
    return MetAugMethod(framework, pairs, features, own, n_views=views, epochs=2, **more).double()


def batch(rows=slice(0, 12), step=0, weight=None, x=X):
    index = torch.arange(N)[rows]
    return Batch(x[index], index, torch.Generator().manual_seed(step), step=step, weight=weight)


def update(method, number, given):
    """One update as in the engine: other modules are frozen, the loss is weighted, gradients are stored."""
    return run(prepare_update(method.phases()[0].updates[number], method), given)


def run(update, given):
    with frozen(update.frozen_parameters):
        losses, logs = update.step(given)
        for p in update.parameters:
            p.grad = None
        (losses if given.weight is None else given.weight * losses).mean().backward()
    return losses.detach(), logs


def gradients(module):
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


# ---- several processes

SHARED = ("oucl", "per-view", "simclr", "moco", "nnclr")


def two_steps(name, world=1, rank=0):
    """Gradients of both updates in two steps on the rows of one process, and the final state.

    There is no BatchNorm, because its statistics differ between processes on the CPU, and views are not random.
    """
    method = build(name, norm="none", makers=[Identity()], views=3 if name == "per-view" else 2)
    updates = [prepare_update(update, method) for update in method.phases()[0].updates]
    found = {}
    for step in range(2):
        size = 12 // world
        start = 12 * step + rank * size
        given = batch(slice(start, start + size), step=2 * step)
        for update in updates:
            run(update, given)
            for number, p in enumerate(update.parameters):
                found[f"step {step}, {update.name}: gradient of {number}"] = p.grad.clone()
            with torch.no_grad():
                for p in update.parameters:
                    p -= 0.1 * p.grad
    return found | {f"state {key}": value.clone() for key, value in method.state_dict().items()}


def work(rank, out):
    torch.save({name: two_steps(name, 2, rank) for name in SHARED}, f"{out}/{rank}.pt")
