"""The first steps of CRL-TAC, steps in blocks of samples, and the memory of chosen views."""

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from crl_tac_processes import M, batch, crl_tac, samples
from test_methods_crl_tac import crops, slow_projections, squares, steps
from torch import nn

from slow_info_max import series, slow_near, slow_sampled
from viewsmith.core import Batch
from viewsmith.losses.info_max import entropy, recurrence
from viewsmith.methods.crl_tac.channel import ChosenViews

NEAR = torch.eye(M, dtype=torch.bool) | torch.eye(M, dtype=torch.bool).roll(1, 0) | torch.eye(M).roll(1, 1).bool()


@pytest.mark.parametrize("step", ["exact", "sampled"])
def test_the_first_steps_have_positives_near_each_other(step):
    started = {"near": NEAR, "start_steps": 3, "encoder_step": step, "channel_step": step, "effective_target": 4.0}
    x, method, plain = samples(), crl_tac(**started), crl_tac(**started | {"start_steps": 0})
    both = steps(method)
    first, later = (dataclasses.replace(batch(x), step=number) for number in (2, 3))
    t = method.channel.draw(x, 3, batch().generator, NEAR)
    z, p = slow_projections(method, x), method.channel.log_p(x).exp()
    drawn = z.gather(1, t[..., None].expand(-1, -1, z.shape[2]))
    torch.testing.assert_close(
        both["encoder"].step(first)[0], -slow_sampled(drawn, torch.ones_like(drawn[..., 0]), 3.0)
    )
    h = entropy(p.log())
    expected = slow_near(z.detach(), p, NEAR, 0.5, series) + 0.1 * h - (math.log(4) - h).clamp_min(0) ** 2 / 2
    loss = both["channel"].step(dataclasses.replace(batch(x), step=2))[0]
    torch.testing.assert_close(loss, -expected)
    found = torch.autograd.grad(loss.sum(), both["channel"].parameters())
    for one, other in zip(found, torch.autograd.grad(-expected.sum(), both["channel"].parameters()), strict=True):
        torch.testing.assert_close(one, other)
    for name, update in both.items():  # afterwards, and in a uniform channel, as without a start
        again = dataclasses.replace(later, generator=batch().generator)
        assert torch.equal(update.step(again)[0], steps(plain)[name].step(batch(x))[0])
    uniform = [crl_tac(learned=False, **started | {"start_steps": number}) for number in (0, 3)]
    one, other = (steps(each)["encoder"].step(batch(x))[0] for each in uniform)
    assert torch.equal(one, other)


@pytest.mark.parametrize(("effective", "places", "warned"), [(1.2, 1.7, True), (1.2, 1.9, False), (1.3, 1.7, False)])
def test_crops_that_are_the_same_in_all_samples_are_reported(effective, places, warned):
    options = {"near": torch.eye(M, dtype=torch.bool), "effective_target": 1.0}
    rows = [{"effective": effective, "places": places}] * 3
    line = f"the channel selects the same crops in all samples: {effective} of 5 for one sample, {places} for all"
    method = crl_tac(**options)
    early, late = method.early_warnings(rows, 0.2), method.warnings(rows)
    assert list(early) == (["fixed"] if warned else []) and len(late) == warned
    assert all(each.startswith(line) for each in (*early.values(), *late))
    assert not method.early_warnings(rows, 0.1) and not method.early_warnings(rows[:2], 0.5)
    assert not crl_tac(effective_target=1.0).early_warnings(rows, 0.5)  # other transformations than crops


def test_a_channel_step_in_blocks_equals_one_in_one_pass(monkeypatch):
    x, generator = squares(24), torch.Generator()
    results = []
    for limit in (2**40, 64 * 64 * 5):
        monkeypatch.setattr("viewsmith.methods.crl_tac.transforms.MAX_PIXELS", limit)
        monkeypatch.setattr("viewsmith.methods.crl_tac.channel.VALUES", limit)
        method, sizes = crops(False, False), []
        real = method.encoder.dense
        method.encoder.dense = lambda x, real=real, sizes=sizes: sizes.append(len(x)) or real(x)
        nn.init.normal_(method.channel.scores.conv3.weight, generator=generator.manual_seed(0))
        with torch.no_grad():
            drawn = method.channel.draw(x, 3, generator.manual_seed(0))
        losses, _ = method.channel_step(Batch(x, torch.arange(24), generator))
        losses.mean().backward()
        results.append((drawn, losses.detach(), *(weight.grad for weight in method.channel.parameters())))
        assert sizes == ([24] if limit == 2**40 else [5, 5, 5, 5, 4])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


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
