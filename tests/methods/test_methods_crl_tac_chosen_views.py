"""The memory of chosen views, whose recurrence the channel of CRL-TAC prefers."""

import torch
import torch.nn.functional as F
from crl_tac_processes import batch, crl_tac, samples
from test_methods_crl_tac import steps

from viewsmith.losses.info_max import recurrence
from viewsmith.methods.crl_tac.channel import ChosenViews


def views(n, seed):
    draws = torch.Generator().manual_seed(seed)
    z = F.normalize(torch.randn(n, 5, 3, generator=draws), dim=2)
    return z, torch.softmax(torch.randn(n, 5, generator=draws), dim=1).requires_grad_()


def test_the_newest_most_probable_views_are_compared_once_the_memory_is_full():
    memory, parts = ChosenViews(3, 2.0, size=8), [views(3, seed) for seed in range(4)]
    rows = torch.arange(12).view(4, 3)
    for (z, p), index in zip(parts[:3], rows, strict=False):
        assert torch.equal(memory(z, p, index), torch.zeros(3))  # nine have been stored after the third step
    chosen = torch.cat([z[torch.arange(3), p.argmax(dim=1)] for z, p in parts[:3]])[1:]
    z, p = parts[3]
    index = torch.tensor([1, 8, 40])  # two of them are in the memory
    own = index[:, None] == torch.arange(1, 9)
    assert own.any(dim=1).tolist() == [True, True, False]
    found = memory(z, p, index)
    torch.testing.assert_close(found, 2 * recurrence(z, p, chosen, own))
    assert memory.rows.tolist() == [8, 1, 8, 40, 4, 5, 6, 7] and int(memory.pointer) == 4


def test_only_training_forwards_store():
    memory, (z, p) = ChosenViews(3, 1.0, size=4), views(4, 0)
    memory.eval()(z, p, torch.arange(4))
    with torch.no_grad():
        memory.train()(z, p, torch.arange(4))
    assert memory.rows.tolist() == [-1] * 4 and not memory.projections.any()
    memory(z, p, torch.arange(4))
    assert memory.rows.tolist() == [0, 1, 2, 3]


def test_more_samples_than_the_memory_holds():
    memory, (z, p) = ChosenViews(3, 1.0, size=4), views(6, 0)
    memory(z, p, torch.arange(6))
    assert memory.rows.tolist() == [0, 1, 2, 3]


def test_a_view_that_recurs_is_preferred_to_one_of_a_single_sample():
    common, single = torch.eye(3)[0], torch.eye(3)[1]
    z = torch.stack([common, single])[None]
    stored, nobody = torch.stack([common, torch.eye(3)[2], torch.eye(3)[2]]), torch.zeros(1, 3, dtype=torch.bool)
    gain = [float(recurrence(z, torch.tensor([p]), stored, nobody)) for p in ([1.0, 0.0], [0.0, 1.0])]
    torch.testing.assert_close(torch.tensor(gain), torch.tensor([1 - 1 / 3, 0.0]))


def test_what_all_samples_show_is_not_preferred():
    z = torch.eye(3)[:1].expand(1, 2, 3)
    stored, nobody = torch.eye(3)[:1].expand(4, 3), torch.zeros(1, 4, dtype=torch.bool)
    assert float(recurrence(z, torch.tensor([[0.4, 0.6]]), stored, nobody)) == 0


def test_the_first_steps_neither_use_nor_fill_the_memory():
    near = torch.eye(5, dtype=torch.bool)
    method = crl_tac(chosen_views=2.0, near=near, start_steps=3)
    before = method.chosen_views.rows.clone()
    plain = crl_tac(near=near, start_steps=3)
    losses = [steps(each)["channel"].step(batch(samples()))[0] for each in (method, plain)]
    assert torch.equal(*losses) and torch.equal(method.chosen_views.rows, before)
