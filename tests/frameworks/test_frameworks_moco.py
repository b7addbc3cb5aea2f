"""Frameworks with a momentum copy: MoCo, MoCo v3 and BYOL, and SimSiam, against loops; the queue by hand."""

import pytest
import torch
from framework_cases import B, assert_value_and_gradient, build, length_one, pair, part, slow_info_nce, state
from torch import nn

from refusals import refusal
from viewsmith.frameworks import MoCo
from viewsmith.losses import moco_info_nce
from viewsmith.views import PositivePair


def expected_losses(framework, batch, keys, key_ids):
    with torch.no_grad():
        k = framework.head_copy(framework.encoder_copy(batch.second))
    z = framework.head(framework.encoder(batch.first))
    return moco_info_nce(z, k, keys, temperature=0.2, ids=batch.ids, queue_ids=key_ids)


@pytest.mark.parametrize("ids", [True, False])
def test_moco_equals_info_nce_of_key_and_queue(ids):
    framework = build("moco")
    for seed in (1, 2, 3):  # three batches of 6 pass the end of 14 keys
        batch = pair(ids=ids, seed=seed)
        keys, key_ids = framework.keys.clone(), framework.key_ids.clone()
        losses = framework(batch)
        assert_value_and_gradient(framework, losses, list(expected_losses(framework, batch, keys, key_ids)))
    assert (framework.key_ids == -1).all() != ids


def test_keys_of_the_rows_of_a_pair_are_not_negatives():
    framework = build("moco").eval()
    batch = part(pair(), torch.tensor([0]))  # shows row 4 first and row 2 second
    before = framework(batch)
    for row, counts in ((7, True), (-1, True), (4, False), (2, False)):
        framework.keys[5] = framework.head(framework.encoder(batch.first))[0].detach()
        framework.keys[5] /= framework.keys[5].norm()
        framework.key_ids[5] = row
        found = framework(batch)
        assert (found > before + 0.1).item() == counts


def identity_moco(queue):
    framework = MoCo(nn.Linear(2, 2, bias=False), nn.Identity(), queue=queue, momentum=1.0, width=2)
    framework.encoder_copy.weight.copy_(torch.eye(2))
    return framework


def test_the_queue_by_hand():
    framework = identity_moco(5)
    assert framework.keys.shape == (5, 2) and framework.key_ids.tolist() == [-1] * 5
    torch.testing.assert_close(framework.keys.norm(dim=1), torch.ones(5))
    last = framework.keys[3:].clone()
    x = torch.tensor([[3.0, 4.0], [0.0, 2.0], [-1.0, 0.0]])
    unit = torch.tensor([[0.6, 0.8], [0.0, 1.0], [-1.0, 0.0]])
    ids = torch.tensor([10, 11, 12])
    framework(PositivePair(x, x, (ids, ids + 10)))
    assert torch.equal(framework.keys, torch.cat([unit, last]))
    assert framework.key_ids.tolist() == [20, 21, 22, -1, -1] and int(framework.pointer) == 3
    framework(PositivePair(x, x, (ids, ids)))
    assert torch.equal(framework.keys, unit[[2, 1, 2, 0, 1]])
    assert framework.key_ids.tolist() == [12, 21, 22, 10, 11] and int(framework.pointer) == 1
    framework(PositivePair(x, x))
    assert framework.key_ids.tolist() == [12, -1, -1, -1, 11] and int(framework.pointer) == 4


def test_a_batch_larger_than_the_queue_is_rejected():
    framework = identity_moco(3)
    x = torch.randn(4, 2)
    framework(PositivePair(x[:3], x[:3])).mean().backward()
    assert int(framework.pointer) == 0
    said = refusal(framework, PositivePair(x, x))
    assert said == "the queue has 3 keys, expected at least the 4 samples of a batch: enlarge it"


def test_the_initial_keys_are_reproducible():
    def keys(generator=None):
        return MoCo(nn.Identity(), nn.Identity(), queue=6, width=4, generator=generator).keys

    assert torch.equal(keys(), keys())
    other = keys(torch.Generator().manual_seed(1))
    assert torch.equal(other, keys(torch.Generator().manual_seed(1))) and not torch.equal(other, keys())


def test_the_copies_are_updated_before_the_keys_are_computed():
    framework = build("moco", momentum=0.0)
    framework(pair())
    for copy, source in ((framework.encoder_copy, framework.encoder), (framework.head_copy, framework.head)):
        for one, other in zip(copy.parameters(), source.parameters(), strict=True):
            assert torch.equal(one, other)
    z = framework.head(framework.encoder(pair().second))
    torch.testing.assert_close(framework.keys[:B], torch.stack([length_one(row) for row in z]).detach())


TAU = 0.3


def slow_moco_v3(framework, batch):
    x = (batch.first, batch.second)
    q, k = [], []
    for view in (0, 1):
        q.append([length_one(row) for row in framework.predictor(framework.head(framework.encoder(x[view])))])
        with torch.no_grad():
            k.append([length_one(row) for row in framework.head_copy(framework.encoder_copy(x[view]))])
    return [2 * TAU * loss for loss in slow_info_nce(batch, q, k, TAU)]


@pytest.mark.parametrize("ids", [True, False])
def test_moco_v3_equals_the_loop(ids):
    framework, batch = build("moco-v3"), pair(ids=ids)
    losses = framework(batch)
    assert_value_and_gradient(framework, losses, slow_moco_v3(framework, batch))


def slow_byol(framework, batch):
    losses = []
    for first, second in zip(batch.first, batch.second, strict=True):
        directions = []
        for source, target in ((first, second), (second, first)):
            p = framework.predictor(framework.head(framework.encoder(source[None])))[0]
            with torch.no_grad():
                z = framework.head_copy(framework.encoder_copy(target[None]))[0]
            distance = length_one(p) - length_one(z)
            directions.append((distance * distance).sum())
        losses.append((directions[0] + directions[1]) / 2)
    return losses


def slow_simsiam(framework, batch):
    losses = []
    for first, second in zip(batch.first, batch.second, strict=True):
        z = [framework.head(framework.encoder(x[None]))[0] for x in (first, second)]
        p = [length_one(framework.predictor(row[None])[0]) for row in z]
        with torch.no_grad():
            targets = [length_one(row) for row in z]
        losses.append(-(p[0] * targets[1]).sum() / 2 - (p[1] * targets[0]).sum() / 2)
    return losses


@pytest.mark.parametrize(("name", "slow"), [("byol", slow_byol), ("simsiam", slow_simsiam)])
def test_byol_and_simsiam_equal_the_loops(name, slow):
    framework, batch = build(name), pair()
    losses = framework(batch)
    assert_value_and_gradient(framework, losses, slow(framework, batch))


@pytest.mark.parametrize("name", ["byol", "moco-v3", "dino"])
@pytest.mark.parametrize(("progress", "momentum"), [(0.0, 0.7), (0.5, 0.85), (1.0, 1.0)])
def test_the_momentum_of_the_copies_rises_to_one(name, progress, momentum):
    framework = build(name)
    before = state(framework)
    framework(pair(), progress=progress)
    for key, value in framework.state_dict().items():
        if "_copy" in key:
            source = before[key.replace("_copy", "")]
            torch.testing.assert_close(value, momentum * before[key] + (1 - momentum) * source)
