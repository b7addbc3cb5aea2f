"""Random streams that are derived from a seed and a path."""

import itertools

import torch

from viewsmith.core import derive_seed, stream
from viewsmith.core.tensors import global_streams


def test_seeds_have_fixed_values():
    # Fixed values: if they change, earlier runs cannot be resumed or replayed.
    assert derive_seed(0) == 893442142816765029
    assert derive_seed(0, "order", 0, 1) == 4718213686947116364
    assert derive_seed(7, "step", 2, 100, 1, 0) == 3957289914575470726


def test_different_paths_have_different_seeds():
    paths = [(), ("a",), ("a", "b"), ("ab",), ("a", 1), ("a", "1"), (1, "a"), (1,), ("1",), (11,), (1, 1), (0,), (-1,)]
    seeds = [derive_seed(seed, *path) for seed, path in itertools.product((0, 1, 2**31, 2**63), paths)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_streams_are_reproducible_and_do_not_change_the_global_stream():
    before = torch.get_rng_state()
    one, again, other = stream(0, "view", 3), stream(0, "view", 3), stream(0, "view", 4)
    draw = torch.randn(100, generator=one)
    assert torch.equal(draw, torch.randn(100, generator=again))
    assert not torch.equal(draw, torch.randn(100, generator=other))
    assert torch.equal(before, torch.get_rng_state())


def test_global_streams_are_those_of_a_seed_and_those_of_the_caller_come_back():
    before = torch.get_rng_state()
    with global_streams(7, torch.device("cpu")):
        drawn = torch.rand(3)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(drawn, torch.rand(3, generator=torch.Generator().manual_seed(7)))
