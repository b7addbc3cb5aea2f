"""Momentum copies: copying, updates, and the schedule of the momentum."""

import pytest
import torch
from torch import nn

from refusals import refusal
from viewsmith.networks import MLP
from viewsmith.networks.base import cosine_momentum, momentum_copy, update_copy


def test_a_copy_is_equal_and_frozen_and_has_its_own_memory():
    source = MLP(4, [3, 2], norm="batch")
    copy = momentum_copy(source)
    assert type(copy) is MLP and copy.n_components == 2
    assert all(p.requires_grad for p in source.parameters()) and not any(p.requires_grad for p in copy.parameters())
    own, copied = source.state_dict(), copy.state_dict()
    assert all(torch.equal(own[name], copied[name]) for name in own)
    assert not {value.data_ptr() for value in own.values()} & {value.data_ptr() for value in copied.values()}


def test_update_by_hand():
    source, copy = nn.Linear(2, 1), nn.Linear(2, 1)
    for module, weight, bias in ((source, [1.0, -2.0], 4.0), (copy, [5.0, 2.0], 0.0)):
        module.weight.data, module.bias.data = torch.tensor([weight]), torch.tensor([bias])
    update_copy(copy, source, 0.75)
    assert copy.weight.tolist() == [[4.0, 1.0]] and copy.bias.tolist() == [1.0]
    assert source.weight.tolist() == [[1.0, -2.0]]
    update_copy(copy, source, 1.0)
    assert copy.weight.tolist() == [[4.0, 1.0]]
    update_copy(copy, source, 0.0)
    assert copy.weight.tolist() == [[1.0, -2.0]] and copy.bias.tolist() == [4.0]


def test_buffers_are_not_updated():
    source = MLP(4, [3, 2], norm="batch")
    copy = momentum_copy(source)
    source(torch.randn(8, 4) + 1)
    update_copy(copy, source, 0.0)
    assert int(source[1].num_batches_tracked) == 1 and int(copy[1].num_batches_tracked) == 0
    assert copy[1].running_mean.abs().max() == 0
    copy(torch.randn(8, 4) + 1)
    assert int(copy[1].num_batches_tracked) == 1


def test_a_module_without_weights_can_be_updated():
    copy = momentum_copy(nn.Identity())
    update_copy(copy, nn.Identity(), 0.5)
    assert torch.equal(copy(torch.ones(2)), torch.ones(2))


def test_an_update_has_no_gradient():
    source = nn.Linear(2, 1)
    copy = momentum_copy(source)
    loss = source(torch.ones(1, 2)).sum()
    update_copy(copy, source, 0.5)
    loss.backward()
    assert copy.weight.grad is None and copy.weight.grad_fn is None


@pytest.mark.parametrize(("progress", "expected"), [(0, 0.9), (0.5, 0.95), (1, 1.0), (1 / 3, 0.925)])
def test_the_cosine_by_hand(progress, expected):
    assert cosine_momentum(0.9, progress) == pytest.approx(expected)


@pytest.mark.parametrize("progress", [-0.1, 1.1, float("nan")])
def test_progress_out_of_range_is_refused(progress):
    assert refusal(cosine_momentum, 0.9, progress).startswith(f"progress is {progress}, expected the fraction")
