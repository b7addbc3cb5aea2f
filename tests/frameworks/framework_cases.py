"""Small frameworks and pairs of views for tests, also in other processes."""

import inspect

import torch
from torch import nn

import viewsmith.frameworks  # noqa: F401, it registers them
from viewsmith.core.registry import find, registered
from viewsmith.networks import MLP
from viewsmith.views import PositivePair

B, D, WIDTH = 6, 4, 3
FIRST = torch.tensor([4, 1, 0, 9, 3, 2])
LABELS = torch.arange(64) % 2  # of all rows


def networks(norm="none"):
    # GELU, because with ReLU a small network gives some samples no gradient at all.
    return MLP(D, [8, 5], norm=norm, activation="gelu"), MLP(5, [WIDTH])


def predictor(norm="none"):
    return MLP(WIDTH, [7, WIDTH], norm=norm, activation="gelu")


#: Settings for small tests. Other frameworks are tested with their defaults.
SETTINGS = {
    "moco": {"queue": 14, "momentum": 0.7},
    "moco-v3": {"temperature": 0.3, "momentum": 0.7},
    "byol": {"momentum": 0.7},
    "swav": {"prototypes": 5},
    "dino": {"out_dim": 5, "momentum": 0.7},
    "nnclr": {"queue": 14, "temperature": 0.3},
    "barlow-twins": {"off_diagonal_weight": 0.3},
    "lejepa": {"sigreg_weight": 0.2, "n_slices": 3, "seed": 5},
}
#: Further arguments of constructors, by name.
PARTS = {"predictor": predictor, "map_head": lambda norm: MLP(5, [2]), "labels": lambda norm: LABELS}
# All registered frameworks except those of a single method, which do not take a pair of views.
FRAMEWORKS = [name for name in registered("framework") if name not in ("info-max", "oucl", "linear-contrast")]
MULTICROP = [name for name in FRAMEWORKS if find("framework", name).tag("local_views")]


def make(name, norm="none", **options):
    """A small framework."""
    cls = find("framework", name).build
    asked = inspect.signature(cls).parameters
    parts = [part(norm) for option, part in PARTS.items() if option in asked]
    return cls(*networks(norm), *parts, **SETTINGS.get(name, {}) | options)


def build(name, dtype=torch.float64, norm="none", **options):
    """A framework with fixed weights. Its momentum copies differ from their sources, as after some training."""
    torch.manual_seed(0)
    framework = make(name, norm, **options).double()
    for weight in framework.parameters():
        if not weight.requires_grad:
            weight.add_(0.1 * torch.randn_like(weight))
    return framework.to(dtype)


def pair(dtype=torch.float64, ids=True, crops=0, seed=1, batch=B):
    x = torch.randn(2 + crops, batch, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)
    rows = torch.arange(batch) + 20 if batch != B else FIRST
    return PositivePair(x[0], x[1], (rows, rows.roll(1)) if ids else None, x[2:].transpose(0, 1) if crops else None)


def part(whole, rows):
    """A part of the samples of a pair."""
    ids = None if whole.ids is None else (whole.ids[0][rows], whole.ids[1][rows])
    return PositivePair(whole.first[rows], whole.second[rows], ids, None if whole.local is None else whole.local[rows])


def state(framework):
    return {name: value.clone() for name, value in framework.state_dict().items()}


def trainable(framework):
    return [p for p in framework.parameters() if p.requires_grad]


def length_one(a):
    """Normalize without the library's function."""
    return a / (a * a).sum() ** 0.5


def assert_value_and_gradient(framework, losses, slow, rtol=1e-9):
    """Compare losses of a framework with those of a loop, in value and in the gradient of every trainable weight."""
    slow = torch.stack(slow)
    assert losses.shape == slow.shape
    torch.testing.assert_close(losses, slow, rtol=rtol, atol=1e-12)
    # With different weights, losses in a wrong order change the gradient.
    weights = torch.arange(1, len(slow) + 1, dtype=slow.dtype)
    parameters = trainable(framework)
    fast_gradients = torch.autograd.grad((weights * losses).sum(), parameters)
    slow_gradients = torch.autograd.grad((weights * slow).sum(), parameters)
    for fast, expected in zip(fast_gradients, slow_gradients, strict=True):
        torch.testing.assert_close(fast, expected, rtol=1e-8, atol=1e-11)
        assert fast.abs().max() > 0


class AnySize(nn.Module):
    """The leading features of samples of any width; `calls` has the shapes of its batches."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def forward(self, x):
        self.calls.append(tuple(x.shape))
        return x[:, :3]


def slow_info_nce(batch, anchors, others, tau):
    """The mean of both directions: the anchors of a view with all of the other view that do not show their rows."""
    losses = []
    for i in range(len(batch.first)):
        directions = []
        for view in (0, 1):
            other, total = 1 - view, 0
            for j in range(len(batch.first)):
                if j != i and batch.ids is not None and int(batch.ids[other][j]) in [int(n[i]) for n in batch.ids]:
                    continue
                total = total + torch.exp((anchors[view][i] * others[other][j]).sum() / tau)
            attraction = torch.exp((anchors[view][i] * others[other][i]).sum() / tau)
            directions.append(-torch.log(attraction / total))
        losses.append((directions[0] + directions[1]) / 2)
    return losses
