"""The first steps of CRL-TAC, whose positives are near each other, and the warning of crops equal in all samples."""

import dataclasses
import math

import pytest
import torch
from crl_tac_processes import M, batch, crl_tac, samples
from test_methods_crl_tac import slow_projections, steps

from slow_info_max import series, slow_near, slow_sampled
from viewsmith.losses.info_max import entropy

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
