"""SimCLR, SupCon and NNCLR against their losses; labels of SupCon, the queue of NNCLR."""

import pytest
import torch
from framework_cases import LABELS, assert_value_and_gradient, build, length_one, pair, slow_info_nce
from torch import nn

from refusals import refusal
from viewsmith.frameworks import NNCLR, SupCon
from viewsmith.losses import nt_xent, sup_con
from viewsmith.views import PositivePair


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "cosine", "temperature": 0.1, "negatives": "all"},
        {"kernel": "cosine", "temperature": 0.5, "negatives": "cross"},
        {"kernel": "cauchy", "temperature": 1.0, "negatives": "cross"},
        {"kernel": "cauchy", "temperature": 0.5, "negatives": "all"},
    ],
    ids=lambda options: "-".join(str(value) for value in options.values()),
)
def test_simclr_equals_nt_xent_of_the_projections(options, ids):
    simclr, views = build("simclr", **options), pair(ids=ids)
    z0, z1 = simclr.head(simclr.encoder(views.first)), simclr.head(simclr.encoder(views.second))
    expected = nt_xent(z0, z1, ids=views.ids, **options)
    assert_value_and_gradient(simclr, simclr(views), list(expected))


def test_it_equals_the_loss_of_the_classes_of_the_rows():
    framework, batch = build("supcon"), pair()
    z = [framework.head(framework.encoder(x)) for x in (batch.first, batch.second)]
    expected = sup_con(*z, tuple(LABELS[rows] for rows in batch.ids), temperature=0.1)
    assert_value_and_gradient(framework, framework(batch), list(expected))


def test_labels_are_required_and_not_saved():
    framework = build("supcon")
    assert not [name for name in framework.state_dict() if "labels" in name]
    said = refusal(framework, pair(ids=False))
    assert said == "supcon needs the rows that the views show, and the pair has no ids: give index"
    fresh = SupCon(nn.Identity(), nn.Identity())
    x = torch.zeros(2, 3)
    rows = torch.arange(2)
    assert (
        refusal(fresh, PositivePair(x, x, (rows, rows)))
        == "supcon has no labels: give y to fit, or labels to the framework"
    )
    fresh.read_labels(torch.tensor([0, 0]))
    assert fresh(PositivePair(torch.eye(3)[:2], torch.eye(3)[:2], (rows, rows))).shape == (2,)
    said = refusal(fresh, PositivePair(x, x, (rows, rows + 1)))
    assert said == "the largest of ids is 2, expected a row of the 2 labels"


def test_settings_out_of_range_are_rejected():
    assert refusal(build, "supcon", temperature=0) == "temperature is 0, expected a number above 0"


TAU = 0.3


def slow_nnclr(framework, batch, keys):
    x = (batch.first, batch.second)
    neighbors, p = [], []
    for view in (0, 1):
        z = [length_one(row.detach()) for row in framework.head(framework.encoder(x[view]))]
        neighbors.append([length_one(max(keys, key=lambda key: float((key * row).sum()))) for row in z])
        p.append([length_one(row) for row in framework.predictor(framework.head(framework.encoder(x[view])))])
    return slow_info_nce(batch, neighbors, p, TAU)


@pytest.mark.parametrize("ids", [True, False])
def test_nnclr_equals_the_loop(ids):
    framework = build("nnclr")
    for seed in (1, 2, 3):  # three batches of 6 pass the end of 14 keys
        batch, keys = pair(ids=ids, seed=seed), framework.keys.clone()
        losses = framework(batch)
        assert_value_and_gradient(framework, losses, slow_nnclr(framework, batch, keys))


def test_the_queue_stores_the_first_views():
    framework = NNCLR(nn.Identity(), nn.Identity(), nn.Linear(2, 2), queue=5, width=2)
    last = framework.keys[3:].clone()
    first = torch.tensor([[3.0, 4.0], [0.0, 2.0], [-1.0, 0.0]])
    unit = torch.tensor([[0.6, 0.8], [0.0, 1.0], [-1.0, 0.0]])
    framework(PositivePair(first, -first))
    assert torch.equal(framework.keys, torch.cat([unit, last])) and int(framework.pointer) == 3
    framework(PositivePair(first, -first))
    assert torch.equal(framework.keys, unit[[2, 1, 2, 0, 1]]) and int(framework.pointer) == 1
