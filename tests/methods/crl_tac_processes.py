"""Small CRL-TAC methods, and functions that tests run in other processes."""

import torch
import torch.nn.functional as F
from torch import nn

from viewsmith.core import Batch, Optimizer
from viewsmith.methods import CRLTACMethod
from viewsmith.methods.crl_tac.channel import ChosenViews
from viewsmith.methods.crl_tac.options import CRLTACOptions
from viewsmith.networks import MLP, MaskScores
from viewsmith.training.updates import frozen, prepare_update
from viewsmith.views import AugmentationChannel, Masks

B, D, M = 8, 6, 5

SETTINGS = {"beta": 3.0, "channel_beta": 0.5, "draws": 3, "channel_rows": B, "entropy_weight": 0.1, "centered": True}
SETTINGS |= {"effective_target": None, "start_steps": 0, "place_weight": 0.0}


def crl_tac_of(encoder, head, channel, rate=None, epochs=2, parts=None, **options):
    """Of networks, with `parts` besides the options."""
    rates = {"optimizer": rate or Optimizer(), "channel_optimizer": rate or Optimizer()}
    given = CRLTACOptions(**SETTINGS | options)
    return CRLTACMethod(encoder, head, channel, options=given, epochs=epochs, **rates, **parts or {})


def crl_tac(norm="none", learned=True, seed=0, **options):
    torch.manual_seed(seed)
    encoder = MLP(D, [7, 6], norm=norm)
    head = nn.Sequential(nn.ReLU(), MLP(6, [5, 4]))
    for weight in (*encoder.parameters(), *head.parameters()):
        nn.init.normal_(weight, std=0.5)
    scores = MaskScores(D, M, hidden=5) if learned else None
    if scores is not None:
        nn.init.normal_(scores.outer.weight)
    channel = AugmentationChannel(Masks(D, count=M, keep=0.5), scores)
    parts = {name: options.pop(name) for name in ("near", "places", "chosen_views", "nonempty") if name in options}
    if parts.get("chosen_views"):  # the weight
        parts["chosen_views"] = full(ChosenViews(4, parts["chosen_views"], size=16))
    return crl_tac_of(encoder, head, channel, parts=parts, **options).double()


def full(memory):
    """The memory with random projections of rows 0 to 11."""
    draws = torch.Generator().manual_seed(4)
    memory.projections.copy_(F.normalize(torch.randn(memory.projections.shape, generator=draws), dim=1))
    memory.rows.copy_(torch.randint(12, memory.rows.shape, generator=draws))
    return memory


def samples(n=B):
    return torch.randn(n, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def batch(x=None, seed=2, first=0):
    """A batch of samples `x`; `first` is the row number of the first."""
    x = samples() if x is None else x
    return Batch(x, torch.arange(first, first + len(x)), torch.Generator().manual_seed(seed))


# Every option of the two steps.
CASES = {
    "exact": {"encoder_step": "exact"},
    "exact, without series": {"encoder_step": "exact", "channel_beta": 2.0},
    "exact, distinct, with target": {"encoder_step": "exact", "distinct": True, "effective_target": 4.0},
    "information": {"encoder_step": "exact", "objective": "information"},
    "information, sampled": {"channel_step": "sampled", "objective": "information"},
    "recurrence": {"chosen_views": 2.0},
    "recurrence, sampled": {"channel_step": "sampled", "chosen_views": 2.0},
    "sampled, plain weights": {"channel_step": "sampled"},
    "sampled, normalized weights": {"channel_step": "sampled", "importance_weights": "normalized"},
}


def gradients(name, rows=None, weights=None):
    """Gradients of both steps on the whole batch, or on the rows of one process."""
    method = crl_tac(**CASES[name])
    found = {}
    for update in method.phases()[0].updates:
        run = prepare_update(update, method)
        part = slice(None) if rows is None else rows
        drawn = torch.randint(M, (B, 3), generator=torch.Generator().manual_seed(3))
        with frozen(run.frozen_parameters), fixed_draws(method, drawn[part]):
            run.step(batch(samples()[part], first=part.start or 0))[0].mean().backward()
        for number, p in enumerate(run.parameters):
            found[f"{update.name}: {number}"] = p.grad.clone()
    return found


class fixed_draws:
    """Context with given instead of drawn transformations, because two processes cannot share a random stream."""

    def __init__(self, method, t):
        self.method, self.t = method, t

    def __enter__(self):
        self.randint = torch.randint
        self.method.channel.draw = lambda x, count, generator, near=None: self.t
        torch.randint = lambda *args, **options: self.t

    def __exit__(self, *error):
        torch.randint = self.randint
        del self.method.channel.draw


def work(rank, out):
    rows = slice(rank * B // 2, (rank + 1) * B // 2)
    torch.save({name: gradients(name, rows) for name in CASES}, f"{out}/{rank}.pt")
