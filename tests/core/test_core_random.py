"""Addressed random streams."""

import itertools

import torch

from viewsmith.core import derive_seed, stream


def test_seeds_are_the_same_on_every_machine():
    # Written down once: a change here would break the resuming and replaying of every earlier run.
    assert derive_seed(0) == 893442142816765029
    assert derive_seed(0, "order", 0, 1) == 4718213686947116364
    assert derive_seed(7, "step", 2, 100, 1, 0) == 3957289914575470726


def test_every_address_has_a_seed_of_its_own():
    paths = [(), ("a",), ("a", "b"), ("ab",), ("a", 1), ("a", "1"), (1, "a"), (1,), ("1",), (11,), (1, 1), (0,), (-1,)]
    seeds = [derive_seed(seed, *path) for seed, path in itertools.product((0, 1, 2**31, 2**63), paths)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_streams_replay_and_leave_the_global_one_alone():
    before = torch.get_rng_state()
    one, again, other = stream(0, "view", 3), stream(0, "view", 3), stream(0, "view", 4)
    draw = torch.randn(100, generator=one)
    assert torch.equal(draw, torch.randn(100, generator=again))
    assert not torch.equal(draw, torch.randn(100, generator=other))
    assert torch.equal(before, torch.get_rng_state())
